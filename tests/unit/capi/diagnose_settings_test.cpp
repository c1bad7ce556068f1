// SPDX-License-Identifier: Apache-2.0
// What a call of the self-check does, and whether it finds environment variables with invalid values.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ripc/ripc.h"
#include "support/temporary_directory.hpp"

namespace ripc::internal::capi {
namespace {

class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name), before_(before(name)) {
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (before_.first) {
      ::setenv(name_, before_.second.c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  static std::pair<bool, std::string> before(const char* name) {
    const char* value = std::getenv(name);
    return {value != nullptr, value != nullptr ? value : ""};
  }
  const char* name_;
  const std::pair<bool, std::string> before_;
};

// The findings that are not good, one per line.
std::string complaints() {
  std::string text;
  const ripc_status status = ripc_diagnose(
      nullptr,
      [](void* user, const ripc_finding* finding) {
        if (finding->level == 0) return;
        EXPECT_STRNE(finding->advice, "") << finding->text;
        *static_cast<std::string*>(user) += std::string(finding->text) + " -> " + finding->advice + "\n";
      },
      &text);
  EXPECT_EQ(status, RIPC_OK);
  return text;
}

// The findings of a call with these options, which must return this status.
std::vector<ripc_finding> findings_by_options(const ripc_context_options& options, ripc_status status) {
  struct Visit {
    std::thread::id thread = std::this_thread::get_id();
    std::vector<ripc_finding> findings;
  } visit;
  const ripc_finding_visitor add = [](void* user, const ripc_finding* finding) {
    auto& self = *static_cast<Visit*>(user);
    EXPECT_EQ(std::this_thread::get_id(), self.thread);
    EXPECT_EQ(finding->size, sizeof *finding);
    self.findings.push_back(*finding);
  };
  EXPECT_EQ(ripc_diagnose(&options, add, &visit), status);
  return visit.findings;
}

TEST(DiagnoseSettings, ASpinTimeThatDelaysPeersOnTheOnlyProcessorIsALimit) {
  const auto complains = [](const char* microseconds) {
    const Variable spin("RIPC_SPIN_US", microseconds);
    return complaints().find("unset RIPC_SPIN_US") != std::string::npos;
  };
  EXPECT_EQ(complains("50"), ::sysconf(_SC_NPROCESSORS_ONLN) == 1);
  EXPECT_FALSE(complains("0"));
  EXPECT_FALSE(complains("")) << "the default";
}

TEST(DiagnoseSettings, VisitsInTheCallingThreadWithoutAContextAndSucceedsAlsoIfSomethingIsBroken) {
  const support::TemporaryDirectory directory;
  const Variable network("RIPC_NETWORK", "off");
  const std::string runtime = directory.path() + "/new";
  ripc_context_options options;
  ripc_context_options_init(&options);
  options.runtime_directory = runtime.c_str();
  EXPECT_FALSE(findings_by_options(options, RIPC_OK).empty());
  EXPECT_TRUE(std::filesystem::is_directory(runtime));
  EXPECT_TRUE(std::filesystem::is_empty(runtime + "/contexts")) << "its context has ended";

  const std::string transports(500, 'x');
  options.transports = transports.c_str();
  const std::vector<ripc_finding> findings = findings_by_options(options, RIPC_OK);
  ASSERT_FALSE(findings.empty());
  const ripc_finding& broken = findings.back();
  EXPECT_EQ(broken.level, 2U);
  EXPECT_STREQ(broken.subject, "settings");
  EXPECT_EQ(std::strlen(broken.text), sizeof broken.text - 1);
  EXPECT_TRUE(std::string(broken.text).ends_with("xxx...")) << broken.text;
  EXPECT_STRNE(broken.advice, "");

  options.size = 0;
  EXPECT_TRUE(findings_by_options(options, RIPC_INVALID_ARGUMENT).empty());
}

TEST(DiagnoseSettings, FindsEachVariableWithABadValue) {
  const support::TemporaryDirectory directory;
  const Variable runtime("RIPC_RUNTIME_DIR", directory.path());
  const Variable network("RIPC_NETWORK", "open");  // otherwise the network settings need not be read
  const std::string missing = directory.path() + "/missing";
  const std::vector<std::pair<const char*, std::string>> bad = {
      {"RIPC_RUNTIME_DIR", "/dev/null/here"},
      {"RIPC_TRANSPORTS", "pigeon"},
      {"RIPC_RESOLVER_FILE", missing},
      {"RIPC_SPIN_US", "long"},
      {"RIPC_PEERS", "everybody"},
      {"RIPC_GROUP_REFRESH_MS", "0"},
      {"RIPC_MULTICAST", "nonsense=1"},
      {"RIPC_MULTICAST", "interface=nope0"},
      {"RIPC_RESOLVERS", "static,oracle"},
      {"RIPC_RESOLVERS", "static,zookeeper"},
      {"RIPC_RESOLVERS", "multicast,local"},
      {"RIPC_RESOLVERS", "local,local"},
      {"RIPC_ZOOKEEPER", "zk1:port"},
      {"RIPC_ZOOKEEPER_SESSION_MS", "1"},
      {"RIPC_CLUSTER_KEY_FILE", missing},
      {"RIPC_IDENTITY_FILE", missing},
      {"RIPC_TRUST_FILE", missing},
      {"RIPC_ENCRYPT", "maybe"},
      {"RIPC_PEER_TIMEOUT_MS", "-1"},
      {"RIPC_SOCKET_PORTS", "9-1"},
      {"RIPC_SOCKET_RECEIVE_BUFFER", "1"},
      {"RIPC_SOCKET_STREAMS", "maybe"},
      {"RIPC_RAILS", "0"},
      {"RIPC_RAILS", "no-such-interface"},
      {"RIPC_SOCKET_BULK_CONNECTIONS", "0"},
      {"RIPC_SOCKET_ADDRESS", "no.address"},
      {"RIPC_SOCKET_ADDRESS", "192.0.2.1"},
      {"RIPC_SOCKET_INTERFACE", "nope0"},
  };
  for (const auto& [name, value] : bad) {
    const Variable variable(name, value);
    const std::string found = complaints();
    // The finding names the variable or the wrong value.
    EXPECT_TRUE(found.find(name) != std::string::npos || found.find(value) != std::string::npos)
        << name << "=" << value << " is not found:\n"
        << found;
  }
}

}  // namespace
}  // namespace ripc::internal::capi
