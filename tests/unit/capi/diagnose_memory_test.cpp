// SPDX-License-Identifier: Apache-2.0
// Whether the self-check finds out why other processes cannot read this one.
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstring>

#include "../base/process_helpers.hpp"
#include "capi/diagnose.hpp"
#include "support/forbidden_calls.hpp"

namespace ripc::internal::capi {
namespace {

// In a child: whether there is one finding, of this level, with these words.
bool finds(Level level, const char* words) {
  struct Seen {
    int count = 0;
    ripc_finding finding{};
  } seen;
  Report report(
      [](void* user, const ripc_finding* finding) {
        auto* at = static_cast<Seen*>(user);
        ++at->count;
        at->finding = *finding;
      },
      &seen);
  check_process_memory(report);
  return seen.count == 1 && seen.finding.level == static_cast<std::uint32_t>(level) &&
         std::strstr(seen.finding.text, words) != nullptr && (level == Level::good || seen.finding.advice[0] != '\0');
}

TEST(DiagnoseMemory, SeesAProcessThatIsNotDumpable) {
  EXPECT_EQ(test::run_in_child([] {
              CHILD_CHECK(::geteuid() != 0 || test::become_nobody());
              CHILD_CHECK(::prctl(PR_SET_DUMPABLE, 0) == 0);
              CHILD_CHECK(finds(Level::limited, "not dumpable"));
              return 0;
            }),
            0);
}

TEST(DiagnoseMemory, SeesASeccompProfile) {
  EXPECT_EQ(test::run_in_child([] {
              CHILD_CHECK(support::forbid({SYS_process_vm_readv, SYS_process_vm_writev}, EPERM));
              CHILD_CHECK(finds(Level::limited, "forbidden"));
              return 0;
            }),
            0);
}

TEST(DiagnoseMemory, IsContentWhereAnotherProcessCanReadThisOne) {
  SKIP_UNLESS_ROOT("whether others can depends on the machine");
  EXPECT_EQ(test::run_in_child([] { return finds(Level::good, "works between processes") ? 0 : 1; }), 0);
}

TEST(DiagnoseMemory, LeavesNoChildForTheApplicationToFind) {
  EXPECT_EQ(test::run_in_child([] {
              static volatile sig_atomic_t signals = 0;
              ::signal(SIGCHLD, [](int) { signals = 1; });
              Report report([](void*, const ripc_finding*) {}, nullptr);
              check_process_memory(report);
              CHILD_CHECK(signals == 0);
              CHILD_CHECK(::waitpid(-1, nullptr, __WALL | WNOHANG) == -1 && errno == ECHILD);
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace ripc::internal::capi
