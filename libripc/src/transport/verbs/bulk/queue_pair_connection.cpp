// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/bulk/queue_pair_connection.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "transport/verbs/device/post_receives.hpp"
#include "transport/verbs/device/queue_pair_states.hpp"

namespace ripc::internal::verbs {

// ---- Making --------------------------------------------------------------------------------------------------

QueuePairConnection::QueuePairConnection(std::shared_ptr<Registrar> registrar, IdPointer id, EventLoop& loop,
                                         std::shared_ptr<Tally> tally)
    : registrar_(std::move(registrar)),
      id_(std::move(id)),
      loop_(loop),
      tally_(std::move(tally)),
      windows_(std::make_shared<MemoryWindowPool>(
          registrar_->device(), std::shared_ptr<std::atomic<std::uint64_t>>(tally_, &tally_->windows))) {}

Result<std::shared_ptr<QueuePairConnection>> QueuePairConnection::create(std::shared_ptr<Registrar> registrar,
                                                                         IdPointer id, EventLoop& loop,
                                                                         std::shared_ptr<Tally> tally,
                                                                         std::uint32_t most_inline) {
  std::shared_ptr<QueuePairConnection> connection(
      new QueuePairConnection(std::move(registrar), std::move(id), loop, std::move(tally)));
  if (Status status = connection->make(most_inline); !status.ok()) return status;
  return connection;
}

Status QueuePairConnection::make(std::uint32_t most_inline) {
  const VerbsLibrary& library = *device().library;
  channel_ = library.create_comp_channel(device().context);
  if (channel_ == nullptr) return system_error(errno, "ibv_create_comp_channel", "raise `ulimit -n`");
  channel_guard_ = ForkGuard(channel_->fd);
  (void)fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  sent_queue_ = library.create_cq(device().context, static_cast<int>(kSends), nullptr, channel_, 0);
  received_queue_ = library.create_cq(device().context, static_cast<int>(kReceives), nullptr, channel_, 0);
  if (sent_queue_ == nullptr || received_queue_ == nullptr) return system_error(errno, "ibv_create_cq");
  // Some devices refuse a request for more than they have; others give less.
  Status status = make_pair(most_inline);
  if (!status.ok() && most_inline != 0) status = make_pair(0);
  if (status.ok()) status = prepare_pair(library, *id_->get(), *pair_);
  if (!status.ok()) return status;
  watch_for_errors();
  // Weak: whoever waits for the report has the connection.
  failure_ = EventLoop::prepare([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->report_failure();
  });
  const std::size_t size = (messages_inline_ ? kReceives : kReceives + kSends) * kSlot;
  buffers_ = std::make_unique<std::byte[]>(size);
  Result<RegionPointer> region = registrar_->range(buffers_.get(), size, IBV_ACCESS_LOCAL_WRITE);
  if (!region.ok()) return region.status();
  buffers_region_ = std::move(*region);
  const std::lock_guard lock(mutex_);
  open_ = true;
  return post_receives(0, kReceives);
}

Status QueuePairConnection::make_pair(std::uint32_t most_inline) noexcept {
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

// A queue pair that the device has stopped may have nothing under way that would show this. Completions in a stopped
// queue never come.
void QueuePairConnection::watch_for_errors() {
  const auto stopped = [weak = weak_from_this(), &loop = loop_] {
    loop.post([weak] {
      if (const auto self = weak.lock()) self->fail(false);
    });
  };
  device().events.watch(pair_, stopped);
  device().events.watch(sent_queue_, stopped);
  device().events.watch(received_queue_, stopped);
}

Status QueuePairConnection::post_receives(std::uint32_t first, std::uint32_t count) noexcept {
  const int error = verbs::post_receives(pair_, count, [&](std::size_t index, ibv_sge& range) {
    const std::uint32_t slot = (first + static_cast<std::uint32_t>(index)) % kReceives;
    range = range_of(buffers_.get() + slot * kSlot, kSlot, buffers_region_->local_key());
    return std::uint64_t{slot};
  });
  return error == 0 ? Status() : system_error(error, "ibv_post_recv");
}

Status QueuePairConnection::start(std::weak_ptr<Handler> handler, bool dialed) {
  {
    // A polling thread may already know the connection.
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
  // Completions from before arming make no event.
  loop_.post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->on_event();
  });
  return {};
}

void QueuePairConnection::close() noexcept {
  {
    const std::lock_guard lock(mutex_);
    silent_ = true;
  }
  end_device_use();
}

void QueuePairConnection::cut() noexcept {
  end_device_use();
  fail(false);
}

void QueuePairConnection::end_device_use() noexcept {
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
  const VerbsLibrary& library = *device().library;
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

// Reported in the responder, whichever thread noticed it.
void QueuePairConnection::fail(bool violation) noexcept {
  const std::lock_guard lock(mutex_);
  fail_locked(violation);
}

void QueuePairConnection::fail_locked(bool violation) noexcept {
  open_ = false;
  if (failed_) return;
  failed_ = true;
  violation_ = violation;
  loop_.post(std::move(failure_));
}

void QueuePairConnection::report_failure() noexcept {
  end_device_use();
  std::deque<Posted> posted;
  bool violation = false;
  {
    const std::lock_guard lock(mutex_);
    if (silent_) return;
    posted.swap(posted_);
    violation = violation_;
  }
  const auto handler = handler_.lock();
  if (!handler) return;
  for (const Posted& one : posted) {
    if (one.kind == Kind::operation) handler->operation_done(*this, one.id, RIPC_PEER_DEAD);
  }
  handler->lost(*this, violation);
}

}  // namespace ripc::internal::verbs
