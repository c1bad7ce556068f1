// SPDX-License-Identifier: Apache-2.0
// The parts of the self-check (ripc_diagnose) and what they report to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "capi/compose.hpp"
#include "capi/handles.hpp"
#include "resolver/multicast/counters.hpp"
#include "resolver/zookeeper/ensemble_check.hpp"
#include "ripc/ripc.h"

namespace ripc::internal::capi {

enum class Level : std::uint32_t { good = 0, limited = 1, broken = 2 };

class Report {
 public:
  Report(ripc_finding_visitor visitor, void* user) noexcept : visitor_(visitor), user_(user) {}

  void add(Level level, std::string_view subject, std::string_view text, std::string_view advice = {}) {
    auto finding = blank<ripc_finding>();
    finding.level = static_cast<std::uint32_t>(level);
    copy_text(finding.subject, subject);
    copy_text(finding.text, text);
    copy_text(finding.advice, advice);
    visitor_(user_, &finding);
  }

 private:
  ripc_finding_visitor visitor_;
  void* user_;
};

// Whether processes of one user may read each other's memory, and if not, why.
void check_process_memory(Report& report);

// How this context identifies itself to others, and whether they exchange data unencrypted.
void check_identity(Report& report, const Settings& settings);
void check_encryption(Report& report, const Settings& settings);

// Whether services of other hosts can be found: listens and asks for a few tenths of a second.
void check_multicast(Report& report, const Settings& settings);
// Reports what the check has refused meanwhile, and what each refusal means.
void check_refused(Report& report, const resolver::MulticastCounters& counters);

// Whether services can be published and found in the ZooKeeper ensemble, if one is used: asks for a few seconds at
// most.
void check_zookeeper(Report& report, const Settings& settings);
// Checks the answer of one server of the ensemble. `is_only`: the ensemble has no other. Returns whether the server
// serves.
bool check_server(Report& report, const resolver::ServerAnswer& server, bool is_only);
// Checks the clock of the leader. `difference` is in milliseconds: above 0 if it is ahead of this host's clock.
void check_clock(Report& report, std::int64_t difference);

#ifdef RIPC_WITH_VERBS
// Which RDMA devices, ports and addresses can be used, and what is wrong with the others.
void check_verbs(Report& report);
#endif

}  // namespace ripc::internal::capi
