// SPDX-License-Identifier: Apache-2.0
// Who is at the other end, as far as it was proven, and what the trust file lets it do.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "ripc/ripc.h"
#include "security/credentials.hpp"

namespace ripc::internal::spi {

struct Peer {
  std::string identity;       // a member's name in the trust file; empty: none is proven
  std::optional<uid_t> user;  // by the kernel: the peer is on this host

  friend auto operator<=>(const Peer&, const Peer&) = default;  // NOLINT(modernize-use-nullptr): there is none
};

// The time between two looks at the trust file on behalf of open links: while no one connects, nothing else notices
// that it has changed. Open links are to follow a change within a second.
inline constexpr Nanoseconds kTrustPause = 800'000'000;

// The peers of a transport. Any thread.
class PeerTable {
 public:
  explicit PeerTable(const security::Credentials& credentials) noexcept
      : trust_(credentials.trust), counters_(credentials.counters) {}

  // The entry of a peer: equal peers get the same one, as long as the table lives. A peer without an identity has
  // that of its user, if the trust file names the user. Throws std::bad_alloc.
  const Peer* enter(Peer peer);

  // Whether the peer may send to this service of ours; counts the peers that may not. Only a member can be kept out:
  // the peer policy decides on other users of this host, and every peer from another host is a member.
  bool may_call(const Peer& peer, std::string_view name, ripc_service_id id) const;

  // Looks at the trust file, and returns how often it has changed.
  std::uint64_t changes() const noexcept;
  // Whether a peer of the table would enter with the same identity now. `key`: what it has proven; nullptr: nothing.
  bool has_identity(const Peer& peer, const security::ExchangeKey* key = nullptr) const;

  // Whether the peer may claim to have this ID. If so, answers to the ID go to that peer when no resolver knows it.
  bool may_claim(const Peer& peer, ripc_service_id id) const;

 private:
  const std::shared_ptr<security::TrustFile> trust_;
  const std::shared_ptr<security::Counters> counters_;
  std::mutex mutex_;
  std::set<Peer> peers_;
};

// The error of a request for a link if the answer is RIPC_REFUSED.
Status link_refused();

// How many links this context opens to services of one context. Each takes a descriptor, and an answer opens one for
// whatever source ID its peer claims. So no peer can take all descriptors in this way.
std::size_t most_links() noexcept;
Status too_many_links();

}  // namespace ripc::internal::spi
