// SPDX-License-Identifier: Apache-2.0
// The resolver SPI: from a service ID to the addresses of the program that holds it.
//
// The context calls a resolver from the threads that send, register and unregister; implementations are thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/group_id.hpp"
#include "base/status.hpp"
#include "spi/address.hpp"

namespace ripc::internal {
class EventLoop;
}

namespace ripc::internal::spi {

inline constexpr std::size_t kMaxNameSize = 200;
inline constexpr std::size_t kMaxAddresses = 64;  // of one service

// What a resolver knows about one service. Addresses are in the resolver's order of preference.
struct ServiceRecord {
  ripc_service_id id = 0;
  std::string name;               // empty: none
  std::uint64_t incarnation = 0;  // 0: unknown
  std::uint64_t context = 0;      // the holder's context id; 0: unknown
  std::uint32_t pid = 0;          // 0: unknown
  std::vector<Address> addresses;
  std::vector<ripc_service_id> groups;  // those it is in: is_group_list()
  std::string member;                   // who holds it, as its record proves by the trust file; empty: not proven
  std::string_view found_by;  // the name() of the resolver that gave it, static text; empty: not found by resolve()

  bool is_in(ripc_service_id group) const noexcept { return std::binary_search(groups.begin(), groups.end(), group); }
};

// The record's addresses, each with the member that must be found there.
inline std::vector<Address> expected_addresses(const ServiceRecord& record) {
  std::vector<Address> addresses = record.addresses;
  for (Address& address : addresses) address.member = record.member;
  return addresses;
}

inline bool displaces(const ServiceRecord& record, const ServiceRecord& former) noexcept {
  return record.context != former.context && record.incarnation > former.incarnation;
}

// Returns the ID that belongs to the name of a service or group; an error if the name is not valid. Resolvers are given
// this function, because names are core's business.
using NameHash = std::function<Result<ripc_service_id>(std::string_view)>;

// What a resolver has learned without being asked.
struct Change {
  ripc_service_id id = 0;              // that may have appeared, moved or ended; 0: any of them
  const ServiceRecord* now = nullptr;  // its holder, if the resolver is sure of it; null: ask resolve()
};
using Observer = std::function<void(const Change&)>;

using Visit = std::function<void(const ServiceRecord&)>;

enum class Observe : std::uint8_t {
  what_arrives,  // what the resolver comes to know anyway
  everything,    // also what it has to look for, at a cost
};

class Resolver {
 public:
  virtual ~Resolver() = default;

  // For messages and `ripc resolve`: "local", "static", "multicast".
  virtual std::string_view name() const noexcept = 0;

  // The living holder of `id`. RIPC_NO_SERVICE, at the latest when the deadline is over.
  virtual Result<ServiceRecord> resolve(ripc_service_id id, Deadline deadline) = 0;

  // The registration that has displaced `former`: of the same ID, by another context, newer. RIPC_NO_SERVICE, at the
  // latest when the deadline is over: there is none.
  virtual Result<ServiceRecord> successor(const ServiceRecord& former, Deadline deadline) {
    Result<ServiceRecord> found = resolve(former.id, deadline);
    if (!found.ok() || displaces(*found, former)) return found;
    return RIPC_NO_SERVICE;
  }

  // Makes a service of this context findable, or refuses: RIPC_ID_IN_USE, RIPC_NAME_COLLISION. With `takeover` a living
  // holder loses the ID; *displaced then gets its record, so that the context can fence it. Sets record.incarnation,
  // larger than that of any holder known before. A resolver that cannot publish returns RIPC_OK.
  virtual Status publish(ServiceRecord& record, bool takeover, std::vector<ServiceRecord>* displaced) = 0;

  // Publishes the groups and addresses of a registration that publish() was called for: the same ID, context and
  // incarnation. In a context that receives them from the holder, they replace those known before.
  // RIPC_FENCED: the ID has another holder. A resolver that cannot publish returns RIPC_OK.
  virtual Status update(const ServiceRecord& record) = 0;

  // Ends publish. Nothing happens if the ID has another holder by now.
  virtual void withdraw(const ServiceRecord& record) noexcept = 0;

  // A send to this record failed: anything cached about it is doubtful.
  virtual void invalidate(const ServiceRecord& record) noexcept = 0;

  // Visits every living service that is in the group, also those of this context. If the deadline has passed: visits
  // those known at once. Where asking takes time, it goes on in the background, for the next call.
  virtual Status members(ripc_service_id group, Deadline deadline, const Visit& visit) = 0;

  // Calls `observer` from now on, in any thread, when something changes. The calls come early rather than late, and not
  // for everything: only resolve() finds what no one announces. Call this at most once for each value of Observe, the
  // lesser one first. The observer must not call the resolver. An error: the resolver cannot report changes.
  virtual Status observe(EventLoop& loop, Observer observer, Observe what) = 0;

  // Visits every living service it can list.
  virtual Status list(const Visit& visit) = 0;
};

}  // namespace ripc::internal::spi
