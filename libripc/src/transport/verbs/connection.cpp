// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/connection.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cstring>

#include "transport/verbs/pair_states.hpp"
#include "wire/bytes.hpp"

namespace ripc::verbs {

namespace {

namespace bulk = wire::bulk;

// Of a receive in the number of its work request; those of sends count from 0.
constexpr std::uint64_t kReceiveMark = std::uint64_t{1} << 63;
constexpr int kBatchesPerEvent = 16;

ripc_status status_of(ibv_wc_status status) noexcept {
  switch (status) {
    case IBV_WC_SUCCESS:
      return RIPC_OK;
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
      return RIPC_REVOKED;
    case IBV_WC_LOC_PROT_ERR:
      return RIPC_CANCELLED;
    default:
      return RIPC_PEER_DEAD;
  }
}

}  // namespace

// ---- Making --------------------------------------------------------------------------------------------------

Connection::Connection(std::shared_ptr<Registrar> registrar, IdPointer id, EventLoop& loop,
                       std::shared_ptr<Tally> tally)
    : registrar_(std::move(registrar)), id_(std::move(id)), loop_(loop), tally_(std::move(tally)) {}

Result<std::shared_ptr<Connection>> Connection::create(std::shared_ptr<Registrar> registrar, IdPointer id,
                                                       EventLoop& loop, std::shared_ptr<Tally> tally,
                                                       std::uint32_t most_inline) {
  std::shared_ptr<Connection> connection(new Connection(std::move(registrar), std::move(id), loop, std::move(tally)));
  Status status = connection->make(most_inline);
  if (!status.ok()) return status;
  return connection;
}

Status Connection::make(std::uint32_t most_inline) {
  const Library& library = *device().library;
  channel_ = library.create_comp_channel(device().context);
  if (channel_ == nullptr) return system_error(errno, "ibv_create_comp_channel", "raise `ulimit -n`");
  channel_guard_ = ForkGuard(channel_->fd);
  (void)fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  queue_ = library.create_cq(device().context, static_cast<int>(kReceives + kSends), nullptr, channel_, 0);
  if (queue_ == nullptr) return system_error(errno, "ibv_create_cq");
  // What is more than some devices have, they refuse; others give less.
  Status status = make_pair(most_inline);
  if (!status.ok() && most_inline != 0) status = make_pair(0);
  if (status.ok()) status = prepare_pair(library, *id_->get(), *pair_);
  if (!status.ok()) return status;
  watch_for_errors();
  const std::size_t size = (messages_inline_ ? kReceives : kReceives + kSends) * kSlot;
  buffers_ = std::make_unique<std::byte[]>(size);
  Result<RegionPointer> region = registrar_->range(buffers_.get(), size, IBV_ACCESS_LOCAL_WRITE);
  if (!region.ok()) return region.status();
  buffers_region_ = std::move(*region);
  const std::lock_guard lock(mutex_);
  open_ = true;
  return post_receives(0, kReceives);
}

Status Connection::make_pair(std::uint32_t most_inline) noexcept {
  ibv_qp_init_attr attributes{};
  attributes.send_cq = queue_;
  attributes.recv_cq = queue_;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap = {.max_send_wr = kSends,
                    .max_recv_wr = kReceives,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = most_inline};
  pair_ = device().library->create_qp(device().pd, &attributes);
  if (pair_ == nullptr) return system_error(errno, "ibv_create_qp", "see the device's limits in `ripc doctor`");
  messages_inline_ = std::min(most_inline, attributes.cap.max_inline_data) >= kMessage;
  return {};
}

// A queue pair that the device has stopped may have nothing under way that would show it, and what waits in a
// completion queue that has stopped never comes.
void Connection::watch_for_errors() {
  const auto stopped = [weak = weak_from_this(), &loop = loop_] {
    loop.post([weak] {
      if (const auto self = weak.lock()) self->fail(false);
    });
  };
  device().events.watch(pair_, stopped);
  device().events.watch(queue_, stopped);
}

Status Connection::post_receives(std::uint32_t first, std::uint32_t count) noexcept {
  std::array<ibv_sge, 64> ranges;
  std::array<ibv_recv_wr, 64> requests;
  while (count != 0) {
    const std::uint32_t part = std::min<std::uint32_t>(count, ranges.size());
    for (std::uint32_t index = 0; index < part; ++index) {
      const std::uint32_t slot = (first + index) % kReceives;
      ranges[index] = {.addr = reinterpret_cast<std::uint64_t>(buffers_.get() + slot * kSlot),
                       .length = kSlot,
                       .lkey = buffers_region_->local_key()};
      requests[index] = {.wr_id = kReceiveMark | slot,
                         .next = index + 1 == part ? nullptr : &requests[index + 1],
                         .sg_list = &ranges[index],
                         .num_sge = 1};
    }
    ibv_recv_wr* bad = nullptr;
    if (const int error = ibv_post_recv(pair_, requests.data(), &bad); error != 0)
      return system_error(error, "ibv_post_recv");
    first += part;
    count -= part;
  }
  return {};
}

Status Connection::start(std::weak_ptr<Handler> handler, bool dialed) {
  {
    // Whoever polls may know of the connection already.
    const std::lock_guard handling(handling_mutex_);
    handler_ = std::move(handler);
  }
  last_use_.store(loop_.turn(), std::memory_order_relaxed);
  if (ibv_req_notify_cq(queue_, 0) != 0) return system_error(errno, "ibv_req_notify_cq");
  Status status = loop_.add(channel_->fd, EPOLLIN, [weak = weak_from_this()](std::uint32_t) {
    if (const auto self = weak.lock()) self->on_event();
  });
  if (!status.ok()) return status;
  in_loop_ = true;
  if (dialed) {
    std::unique_lock lock(mutex_);
    may_send_ = true;
    if (open_) (void)enqueue_message_locked(nullptr);
    (void)hand_over(std::move(lock), true);
  }
  // What has come before makes no event.
  loop_.post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->on_event();
  });
  return {};
}

