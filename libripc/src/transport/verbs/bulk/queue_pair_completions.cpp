// SPDX-License-Identifier: Apache-2.0
// What a connection's device reports: messages that have come, and requests that have ended.
#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>

#include "transport/verbs/bulk/queue_pair_connection.hpp"
#include "wire/bytes.hpp"

namespace ripc::internal::verbs {

namespace {

namespace bulk = wire::bulk;

// After this many, the responder's other connections have their turn.
constexpr int kBatchesPerEvent = 16;

ripc_status status_of(ibv_wc_status status) noexcept {
  switch (status) {
    case IBV_WC_SUCCESS:
      return RIPC_OK;
    case IBV_WC_LOC_PROT_ERR:
      return RIPC_CANCELLED;
    default:
      // This includes IBV_WC_REM_ACCESS_ERR, because a device that is removed forgets its memory before its connections
      // end. When asked over another connection, the peer says whether it still hands out an item.
      return RIPC_PEER_DEAD;
  }
}

}  // namespace

std::size_t QueuePairConnection::take(ibv_cq* QueuePairConnection::*queue, Completions& completions) noexcept {
  const std::lock_guard polling(poll_mutex_);
  if (this->*queue == nullptr) return 0;
  const int count = ibv_poll_cq(this->*queue, static_cast<int>(completions.size()), completions.data());
  return static_cast<std::size_t>(std::max(count, 0));
}

// False: the device refuses it. From now on a message makes an event if the peer wants that, and so does each
// completion of this side's requests.
bool QueuePairConnection::arm() noexcept {
  const std::lock_guard polling(poll_mutex_);
  if (sent_queue_ == nullptr) return true;
  if (!sent_armed_) sent_armed_ = ibv_req_notify_cq(sent_queue_, 0) == 0;
  // siw makes no events for solicited messages alone.
  const bool knows_solicited = device().context->device->transport_type == IBV_TRANSPORT_IB;
  if (!received_armed_) received_armed_ = ibv_req_notify_cq(received_queue_, knows_solicited ? 1 : 0) == 0;
  return sent_armed_ && received_armed_;
}

void QueuePairConnection::on_event() noexcept {
  const auto self = shared_from_this();
  const auto handler = handler_.lock();
  if (!handler) return;
  last_use_.store(loop_.turn(), std::memory_order_relaxed);
  {
    const std::lock_guard polling(poll_mutex_);
    if (sent_queue_ == nullptr) return;
    ibv_cq* which = nullptr;
    void* context = nullptr;
    // Usually there is only one event; if any is left, the loop comes here again.
    if (device().library->get_cq_event(channel_, &which, &context) == 0) {
      device().library->ack_cq_events(which, 1);
      (which == sent_queue_ ? sent_armed_ : received_armed_) = false;
    }
  }
  const std::lock_guard handling(handling_mutex_);
  // Arm only when there is nothing left, so that what comes meanwhile makes no event. Then look once more for what came
  // just before.
  bool is_armed = false;
  for (int batch = 0; batch < kBatchesPerEvent; ++batch) {
    if (handle_some(*handler, false) != 0) continue;
    if (is_armed) return;
    if (!arm()) fail(false);
    is_armed = true;
  }
  try {
    loop_.post([self] { self->on_event(); });
  } catch (const std::bad_alloc&) {
    fail(false);
  }
}

void QueuePairConnection::poll() noexcept {
  const std::unique_lock handling(handling_mutex_, std::try_to_lock);
  if (!handling.owns_lock()) return;
  const auto handler = handler_.lock();
  if (!handler) return;
  tally_->polled.fetch_add(handle_some(*handler, true), std::memory_order_relaxed);
}

// Requests sent before a message came are finished before the message is handled. Returns how many completions there
// were.
std::size_t QueuePairConnection::handle_some(Handler& handler, bool is_poll) noexcept {
  Pass pass{.is_poll = is_poll};
  Completions received;
  Completions sent;
  const std::size_t received_count = take(&QueuePairConnection::received_queue_, received);
  std::size_t count = received_count;
  for (std::size_t sent_count = sent.size(); sent_count == sent.size();) {
    sent_count = take(&QueuePairConnection::sent_queue_, sent);
    count += sent_count;
    for (const ibv_wc& completion : std::span(sent).first(sent_count)) on_sent(handler, completion);
  }
  for (const ibv_wc& completion : std::span(received).first(received_count)) {
    if (completion.status != IBV_WC_SUCCESS) {
      fail(false);
    } else if (!on_message(handler, completion, pass)) {
      fail(true);
    }
  }
  if (count == 0) return 0;
  activity_.fetch_add(count, std::memory_order_relaxed);
  {
    std::unique_lock lock(mutex_);
    enqueue_waiting_locked();
    acknowledge_locked();
    (void)hand_over(std::move(lock), false);
  }
  handler.handled(*this, pass);
  return count;
}

bool QueuePairConnection::on_message(Handler& handler, const ibv_wc& completion, Pass& pass) noexcept {
  const auto slot = static_cast<std::uint32_t>(completion.wr_id);
  std::array<std::byte, kMessage> message;
  if (completion.byte_len != kPrefix && completion.byte_len != kMessage) return false;
  std::memcpy(message.data(), buffers_.get() + slot * kSlot, completion.byte_len);
  const auto peer_taken = wire::load_le<std::uint32_t>(message.data());
  if (wire::load_le<std::uint32_t>(message.data() + 4) != 0) return false;
  // The device, not the message, tells which of this side's windows has become invalid.
  if ((completion.wc_flags & device().invalidated_flags) != 0) {
    if (const auto remote_key = remote_key_of(completion.invalidated_rkey)) remote_key->invalidated();
  }
  {
    const std::lock_guard lock(mutex_);
    if (!open_) return true;
    if (peer_taken - peer_taken_ > sent_ - peer_taken_) return false;
    peer_taken_ = peer_taken;
    may_send_ = true;
    if (!post_receives(slot, 1).ok()) return false;
    ++taken_;
  }
  if (completion.byte_len == kPrefix) return true;
  const Result<bulk::Frame> frame = bulk::decode(std::span(message).subspan<kPrefix>(), bulk::Carrier::rdma);
  return frame.ok() && handler.frame(*this, *frame, pass);
}

void QueuePairConnection::on_sent(Handler& handler, const ibv_wc& completion) noexcept {
  tally_->completions.fetch_add(1, std::memory_order_relaxed);
  std::array<Posted, kSends> done;
  std::size_t count = 0;
  bool tell_room = false;
  {
    const std::lock_guard lock(mutex_);
    while (!posted_.empty() && first_request_ <= completion.wr_id) {
      done[count] = posted_.front();
      if (done[count].kind == Kind::operation) --operations_;
      ++count;
      posted_.pop_front();
      ++first_request_;
    }
    enqueue_waiting_locked();
    if (open_ && count != 0) tell_room = std::exchange(room_wanted_, false);
  }
  // Do this first: the owners of finished operations, once told, would take the room again.
  if (tell_room) handler.room(*this);
  for (std::size_t index = 0; index < count; ++index) {
    const Posted& one = done[index];
    if (one.kind != Kind::operation) continue;
    // All requests before the one that the completion names have succeeded.
    const ripc_status status = index + 1 == count ? status_of(completion.status) : RIPC_OK;
    if (status == RIPC_OK) {
      if (one.write) tally_->bytes_written += one.bytes;
      (one.write ? written_ : read_).fetch_add(one.bytes, std::memory_order_relaxed);
    }
    handler.operation_done(*this, one.id, status);
  }
  if (completion.status == IBV_WC_SUCCESS) return;
  // The next connection would break on it too. But a window whose remote key has ended by now could not be bound
  // anyway.
  if (count != 0 && done[count - 1].kind == Kind::bind && completion.status != IBV_WC_WR_FLUSH_ERR) {
    const auto remote_key = remote_key_of(static_cast<std::uint32_t>(done[count - 1].id));
    if (remote_key && remote_key->is_open(this)) registrar_->give_up_windows();
  }
  fail(false);
}

}  // namespace ripc::internal::verbs
