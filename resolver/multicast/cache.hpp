// SPDX-License-Identifier: Apache-2.0
// What the multicast resolver has learned about services of other contexts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>

#include "base/clock.hpp"
#include "spi/resolver.hpp"

namespace ripc::internal::resolver {

// Not thread-safe. Bounded: when it is full, it drops the record that was learned longest ago.
//
// Entries only move forward: a smaller incarnation never takes the place of a larger one, unless replace() says so. An
// entry may be *doubtful*: it still holds the last known incarnation, but is no longer used to answer.
class ServiceCache {
 public:
  // clock_tolerance: a packet whose time stamp is older than the last one's by more than this was not overtaken on its
  // way: its sender's clock was set back.
  ServiceCache(std::size_t max_services, Nanoseconds max_age, Nanoseconds clock_tolerance)
      : max_services_(max_services), max_age_(max_age), clock_tolerance_(clock_tolerance) {}

  enum class Learned : std::uint8_t {
    usable,    // the cache now has this record, and trusts it
    doubtful,  // the record is known already, and a send to it has failed since then
    outdated,  // a larger incarnation is known, or an equal one of another context
  };
  // `is_answer`: the holder has just replied to a question. This ends the doubt about this incarnation; so do changed
  // addresses. `timestamp`: the time of the packet, by the sender's clock. An overtaken packet about the same
  // incarnation changes nothing.
  Learned learn(const spi::ServiceRecord& record, bool is_answer, Nanoseconds now, std::uint64_t timestamp = 0);

  // Stores the record, whatever the cache knows: it is the only record for which anyone answers.
  void replace(const spi::ServiceRecord& record, Nanoseconds now, std::uint64_t timestamp = 0);

  // The record, if it is usable and young enough, or nullptr. Valid until the next change.
  const spi::ServiceRecord* find(ripc_service_id id, Nanoseconds now) const;

  // The record learned last, usable or not, or nullptr. Valid until the next change.
  const spi::ServiceRecord* last(ripc_service_id id) const noexcept;

  // The incarnation learned last, usable or not; 0: none.
  std::uint64_t incarnation(ripc_service_id id) const noexcept;

  // Whether the entry of the ID is doubtful.
  bool is_doubtful(ripc_service_id id) const noexcept;

  // A send to this record failed, or its holder announced its end: makes the record doubtful, unless a newer one is
  // known.
  void doubt(const spi::ServiceRecord& record) noexcept;

  // Every usable record that was learned at `since` or later.
  void visit(Nanoseconds since, const spi::Visit& visit) const;

 private:
  struct Entry {
    spi::ServiceRecord record;
    Nanoseconds learned_at = 0;
    std::uint64_t timestamp = 0;
    bool is_doubtful = false;
    std::list<ripc_service_id>::iterator order;
  };

  const std::size_t max_services_;
  const Nanoseconds max_age_;
  const Nanoseconds clock_tolerance_;
  std::unordered_map<ripc_service_id, Entry> entries_;
  std::list<ripc_service_id> order_;  // learned longest ago first
};

}  // namespace ripc::internal::resolver
