// SPDX-License-Identifier: Apache-2.0
#include "transport/socket/stream_bulk.hpp"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <new>
#include <optional>

#include "remote/session/rails.hpp"

namespace ripc::internal::socket {

namespace {

namespace bulk = wire::bulk;

// Looks within the stall timeout.
constexpr unsigned kLooks = 16;
// Too many for a connection beside which there is another that is not silent so long: that one takes over what is owed.
constexpr unsigned kLooksBeside = kLooks / 4;

void set_option(int socket, int level, int name, int value) noexcept {
  // Without any of them it works, only worse.
  (void)::setsockopt(socket, level, name, &value, sizeof value);
}

void prepare(int socket, Nanoseconds stall_timeout) noexcept {
  const int flags = ::fcntl(socket, F_GETFL);
  (void)::fcntl(socket, F_SETFL, flags | O_NONBLOCK);
  const auto milliseconds = static_cast<int>(std::clamp<Nanoseconds>(stall_timeout / 1'000'000, 1, 1'000'000'000));
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, milliseconds);
  // An idle connection whose peer is gone without a word ends, too.
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, std::max(1, milliseconds / 1000));
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
}

}  // namespace

// ---- Connections ---------------------------------------------------------------------------------------------

StreamBulk::StreamBulk(EventLoop& loop, remote::BulkHooks hooks, const BulkOptions& options)
    : BulkBackend(loop, std::move(hooks), options.stall_timeout / kLooks, options.connections, stream_pulls_,
                  stream_pushes_),
      stall_timeout_(options.stall_timeout) {
  connections_.reserve(kMaxBulkConnections);
}

std::shared_ptr<StreamBulk> StreamBulk::create(EventLoop& loop, remote::BulkHooks hooks, const BulkOptions& options) {
  auto made = std::make_shared<StreamBulk>(loop, std::move(hooks), options);
  made->start_as(made->weak_from_this());
  return made;
}

void StreamBulk::adopt(UniqueFd socket) noexcept {
  prepare(socket.get(), stall_timeout_);
  const remote::Endpoint local = remote::Endpoint::local_of(socket.get());
  const remote::Endpoint peer = remote::Endpoint::remote_of(socket.get());
  std::shared_ptr<BulkConnection> connection;
  std::optional<StreamPullTable::NewLane> lane;
  try {
    connection = std::make_shared<BulkConnection>(std::move(socket), loop_, weak_from_this(), tally_);
    lane.emplace(connection);
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
  pulls_.connection_made(std::move(*lane));
  use(connection);
  silence_.look_soon();
  if (!connection->start().ok()) {
    connection->close();
    lost(*connection, false);
    return;
  }
  dial_if_needed();
}

void StreamBulk::lost(BulkConnection& connection, bool violation) noexcept {
  if (violation) violations_.fetch_add(1, std::memory_order_relaxed);
  connections_lost_.fetch_add(1, std::memory_order_release);
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(connections_, [&](const Member& member) { return member.connection.get() == &connection; });
    // One that was good for something is replaced at once.
    if (connection.received() != 0 && !violation) {
      forgive();
    } else {
      back_off();
    }
  }
  forget_connection(connection);
  recover();
}

std::shared_ptr<BulkConnection> StreamBulk::choose() noexcept { return pulls_.quickest(); }

void StreamBulk::close_connections() noexcept {
  std::vector<Member> connections;
  {
    const std::lock_guard lock(mutex_);
    connections.swap(connections_);
  }
  for (const Member& member : connections) member.connection->close();
}

// ---- Half-open connections -----------------------------------------------------------------------------------

void StreamBulk::look_for_silence() {
  std::vector<std::shared_ptr<BulkConnection>> connections;
  {
    const std::lock_guard lock(mutex_);
    for (const Member& member : connections_) connections.push_back(member.connection);
  }
  bool any_owed = has_backlog();
  std::vector<bool> owed;
  for (const auto& connection : connections) {
    owed.push_back(pulls_.owed(*connection) != 0 || finishes_.is_owed(*connection));
    any_owed = any_owed || owed.back();
  }
  {
    const std::lock_guard lock(mutex_);
    for (Member& member : connections_) {
      const auto found = std::find(connections.begin(), connections.end(), member.connection);
      if (found == connections.end()) continue;
      member.silence.look(owed[static_cast<std::size_t>(found - connections.begin())], member.connection->received());
    }
    const bool is_any_heard = std::any_of(connections_.begin(), connections_.end(),
                                          [](const Member& member) { return !member.silence.lasts(kLooksBeside); });
    const unsigned too_long = is_any_heard ? kLooksBeside : kLooks;
    for (const Member& member : connections_) {
      if (member.silence.lasts(too_long)) member.connection->shut_down();
    }
  }
  if (any_owed) silence_.look_soon();
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
  std::shared_ptr<StreamPush> push;
  try {
    push = pushes_.open(grant, bytes);
  } catch (const std::bad_alloc&) {
    return RIPC_UNSUPPORTED;
  }
  if (!push) return RIPC_PEER_DEAD;
  recover();
  const ripc_status status = push->wait(loop_, stall_timeout_);
  pushes_.close(*push);
  return status;
}

// ---- Frames --------------------------------------------------------------------------------------------------

bool StreamBulk::frame(BulkConnection& connection, const bulk::Frame& frame,
                       std::shared_ptr<Destination>& destination) noexcept {
  switch (frame.type) {
    case bulk::Type::pull_request:
      if (connection.job_count() >= kMaxJobs) return false;
      // If it is lost, that shows when it is read on.
      (void)connection.add_job({.frame = {.type = bulk::Type::data, .id = frame.id, .offset = frame.offset},
                                .end = frame.offset + frame.length,
                                .key = frame.key,
                                .location = frame.location,
                                .push = nullptr});
      return true;
    case bulk::Type::data:
      return pulls_.begin_data(connection, frame, destination);
    case bulk::Type::finish: {
      bulk::Frame answer{.type = bulk::Type::finished, .key = frame.key, .location = frame.location};
      tell(
          transfers_.finish(frame.key, frame.location, static_cast<ripc_status>(frame.value), [&](ripc_status outcome) {
            answer.value = static_cast<std::uint64_t>(outcome);
            (void)connection.send(answer);
          }));
      return true;
    }
    case bulk::Type::finished:
      finishes_.answered(frame);
      return true;
    case bulk::Type::push:
      try {
        destination = grants_.begin_frame(&connection, frame);
      } catch (const std::bad_alloc&) {
        connection.shut_down();
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

bool StreamBulk::payload(BulkConnection& connection, const bulk::Frame& frame, ripc_status status) noexcept {
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

void StreamBulk::unwritable(BulkConnection& connection, const bulk::Frame& frame) noexcept {
  if (frame.type == bulk::Type::data) {
    pulls_.unwritable(connection);
  } else {
    (void)grants_.end_frame(&connection, frame, RIPC_CANCELLED);
  }
}

// ---- Figures -------------------------------------------------------------------------------------------------

std::string StreamBulk::describe() const {
  const std::vector<spi::Rail> rails = this->rails();
  const auto moved_by = [](const spi::Rail& rail) { return rail.bytes_sent + rail.bytes_received; };
  if (rails.size() < 2) return "TCP for long items";
  std::uint64_t moved = 0;
  for (const spi::Rail& rail : rails) moved += moved_by(rail);
  std::string text = "long items over " + std::to_string(rails.size()) + " rails: ";
  for (const spi::Rail& rail : rails) {
    if (&rail != &rails.front()) text += ", ";
    text += rail.peer + ' ' + std::to_string(rail.rate / 1'000'000) + " MB/s " +
            std::to_string(moved == 0 ? 0 : moved_by(rail) * 100 / moved) + " %";
  }
  return text;
}

std::vector<spi::Rail> StreamBulk::rails() const {
  std::vector<spi::Rail> rails;
  std::uint64_t fastest = 0;
  {
    const std::lock_guard lock(mutex_);
    for (const Member& member : connections_) {
      const std::string peer = member.peer.ip();
      auto rail = std::find_if(rails.begin(), rails.end(), [&](const spi::Rail& other) { return other.peer == peer; });
      if (rail == rails.end()) {
        rail = rails.insert(rails.end(), spi::Rail());
        rail->device = remote::interface_of(member.local);
        rail->local = member.local.ip();
        rail->peer = peer;
      }
      const BulkConnection& connection = *member.connection;
      rail->rate += std::max(static_cast<std::uint64_t>(pulls_.rate_of(connection)), connection.send_rate());
      rail->bytes_sent += connection.sent();
      rail->bytes_received += connection.received();
      ++rail->connections;
      fastest = std::max(fastest, rail->rate);
    }
  }
  for (spi::Rail& rail : rails)
    rail.is_spare =
        rail.rate != 0 && static_cast<double>(rail.rate) * remote::RailPace::kSpare < static_cast<double>(fastest);
  return rails;
}

std::size_t StreamBulk::connection_count() const noexcept {
  const std::lock_guard lock(mutex_);
  return connections_.size();
}

std::size_t StreamBulk::connections_to(const remote::Endpoint& peer) const noexcept {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::count_if(connections_.begin(), connections_.end(),
                                                [&](const Member& member) { return member.peer.same_ip(peer); }));
}

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
