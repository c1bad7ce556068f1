// SPDX-License-Identifier: Apache-2.0
// What the multicast resolver counts.
#pragma once

#include <cstdint>

#include "spi/record_rights.hpp"

namespace ripc::internal::resolver {

// A snapshot. Packets are counted once for each interface that they leave by or come from.
struct MulticastCounters {
  std::uint64_t questions_sent = 0;  // rounds: one packet for each group and interface
  std::uint64_t replies_sent = 0;
  std::uint64_t announcements_sent = 0;  // rounds
  std::uint64_t hints_sent = 0;          // to hosts without our cluster key
  std::uint64_t packets_sent = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t send_failures = 0;
  std::uint64_t packets_received = 0;  // without our own packets, which come back
  std::uint64_t bytes_received = 0;
  std::uint64_t own_packets = 0;  // ours that came back; only with receives_own_packets
  std::uint64_t copies = 0;       // the same packet by another path

  // Packets that were dropped without any effect:
  std::uint64_t malformed = 0;
  std::uint64_t other_version = 0;
  std::uint64_t unsolicited = 0;    // replies to no question of ours
  std::uint64_t unsigned_ones = 0;  // we have a key, the packet has no MAC
  std::uint64_t forged = 0;         // its MAC, or its signature, is wrong
  std::uint64_t stale = 0;          // its time is too far from ours
  std::uint64_t replayed = 0;       // it came before, more than a second ago, so it is no copy by another path
  std::uint64_t signed_ones = 0;    // it has a MAC, but we have no key to check it
  std::uint64_t refused_users = 0;  // of processes of this host whose user is not admitted
  std::uint64_t unknown_users = 0;  // of unidentified users of this host: only their withdrawals are accepted
  std::uint64_t limited = 0;        // questions that were not answered: too many at once
  std::uint64_t outdated = 0;       // records of an older incarnation than the one known
  std::uint64_t conflicts = 0;      // someone else claims an ID of ours
  spi::Refusals refusals;           // records that the trust file does not allow
};

}  // namespace ripc::internal::resolver
