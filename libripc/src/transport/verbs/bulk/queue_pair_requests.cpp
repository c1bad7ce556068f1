// SPDX-License-Identifier: Apache-2.0
// What a connection asks of its device: messages, operations, and the windows that open memory to the peer.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "transport/verbs/bulk/queue_pair_connection.hpp"
#include "transport/verbs/device/post_receives.hpp"
#include "wire/bytes.hpp"

namespace ripc::internal::verbs {

namespace {

namespace bulk = wire::bulk;

// Messages without a frame need buffers too; this many are reserved for them.
constexpr std::uint32_t kForAcknowledgements = 8;
// The peer learns that there are buffers again after this many.
constexpr std::uint32_t kAcknowledgeAfter = QueuePairConnection::kReceives / 4;
// At least one of this many messages wakes the peer.
constexpr std::uint32_t kMostQuiet = QueuePairConnection::kReceives / 4;
// One of this many work requests has a completion.
constexpr std::uint32_t kSignalEvery = 64;
static_assert(kSignalEvery <= QueuePairConnection::kSends / 4);
constexpr std::size_t kMostWaiting = 16384;

}  // namespace

// Null: too much is under way, or memory has run out and the connection is lost. The caller fills in what the device is
// to do.
QueuePairConnection::Request* QueuePairConnection::enqueue_locked(const Posted& posted, bool with_completion) noexcept
    try {
  if (posted_.size() >= kSends) return nullptr;
  Request& added = queued_.emplace_back();
  added.request.wr_id = next_request_;
  // An operation that someone waits for is reported; others are known to be finished when a later one is.
  if (with_completion || ++unsignalled_ >= kSignalEvery) {
    added.request.send_flags = IBV_SEND_SIGNALED;
    unsignalled_ = 0;
  }
  posted_.push_back(posted);
  ++next_request_;
  return &added;
} catch (const std::bad_alloc&) {
  fail_locked(false);
  return nullptr;
}

bool QueuePairConnection::enqueue_message_locked(const bulk::Frame* frame) noexcept {
  Request* const added = enqueue_locked({.kind = Kind::message, .id = 0, .bytes = 0, .write = false});
  if (added == nullptr) return false;
  added->request.opcode = IBV_WR_SEND;
  std::byte* message = added->message.data();
  if (messages_inline_) {
    added->request.send_flags |= IBV_SEND_INLINE;
  } else {
    // There are as many slots as work requests that can be under way.
    message = buffers_.get() + (kReceives + added->request.wr_id % kSends) * kSlot;
    added->range = range_of(message, 0, buffers_region_->local_key());
  }
  wire::store_le<std::uint32_t>(message, taken_);
  wire::store_le<std::uint32_t>(message + 4, 0);
  if (frame != nullptr)
    encode(*frame, std::span<std::byte, wire::bulk::kHeaderSize>(message + kPrefix, wire::bulk::kHeaderSize));
  added->range.length = static_cast<std::uint32_t>(frame != nullptr ? kMessage : kPrefix);
  if (frame != nullptr && frame->type == bulk::Type::finish && frame->id != 0) {
    added->request.opcode = IBV_WR_SEND_WITH_INV;
    added->request.invalidate_rkey = static_cast<std::uint32_t>(frame->id);
  }
  // A peer that gets many offers must handle them at some point, to have buffers for other messages.
  const bool is_quiet = frame != nullptr && frame->type == bulk::Type::offer && quiet_ < kMostQuiet;
  quiet_ = is_quiet ? quiet_ + 1 : 0;
  if (!is_quiet) added->request.send_flags |= IBV_SEND_SOLICITED;
  ++sent_;
  acknowledged_ = taken_;
  return true;
}

void QueuePairConnection::enqueue_waiting_locked() noexcept {
  while (open_ && may_send_ && !waiting_.empty() && sent_ - peer_taken_ < kReceives - kForAcknowledgements) {
    if (!enqueue_message_locked(&waiting_.front())) return;
    waiting_.pop_front();
  }
}

void QueuePairConnection::acknowledge_locked() noexcept {
  if (open_ && may_send_ && taken_ - acknowledged_ >= kAcknowledgeAfter && sent_ - peer_taken_ < kReceives)
    (void)enqueue_message_locked(nullptr);
}

void QueuePairConnection::probe() noexcept {
  const std::uint64_t now = activity();
  if (std::exchange(probed_, now) != now) return;
  std::unique_lock lock(mutex_);
  if (open_ && may_send_ && sent_ - peer_taken_ < kReceives - kForAcknowledgements)
    (void)enqueue_message_locked(nullptr);
  (void)hand_over(std::move(lock), false);
}

// Hands the device everything that is enqueued, with one doorbell. Releases the lock meanwhile, because the threads
// that this wakes take it at once. If another thread is doing this, it also hands over our requests; `wait`: until it
// has.
bool QueuePairConnection::hand_over(std::unique_lock<std::mutex> lock, bool wait) noexcept {
  const std::uint64_t wanted = next_request_;
  bool rang = false;
  for (;;) {
    if (!ringing_.empty()) {
      if (!wait || handed_ >= wanted) break;
      rung_.wait(lock);
      continue;
    }
    if (!open_ || queued_.empty()) break;
    ringing_.swap(queued_);
    lock.unlock();
    const bool taken = ring();
    lock.lock();
    handed_ += ringing_.size();
    ringing_.clear();
    rang = true;
    if (!taken) fail_locked(false);
  }
  const bool is_open = open_;
  lock.unlock();
  if (rang) rung_.notify_all();
  return is_open;
}

bool QueuePairConnection::ring() noexcept {
  for (std::size_t index = 0; index < ringing_.size(); ++index) {
    Request& one = ringing_[index];
    if ((one.request.send_flags & IBV_SEND_INLINE) != 0)
      one.range.addr = reinterpret_cast<std::uint64_t>(one.message.data());
    if (one.request.opcode != IBV_WR_BIND_MW) {
      one.request.sg_list = &one.range;
      one.request.num_sge = 1;
    }
    one.request.next = index + 1 == ringing_.size() ? nullptr : &ringing_[index + 1].request;
  }
  ibv_send_wr* bad = nullptr;
  tally_->doorbells.fetch_add(1, std::memory_order_relaxed);
  if (ibv_post_send(pair_, &ringing_.front().request, &bad) != 0) {
    if (bad != nullptr && bad->opcode == IBV_WR_BIND_MW) registrar_->give_up_windows();
    return false;
  }
  tally_->work_requests.fetch_add(ringing_.size(), std::memory_order_relaxed);
  return true;
}

bool QueuePairConnection::enqueue_frames_locked(std::span<const bulk::Frame> frames) noexcept try {
  if (!open_) return false;
  if (waiting_.size() + frames.size() > kMostWaiting) {
    fail_locked(true);
    return false;
  }
  waiting_.insert(waiting_.end(), frames.begin(), frames.end());
  enqueue_waiting_locked();
  return open_;
} catch (const std::bad_alloc&) {
  fail_locked(false);
  return false;
}

bool QueuePairConnection::send(std::span<const bulk::Frame> frames) noexcept {
  std::unique_lock lock(mutex_);
  return enqueue_frames_locked(frames) && hand_over(std::move(lock), true);
}

bool QueuePairConnection::enqueue(const bulk::Frame& frame) noexcept {
  const std::lock_guard lock(mutex_);
  return enqueue_frames_locked(std::span(&frame, 1));
}

void QueuePairConnection::flush() noexcept { (void)hand_over(std::unique_lock(mutex_), false); }

void QueuePairConnection::settle() noexcept { (void)hand_over(std::unique_lock(mutex_), true); }

void QueuePairConnection::settle(std::uint64_t request) noexcept {
  std::unique_lock lock(mutex_);
  if (handed_ <= request) (void)hand_over(std::move(lock), true);
}

std::size_t QueuePairConnection::post(std::span<const Operation> operations) noexcept {
  const std::lock_guard lock(mutex_);
  if (!open_) return 0;
  const std::size_t room = std::min(kSends / 2 - std::min<std::size_t>(operations_, kSends / 2),
                                    kSends - std::min<std::size_t>(posted_.size(), kSends));
  const std::size_t count = std::min(room, operations.size());
  for (std::size_t index = 0; index < count; ++index) {
    const Operation& one = operations[index];
    Request* const added = enqueue_locked(
        {.kind = Kind::operation, .id = one.id, .bytes = one.length, .write = one.write}, index + 1 == count);
    if (added == nullptr) return index;
    added->range = range_of(one.local, one.length, one.local_key);
    added->request.opcode = one.write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
    added->request.wr.rdma = {.remote_addr = one.remote, .rkey = one.remote_key};
  }
  operations_ += count;
  if (count != operations.size()) room_wanted_ = true;
  return count;
}

Result<std::shared_ptr<RemoteKey>> QueuePairConnection::open(std::span<const std::byte> bytes,
                                                             const memory::Arena* arena, bool writable,
                                                             const Telling& telling) try {
  const bool has_windows = registrar_->has_windows();
  {
    // Check this first, so that nothing is registered in vain.
    const std::lock_guard lock(mutex_);
    if (!open_) return RIPC_PEER_DEAD;
    if (has_windows && posted_.size() >= kSends) return RIPC_AGAIN;
  }
  const unsigned remote = writable ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ;
  const unsigned local = writable ? unsigned{IBV_ACCESS_LOCAL_WRITE} : 0u;
  std::shared_ptr<RemoteKey> remote_key;
  RegionPointer bound;
  if (has_windows) {
    Result<RegionPointer> region = registrar_->for_window(bytes.data(), bytes.size(), arena);
    // A window needs writable memory; other memory is registered for reading.
    if (!region.ok() && region.status().code() != RIPC_CANCELLED) return region.status();
    if (region.ok()) {
      // The device may have no more windows; a registration opens the range too.
      if (Result<std::shared_ptr<RemoteKey>> made = RemoteKey::by_window(*region, windows_, this); made.ok()) {
        bound = std::move(*region);
        remote_key = std::move(*made);
      }
    }
  }
  if (!remote_key) {
    Result<RegionPointer> region = registrar_->range(bytes.data(), bytes.size(), remote | local);
    if (!region.ok()) return region.status();
    remote_key = RemoteKey::by_region(std::move(*region), this);
  }
  const bulk::Frame frame = telling(*remote_key);
  ibv_mw* const window = remote_key->window();
  std::unique_lock lock(mutex_);
  if (!open_) return RIPC_PEER_DEAD;
  if (bound) {
    Request* const added = enqueue_locked({.kind = Kind::bind, .id = remote_key->key(), .bytes = 0, .write = false});
    if (added == nullptr) return RIPC_AGAIN;
    added->request.opcode = IBV_WR_BIND_MW;
    remote_key->is_bound_by(weak_from_this(), added->request.wr_id);
    added->request.bind_mw = {.mw = window,
                              .rkey = remote_key->key(),
                              .bind_info = {.mr = bound->mr(),
                                            .addr = reinterpret_cast<std::uint64_t>(bytes.data()),
                                            .length = bytes.size(),
                                            .mw_access_flags = remote}};
  }
  std::erase_if(remote_keys_, [](const Given& given) { return given.remote_key.expired(); });
  remote_keys_.push_back({remote_key->key(), remote_key});
  tally_->remote_keys.fetch_add(1, std::memory_order_relaxed);
  if (enqueue_frames_locked(std::span(&frame, 1))) return remote_key;
  lock.unlock();
  remote_key->end();
  return RIPC_PEER_DEAD;
} catch (const std::bad_alloc&) {
  return RIPC_NO_MEMORY;
}

std::size_t QueuePairConnection::remote_key_count() noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(remote_keys_, [](const Given& given) { return given.remote_key.expired(); });
  return remote_keys_.size();
}

// The newest remote key with this number, ended or not; null: nobody has it any more.
std::shared_ptr<RemoteKey> QueuePairConnection::remote_key_of(std::uint32_t key) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(remote_keys_.rbegin(), remote_keys_.rend(), [&](const Given& given) { return given.key == key; });
  return found != remote_keys_.rend() ? found->remote_key.lock() : nullptr;
}

}  // namespace ripc::internal::verbs
