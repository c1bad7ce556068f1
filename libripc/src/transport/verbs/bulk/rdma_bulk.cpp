// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/bulk/rdma_bulk.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

namespace ripc::internal::verbs {

namespace {

namespace bulk = wire::bulk;

// Limits on the items of a message and the remote keys of a connection; beyond them the peer has to ask.
constexpr std::size_t kMostOffered = 4;
constexpr std::size_t kMostOpen = 32;

// Whether a receiver that looks for an offer may handle this frame itself: not if it ends tickets or opens memory.
constexpr bool may_be_polled(const bulk::Frame& frame) noexcept {
  return frame.type == bulk::Type::offer || frame.type == bulk::Type::finished ||
         (frame.type == bulk::Type::remote_key && RdmaPullTable::is_own(frame.id));
}

}  // namespace

RdmaBulk::RdmaBulk(const remote::Endpoint& peer, std::shared_ptr<Registrar> registrar, memory::Pool& pool,
                   EventLoop& loop, remote::BulkHooks hooks, Nanoseconds stall_timeout)
    : BulkBackend(loop, std::move(hooks), stall_timeout, 1, rdma_pulls_, rdma_pushes_),
      first_peer_(peer),
      registrar_(std::move(registrar)),
      pool_(pool),
      rdma_pulls_(registrar_, loop, finishes_, stall_timeout),
      rdma_pushes_(registrar_, loop, stall_timeout),
      sockets_(rdma_pulls_, transfers_, finishes_, loop, stall_timeout,
               {.flush = [this] { flush_all(); },
                .changed =
                    [this] {
                      recover();
                      flush_all();
                    },
                .ended = [this](const remote::ExposureTable::Watcher& watcher) { tell(watcher); }}) {
  connections_.reserve(remote::kMaxRails);
}

void RdmaBulk::died() noexcept {
  sockets_.close();
  BulkBackend::died();
}

void RdmaBulk::dial_failed() noexcept {
  rdma_pulls_.stand_in();
  BulkBackend::dial_failed();
}

std::vector<spi::RailReport> RdmaBulk::rails() const {
  std::vector<spi::RailReport> rails = BulkBackend::rails();
  sockets_.add_to(rails);
  mark_spares(rails);
  return rails;
}

std::string RdmaBulk::describe() const {
  const std::shared_ptr<Registrar> present = registrar();
  if (!present) return "TCP for long items";
  return std::string("RDMA reads for long items, by ") + (present->has_windows() ? "memory windows" : "registrations");
}

void RdmaBulk::set_possible_rails(std::vector<spi::RailReport> rails) noexcept {
  const std::lock_guard lock(mutex_);
  possible_rails_ = std::move(rails);
}

std::vector<spi::RailReport> RdmaBulk::possible_rails() const {
  const std::lock_guard lock(mutex_);
  return possible_rails_;
}

// ---- Connections ---------------------------------------------------------------------------------------------

std::shared_ptr<QueuePairConnection> RdmaBulk::connection() const noexcept {
  const std::lock_guard lock(mutex_);
  return connections_.empty() ? nullptr : connections_.front().connection;
}

template <typename Do>
void RdmaBulk::for_each_connection(Do&& todo) const noexcept {
  std::array<std::shared_ptr<QueuePairConnection>, remote::kMaxRails> present;
  std::size_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    for (const Member& member : connections_) present[count++] = member.connection;
  }
  for (const auto& connection : std::span(present).first(count)) todo(*connection);
}

// Messages over one connection may cause requests over the others.
void RdmaBulk::flush_all() noexcept {
  for_each_connection([](QueuePairConnection& connection) { connection.flush(); });
}

void RdmaBulk::adopt(std::shared_ptr<QueuePairConnection> connection, bool dialed) noexcept {
  const remote::Endpoint peer = connection->peer();
  std::shared_ptr<QueuePairConnection> former;
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    dialing_ = false;
    if (is_dead()) return;
    const auto found =
        std::ranges::find_if(connections_, [&](const Member& member) { return member.peer.same_ip(peer); });
    if (found != connections_.end()) {
      former = std::move(found->connection);
      connections_.erase(found);
      first_lost_ = first_lost_ || peer.same_ip(first_peer_);
    }
    if (connections_.size() == remote::kMaxRails) return;
    is_first = !first_lost_ && peer.same_ip(first_peer_);
    connections_.insert(is_first ? connections_.begin() : connections_.end(),
                        {.connection = connection, .local = connection->local(), .peer = peer});
  }
  if (former) {
    former->close();
    forget_connection(*former);
  }
  made_.fetch_add(1, std::memory_order_relaxed);
  if (!connection->start(weak_from_this(), dialed).ok()) {
    connection->cut();
    return;
  }
  pulls_.connection_made(connection, is_first);
  recover();
  flush_all();
}

