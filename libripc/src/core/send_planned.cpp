// SPDX-License-Identifier: Apache-2.0
// The sending half of a service, of messages with more than short items: long ones, return buffers, and replies to what
// has them.
#include <array>
#include <bitset>
#include <string>
#include <thread>
#include <vector>

#include "core/sending.hpp"
#include "core/service.hpp"
#include "wire/packet.hpp"

namespace ripc::core {

namespace {

// A peer that is writing into a return buffer moves at memory speed; one that is stopped does not move.
constexpr Nanoseconds kWritePatience = 2'000'000'000;

// The channel that had no room for the last copies that this thread made. A sender that tries again and again makes no
// others before there is room.
thread_local const spi::Channel* refused_copies = nullptr;

}  // namespace

// How each item travels, and what was prepared for it. Kept over attempts with different channels.
struct Service::Outgoing {
  enum class Way : std::uint8_t { payload, exposed, returned, directed };
  std::array<Way, RIPC_MAX_ITEMS> ways;
  std::vector<memory::Hold> holds;  // one for each exposed or directed item, in order
  std::vector<spi::Exposure> exposures;
  std::vector<spi::Bytes> ranges;
  bool has_copies = false;  // of memory that is the caller's again when the call returns

  bool is_pulled(std::size_t index) const noexcept {
    return ways[index] == Way::exposed || ways[index] == Way::directed;
  }
  Status plan(const SendArguments& arguments, std::size_t limit);
};

// Which items travel in a packet of at most `limit` bytes: AUTO ones leave it, the largest first, until it fits.
Status Service::Outgoing::plan(const SendArguments& arguments, std::size_t limit) {
  const std::span<const ripc_item> items = arguments.items;
  const std::size_t entries = items.size() + arguments.returns.size() + 1;
  std::size_t body = arguments.returns.size() * wire::kGrantSize + sizeof(std::uint64_t);
  for (std::size_t index = 0; index < items.size(); ++index) {
    const auto& [data, size, kind, return_index] = items[index];
    const bool is_long = kind == RIPC_ITEM_LONG || (kind == RIPC_ITEM_AUTO && size > limit);
    ways[index] = is_long ? Way::exposed : Way::payload;
    body += is_long ? wire::kDescriptorSize : kind == RIPC_ITEM_RETURN ? wire::kDirectedSize : size;
  }
  while (wire::packet_size(entries, body) > limit) {
    const ripc_item* largest = nullptr;
    for (std::size_t index = 0; index < items.size(); ++index) {
      const ripc_item& item = items[index];
      if (item.kind == RIPC_ITEM_AUTO && ways[index] == Way::payload && item.size > wire::kDescriptorSize &&
          (largest == nullptr || item.size >= largest->size))
        largest = &item;
    }
    if (largest == nullptr) return too_large(wire::packet_size(entries, body), limit);
    ways[static_cast<std::size_t>(largest - items.data())] = Way::exposed;
    body -= largest->size - wire::kDescriptorSize;
  }
  return {};
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
  Outgoing outgoing;
  Result<std::shared_ptr<spi::Channel>> channel = context_.channel_to(arguments.to, counters_.resolutions);
  if (!channel.ok()) return channel.status();

  if (Status planned = outgoing.plan(arguments, (*channel)->packet_limit()); !planned.ok()) return planned;
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

// Memory that the peer reads after the call: lent by the caller, if somebody is told when the loan ends, else a copy.
Result<memory::Hold> Service::memory_of(const ripc_item& item, bool is_told) {
  memory::Pool& pool = context_.pool();
  if (item.kind != RIPC_ITEM_LONG && item.size != 0) {
    Result<memory::Hold> copied = pool.copy(bytes_of(item));
    if (copied.status().code() == RIPC_NO_MEMORY) {
      // Of messages that have ended, and nobody has looked.
      context_.tickets().look();
      copied = pool.copy(bytes_of(item));
    }
    if (copied.status().code() == RIPC_NO_MEMORY)
      return Status(RIPC_NO_MEMORY, std::string(copied.status().text()) +
                                        " What does not fit into a packet travels as a copy: to do without, send it as "
                                        "RIPC_ITEM_LONG.");
    if (copied.ok()) counters_.send_copies.fetch_add(1, std::memory_order_relaxed);
    return copied;
  }
  Result<memory::Hold> lent = pool.hold(item.data, item.size);
  if (lent.ok() && !is_told && item.size != 0 && lent->arena() == nullptr && !pool.find(item.data).ok())
    return Status(RIPC_INVALID_ARGUMENT,
                  "Nothing would tell when the memory of a RIPC_ITEM_LONG is the caller's again: ask for the ticket or "
                  "set a callback, lease or register the memory, or send a copy of it with RIPC_ITEM_AUTO.");
  return lent;
}

Status Service::send_prepared(const SendArguments& arguments, Outgoing& outgoing, std::shared_ptr<spi::Channel> channel,
                              std::shared_ptr<Ticket>* ticket) {
  for (std::size_t index = 0; index < arguments.items.size(); ++index) {
    if (outgoing.is_pulled(index) && arguments.items[index].kind != RIPC_ITEM_LONG) outgoing.has_copies = true;
  }
  if (outgoing.has_copies && refused_copies == channel.get() && !channel->has_room()) {
    counters_.again.fetch_add(1, std::memory_order_relaxed);
    return RIPC_AGAIN;
  }
  const bool is_told = ticket != nullptr || arguments.callback != nullptr;
  for (std::size_t index = 0; index < arguments.items.size(); ++index) {
    if (!outgoing.is_pulled(index)) continue;
    const ripc_item& item = arguments.items[index];
    Result<memory::Hold> hold = memory_of(item, is_told);
    if (!hold.ok()) return hold.status();
    const memory::Arena* arena = hold->arena();
    outgoing.ranges.push_back(arena == nullptr ? bytes_of(item) : spi::Bytes(arena->base + hold->offset(), item.size));
    outgoing.holds.push_back(std::move(*hold));
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
    if (outgoing.has_copies) refused_copies = status == RIPC_AGAIN ? channel.get() : nullptr;
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
  const ThreadEpoch::Record& thread = ThreadEpoch::current();
  const std::uint64_t wakes = thread.wakes;
  const ripc_status status =
      offer.is_exposed ? channel.send_telling(offer.transfer, encoder.finish()) : channel.send(encoder.finish());
  if (status != RIPC_OK) return status;
  (short_bytes != 0 ? counters_.payload_messages_sent : counters_.other_messages_sent)
      .fetch_add(1, std::memory_order_relaxed);
  counters_.short_bytes_sent.fetch_add(short_bytes, std::memory_order_relaxed);
  counters_.long_items_sent.fetch_add(next, std::memory_order_relaxed);
  counters_.items_returned.fetch_add(returned, std::memory_order_relaxed);
  count_wakes(thread, wakes);
  return RIPC_OK;
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

}  // namespace ripc::core
