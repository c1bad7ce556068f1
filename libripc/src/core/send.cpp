// SPDX-License-Identifier: Apache-2.0
// The sending half of a service.
#include <algorithm>
#include <array>
#include <bitset>
#include <thread>

#include "core/sending.hpp"
#include "core/service.hpp"
#include "wire/packet.hpp"

namespace ripc::core {

namespace {

// How often a send that meets a dead peer looks for its successor.
constexpr int kAttempts = 3;
// Messages that are handed to a channel at once.
constexpr std::size_t kSendBatch = 64;
// A peer that is writing into a return buffer moves at memory speed; one that is stopped does not move.
constexpr Nanoseconds kWritePatience = 2'000'000'000;

spi::Bytes bytes_of(const ripc_item& item) noexcept { return {static_cast<const std::byte*>(item.data), item.size}; }

Status too_large(std::size_t size, std::size_t limit) {
  return Status(RIPC_TOO_LARGE, "The short items make a packet of " + std::to_string(size) +
                                    " bytes; this peer takes " + std::to_string(limit) +
                                    ". Send the large items as RIPC_ITEM_LONG, or give the receiving service a larger "
                                    "queue_bytes.");
}

// Of a message of these items and nothing else.
std::size_t packet_size_of(std::span<const ripc_item> items) noexcept {
  std::size_t bytes = 0;
  for (const ripc_item& item : items) bytes += item.size;
  return wire::packet_size(items.size(), bytes);
}

bool has_given(std::span<const ripc_item> items) noexcept {
  return std::any_of(items.begin(), items.end(), [](const ripc_item& item) { return item.kind == RIPC_ITEM_GIVEN; });
}

// Whether some item may travel long instead.
bool has_auto(std::span<const ripc_item> items) noexcept {
  return std::any_of(items.begin(), items.end(),
                     [](const ripc_item& item) { return item.kind == RIPC_ITEM_AUTO && item.size != 0; });
}

Status check(const SendArguments& arguments) {
  if (arguments.items.size() > RIPC_MAX_ITEMS)
    return Status(RIPC_INVALID_ARGUMENT, "A message has at most 64 items: join some of them.");
  if (arguments.returns.size() > RIPC_MAX_RETURNS)
    return Status(RIPC_INVALID_ARGUMENT, "A message has at most 16 return buffers.");
  if (arguments.to == 0) return Status(RIPC_INVALID_ARGUMENT, "0 is never a service ID.");
  for (const ripc_item& item : arguments.items) {
    if (item.data == nullptr && item.size != 0) return Status(RIPC_INVALID_ARGUMENT, "An item has a size but no data.");
    if (item.kind > RIPC_ITEM_GIVEN) return Status(RIPC_INVALID_ARGUMENT, "An item has an unknown kind.");
    if (item.kind == RIPC_ITEM_RETURN && arguments.reply_to == nullptr)
      return Status(RIPC_INVALID_ARGUMENT, "RIPC_ITEM_RETURN is for ripc_reply(): only a request has return buffers.");
  }
  for (const ripc_return_buffer& buffer : arguments.returns) {
    if (buffer.data == nullptr && buffer.size != 0)
      return Status(RIPC_INVALID_ARGUMENT, "A return buffer has a size but no data.");
  }
  return {};
}

}  // namespace

// How each item travels, and what was prepared for it. Kept over attempts with different channels.
struct Service::Outgoing {
  enum class Way : std::uint8_t { payload, exposed, returned, directed };
  std::array<Way, RIPC_MAX_ITEMS> ways;
  std::vector<memory::Hold> holds;  // one for each exposed or directed item, in order
  std::vector<spi::Exposure> exposures;
  std::vector<spi::Bytes> ranges;
};

Status Service::send(const SendArguments& arguments, std::shared_ptr<Ticket>* ticket) {
  if (arguments.request_id != nullptr) *arguments.request_id = 0;
  if (const ripc_status status = usable(); status != RIPC_OK) [[unlikely]]
    return status;
  Status checked = check(arguments);
  if (!checked.ok()) [[unlikely]]
    return checked;
  if (!has_given(arguments.items)) return send_held(arguments, ticket);
  return send_given(arguments, [&](const SendArguments& holding) { return send_held(holding, ticket); });
}

// By send(), what is given as short items in leases that are held. The holds are what a transport adds its own to, and
// what says which leases end: each once, and none that another thread has got meanwhile.
template <typename Send>
Status Service::send_given(const SendArguments& arguments, Send&& send) {
  std::array<ripc_item, RIPC_MAX_ITEMS> items;
  std::array<memory::Hold, RIPC_MAX_ITEMS> holds;
  std::copy(arguments.items.begin(), arguments.items.end(), items.begin());
  std::size_t held = 0;
  for (ripc_item& item : std::span(items).first(arguments.items.size())) {
    if (item.kind != RIPC_ITEM_GIVEN) continue;
    Result<memory::Hold> hold = context_.pool().hold(item.data, item.size);
    if (!hold.ok()) return hold.status();
    if (hold->arena() == nullptr)
      return Status(RIPC_INVALID_ARGUMENT, "An item that is given must lie in a leased buffer: send it as short.");
    holds[held++] = std::move(*hold);
    item.kind = RIPC_ITEM_SHORT;
  }
  SendArguments holding = arguments;
  holding.items = std::span(items).first(arguments.items.size());
  holding.holds_leases = true;
  Status status = send(holding);
  if (status.ok()) {
    for (const memory::Hold& hold : std::span(holds).first(held)) context_.pool().release(hold);
  }
  return status;
}

Status Service::send_held(const SendArguments& arguments, std::shared_ptr<Ticket>* ticket) {
  if (is_group(arguments.to)) [[unlikely]]
    return send_to_group(arguments);
  const bool plain = arguments.returns.empty() && (arguments.reply_to == nullptr || arguments.reply_to->request == 0) &&
                     std::all_of(arguments.items.begin(), arguments.items.end(),
                                 [](const ripc_item& item) { return item.kind <= RIPC_ITEM_SHORT; });
  if (plain) {
    bool fits = true;
    Status status = send_plain(arguments, fits);
    if (fits) return status;
  }
  return send_planned(arguments, ticket);
}

Status Service::send_many(ripc_service_id to, std::span<const ripc_short_message> messages, std::size_t& sent) {
  while (sent < messages.size()) {
    if (const std::size_t taken = send_batch(to, messages.subspan(sent)); taken != 0) {
      sent += taken;
      continue;
    }
    // What stands in the way of this one is a matter of an ordinary send.
    const ripc_short_message& message = messages[sent];
    if (message.items == nullptr && message.count != 0)
      return Status(RIPC_INVALID_ARGUMENT, "A message has a count of items but no array.");
    SendArguments arguments;
    arguments.to = to;
    arguments.tag = message.tag;
    arguments.items = {message.items, message.count};
    if (const ripc_status status = usable(); status != RIPC_OK) return status;
    Status status = send_one_of_many(arguments);
    if (!status.ok()) return status;
    ++sent;
  }
  return {};
}

Status Service::send_one_of_many(const SendArguments& arguments) {
  Status checked = check(arguments);
  if (!checked.ok()) return checked;
  if (std::any_of(arguments.items.begin(), arguments.items.end(),
                  [](const ripc_item& item) { return item.kind == RIPC_ITEM_LONG || item.kind == RIPC_ITEM_RETURN; }))
    return Status(RIPC_INVALID_ARGUMENT, "ripc_send_many() sends short items only: send the others by ripc_send().");
  if (is_group(arguments.to)) return send(arguments, nullptr);
  const auto send_short = [this](const SendArguments& message) {
    bool fits = true;
    Status status = send_plain(message, fits);
    if (fits) return status;
    return Status(RIPC_TOO_LARGE,
                  "A message does not fit into a packet for this peer: send it by ripc_send(), which makes large "
                  "items long.");
  };
  return has_given(arguments.items) ? send_given(arguments, send_short) : send_short(arguments);
}

// How many of the first messages went; none also if the first is not plain, or its channel not known.
std::size_t Service::send_batch(ripc_service_id to, std::span<const ripc_short_message> messages) noexcept {
  if (usable() != RIPC_OK) return 0;
  std::array<wire::Plain, kSendBatch> batch;
  std::size_t count = 0;
  for (const ripc_short_message& message : messages.first(std::min(messages.size(), kSendBatch))) {
    if ((message.items == nullptr && message.count != 0) ||
        !describe({message.items, message.count}, message.tag, batch[count]))
      break;
    ++count;
  }
  ThreadEpoch::Record& thread = ThreadEpoch::current();
  const ThreadEpoch::Section section(thread);
  const std::shared_ptr<spi::Channel>* channel = count != 0 ? context_.routes().find(to) : nullptr;
  if (channel == nullptr) return 0;
  std::size_t sent = 0;
  bool woke = false;
  (void)(*channel)->send_many(std::span(batch).first(count), sent, woke);
  for (std::size_t index = 0; index < sent; ++index) count_sent(thread, batch[index].bytes);
  if (woke) counters_.wakes_sent.fetch_add(1, std::memory_order_relaxed);
  return sent;
}

Status Service::send_plain(const SendArguments& arguments, bool& fits) {
  wire::Plain message;
  const bool encodable = describe(arguments.items, arguments.tag, message);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::shared_ptr<spi::Channel> lost;
    {
      ThreadEpoch::Record& record = ThreadEpoch::current();
      const ThreadEpoch::Section section(record);
      if (const std::shared_ptr<spi::Channel>* channel = context_.routes().find(arguments.to)) {
        if (!encodable || message.packet_size() > (*channel)->packet_limit()) [[unlikely]] {
          fits = !has_auto(arguments.items);
          return fits ? too_large(packet_size_of(arguments.items), (*channel)->packet_limit()) : Status();
        }
        const ripc_status status =
            arguments.holds_leases ? send_given_by(**channel, message, record) : send_by(**channel, message, record);
        if (!is_gone(status)) return status;
        lost = *channel;
      }
    }
    if (lost) context_.drop_channel(*lost);
    Result<std::shared_ptr<spi::Channel>> found = context_.channel_to(arguments.to, counters_.resolutions);
    if (!found.ok()) return found.status();
  }
  return RIPC_PEER_DEAD;
}