void RdmaBulk::lost(QueuePairConnection& connection, bool violation) noexcept {
  lost_.fetch_add(1, std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    if (std::erase_if(connections_, [&](const Member& member) { return member.connection.get() == &connection; }) == 0)
      return;
    first_lost_ = first_lost_ || connection.peer().same_ip(first_peer_);
    // A broken connection is replaced at once, but with pauses if it breaks before anything has gone over it.
    if (connection.is_proven() && !violation) {
      reset_dial_backoff();
    } else {
      back_off();
    }
  }
  forget_connection(connection);
  recover();
  flush_all();
}

void RdmaBulk::cut_at(const std::vector<std::string>& ips) noexcept {
  for_each_connection([&](QueuePairConnection& connection) {
    if (std::ranges::find(ips, connection.local().ip()) != ips.end()) connection.cut();
  });
}

// ---- Connections that are silent -----------------------------------------------------------------------------

bool RdmaBulk::probe() noexcept {
  std::uint64_t activity = 0;
  for_each_connection([&](QueuePairConnection& connection) { activity += connection.activity(); });
  activity += sockets_.activity();
  if (std::exchange(activity_, activity) == activity && idle()) return false;
  for_each_connection([](QueuePairConnection& connection) { connection.probe(); });
  return true;
}

// RDMA or another rail can bring the bytes that a silent rail of sockets owes.
void RdmaBulk::look_for_silence() {
  const bool is_any_active = sockets_.is_any_active(kLooksBeside);
  BulkBackend::look_for_silence(is_any_active);
  if (sockets_.look_for_silence(connection() || is_any_active ? kLooksBeside : kLooks)) silence_.look_soon();
}

bool RdmaBulk::idle() const noexcept {
  // A peer that reads or writes with one of our remote keys makes no completion here.
  bool is_idle = !pulls_.busy() && !pushes_.busy() && !has_backlog();
  for_each_connection([&](QueuePairConnection& connection) {
    is_idle = is_idle && connection.remote_key_count() == 0 && !finishes_.is_owed(connection);
  });
  return is_idle;
}

// ---- remote::Bulk -------------------------------------------------------------------------------------------

ripc_status RdmaBulk::expose(std::uint64_t owner, std::span<const spi::Exposure> items,
                             std::span<wire::Descriptor> descriptors, std::uint64_t& transfer) noexcept {
  const ripc_status status = transfers_.expose(owner, items, descriptors, transfer);
  if (status == RIPC_OK) offer(descriptors.first(items.size()));
  return status;
}

ripc_status RdmaBulk::prepare_announcement(std::uint64_t transfer, std::size_t size, bool more) noexcept {
  // Send the offers first, because a receiver that learns of an item looks for its offer at once.
  if (!more) send_offers();
  return Bulk::prepare_announcement(transfer, size, more);
}

void RdmaBulk::send_offers() const noexcept {
  if (const auto present = connection()) present->settle();
}

// Withdraws the offer, so that the peer asks and learns why it gets nothing. A read with an ended key would break the
// connection.
ripc_status RdmaBulk::revoke(std::uint64_t transfer) noexcept {
  std::vector<remote::ExposureTable::Closed> closed;
  const ripc_status status = transfers_.revoke(transfer, &closed);
  for_each_connection([&](QueuePairConnection& connection) {
    for (const auto& item : closed)
      (void)connection.send({.type = bulk::Type::offer, .key = item.key, .location = item.location});
  });
  return status;
}

ripc_status RdmaBulk::pull(spi::Pull& pull, EventSet& events) noexcept {
  const bool is_new = pull.progress == 0;
  const ripc_status status = begin_pull(pull, events);
  if (is_new && status == RIPC_PENDING) start_pulls();
  return status;
}

ripc_status RdmaBulk::begin_pull(spi::Pull& pull, EventSet& events) noexcept {
  // An offer wakes nobody, so look for it here.
  if (pull.progress == 0 && !pulls_.is_offered(pull.descriptor)) {
    if (const auto present = connection()) present->poll();
  }
  return pulls_.pull(pull, events);
}

void RdmaBulk::start_pulls() noexcept {
  pulls_.start();
  flush_all();
  silence_.look_soon();
  dial_if_needed();
}

ripc_status RdmaBulk::push(const wire::Grant& grant, spi::Bytes bytes) noexcept {
  if (bytes.size() > grant.length) return RIPC_TOO_LARGE;
  // There is no device to write from.
  if (rdma_pulls_.stands_in() && !sockets_.empty()) return RIPC_UNSUPPORTED;
  if (is_better_pulled(bytes.size(), !sockets_.empty())) return RIPC_UNSUPPORTED;
  return pushes_.push(grant, bytes, [this] { dial_if_needed(); });
}

