// SPDX-License-Identifier: Apache-2.0
#include "remote/session/control_stream.hpp"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cstring>
#include <iterator>

namespace ripc::internal::remote {

namespace {

// The most frames, and bytes of frames, that the peer has not acknowledged.
constexpr std::size_t kMaxKept = 4096;
constexpr std::size_t kMaxKeptBytes = std::size_t{4} << 20;
constexpr std::size_t kReservedBytes = 128;  // of each frame of the reserve
constexpr std::uint64_t kAcknowledgeAfter = 64;
constexpr std::size_t kAcknowledgeBytes = kMaxKeptBytes / 8;

}  // namespace

ripc_status ControlStream::send_bytes(std::size_t reserve, std::vector<std::byte> frame) {
  const std::lock_guard lock(mutex_);
  if (is_broken()) return RIPC_PEER_DEAD;
  if (kept_.size() >= kMaxKept + reserve || kept_bytes_ + frame.size() > kMaxKeptBytes + reserve * kReservedBytes)
    return RIPC_AGAIN;
  kept_.push_back(std::move(frame));
  kept_bytes_ += kept_.back().size();
  if (next_ == kept_.end()) next_ = std::prev(kept_.end());
  if (connection_ && !waiting_) write_locked();
  return RIPC_OK;
}

void ControlStream::break_off() noexcept {
  broken_.store(true, std::memory_order_release);
  const std::lock_guard lock(mutex_);
  if (connection_) (void)::shutdown(connection_.fd(), SHUT_RDWR);
}

bool ControlStream::has_room(std::size_t frames) const noexcept {
  constexpr std::size_t kMost = wire::session_control::kMaxSize;
  const std::lock_guard lock(mutex_);
  return kept_.size() + frames <= kMaxKept && kept_bytes_ + (frames == 1 ? kMost : 3 * kMost) <= kMaxKeptBytes;
}

void ControlStream::write_locked() noexcept {
  while (next_ != kept_.end()) {
    const std::vector<std::byte>& frame = *next_;
    const ssize_t sent = connection_.send(frame.data() + written_, frame.size() - written_);
    if (sent >= 0) {
      written_ += static_cast<std::size_t>(sent);
      if (written_ == frame.size()) {
        ++next_;
        written_ = 0;
      }
      continue;
    }
    if (errno == EINTR) continue;
    // The responder sees an error when it reads; until then the frames are kept for the next connection.
    if (!waiting_) (void)loop_.modify(connection_.fd(), EPOLLIN | EPOLLOUT);
    waiting_ = true;
    return;
  }
  if (waiting_) (void)loop_.modify(connection_.fd(), EPOLLIN);
  waiting_ = false;
}

void ControlStream::flush() noexcept {
  const std::lock_guard lock(mutex_);
  if (connection_) write_locked();
}

void ControlStream::drop_acknowledged_locked(std::uint64_t frames) noexcept {
  // A frame that is partly written stays: without it, the stream would go on in the middle of a frame.
  while (first_ < frames && next_ != kept_.begin()) {
    kept_bytes_ -= kept_.front().size();
    kept_.pop_front();
    ++first_;
  }
}

void ControlStream::acknowledged(std::uint64_t frames) noexcept {
  const std::lock_guard lock(mutex_);
  drop_acknowledged_locked(frames);
}

Status ControlStream::attach(SecureSocket connection, std::uint64_t acknowledged, EventLoop::Handler handler) {
  detach();
  begin_ = end_ = 0;
  if (buffer_.empty()) buffer_.resize(2 * wire::session_control::kMaxSize);
  const std::lock_guard lock(mutex_);
  // Either this thread sees the break, or the thread that breaks the stream off sees the connection.
  if (is_broken()) return RIPC_NO_MEMORY;
  if (acknowledged < first_ || acknowledged > first_ + kept_.size())
    return Status(RIPC_CORRUPT, "The peer tries to resume a session at an impossible position.");
  next_ = kept_.end();
  drop_acknowledged_locked(acknowledged);
  next_ = kept_.begin();
  written_ = 0;
  waiting_ = false;
  if (Status status = loop_.add(connection.fd(), EPOLLIN, std::move(handler)); !status.ok()) return status;
  connection_ = std::move(connection);
  write_locked();
  return {};
}

void ControlStream::detach() noexcept {
  if (!connection_) return;
  loop_.remove(connection_.fd());
  const std::lock_guard lock(mutex_);
  (void)::shutdown(connection_.fd(), SHUT_RDWR);
  connection_.close();
  waiting_ = false;
}

// Closing a connection that holds unread data resets it, and what it has not sent yet is lost.
void ControlStream::finish(Deadline deadline) noexcept {
  if (!connection_) return;
  const int fd = connection_.fd();
  pollfd ready{fd, POLLIN, 0};
  do {
    flush();
    {
      const std::lock_guard lock(mutex_);
      ready.events = waiting_ ? POLLIN | POLLOUT : POLLIN;
      if (!waiting_) (void)::shutdown(fd, SHUT_WR);
    }
    ssize_t got = 0;
    do {
      got = recv(fd, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    } while ((got > 0 || (got < 0 && errno == EINTR)) && !deadline.expired());
    if (got >= 0 || errno != EAGAIN) return;
    (void)poll(&ready, 1, deadline.remaining_milliseconds());
  } while (!deadline.expired());
}

ControlStream::Event ControlStream::receive(std::span<const std::byte>& frame) noexcept {
  if (!connection_) return Event::nothing;
  for (;;) {
    const std::size_t have = end_ - begin_;
    if (have >= wire::session_control::kPrefixSize) {
      const Result<std::size_t> size = wire::session_control::frame_size(std::span(buffer_).subspan(begin_, have));
      if (!size.ok()) return Event::closed;
      if (have >= *size) {
        frame = std::span(buffer_).subspan(begin_, *size);
        begin_ += *size;
        ++received_;
        unacknowledged_bytes_ += *size;
        return Event::frame;
      }
    }
    if (begin_ != 0) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, have);
      begin_ = 0;
      end_ = have;
    }
    const ssize_t got = connection_.receive(buffer_.data() + end_, buffer_.size() - end_);
    if (got > 0) {
      end_ += static_cast<std::size_t>(got);
    } else if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      return Event::nothing;
    } else {
      return Event::closed;
    }
  }
}

bool ControlStream::should_acknowledge() const noexcept {
  return received_ - last_acknowledged_ >= kAcknowledgeAfter || unacknowledged_bytes_ >= kAcknowledgeBytes;
}

}  // namespace ripc::internal::remote