ripc_status Service::send_given_by(spi::Channel& channel, const wire::Plain& message,
                                   const ThreadEpoch::Record& thread) noexcept {
  bool woke = false;
  bool copied = true;
  const ripc_status status = channel.send_given(message, woke, copied);
  if (status == RIPC_OK && copied) count_sent(thread, message.bytes);
  if (status == RIPC_OK && !copied) {
    counters_.other_messages_sent.fetch_add(1, std::memory_order_relaxed);
    counters_.short_bytes_sent.fetch_add(message.bytes, std::memory_order_relaxed);
  }
  if (woke) counters_.wakes_sent.fetch_add(1, std::memory_order_relaxed);
  if (status == RIPC_AGAIN) counters_.again.fetch_add(1, std::memory_order_relaxed);
  return status;
}

void Service::count_sent_first(const ThreadEpoch::Record& thread, std::size_t bytes) noexcept {
  const ThreadEpoch::Record* main = nullptr;
  if (main_sender_.compare_exchange_strong(main, &thread, std::memory_order_relaxed)) return count_sent(thread, bytes);
  (bytes == 0 ? counters_.other_messages_sent : counters_.payload_messages_sent)
      .fetch_add(1, std::memory_order_relaxed);
  counters_.short_bytes_sent.fetch_add(bytes, std::memory_order_relaxed);
}