// ---- What the connection brings ------------------------------------------------------------------------------

// For frames that a polling thread must leave to the responder, and frames that find no room: completions that make
// room come first.
void RdmaBulk::frame_in_responder(QueuePairConnection& connection, const bulk::Frame& frame) {
  loop_.post([weak = weak_from_this(), again = connection.weak_from_this(), frame] {
    const auto self = weak.lock();
    const auto target = again.lock();
    if (!self || !target) return;
    Pass pass;
    if (!self->frame(*target, frame, pass)) target->cut();
    self->end_all(*target, pass);
    target->flush();
  });
}

bool RdmaBulk::frame(QueuePairConnection& connection, const bulk::Frame& frame, Pass& pass) noexcept try {
  if (pass.is_poll && !may_be_polled(frame)) {
    frame_in_responder(connection, frame);
    return true;
  }
  // Nobody, not even this thread, may reach a transfer that is about to end.
  if (!may_be_polled(frame) && frame.type != bulk::Type::finish) end_all(connection, pass);
  switch (frame.type) {
    case bulk::Type::ask_read:
      return on_ask_read(connection, frame);
    case bulk::Type::ask_write:
      return on_ask_write(connection, frame);
    case bulk::Type::remote_key:
      if (!pushes_.answered(connection, frame)) pulls_.answered(connection, frame);
      return true;
    case bulk::Type::offer:
      pulls_.offered(connection, frame);
      return true;
    case bulk::Type::written:
      return on_written(connection, frame);
    case bulk::Type::pushed:
      pushes_.pushed(connection, frame);
      return true;
    case bulk::Type::finish:
      on_finish(connection, frame, pass);
      return true;
    case bulk::Type::finished:
      // Wake the thread only when all of it is handled, so that it does not sleep again for the rest.
      pass.wakers.push_back(finishes_.answered(frame));
      return true;
    default:
      return false;
  }
} catch (const std::bad_alloc&) {
  return false;
}

// One doorbell answers all Finishes that have come together. Only then may the transfers' owners see that they have
// ended.
void RdmaBulk::on_finish(QueuePairConnection& connection, const bulk::Frame& frame, Pass& pass) {
  connection.prove();
  if (std::ranges::any_of(pass.ended, [&](const auto& one) { return one.ending.holds(frame.key); }))
    end_all(connection, pass);
  bulk::Frame answer{.type = bulk::Type::finished, .key = frame.key, .location = frame.location};
  remote::ExposureTable::Ending& ending = pass.ended.emplace_back().ending;
  answer.value = static_cast<std::uint64_t>(
      transfers_.answer_to(frame.key, frame.location, static_cast<ripc_status>(frame.value), ending));
  (void)connection.enqueue(answer);
}

void RdmaBulk::handled(QueuePairConnection& connection, Pass& pass) noexcept {
  if (connection_count() > 1) flush_all();
  pass.wakers.clear();
  end_all(connection, pass);
}

void RdmaBulk::end_all(QueuePairConnection& connection, Pass& pass) noexcept {
  if (pass.ended.empty()) return;
  connection.settle();
  auto ended = std::exchange(pass.ended, {});
  for (auto& one : ended) one.watcher = remote::ExposureTable::complete(std::move(one.ending));
  for (const auto& one : ended) tell(one.watcher);
}

// Like admit(), and also enqueues the frame that tells the peer. An item that is already open to the connection stays
// so. RIPC_UNSUPPORTED: it cannot be opened to this connection, but is open to another.
ripc_status RdmaBulk::open_item(QueuePairConnection& connection, std::uint64_t key, std::uint64_t location, bool asked,
                                const Telling& telling) noexcept {
  using Item = remote::ExposureTable::Item;
  const auto address_of = [](const Item& item) { return reinterpret_cast<std::uint64_t>(item.bytes.data()); };
  bool is_open_elsewhere = false;
  const ripc_status status = transfers_.admit<RemoteKey>(
      key, location, asked,
      [&](const Item& item, RemoteKey& remote_key) {
        if (remote_key.is_open(&connection)) return connection.enqueue(telling(address_of(item), remote_key));
        is_open_elsewhere = true;
        return false;
      },
      [&](const Item& item) -> Result<std::shared_ptr<RemoteKey>> {
        if (item.bytes.empty()) return RIPC_CANCELLED;
        const auto tell_address = [&](const RemoteKey& remote_key) { return telling(address_of(item), remote_key); };
        return connection.open(item.bytes, item.arena, false, std::ref(tell_address));
      });
  const bool is_passing = status == RIPC_OK || status == RIPC_AGAIN || status == RIPC_PEER_DEAD;
  return is_open_elsewhere && !is_passing ? RIPC_UNSUPPORTED : status;
}

