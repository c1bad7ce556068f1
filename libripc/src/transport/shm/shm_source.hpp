// SPDX-License-Identifier: Apache-2.0
// The receiving end of a link: spi::Source over what the peer exposes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/event_loop.hpp"
#include "base/shared_memory.hpp"
#include "base/unique_fd.hpp"
#include "spi/transport.hpp"
#include "transport/shm/control_connection.hpp"
#include "transport/shm/layout.hpp"
#include "transport/shm/queue.hpp"
#include "transport/shm/transfer_table.hpp"
#include "wire/shm_control.hpp"

namespace ripc::internal::shm {

// A sender on this host hands over what the receiver cannot fetch itself, without delay and at memory speed.
inline constexpr Nanoseconds kPatience = 2'000'000'000;
inline constexpr std::uint64_t kSlowestRate = 64 << 20;  // bytes per second

class ShmSource final : public spi::Source {
 public:
  struct Parts {
    std::shared_ptr<ControlConnection> connection;
    std::uint64_t context = 0;  // of the peer
    std::string locator;        // of the peer
    const spi::PeerTable* peers = nullptr;
    const spi::Peer* peer = nullptr;
    ripc_service_id service = 0;  // of ours, to which the link leads
    std::uint64_t link = 0;       // the peer's name for it
    Geometry geometry;
    Mapping memory;
    UniqueFd doorbell;
  };
  explicit ShmSource(Parts parts);

  ripc_status begin(std::span<const wire::Descriptor> items) noexcept override;
  ripc_status prepare(spi::Pull& pull) noexcept override;
  ripc_status pull(spi::Pull& pull) noexcept override;
  void abandon(spi::Pull& pull) noexcept override;
  ripc_status finish(const wire::Descriptor& descriptor, ripc_status status) noexcept override;
  ripc_status push(const wire::Grant& grant, spi::Bytes bytes) noexcept override;

  // ---- For the port, in the receiving thread ----
  QueueReader& reader() noexcept { return reader_; }
  // How many packets may be taken. What a peer wrote before it died or closed the link fits into the queue; it may go
  // on writing for ever.
  std::size_t allowance() const noexcept { return dead() ? last_packets_ : SIZE_MAX; }
  void took(std::size_t packets) noexcept {
    if (dead()) [[unlikely]]
      last_packets_ -= std::min(last_packets_, packets);
  }
  void tell_room() noexcept;  // any thread

  // ---- For the transport ----
  ripc_service_id service() const noexcept { return parts_.service; }
  std::uint64_t link() const noexcept { return parts_.link; }
  int doorbell() const noexcept { return parts_.doorbell.get(); }
  const std::shared_ptr<ControlConnection>& connection() const noexcept { return parts_.connection; }
  // The peer is gone or closed the link. Its earlier messages can still be received.
  void mark_dead() noexcept { dead_.store(true, std::memory_order_release); }
  bool dead() const noexcept { return dead_.load(std::memory_order_acquire); }
  // The peer may not send any more. Its messages are dropped, however much it goes on to write.
  void cut_off() noexcept { cut_off_.store(true, std::memory_order_release); }
  bool is_cut_off() const noexcept { return cut_off_.load(std::memory_order_acquire); }
  void bounce_arrived(const wire::shm_control::BounceData& data) noexcept;

 private:
  ripc_status lend(spi::Pull& pull) noexcept;
  ripc_status prepare_bounce(const spi::Pull& pull) noexcept;
  ripc_status pull_by_bounce(spi::Pull& pull) noexcept;
  ripc_status request_bounce(const spi::Pull& pull) noexcept;

  Parts parts_;
  QueueReader reader_;
  std::size_t last_packets_;
  TransferTaker taker_;
  std::atomic<bool> dead_{false};
  std::atomic<bool> cut_off_{false};
  std::atomic<bool> no_direct_access_;

  std::mutex mutex_;
  SharedMemory bounce_;
  bool bounce_announced_ = false;
  bool bounce_waiting_ = false;   // a request is under way, or its answer is there
  bool bounce_ready_ = false;     // its answer is there
  std::uint64_t bounce_key_ = 0;  // the item that was asked for
  std::uint32_t bounce_sequence_ = 0;
  wire::shm_control::BounceData bounce_data_;
};

}  // namespace ripc::internal::shm
