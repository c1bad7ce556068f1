// SPDX-License-Identifier: Apache-2.0
#include "resolver/chain/chain_resolver.hpp"

#include <algorithm>
#include <cstddef>
#include <new>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/plain_text.hpp"

namespace ripc::internal::resolver {
namespace {

// Other contexts only ever see the newest of our own registrations; each displaced holder is notified once.
void add_displaced(std::vector<spi::ServiceRecord>& displaced, std::vector<spi::ServiceRecord> found,
                   const std::vector<spi::ServiceRecord>& own) {
  for (spi::ServiceRecord& holder : found) {
    const auto is_it = [&](const spi::ServiceRecord& other) {
      return other.id == holder.id && other.context == holder.context && other.incarnation == holder.incarnation;
    };
    if (std::none_of(own.begin(), own.end(), is_it) && std::none_of(displaced.begin(), displaced.end(), is_it))
      displaced.push_back(std::move(holder));
  }
}

}  // namespace

ChainResolver::ChainResolver(std::vector<std::unique_ptr<spi::Resolver>> resolvers, Hint hint)
    : resolvers_(std::move(resolvers)), hint_(std::move(hint)) {}

Result<spi::ServiceRecord> ChainResolver::first_found(ripc_service_id id, const Ask& ask) {
  Status failure(RIPC_NO_SERVICE, "No resolver knows a service with the ID " + id_text(id) +
                                      ": start it, or check the ID and the runtime directory.");
  for (const std::unique_ptr<spi::Resolver>& resolver : resolvers_) {
    Result<spi::ServiceRecord> record = ask(*resolver);
    if (record.ok()) {
      record->found_by = resolver->name();
      return record;
    }
    if (failure == RIPC_NO_SERVICE) failure = record.status();
  }
  if (!(failure == RIPC_NO_SERVICE) || !hint_) return failure;
  const std::string hint = hint_();
  return hint.empty() ? failure : Status(RIPC_NO_SERVICE, std::string(failure.text()) + " " + hint);
}

Result<spi::ServiceRecord> ChainResolver::resolve(ripc_service_id id, Deadline deadline) {
  const bool has_time = !deadline.expired();
  Result<spi::ServiceRecord> found =
      first_found(id, [&](spi::Resolver& resolver) { return resolver.resolve(id, deadline); });
  if (found.ok() || !has_time || resolvers_.size() < 2 || !deadline.expired()) return found;
  // While the last resolver waited, an earlier one may have learned of the service.
  Result<spi::ServiceRecord> again =
      first_found(id, [&](spi::Resolver& resolver) { return resolver.resolve(id, deadline); });
  return again.ok() ? again : found;
}

// If the successor is on another host, the local resolver knows only the former holder.
Result<spi::ServiceRecord> ChainResolver::successor(const spi::ServiceRecord& former, Deadline deadline) {
  return first_found(former.id, [&](spi::Resolver& resolver) { return resolver.successor(former, deadline); });
}

Status ChainResolver::publish(spi::ServiceRecord& record, bool takeover, std::vector<spi::ServiceRecord>* displaced) {
  std::vector<spi::ServiceRecord> published;  // what each resolver now has of ours
  std::vector<spi::ServiceRecord> own;        // all that any resolver had of ours
  std::vector<spi::ServiceRecord> others;
  spi::ServiceRecord candidate = record;
  Status status;
  // A resolver may raise the incarnation above that of a holder that only this resolver knew; then the resolvers before
  // it get the new one. None raises an incarnation that is larger than all it knows, so one or two rounds are enough.
  constexpr std::size_t kMostRounds = 8;
  std::size_t settled = 0;
  std::size_t next = 0;
  const auto take_step = [&](std::size_t step) -> Status {
    if (step == kMostRounds * resolvers_.size()) {
      return Status(RIPC_SYSTEM, "The resolvers do not agree on an incarnation for the service ID " +
                                     id_text(record.id) + ": another process keeps taking it. Find and stop it.");
    }
    const std::uint64_t before = candidate.incarnation;
    const bool again = next < published.size();
    std::vector<spi::ServiceRecord> found;
    if (!again || published[next].incarnation != candidate.incarnation) {
      Status outcome = resolvers_[next]->publish(candidate, takeover, &found);
      add_displaced(others, std::move(found), own);
      if (!outcome.ok()) return outcome;
      own.push_back(candidate);
    }
    if (again) {
      published[next] = candidate;
    } else {
      published.push_back(candidate);
    }
    settled = candidate.incarnation == before ? settled + 1 : 1;
    next = (next + 1) % resolvers_.size();
    return {};
  };
  for (std::size_t step = 0; status.ok() && settled < resolvers_.size(); ++step) {
    try {
      status = take_step(step);
    } catch (const std::bad_alloc&) {
      // It may have been published without being noted.
      resolvers_[next]->withdraw(candidate);
      status = RIPC_NO_MEMORY;
    }
  }
  if (!status.ok()) {
    for (std::size_t i = 0; i < published.size(); ++i) resolvers_[i]->withdraw(published[i]);
  } else {
    record = std::move(candidate);
  }
  if (displaced != nullptr) add_displaced(*displaced, std::move(others), {});
  return status;
}

template <typename AskOne>
Status ChainResolver::ask_all(const AskOne& ask) {
  Status failure;
  for (const std::unique_ptr<spi::Resolver>& resolver : resolvers_) {
    Status status = ask(*resolver);
    if (failure.ok() && !status.ok()) failure = std::move(status);
  }
  return failure;
}

Status ChainResolver::update(const spi::ServiceRecord& record) {
  return ask_all([&](spi::Resolver& resolver) { return resolver.update(record); });
}

Status ChainResolver::members(ripc_service_id group, Deadline deadline, const spi::Visit& visit) {
  std::vector<spi::ServiceRecord> found;
  std::unordered_map<ripc_service_id, std::size_t> places;
  Status failure = ask_all([&](spi::Resolver& resolver) {
    return resolver.members(group, deadline, [&](const spi::ServiceRecord& record) {
      const auto [place, is_new] = places.try_emplace(record.id, found.size());
      if (is_new) found.emplace_back();
      spi::ServiceRecord& known = found[place->second];
      if (!is_new && record.incarnation <= known.incarnation) return;
      known = record;
      known.found_by = resolver.name();
    });
  });
  for (const spi::ServiceRecord& record : found) visit(record);
  return failure;
}

void ChainResolver::withdraw(const spi::ServiceRecord& record) noexcept {
  for (const std::unique_ptr<spi::Resolver>& resolver : resolvers_) resolver->withdraw(record);
}

void ChainResolver::invalidate(const spi::ServiceRecord& record) noexcept {
  for (const std::unique_ptr<spi::Resolver>& resolver : resolvers_) resolver->invalidate(record);
}

Status ChainResolver::observe(EventLoop& loop, spi::Observer observer, spi::Observe what) {
  return ask_all([&](spi::Resolver& resolver) { return resolver.observe(loop, observer, what); });
}

Status ChainResolver::list(const spi::Visit& visit) {
  std::unordered_set<ripc_service_id> seen;
  return ask_all([&](spi::Resolver& resolver) {
    return resolver.list([&](const spi::ServiceRecord& record) {
      if (seen.insert(record.id).second) visit(record);
    });
  });
}

}  // namespace ripc::internal::resolver
