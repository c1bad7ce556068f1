// SPDX-License-Identifier: Apache-2.0
#include "remote/link/link_stream.hpp"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <new>

#include "wire/bytes.hpp"
#include "wire/packet.hpp"

namespace ripc::internal::remote {

namespace {

constexpr Nanoseconds kIdle = 5'000'000'000;
// In a row and without an answer: they take 6 s or more. TCP itself gives up after a quarter of an hour.
constexpr unsigned kMostRetransmissions = 5;

using Prefix = std::array<std::byte, kRecordPrefix>;

Prefix prefix_of(std::size_t size) noexcept {
  Prefix prefix;
  wire::store_le<std::uint32_t>(prefix.data(), static_cast<std::uint32_t>(size));
  return prefix;
}

// Whether a process may have socket buffers of this many bytes.
bool allows(int bytes) {
  static const int most = [] {
    int limit = 0;
    std::ifstream("/proc/sys/net/core/rmem_max") >> limit;
    return limit;
  }();
  return bytes <= most;
}

}  // namespace

// ---- The sender's end ----------------------------------------------------------------------------------------

// Sets no TCP_USER_TIMEOUT, because that would also end connections whose receiver does not read. The session finds out
// that the path is cut, and look() that a firewall has forgotten this connection alone.
Result<std::shared_ptr<StreamSender>> StreamSender::create(SecureSocket connection, EventLoop& loop,
                                                           std::function<void()> notify) {
  const int fd = connection.fd();
  connection.keep_alive(kIdle);
  std::shared_ptr<StreamSender> made(new StreamSender(std::move(connection), loop, std::move(notify)));
  made->out_.reserve(kMostWaiting);
  EventLoop::Handler handler = [made](std::uint32_t events) { made->on_event(events); };
  made->end_of_patience_ = loop.make_timer([weak = std::weak_ptr<StreamSender>(made)] {
    const auto alive = weak.lock();
    if (!alive) return;
    const std::lock_guard lock(alive->mutex_);
    alive->close_locked();
  });
  // Edge-triggered: an event comes only after the socket was full, or when the connection ends.
  Status status = loop.add(fd, EPOLLOUT | EPOLLRDHUP | EPOLLET, std::move(handler));
  if (status.ok()) return made;
  loop.cancel_timer(made->end_of_patience_);
  return status;
}

ripc_status StreamSender::send(const wire::datagram::Header& header, spi::Gather packet, bool more,
                               bool* held) noexcept {
  wire::datagram::HeaderBytes head;
  wire::datagram::encode(header, head);
  std::array<iovec, 2 + 2 * wire::kMaxPacketItems + 2> parts;  // not initialised: every message takes this path
  if (packet.size() + 2 > parts.size()) return RIPC_TOO_LARGE;
  std::size_t size = head.size();
  std::size_t count = 2;
  for (const spi::Bytes range : packet) {
    parts[count++] = {const_cast<std::byte*>(range.data()), range.size()};
    size += range.size();
  }
  Prefix prefix = prefix_of(size);
  parts[0] = {prefix.data(), prefix.size()};
  parts[1] = {head.data(), head.size()};
  size += prefix.size();

  const std::lock_guard lock(mutex_);
  const bool waits = more && size < kTogether / 4;
  if (!waits || waiting() + size > kMostWaiting) flush_locked();
  if (lost_) return RIPC_PEER_DEAD;
  if (waiting() != 0 && waiting() + size > kMostWaiting) return RIPC_AGAIN;
  try {
    out_.reserve(size);
  } catch (const std::bad_alloc&) {
    return RIPC_NO_MEMORY;
  }
  std::size_t sent = 0;
  if (waiting() == 0 && !waits) {
    const ssize_t result = connection_.send(std::span(parts).first(count));
    // Only what a full socket does not take may wait here: no event tells when other shortages of the system are over.
    if (result < 0 && errno != EAGAIN) {
      if (errno == EINTR || errno == ENOBUFS || errno == ENOMEM) return RIPC_AGAIN;
      lose_locked();
      return RIPC_PEER_DEAD;
    }
    sent = static_cast<std::size_t>(std::max<ssize_t>(result, 0));
    full_ = sent != size;
  }
  // This stays within the reserved capacity.
  if (out_.size() + size - sent > out_.capacity()) {
    out_.erase(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(out_sent_));
    out_sent_ = 0;
  }
  for (const iovec& part : std::span(parts).first(count)) {
    const std::size_t skipped = std::min(sent, part.iov_len);
    sent -= skipped;
    const auto* const data = static_cast<const std::byte*>(part.iov_base);
    out_.insert(out_.end(), data + skipped, data + part.iov_len);
  }
  const bool is_enough = waiting() >= kTogether;
  if (waits && is_enough) flush_locked();
  if (held != nullptr) *held = waits && !is_enough;
  return RIPC_OK;
}

ripc_status StreamSender::send_whole(spi::Bytes datagram) noexcept try {
  const Prefix prefix = prefix_of(datagram.size());
  const std::lock_guard lock(mutex_);
  if (lost_) return RIPC_PEER_DEAD;
  out_.reserve(out_.size() + prefix.size() + datagram.size());
  out_.insert(out_.end(), prefix.begin(), prefix.end());
  out_.insert(out_.end(), datagram.begin(), datagram.end());
  flush_locked();
  return lost_ ? RIPC_PEER_DEAD : RIPC_OK;
} catch (const std::bad_alloc&) {
  return RIPC_NO_MEMORY;
}

void StreamSender::flush() noexcept {
  const std::lock_guard lock(mutex_);
  flush_locked();
}

void StreamSender::drain(Deadline deadline) noexcept {
  const std::lock_guard lock(mutex_);
  for (flush_locked(); waiting() != 0 && !deadline.expired(); flush_locked()) {
    pollfd writable{connection_.fd(), POLLOUT, 0};
    (void)poll(&writable, 1, deadline.remaining_milliseconds());
  }
}

void StreamSender::flush_locked() noexcept {
  while (!lost_ && waiting() != 0) {
    const ssize_t result = connection_.send(out_.data() + out_sent_, waiting());
    if (result > 0) {
      out_sent_ += static_cast<std::size_t>(result);
    } else if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM) {
      full_ = errno == EAGAIN;
      return;
    } else if (errno != EINTR) {
      lose_locked();
    }
  }
  out_.clear();
  out_sent_ = 0;
}

