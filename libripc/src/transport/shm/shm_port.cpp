// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/shm_port.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/process_barrier.hpp"
#include "transport/shm/shm_channel.hpp"

namespace ripc::internal::shm {

namespace {
// Packets taken from one source before the next has its turn.
constexpr std::size_t kTurn = 32;
// This many packets without an empty look are a stream. A receiver close behind its sender takes the next cell away
// from it with every look. It is better to look a little later and find many packets.
constexpr std::size_t kStreak = 16;
// An empty look in a stream is therefore followed by this many pauses. 256 pauses are no faster one way: 45 million
// messages of 32 bytes per second with either, 42 million with none. But calls with 8 under way then take a fifth
// longer.
constexpr int kRest = 8;
// After this many packets without a sleep, the receiver is taken to stay awake. A barrier costs as much as hundreds of
// fences.
constexpr std::size_t kWakeAfter = 256;
// A port with one source, which is what a client has, looks at its next cell this many times in one poll. Returning to
// the caller and being called again costs ten such looks.
constexpr int kLooks = 16;

inline void give_room_back(ShmSource& source) noexcept {
  QueueReader& reader = source.reader();
  reader.publish();
  if (reader.take_room_request()) [[unlikely]]
    source.tell_room();
}

}  // namespace

ShmPort::ShmPort(const spi::PortOptions& options, EventSet& events, ServiceStateTable::Slot state,
                 std::function<void(ShmPort&)> closed)
    : Port(options, Geometry{options.queue_messages, options.queue_bytes}.packet_limit(), counters_),
      events_(events),
      state_(std::move(state)),
      line_(&state_.line()),
      registration_(line_->registration.load(std::memory_order_relaxed)),
      closed_(std::move(closed)) {
  // The line may have belonged to another service before; this service starts awake.
  line_->sleep_epoch.fetch_and(~(kAsleep | kFenceNeeded), std::memory_order_seq_cst);
}

ShmPort::~ShmPort() {
  close();
  closed_(*this);
  for (const auto& source : sources_) {
    events_.remove(source->doorbell());
    (void)send_message(*source->connection(), wire::shm_control::LinkClosed{.link = source->link()});
  }
}

Status ShmPort::add_source(std::shared_ptr<ShmSource> source) {
  const std::lock_guard lock(mutex_);
  const std::size_t count = sources_.size() + 1;
  if (sources_.capacity() < count) sources_.reserve(2 * count);
  if (polled_.capacity() < count && spare_.capacity() < count) spare_.reserve(2 * count);
  if (Status status = events_.add(source->doorbell()); !status.ok()) return status;
  sources_.push_back(std::move(source));
  counters_.sources.store(sources_.size(), std::memory_order_relaxed);
  version_.fetch_add(1, std::memory_order_release);
  events_.wake();
  return {};
}

void ShmPort::close() noexcept {
  line_->registration.fetch_add(1, std::memory_order_seq_cst);
  // Senders see the end in the line. A sender that waits, for room in the queue or for the end of a transfer, must be
  // notified.
  const std::lock_guard lock(mutex_);
  for (const auto& source : sources_) {
    if (source->reader().sender_waits()) source->tell_room();
  }
}

void ShmPort::wake() noexcept { events_.wake(); }

void ShmPort::look_at_sources() noexcept {
  version_.fetch_add(1, std::memory_order_release);
  events_.wake();
}

bool ShmPort::has(const ShmSource& source) const noexcept {
  const std::lock_guard lock(mutex_);
  return std::any_of(sources_.begin(), sources_.end(), [&](const auto& own) { return own.get() == &source; });
}

std::size_t ShmPort::sources_of(const ControlConnection& connection) const noexcept {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::count_if(
      sources_.begin(), sources_.end(), [&](const auto& source) { return source->connection().get() == &connection; }));
}

void ShmPort::refresh() noexcept {
  const std::lock_guard lock(mutex_);
  // First, because a source may die at any time: then the next poll looks again.
  polled_version_ = version_.load(std::memory_order_acquire);
  if (polled_.capacity() < sources_.size()) {
    polled_.swap(spare_);
    spare_.clear();
  }
  polled_.assign(sources_.begin(), sources_.end());
  single_source_ = polled_.size() == 1 && !polled_.front()->dead() ? polled_.front().get() : nullptr;
  next_ = 0;
}

// The answer of the only peer takes the shortest path: each step is a tail call of the next, and so has no registers to
// save.
std::size_t ShmPort::poll(spi::PacketSink& sink, std::size_t budget) noexcept {
  if (version_.load(std::memory_order_acquire) != polled_version_) [[unlikely]]
    return poll_refreshed(sink, budget);
  if (single_source_ != nullptr) {
    QueueReader& reader = single_source_->reader();
    const int looks = streak_ >= kStreak ? 1 : kLooks;  // a stream is better left alone
    for (int look = 0; look < looks; ++look) {
      if (!reader.has_packet()) continue;
      std::span<const std::byte> packet;
      if (budget != 1 || !reader.peek_inside(packet)) break;
      return take_one(packet, sink);
    }
  }
  return poll_sources(sink, budget);
}

std::size_t ShmPort::poll_refreshed(spi::PacketSink& sink, std::size_t budget) noexcept {
  refresh();
  for (const std::shared_ptr<ShmSource>& source : polled_) {
    if (!source->is_cut_off()) continue;
    sink.source_gone(*source);
    remove(source);
  }
  return poll(sink, budget);
}

