// SPDX-License-Identifier: Apache-2.0
// The client's side of a transaction: FaSST's optimistic two-phase commit. It reads the objects and locks those that it
// will write. It checks that those it only read are unchanged. It logs the new values at all servers concerned, and
// then commits them.
#pragma once

#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "objects.hpp"
#include "program.hpp"

namespace kv {

// The objects that a transaction reads. It also writes the first `writes` of them: money moves between them.
struct Plan {
  Few<ObjectKey> objects;
  std::size_t writes = 0;
  std::int64_t amount = 0;
};

// How a transaction ended; the worst is last.
enum class End { kCommitted, kAborted, kDamaged, kFailed };

class Coordinator {
 public:
  Coordinator(ripc::Rpc& rpc, std::vector<ripc::ServiceId> servers) : rpc_(rpc), servers_(std::move(servers)) {}

  // Shows what servers do when a client dies. Once `after` transactions have begun, this process kills itself as soon
  // as the first call of such a phase has left. It skips transactions in which fewer than two servers take part in that
  // phase.
  void die_in(std::uint32_t phase, std::uint64_t after) {
    deadly_ = phase;
    deadly_after_ = after;
  }

  // Call it before the first transaction. False if a server does not answer.
  ripc::Task<bool> open() {
    for (const ripc::ServiceId server : servers_) {
      const auto result = co_await rpc_.call(server, kOpen);
      if (!result.answered() || result.code() != kDone) co_return false;
    }
    co_return true;
  }

  ripc::Task<End> run(const Plan plan) {
    Header header{++last_, 0, 0};
    running_.insert(header.number);
    header.oldest = *running_.begin();
    const End end = co_await run_phases(plan, header);
    running_.erase(header.number);
    co_return end;
  }

 private:
  // One server's part of a transaction.
  struct Part {
    Few<Want> wants;
    Few<Seen> seen;
    Few<ObjectValue> writes;
  };
  using Parts = std::array<Part, kMaxServers>;

  // The calls of a phase: one to each server that takes part in it. All are under way before the first is awaited.
  using Phase = std::array<std::optional<ripc::Call>, kMaxServers>;
  // `item(part)` is what a server gets after the header; nothing if it takes no part in the phase.
  template <typename ItemOf>
  void begin(Phase& phase, Method method, const Header& header, const Parts& parts, ItemOf item) {
    std::size_t begun = 0;
    for (std::size_t index = 0; index < servers_.size(); ++index) {
      const std::optional<ripc::Item> second = item(parts[index]);
      if (!second) continue;
      if (begun++ == 1 && method == deadly_ && header.number > deadly_after_) (void)raise(SIGKILL);
      const std::array items = {plain_item(header), *second};
      phase[index].emplace(rpc_.handle(), servers_[index], method, items, ripc::CallOptions{});
    }
  }
  template <typename T>
  static std::optional<ripc::Item> if_any(const Few<T>& few) {
    return few.empty() ? std::nullopt : std::optional(few.item());
  }

  // Runs a phase whose answers are codes. False if one of them is not kDone.
  template <typename ItemOf>
  ripc::Task<bool> run_phase(Method method, Header header, const Parts& parts, ItemOf item) {
    Phase phase;
    begin(phase, method, header, parts, item);
    bool all_done = true;
    for (auto& each : phase) {
      if (!each) continue;
      ripc::Call& call = *each;  // GCC 12 can await only a named object
      const auto result = co_await call;
      all_done = all_done && result.answered() && result.code() == kDone;
    }
    co_return all_done;
  }

  ripc::Task<End> run_phases(const Plan& plan, Header header) {
    Parts parts;
    for (std::size_t index = 0; index < plan.objects.size(); ++index) {
      const ObjectKey key = plan.objects[index];
      parts[server_of(key, servers_.size())].wants.add({key, index < plan.writes ? 1u : 0u});
    }
    End end = End::kCommitted;
    Phase phase;
    begin(phase, kExecute, header, parts, [](const Part& part) { return if_any(part.wants); });
    for (std::size_t index = 0; index < servers_.size(); ++index) {
      if (!phase[index]) continue;
      ripc::Call& call = *phase[index];
      const auto result = co_await call;
      end = std::max(end, take(result, plan, parts[index]));
    }
    // A single read needs no validation.
    if (end == End::kCommitted && plan.objects.size() > 1) {
      const auto seen = [](const Part& part) { return if_any(part.seen); };
      if (!co_await run_phase(kValidate, header, parts, seen)) end = End::kAborted;
    }
    if (plan.writes == 0) co_return end;
    const auto writes = [](const Part& part) { return if_any(part.writes); };
    if (end == End::kCommitted) {
      for (std::size_t index = 0; index < servers_.size(); ++index)
        if (!parts[index].writes.empty()) header.participants |= std::uint64_t{1} << index;
      // If this fails, it is unknown which servers have logged the transaction. They agree on its end when this client
      // ends.
      if (!co_await run_phase(kLog, header, parts, writes)) co_return End::kFailed;
    }
    const Method last = end == End::kCommitted ? kCommit : kAbort;
    const auto nothing = [](const Part& part) {
      return part.writes.empty() ? std::nullopt : std::optional(ripc::item({}));
    };
    co_return co_await run_phase(last, header, parts, nothing) ? end : End::kFailed;
  }

  // Takes what a server has found, and determines what will be written there.
  static End take(const ripc::CallResult& result, const Plan& plan, Part& part) {
    if (!result.answered() || result.code() == kRefused) return End::kFailed;
    if (result.code() == kConflict) return End::kAborted;
    const auto found = Few<Found>::from(result.item(0));
    if (!found || found->size() != part.wants.size()) return End::kDamaged;
    for (std::size_t index = 0; index < found->size(); ++index) {
      const Want& want = part.wants[index];
      ObjectValue value = (*found)[index].value;
      if (value.key != want.key) return End::kDamaged;
      if (want.is_written == 0) {
        part.seen.add({want.key, (*found)[index].version});
        continue;
      }
      // Money moves from the first object to the others.
      const auto others = static_cast<std::int64_t>(plan.writes) - 1;
      value.balance += want.key == plan.objects[0] ? -others * plan.amount : plan.amount;
      part.writes.add(value);
    }
    return End::kCommitted;
  }

  ripc::Rpc& rpc_;
  std::vector<ripc::ServiceId> servers_;
  std::set<std::uint64_t> running_;
  std::uint64_t last_ = 0;
  std::uint32_t deadly_ = 0;
  std::uint64_t deadly_after_ = 0;
};

}  // namespace kv
