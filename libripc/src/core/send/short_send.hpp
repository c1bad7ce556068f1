// SPDX-License-Identifier: Apache-2.0
// Sending messages of short items only: one packet each, no allocation, no lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/thread_epoch.hpp"
#include "core/path/paths.hpp"
#include "core/protocol/outgoing.hpp"
#include "core/send/send_counters.hpp"

namespace ripc::internal::core {

// How often a send that meets a dead peer looks for its successor.
constexpr int kAttempts = 3;

// Whether the status says that the channel can no longer be used.
inline bool is_gone(ripc_status status) noexcept { return status == RIPC_PEER_DEAD || status == RIPC_CLOSED; }

// Any thread.
class ShortSend {
 public:
  ShortSend(ripc_service_id id, Paths& paths) noexcept : id_(id), paths_(paths) {}

  // Sends at most `most` bytes, if the channel is known. RIPC_PENDING: the general send has to handle the message.
  ripc_status send_known(ripc_service_id to, std::uint32_t tag, std::span<const ripc_item> items, bool* loses,
                         std::size_t most) noexcept;
  // Sends a message that prefers_plain(). !fits: it is not plain, or does not fit, and some items may travel long
  // instead.
  Status send(const SendArguments& arguments, bool& fits);
  // Returns how many messages were sent, counted from the first. None if the first is not plain, or its channel is not
  // known.
  std::size_t send_batch(ripc_service_id to, std::span<const ripc_outgoing> messages) noexcept;

  // Sends a notification to the peer's responder.
  Status notify(ripc_service_id to, std::uint64_t handle, std::span<const ripc_item> items);

  // Sends and counts. Called in the read section of the thread in which the channel was found.
  ripc_status send_by(spi::Channel& channel, const spi::Outgoing& outgoing,
                      const ThreadEpoch::Record& thread) noexcept {
    const std::uint64_t wakes = thread.wakes;
    const ripc_status status = channel.send(outgoing);
    if (status == RIPC_OK) [[likely]]
      counters_.count_plain(thread, outgoing.message.bytes);
    counters_.count_wakes(thread, wakes);
    return counters_.count_again(status);
  }

  ripc_service_id id() const noexcept { return id_; }
  SendCounters& counters() noexcept { return counters_; }
  const SendCounters& counters() const noexcept { return counters_; }

 private:
  ripc_status send_given_by(spi::Channel& channel, const wire::Plain& message,
                            const ThreadEpoch::Record& thread) noexcept;

  const ripc_service_id id_;
  Paths& paths_;
  SendCounters counters_;
};

[[gnu::always_inline]] inline ripc_status ShortSend::send_known(ripc_service_id to, std::uint32_t tag,
                                                                std::span<const ripc_item> items, bool* loses,
                                                                std::size_t most) noexcept {
  std::size_t bytes = 0;
  if (!is_plain(items, bytes) || bytes > most) [[unlikely]]
    return RIPC_PENDING;
  const spi::Outgoing outgoing{.message = {.source = id_, .tag = tag, .items = items, .bytes = bytes}};
  ThreadEpoch::Record& thread = ThreadEpoch::current();
  const ThreadEpoch::Section section(thread);
  const std::shared_ptr<spi::Channel>* channel = paths_.routes().find(to);
  if (channel == nullptr) [[unlikely]]
    return RIPC_PENDING;
  if (loses != nullptr) *loses = (*channel)->loses();
  const ripc_status status = send_by(**channel, outgoing, thread);
  return status == RIPC_OK || status == RIPC_AGAIN ? status : RIPC_PENDING;
}

}  // namespace ripc::internal::core
