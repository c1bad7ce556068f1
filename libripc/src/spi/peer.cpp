// SPDX-License-Identifier: Apache-2.0
#include "spi/peer.hpp"

#include <sys/resource.h>

#include <algorithm>

namespace ripc::internal::spi {

const Peer* PeerTable::enter(Peer peer) {
  if (trust_ && peer.identity.empty() && peer.user) {
    const std::shared_ptr<const security::Trust> trust = trust_->current();
    if (const security::Trust::Member* const member = trust->member_of(*peer.user)) peer.identity = member->name;
  }
  const std::lock_guard lock(mutex_);
  return &*peers_.insert(std::move(peer)).first;
}

bool PeerTable::may_call(const Peer& peer, std::string_view name, ripc_service_id id) const {
  if (!trust_ || peer.identity.empty()) return true;
  const std::shared_ptr<const security::Trust> trust = trust_->current();
  const security::Trust::Member* const member = trust->member_named(peer.identity);
  // It was a member when it connected.
  if (member != nullptr && trust->may_call(*member, name, id)) return true;
  security::Counters::add(counters_->links_refused);
  return false;
}

std::uint64_t PeerTable::changes() const noexcept {
  if (!trust_) return 0;
  // Not current(), which would be content with a look of half a second ago.
  (void)trust_->look();
  return trust_->reloads();
}

bool PeerTable::has_identity(const Peer& peer, const security::ExchangeKey* key) const {
  if (!trust_) return true;
  const std::shared_ptr<const security::Trust> trust = trust_->current();
  // The name may belong to another peer by now.
  const security::Trust::Member* member = key != nullptr ? trust->member_with(*key) : nullptr;
  if (member == nullptr && peer.user) member = trust->member_of(*peer.user);
  return peer.identity == (member != nullptr ? std::string_view(member->name) : std::string_view());
}

bool PeerTable::may_claim(const Peer& peer, ripc_service_id id) const {
  if (!trust_) return true;
  const std::shared_ptr<const security::Trust> trust = trust_->current();
  const security::Trust::Member* const member = peer.identity.empty() ? nullptr : trust->member_named(peer.identity);
  return trust->may_claim(member, id);
}

Status link_refused() {
  return Status(
      RIPC_REFUSED,
      "The service does not take messages of this context: it has as many senders as it admits (max_senders), "
      "or the trust file of its host does not let this context's member call it (calls=).");
}

std::size_t most_links() noexcept {
  constexpr rlim_t kMost = 4096;
  rlimit descriptors{};
  return getrlimit(RLIMIT_NOFILE, &descriptors) == 0 ? std::min(kMost, descriptors.rlim_cur / 2) : kMost;
}

Status too_many_links() {
  return Status(RIPC_LIMIT, "This context is connected to " + std::to_string(most_links()) +
                                " services of that process, its limit: close some of these services, or raise `ulimit "
                                "-n` up to twice 4096.");
}

}  // namespace ripc::internal::spi