// Writes what the reply returns, and decides how each item of it travels.
void Service::push_returns(const SendArguments& arguments, Outgoing& outgoing, bool may_write) {
  using Way = Outgoing::Way;
  const Message::Attachments* attachments = arguments.reply_to->attachments.get();
  std::bitset<RIPC_MAX_RETURNS> used;
  for (std::size_t index = 0; index < arguments.items.size(); ++index) {
    const ripc_item& item = arguments.items[index];
    if (item.kind != RIPC_ITEM_RETURN) continue;
    outgoing.ways[index] = Way::exposed;
    const std::uint32_t target = item.return_index;
    if (!may_write || target >= attachments->grants.size() || used[target]) continue;
    const wire::Grant& grant = attachments->grants[target];
    if (item.size > grant.length) continue;
    const ripc_status status = attachments->source->push(grant, bytes_of(item));
    if (status == RIPC_OK) {
      outgoing.ways[index] = Way::returned;
      used.set(target);
    } else if (status == RIPC_UNSUPPORTED) {
      outgoing.ways[index] = Way::directed;
      used.set(target);
    }
  }
}

Status Service::send_planned(const SendArguments& arguments, std::shared_ptr<Ticket>* ticket) {
  using Way = Outgoing::Way;
  Outgoing outgoing;
  Result<std::shared_ptr<spi::Channel>> channel = context_.channel_to(arguments.to, counters_.resolutions);
  if (!channel.ok()) return channel.status();

  std::size_t entries = arguments.items.size() + arguments.returns.size() + 1;
  std::size_t body = arguments.returns.size() * wire::kGrantSize + sizeof(std::uint64_t);
  for (std::size_t index = 0; index < arguments.items.size(); ++index) {
    const ripc_item& item = arguments.items[index];
    outgoing.ways[index] = item.kind == RIPC_ITEM_LONG ? Way::exposed : Way::payload;
    body += item.kind == RIPC_ITEM_LONG     ? wire::kDescriptorSize
            : item.kind == RIPC_ITEM_RETURN ? wire::kDirectedSize
                                            : item.size;
  }
  if (wire::packet_size(entries, body) > (*channel)->packet_limit()) {
    if (!has_auto(arguments.items)) return too_large(wire::packet_size(entries, body), (*channel)->packet_limit());
    for (std::size_t index = 0; index < arguments.items.size(); ++index) {
      const ripc_item& item = arguments.items[index];
      if (item.kind == RIPC_ITEM_AUTO && item.size != 0) outgoing.ways[index] = Way::exposed;
    }
  }
  if (arguments.reply_to == nullptr || arguments.reply_to->request == 0) {
    if (arguments.reply_to != nullptr) push_returns(arguments, outgoing, false);
    return send_prepared(arguments, outgoing, std::move(*channel), ticket);
  }
  // One reply at a time. If it is not sent, it may be sent again, and written anew.
  struct Turn {
    explicit Turn(Message::Attachments* of) noexcept
        : attachments(of), is_first(of != nullptr && !of->replied.exchange(true, std::memory_order_acq_rel)) {}
    ~Turn() {
      if (is_first && !sent) attachments->replied.store(false, std::memory_order_release);
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    Message::Attachments* attachments;
    bool is_first;
    bool sent = false;
  } turn(arguments.reply_to->attachments.get());
  push_returns(arguments, outgoing, turn.is_first);
  Status status = send_prepared(arguments, outgoing, std::move(*channel), ticket);
  turn.sent = status.ok();
  return status;
}

Status Service::send_prepared(const SendArguments& arguments, Outgoing& outgoing, std::shared_ptr<spi::Channel> channel,
                              std::shared_ptr<Ticket>* ticket) {
  using Way = Outgoing::Way;
  for (std::size_t index = 0; index < arguments.items.size(); ++index) {
    if (outgoing.ways[index] != Way::exposed && outgoing.ways[index] != Way::directed) continue;
    Result<memory::Hold> hold = context_.pool().hold(arguments.items[index].data, arguments.items[index].size);
    if (!hold.ok()) return hold.status();
    outgoing.holds.push_back(std::move(*hold));
    outgoing.ranges.push_back(bytes_of(arguments.items[index]));
  }
  for (std::size_t index = 0; index < outgoing.holds.size(); ++index) {
    outgoing.exposures.push_back({outgoing.ranges[index], &outgoing.holds[index]});
  }
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (attempt > 0) {
      Result<std::shared_ptr<spi::Channel>> found = context_.channel_to(arguments.to, counters_.resolutions);
      if (!found.ok()) return found.status();
      channel = std::move(*found);
    }
    Status status = transmit(arguments, outgoing, channel, ticket);
    if (!is_gone(status.code())) return status;
    context_.drop_channel(*channel);
  }
  return RIPC_PEER_DEAD;
}

