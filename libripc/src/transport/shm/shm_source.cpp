// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/shm_source.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "transport/shm/location.hpp"
#include "transport/shm/shm_channel.hpp"

namespace ripc::internal::shm {

namespace {

// Larger items are not pushed into a return buffer. process_vm_writev() reaches a third of the rate of memcpy() at 1
// MiB. A copy into the pool and one out of it, by the requester, reach two thirds (docs/performance/long-messages.md).
constexpr std::size_t kMostPushed = std::size_t{256} << 10;

}  // namespace

ShmSource::ShmSource(Parts parts)
    : Source({.context = parts.context,
              .reply_address = {"shm", parts.locator},
              .patience = kPatience,
              .slowest_rate = kSlowestRate,
              .peers = parts.peers,
              .peer = parts.peer}),
      parts_(std::move(parts)),
      reader_(parts_.memory.data(), parts_.geometry),
      last_packets_(parts_.geometry.cells),
      taker_(parts_.memory.data()),
      no_direct_access_(parts_.connection->process().reach() != Reach::direct) {}

ripc_status ShmSource::begin(std::span<const wire::Descriptor> items) noexcept {
  const Key key = Key::from(items.front().key);
  const bool one_transfer = std::all_of(items.begin(), items.end(), [&](const wire::Descriptor& item) {
    const Key other = Key::from(item.key);
    return other.slot == key.slot && other.generation == key.generation;
  });
  return one_transfer ? taker_.begin(key) : RIPC_CORRUPT;
}

ripc_status ShmSource::prepare(spi::Pull& pull) noexcept {
  const std::uint64_t location = pull.descriptor.location;
  const std::uint64_t length = pull.descriptor.length;
  if (location == kUndisclosed || !is_pooled(location)) {
    const bool direct = location != kUndisclosed && !no_direct_access_.load(std::memory_order_relaxed);
    return direct || length == 0 ? RIPC_OK : prepare_bounce(pull);
  }
  std::shared_ptr<const Mapping> arena;
  const ripc_status known = parts_.connection->foreign_arena(arena_of(location), arena);
  if (known == RIPC_UNSUPPORTED) return prepare_bounce(pull);
  if (known != RIPC_OK) return dead() ? RIPC_PEER_DEAD : RIPC_PENDING;
  if (offset_of(location) > arena->size() || length > arena->size() - offset_of(location)) return RIPC_CORRUPT;
  pull.memory = std::move(arena);
  return RIPC_OK;
}

// The first piece is requested before there is a destination for it: only its arrival shows that the sender delivers.
ripc_status ShmSource::prepare_bounce(const spi::Pull& pull) noexcept {
  const std::lock_guard lock(mutex_);
  if (!bounce_waiting_) {
    if (const ripc_status status = dead() ? RIPC_PEER_DEAD : request_bounce(pull); status != RIPC_OK) return status;
  }
  // All items share the bounce buffer: it is enough to ask for the first one that needs it.
  if (bounce_key_ != pull.descriptor.key || bounce_ready_) return RIPC_OK;
  return dead() ? RIPC_PEER_DEAD : RIPC_PENDING;
}

ripc_status ShmSource::pull(spi::Pull& pull) noexcept {
  if (pull.lend) return lend(pull);
  const std::uint64_t location = pull.descriptor.location;
  const auto length = static_cast<std::size_t>(pull.descriptor.length);
  if (length == 0) return pull.status = RIPC_OK;
  if (const auto* arena = static_cast<const Mapping*>(pull.memory.get())) {
    std::memcpy(pull.destination, arena->data() + offset_of(location), length);
    pull.copies = 1;
    return pull.status = RIPC_OK;
  }
  if (location != kUndisclosed && !is_pooled(location) && !no_direct_access_.load(std::memory_order_relaxed)) {
    const ripc_status status = parts_.connection->process().read(location, {pull.destination, length});
    if (status != RIPC_UNSUPPORTED) {
      pull.copies = 1;
      return pull.status = status;
    }
    no_direct_access_.store(true, std::memory_order_relaxed);
  }
  return pull_by_bounce(pull);
}

ripc_status ShmSource::pull_by_bounce(spi::Pull& pull) noexcept {
  const std::lock_guard lock(mutex_);
  // This was requested for an item that was then discarded.
  if (bounce_key_ != pull.descriptor.key) bounce_waiting_ = bounce_ready_ = false;
  if (bounce_ready_) {
    bounce_ready_ = false;
    bounce_waiting_ = false;
    const std::uint64_t expected = std::min<std::uint64_t>(pull.descriptor.length - pull.progress, kBounceSize);
    // At the next request, the sender may have room for the descriptor.
    if (bounce_data_.status == RIPC_NO_DESCRIPTORS) bounce_announced_ = false;
    if (bounce_data_.status != RIPC_OK) return pull.status = bounce_data_.status;
    if (bounce_data_.key != pull.descriptor.key || bounce_data_.offset != pull.progress ||
        bounce_data_.length != expected)
      return pull.status = RIPC_CORRUPT;
    std::memcpy(pull.destination + pull.progress, bounce_.mapping.data(), static_cast<std::size_t>(expected));
    pull.progress += expected;
    pull.copies = 2;
  }
  if (pull.progress == pull.descriptor.length) return pull.status = RIPC_OK;
  if (dead()) return pull.status = RIPC_PEER_DEAD;
  if (bounce_waiting_) return pull.status = RIPC_PENDING;
  const ripc_status asked = request_bounce(pull);
  return pull.status = asked == RIPC_OK ? RIPC_PENDING : asked;
}

// RIPC_OK: it is on its way. RIPC_PENDING: ask again.
ripc_status ShmSource::request_bounce(const spi::Pull& pull) noexcept {
  if (!bounce_.mapping) {
    Result<SharedMemory> memory = create_shared_memory("ripc-bounce", kBounceSize, PeerAccess::read_write);
    if (!memory.ok()) return RIPC_NO_MEMORY;
    bounce_ = std::move(*memory);
  }
  const wire::shm_control::BounceRequest request{
      .link = parts_.link,
      .key = pull.descriptor.key,
      .offset = pull.progress,
      .length = std::min<std::uint64_t>(pull.descriptor.length - pull.progress, kBounceSize),
      .sequence = ++bounce_sequence_,
      .reserved = 0};
  const std::array<int, 1> descriptor{bounce_.fd.get()};
  const ripc_status status = send_message(
      *parts_.connection, request, bounce_announced_ ? std::span<const int>{} : std::span<const int>(descriptor));
  // The next attempt may succeed, and the receiver does not wait for ever.
  if (status == RIPC_AGAIN || status == RIPC_NO_MEMORY || status == RIPC_NO_DESCRIPTORS) return RIPC_PENDING;
  if (status != RIPC_OK) return status;
  bounce_announced_ = true;
  bounce_waiting_ = true;
  bounce_ready_ = false;
  bounce_key_ = pull.descriptor.key;
  return RIPC_OK;
}

void ShmSource::bounce_arrived(const wire::shm_control::BounceData& data) noexcept {
  const std::lock_guard lock(mutex_);
  // An answer to a pull that was abandoned is not for the one that goes on now.
  if (!bounce_waiting_ || data.sequence != bounce_sequence_) return;
  bounce_data_ = data;
  bounce_ready_ = true;
}

void ShmSource::abandon(spi::Pull&) noexcept {
  const std::lock_guard lock(mutex_);
  bounce_waiting_ = false;
  bounce_ready_ = false;
}

ripc_status ShmSource::lend(spi::Pull& pull) noexcept {
  const auto* arena = static_cast<const Mapping*>(pull.memory.get());
  if (arena == nullptr) return RIPC_UNSUPPORTED;
  if (!taker_.mark_lent(Key::from(pull.descriptor.key))) return RIPC_REVOKED;
  pull.destination = const_cast<std::byte*>(arena->data()) + offset_of(pull.descriptor.location);
  return pull.status = RIPC_OK;
}

ripc_status ShmSource::finish(const wire::Descriptor& descriptor, ripc_status status) noexcept {
  bool tell = false;
  const ripc_status outcome = taker_.finish(Key::from(descriptor.key), status, tell);
  if (tell) send_notice(*parts_.connection, wire::shm_control::TransferDone{.link = parts_.link});
  return outcome;
}

ripc_status ShmSource::push(const wire::Grant& grant, spi::Bytes bytes) noexcept {
  if (bytes.size() > grant.length) return RIPC_TOO_LARGE;
  if (dead()) return RIPC_PEER_DEAD;
  if (bytes.size() > kMostPushed || grant.location == kUndisclosed || is_pooled(grant.location) ||
      no_direct_access_.load(std::memory_order_relaxed))
    return RIPC_UNSUPPORTED;
  const Key key = Key::from(grant.key);
  if (!taker_.begin_write(key)) return RIPC_REVOKED;
  const ripc_status status = bytes.empty() ? RIPC_OK : parts_.connection->process().write(grant.location, bytes);
  taker_.end_write(key, status == RIPC_OK);
  if (status == RIPC_UNSUPPORTED) no_direct_access_.store(true, std::memory_order_relaxed);
  return status;
}

void ShmSource::tell_room() noexcept { send_notice(*parts_.connection, wire::shm_control::Room{.link = parts_.link}); }

}  // namespace ripc::internal::shm
