// SPDX-License-Identifier: Apache-2.0
// The sending end of a link: spi::Channel over the packet queue, the transfer and the grant tables.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/backoff.hpp"
#include "base/event_loop.hpp"
#include "base/shared_memory.hpp"
#include "base/standing_timer.hpp"
#include "base/unique_fd.hpp"
#include "spi/shortage.hpp"
#include "spi/transport.hpp"
#include "transport/shm/control_connection.hpp"
#include "transport/shm/layout.hpp"
#include "transport/shm/queue.hpp"
#include "transport/shm/transfer_table.hpp"
#include "wire/shm_control.hpp"

namespace ripc::internal::shm {

// The size of the buffer through which bytes pass when neither side may access the other's memory.
inline constexpr std::size_t kBounceSize = std::size_t{512} << 10;

// Bit of Opened.flags: the receiver cannot order the sender's memory accesses remotely. The other bits are the
// registration number of the service's state line.
inline constexpr std::uint32_t kSenderMustFence = 1u << 31;

class ShmChannel final : public spi::Channel, public std::enable_shared_from_this<ShmChannel> {
 public:
  struct Parts {
    std::shared_ptr<ControlConnection> connection;
    EventLoop* loop = nullptr;
    spi::Host* host = nullptr;
    ripc_service_id service = 0;
    std::uint64_t link = 0;
    std::uint64_t incarnation = 0;
    Geometry geometry;
    Mapping memory;
    Mapping state_page;
    std::uint32_t state_slot = 0;
    std::uint32_t registration = 0;
    UniqueFd doorbell;
    bool must_fence = false;
  };
  explicit ShmChannel(Parts parts);
  ~ShmChannel() override;
  // Call once, before any other call: creates the timers that later run its work in the responder.
  void start();

  ripc_status widen(std::size_t) noexcept override { return RIPC_OK; }  // every allowed size is ready
  ripc_status send(const spi::Outgoing& outgoing) noexcept override;
  ripc_status send_many(std::span<const wire::Plain> messages, std::size_t& sent) noexcept override;
  bool has_room(bool notify) noexcept override;
  ripc_status expose(std::span<const spi::Exposure> items, std::span<wire::Descriptor> descriptors,
                     std::uint64_t& transfer) noexcept override;
  ripc_status poll_transfer(std::uint64_t transfer, bool notify) noexcept override;
  ripc_status revoke(std::uint64_t transfer, bool& is_read) noexcept override;
  ripc_status grant(std::span<std::byte> memory, wire::Grant& grant) noexcept override;
  ripc_status end_grant(const wire::Grant& grant) noexcept override;
  Description describe(Deadline deadline) override;

  // ---- For the transport, in the responder ----
  std::uint64_t link() const noexcept { return parts_.link; }
  ripc_service_id service() const noexcept { return parts_.service; }
  // The peer is gone, or took the link away. True the first time.
  bool mark_dead() noexcept;
  // The peer has reported that transfers have finished.
  void transfers_finished() noexcept;
  // Copies a piece of an exposed item where the peer can read it. `memory` comes with the first request, and again
  // after RIPC_NO_DESCRIPTORS, which says that it was lost or could not be mapped.
  wire::shm_control::BounceData serve_bounce(const wire::shm_control::BounceRequest& request, UniqueFd memory) noexcept;

 private:
  bool service_ended() const noexcept {
    return line_->registration.load(std::memory_order_acquire) != parts_.registration;
  }
  // RIPC_OK if a send can succeed.
  ripc_status open_status() const noexcept {
    if (ended() != RIPC_OK) [[unlikely]]
      return RIPC_PEER_DEAD;
    return service_ended() ? RIPC_CLOSED : RIPC_OK;
  }
  // send() for all cases that the shortest path does not handle.
  [[gnu::noinline]] ripc_status send_any(const spi::Outgoing& outgoing) noexcept;
  ripc_status send_control(spi::Gather packet) noexcept;
  void wake_receiver() noexcept;
  [[gnu::noinline]] void fence_and_wake() noexcept;
  void ring_doorbell(std::uint32_t epoch) noexcept;
  bool has_room_now() const noexcept;
  bool has_room_for(spi::Need need) const noexcept;
  void slot_freed() noexcept;
  void look_for_room() noexcept;
  // What the responder is to do soon.
  enum DeferredWork : std::uint32_t { kLookForFinished = 1, kTellRoom = 2 };
  void defer(DeferredWork work) noexcept;
  void run_deferred_work() noexcept;

  Parts parts_;
  const ServiceLine* line_;
  QueueWriter writer_;
  TransferOwner transfers_;
  GrantOwner grants_;
  spi::Shortage shortage_;
  std::atomic<bool> slot_wanted_{false};  // of transfers or grants
  std::atomic<bool> looking_{false};      // look_for_room() will be called
  std::atomic<std::uint32_t> deferred_work_{0};
  StandingTimer work_timer_;
  StandingTimer look_timer_;
  // The responder's: the pause between two looks for room if the receiver may not see at once that it is wanted.
  Backoff look_pause_{1'000'000, 128'000'000};
  alignas(kCacheLine) std::atomic<std::uint32_t> last_woken_{0};
  Mapping bounce_;
};

}  // namespace ripc::internal::shm
