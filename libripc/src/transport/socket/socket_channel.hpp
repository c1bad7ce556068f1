// SPDX-License-Identifier: Apache-2.0
// The sending end of a link: spi::Channel over a UDP socket, with credits.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/event_loop.hpp"
#include "spi/transport.hpp"
#include "transport/socket/credit.hpp"
#include "transport/socket/link_socket.hpp"
#include "transport/socket/session.hpp"

namespace ripc::socket {

class SocketChannel final : public spi::Channel, public std::enable_shared_from_this<SocketChannel> {
 public:
  struct Parts {
    SessionPointer session;
    EventLoop* loop = nullptr;
    spi::Host* host = nullptr;
    ripc_service_id service = 0;
    std::uint32_t link = 0;
    std::uint64_t token = 0;
    std::uint64_t incarnation = 0;
    std::uint32_t peer_packet_limit = 0;
    std::uint32_t credit = 0;
    LinkSocket socket;
    std::function<void(const std::shared_ptr<SocketChannel>&)> failed;  // any thread: the other end's socket is gone
  };
  explicit SocketChannel(Parts parts);
  ~SocketChannel() override;

  std::size_t packet_limit() const noexcept override { return packet_limit_.load(std::memory_order_relaxed); }
  std::uint64_t incarnation() const noexcept override { return parts_.incarnation; }
  ripc_status send(spi::Gather packet, bool& woke) noexcept override;
  ripc_status send_telling(std::uint64_t transfer, spi::Gather packet, bool& woke) noexcept override;
  ripc_status send_many(std::span<const wire::Plain> messages, std::size_t& sent, bool& woke) noexcept override;
  ripc_status send_control(spi::Gather packet) noexcept override;
  bool has_room() const noexcept override;
  bool request_room() noexcept override;
  ripc_status expose(std::span<const spi::Exposure> items, std::span<wire::Descriptor> descriptors,
                     std::uint64_t& transfer) noexcept override;
  ripc_status transfer_status(std::uint64_t transfer) noexcept override;
  bool watch_transfer(std::uint64_t transfer) noexcept override;
  ripc_status revoke(std::uint64_t transfer) noexcept override;
  bool is_draining(std::uint64_t) noexcept override { return false; }
  ripc_status grant(std::span<std::byte> memory, wire::Grant& grant) noexcept override;
  ripc_status end_grant(const wire::Grant& grant) noexcept override;
  bool alive() const noexcept override { return end_.load(std::memory_order_acquire) == RIPC_OK; }
  std::string describe() const override;

  // ---- For the transport and for sources ----
  std::uint32_t link() const noexcept { return parts_.link; }
  // Responder. No more can be sent: RIPC_PEER_DEAD or RIPC_CLOSED. True the first time.
  bool end(ripc_status reason) noexcept;
  // Any. Of the last packet sent.
  std::uint32_t last_sequence() noexcept;
  // Any. The receiver grants room.
  void credit_arrived(std::uint32_t credit) noexcept;

  // System calls made to send packets; for tests.
  std::uint64_t send_calls() const noexcept { return send_calls_.load(std::memory_order_relaxed); }
  std::uint64_t probes() const noexcept { return probes_.load(std::memory_order_relaxed); }

 private:
  std::uint32_t enough() const noexcept;
  ripc_status room_locked(std::uint32_t cost) noexcept;
  wire::datagram::Header header_locked(std::uint32_t sequence, std::uint32_t spent, std::uint64_t offer) const noexcept;
  std::uint64_t take_offer() noexcept;
  void give_back(std::uint64_t offer) noexcept;
  void failed_locked(ripc_status status) noexcept;
  bool refresh_locked(std::uint32_t needed) noexcept;
  void probe_locked() noexcept;
  void fail_locked() noexcept;
  void look() noexcept;
  void watch() noexcept;
  void stop_watching() noexcept;

  Parts parts_;
  std::atomic<std::size_t> packet_limit_;
  std::atomic<int> end_{RIPC_OK};
  mutable Purse purse_;
  const std::uint32_t budget_;

  std::mutex mutex_;  // packets leave in the order of their numbers
  std::uint32_t sequence_ = 0;
  bool interface_full_ = false;
  std::atomic<bool> segment_{true};  // until the path turns out not to
  bool failing_ = false;
  Nanoseconds next_probe_ = 0;               // 0: there was room when last looked at
  std::atomic<Nanoseconds> probe_pause_{0};  // also read by the responder, without the mutex
  std::uint32_t probes_since_ = 0;           // what was spent when the first of probes_there_ was sent
  unsigned probes_there_ = 0;                // that the receiver may not have read yet
  std::atomic<std::uint64_t> send_calls_{0};
  std::atomic<std::uint64_t> probes_{0};

  std::atomic<bool> room_wanted_{false};
  // The responder's.
  bool watching_ = false;
  EventLoop::TimerId timer_ = 0;
};

}  // namespace ripc::socket