// What one attempt has let the peer do. Taken back, unless the message was sent.
struct Service::Offer {
  Offer(Service& owner, const std::shared_ptr<spi::Channel>& to_channel, ripc_service_id to)
      : service(owner), request{.channel = to_channel, .to = to, .grants = {}, .buffers = {}} {}
  ~Offer() {
    if (sent) return;
    if (request_id != 0) (void)service.requests_.take(request_id);
    for (const wire::Grant& grant : request.grants) (void)request.channel->end_grant(grant);
    if (is_exposed) (void)request.channel->revoke(transfer);
  }
  Offer(const Offer&) = delete;
  Offer& operator=(const Offer&) = delete;

  ripc_status expose(std::span<const spi::Exposure> exposures, std::span<wire::Descriptor> descriptors) {
    if (exposures.empty()) return RIPC_OK;
    const ripc_status status = request.channel->expose(exposures, descriptors, transfer);
    is_exposed = status == RIPC_OK;
    return status;
  }
  ripc_status grant(std::span<const ripc_return_buffer> returns) {
    request.grants.reserve(returns.size());
    request.buffers.assign(returns.begin(), returns.end());
    for (const ripc_return_buffer& buffer : returns) {
      wire::Grant made{};
      const ripc_status status = request.channel->grant({static_cast<std::byte*>(buffer.data), buffer.size}, made);
      if (status != RIPC_OK) return status;
      request.grants.push_back(made);
    }
    // The reply may come before the send returns: the request must be known by then.
    if (!returns.empty()) request_id = service.requests_.add(request);
    return RIPC_OK;
  }

