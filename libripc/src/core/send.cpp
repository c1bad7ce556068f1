// SPDX-License-Identifier: Apache-2.0
// The sending half of a service: messages, one or many, those of short items, and notifications.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "core/sending.hpp"
#include "core/service.hpp"
#include "wire/packet.hpp"

namespace ripc::core {

namespace {

// Messages that are handed to a channel at once.
constexpr std::size_t kSendBatch = 64;

// Of a message of these items and nothing else.
std::size_t packet_size_of(std::span<const ripc_item> items) noexcept {
  std::size_t bytes = 0;
  for (const ripc_item& item : items) bytes += item.size;
  return wire::packet_size(items.size(), bytes);
}

bool has_given(std::span<const ripc_item> items) noexcept {
  return std::any_of(items.begin(), items.end(), [](const ripc_item& item) { return item.kind == RIPC_ITEM_GIVEN; });
}

bool has_long(std::span<const ripc_item> items) noexcept {
  return std::any_of(items.begin(), items.end(), [](const ripc_item& item) { return item.kind == RIPC_ITEM_LONG; });
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

Status too_large(std::size_t size, std::size_t limit) {
  return Status(RIPC_TOO_LARGE, "The short items make a packet of " + std::to_string(size) +
                                    " bytes; this peer takes " + std::to_string(limit) +
                                    ". Send the large items as RIPC_ITEM_AUTO or RIPC_ITEM_LONG, or give the receiving "
                                    "service a larger queue_bytes.");
}

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

// The channel by which a thread collects what it sends.
class Collecting {
 public:
  Collecting() = default;
  ~Collecting() { end(); }
  Collecting(const Collecting&) = delete;
  Collecting& operator=(const Collecting&) = delete;

  void begin(const std::shared_ptr<spi::Channel>& channel) noexcept {
    if (channel_ == channel) return;
    end();
    channel_ = channel;
    channel_->collect();
  }
  void end() noexcept {
    if (channel_) std::exchange(channel_, nullptr)->send_collected();
  }

 private:
  std::shared_ptr<spi::Channel> channel_;
};

Status Service::send_many(const SendArguments& each, std::span<const ripc_outgoing> messages,
                          std::span<std::shared_ptr<Ticket>> tickets, std::size_t& sent) {
  Collecting collecting;
  while (sent < messages.size()) {
    const ripc_outgoing& message = messages[sent];
    if (message.items == nullptr && message.count != 0)
      return Status(RIPC_INVALID_ARGUMENT, "A message has a count of items but no array.");
    SendArguments arguments = each;
    arguments.tag = message.tag;
    arguments.items = {message.items, message.count};
    if (!has_long(arguments.items)) {
      // Of which the channel makes few calls by itself.
      collecting.end();
      if (const std::size_t taken = send_batch(each.to, messages.subspan(sent)); taken != 0) {
        sent += taken;
        continue;
      }
    } else if (sent + 1 < messages.size() && !is_group(each.to)) {
      if (const auto channel = context_.channel_to(each.to, counters_.resolutions); channel.ok())
        collecting.begin(*channel);
    }
    // What stands in the way of this one is a matter of an ordinary send.
    Status status = send(arguments, tickets.empty() ? nullptr : &tickets[sent]);
    if (!status.ok()) return status;
    ++sent;
  }
  return {};
}

// How many of the first messages went; none also if the first is not plain, or its channel not known.
std::size_t Service::send_batch(ripc_service_id to, std::span<const ripc_outgoing> messages) noexcept {
  if (usable() != RIPC_OK) return 0;
  std::array<wire::Plain, kSendBatch> batch;
  std::size_t count = 0;
  for (const ripc_outgoing& message : messages.first(std::min(messages.size(), kSendBatch))) {
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
  const std::uint64_t wakes = thread.wakes;
  (void)(*channel)->send_many(std::span(batch).first(count), sent);
  for (std::size_t index = 0; index < sent; ++index) count_sent(thread, batch[index].bytes);
  count_wakes(thread, wakes);
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
  bool copied = true;
  const std::uint64_t wakes = thread.wakes;
  const ripc_status status = channel.send_given(message, copied);
  if (status == RIPC_OK && copied) count_sent(thread, message.bytes);
  if (status == RIPC_OK && !copied) {
    counters_.other_messages_sent.fetch_add(1, std::memory_order_relaxed);
    counters_.short_bytes_sent.fetch_add(message.bytes, std::memory_order_relaxed);
  }
  count_wakes(thread, wakes);
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

Result<std::size_t> Service::short_limit(ripc_service_id to, std::size_t items) {
  if (const ripc_status status = usable(); status != RIPC_OK) return status;
  if (items > RIPC_MAX_ITEMS) return Status(RIPC_INVALID_ARGUMENT, "A message has at most 64 items.");
  if (is_group(to)) return group_short_limit(to, items);
  Result<std::shared_ptr<spi::Channel>> channel = context_.channel_to(to, counters_.resolutions);
  if (!channel.ok()) return channel.status();
  return (*channel)->packet_limit() - wire::packet_size(items, 0);
}

}  // namespace ripc::core
