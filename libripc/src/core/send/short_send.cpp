// SPDX-License-Identifier: Apache-2.0
#include "core/send/short_send.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "wire/packet.hpp"

namespace ripc::internal::core {

namespace {

// Messages that are handed to a channel at once.
constexpr std::size_t kSendBatch = 64;
// The largest packet of a notification on any path: it goes through the responders, which others also wait for.
constexpr std::size_t kMaxNotification = std::size_t{60} << 10;
constexpr std::string_view kSendMessage =
    "Send what is larger in a message, with ripc_send(), and let the notification say that it was sent.";

}  // namespace

Status ShortSend::send(const SendArguments& arguments, bool& fits) {
  wire::Plain message;
  const bool encodable = make_plain(id_, arguments.items, arguments.tag, message);
  const std::size_t size = message.packet_size();
  ripc_status status = RIPC_PEER_DEAD;
  for (int gone = 0, narrow = 0; gone < kAttempts && narrow < kAttempts;) {
    std::shared_ptr<spi::Channel> failed;
    {
      ThreadEpoch::Record& thread = ThreadEpoch::current();
      const ThreadEpoch::Section section(thread);
      if (const std::shared_ptr<spi::Channel>* channel = paths_.routes().find(arguments.to)) {
        const std::size_t limit = (*channel)->packet_limit();
        if (!encodable || size > std::min(limit, arguments.auto_limit)) [[unlikely]] {
          // Whether no item may travel long.
          fits = std::ranges::none_of(
              arguments.items, [](const ripc_item& item) { return item.kind == RIPC_ITEM_AUTO && item.size != 0; });
          if (!fits) return {};
          if (!encodable || size > limit) return too_large(arguments.items, limit);
        }
        status = arguments.holds_leases ? send_given_by(**channel, message, thread)
                                        : send_by(**channel, {.message = message}, thread);
        if (status != RIPC_TOO_LARGE && !is_gone(status)) [[likely]]
          return status;
        failed = *channel;
      }
    }
    if (failed && status == RIPC_TOO_LARGE) {
      ++narrow;
      const ripc_status wide = arguments.never_waits ? failed->begin_to_widen(size) : failed->widen(size);
      if (wide == RIPC_PENDING) return wide;
      if (is_gone(wide)) status = wide;
    } else {
      ++gone;
    }
    if (failed && is_gone(status)) paths_.drop(*failed);
    if (arguments.never_waits) {
      if (paths_.known_channel(arguments.to) == nullptr) return RIPC_PENDING;
      continue;
    }
    Result<std::shared_ptr<spi::Channel>> found = paths_.channel_to(arguments.to, counters_.resolutions);
    if (!found.ok()) return found.status();
  }
  return status == RIPC_TOO_LARGE ? status : RIPC_PEER_DEAD;
}

ripc_status ShortSend::send_given_by(spi::Channel& channel, const wire::Plain& message,
                                     const ThreadEpoch::Record& thread) noexcept {
  bool copied = true;
  const std::uint64_t wakes = thread.wakes;
  const ripc_status status = channel.send({.kind = spi::Outgoing::Kind::given, .message = message, .copied = &copied});
  if (status == RIPC_OK && copied) counters_.count_plain(thread, message.bytes);
  if (status == RIPC_OK && !copied) counters_.count_other(message.bytes, false);
  counters_.count_wakes(thread, wakes);
  return counters_.count_again(status);
}

std::size_t ShortSend::send_batch(ripc_service_id to, std::span<const ripc_outgoing> messages) noexcept {
  std::array<wire::Plain, kSendBatch> batch;
  std::size_t count = 0;
  for (const ripc_outgoing& message : messages.first(std::min(messages.size(), kSendBatch))) {
    if ((message.items == nullptr && message.count != 0) ||
        !make_plain(id_, {message.items, message.count}, message.tag, batch[count]))
      break;
    ++count;
  }
  ThreadEpoch::Record& thread = ThreadEpoch::current();
  const ThreadEpoch::Section section(thread);
  const std::shared_ptr<spi::Channel>* channel = count != 0 ? paths_.routes().find(to) : nullptr;
  if (channel == nullptr) return 0;
  std::size_t sent = 0;
  const std::uint64_t wakes = thread.wakes;
  (void)(*channel)->send_many(std::span(batch).first(count), sent);
  for (std::size_t index = 0; index < sent; ++index) counters_.count_plain(thread, batch[index].bytes);
  counters_.count_wakes(thread, wakes);
  return sent;
}

Status ShortSend::notify(ripc_service_id to, std::uint64_t handle, std::span<const ripc_item> items) {
  SendArguments arguments;
  arguments.to = to;
  arguments.items = items;
  if (Status checked = check(arguments); !checked.ok()) return checked;
  if (is_group(to))
    return Status(RIPC_INVALID_ARGUMENT, "A notification runs a callback of one service, not of a group.");
  wire::Encoder encoder(wire::PacketKind::notification, 0, id_);
  bool encodable = encoder.add_handle(handle);
  for (const ripc_item& item : items) {
    if (item.kind > RIPC_ITEM_SHORT)
      return Status(RIPC_INVALID_ARGUMENT, "A notification carries short items only. " + std::string(kSendMessage));
    encodable = encoder.add_payload(bytes_of(item)) && encodable;
  }
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Result<std::shared_ptr<spi::Channel>> channel = paths_.channel_to(to, counters_.resolutions);
    if (!channel.ok()) return channel.status();
    const std::size_t limit = std::min((*channel)->packet_limit() + spi::kControlAllowance, kMaxNotification);
    if (!encodable || encoder.size() > limit)
      return Status(RIPC_TOO_LARGE, "The arguments make a packet of " + std::to_string(encoder.size()) +
                                        " bytes; a notification to this peer takes " + std::to_string(limit) + ". " +
                                        std::string(kSendMessage));
    const ripc_status status = (*channel)->send({.kind = spi::Outgoing::Kind::control, .packet = encoder.finish()});
    if (status == RIPC_OK) add(counters_.notifications);
    if (!is_gone(status)) return counters_.count_again(status);
    paths_.drop(**channel);
  }
  return RIPC_PEER_DEAD;
}

}  // namespace ripc::internal::core