  Service& service;
  Request request;
  std::uint64_t request_id = 0;
  std::uint64_t transfer = 0;
  bool is_exposed = false;
  bool sent = false;
};

Status Service::transmit(const SendArguments& arguments, Outgoing& outgoing,
                         const std::shared_ptr<spi::Channel>& channel, std::shared_ptr<Ticket>* ticket) {
  std::array<wire::Descriptor, RIPC_MAX_ITEMS> descriptors;
  const std::size_t exposed = outgoing.exposures.size();
  Offer offer(*this, channel, arguments.to);
  ripc_status status = offer.expose(outgoing.exposures, std::span(descriptors).first(exposed));
  if (status == RIPC_OK) status = offer.grant(arguments.returns);
  TicketKeeper::Prepared prepared;
  if (status == RIPC_OK && exposed != 0) {
    prepared = context_.tickets().prepare({.channel = channel,
                                           .transfer = offer.transfer,
                                           .sender = this,
                                           .deadline = Deadline::after(arguments.timeout).at(),
                                           .callback = arguments.callback,
                                           .user = arguments.user});
  }
  if (status == RIPC_OK) status = transmit_packet(arguments, outgoing, descriptors, offer);
  if (status != RIPC_OK) {
    if (status == RIPC_AGAIN) counters_.again.fetch_add(1, std::memory_order_relaxed);
    return status;
  }
  // It is sent: nothing fails from here on.
  offer.sent = true;
  if (arguments.request_id != nullptr) *arguments.request_id = offer.request_id;
  if (exposed == 0) return {};
  std::shared_ptr<Ticket> opened =
      context_.tickets().open(std::move(prepared), std::move(outgoing.holds), std::move(outgoing.ranges));
  if (ticket != nullptr) *ticket = std::move(opened);
  return {};
}

ripc_status Service::transmit_packet(const SendArguments& arguments, const Outgoing& outgoing,
                                     std::span<const wire::Descriptor> descriptors, const Offer& offer) noexcept {
  using Way = Outgoing::Way;
  wire::Encoder encoder(wire::PacketKind::message, arguments.tag, id());
  std::size_t next = 0;
  std::size_t short_bytes = 0;
  std::size_t returned = 0;
  bool encodable = true;
  for (std::size_t index = 0; index < arguments.items.size(); ++index) {
    const ripc_item& item = arguments.items[index];
    switch (outgoing.ways[index]) {
      case Way::payload:
        encodable = encoder.add_payload(bytes_of(item)) && encodable;
        short_bytes += item.size;
        break;
      case Way::exposed:
        encodable = encoder.add(descriptors[next++]) && encodable;
        break;
      case Way::returned:
        encodable = encoder.add(wire::Returned{item.return_index, item.size}) && encodable;
        ++returned;
        break;
      case Way::directed:
        encodable = encoder.add(wire::Directed{item.return_index, descriptors[next++]}) && encodable;
        break;
    }
  }
  if (offer.request_id != 0) {
    encoder.add_request(offer.request_id);
    for (const wire::Grant& grant : offer.request.grants) encoder.add(grant);
  }
  if (arguments.reply_to != nullptr && arguments.reply_to->request != 0) encoder.add_reply(arguments.reply_to->request);
  spi::Channel& channel = *offer.request.channel;
  if (!encodable || encoder.size() > channel.packet_limit()) return RIPC_TOO_LARGE;
  bool woke = false;
  const ripc_status status = offer.is_exposed ? channel.send_telling(offer.transfer, encoder.finish(), woke)
                                              : channel.send(encoder.finish(), woke);
  if (status != RIPC_OK) return status;
  (short_bytes != 0 ? counters_.payload_messages_sent : counters_.other_messages_sent)
      .fetch_add(1, std::memory_order_relaxed);
  counters_.short_bytes_sent.fetch_add(short_bytes, std::memory_order_relaxed);
  counters_.long_items_sent.fetch_add(next, std::memory_order_relaxed);
  counters_.items_returned.fetch_add(returned, std::memory_order_relaxed);
  if (woke) counters_.wakes_sent.fetch_add(1, std::memory_order_relaxed);
  return RIPC_OK;
}

