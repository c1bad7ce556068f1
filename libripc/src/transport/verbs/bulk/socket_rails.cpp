// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/bulk/socket_rails.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "remote/session/rails.hpp"

namespace ripc::internal::verbs {

namespace bulk = wire::bulk;
using remote::StreamConnection;

void SocketRails::adopt(remote::SecureSocket socket, std::weak_ptr<Handler> self) noexcept try {
  const remote::Endpoint local = remote::Endpoint::local_of(socket.fd());
  const remote::Endpoint peer = remote::Endpoint::remote_of(socket.fd());
  const auto connection =
      std::make_shared<StreamConnection>(std::move(socket), loop_.descriptors(), std::move(self), tally_, patience_);
  ConnectionPointer former;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    const auto found = std::ranges::find_if(members_, [&](const Member& member) { return member.peer.same_ip(peer); });
    if (found != members_.end()) {
      former = std::exchange(found->connection, connection);
      found->local = local;
      found->silence = {};
    } else if (members_.size() == remote::kMaxRails) {
      return;
    } else {
      members_.push_back({.connection = connection, .local = local, .peer = peer});
    }
  }
  if (former) {
    former->close();
    finishes_.connection_lost(*former);
    pulls_.socket_lost(*former);
  }
  // Without a lane it would bring nothing, and a present rail is not dialed again.
  if (pulls_.socket_made(connection, peer) != RIPC_OK || !connection->start().ok()) {
    connection->close();
    lost(*connection, false);
  } else {
    hooks_.changed();
  }
} catch (const std::bad_alloc&) {
  // It will be dialed again while bytes move.
}

void SocketRails::close() noexcept {
  std::vector<Member> members;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    members = std::exchange(members_, {});
  }
  for (const Member& member : members) member.connection->close();
}

bool SocketRails::empty() const noexcept {
  const std::lock_guard lock(mutex_);
  return members_.empty();
}

bool SocketRails::has(const remote::Endpoint& peer) const noexcept {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(members_, [&](const Member& member) { return member.peer.same_ip(peer); });
}

std::shared_ptr<StreamConnection> SocketRails::first() const noexcept {
  const std::lock_guard lock(mutex_);
  return members_.empty() ? nullptr : members_.front().connection;
}

bool SocketRails::is_any_active(unsigned looks) const noexcept {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(members_, [&](const Member& member) { return !member.silence.lasts(looks); });
}

std::uint64_t SocketRails::activity() const noexcept {
  const std::lock_guard lock(mutex_);
  std::uint64_t activity = 0;
  for (const Member& member : members_) activity += member.connection->received() + member.connection->sent();
  return activity;
}

void SocketRails::add_to(std::vector<spi::RailReport>& rails) const {
  const std::lock_guard lock(mutex_);
  for (const Member& member : members_) {
    spi::RailReport rail;
    rail.device = remote::interface_of(member.local);
    rail.local = member.local.ip();
    rail.peer = member.peer.ip();
    rail.rate = member.connection->rate(pulls_.rate_of(*member.connection));
    rail.bytes_sent = member.connection->sent();
    rail.bytes_received = member.connection->received();
    rail.connections = 1;
    rails.push_back(std::move(rail));
  }
}

bool SocketRails::look_for_silence(unsigned looks) {
  std::vector<ConnectionPointer> silent;
  bool is_any_owed = false;
  {
    const std::lock_guard lock(mutex_);
    for (Member& member : members_) {
      const bool is_owed = pulls_.is_owed(*member.connection) || finishes_.is_owed(*member.connection);
      is_any_owed = is_any_owed || is_owed;
      member.silence.look(is_owed, member.connection->activity());
      if (member.silence.lasts(looks)) silent.push_back(member.connection);
    }
  }
  for (const ConnectionPointer& connection : silent) connection->cut();
  return is_any_owed;
}

// ---- StreamConnection::Handler -------------------------------------------------------------------------------

bool SocketRails::frame(StreamConnection& connection, const bulk::Frame& frame,
                        std::shared_ptr<remote::Destination>& destination) noexcept {
  switch (frame.type) {
    case bulk::Type::data:
      return pulls_.begin_data(connection, frame, destination);
    case bulk::Type::pull_request:
      return connection.answer(frame);
    case bulk::Type::finish:
      hooks_.ended(transfers_.finish(frame, connection));
      return true;
    case bulk::Type::finished:
      finishes_.answered(frame);
      return true;
    default:
      return false;
  }
}

bool SocketRails::payload(StreamConnection& connection, const bulk::Frame& frame, ripc_status status) noexcept {
  const bool makes_sense = pulls_.end_data(connection, frame, status);
  hooks_.flush();
  return makes_sense;
}

remote::Reading SocketRails::read(const remote::Job& job) noexcept {
  return transfers_.read(job.key, job.location, job.frame.offset, job.frame.length);
}

void SocketRails::unreadable(const remote::Job& job) noexcept { hooks_.ended(transfers_.fail(job.key, job.location)); }

void SocketRails::unwritable(StreamConnection& connection, const bulk::Frame&) noexcept {
  pulls_.unwritable(connection);
  hooks_.flush();
}

void SocketRails::lost(StreamConnection& connection, bool) noexcept {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(members_, [&](const Member& member) { return member.connection.get() == &connection; });
  }
  finishes_.connection_lost(connection);
  pulls_.socket_lost(connection);
  hooks_.changed();
}

}  // namespace ripc::internal::verbs