// Enqueues offers, so that the peer can read as soon as it has the message, without asking first.
void RdmaBulk::offer(std::span<const wire::Descriptor> items) noexcept {
  const std::shared_ptr<QueuePairConnection> present = connection();
  if (!present || items.size() > kMostOffered || present->remote_key_count() >= kMostOpen) return;
  for (const wire::Descriptor& item : items) {
    (void)open_item(*present, item.key, item.location, false, [&](std::uint64_t address, const RemoteKey& remote_key) {
      return bulk::Frame{.type = bulk::Type::offer,
                         .id = remote_key.key(),
                         .key = item.key,
                         .location = item.location,
                         .offset = remote_key.has_window() ? 1u : 0u,
                         .value = address};
    });
  }
}

bool RdmaBulk::on_ask_read(QueuePairConnection& connection, const bulk::Frame& frame) {
  const ripc_status status =
      open_item(connection, frame.key, frame.location, true, [&](std::uint64_t address, const RemoteKey& remote_key) {
        return bulk::Frame{.type = bulk::Type::remote_key,
                           .id = frame.id,
                           .key = remote_key.key(),
                           .location = address,
                           .offset = remote_key.has_window() ? 1u : 0u,
                           .value = static_cast<std::uint64_t>(RIPC_OK)};
      });
  // Answered; or the connection is being lost.
  if (status == RIPC_OK || status == RIPC_PEER_DEAD) return true;
  if (status == RIPC_AGAIN) {
    frame_in_responder(connection, frame);
    return true;
  }
  // Either it cannot be read at all, or it cannot be registered because of the limit of locked memory or one of the
  // device.
  const bool is_readable = status == RIPC_REVOKED || status == RIPC_UNSUPPORTED;
  if (!is_readable)
    tell(transfers_.fail(frame.key, frame.location, status == RIPC_CANCELLED ? RIPC_CANCELLED : RIPC_LIMIT));
  const ripc_status reply = is_readable ? status : RIPC_CANCELLED;
  (void)connection.send({.type = bulk::Type::remote_key, .id = frame.id, .value = static_cast<std::uint64_t>(reply)});
  return true;
}

bool RdmaBulk::on_ask_write(QueuePairConnection& connection, const bulk::Frame& frame) {
  const std::shared_ptr<remote::Destination> destination = grants_.begin_frame(&connection, frame);
  ripc_status status = RIPC_REVOKED;
  if (destination) {
    const std::lock_guard lock(destination->mutex);
    if (destination->memory != nullptr) {
      const std::span<std::byte> memory(destination->memory, frame.value);
      const Result<memory::Hold> hold = pool_.hold(memory.data(), memory.size());
      Result<std::shared_ptr<RemoteKey>> remote_key =
          connection.open(memory, hold.ok() ? hold->arena() : nullptr, true, [&](const RemoteKey& opened) {
            return bulk::Frame{.type = bulk::Type::remote_key,
                               .id = frame.id,
                               .key = opened.key(),
                               .location = reinterpret_cast<std::uint64_t>(memory.data()),
                               .value = static_cast<std::uint64_t>(RIPC_OK)};
          });
      status = remote_key.ok() ? RIPC_OK : remote_key.status().code();
      if (remote_key.ok()) destination->let_in(std::move(*remote_key));
    }
  }
  if (status == RIPC_OK) return true;
  if (destination) (void)grants_.end_frame(&connection, frame, RIPC_CANCELLED);
  if (status == RIPC_PEER_DEAD) return true;
  if (status == RIPC_AGAIN) {
    frame_in_responder(connection, frame);
    return true;
  }
  const ripc_status reply = status == RIPC_REVOKED ? RIPC_REVOKED : RIPC_UNSUPPORTED;
  (void)connection.send({.type = bulk::Type::remote_key, .id = frame.id, .value = static_cast<std::uint64_t>(reply)});
  return true;
}

bool RdmaBulk::on_written(QueuePairConnection& connection, const bulk::Frame& frame) noexcept {
  connection.prove();
  if (frame.value == 0) (void)grants_.begin_frame(&connection, frame);
  const ripc_status status = grants_.complete(&connection, frame);
  (void)connection.send({.type = bulk::Type::pushed, .id = frame.id, .value = static_cast<std::uint64_t>(status)});
  return true;
}

void RdmaBulk::operation_done(QueuePairConnection& connection, std::uint64_t id, ripc_status status) noexcept {
  if (status == RIPC_OK) connection.prove();
  if (!pulls_.read_done(connection, id, status)) pushes_.write_done(connection, id, status);
}

}  // namespace ripc::internal::verbs
