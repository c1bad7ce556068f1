// SPDX-License-Identifier: Apache-2.0
#include "core/receive/receiver.hpp"

#include <cstring>
#include <new>

#include "base/copy.hpp"
#include "base/held_sends.hpp"
#include "wire/packet.hpp"
#include "wire/plain.hpp"

namespace ripc::internal::core {

namespace {

// After this many rounds, the spin loop looks at things other than the queues.
constexpr unsigned kRoundsPerCheck = 32;
// The same where a spin must be short: over sockets each round is a system call.
constexpr unsigned kRoundsPerCheckBusy = 4;
// While bytes are on their way, the receiver looks at least this often.
constexpr Nanoseconds kLongReceiveSlice = 20'000'000;

}  // namespace

Status Receiver::open(std::vector<std::unique_ptr<spi::Transport>>& transports, const spi::PortOptions& options,
                      MessagePools& pools, std::uint32_t max_messages) {
  Status status = ports_.open(transports, options, life_.events());
  if (status.ok()) pool_ = new MessagePool(pools, ports_.packet_limit(), max_messages);
  return status;
}

void Receiver::end() noexcept {
  (void)long_receives_.drop_all(RIPC_CLOSED);
  ports_.clear();
}

// ---- Waiting -------------------------------------------------------------------------------------------------

// Handles what does not wait for a port.
void Receiver::poll_pending() noexcept {
  (void)inbox_.give_waiting();
  // Older messages first: one that has waited for too long gives its windows back to those that come now.
  long_receives_.progress_all();
  inbox_.pending = inbox_.has_waiting() || !long_receives_.empty();
}

// The first look, in receive(), found nothing. A message that comes now, while this thread polls, is returned alone.
// Looking for a second one would fetch the cache line that its sender is about to write, before the first one is
// returned.
ripc_status Receiver::receive_later(Nanoseconds timeout, std::size_t& count) noexcept {
  count = 0;
  const std::span<Message*> all = inbox_.output();
  if (timeout != 0) {
    HeldSends::let_all_go();
    inbox_.open(all.first(1));
  }
  Deadline deadline = Deadline::never();
  Nanoseconds spin_until = 0;
  Mover mover;
  for (bool first = true;; first = false) {
    clock_.forget();
    if (const ripc_status status = life_.status(); status != RIPC_OK) [[unlikely]]
      return status;
    // Everything else is checked less often: every instruction in this loop adds to the latency.
    const unsigned rounds = timeout == 0 || spin_.is_off() || mover ? 1
                            : spin_.is_short()                      ? kRoundsPerCheckBusy
                                                                    : kRoundsPerCheck;
    for (unsigned round = first ? 1 : 0; round < rounds; ++round) {
      if (poll_ports() != 0) {
        if (!first) spin_.came(came_after_);
        count = inbox_.count();
        return RIPC_OK;
      }
    }
    if (life_.is_signalled()) [[unlikely]] {
      if (life_.take_interrupt()) return RIPC_INTERRUPTED;
      if (life_.take_end_wait()) return RIPC_TIMEOUT;
    }
    // The application holds all messages, unless some are still on their way.
    if (long_receives_.empty() && pool_->exhausted()) return RIPC_LIMIT;
    if (out_of_memory_) [[unlikely]]
      return RIPC_NO_MEMORY;
    if (timeout == 0) return receive_nothing(count);
    const Nanoseconds now = came_after_ = clock_.now();
    if (first) {
      deadline = Deadline::after(timeout, now);
      spin_until = spin_.begin(now, deadline.at(), value(counters_.payload_messages), life_.uses_fd());
    }
    const bool moves = has_bytes_under_way(mover);
    if (mover && mover.look()) spin_until = spin_.go_on(now);
    // Spinning while others move the bytes takes the processor from them.
    if ((moves && !mover) || now >= spin_until) {
      inbox_.open(all);
      came_after_ = UINT64_MAX;
      const Nanoseconds wake_at = moves ? deadline.at() : spin_.wake_at(now);
      const ripc_status status = sleep(Deadline(wake_at), mover);
      if (inbox_.count() != 0) {
        spin_.came(clock_.now());
        count = inbox_.count();
        return RIPC_OK;
      }
      const bool is_early = status == RIPC_TIMEOUT && wake_at < deadline.at();
      if (status != RIPC_OK && !is_early) return status;
      if (is_early) spin_until = spin_.watch_until();
      inbox_.open(all.first(1));
      came_after_ = clock_.now();
    }
    cpu_pause();
  }
}

// The end of a receive that does not wait. If the descriptor is used, it must become readable for everything that
// arrives from now on, and for nothing else.
ripc_status Receiver::receive_nothing(std::size_t& count) noexcept {
  if (!life_.uses_fd()) return RIPC_EMPTY;
  HeldSends::let_all_go();  // the thread may wait for the descriptor next
  life_.events().drain();
  ports_.arm([](spi::Port&) {});
  if (life_.take_interrupt()) return RIPC_INTERRUPTED;
  if (const ripc_status status = life_.status(); status != RIPC_OK) return status;  // its event may just be drained
  // A packet that made no message may hide others, which no event reports.
  while (poll_ports() == 0) {
    if (out_of_memory_) return RIPC_NO_MEMORY;
    if (!took_) return RIPC_EMPTY;
    clock_.forget();
  }
  count = inbox_.count();
  ports_.disarm();
  return RIPC_OK;
}

ripc_status Receiver::sleep(Deadline deadline, Mover& mover) noexcept {
  ripc_status status = RIPC_OK;
  bool slept = false;
  for (;;) {
    if (status == RIPC_EMPTY) {
      // Only bytes have come: the ports are armed as before.
      if (mover.look() && inbox_.pending) poll_pending();
    } else {
      // Usually a message has woken this thread: then nothing needs to be armed, and no event forgotten.
      if (slept && (poll_ports() != 0 || (life_.events().forget_kept() && poll_ports() != 0))) break;
      // Armed again after each event: a sender wakes a receiver only once for each arming.
      ports_.arm([this](spi::Port& port) { poll(port); });
      if (took_ || inbox_.pending) (void)poll_ports();
    }
    if (inbox_.count() != 0 || life_.is_signalled() || life_.status() != RIPC_OK) break;
    // The packet would not be reported again.
    if (out_of_memory_) {
      status = RIPC_NO_MEMORY;
      break;
    }
    // Packets that made no message may hide others, which no event reports.
    if (took_) {
      clock_.forget();
      continue;
    }
    // The clock is read once for each sleep.
    const Nanoseconds now = clock_.now();
    if (deadline.remaining(now) == 0) {
      status = RIPC_TIMEOUT;
      break;
    }
    if (!slept) increase(counters_.sleeps);
    slept = true;
    (void)has_bytes_under_way(mover);
    const Deadline look = long_receives_.empty() ? Deadline::never() : Deadline::after(kLongReceiveSlice, now);
    status = life_.events().sleep(look.at() < deadline.at() ? look : deadline, now, mover.fd());
    clock_.forget();
    if (status == RIPC_INTERRUPTED) break;
    if (status == RIPC_TIMEOUT) status = RIPC_OK;
  }
  ports_.disarm();
  return status == RIPC_EMPTY ? RIPC_OK : status;
}

// ---- Packets --------------------------------------------------------------------------------------------------

inline void Receiver::learn(spi::Source& source, ripc_service_id id) noexcept {
  if (source.sink_data != id) [[unlikely]]
    learn_address(source, id);
}

void Receiver::learn_address(spi::Source& source, ripc_service_id id) noexcept {
  const spi::Peer* const peer = source.facts().peer;
  spin_.met(peer == nullptr || peer->user.has_value());
  try {
    // The trust file gives this name or ID to others: answers go where the resolver says.
    if (!source.may_claim(id)) return;
    routes_.learn(id, source.facts().reply_address);
  } catch (const std::bad_alloc&) {
    return;  // the next packet repeats it
  }
  source.sink_data = id;
}

// Handles nearly every packet. Its calls are tail calls, so that it has no registers to save.
spi::Delivery Receiver::deliver(spi::Source& source, spi::Bytes bytes, const Memory* room) noexcept {
  wire::Single packet;
  Message* message = nullptr;
  if (inbox_.pending || !wire::read_single<MessagePool::kSingleStorage>(bytes, source.sink_data, packet) ||
      (message = pool_->take_single()) == nullptr) [[unlikely]]
    return deliver_plain(source, bytes, room);
  message->items[0] = short_view(message->storage, packet.body.size());
  copy_small<MessagePool::kSingleStorage>(message->storage, packet.body.data(), packet.body.size());
  add_plain(message, source, packet.source, packet.tag, 1, packet.body.size());
  return spi::Delivery::taken;
}

spi::Delivery Receiver::deliver_plain(spi::Source& source, spi::Bytes bytes, const Memory* memory) noexcept {
  bool overtakes = false;
  if (!long_receives_.empty()) [[unlikely]] {
    // Messages of one source stay in order: those behind an incomplete message wait their turn.
    overtakes = wire::is_unordered(bytes);
    const LongReceives::Turn turn = overtakes ? LongReceives::Turn::now : long_receives_.turn_of(source, *pool_);
    if (turn != LongReceives::Turn::now)
      return turn == LongReceives::Turn::long_only ? deliver_special(source, bytes, memory, false)
                                                   : spi::Delivery::blocked;
  }
  // The peer can change the bytes at any time: each is read once.
  wire::PlainReader packet;
  if (!packet.read_header(bytes, RIPC_MAX_ITEMS)) [[unlikely]]
    return deliver_special(source, bytes, memory, overtakes);
  const spi::Bytes body = packet.body();
  Message* message = pool_->take(memory == nullptr ? body.size() : 0, packet.count());
  if (message == nullptr) [[unlikely]]
    return stop_without_memory();
  ripc_item_view* view = message->items;
  const bool fits = memory != nullptr || body.size() <= message->storage_size;
  const std::byte* const storage = memory == nullptr ? message->storage : body.data();
  if (!fits || !packet.visit_items([&](std::size_t offset, std::size_t length) {
        *view++ = short_view(storage + offset, length);
      })) [[unlikely]] {
    MessagePool::release(message);
    return fits ? deliver_special(source, bytes, memory, overtakes) : reject();
  }
  if (memory == nullptr) [[likely]] {
    copy_small(message->storage, body.data(), body.size());
  } else if (!keep(*message, body, *memory)) {
    return stop_without_memory();
  }
  learn(source, packet.source());
  add_plain(message, source, packet.source(), packet.tag(), packet.count(), body.size());
  return spi::Delivery::taken;
}

// The pool has memory that was used before. Its limit must not make packets wait forever.
spi::PacketSink::Memory Receiver::make_room(std::size_t size) noexcept try {
  Result<Memory> room = memory_.share(size);
  return room.ok() ? std::move(*room) : Memory(new std::byte[size], std::default_delete<std::byte[]>());
} catch (const std::bad_alloc&) {
  out_of_memory_ = true;
  return {};
}

// False: there is no memory to do so, and the message is released.
bool Receiver::keep(Message& message, spi::Bytes packet, const Memory& memory) noexcept try {
  message.keep(packet, memory);
  return true;
} catch (const std::bad_alloc&) {
  MessagePool::release(&message);
  return false;
}

spi::Delivery Receiver::reject() noexcept {
  increase(counters_.packets_corrupt);
  return spi::Delivery::taken;
}

// Handles a message that has more than payload, or is not a message at all. Examines a copy of it.
spi::Delivery Receiver::deliver_special(spi::Source& source, spi::Bytes bytes, const Memory* memory,
                                        bool overtakes) noexcept {
  if (bytes.size() < wire::kHeaderSize) return reject();
  // A hint about the room needed.
  Message* message = pool_->take(memory == nullptr ? bytes.size() : 0, static_cast<std::size_t>(bytes[3]));
  if (message == nullptr || (memory != nullptr && !keep(*message, bytes, *memory))) return stop_without_memory();
  wire::Packet packet;
  bool sound = bytes.size() <= message->storage_size;
  if (sound) {
    if (memory == nullptr) std::memcpy(message->storage, bytes.data(), bytes.size());
    sound = packet.decode({message->storage, bytes.size()}).ok() && packet.kind() == wire::PacketKind::message &&
            (packet.is_unordered() || !overtakes);
  }
  if (!sound) {
    MessagePool::release(message);
    return reject();
  }
  message->source = packet.source();
  message->peer = source.facts().peer;
  message->tag = packet.tag();
  learn(source, message->source);
  ripc_status begun = RIPC_NO_MEMORY;
  try {
    begun = long_receives_.begin(source, message, packet, (flags_ & RIPC_RECEIVE_LEND) != 0, *pool_);
  } catch (const std::bad_alloc&) {
    // The packet stays where it is.
  }
  if (begun == RIPC_OK) return spi::Delivery::taken;
  MessagePool::release(message);
  if (begun == RIPC_NO_MEMORY) return stop_without_memory();
  if (begun == RIPC_AGAIN) return spi::Delivery::blocked;
  // The message was withdrawn before it was taken: the sender knows, and for the receiver it never arrived.
  return begun == RIPC_CORRUPT ? reject() : spi::Delivery::taken;
}

}  // namespace ripc::internal::core
