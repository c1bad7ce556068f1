// SPDX-License-Identifier: Apache-2.0
// The TCP connection of one link. It carries the link's packets, in order, once one of them did not fit into a datagram
// or many came together. The sending thread writes it and the receiving thread reads it, so no other thread of either
// process runs for a message. See docs/internals/links.md, "Medium messages and bursts".
//
//   record   u32 size of what follows | a datagram of the link, header and packet (wire/datagram.hpp)
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/event_loop.hpp"
#include "remote/session/secure_socket.hpp"
#include "spi/channel.hpp"
#include "spi/port.hpp"
#include "wire/bytes.hpp"
#include "wire/datagram.hpp"

namespace ripc::internal::remote {

inline constexpr std::size_t kRecordPrefix = sizeof(std::uint32_t);
// The largest record that is copied: a larger one is read into memory that its message keeps.
inline constexpr std::size_t kMaxCopied = kRecordPrefix + wire::datagram::kHeaderSize + wire::datagram::kMaxPacket;
inline constexpr std::size_t kMaxRecord = kMaxCopied - wire::datagram::kMaxPacket + wire::datagram::kMaxRecordPacket;

// The sender's end. Any thread. Bytes that the socket does not take at once wait here until the responder finds room:
// at most `kMostWaiting` bytes, or one record that is larger.
class StreamSender {
 public:
  // Responder. `notify` is called there whenever there is room again, and when the connection is lost; not after
  // finish(). RIPC_NO_MEMORY and what EventLoop::add() says.
  static Result<std::shared_ptr<StreamSender>> create(SecureSocket connection, EventLoop& loop,
                                                      std::function<void()> notify);

  // Sends one datagram, gathered during the call; with `more`, a small one may wait for others, or for flush().
  // RIPC_OK, RIPC_AGAIN (no room), RIPC_PEER_DEAD (the connection is lost). *held (may be null): with RIPC_OK, whether
  // it waits, and no system call was made.
  ripc_status send(const wire::datagram::Header& header, spi::Gather packet, bool more, bool* held = nullptr) noexcept;
  // The same for a whole datagram, which may exceed kMostWaiting.
  ripc_status send_whole(spi::Bytes datagram) noexcept;
  // Sends what was held for more.
  void flush() noexcept;
  // Sends all that waits; it waits for room.
  void drain(Deadline deadline) noexcept;
  bool has_room() noexcept;
  bool lost() noexcept;
  // Called now and then: gives back the memory that a large record took while it waited, and ends a connection on which
  // nothing arrives any more.
  void look() noexcept;
  // Nothing more is sent. The responder writes what waits, and closes the connection then, or after `patience`: a peer
  // that does not read keeps nothing open.
  void finish(Nanoseconds patience = kPatience) noexcept;

 private:
  static constexpr std::size_t kMostWaiting = 2 * kMaxCopied;
  static constexpr Nanoseconds kPatience = 10'000'000'000;
  // Bytes of small packets that are worth a system call.
  static constexpr std::size_t kTogether = std::size_t{16} << 10;

  StreamSender(SecureSocket connection, EventLoop& loop, std::function<void()> notify)
      : loop_(loop), connection_(std::move(connection)), notify_(std::move(notify)) {}
  std::size_t waiting() const noexcept { return out_.size() - out_sent_; }
  void on_event(std::uint32_t events) noexcept;
  void flush_locked() noexcept;
  void lose_locked() noexcept;
  void close_locked() noexcept;

  EventLoop& loop_;
  EventLoop::TimerId end_of_patience_ = 0;
  std::mutex mutex_;
  SecureSocket connection_;
  std::function<void()> notify_;
  std::vector<std::byte> out_;
  std::size_t out_sent_ = 0;
  bool full_ = false;  // the socket took less than it was given, and will tell when there is room
  bool lost_ = false;
  bool finished_ = false;
};

// The receiver's end. One thread at a time.
class StreamReceiver {
 public:
  // Throws std::bad_alloc.
  explicit StreamReceiver(SecureSocket connection);

  int fd() const noexcept { return connection_.fd(); }
  bool has_buffered() const noexcept { return connection_.has_buffered(); }

  enum class Outcome : std::uint8_t { data, nothing, ended, no_room };
  // Reads what is there, as far as there is room: one system call. A large record takes memory of the sink. Ended:
  // nothing will come any more.
  Outcome fill(spi::PacketSink& sink) noexcept;
  // The datagram of the first record; empty if it is not complete. Valid until fill(). RIPC_CORRUPT: the peer does not
  // send records.
  ripc_status front(spi::Bytes& datagram) const noexcept;
  // The memory that the datagram lies in, if it is large; else empty.
  const spi::PacketSink::Memory& memory() const noexcept { return large_; }
  void pop() noexcept;

  // ---- For delivery: they go with the connection ----
  // The packet of the first record, once that was accepted; empty before.
  spi::Bytes packet{};
  // All that was sent by other paths before this connection was made has come, or is given up for lost.
  bool is_due = false;
  // When the rest of that is given up; 0: not known yet.
  Nanoseconds due_at = 0;
  // When this connection is given up because the sender has another one; 0: it has not been noticed.
  Nanoseconds over_at = 0;

 private:
  static constexpr std::size_t kBuffer = 2 * kMaxCopied;
  // Bytes that the peer may send ahead, if net.core.rmem_max allows a buffer of that size. A smaller one halves the
  // rate of 64 KiB messages; then the kernel sizes it, up to net.ipv4.tcp_rmem.
  static constexpr int kWindow = 1 << 20;
  // Bytes of one read, unless the first record needs more: what lies in the cache is delivered at twice the speed.
  static constexpr std::size_t kRead = std::size_t{64} << 10;
  // The size of the first record, once its prefix is there.
  std::size_t size() const noexcept { return wire::load_le<std::uint32_t>(buffer_.get() + begin_); }
  bool is_large() const noexcept {
    return end_ - begin_ >= kRecordPrefix && size() > kMaxCopied - kRecordPrefix &&
           size() <= kMaxRecord - kRecordPrefix;
  }
  std::size_t missing() const noexcept;
  bool begin_large(spi::PacketSink& sink) noexcept;

  SecureSocket connection_;
  std::unique_ptr<std::byte[]> buffer_;  // not touched before it is needed
  std::size_t begin_ = 0, end_ = 0;
  // A large record that is the first one, without its prefix: of `large_size_` bytes, the first `large_end_` are there.
  spi::PacketSink::Memory large_;
  std::size_t large_size_ = 0, large_end_ = 0;
};

}  // namespace ripc::internal::remote
