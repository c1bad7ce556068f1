// SPDX-License-Identifier: Apache-2.0
// What the self-check says about RDMA ports and about the memory for them.
#include "capi/diagnose_verbs.hpp"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../base/process_helpers.hpp"
#include "capi/diagnose.hpp"
#include "transport/verbs/device/device_list.hpp"

namespace ripc::internal::capi {
namespace {

std::vector<ripc_finding> findings_of(const std::function<void(Report&)>& check) {
  std::vector<ripc_finding> findings;
  Report report([](void* user,
                   const ripc_finding* finding) { static_cast<std::vector<ripc_finding>*>(user)->push_back(*finding); },
                &findings);
  check(report);
  return findings;
}

class DiagnosePort : public testing::Test {
 protected:
  DiagnosePort() {
    device_.name = "roce0";
    port_ = {.number = 1, .state = "ACTIVE", .link_layer = "Ethernet", .gids = {}};
    auto opened = std::make_shared<verbs::Device>();
    opened->name = device_.name;
    path_.device = opened;
    path_.number = 1;
    path_.ip = "10.0.0.1";
    path_.mtu = 1024;
  }
  ripc_finding finding(std::span<const verbs::DevicePort> paths) const {
    const auto findings = findings_of([&](Report& report) { check_port(report, paths, device_, port_); });
    EXPECT_EQ(findings.size(), 1u);
    return findings.empty() ? ripc_finding{} : findings.front();
  }

  verbs::DeviceInfo device_;
  verbs::PortInfo port_;
  verbs::DevicePort path_;
};

TEST_F(DiagnosePort, IsGoodWithAnAddressThatHasAGid) {
  EXPECT_EQ(finding(std::span(&path_, 1)).level, static_cast<std::uint32_t>(Level::good));
}

TEST_F(DiagnosePort, WithoutAGidForItsAddressCarriesNoDatagrams) {
  path_.mtu = 0;
  const ripc_finding found = finding(std::span(&path_, 1));
  EXPECT_EQ(found.level, static_cast<std::uint32_t>(Level::limited));
  EXPECT_NE(std::string(found.text).find("no GID for 10.0.0.1"), std::string::npos) << found.text;
  EXPECT_NE(found.advice[0], '\0');
  device_.iwarp = true;  // has no datagrams anyway
  EXPECT_EQ(finding(std::span(&path_, 1)).level, static_cast<std::uint32_t>(Level::good));
}

TEST_F(DiagnosePort, WithoutAnAddressIsNotUsed) {
  const ripc_finding found = finding({});
  EXPECT_EQ(found.level, static_cast<std::uint32_t>(Level::limited));
  EXPECT_NE(std::string(found.text).find("no IP address"), std::string::npos) << found.text;
}

TEST_F(DiagnosePort, ThatIsDownIsNotUsed) {
  port_.state = "DOWN";
  const ripc_finding found = finding(std::span(&path_, 1));
  EXPECT_EQ(found.level, static_cast<std::uint32_t>(Level::limited));
  EXPECT_NE(std::string(found.text).find("DOWN"), std::string::npos) << found.text;
}

bool says(const std::vector<ripc_finding>& findings, std::string_view what) {
  return std::ranges::any_of(findings, [&](const ripc_finding& finding) {
    return std::string_view(finding.text).find(what) != std::string_view::npos;
  });
}

TEST(DiagnoseVerbs, SaysThatADeviceCannotBeOpenedAndDoesNotBlameItsAddresses) {
  if (std::getenv("RIPC_TEST_MAY_CUT") == nullptr) GTEST_SKIP() << "changes a device's rights: for the RDMA lab";
  const std::vector<verbs::DeviceInfo> devices = verbs::read_sysfs_devices();
  ASSERT_FALSE(devices.empty());
  const std::string& node = devices.front().node;
  ASSERT_EQ(::chmod(node.c_str(), 0600), 0);
  EXPECT_EQ(test::run_in_child([&] {
              constexpr uid_t kNobody = 65534;
              CHILD_CHECK(::setresuid(kNobody, kNobody, kNobody) == 0);
              const auto findings = findings_of(check_verbs);
              CHILD_CHECK(says(findings, node + " cannot be opened"));
              CHILD_CHECK(!says(findings, "IP address"));
              return 0;
            }),
            0);
  EXPECT_EQ(::chmod(node.c_str(), 0666), 0);
}

TEST(DiagnoseVerbs, DoesNotBlameTheAddressesIfItCannotLookAtThem) {
  if (!verbs::DeviceList::open().ok()) GTEST_SKIP() << "no RDMA device can be used";
  EXPECT_EQ(test::run_in_child([] {
              // Enough for the list of devices, but not for opening one.
              const int next = ::dup(0);
              CHILD_CHECK(next >= 0 && ::close(next) == 0);
              const rlimit limit{static_cast<rlim_t>(next) + 4, static_cast<rlim_t>(next) + 4};
              CHILD_CHECK(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
              const auto findings = findings_of(check_verbs);
              CHILD_CHECK(says(findings, "ulimit -n") && !says(findings, "no IP address"));
              return 0;
            }),
            0);
}

TEST(DiagnoseLockedMemory, TheLimitCountsForRootWithoutTheRightToLockAnything) {
  SKIP_UNLESS_ROOT("it gives up a right of root");
  EXPECT_EQ(test::run_in_child([] {
              const rlimit limit{8 << 20, 8 << 20};
              CHILD_CHECK(::setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
              __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
              __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3]{};
              CHILD_CHECK(::syscall(SYS_capget, &header, sets) == 0);
              sets[0].effective &= ~(1u << CAP_IPC_LOCK);
              CHILD_CHECK(::syscall(SYS_capset, &header, sets) == 0);
              CHILD_CHECK(::geteuid() == 0);
              CHILD_CHECK(findings_of(check_locked_memory).size() == 1);
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace ripc::internal::capi