void Connection::close() noexcept {
  {
    const std::lock_guard lock(mutex_);
    silent_ = true;
  }
  end_device_use();
}

void Connection::cut() noexcept {
  end_device_use();
  fail(false);
}

void Connection::end_device_use() noexcept {
  const std::lock_guard polling(poll_mutex_);
  std::vector<std::weak_ptr<Right>> rights;
  {
    std::unique_lock lock(mutex_);
    open_ = false;
    if (ended_) return;
    ended_ = true;
    rights.swap(rights_);
    rung_.wait(lock, [this] { return ringing_.empty(); });
  }
  const Library& library = *device().library;
  // A window keeps the queue pair that it is bound to.
  for (const auto& weak : rights) {
    if (const auto right = weak.lock()) right->end();
  }
  if (pair_ != nullptr) {
    device().events.forget(pair_);
    (void)library.disconnect(id_->get());
    (void)library.destroy_qp(pair_);
  }
  if (in_loop_) loop_.remove(channel_->fd);
  if (queue_ != nullptr) {
    device().events.forget(queue_);
    (void)library.destroy_cq(queue_);
  }
  queue_ = nullptr;
  if (channel_ != nullptr) {
    channel_guard_.reset();
    (void)library.destroy_comp_channel(channel_);
  }
  channel_ = nullptr;
}

// Told in the responder, whoever noticed it.
void Connection::fail(bool violation) noexcept {
  const std::lock_guard lock(mutex_);
  fail_locked(violation);
}

void Connection::fail_locked(bool violation) noexcept {
  open_ = false;
  if (failed_) return;
  failed_ = true;
  loop_.post([self = shared_from_this(), violation] {
    self->end_device_use();
    std::deque<Posted> posted;
    {
      const std::lock_guard lock(self->mutex_);
      if (self->silent_) return;
      posted.swap(self->posted_);
    }
    const auto handler = self->handler_.lock();
    if (!handler) return;
    for (const Posted& one : posted) {
      if (one.kind == Kind::operation) handler->operation_done(*self, one.id, RIPC_PEER_DEAD);
    }
    handler->lost(*self, violation);
  });
}

// ---- Completions ---------------------------------------------------------------------------------------------

std::size_t Connection::take(std::array<ibv_wc, 32>& completions) noexcept {
  const std::lock_guard polling(poll_mutex_);
  if (queue_ == nullptr) return 0;
  const int count = ibv_poll_cq(queue_, static_cast<int>(completions.size()), completions.data());
  return static_cast<std::size_t>(std::max(count, 0));
}

