// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/bulk/connection.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/verbs/device/queue_pair_states.hpp"
#include "wire/bytes.hpp"

namespace ripc::verbs {

namespace {

namespace bulk = wire::bulk;

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
    : registrar_(std::move(registrar)),
      id_(std::move(id)),
      loop_(loop),
      tally_(std::move(tally)),
      windows_(std::make_shared<MemoryWindowPool>(
          registrar_->device(), std::shared_ptr<std::atomic<std::uint64_t>>(tally_, &tally_->windows))) {}

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
  sent_queue_ = library.create_cq(device().context, static_cast<int>(kSends), nullptr, channel_, 0);
  received_queue_ = library.create_cq(device().context, static_cast<int>(kReceives), nullptr, channel_, 0);
  if (sent_queue_ == nullptr || received_queue_ == nullptr) return system_error(errno, "ibv_create_cq");
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
  attributes.send_cq = sent_queue_;
  attributes.recv_cq = received_queue_;
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
  device().events.watch(sent_queue_, stopped);
  device().events.watch(received_queue_, stopped);
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
      requests[index] = {.wr_id = slot,
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
  if (!arm()) return system_error(errno, "ibv_req_notify_cq");
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
  std::vector<Given> remote_keys;
  {
    std::unique_lock lock(mutex_);
    open_ = false;
    if (ended_) return;
    ended_ = true;
    remote_keys.swap(remote_keys_);
    rung_.wait(lock, [this] { return ringing_.empty(); });
  }
  const Library& library = *device().library;
  // A window keeps the queue pair that it is bound to.
  for (const Given& given : remote_keys) {
    if (const auto remote_key = given.remote_key.lock()) remote_key->end();
  }
  if (pair_ != nullptr) {
    device().events.forget(pair_);
    (void)library.disconnect(id_->get());
    (void)library.destroy_qp(pair_);
  }
  if (in_loop_) loop_.remove(channel_->fd);
  for (ibv_cq* queue : {std::exchange(sent_queue_, nullptr), std::exchange(received_queue_, nullptr)}) {
    if (queue == nullptr) continue;
    device().events.forget(queue);
    (void)library.destroy_cq(queue);
  }
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

std::size_t Connection::take(ibv_cq* Connection::*queue, Completions& completions) noexcept {
  const std::lock_guard polling(poll_mutex_);
  if (this->*queue == nullptr) return 0;
  const int count = ibv_poll_cq(this->*queue, static_cast<int>(completions.size()), completions.data());
  return static_cast<std::size_t>(std::max(count, 0));
}

// False: the device refuses it. What comes from now on makes an event, if the peer wants that or it is of this side.
bool Connection::arm() noexcept {
  const std::lock_guard polling(poll_mutex_);
  if (sent_queue_ == nullptr) return true;
  if (!sent_armed_) sent_armed_ = ibv_req_notify_cq(sent_queue_, 0) == 0;
  // siw makes no events for solicited messages alone.
  const bool knows_solicited = device().context->device->transport_type == IBV_TRANSPORT_IB;
  if (!received_armed_) received_armed_ = ibv_req_notify_cq(received_queue_, knows_solicited ? 1 : 0) == 0;
  return sent_armed_ && received_armed_;
}

void Connection::on_event() noexcept {
  const auto self = shared_from_this();
  const auto handler = handler_.lock();
  if (!handler) return;
  last_use_.store(loop_.turn(), std::memory_order_relaxed);
  {
    const std::lock_guard polling(poll_mutex_);
    if (sent_queue_ == nullptr) return;
    ibv_cq* which = nullptr;
    void* context = nullptr;
    // One is all that there usually is; what is left brings the loop here again.
    if (device().library->get_cq_event(channel_, &which, &context) == 0) {
      device().library->ack_cq_events(which, 1);
      (which == sent_queue_ ? sent_armed_ : received_armed_) = false;
    }
  }
  const std::lock_guard handling(handling_mutex_);
  // Armed when there is nothing left, so that what comes meanwhile makes no event; what came just before is looked for
  // once more.
  bool is_armed = false;
  for (int batch = 0; batch < kBatchesPerEvent; ++batch) {
    if (handle_some(*handler) != 0) continue;
    if (is_armed) return;
    if (!arm()) fail(false);
    is_armed = true;
  }
  loop_.post([self] { self->on_event(); });
}

void Connection::poll() noexcept {
  const std::unique_lock handling(handling_mutex_, std::try_to_lock);
  if (!handling.owns_lock()) return;
  const auto handler = handler_.lock();
  if (!handler) return;
  tally_->polled.fetch_add(handle_some(*handler), std::memory_order_relaxed);
}

// What was sent before something came is over before that is handled. How many completions there were.
std::size_t Connection::handle_some(Handler& handler) noexcept {
  Completions received;
  Completions sent;
  const std::size_t received_count = take(&Connection::received_queue_, received);
  std::size_t count = received_count;
  for (std::size_t sent_count = sent.size(); sent_count == sent.size();) {
    sent_count = take(&Connection::sent_queue_, sent);
    count += sent_count;
    for (const ibv_wc& completion : std::span(sent).first(sent_count)) on_sent(handler, completion);
  }
  for (const ibv_wc& completion : std::span(received).first(received_count)) {
    if (completion.status != IBV_WC_SUCCESS) {
      fail(false);
    } else if (!on_message(handler, completion)) {
      fail(true);
    }
  }
  if (count == 0) return 0;
  heard_.fetch_add(count, std::memory_order_relaxed);
  {
    std::unique_lock lock(mutex_);
    enqueue_waiting_locked();
    acknowledge_locked();
    (void)hand_over(std::move(lock), false);
  }
  handler.handled(*this);
  return count;
}

bool Connection::on_message(Handler& handler, const ibv_wc& completion) noexcept {
  const auto slot = static_cast<std::uint32_t>(completion.wr_id);
  std::array<std::byte, kMessage> message;
  if (completion.byte_len != kPrefix && completion.byte_len != kMessage) return false;
  std::memcpy(message.data(), buffers_.get() + slot * kSlot, completion.byte_len);
  const auto peer_taken = wire::load_le<std::uint32_t>(message.data());
  if (wire::load_le<std::uint32_t>(message.data() + 4) != 0) return false;
  // Whatever it says: the device tells which of this side's windows is none any more.
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
  // The next connection would break on it, too. A window whose remote key has ended by now could not be bound any more.
  if (count != 0 && done[count - 1].kind == Kind::bind && completion.status != IBV_WC_WR_FLUSH_ERR) {
    const auto remote_key = remote_key_of(static_cast<std::uint32_t>(done[count - 1].id));
    if (remote_key && remote_key->is_open(this)) registrar_->give_up_windows();
  }
  fail(false);
}

}  // namespace ripc::verbs
