// SPDX-License-Identifier: Apache-2.0
// The control connection of a session: a stream of frames (wire/session.hpp) that continues over another TCP connection
// when one is lost. Frames are numbered by counting them. They are kept until the peer has acknowledged them, and sent
// again when a new connection begins.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <new>
#include <span>
#include <vector>

#include "base/clock.hpp"
#include "base/event_loop.hpp"
#include "remote/session/secure_socket.hpp"
#include "wire/session_control.hpp"

namespace ripc::internal::remote {

class ControlStream {
 public:
  enum class Event { frame, nothing, closed };

  explicit ControlStream(EventLoop& loop) noexcept : loop_(loop) {}
  ~ControlStream() { detach(); }

  // Any thread. A frame that the connection does not take now, or for which there is no connection, is kept, up to a
  // limit. RIPC_OK, RIPC_AGAIN (too many frames are not acknowledged; nothing was sent), RIPC_NO_MEMORY (nothing was
  // sent), RIPC_PEER_DEAD (the stream is broken; nothing was sent), RIPC_TOO_LARGE, RIPC_INVALID_ARGUMENT.
  template <typename T>
  ripc_status send(const T& frame) noexcept {
    return send_within(0, frame);
  }
  // Any thread. The same for a frame that the peer waits for, or cannot do without. It finds room that send() leaves:
  // if that is taken, too, or there is no memory, the stream breaks.
  template <typename T>
  void tell(const T& frame) noexcept {
    const ripc_status status = send_within(kReserve, frame);
    if (status == RIPC_NO_MEMORY || status == RIPC_AGAIN) break_off();
  }

  // Any thread. Breaks the stream: something is missing in it, so its session cannot go on. The responder finds the
  // connection closed.
  void break_off() noexcept;
  bool is_broken() const noexcept { return broken_.load(std::memory_order_acquire); }

  // Any thread. True if there is room for the largest frame, or for this many frames that together are no larger than
  // three of the largest.
  bool has_room(std::size_t frames = 1) const noexcept;

  // Any thread. Frames received over all connections so far.
  std::uint64_t received() const noexcept { return received_.load(std::memory_order_relaxed); }

  // ---- Responder ----

  // Continues over this connection. `acknowledged`: frames that the peer has received so far; the rest is sent again.
  // RIPC_CORRUPT: the peer cannot have received that many, or the frames it lacks are gone. RIPC_NO_MEMORY: the stream
  // is broken. Throws std::bad_alloc: nothing is attached.
  Status attach(SecureSocket connection, std::uint64_t acknowledged, EventLoop::Handler handler);
  void detach() noexcept;
  // Before detach(), when there is nothing more to send: writes what waits, and waits until the peer has read it and
  // closed. Frames that the peer still sends are dropped.
  void finish(Deadline deadline) noexcept;
  bool attached() const noexcept { return static_cast<bool>(connection_); }
  // Writes what waits.
  void flush() noexcept;
  // The next frame; it is valid until the next call.
  Event receive(std::span<const std::byte>& frame) noexcept;
  void acknowledged(std::uint64_t frames) noexcept;
  // Whether enough frames or bytes have come since the last acknowledgement to make the next one worthwhile.
  bool should_acknowledge() const noexcept;
  // Without room that send() leaves, two sides that have sent all that they may would never acknowledge anything.
  void acknowledge() noexcept {
    (void)send_within(kReserve / 2, wire::session_control::Heartbeat{.received = received_});
    last_acknowledged_ = received_;
    unacknowledged_bytes_ = 0;
  }

 private:
  // Frames that send() leaves room for. Acknowledgements, which go on for as long as a peer is stopped, take half.
  static constexpr std::size_t kReserve = 1024;

  template <typename T>
  ripc_status send_within(std::size_t reserve, const T& frame) noexcept try {
    std::vector<std::byte> bytes;
    const ripc_status status = wire::session_control::encode(frame, bytes);
    return status == RIPC_OK ? send_bytes(reserve, std::move(bytes)) : status;
  } catch (const std::bad_alloc&) {
    return RIPC_NO_MEMORY;
  }
  ripc_status send_bytes(std::size_t reserve, std::vector<std::byte> frame);
  void write_locked() noexcept;
  void drop_acknowledged_locked(std::uint64_t frames) noexcept;

  EventLoop& loop_;

  std::atomic<bool> broken_{false};

  mutable std::mutex mutex_;
  SecureSocket connection_;  // changed by the responder under the mutex
  std::list<std::vector<std::byte>> kept_;
  std::size_t kept_bytes_ = 0;
  std::uint64_t first_ = 0;  // number of kept_.front()
  // The first of kept_ that was not written whole over this connection, and how many bytes of it were.
  std::list<std::vector<std::byte>>::iterator next_ = kept_.end();
  std::size_t written_ = 0;
  bool waiting_ = false;  // the loop watches for room

  // The responder's.
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // of what was read and not given out
  std::atomic<std::uint64_t> received_{0};
  std::uint64_t last_acknowledged_ = 0;
  std::size_t unacknowledged_bytes_ = 0;
};

}  // namespace ripc::internal::remote
