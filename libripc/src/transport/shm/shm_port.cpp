// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/shm_port.hpp"

#include <algorithm>

#include "base/process_barrier.hpp"
#include "transport/shm/shm_channel.hpp"

namespace ripc::shm {

namespace {
// Packets taken from one source before the next has its turn.
constexpr std::size_t kTurn = 32;
}  // namespace

ShmPort::ShmPort(const spi::PortOptions& options, EventSet& events, ServiceStateTable::Slot state,
                 std::function<void(ShmPort&)> closed)
    : options_(options), events_(events), state_(std::move(state)), line_(&state_.line()), closed_(std::move(closed)) {
  // A line may have served another service before; it starts awake.
  if ((line_->sleep_epoch.load(std::memory_order_relaxed) & 1) != 0)
    line_->sleep_epoch.fetch_add(1, std::memory_order_seq_cst);
}

ShmPort::~ShmPort() {
  close();
  closed_(*this);
  for (const auto& source : sources_) {
    events_.remove(source->doorbell());
    (void)send_message(*source->connection(), wire::control::LinkClosed{.link = source->link()});
  }
}

Status ShmPort::add_source(std::shared_ptr<ShmSource> source) {
  Status status = events_.add(source->doorbell());
  if (!status.ok()) return status;
  const std::lock_guard lock(mutex_);
  sources_.push_back(std::move(source));
  version_.fetch_add(1, std::memory_order_release);
  events_.wake();
  return {};
}

void ShmPort::close() noexcept { line_->registration.fetch_add(1, std::memory_order_seq_cst); }

void ShmPort::nudge() noexcept { events_.wake(); }

std::size_t ShmPort::source_count() const noexcept {
  const std::lock_guard lock(mutex_);
  return sources_.size();
}

void ShmPort::refresh() noexcept {
  const std::lock_guard lock(mutex_);
  polled_ = sources_;
  polled_version_ = version_.load(std::memory_order_relaxed);
  next_ = 0;
}

std::size_t ShmPort::poll(spi::PacketSink& sink, std::size_t budget) noexcept {
  if (version_.load(std::memory_order_acquire) != polled_version_) [[unlikely]]
    refresh();
  const std::size_t count = polled_.size();
  std::size_t taken = 0;
  bool stop = false;
  for (std::size_t visited = 0; visited < count && taken < budget && !stop; ++visited) {
    if (next_ >= count) next_ = 0;
    ShmSource& source = *polled_[next_];
    ++next_;
    taken += poll_source(source, sink, std::min(budget - taken, kTurn), stop);
  }
  return taken;
}

std::size_t ShmPort::poll_source(ShmSource& source, spi::PacketSink& sink, std::size_t budget, bool& stop) noexcept {
  QueueReader& reader = source.reader();
  std::size_t taken = 0;
  std::span<const std::byte> packet;
  // Death is read first: what was sent before it is in the queue by now.
  const bool dead = source.dead();
  while (taken < budget) {
    if (!reader.peek(packet)) {
      if (reader.broken()) [[unlikely]] {
        source.mark_dead();
        source.connection()->shut_down();
      }
      if (dead || reader.broken()) [[unlikely]] {
        sink.source_gone(source);
        remove(polled_[next_ - 1]);
      }
      break;
    }
    const spi::Delivery delivery = sink.deliver(source, packet);
    if (delivery != spi::Delivery::taken) {
      stop = delivery == spi::Delivery::stop;
      break;
    }
    reader.pop();
    ++taken;
    if (reader.take_room_request()) [[unlikely]]
      source.tell_room();
  }
  return taken;
}

void ShmPort::remove(const std::shared_ptr<ShmSource>& source) noexcept {
  events_.remove(source->doorbell());
  const std::lock_guard lock(mutex_);
  std::erase(sources_, source);
  version_.fetch_add(1, std::memory_order_release);
}

void ShmPort::prepare_sleep() noexcept {
  const std::uint32_t epoch = line_->sleep_epoch.load(std::memory_order_relaxed);
  line_->sleep_epoch.store((epoch & 1) != 0 ? epoch + 2 : epoch + 1, std::memory_order_seq_cst);
  process_barrier();
}

void ShmPort::cancel_sleep() noexcept {
  const std::uint32_t epoch = line_->sleep_epoch.load(std::memory_order_relaxed);
  if ((epoch & 1) != 0) line_->sleep_epoch.store(epoch + 1, std::memory_order_release);
}

}  // namespace ripc::shm
