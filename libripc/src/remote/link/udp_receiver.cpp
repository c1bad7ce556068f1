// SPDX-License-Identifier: Apache-2.0
#include "remote/link/udp_receiver.hpp"

#include <errno.h>

#include <algorithm>
#include <list>
#include <new>

namespace ripc::internal::remote {

namespace {

// Room that is not granted. It is for probes: their sender has no credit, and limits them itself. The rest is a
// reserve, because the system's accounting differs slightly from the estimate.
constexpr std::size_t kControlReserve = 48 * datagram_bytes(wire::datagram::kHeaderSize);
// How many errors to skip: a socket reports pending errors before its datagrams.
constexpr int kMaxErrors = 4;
// How many batches without a packet are read in one turn.
constexpr int kMaxEmptyBatches = 8;
// How many records without a packet are read in one turn.
constexpr int kMaxEmptyRecords = 128;
// How long datagrams that were sent before a connection was there may still be on their way.
constexpr Nanoseconds kReorderTimeout = 10'000'000;

}  // namespace

UdpReceiver::~UdpReceiver() {
  for (const auto& source : sources_) {
    port_.events().remove(source->socket().fd());
    for (const int fd : source->stream_fds) port_.events().remove(fd);
  }
}

// What the options ask for, as the socket buffer counts it: small messages, bytes of larger ones, and two of the
// largest packets. The bytes count twice, because they are rounded up. Of the two packets, one can come while the other
// is read.
std::size_t UdpReceiver::wanted_buffer() const noexcept {
  const spi::PortOptions& options = port_.options();
  const std::size_t content = options.queue_messages * datagram_bytes(128) + 2 * std::size_t{options.queue_bytes} +
                              2 * datagram_bytes(kMaxDatagram) + kControlReserve;
  return std::max(content + content / 2, receive_buffer_);
}

// When packets are read, the system gives their room back in steps of a quarter of the buffer.
std::uint32_t UdpReceiver::budget(std::size_t buffer) const noexcept {
  const std::size_t usable = buffer - buffer / 4;
  const std::size_t least = 2 * datagram_bytes(kMaxDatagram);
  return static_cast<std::uint32_t>(std::max(usable - std::min(usable, kControlReserve), least) / kCreditUnit);
}

Status UdpReceiver::watch(const UniqueFd& set, const UdpSource& source, int fd) noexcept {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = const_cast<UdpSource*>(&source);
  if (epoll_ctl(set.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return system_error(errno, "epoll_ctl", "raise fs.epoll.max_user_watches");
}

Status UdpReceiver::add_source(std::shared_ptr<UdpSource> source) {
  const std::lock_guard lock(mutex_);
  // The receiver has no way to say that there is no memory.
  port_.make_place();
  const std::size_t count = sources_.size() + 1;
  if (sources_.capacity() < count) sources_.reserve(2 * count);
  if (polled_capacity_ < count && spare_.capacity() < count) spare_.reserve(2 * count);
  if (!buffers_) buffers_ = std::make_unique_for_overwrite<std::byte[]>(kBatch * kStride);  // untouched before use
  if (sources_.size() >= kDirect && !ready_set_) {
    UniqueFd set(epoll_create1(EPOLL_CLOEXEC));
    if (!set) return system_error(errno, "epoll_create1", "raise `ulimit -n`");
    for (const auto& present : sources_) {
      Status status = watch(set, *present, present->socket().fd());
      for (const int fd : present->stream_fds) {
        if (status.ok()) status = watch(set, *present, fd);
      }
      if (!status.ok()) return status;
    }
    ready_set_ = std::move(set);
  }
  if (ready_set_) {
    if (Status status = watch(ready_set_, *source, source->socket().fd()); !status.ok()) return status;
  }
  Status status = port_.events().add(source->socket().fd(), EventSet::Kind::packets);
  if (!status.ok()) {
    if (ready_set_) (void)epoll_ctl(ready_set_.get(), EPOLL_CTL_DEL, source->socket().fd(), nullptr);
    return status;
  }
  sources_.push_back(source);
  port_.insert(std::move(source));
  return {};
}

void UdpReceiver::adopt_stream(const Session& session, std::uint32_t link, SecureSocket connection) {
  auto stream = std::make_unique<StreamReceiver>(std::move(connection));
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      sources_, [&](const auto& source) { return source->session().get() == &session && source->link() == link; });
  if (found == sources_.end()) return;
  // Otherwise the sender finds the connection closed, and goes on as before.
  UdpSource& source = **found;
  source.stream_fds.reserve(source.stream_fds.size() + 1);
  if (!watch_stream(source, stream->fd()).ok()) return;
  source.stream_fds.push_back(stream->fd());
  if (const auto replaced = source.adopt(std::move(stream))) unwatch(source, replaced->fd());
  passed_.store(true, std::memory_order_release);
  port_.events().wake();
}

Status UdpReceiver::watch_stream(UdpSource& source, int fd) noexcept {
  Status status = port_.events().add(fd, EventSet::Kind::packets);
  if (!status.ok() || !ready_set_) return status;
  status = watch(ready_set_, source, fd);
  if (!status.ok()) port_.events().remove(fd);
  return status;
}

void UdpReceiver::unwatch(UdpSource& source, int fd) noexcept {
  std::erase(source.stream_fds, fd);
  port_.events().remove(fd);
  if (ready_set_) (void)epoll_ctl(ready_set_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void UdpReceiver::pass(UdpSource& source, spi::Bytes datagram) {
  if (!source.keep(datagram)) return;
  passed_.store(true, std::memory_order_release);
  port_.events().wake();
}

void UdpReceiver::refresh() noexcept {
  const std::lock_guard lock(mutex_);
  polled_version_ = port_.version();
  if (polled_.capacity() < sources_.size()) {
    polled_.clear();
    polled_.swap(spare_);
    polled_capacity_ = polled_.capacity();
  }
  polled_.assign(sources_.begin(), sources_.end());
  ready_fd_ = ready_set_.get();
  ready_next_ = ready_count_ = 0;
  unscanned_ = polled_.size();
  if (!buffers_ || headers_[0].msg_hdr.msg_iov != nullptr) return;
  for (std::size_t index = 0; index < kBatch; ++index) {
    parts_[index] = {buffers_.get() + index * kStride, kMaxDatagram + 1};
    headers_[index].msg_hdr.msg_iov = &parts_[index];
    headers_[index].msg_hdr.msg_iovlen = 1;
  }
}

std::size_t UdpReceiver::poll(spi::PacketSink& sink, std::size_t budget) noexcept {
  if (port_.version() != polled_version_) [[unlikely]]
    refresh();
  if (polled_.empty()) return 0;
  // The system does not know of what was passed, so each source is looked at once.
  if (passed_.load(std::memory_order_relaxed)) [[unlikely]] {
    passed_.store(false, std::memory_order_seq_cst);
    unscanned_ = polled_.size();
  }
  bool stop = false;
  std::size_t taken = 0;
  if (batch_next_ < batch_count_) taken = deliver_batch(sink, budget, stop);
  if (stop || taken >= budget) return taken;
  if (polled_.size() <= kDirect || unscanned_ != 0 || backlogged_ != 0 || ready_fd_ < 0)
    return taken + poll_all(sink, budget - taken, stop);
  return taken + poll_ready(sink, budget - taken, stop);
}

// One round over the sources, or as far as the budget goes.
std::size_t UdpReceiver::poll_all(spi::PacketSink& sink, std::size_t budget, bool& stop) noexcept {
  const std::size_t count = polled_.size();
  std::size_t taken = 0;
  for (std::size_t visited = 0; visited < count && taken < budget && !stop; ++visited) {
    if (next_ >= count) next_ = 0;
    const std::shared_ptr<UdpSource>& source = polled_[next_];
    ++next_;
    if (unscanned_ != 0) --unscanned_;
    taken += poll_source(source, sink, budget - taken, stop);
  }
  return taken;
}

std::size_t UdpReceiver::poll_ready(spi::PacketSink& sink, std::size_t budget, bool& stop) noexcept {
  std::size_t taken = 0;
  // A ready source may turn out to have no packet; then the next ones are asked for.
  for (std::size_t asked = 0; taken == 0 && !stop && asked <= polled_.size(); asked += ready_.size()) {
    const bool more = ready_next_ != ready_count_;
    if (!more) {
      ready_next_ = 0;
      ready_count_ = static_cast<std::size_t>(
          std::max(epoll_wait(ready_fd_, ready_.data(), static_cast<int>(ready_.size()), 0), 0));
      count_call();
    }
    const bool last = !more && ready_count_ < ready_.size();
    while (ready_next_ < ready_count_ && taken < budget && !stop) {
      auto* const source = static_cast<UdpSource*>(ready_[ready_next_].data.ptr);  // as watch() gave it
      ++ready_next_;
      taken += poll_source(std::shared_ptr<UdpSource>(source->shared_from_this(), source), sink, budget - taken, stop);
    }
    if (last) break;
  }
  return taken;
}

// A turn of one source.
std::size_t UdpReceiver::poll_source(const std::shared_ptr<UdpSource>& source, spi::PacketSink& sink,
                                     std::size_t budget, bool& stop) noexcept {
  // Its death is looked at first: what had come before that is found below.
  const bool over = source->is_over();
  std::size_t taken = 0;
  while (!source->backlog.empty() || source->has_kept()) [[unlikely]] {
      if (source->backlog.empty()) take_kept(*source);
      if (source->backlog.empty()) continue;
      taken += source->deliver_backlog(sink, budget - taken, stop);
      if (!source->backlog.empty()) return taken;
      --backlogged_;
      if (taken < budget) continue;
      if (source->has_kept()) passed_.store(true, std::memory_order_relaxed);
      break;
    }
  if (taken != 0) [[unlikely]]
    return taken;
  StreamReceiver* const stream = source->stream();
  if ((stream == nullptr || !stream->is_due) && fetch(*source)) {
    batch_source_ = source;
    return deliver_batch(sink, budget, stop);
  }
  if (stream != nullptr && is_due(*source, *stream, sink)) taken = poll_stream(*source, *stream, sink, budget, stop);
  if (taken != 0 || stop || source->has_record()) return taken;
  if (over) [[unlikely]] {
    sink.source_gone(*source);
    remove(source);
  }
  return 0;
}

// Reads a batch. True if there is a packet in it; false only if nothing is left to read.
bool UdpReceiver::fetch(UdpSource& source) noexcept {
  batch_next_ = batch_count_ = 0;
  for (int round = 0; round < kMaxEmptyBatches; ++round) {
    const unsigned wanted = source.batch;
    int count = 0;
    for (int errors = 0; errors < kMaxErrors; ++errors) {
      count = read_batch(source.socket().fd(), wanted);
      if (count >= 0 || errno == EAGAIN) break;
    }
    const bool filled = count == static_cast<int>(wanted);
    source.batch = filled ? std::min(2 * wanted, kBatch) : 1;
    if (count <= 0) return false;
    for (int index = 0; index < count; ++index) {
      const auto at = static_cast<std::size_t>(index);
      // It is longer than any of ours, so the part that came is no packet.
      const std::size_t size = headers_[at].msg_len > kMaxDatagram ? 0 : headers_[at].msg_len;
      spi::Bytes datagram;
      if (!source.open_sealed({buffers_.get() + at * kStride, size}, datagram, port_.counters())) continue;
      const spi::Bytes packet = source.accept(datagram, source.token(), port_.counters());
      if (!packet.empty()) batch_[batch_count_++] = packet;
    }
    source.settle(port_.counters());
    if (batch_count_ != 0) return true;
    if (!filled) return false;
  }
  // Someone floods the link with datagrams that are no packets. Other sources get a turn.
  port_.events().wake();
  return false;
}

// Packets that went over UDP are delivered before those of the connection. Packets that do not come soon are lost.
bool UdpReceiver::is_due(UdpSource& source, StreamReceiver& stream, spi::PacketSink& sink) noexcept {
  if (stream.is_due) return true;
  spi::Bytes datagram;
  // No event tells of what was read already, so this reads until the packet is whole or nothing is left.
  while (stream.front(datagram) == RIPC_OK && datagram.empty()) {
    if (!fill(source, stream, sink)) return false;
  }
  wire::datagram::Header header;
  const Nanoseconds now = monotonic_now();
  if (stream.due_at == 0) stream.due_at = now + kReorderTimeout;
  stream.is_due =
      wire::datagram::decode(datagram, header) != RIPC_OK || source.is_next(header.sequence) || now >= stream.due_at;
  if (!stream.is_due) {
    unscanned_ = polled_.size();
    port_.events().wake();
  }
  return stream.is_due;
}

// False: there is nothing more to read now, or ever; in the latter case the connection is dropped.
bool UdpReceiver::fill(UdpSource& source, StreamReceiver& stream, spi::PacketSink& sink) noexcept {
  count_call();
  const StreamReceiver::Outcome outcome = stream.fill(sink);
  if (outcome == StreamReceiver::Outcome::ended ||
      (outcome == StreamReceiver::Outcome::nothing && is_replaced(source, stream)))
    end_stream(source);
  return outcome == StreamReceiver::Outcome::data;
}

// Whether the sender has given up this connection. News of its end may never come over a path that has failed.
bool UdpReceiver::is_replaced(const UdpSource& source, StreamReceiver& stream) noexcept {
  if (!source.has_next()) [[likely]]
    return false;
  const Nanoseconds now = monotonic_now();
  if (stream.over_at == 0) stream.over_at = now + kReorderTimeout;
  if (now >= stream.over_at) return true;
  port_.events().wake();
  return false;
}

void UdpReceiver::end_stream(UdpSource& source) noexcept {
  const std::lock_guard lock(mutex_);
  unwatch(source, source.stream()->fd());
  source.drop_stream();
  // Datagrams that came by UDP meanwhile have already made an event.
  port_.events().wake();
}

std::size_t UdpReceiver::poll_stream(UdpSource& source, StreamReceiver& stream, spi::PacketSink& sink,
                                     std::size_t budget, bool& stop) noexcept {
  std::size_t taken = 0;
  int refused = 0;
  spi::Bytes datagram;
  while (taken < budget) {
    if (stream.packet.empty()) {
      if (stream.front(datagram) != RIPC_OK) {
        increase(port_.counters().corrupt);
        end_stream(source);
        return taken;
      }
      if (datagram.empty()) {
        // The packets sent just now are not there yet, but a receiver that waits for the first packet should have it
        // now. No event tells of what the connection has read and not given out.
        if ((taken != 0 && !stream.has_buffered()) || !fill(source, stream, sink)) return taken;
        continue;
      }
      // As in fetch().
      if (refused >= kMaxEmptyRecords) {
        port_.events().wake();
        break;
      }
      stream.packet = source.accept(datagram, source.token(), port_.counters());
      if (stream.packet.empty()) {
        stream.pop();
        ++refused;
        continue;
      }
    }
    const spi::Delivery delivery = sink.deliver(source, stream.packet, stream.memory() ? &stream.memory() : nullptr);
    if (delivery != spi::Delivery::taken) {
      stop = delivery == spi::Delivery::stop;
      break;
    }
    stream.pop();
    ++taken;
  }
  // No event tells of data that was read already.
  unscanned_ = polled_.size();
  return taken;
}

// As recvmmsg().
int UdpReceiver::read_batch(int fd, unsigned wanted) noexcept {
  count_call();
  if (wanted != 1) return recvmmsg(fd, headers_.data(), wanted, MSG_DONTWAIT, nullptr);
  // A receiver that waits usually looks this way, and the plain call is faster.
  const ssize_t size = recv(fd, buffers_.get(), kStride, MSG_DONTWAIT);
  if (size < 0) return -1;
  headers_[0].msg_len = static_cast<unsigned>(size);
  return 1;
}

void UdpReceiver::count_call() noexcept { increase(port_.counters().receive_calls); }

std::size_t UdpReceiver::deliver_batch(spi::PacketSink& sink, std::size_t budget, bool& stop) noexcept {
  std::size_t taken = 0;
  while (batch_next_ < batch_count_ && taken < budget) {
    const spi::Delivery delivery = sink.deliver(*batch_source_, batch_[batch_next_], nullptr);
    if (delivery == spi::Delivery::taken) [[likely]] {
      ++batch_next_;
      ++taken;
      continue;
    }
    stop = delivery == spi::Delivery::stop || !set_aside();
    break;
  }
  return taken;
}

// The rest of the batch waits; the buffers are for the other sources. False: there is no memory, the batch stays.
bool UdpReceiver::set_aside() noexcept {
  std::list<std::vector<std::byte>> packets;
  try {
    for (std::size_t index = batch_next_; index < batch_count_; ++index)
      packets.emplace_back(batch_[index].begin(), batch_[index].end());
  } catch (const std::bad_alloc&) {
    return false;
  }
  batch_source_->backlog.splice(batch_source_->backlog.end(), packets);
  batch_next_ = batch_count_;
  ++backlogged_;
  return true;
}

// Turns datagrams that came by the control connection into packets.
void UdpReceiver::take_kept(UdpSource& source) noexcept {
  source.take_kept(port_.counters());
  source.settle(port_.counters());
  if (!source.backlog.empty()) ++backlogged_;
}

void UdpReceiver::remove(const std::shared_ptr<UdpSource>& source) noexcept {
  while (source->stream() != nullptr) end_stream(*source);
  port_.events().remove(source->socket().fd());
  if (batch_source_ == source) batch_source_.reset();
  const std::lock_guard lock(mutex_);
  if (ready_set_) (void)epoll_ctl(ready_set_.get(), EPOLL_CTL_DEL, source->socket().fd(), nullptr);
  // Its socket and its connections are ready each by itself.
  for (std::size_t index = ready_next_; index < ready_count_;) {
    if (ready_[index].data.ptr == source.get()) {
      ready_[index] = ready_[--ready_count_];
    } else {
      ++index;
    }
  }
  std::erase(sources_, source);
  port_.erase(*source);
}

}  // namespace ripc::internal::remote