void Connection::on_event() noexcept {
  const auto self = shared_from_this();
  const auto handler = handler_.lock();
  if (!handler) return;
  last_use_.store(loop_.turn(), std::memory_order_relaxed);
  {
    const std::lock_guard polling(poll_mutex_);
    if (queue_ == nullptr) return;
    ibv_cq* which = nullptr;
    void* context = nullptr;
    // One is all that there usually is; what is left brings the loop here again.
    if (device().library->get_cq_event(channel_, &which, &context) == 0) device().library->ack_cq_events(queue_, 1);
    // Whatever comes from now on makes an event; what has come is polled below.
    if (ibv_req_notify_cq(queue_, 0) != 0) fail(false);
  }
  const std::lock_guard handling(handling_mutex_);
  std::array<ibv_wc, 32> completions;
  for (int batch = 0; batch < kBatchesPerEvent; ++batch) {
    const std::size_t count = take(completions);
    handle(*handler, std::span(completions).first(count));
    if (count < completions.size()) return;
  }
  loop_.post([self] { self->on_event(); });
}

void Connection::poll() noexcept {
  const std::unique_lock handling(handling_mutex_, std::try_to_lock);
  if (!handling.owns_lock()) return;
  const auto handler = handler_.lock();
  if (!handler) return;
  std::array<ibv_wc, 32> completions;
  const std::size_t count = take(completions);
  if (count == 0) return;
  tally_->polled.fetch_add(count, std::memory_order_relaxed);
  handle(*handler, std::span(completions).first(count));
}

void Connection::handle(Handler& handler, std::span<const ibv_wc> completions) noexcept {
  heard_.fetch_add(completions.size(), std::memory_order_relaxed);
  for (const ibv_wc& completion : completions) {
    // The opcode of one that failed is not defined; those of receives have no number of a work request.
    const bool is_receive = (completion.wr_id & kReceiveMark) != 0;
    if (!is_receive) {
      on_sent(handler, completion);
    } else if (completion.status != IBV_WC_SUCCESS) {
      fail(false);
    } else if (!on_message(handler, completion)) {
      fail(true);
    }
  }
  {
    std::unique_lock lock(mutex_);
    enqueue_waiting_locked();
    acknowledge_locked();
    (void)hand_over(std::move(lock), false);
  }
  handler.handled(*this);
}

bool Connection::on_message(Handler& handler, const ibv_wc& completion) noexcept {
  const auto slot = static_cast<std::uint32_t>(completion.wr_id & UINT32_MAX);
  std::array<std::byte, kMessage> message;
  if (completion.byte_len != kPrefix && completion.byte_len != kMessage) return false;
  std::memcpy(message.data(), buffers_.get() + slot * kSlot, completion.byte_len);
  const auto peer_taken = wire::load_le<std::uint32_t>(message.data());
  if (wire::load_le<std::uint32_t>(message.data() + 4) != 0) return false;
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
  return frame.ok() && handler.frame(*this, *frame);
}

void Connection::on_sent(Handler& handler, const ibv_wc& completion) noexcept {
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
  // Before those that are told of their ends take the room again.
  if (tell_room) handler.room(*this);
  for (std::size_t index = 0; index < count; ++index) {
    const Posted& one = done[index];
    if (one.kind != Kind::operation) continue;
    // All before the one that the completion is for have gone well.
    const ripc_status status = index + 1 == count ? status_of(completion.status) : RIPC_OK;
    if (status == RIPC_OK) (one.write ? tally_->bytes_written : tally_->bytes_read) += one.bytes;
    handler.operation_done(*this, one.id, status);
  }
  if (completion.status == IBV_WC_SUCCESS) return;
  // The next connection would break on it, too. A window whose right has ended by now could not be bound any more.
  if (count != 0 && done[count - 1].kind == Kind::bind && completion.status != IBV_WC_WR_FLUSH_ERR &&
      is_open(static_cast<std::uint32_t>(done[count - 1].id)))
    registrar_->give_up_windows();
  fail(false);
}

}  // namespace ripc::verbs