std::size_t ShmPort::poll_sources(spi::PacketSink& sink, std::size_t budget) noexcept {
  const std::size_t taken = poll_all(sink, budget);
  return taken != 0 ? count(taken) : after_none(sink, budget);
}

// Takes a packet from the only source.
std::size_t ShmPort::take_one(std::span<const std::byte> packet, spi::PacketSink& sink) noexcept {
  ShmSource& source = *single_source_;
  QueueReader& reader = source.reader();
  if (streak_ >= kStreak) (void)reader.look_ahead();
  const bool taken = sink.deliver(source, packet, nullptr) == spi::Delivery::taken;
  if (taken) [[likely]]
    reader.pop();
  give_room_back(source);
  return taken ? count(1) : after_none(sink, 1);
}

inline std::size_t ShmPort::count(std::size_t taken) noexcept {
  streak_ += taken;
  if (fence_needed_ && (since_sleep_ += taken) >= kWakeAfter) [[unlikely]]
    clear_fence_needed();
  return taken;
}

std::size_t ShmPort::after_none(spi::PacketSink& sink, std::size_t budget) noexcept {
  return streak_ = streak_ >= kStreak ? poll_rested(sink, budget) : 0;
}

// After an empty look in a stream.
std::size_t ShmPort::poll_rested(spi::PacketSink& sink, std::size_t budget) noexcept {
  for (int pause = 0; pause < kRest; ++pause) cpu_pause();
  return poll_all(sink, budget);
}

// One round over the sources.
std::size_t ShmPort::poll_all(spi::PacketSink& sink, std::size_t budget) noexcept {
  const std::size_t count = polled_.size();
  std::size_t taken = 0;
  bool stop = false;
  for (std::size_t visited = 0; visited < count && taken < budget && !stop; ++visited) {
    if (next_ >= count) next_ = 0;
    const std::shared_ptr<ShmSource>& source = polled_[next_];
    ++next_;
    const std::size_t most = std::min({budget - taken, kTurn, source->allowance()});
    std::span<const std::byte> packet;
    if (most != 0 && source->reader().peek(packet)) {
      taken += poll_source(*source, packet, sink, most, stop);
    } else if (source->dead() || source->reader().broken()) [[unlikely]] {
      taken += retire_source(source, sink, most, stop);
    }
  }
  return taken;
}

std::size_t ShmPort::poll_source(ShmSource& source, std::span<const std::byte> packet, spi::PacketSink& sink,
                                 std::size_t budget, bool& stop) const noexcept {
  QueueReader& reader = source.reader();
  std::size_t taken = 0;
  if (streak_ >= kStreak) (void)reader.look_ahead();
  do {
    const spi::Delivery delivery = sink.deliver(source, packet, nullptr);
    if (delivery != spi::Delivery::taken) [[unlikely]] {
      stop = delivery == spi::Delivery::stop;
      break;
    }
    reader.pop();
    ++taken;
  } while (taken < budget && reader.peek(packet));
  source.took(taken);
  give_room_back(source);
  return taken;
}

// The queue of a source that is dead, or wrote nonsense, looked empty, or nothing more may be taken from it. A peer's
// death is noticed after all that it had sent: one more look tells whether something came in between.
std::size_t ShmPort::retire_source(std::shared_ptr<ShmSource> source, spi::PacketSink& sink, std::size_t budget,
                                   bool& stop) noexcept {
  std::span<const std::byte> packet;
  if (budget != 0 && source->reader().peek(packet)) return poll_source(*source, packet, sink, budget, stop);
  if (source->reader().broken()) {
    source->mark_dead();
    source->connection()->shut_down();
  }
  sink.source_gone(*source);
  remove(source);
  return 0;
}

void ShmPort::remove(const std::shared_ptr<ShmSource>& source) noexcept {
  events_.remove(source->doorbell());
  const std::lock_guard lock(mutex_);
  std::erase(sources_, source);
  counters_.sources.store(sources_.size(), std::memory_order_relaxed);
  version_.fetch_add(1, std::memory_order_release);
}

bool ShmPort::arm(bool on) noexcept {
  if (on) {
    prepare_sleep();
  } else {
    cancel_sleep();
  }
  return on;
}

// A sender that sees kFenceNeeded executes a fence between its packet and its look at kAsleep. This function does so
// between kAsleep and the last look at the queues. Only senders that may not have seen kFenceNeeded need the barrier,
// which interrupts every processor that runs such a sender: many microseconds in a virtual machine.
void ShmPort::prepare_sleep() noexcept {
  const std::uint32_t epoch = line_->sleep_epoch.load(std::memory_order_relaxed);
  line_->sleep_epoch.store(((epoch & ~(kAsleep | kFenceNeeded)) + kOneSleep) | kAsleep | kFenceNeeded,
                           std::memory_order_seq_cst);
  if ((epoch & kFenceNeeded) == 0) {
    process_barrier();
  } else {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  since_sleep_ = 0;
  fence_needed_ = true;
}

void ShmPort::cancel_sleep() noexcept {
  const std::uint32_t epoch = line_->sleep_epoch.load(std::memory_order_relaxed);
  if ((epoch & kAsleep) != 0) line_->sleep_epoch.store(epoch & ~kAsleep, std::memory_order_release);
}

// From now on, senders need no fence.
void ShmPort::clear_fence_needed() noexcept {
  fence_needed_ = false;
  const std::uint32_t epoch = line_->sleep_epoch.load(std::memory_order_relaxed);
  line_->sleep_epoch.store(epoch & ~(kAsleep | kFenceNeeded), std::memory_order_release);
}

}  // namespace ripc::internal::shm
