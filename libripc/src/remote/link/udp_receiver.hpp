// SPDX-License-Identifier: Apache-2.0
// Reads the sockets of those sources of a port whose datagrams travel over UDP. The sources take turns, with a batch of
// datagrams each. It also reads the connections that some of these sources have.
#pragma once

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/event_loop.hpp"
#include "remote/link/link_port.hpp"
#include "remote/link/udp_source.hpp"
#include "spi/transport.hpp"

namespace ripc::internal::remote {

class UdpReceiver {
 public:
  // `port`: what this is a part of. `receive_buffer`: bytes that each source's socket has at least, whatever the port's
  // options ask for.
  UdpReceiver(LinkPort& port, std::size_t receive_buffer) noexcept : port_(port), receive_buffer_(receive_buffer) {}
  ~UdpReceiver();

  // Receiver. As spi::Port::poll. The sockets are always among the port's events.
  std::size_t poll(spi::PacketSink& sink, std::size_t budget) noexcept;

  // ---- For the transport, in the responder ----
  // How much a source's socket should hold, and how much of it may be granted if it holds `buffer` bytes.
  std::size_t wanted_buffer() const noexcept;
  std::uint32_t budget(std::size_t buffer) const noexcept;
  Status add_source(std::shared_ptr<UdpSource> source);
  // Takes over the connection of a link. Nothing happens if there is no such link. Throws std::bad_alloc.
  void adopt_stream(const Session& session, std::uint32_t link, SecureSocket connection);
  // Takes a datagram of one of the sources that came by its control connection. Throws std::bad_alloc.
  void pass(UdpSource& source, spi::Bytes datagram);

 private:
  static constexpr unsigned kBatch = 16;
  // With more sources than this, the system is asked which of them have something to read.
  static constexpr std::size_t kDirect = 4;
  // A datagram, and a little more so that the first bytes of all datagrams do not fall into one cache set.
  static constexpr std::size_t kStride = (std::size_t{64} << 10) + 256;

  void refresh() noexcept;
  std::size_t poll_all(spi::PacketSink& sink, std::size_t budget, bool& stop) noexcept;
  std::size_t poll_ready(spi::PacketSink& sink, std::size_t budget, bool& stop) noexcept;
  std::size_t poll_source(const std::shared_ptr<UdpSource>& source, spi::PacketSink& sink, std::size_t budget,
                          bool& stop) noexcept;
  bool fetch(UdpSource& source) noexcept;
  std::size_t poll_stream(UdpSource& source, StreamReceiver& stream, spi::PacketSink& sink, std::size_t budget,
                          bool& stop) noexcept;
  bool is_due(UdpSource& source, StreamReceiver& stream, spi::PacketSink& sink) noexcept;
  bool fill(UdpSource& source, StreamReceiver& stream, spi::PacketSink& sink) noexcept;
  bool is_replaced(const UdpSource& source, StreamReceiver& stream) noexcept;
  std::size_t deliver_batch(spi::PacketSink& sink, std::size_t budget, bool& stop) noexcept;
  bool set_aside() noexcept;
  void take_kept(UdpSource& source) noexcept;
  void remove(const std::shared_ptr<UdpSource>& source) noexcept;
  static Status watch(const UniqueFd& set, const UdpSource& source, int fd) noexcept;
  Status watch_stream(UdpSource& source, int fd) noexcept;
  void unwatch(UdpSource& source, int fd) noexcept;
  void end_stream(UdpSource& source) noexcept;
  int read_batch(int fd, unsigned wanted) noexcept;
  void count_call() noexcept;

  LinkPort& port_;
  const std::size_t receive_buffer_;
  std::atomic<bool> passed_{false};  // a source may have kept something, or has a new connection

  std::mutex mutex_;  // taken before the port's
  std::vector<std::shared_ptr<UdpSource>> sources_;
  UniqueFd ready_set_;                             // an epoll of all sockets, once there are many
  std::vector<std::shared_ptr<UdpSource>> spare_;  // as large as polled_ will have to be, if that is not
  std::size_t polled_capacity_ = 0;                // of polled_
  std::unique_ptr<std::byte[]> buffers_;           // of the receiving thread, once it has refreshed

  // The receiving thread's own.
  std::vector<std::shared_ptr<UdpSource>> polled_;
  std::uint64_t polled_version_ = 0;
  std::size_t next_ = 0;
  std::size_t unscanned_ = 0;   // sources to look at before the ready ones are enough again
  std::size_t backlogged_ = 0;  // sources with a backlog
  int ready_fd_ = -1;
  std::array<epoll_event, kBatch> ready_{};
  std::size_t ready_next_ = 0, ready_count_ = 0;

  std::array<mmsghdr, kBatch> headers_{};
  std::array<iovec, kBatch> parts_{};
  std::shared_ptr<UdpSource> batch_source_;
  std::array<spi::Bytes, kBatch> batch_{};
  std::size_t batch_next_ = 0, batch_count_ = 0;
};

}  // namespace ripc::internal::remote
