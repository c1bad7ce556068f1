// SPDX-License-Identifier: Apache-2.0
// The receive side of one service: reads the sockets of its sources in turn, a batch of datagrams at a time.
#pragma once

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/event_loop.hpp"
#include "spi/transport.hpp"
#include "transport/socket/socket_source.hpp"

namespace ripc::socket {

class SocketPort final : public spi::Port {
 public:
  // `loop`: the responder's. `receive_buffer`: bytes that each source's socket has at least, whatever the options ask
  // for. `closed` runs on destruction, before the sources are dropped: the transport forgets the port there.
  SocketPort(const spi::PortOptions& options, EventSet& events, EventLoop& loop, std::size_t receive_buffer,
             std::function<void(SocketPort&)> closed);
  ~SocketPort() override;

  std::size_t poll(spi::PacketSink& sink, std::size_t budget) noexcept override;
  // The sockets are always among the events: nothing to do.
  void prepare_sleep() noexcept override {}
  void cancel_sleep() noexcept override {}
  std::size_t packet_limit() const noexcept override { return kMaxPacket; }
  std::size_t source_count() const noexcept override;
  spi::PortStatistics statistics() const noexcept override;
  void published(std::uint64_t incarnation) noexcept override { incarnation_.store(incarnation); }
  // Waits a moment for the senders to hear of it, but not for those that did not answer before.
  void close() noexcept override;

  // ---- For the transport, in the responder ----
  const spi::PortOptions& options() const noexcept { return options_; }
  std::uint64_t incarnation() const noexcept { return incarnation_.load(); }
  EventSet& events() const noexcept { return events_; }
  bool closed() const noexcept { return closing_.load(std::memory_order_acquire); }
  // How much a source's socket should hold, and how much of it may be granted if it holds `buffer` bytes.
  std::size_t wanted_buffer() const noexcept;
  std::uint32_t budget(std::size_t buffer) const noexcept;
  Status add_source(std::shared_ptr<SocketSource> source);
  // A source has died or been closed: makes the receiver look.
  void nudge() noexcept;

  const PortCounters& counters() const noexcept { return counters_; }

 private:
  static constexpr unsigned kBatch = 16;
  // With more sources than these, the system is asked which have something.
  static constexpr std::size_t kDirect = 4;
  // A datagram and, so that the first bytes of all do not meet in one cache set, a little more.
  static constexpr std::size_t kStride = (std::size_t{64} << 10) + 256;

  void refresh() noexcept;
  std::size_t poll_all(spi::PacketSink& sink, std::size_t budget, bool& stop) noexcept;
  std::size_t poll_ready(spi::PacketSink& sink, std::size_t budget, bool& stop) noexcept;
  std::size_t poll_source(const std::shared_ptr<SocketSource>& source, spi::PacketSink& sink, std::size_t budget,
                          bool& stop) noexcept;
  bool fetch(SocketSource& source) noexcept;
  std::size_t deliver_batch(spi::PacketSink& sink, std::size_t budget, bool& stop) noexcept;
  std::size_t deliver_backlog(SocketSource& source, spi::PacketSink& sink, std::size_t budget, bool& stop) noexcept;
  void set_aside() noexcept;
  void remove(const std::shared_ptr<SocketSource>& source) noexcept;
  Status watch_locked(SocketSource& source) noexcept;
  int read_batch(int fd, unsigned wanted) noexcept;
  void count_call() noexcept;

  const spi::PortOptions options_;
  EventSet& events_;
  EventLoop& loop_;
  const std::size_t receive_buffer_;
  std::function<void(SocketPort&)> closed_;
  std::atomic<std::uint64_t> incarnation_{0};
  std::atomic<bool> closing_{false};
  PortCounters counters_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<SocketSource>> sources_;  // the truth
  UniqueFd ready_set_;                                  // an epoll of all sockets, once there are many
  std::atomic<std::uint64_t> version_{0};               // of sources_, and of their deaths

  // The receiving thread's own.
  std::vector<std::shared_ptr<SocketSource>> polled_;
  std::uint64_t polled_version_ = 0;
  std::size_t next_ = 0;
  std::size_t unscanned_ = 0;                            // sources to look at before the ready ones are enough again
  std::size_t backlogged_ = 0;                           // sources with a backlog
  std::vector<std::weak_ptr<Session>> former_sessions_;  // of sources that are gone
  int ready_fd_ = -1;
  std::array<epoll_event, kBatch> ready_{};
  std::size_t ready_next_ = 0, ready_count_ = 0;

  std::unique_ptr<std::byte[]> buffers_;
  std::array<mmsghdr, kBatch> headers_{};
  std::array<iovec, kBatch> parts_{};
  std::shared_ptr<SocketSource> batch_source_;
  std::array<spi::Bytes, kBatch> batch_{};
  std::size_t batch_next_ = 0, batch_count_ = 0;
};

}  // namespace ripc::socket
