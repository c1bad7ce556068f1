// SPDX-License-Identifier: Apache-2.0
#include "remote/bulk/stream_connection.hpp"

#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "remote/bulk/limits.hpp"

namespace ripc::internal::remote {

namespace {

namespace bulk = wire::bulk;

// Bytes of one turn in the loop, so that other descriptors get theirs.
constexpr std::size_t kTurn = std::size_t{1} << 20;

// Zeros that replace payload whose memory was taken away in mid-frame.
constexpr std::size_t kZeroPages = 16;
constexpr std::array<std::byte, 4096> kZeros{};

void count(StreamTally::Count& counter, std::uint64_t by = 1) noexcept {
  counter.fetch_add(by, std::memory_order_relaxed);
}

bool would_block(int error) noexcept { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

SecureSocket::Memory memory_of(bool is_pinned) noexcept {
  using Memory = SecureSocket::Memory;
  return is_pinned ? Memory::kept : Memory::foreign;
}

void set_option(int socket, int level, int name, int value) noexcept {
  // The connection works without these options, only worse.
  (void)::setsockopt(socket, level, name, &value, sizeof value);
}

void prepare(int socket, Nanoseconds stall_timeout) noexcept {
  const int flags = ::fcntl(socket, F_GETFL);
  (void)::fcntl(socket, F_SETFL, flags | O_NONBLOCK);
  const auto milliseconds = static_cast<int>(std::clamp<Nanoseconds>(stall_timeout / 1'000'000, 1, 1'000'000'000));
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, milliseconds);
}

// The ranges of one sendmsg().
class Vector {
 public:
  void add(std::span<const std::byte> bytes) noexcept {
    if (bytes.empty()) return;
    ranges_[count_++] = {const_cast<std::byte*>(bytes.data()), bytes.size()};
    size_ += bytes.size();
  }
  void add_zeros(std::size_t size) noexcept {
    for (std::size_t page = 0; page < kZeroPages && size != 0; ++page) {
      const std::size_t piece = std::min(size, kZeros.size());
      add(std::span(kZeros).first(piece));
      size -= piece;
    }
  }
  std::size_t size() const noexcept { return size_; }
  std::span<iovec> ranges() noexcept { return std::span(ranges_).first(count_); }

 private:
  std::array<iovec, kZeroPages + 2> ranges_;
  std::size_t count_ = 0;
  std::size_t size_ = 0;
};

}  // namespace

StreamConnection::StreamConnection(SecureSocket socket, HandlerSet& handlers, std::weak_ptr<Handler> handler,
                                   std::shared_ptr<StreamTally> tally, Nanoseconds stall_timeout) noexcept
    : socket_(std::move(socket)), handlers_(handlers), handler_(std::move(handler)), tally_(std::move(tally)) {
  prepare(socket_.fd(), stall_timeout);
  socket_.keep_alive(stall_timeout);
}

Status StreamConnection::start() noexcept try {
  const std::lock_guard lock(mutex_);
  if (ended_) return RIPC_CLOSED;
  // Requests and pushes may have been queued before.
  write_wanted_ = true;
  started_ = true;
  return handlers_.add(socket_.fd(), EPOLLIN | EPOLLOUT,
                       [self = shared_from_this()](std::uint32_t events) { self->handle_events(events); });
} catch (const std::bad_alloc&) {
  return RIPC_NO_MEMORY;
}

void StreamConnection::close() noexcept {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  // The loop drops its reference, which may be the last one besides the caller's.
  handlers_.remove(socket_.fd());
  cut();
}

void StreamConnection::cut() noexcept { ::shutdown(socket_.fd(), SHUT_RDWR); }

std::uint64_t StreamConnection::send_rate() const noexcept {
  tcp_info info{};
  socklen_t size = sizeof info;
  return ::getsockopt(socket_.fd(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.tcpi_delivery_rate : 0;
}

void StreamConnection::handle_events(std::uint32_t events) noexcept {
  const std::shared_ptr<StreamConnection> self = shared_from_this();
  const std::shared_ptr<Handler> handler = handler_.lock();
  if (!handler) {
    close();
    return;
  }
  Outcome outcome = Outcome::done;
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) outcome = read_some(*handler);
  if (outcome != Outcome::lost && outcome != Outcome::violation) outcome = write_some(*handler);
  if (outcome != Outcome::lost && outcome != Outcome::violation) return;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
  }
  close();
  handler->lost(*this, outcome == Outcome::violation);
}

// ---- Reading -------------------------------------------------------------------------------------------------

StreamConnection::Outcome StreamConnection::read_some(Handler& handler) noexcept {
  std::size_t turn = 0;
  Outcome outcome = Outcome::more;
  while (outcome == Outcome::more && (turn < kTurn || socket_.has_buffered())) {
    outcome = receive(handler, turn);
    if (outcome != Outcome::done && outcome != Outcome::more) break;
    const Outcome parsed = parse(handler);
    if (parsed != Outcome::done) outcome = parsed;
  }
  return outcome;
}

// One system call. `more`: there may be more to read at once.
StreamConnection::Outcome StreamConnection::receive(Handler& handler, std::size_t& received) noexcept {
  if (frame_ && payload_received_ != frame_->length) return receive_payload(handler, received);
  // After a trailer comes a header; after a header perhaps payload, which must not be read into this buffer.
  const std::size_t wanted = (frame_ ? kLookahead : bulk::kHeaderSize) - head_size_;
  const ssize_t result = socket_.receive(head_.data() + head_size_, wanted);
  const Outcome outcome = receive_outcome(result);
  if (outcome != Outcome::more) return outcome;
  head_size_ += static_cast<std::size_t>(result);
  received += static_cast<std::size_t>(result);
  return static_cast<std::size_t>(result) == wanted ? Outcome::more : Outcome::done;
}

StreamConnection::Outcome StreamConnection::receive_payload(Handler& handler, std::size_t& received) noexcept {
  if (!destination_) return discard_payload(received);
  const std::size_t rest = frame_->length - payload_received_;
  ssize_t result = 0;
  int error = 0;
  {
    const std::lock_guard lock(destination_->mutex);
    if (destination_->memory != nullptr) {
      std::array<iovec, 2> ranges{
          {{destination_->memory + frame_->offset + payload_received_, rest}, {head_.data(), head_.size()}}};
      const memory::Pin pin = destination_->residence.pin();
      result = socket_.receive(ranges, memory_of(static_cast<bool>(pin)));
      error = result < 0 ? errno : 0;
    } else {
      error = ECANCELED;
    }
  }
  if (error == EFAULT) {
    handler.unwritable(*this, *frame_);
    error = ECANCELED;
  }
  if (error == ECANCELED) {
    destination_.reset();
    return discard_payload(received);
  }
  errno = error;
  const Outcome outcome = receive_outcome(result);
  if (outcome != Outcome::more) return outcome;
  const auto size = static_cast<std::size_t>(result);
  const std::size_t payload = std::min(size, rest);
  payload_received_ += static_cast<std::uint32_t>(payload);
  head_size_ = size - payload;
  received += size;
  return size == rest + head_.size() ? Outcome::more : Outcome::done;
}

StreamConnection::Outcome StreamConnection::discard_payload(std::size_t& received) noexcept {
  const std::size_t rest = frame_->length - payload_received_;
  const ssize_t result = socket_.discard(rest);
  const Outcome outcome = receive_outcome(result);
  if (outcome != Outcome::more) return outcome;
  count(tally_->bytes_discarded, static_cast<std::uint64_t>(result));
  payload_received_ += static_cast<std::uint32_t>(result);
  received += static_cast<std::size_t>(result);
  return static_cast<std::size_t>(result) == rest ? Outcome::more : Outcome::done;
}

StreamConnection::Outcome StreamConnection::receive_outcome(ssize_t result) noexcept {
  const int error = errno;
  count(tally_->receive_calls);
  if (result > 0) {
    count(tally_->bytes_received, static_cast<std::uint64_t>(result));
    received_.store(received_.load(std::memory_order_relaxed) + static_cast<std::uint64_t>(result),
                    std::memory_order_relaxed);
    return Outcome::more;
  }
  return result < 0 && would_block(error) ? Outcome::blocked : Outcome::lost;
}

void StreamConnection::consume_head(std::size_t size) noexcept {
  head_size_ -= size;
  std::memmove(head_.data(), head_.data() + size, head_size_);
}

StreamConnection::Outcome StreamConnection::parse(Handler& handler) noexcept {
  for (;;) {
    if (frame_) {
      if (payload_received_ != frame_->length || head_size_ < bulk::kTrailerSize) return Outcome::done;
      const std::optional<ripc_status> status = bulk::decode_trailer(std::span(head_).first<bulk::kTrailerSize>());
      if (!status) return Outcome::violation;
      consume_head(bulk::kTrailerSize);
      const bulk::Frame frame = *frame_;
      frame_.reset();
      destination_.reset();
      if (!handler.payload(*this, frame, *status)) return Outcome::violation;
    }
    if (head_size_ < bulk::kHeaderSize) return Outcome::done;
    const Result<bulk::Frame> frame = bulk::decode(std::span(head_).first<bulk::kHeaderSize>());
    if (!frame.ok()) return Outcome::violation;
    consume_head(bulk::kHeaderSize);
    std::shared_ptr<Destination> destination;
    if (!handler.frame(*this, *frame, destination)) return Outcome::violation;
    if (!bulk::has_payload(frame->type)) continue;
    frame_ = *frame;
    destination_ = std::move(destination);
    payload_received_ = 0;
  }
}

// ---- Writing -------------------------------------------------------------------------------------------------

bool StreamConnection::send(std::span<const bulk::Frame> frames) noexcept {
  const std::lock_guard lock(mutex_);
  if (ended_) return false;
  const std::size_t begin = outbox_.size();
  if (begin - outbox_sent_ + frames.size() * bulk::kHeaderSize > kMaxOutbox) {
    cut();
    return false;
  }
  try {
    outbox_.resize(begin + frames.size() * bulk::kHeaderSize);
  } catch (const std::bad_alloc&) {
    cut();
    return false;
  }
  std::byte* out = outbox_.data() + begin;
  for (const bulk::Frame& frame : frames) {
    encode(frame, std::span<std::byte, bulk::kHeaderSize>(out, bulk::kHeaderSize));
    out += bulk::kHeaderSize;
  }
  if (writing_ || write_wanted_) return true;
  const Outcome outcome = flush_outbox();
  if (outcome == Outcome::blocked) want_write(true);
  if (outcome == Outcome::lost) cut();
  return outcome != Outcome::lost;
}

bool StreamConnection::add_job(Job job) noexcept {
  const std::lock_guard lock(mutex_);
  if (ended_) return false;
  const bool wake = job.push != nullptr;
  try {
    jobs_.push_back(std::move(job));
  } catch (const std::bad_alloc&) {
    cut();
    return false;
  }
  if (wake) want_write(true);
  return true;
}

bool StreamConnection::answer(const bulk::Frame& request) noexcept {
  if (job_count() >= kMaxJobs) return false;
  // If the connection is lost, reading on shows that.
  (void)add_job({.frame = {.type = bulk::Type::data, .id = request.id, .offset = request.offset},
                 .end = request.offset + request.length,
                 .key = request.key,
                 .location = request.location,
                 .push = nullptr});
  return true;
}

std::size_t StreamConnection::job_count() const noexcept {
  const std::lock_guard lock(mutex_);
  return jobs_.size() + (writing_ ? 1 : 0);
}

StreamConnection::Outcome StreamConnection::flush_outbox() noexcept {
  if (outbox_sent_ == outbox_.size()) return Outcome::done;
  const std::size_t rest = outbox_.size() - outbox_sent_;
  const ssize_t result = socket_.send(outbox_.data() + outbox_sent_, rest);
  const Outcome outcome = send_outcome(result, rest);
  if (result > 0) outbox_sent_ += static_cast<std::size_t>(result);
  if (outbox_sent_ == outbox_.size()) {
    outbox_.clear();
    outbox_sent_ = 0;
  } else if (outbox_sent_ > kMaxOutbox) {
    outbox_.erase(outbox_.begin(), outbox_.begin() + static_cast<std::ptrdiff_t>(outbox_sent_));
    outbox_sent_ = 0;
  }
  return outcome;
}

void StreamConnection::want_write(bool wanted) noexcept {
  if (write_wanted_ == wanted || ended_ || !started_) return;
  write_wanted_ = wanted;
  const std::uint32_t events = wanted ? EPOLLIN | EPOLLOUT : EPOLLIN;
  if (!handlers_.modify(socket_.fd(), events).ok()) cut();
}

StreamConnection::Outcome StreamConnection::send_outcome(ssize_t result, std::size_t wanted) noexcept {
  const int error = errno;
  count(tally_->send_calls);
  if (result < 0) return would_block(error) ? Outcome::blocked : Outcome::lost;
  count(tally_->bytes_sent, static_cast<std::uint64_t>(result));
  sent_.fetch_add(static_cast<std::uint64_t>(result), std::memory_order_relaxed);
  return static_cast<std::size_t>(result) == wanted ? Outcome::done : Outcome::blocked;
}

StreamConnection::Outcome StreamConnection::write_some(Handler& handler) noexcept {
  std::uint64_t turn = 0;
  for (;;) {
    if (job_.empty()) {
      const std::lock_guard lock(mutex_);
      const Outcome flushed = flush_outbox();
      if (flushed == Outcome::lost) return flushed;
      const bool idle = flushed == Outcome::done && jobs_.empty();
      if (flushed == Outcome::blocked || idle || turn >= kTurn) {
        want_write(!idle);
        return flushed;
      }
      job_.splice(job_.begin(), jobs_, jobs_.begin());
      writing_ = true;
      bulk::Frame& frame = job_.front().frame;
      frame.length =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(job_.front().end - frame.offset, bulk::kMaxPayload));
      out_position_ = 0;
      out_status_ = RIPC_OK;
    }
    const Outcome outcome = write_payload(handler);
    if (outcome == Outcome::lost) return outcome;
    if (outcome == Outcome::blocked) {
      const std::lock_guard lock(mutex_);
      want_write(true);
      return outcome;
    }
    if (outcome == Outcome::more) continue;
    Job& job = job_.front();
    turn += job.frame.length;
    const std::lock_guard lock(mutex_);
    writing_ = false;
    job.frame.offset += job.frame.length;
    if (out_status_ == RIPC_OK && job.frame.offset != job.end) {
      jobs_.splice(job.push ? jobs_.end() : jobs_.begin(), job_);
    } else {
      job_.clear();
    }
  }
}

// One system call. done: the frame is written; more: call again at once.
StreamConnection::Outcome StreamConnection::write_payload(Handler& handler) noexcept {
  const Job& job = job_.front();
  bulk::Frame& frame = job_.front().frame;
  Reading reading;
  if (out_status_ == RIPC_OK && out_position_ < bulk::kHeaderSize + frame.length) {
    reading = handler.read(job);
    out_status_ = reading.status;
  }
  if (out_position_ == 0) {
    if (out_status_ != RIPC_OK) frame.length = 0;
    encode(frame, std::span(out_header_));
  }
  out_trailer_ = bulk::encode_trailer(out_status_);
  const std::size_t size = bulk::kHeaderSize + frame.length + bulk::kTrailerSize;
  Vector vector;
  std::size_t payload_sent = 0;
  if (out_position_ < bulk::kHeaderSize) {
    vector.add(std::span(out_header_).subspan(out_position_));
  } else {
    payload_sent = std::min<std::size_t>(out_position_ - bulk::kHeaderSize, frame.length);
  }
  const std::size_t rest = frame.length - payload_sent;
  if (out_status_ == RIPC_OK && rest != 0) {
    vector.add(reading.bytes.subspan(payload_sent));
  } else {
    vector.add_zeros(rest);
  }
  // The trailer follows, unless zeros are left for another round.
  const std::size_t so_far = out_position_ + vector.size();
  if (so_far >= size - bulk::kTrailerSize)
    vector.add(std::span(out_trailer_).subspan(so_far - (size - bulk::kTrailerSize)));
  const ssize_t result = socket_.send(vector.ranges(), memory_of(reading.pin || reading.bytes.empty()));
  if (result < 0 && errno == EFAULT && reading.lock.owns_lock()) {
    count(tally_->send_calls);
    reading = {};
    handler.unreadable(job);
    return Outcome::more;
  }
  const Outcome outcome = send_outcome(result, vector.size());
  if (result > 0) out_position_ += static_cast<std::size_t>(result);
  if (outcome == Outcome::done && out_position_ != size) return Outcome::more;
  return outcome;
}

}  // namespace ripc::internal::remote
