// SPDX-License-Identifier: Apache-2.0
// The receiving half of a service: waiting, and the way of a short message. Long ones go through assembly.cpp.
#include <algorithm>
#include <cstring>
#include <new>

#include "base/copy.hpp"
#include "core/assembly.hpp"
#include "core/service.hpp"
#include "wire/packet.hpp"

namespace ripc::core {

namespace {

// How often the spin loop looks at anything but the queues.
constexpr unsigned kRoundsPerCheck = 32;
// While bytes are on their way, the receiver looks at least this often.
constexpr Nanoseconds kAssemblySlice = 20'000'000;

// Of an item that lies in its message.
inline ripc_item_view short_view(const std::byte* data, std::size_t size) noexcept {
  return {.data = data,
          .size = size,
          .kind = RIPC_VIEW_SHORT,
          .status = RIPC_OK,
          .cookie = 0,
          .return_index = 0,
          .copied = 1};
}

}  // namespace

// What does not wait for a port.
void Service::poll_pending() noexcept {
  while (ready_ != nullptr && output_count_ < output_.size()) {
    output_[output_count_++] = ready_;
    ready_ = ready_->next;
  }
  // First what came first: a message that has waited for too long gives its windows back to those that come now.
  progress_all();
  pending_ = ready_ != nullptr || !assemblies_.empty();
}

void Service::emit_later(Message* message) noexcept {
  message->next = nullptr;
  (ready_ != nullptr ? last_ready_->next : ready_) = message;
  last_ready_ = message;
  pending_ = true;
}

// The first look, in receive(), found nothing. What comes now, while it waits awake, is given out alone: to look for a
// second message would fetch the line that its sender is about to write, before the first one is returned.
ripc_status Service::receive_later(Nanoseconds timeout, std::size_t& count) noexcept {
  count = 0;
  const std::span<Message*> all = output_;
  if (timeout != 0) output_ = all.first(1);
  Deadline deadline = Deadline::never();
  Nanoseconds spin_until = 0;
  for (bool first = true;; first = false) {
    now_ = 0;
    if (const ripc_status status = usable(); status != RIPC_OK) [[unlikely]]
      return status;
    // The rest is looked at less often: every instruction in this loop adds to the latency.
    const unsigned rounds = timeout == 0 || context_.spin() == 0 ? 1 : kRoundsPerCheck;
    for (unsigned round = first ? 1 : 0; round < rounds; ++round) {
      if (poll_ports() != 0) {
        count = output_count_;
        return RIPC_OK;
      }
    }
    if (interrupted_.load(std::memory_order_relaxed) && interrupted_.exchange(false, std::memory_order_acq_rel))
      return RIPC_INTERRUPTED;
    if (pool_->exhausted()) return RIPC_LIMIT;
    if (starved_) [[unlikely]]
      return RIPC_NO_MEMORY;
    if (timeout == 0) return receive_nothing(count);
    const Nanoseconds now = time();
    if (first) {
      bytes_until_ = 0;
      polls_bytes_ = false;
      deadline = Deadline::after(timeout, now);
      spin_until = std::min(now + context_.spin(), deadline.at());
    }
    // Who spins while bytes are on their way takes the processor from the threads that move them.
    if (assemblies_.empty() ? now >= spin_until : !polls_for_bytes(deadline)) {
      output_ = all;
      const ripc_status status = sleep(deadline);
      if (output_count_ != 0) {
        count = output_count_;
        return RIPC_OK;
      }
      if (status != RIPC_OK) return status;
    }
    cpu_pause();
  }
}

// The end of a receive that does not wait. Where the descriptor is used, it must become readable for whatever comes
// from now on, and only for that.
ripc_status Service::receive_nothing(std::size_t& count) noexcept {
  if (!uses_fd_.load(std::memory_order_relaxed)) return RIPC_EMPTY;
  events_.drain();
  arm();
  if (interrupted_.exchange(false, std::memory_order_acq_rel)) return RIPC_INTERRUPTED;
  // A packet that made no message may hide others, of which no event tells.
  while (poll_ports() == 0) {
    if (starved_) return RIPC_NO_MEMORY;
    if (!took_) return RIPC_EMPTY;
    now_ = 0;
  }
  count = output_count_;
  disarm();
  return RIPC_OK;
}

ripc_status Service::sleep(Deadline deadline) noexcept {
  ripc_status status = RIPC_OK;
  bool slept = false;
  for (;;) {
    // What woke us usually is a message: then nothing needs to be armed.
    if (slept && (poll_ports() != 0 || polls_for_bytes(deadline))) break;
    // Armed anew after each event: a sender wakes a receiver only once for each arming.
    arm();
    if (poll_ports() != 0 || interrupted_.load(std::memory_order_acquire) || usable() != RIPC_OK) break;
    // It would not be told of again.
    if (starved_) {
      status = RIPC_NO_MEMORY;
      break;
    }
    // What made no message may hide others, of which no event tells.
    if (took_) {
      now_ = 0;
      continue;
    }
    // The clock is read once for each sleep.
    const Nanoseconds now = time();
    if (deadline.remaining(now) == 0) {
      status = RIPC_TIMEOUT;
      break;
    }
    if (!slept) increase(counters_.sleeps);
    slept = true;
    const Deadline look = assemblies_.empty() ? Deadline::never() : Deadline::after(kAssemblySlice, now);
    status = events_.wait(look.at() < deadline.at() ? look : deadline, now);
    now_ = 0;
    if (status == RIPC_INTERRUPTED) break;
    status = RIPC_OK;
  }
  disarm();
  return status;
}

void Service::arm() noexcept {
  armed_ = true;
  for (const auto& port : ports_) port->prepare_sleep();
}

void Service::disarm() noexcept {
  armed_ = false;
  for (const auto& port : ports_) port->cancel_sleep();
}

void Service::interrupt() noexcept {
  interrupted_.store(true, std::memory_order_release);
  events_.wake();
  wake_room_waiters();
}

int Service::event_fd() noexcept {
  uses_fd_.store(true, std::memory_order_relaxed);
  return events_.fd();
}

inline void Service::learn(spi::Source& source, ripc_service_id id) noexcept {
  if (source.learned_service != id) [[unlikely]]
    learn_address(source, id);
}

void Service::learn_address(spi::Source& source, ripc_service_id id) noexcept {
  try {
    context_.routes().learn(id, source.reply_address());
  } catch (const std::bad_alloc&) {
    return;  // the next packet says it again
  }
  source.learned_service = id;
}

// Nearly every packet. What it calls ends it, so that it has no registers to save.
spi::Delivery Service::deliver(spi::Source& source, spi::Bytes bytes) noexcept {
  wire::Single packet;
  Message* message = nullptr;
  if (pending_ || !wire::read_single<MessagePool::kSingleStorage>(bytes, source.learned_service, packet) ||
      (message = pool_->take_single()) == nullptr) [[unlikely]]
    return deliver_plain(source, bytes);
  message->items[0] = short_view(message->storage, packet.body.size());
  copy_small<MessagePool::kSingleStorage>(message->storage, packet.body.data(), packet.body.size());
  emit_plain(message, packet.source, packet.tag, 1, packet.body.size());
  return spi::Delivery::taken;
}

spi::Delivery Service::deliver_plain(spi::Source& source, spi::Bytes bytes) noexcept {
  if (!assemblies_.empty()) [[unlikely]] {
    // What a source sends stays in order: what comes behind a message that is not complete waits its turn.
    if (const Ahead ahead = look_ahead_of(source); ahead.messages != 0)
      return may_begin(source, ahead) ? deliver_special(source, bytes) : spi::Delivery::blocked;
  }
  // The peer can change the bytes at any time: each is read once.
  wire::PlainReader packet;
  if (!packet.read_header(bytes, RIPC_MAX_ITEMS)) [[unlikely]]
    return deliver_special(source, bytes);
  const spi::Bytes body = packet.body();
  Message* message = pool_->take(body.size(), packet.count());
  if (message == nullptr) [[unlikely]]
    return starve();
  ripc_item_view* view = message->items;
  const bool fits = body.size() <= message->storage_size;
  if (!fits || !packet.visit_items([&](std::size_t offset, std::size_t length) {
        *view++ = short_view(message->storage + offset, length);
      })) [[unlikely]] {
    MessagePool::release(message);
    return fits ? deliver_special(source, bytes) : reject();
  }
  copy_small(message->storage, body.data(), body.size());
  learn(source, packet.source());
  emit_plain(message, packet.source(), packet.tag(), packet.count(), body.size());
  return spi::Delivery::taken;
}

spi::Delivery Service::reject() noexcept {
  increase(counters_.packets_corrupt);
  return spi::Delivery::taken;
}

// A message that has more than payload, or is no message at all: a copy of it is looked at.
spi::Delivery Service::deliver_special(spi::Source& source, spi::Bytes bytes) noexcept {
  if (bytes.size() < wire::kHeaderSize) return reject();
  // A hint about the room needed.
  Message* message = pool_->take(bytes.size(), static_cast<std::size_t>(bytes[3]));
  if (message == nullptr) return starve();
  wire::Packet packet;
  bool sound = bytes.size() <= message->storage_size;
  if (sound) {
    std::memcpy(message->storage, bytes.data(), bytes.size());
    sound = packet.decode({message->storage, bytes.size()}).ok() && packet.kind() == wire::PacketKind::message;
  }
  if (!sound) {
    MessagePool::release(message);
    return reject();
  }
  message->source = packet.source();
  message->tag = packet.tag();
  learn(source, message->source);
  try {
    return assemble(source, message, packet);
  } catch (const std::bad_alloc&) {
    MessagePool::release(message);
    return starve();
  }
}

void Service::source_gone(spi::Source& source) noexcept {
  const std::lock_guard lock(assemblies_mutex_);
  for (auto assembly = assemblies_.begin(); assembly != assemblies_.end();) {
    const auto current = assembly++;
    if (current->source.get() != &source) continue;
    // What lies in mapped memory can still be had.
    if (!progress(*current)) drop(*current, RIPC_PEER_DEAD);
    assemblies_.erase(current);
  }
}

}  // namespace ripc::core