bool StreamSender::has_room() noexcept {
  const std::lock_guard lock(mutex_);
  return lost_ || (!full_ && waiting() == 0);
}

// Memory that a large record took is not kept for long.
void StreamSender::look() noexcept try {
  const std::lock_guard lock(mutex_);
  tcp_info info{};
  socklen_t size = sizeof info;
  const bool is_known = !lost_ && getsockopt(connection_.fd(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0;
  if (is_known && info.tcpi_retransmits >= kMostRetransmissions) lose_locked();
  if (waiting() != 0 || out_.capacity() <= kMostWaiting) return;
  std::vector<std::byte> small;
  small.reserve(kMostWaiting);
  out_.swap(small);
} catch (const std::bad_alloc&) {
  // Without memory for a smaller buffer, the large one stays.
}

bool StreamSender::lost() noexcept {
  const std::lock_guard lock(mutex_);
  return lost_;
}

void StreamSender::on_event(std::uint32_t events) noexcept {
  std::function<void()> notify;
  {
    const std::lock_guard lock(mutex_);
    if (!connection_) return;
    if ((events & EPOLLOUT) != 0) full_ = false;
    flush_locked();
    // The peer sends nothing over this connection: if it is readable, it has ended.
    if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) lose_locked();
    if (finished_) {
      if (lost_ || waiting() == 0) close_locked();
      return;
    }
    if (lost_ || waiting() == 0) notify.swap(notify_);
  }
  if (!notify) return;
  notify();
  const std::lock_guard lock(mutex_);
  if (!finished_) notify.swap(notify_);
}

void StreamSender::lose_locked() noexcept {
  if (std::exchange(lost_, true)) return;
  // If the responder does not know yet, it finds the connection closed.
  (void)shutdown(connection_.fd(), SHUT_RDWR);
}

void StreamSender::finish(Nanoseconds patience) noexcept {
  const std::lock_guard lock(mutex_);
  if (std::exchange(finished_, true)) return;
  notify_ = nullptr;
  flush_locked();
  if (lost_ || waiting() == 0 || patience == 0) return close_locked();
  loop_.set_timer(end_of_patience_, monotonic_now() + patience);
}

void StreamSender::close_locked() noexcept {
  if (!connection_) return;
  loop_.cancel_timer(end_of_patience_);
  loop_.remove(connection_.fd());
  connection_.close();
  lost_ = true;
}

// ---- The receiver's end --------------------------------------------------------------------------------------

StreamReceiver::StreamReceiver(SecureSocket connection)
    : connection_(std::move(connection)), buffer_(std::make_unique_for_overwrite<std::byte[]>(kBuffer)) {
  connection_.keep_alive(kIdle);
  // A buffer size that is set stays; the window clamp alone would be lost when the kernel enlarges the buffer.
  if (allows(kWindow)) (void)setsockopt(fd(), SOL_SOCKET, SO_RCVBUF, &kWindow, sizeof kWindow);
  (void)setsockopt(fd(), IPPROTO_TCP, TCP_WINDOW_CLAMP, &kWindow, sizeof kWindow);
}

// The bytes of the first record that are not there yet.
std::size_t StreamReceiver::missing() const noexcept {
  const std::size_t present = end_ - begin_;
  if (present < kRecordPrefix) return kRecordPrefix - present;
  return kRecordPrefix + size() > present ? kRecordPrefix + size() - present : 0;
}

StreamReceiver::Outcome StreamReceiver::fill(spi::PacketSink& sink) noexcept {
  if (!large_ && is_large() && !begin_large(sink)) return Outcome::no_room;
  if (begin_ == end_) {
    begin_ = end_ = 0;
  } else if (kBuffer - end_ < kMaxCopied) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  // While the rest of a large record comes, the buffer is empty, and takes what follows the record.
  const std::size_t rest = large_size_ - large_end_;
  const std::size_t most = std::min(kBuffer - end_, std::max(missing(), kRead));
  std::array<iovec, 2> ranges{{{large_.get() + large_end_, rest}, {buffer_.get() + end_, most}}};
  const ssize_t result = rest != 0 ? connection_.receive(ranges) : connection_.receive(buffer_.get() + end_, most);
  if (result > 0) {
    const std::size_t large = std::min(static_cast<std::size_t>(result), rest);
    large_end_ += large;
    end_ += static_cast<std::size_t>(result) - large;
    return Outcome::data;
  }
  return result < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOMEM) ? Outcome::nothing : Outcome::ended;
}

