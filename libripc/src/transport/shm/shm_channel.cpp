// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/shm_channel.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "base/process_barrier.hpp"
#include "base/thread_epoch.hpp"
#include "transport/shm/location.hpp"

namespace ripc::internal::shm {

namespace {

using spi::Resource;

// Says why the peer does not read this process's memory.
std::string reason_of(Reach reach) {
  switch (reach) {
    case Reach::other_user:
      return "another user";
    case Reach::not_visible:
      return "another PID namespace";
    case Reach::not_traceable:
      return "not dumpable, Yama or a security module";
    default:
      return "no process_vm_readv there";
  }
}

// Compared with writing an item into the return buffer, carrying 3 KiB in a packet takes 0.75 times as long. It takes
// 1.16 times as long for 8 KiB, and 2.3 times for 64 KiB.
constexpr std::size_t kMostCarried = 4096;

const ServiceLine* line_of(const ShmChannel::Parts& parts) noexcept {
  return reinterpret_cast<const ServiceLine*>(parts.state_page.data()) + parts.state_slot;
}

}  // namespace

ShmChannel::ShmChannel(Parts parts)
    : Channel({.incarnation = parts.incarnation,
               .packet_limit = parts.geometry.packet_limit(),
               .most_carried = kMostCarried,
               .loses = false,
               .registration_line = &line_of(parts)->registration,
               .registration = parts.registration}),
      parts_(std::move(parts)),
      line_(line_of(parts_)),
      writer_(parts_.memory.data(), parts_.geometry),
      transfers_(parts_.memory.data()),
      grants_(parts_.memory.data(), &parts_.connection->process()) {}

void ShmChannel::start() {
  work_timer_.make(*parts_.loop, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->run_deferred_work();
  });
  look_timer_.make(*parts_.loop, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->look_for_room();
  });
}

ShmChannel::~ShmChannel() {
  if (ended() != RIPC_OK) return;
  (void)send_message(*parts_.connection, wire::shm_control::CloseLink{.link = parts_.link});
}

ripc_status ShmChannel::send(const spi::Outgoing& outgoing) noexcept {
  const wire::Plain& message = outgoing.message;
  const std::size_t size = wire::packet_size(1, message.bytes);
  const auto write = [&](std::byte* to) { wire::write_single<kInlineCapacity, kCacheLine - kCellHeader>(message, to); };
  // An outgoing that is not a plain message has no items.
  if (open_status() != RIPC_OK || message.items.size() != 1 || size > kInlineCapacity ||
      !writer_.write_next(size, write)) [[unlikely]]
    return send_any(outgoing);
  wake_receiver();
  return RIPC_OK;
}

ripc_status ShmChannel::send_any(const spi::Outgoing& outgoing) noexcept {
  using Kind = spi::Outgoing::Kind;
  ripc_status status = open_status();
  if (status != RIPC_OK) return status;
  switch (outgoing.kind) {
    case Kind::plain:
    case Kind::given:
      status = writer_.write_with(outgoing.message.packet_size(),
                                  [&](std::byte* to) { wire::write_plain(outgoing.message, to); });
      if (status == RIPC_AGAIN) return shortage_.note(status, Resource::queue);
      if (status == RIPC_OK) wake_receiver();
      return status;
    case Kind::packet:
    case Kind::announcement:
      status = writer_.write(outgoing.packet);
      if (status == RIPC_OK) wake_receiver();
      return shortage_.note(status, Resource::queue);
    case Kind::control:
      break;
  }
  return send_control(outgoing.packet);
}

// Messages that each fit into a cell are written with one reservation, and wake the receiver once.
ripc_status ShmChannel::send_many(std::span<const wire::Plain> messages, std::size_t& sent) noexcept {
  const auto end = std::find_if(messages.begin(), messages.end(),
                                [](const wire::Plain& message) { return message.packet_size() > kInlineCapacity; });
  const auto count = static_cast<std::size_t>(end - messages.begin());
  sent = 0;
  ripc_status status = RIPC_OK;
  if (count < 2) {
    if (!messages.empty()) status = send({.message = messages.front()});
    if (status == RIPC_OK) sent = std::min<std::size_t>(messages.size(), 1);
    return status;
  }
  status = open_status();
  if (status != RIPC_OK) [[unlikely]]
    return status;
  sent = writer_.write_inline(
      count, [&](std::size_t index) { return messages[index].packet_size(); },
      [&](std::size_t index, std::byte* to) { wire::write_plain<kInlineCapacity>(messages[index], to); });
  if (sent == 0) return shortage_.note(RIPC_AGAIN, Resource::queue);
  wake_receiver();
  return RIPC_OK;
}

// Called after a packet was written.
inline void ShmChannel::wake_receiver() noexcept {
  // The receiver publishes its sleep, makes every sender's earlier stores visible from its side, and looks once more.
  // So this load may pass the store of the packet.
  if (parts_.must_fence) [[unlikely]] {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  } else {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  if ((line_->sleep_epoch.load(std::memory_order_relaxed) & (kAsleep | kFenceNeeded)) != 0) [[unlikely]]
    fence_and_wake();
}

void ShmChannel::fence_and_wake() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const std::uint32_t epoch = line_->sleep_epoch.load(std::memory_order_relaxed);
  if ((epoch & kAsleep) != 0) ring_doorbell(epoch);
}

