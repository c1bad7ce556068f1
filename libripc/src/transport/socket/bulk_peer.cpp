// SPDX-License-Identifier: Apache-2.0
#include "transport/socket/bulk_peer.hpp"

#include "transport/socket/bulk_session.hpp"

namespace ripc::socket {

BulkPeer::BulkPeer(std::shared_ptr<BulkSession> session) noexcept : session_(std::move(session)) {}
BulkPeer::~BulkPeer() { session_->died(); }

std::shared_ptr<BulkPeer> BulkPeer::create(EventLoop& loop, Hooks hooks, const BulkOptions& options) {
  auto session = std::make_shared<BulkSession>(loop, std::move(hooks), options);
  session->start();
  return std::shared_ptr<BulkPeer>(new BulkPeer(std::move(session)));
}

void BulkPeer::adopt(UniqueFd connection) noexcept { session_->adopt(std::move(connection)); }
void BulkPeer::dial_failed() noexcept { session_->dial_failed(); }
void BulkPeer::died() noexcept { session_->died(); }

ripc_status BulkPeer::expose(std::uint64_t owner, std::span<const spi::Exposure> items,
                             std::span<wire::Descriptor> descriptors, std::uint64_t& transfer) noexcept {
  return session_->transfers().expose(owner, items, descriptors, transfer);
}
ripc_status BulkPeer::will_tell(std::uint64_t transfer, std::size_t size) noexcept {
  return session_->transfers().will_tell(transfer, size);
}
void BulkPeer::told(std::uint64_t transfer, spi::Gather packet) noexcept { session_->told(transfer, packet); }
ripc_status BulkPeer::transfer_status(std::uint64_t transfer) noexcept {
  return session_->transfers().status(transfer);
}
bool BulkPeer::watch(std::uint64_t transfer) noexcept { return session_->transfers().watch(transfer); }
ripc_status BulkPeer::revoke(std::uint64_t transfer) noexcept { return session_->transfers().revoke(transfer); }
ripc_status BulkPeer::grant(std::uint64_t owner, std::span<std::byte> memory, wire::Grant& grant) noexcept {
  return session_->grants().grant(owner, memory, grant);
}
ripc_status BulkPeer::end_grant(const wire::Grant& grant) noexcept { return session_->grants().end_grant(grant); }
bool BulkPeer::has_room(spi::Need need) const noexcept {
  return need.resource == spi::Resource::transfers ? session_->transfers().has_room()
                                                   : session_->grants().has_room(need.count);
}
void BulkPeer::end_owner(std::uint64_t owner) noexcept {
  session_->transfers().end_owner(owner);
  session_->grants().end_owner(owner);
}

ripc_status BulkPeer::begin(std::span<const wire::Descriptor> items, EventSet& events) noexcept {
  return session_->begin(items, events);
}
ripc_status BulkPeer::pull(spi::Pull& pull, EventSet& events) noexcept { return session_->pull(pull, events); }
void BulkPeer::abandon(spi::Pull& pull) noexcept { session_->pulls().abandon(pull); }
ripc_status BulkPeer::finish(const wire::Descriptor& descriptor, ripc_status status, EventSet& events) noexcept {
  return session_->finish(descriptor, status, events);
}
void BulkPeer::forget(const EventSet& events) noexcept {
  session_->pulls().forget(events);
  session_->finishes().forget(events);
}
ripc_status BulkPeer::push(const wire::Grant& grant, spi::Bytes bytes) noexcept { return session_->push(grant, bytes); }

std::size_t BulkPeer::connection_count() const noexcept { return session_->connection_count(); }
BulkCounters BulkPeer::counters() const noexcept { return session_->counters(); }

}  // namespace ripc::socket
