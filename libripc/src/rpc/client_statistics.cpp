// SPDX-License-Identifier: Apache-2.0
// What a client counts and measures for its calls.
#include <algorithm>

#include "rpc/client.hpp"

namespace ripc::internal::rpc {

// If not, the exact time is not worth its cost.
bool Client::needs_clock(const ClientSession& session, const MethodRecord* record, Nanoseconds now) const noexcept {
  if (session.may_lose || session.state != ClientSession::State::open || session.is_group()) return true;
  if (!session.probes.is_open(now)) return true;
  return record != nullptr && MethodRecord::is_measured(record->counters.calls);
}

MethodRecord* Client::record_of(std::uint32_t method) {
  if (last_record_ != nullptr && last_record_->counters.method == method) return last_record_;
  auto found = records_.find(method);
  if (found == records_.end()) {
    if (records_.size() >= RIPC_RPC_MAX_METHODS) return nullptr;
    found = records_.emplace(method, std::make_unique<MethodRecord>()).first;
    found->second->counters.method = method;
  }
  return last_record_ = found->second.get();
}

// Undoes the count of a call that did not begin, so that a method that was never called takes no room.
void Client::forget_call(MethodRecord& record) noexcept {
  if (--record.counters.calls != 0) return;
  last_record_ = nullptr;
  records_.erase(record.counters.method);
}

void Client::count(const Call& call) noexcept {
  const auto add_to = [&](auto& counters) {
    ++(call.result.outcome == RIPC_CALL_ANSWERED      ? counters.answered
       : call.result.outcome == RIPC_CALL_DID_NOT_RUN ? counters.did_not_run
                                                      : counters.may_have_run);
  };
  add_to(counters_);
  if (call.record == nullptr) return;
  add_to(call.record->counters);
  if (call.result.status < RIPC_RPC_STATUSES) ++call.record->counters.statuses[call.result.status];
}

void Client::add_to(ripc_rpc_statistics& statistics) const noexcept {
  const Lock lock(mutex_);
  statistics.calls += counters_.calls;
  statistics.answered += counters_.answered;
  statistics.did_not_run += counters_.did_not_run;
  statistics.may_have_run += counters_.may_have_run;
  statistics.repeats += counters_.repeats;
  statistics.sessions_opened += counters_.sessions_opened;
  statistics.dropped += counters_.dropped;
}

void Client::add_to(std::map<std::uint32_t, ripc_rpc_method_statistics>& methods) const {
  const Lock lock(mutex_);
  for (const auto& [method, record] : records_) {
    ripc_rpc_method_statistics& to = methods[method];
    const ripc_rpc_method_statistics& from = record->counters;
    to.calls = from.calls;
    to.answered = from.answered;
    to.did_not_run = from.did_not_run;
    to.may_have_run = from.may_have_run;
    to.repeats = from.repeats;
    std::copy(std::begin(from.statuses), std::end(from.statuses), to.statuses);
    to.call_time = record->latency();
  }
}

}  // namespace ripc::internal::rpc
