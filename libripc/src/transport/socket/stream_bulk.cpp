// SPDX-License-Identifier: Apache-2.0
#include "transport/socket/stream_bulk.hpp"

#include <list>
#include <new>

namespace ripc::internal::socket {

namespace {

namespace bulk = wire::bulk;

}  // namespace

// ---- Connections ---------------------------------------------------------------------------------------------

StreamBulk::StreamBulk(EventLoop& loop, remote::BulkHooks hooks, const BulkOptions& options)
    : BulkBackend(loop, std::move(hooks), options.stall_timeout, options.connections, stream_pulls_, stream_pushes_),
      stall_timeout_(options.stall_timeout) {
  connections_.reserve(kMaxBulkConnections);
}

std::shared_ptr<StreamBulk> StreamBulk::create(EventLoop& loop, remote::BulkHooks hooks, const BulkOptions& options) {
  auto made = std::make_shared<StreamBulk>(loop, std::move(hooks), options);
  made->start_as(made->weak_from_this());
  return made;
}

void StreamBulk::adopt(remote::SecureSocket socket) noexcept {
  const remote::Endpoint local = remote::Endpoint::local_of(socket.fd());
  const remote::Endpoint peer = remote::Endpoint::remote_of(socket.fd());
  std::shared_ptr<StreamConnection> connection;
  std::list<StreamPullTable::Lane> lane;
  try {
    connection = std::make_shared<StreamConnection>(std::move(socket), loop_.shared().descriptors(), weak_from_this(),
                                                    tally_, stall_timeout_);
    lane.emplace_back();
    lane.back().connection = connection;
    lane.back().peer = peer;
  } catch (const std::bad_alloc&) {
    dial_failed();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    dialing_ = false;
    if (is_dead() || connections_.size() == kMaxBulkConnections) return;
    connections_.push_back({.connection = connection, .local = local, .peer = peer});
  }
  connections_made_.fetch_add(1, std::memory_order_relaxed);
  pulls_.connection_made(std::move(lane));
  use(connection);
  silence_.look_soon();
  if (!connection->start().ok()) {
    connection->close();
    lost(*connection, false);
    return;
  }
  dial_if_needed();
}

void StreamBulk::lost(StreamConnection& connection, bool violation) noexcept {
  if (violation) violations_.fetch_add(1, std::memory_order_relaxed);
  connections_lost_.fetch_add(1, std::memory_order_release);
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(connections_, [&](const Member& member) { return member.connection.get() == &connection; });
    // A connection that carried something is replaced at once.
    if (connection.activity() != 0 && !violation) {
      reset_dial_backoff();
    } else {
      back_off();
    }
  }
  forget_connection(connection);
  recover();
}

// ---- Pulling and pushing -------------------------------------------------------------------------------------

ripc_status StreamBulk::pull(spi::Pull& pull, EventSet& events) noexcept {
  const bool is_new = pull.progress == 0;
  const ripc_status status = pulls_.pull(pull, events);
  if (is_new && status == RIPC_PENDING) {
    silence_.look_soon();
    dial_if_needed();
  }
  return status;
}

ripc_status StreamBulk::push(const wire::Grant& grant, spi::Bytes bytes) noexcept {
  if (bytes.size() > grant.length) return RIPC_TOO_LARGE;
  if (is_better_pulled(bytes.size())) return RIPC_UNSUPPORTED;
  std::shared_ptr<StreamPush> push;
  try {
    push = pushes_.open(grant, bytes);
  } catch (const std::bad_alloc&) {
    return RIPC_UNSUPPORTED;
  }
  if (!push) return RIPC_PEER_DEAD;
  recover();
  silence_.look_soon();
  const ripc_status status = push->wait(loop_, stall_timeout_);
  pushes_.close(*push);
  return status;
}

// ---- Frames --------------------------------------------------------------------------------------------------

bool StreamBulk::frame(StreamConnection& connection, const bulk::Frame& frame,
                       std::shared_ptr<Destination>& destination) noexcept {
  switch (frame.type) {
    case bulk::Type::pull_request:
      return connection.answer(frame);
    case bulk::Type::data:
      return pulls_.begin_data(connection, frame, destination);
    case bulk::Type::finish:
      tell(transfers_.finish(frame, connection));
      return true;
    case bulk::Type::finished:
      finishes_.answered(frame);
      return true;
    case bulk::Type::push:
      try {
        destination = grants_.begin_frame(&connection, frame);
      } catch (const std::bad_alloc&) {
        connection.cut();
      }
      return true;
    case bulk::Type::pushed:
      pushes_.answered(connection, frame);
      return true;
    default:
      break;  // of RDMA connections
  }
  return false;
}

bool StreamBulk::payload(StreamConnection& connection, const bulk::Frame& frame, ripc_status status) noexcept {
  if (frame.type == bulk::Type::data) return pulls_.end_data(connection, frame, status);
  const ripc_status outcome = grants_.end_frame(&connection, frame, status);
  if (outcome == RIPC_PENDING) return true;
  if (outcome == RIPC_REVOKED) refused_.fetch_add(1, std::memory_order_relaxed);
  return connection.send({.type = bulk::Type::pushed, .id = frame.id, .value = static_cast<std::uint64_t>(outcome)});
}

Reading StreamBulk::read(const Job& job) noexcept {
  if (job.push) return job.push->read(job.frame.offset, job.frame.length);
  Reading reading = transfers_.read(job.key, job.location, job.frame.offset, job.frame.length);
  if (reading.status != RIPC_OK) refused_.fetch_add(1, std::memory_order_relaxed);
  return reading;
}

void StreamBulk::unreadable(const Job& job) noexcept {
  if (job.push) {
    job.push->end(RIPC_CANCELLED);
  } else {
    tell(transfers_.fail(job.key, job.location));
  }
}

void StreamBulk::unwritable(StreamConnection& connection, const bulk::Frame& frame) noexcept {
  if (frame.type == bulk::Type::data) {
    pulls_.unwritable(connection);
  } else {
    (void)grants_.end_frame(&connection, frame, RIPC_CANCELLED);
  }
}

// ---- Figures -------------------------------------------------------------------------------------------------

BulkCounters StreamBulk::counters() const noexcept {
  const auto read = [](const std::atomic<std::uint64_t>& count) { return count.load(std::memory_order_acquire); };
  return {.send_calls = read(tally_->send_calls),
          .receive_calls = read(tally_->receive_calls),
          .bytes_sent = read(tally_->bytes_sent),
          .bytes_received = read(tally_->bytes_received),
          .bytes_requested = pulls_.bytes_requested(),
          .bytes_discarded = read(tally_->bytes_discarded),
          .connections_made = read(connections_made_),
          .connections_lost = read(connections_lost_),
          .refused = read(refused_),
          .violations = read(violations_)};
}

}  // namespace ripc::internal::socket