Status Service::notify(ripc_service_id to, std::uint64_t handle, std::span<const ripc_item> items) {
  if (const ripc_status status = usable(); status != RIPC_OK) return status;
  SendArguments arguments;
  arguments.to = to;
  arguments.items = items;
  Status checked = check(arguments);
  if (!checked.ok()) return checked;
  if (is_group(to))
    return Status(RIPC_INVALID_ARGUMENT, "A notification runs a callback of one service, not of a group.");
  wire::Encoder encoder(wire::PacketKind::notification, 0, id());
  bool encodable = encoder.add_handle(handle);
  for (const ripc_item& item : items) {
    if (item.kind > RIPC_ITEM_SHORT) return Status(RIPC_INVALID_ARGUMENT, "A notification carries short items only.");
    encodable = encoder.add_payload(bytes_of(item)) && encodable;
  }
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Result<std::shared_ptr<spi::Channel>> channel = context_.channel_to(to, counters_.resolutions);
    if (!channel.ok()) return channel.status();
    if (!encodable || encoder.size() > (*channel)->packet_limit() + spi::kControlAllowance)
      return too_large(encoder.size(), (*channel)->packet_limit() + spi::kControlAllowance);
    const ripc_status status = (*channel)->send_control(encoder.finish());
    if (status == RIPC_OK) counters_.notifications_sent.fetch_add(1, std::memory_order_relaxed);
    if (status == RIPC_AGAIN) counters_.again.fetch_add(1, std::memory_order_relaxed);
    if (!is_gone(status)) return status;
    context_.drop_channel(**channel);
  }
  return RIPC_PEER_DEAD;
}

Status Service::cancel_request(std::uint64_t id) {
  RequestTable::Taken taken = requests_.take(id);
  if (taken.empty()) {
    if (cancel_answer(id)) return {};
    return Status(RIPC_INVALID_ARGUMENT,
                  "There is no such request: it was answered or cancelled before, or never made.");
  }
  const Deadline deadline = Deadline::after(kWritePatience);
  Request& request = taken.mapped();
  for (const wire::Grant& grant : request.grants) {
    while (request.channel->end_grant(grant) == RIPC_PENDING) {
      if (deadline.expired()) {
        request.cancelling = true;
        requests_.put_back(std::move(taken));
        return Status(
            RIPC_TIMEOUT,
            "The peer is writing into a return buffer and does not finish; is it stopped? The buffers stay the "
            "library's: cancel again when it runs or is dead.");
      }
      std::this_thread::yield();
    }
  }
  return {};
}

Result<std::size_t> Service::short_limit(ripc_service_id to, std::size_t items) {
  if (const ripc_status status = usable(); status != RIPC_OK) return status;
  if (items > RIPC_MAX_ITEMS) return Status(RIPC_INVALID_ARGUMENT, "A message has at most 64 items.");
  if (is_group(to)) return group_short_limit(to, items);
  Result<std::shared_ptr<spi::Channel>> channel = context_.channel_to(to, counters_.resolutions);
  if (!channel.ok()) return channel.status();
  return (*channel)->packet_limit() - wire::packet_size(items, 0);
}

}  // namespace ripc::core