// Moves the part of the large record that is there. False: there is no memory.
bool StreamReceiver::begin_large(spi::PacketSink& sink) noexcept {
  large_ = sink.make_room(size());
  if (!large_) return false;
  large_size_ = size();
  begin_ += kRecordPrefix;
  large_end_ = end_ - begin_;
  std::memcpy(large_.get(), buffer_.get() + begin_, large_end_);
  begin_ = end_;
  return true;
}

ripc_status StreamReceiver::front(spi::Bytes& datagram) const noexcept {
  datagram = {};
  if (large_) {
    if (large_end_ == large_size_) datagram = {large_.get(), large_size_};
    return RIPC_OK;
  }
  const std::size_t present = end_ - begin_;
  if (present < kRecordPrefix) return RIPC_OK;
  if (size() <= wire::datagram::kHeaderSize || size() > kMaxRecord - kRecordPrefix) return RIPC_CORRUPT;
  if (!is_large() && present - kRecordPrefix >= size()) datagram = {buffer_.get() + begin_ + kRecordPrefix, size()};
  return RIPC_OK;
}

void StreamReceiver::pop() noexcept {
  packet = {};
  if (large_) {
    large_.reset();
    large_size_ = large_end_ = 0;
  } else {
    begin_ += kRecordPrefix + size();
  }
}

}  // namespace ripc::internal::remote