void ShmChannel::ring_doorbell(std::uint32_t epoch) noexcept {
  if (last_woken_.exchange(epoch, std::memory_order_acq_rel) == epoch) return;
  ++ThreadEpoch::current().wakes;
  // This neither waits nor raises a signal, whatever the peer's doorbell is. A doorbell that is full is
  // readable already, so a failed send loses nothing.
  [[maybe_unused]] const ssize_t sent = ::send(parts_.doorbell.get(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

ripc_status ShmChannel::send_control(spi::Gather packet) noexcept {
  try {
    std::vector<std::byte> whole;
    for (const spi::Bytes range : packet) whole.insert(whole.end(), range.begin(), range.end());
    if (whole.size() > std::min(wire::shm_control::kMaxControlPacket, packet_limit() + spi::kControlAllowance))
      return RIPC_TOO_LARGE;
    // This does not use the memory that the connection keeps for its small messages.
    std::vector<std::byte> message;
    ripc_status status = wire::shm_control::encode(
        wire::shm_control::Control{.link = parts_.link, .destination = parts_.service, .packet = whole}, message);
    if (status == RIPC_OK) status = parts_.connection->send(message);
    return shortage_.note(status, Resource::control);
  } catch (const std::bad_alloc&) {
    return RIPC_NO_MEMORY;
  }
}

// ---- Room ----------------------------------------------------------------------------------------------------

bool ShmChannel::has_room_now() const noexcept { return open_status() != RIPC_OK || has_room_for(shortage_.need()); }

bool ShmChannel::has_room_for(spi::Need need) const noexcept {
  switch (need.resource) {
    case Resource::transfers:
      return transfers_.has_room();
    case Resource::grants:
      return grants_.has_room(need.count);
    case Resource::control:
      return parts_.connection->has_room();
    default:
      return writer_.has_room();
  }
}

bool ShmChannel::has_room(bool notify) noexcept {
  if (has_room_now()) return true;
  if (!notify) return false;
  const spi::Need need = shortage_.need();
  if (need.resource == Resource::control) return parts_.connection->request_room();
  if (need.resource != Resource::queue) {
    slot_wanted_.store(true, std::memory_order_seq_cst);
    if (has_room_now()) return true;
    // Some transfers may have finished without anyone having looked.
    transfers_.watch_all();
    defer(kLookForFinished);
    return false;
  }
  reinterpret_cast<Control*>(parts_.memory.data())->sender.room_wanted.store(1, std::memory_order_seq_cst);
  // The receiver checks room_wanted after each packet that it takes, without a fence of its own.
  if ((parts_.must_fence || !process_barrier()) && !looking_.exchange(true, std::memory_order_acq_rel))
    look_timer_.set(StandingTimer::kNow);
  return has_room_now();
}

// Responder. The receiver usually reports room, but it may just have missed room_wanted.
void ShmChannel::look_for_room() noexcept {
  if (open_status() != RIPC_OK || writer_.has_room()) {
    look_pause_.reset();
    looking_.store(false, std::memory_order_release);
    parts_.host->room(*this);
    return;
  }
  look_timer_.set(monotonic_now() + look_pause_.next());
}

void ShmChannel::slot_freed() noexcept {
  if (!slot_wanted_.load(std::memory_order_seq_cst) || !slot_wanted_.exchange(false, std::memory_order_seq_cst)) return;
  defer(kTellRoom);
}

void ShmChannel::defer(DeferredWork work) noexcept {
  if ((deferred_work_.fetch_or(work, std::memory_order_acq_rel) & work) == 0) work_timer_.set(StandingTimer::kNow);
}

void ShmChannel::run_deferred_work() noexcept {
  const std::uint32_t work = deferred_work_.exchange(0, std::memory_order_acq_rel);
  if ((work & kLookForFinished) != 0) transfers_finished();
  if ((work & kTellRoom) != 0) parts_.host->room(*this);
}

// ---- Long items ----------------------------------------------------------------------------------------------

ripc_status ShmChannel::expose(std::span<const spi::Exposure> items, std::span<wire::Descriptor> descriptors,
                               std::uint64_t& transfer) noexcept {
  if (ended() != RIPC_OK) return RIPC_PEER_DEAD;
  std::array<ExposedItem, RIPC_MAX_ITEMS> exposed;
  const std::size_t count = std::min(items.size(), exposed.size());
  for (std::size_t index = 0; index < count; ++index) {
    const spi::Exposure& item = items[index];
    const memory::Arena* arena = item.hold->arena();
    exposed[index] = {item.bytes.data(), item.bytes.size(), arena != nullptr ? arena->id : 0};
    std::uint64_t location = kUndisclosed;
    if (parts_.connection->peer_may_map()) {
      if (arena == nullptr) {
        location = reinterpret_cast<std::uint64_t>(item.bytes.data()) & ~kPooledBit;
      } else if (arena->id <= kMaxArenaId && item.hold->offset() <= kMaxArenaOffset) {
        const ripc_status status = parts_.connection->announce(*arena);
        if (status != RIPC_OK) return shortage_.note(status, Resource::control);
        location = pooled_location(arena->id, item.hold->offset());
      }
    }
    descriptors[index] = {.key = 0, .location = location, .length = item.bytes.size()};
  }
  Key key{};
  const ripc_status status = transfers_.expose(std::span(exposed).first(count), key);
  if (status != RIPC_OK) return shortage_.note(status, Resource::transfers);
  for (std::size_t index = 0; index < count; ++index) {
    descriptors[index].key = Key{key.generation, key.slot, static_cast<std::uint16_t>(index)}.value();
  }
  transfer = key.value();
  return RIPC_OK;
}

ripc_status ShmChannel::poll_transfer(std::uint64_t transfer, bool notify) noexcept {
  if (notify) transfers_.watch(Key::from(transfer));
  const ripc_status status = transfers_.status(Key::from(transfer));
  if (status != RIPC_PENDING) slot_freed();
  return status;
}

void ShmChannel::transfers_finished() noexcept {
  const TransferOwner::Finished finished = transfers_.collect_finished();
  for (const auto& [key, status] : std::span(finished.transfers).first(finished.count)) {
    if (parts_.host->transfer_finished(*this, key.value(), status)) (void)poll_transfer(key.value(), false);
  }
}

ripc_status ShmChannel::revoke(std::uint64_t transfer, bool& is_read) noexcept {
  const ripc_status status = transfers_.revoke(Key::from(transfer), is_read);
  if (!is_read) slot_freed();
  return status;
}

ripc_status ShmChannel::grant(std::span<std::byte> memory, wire::Grant& grant) noexcept {
  if (ended() != RIPC_OK) return RIPC_PEER_DEAD;
  Key key{};
  if (const ripc_status status = shortage_.note(grants_.grant(key), Resource::grants); status != RIPC_OK) return status;
  const std::uint64_t location =
      parts_.connection->peer_may_map() ? reinterpret_cast<std::uint64_t>(memory.data()) & ~kPooledBit : kUndisclosed;
  grant = {.key = key.value(), .location = location, .length = memory.size()};
  return RIPC_OK;
}

ripc_status ShmChannel::end_grant(const wire::Grant& grant) noexcept {
  const ripc_status status = grants_.end(Key::from(grant.key));
  if (status != RIPC_PENDING) slot_freed();
  return status;
}

spi::Channel::Description ShmChannel::describe(Deadline) {
  // The kernel gives no process ID here for a process of a PID namespace that this one cannot see.
  const pid_t pid = parts_.connection->credentials().pid;
  std::string text =
      "shared memory, " + (pid != 0 ? "process " + std::to_string(pid) : "a process of another PID namespace");
  if (!parts_.connection->peer_may_map())
    return {text + "; another user's process: bulk data is copied through a bounce buffer", {}};
  const Reach reach = parts_.connection->reach_of_peer();
  if (reach == Reach::direct) return {text + "; pool memory is mapped by the peer, other memory read", {}};
  return {text + "; pool memory is mapped, other memory bounced: " + reason_of(reach), {}};
}

bool ShmChannel::mark_dead() noexcept {
  if (!set_end(RIPC_PEER_DEAD)) return false;
  // From now on the channel may outlive the loop.
  work_timer_.cancel();
  look_timer_.cancel();
  transfers_.peer_died();
  grants_.peer_died();
  return true;
}

wire::shm_control::BounceData ShmChannel::serve_bounce(const wire::shm_control::BounceRequest& request,
                                                       UniqueFd memory) noexcept {
  wire::shm_control::BounceData answer{.link = request.link,
                                       .key = request.key,
                                       .offset = request.offset,
                                       .status = RIPC_OK,
                                       .sequence = request.sequence,
                                       .length = request.length};
  if (memory) {
    Result<Mapping> mapping = map_foreign_memory(memory.get(), kBounceSize, true);
    if (mapping.ok()) bounce_ = std::move(*mapping);
  }
  if (!bounce_) {
    answer.status = RIPC_NO_DESCRIPTORS;
    answer.length = 0;
    return answer;
  }
  ExposedItem item{};
  const auto found = transfers_.find(Key::from(request.key), item);
  if (!found || request.length > bounce_.size() || request.offset > item.size ||
      request.length > item.size - request.offset) {
    answer.status = RIPC_REVOKED;
    answer.length = 0;
    return answer;
  }
  const std::byte* from = item.data + request.offset;
  const auto length = static_cast<std::size_t>(request.length);
  if (item.arena != 0) {
    std::memcpy(bounce_.data(), from, length);
  } else {
    answer.status = copy_own_memory(bounce_.data(), from, length);
    if (answer.status != RIPC_OK) answer.length = 0;
  }
  return answer;
}

}  // namespace ripc::internal::shm
