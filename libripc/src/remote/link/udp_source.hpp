// SPDX-License-Identifier: Apache-2.0
// The receiving end of a link. Its datagrams travel over UDP or, where that does not get through, as frames of the
// session's control connection. After a packet too large for both, they travel over a connection of their own.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "base/backoff.hpp"
#include "remote/link/link_socket.hpp"
#include "remote/link/link_source.hpp"
#include "remote/link/link_stream.hpp"

namespace ripc::internal::remote {

class UdpReceiver;

class UdpSource final : public LinkSource {
 public:
  // `receiver`: what reads the socket; `loop`: the responder's.
  UdpSource(Parts parts, LinkSocket socket, UdpReceiver& receiver, EventLoop& loop)
      : LinkSource(std::move(parts)), socket_(std::move(socket)), receiver_(receiver), loop_(loop) {}

  const LinkSocket& socket() const noexcept { return socket_; }

  // ---- Responder ----
  void handle(const wire::session_control::Frame& frame) override;
  // Takes over a connection of its own, which the receiver watches already. It is used once the one before it was
  // dropped. Returns the connection that it replaces before its turn has come, if there is one.
  std::unique_ptr<StreamReceiver> adopt(std::unique_ptr<StreamReceiver> stream) noexcept;

  // ---- The receiver's ----
  // Opens a datagram that the socket has brought. False: it is not fresh, and was counted.
  bool open_sealed(std::span<std::byte> read, spi::Bytes& datagram, PortCounters& counters) const noexcept {
    const auto verdict = socket_.open_sealed(read, datagram);
    if (verdict == security::DatagramOpener::Verdict::fresh) [[likely]]
      return true;
    increase(verdict == security::DatagramOpener::Verdict::forged ? counters.corrupt : counters.duplicates);
    return false;
  }
  // The connection that is to be read, or null.
  StreamReceiver* stream() noexcept {
    if (!stream_ && has_next_.load(std::memory_order_acquire)) [[unlikely]]
      take_next();
    return stream_.get();
  }
  void drop_stream() noexcept { stream_.reset(); }
  // Whether the sender has made another connection.
  bool has_next() const noexcept { return has_next_.load(std::memory_order_acquire); }
  // Whether a packet that the connection has brought waits to be delivered.
  bool has_record() const noexcept {
    spi::Bytes datagram;
    return stream_ && stream_->front(datagram) == RIPC_OK && !datagram.empty();
  }

  // Under the mutex of the UdpReceiver: the descriptors of its connections, of the one that is read and of the next
  // one.
  std::vector<int> stream_fds;

  // How many datagrams the next read asks for: one that finds no more than it asked for costs the system a second look.
  unsigned batch = 1;

 protected:
  ripc_status transmit(const wire::datagram::Header& header) noexcept override {
    return streams_.load(std::memory_order_acquire) ? transmit_streamed(header) : socket_.send(header, {});
  }
  std::uint32_t cost_of(std::size_t datagram) const noexcept override { return datagram_cost(datagram); }
  std::uint32_t dropped() noexcept override { return socket_.dropped(); }

 private:
  bool has_arrived() noexcept;
  void take_next() noexcept;
  void answer_proof(Nanoseconds until, Backoff pause);

  const LinkSocket socket_;
  UdpReceiver& receiver_;
  EventLoop& loop_;
  std::atomic<bool> streams_{false};        // what came last by the control connection is answered there
  std::unique_ptr<StreamReceiver> stream_;  // the receiver's
  std::atomic<bool> has_next_{false};
  std::mutex mutex_;
  std::unique_ptr<StreamReceiver> next_;
};

}  // namespace ripc::internal::remote
