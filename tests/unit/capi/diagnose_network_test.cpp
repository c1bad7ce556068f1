// SPDX-License-Identifier: Apache-2.0
// What the self-check says about encryption, identities, refused multicast packets, and the servers and clock of a
// ZooKeeper ensemble. Also how it shortens long texts.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "capi/diagnose.hpp"
#include "unit/security/trust_helpers.hpp"

namespace ripc::internal::capi {
namespace {

struct Said {
  Level level;
  std::string subject, text, advice;
};

template <typename Check>
std::vector<Said> said_by(const Check& check) {
  std::vector<Said> findings;
  Report report(
      [](void* user, const ripc_finding* finding) {
        static_cast<std::vector<Said>*>(user)->push_back(
            {static_cast<Level>(finding->level), finding->subject, finding->text, finding->advice});
      },
      &findings);
  check(report);
  return findings;
}

Said encryption(std::uint32_t encrypt, const std::vector<std::string>& transports) {
  Settings settings;
  settings.network.keys = security::keys_of("1");
  settings.encrypt = encrypt;
  settings.transports = transports;
  const std::vector<Said> findings = said_by([&](Report& report) { check_encryption(report, settings); });
  EXPECT_EQ(findings.size(), 1U);
  return findings.empty() ? Said{} : findings.front();
}

bool has(const std::string& text, std::string_view words) { return text.find(words) != std::string::npos; }

TEST(DiagnoseNetwork, SaysWhatOfRdmaIsNotEncryptedAndWhatLeavesItOut) {
  const Said with_rdma = encryption(RIPC_ENCRYPT_AUTO, {"shm", "verbs", "socket"});
  EXPECT_EQ(with_rdma.level, Level::good);
  EXPECT_TRUE(has(with_rdma.text, "with peers that do not say off; over RDMA short messages are signed, not secret"))
      << with_rdma.text;
  EXPECT_TRUE(has(with_rdma.advice, "RIPC_ENCRYPT=required leaves RDMA out")) << with_rdma.advice;
  const Said required = encryption(RIPC_ENCRYPT_REQUIRED, {"shm", "socket"});
  EXPECT_EQ(required.level, Level::good);
  EXPECT_TRUE(has(required.text, "over sockets, or no connection")) << required.text;
  EXPECT_FALSE(has(required.text, "RDMA")) << required.text;
  EXPECT_EQ(required.advice, "");
  const Said off = encryption(RIPC_ENCRYPT_OFF, {"shm", "verbs", "socket"});
  EXPECT_EQ(off.level, Level::limited);
  EXPECT_TRUE(has(off.text, "over RDMA only short messages are authentic")) << off.text;
}

TEST(DiagnoseNetwork, SaysNothingOfEncryptionWhereNoOneHasAKey) {
  EXPECT_TRUE(said_by([](Report& report) { check_encryption(report, {}); }).empty());
}

Said identity(const Settings& settings) {
  const std::vector<Said> findings = said_by([&](Report& report) { check_identity(report, settings); });
  EXPECT_EQ(findings.size(), 1U);
  return findings.empty() ? Said{} : findings.front();
}

TEST(DiagnoseNetwork, SaysThatAnOpenNetworkUsesNeitherIdentityNorTrustFile) {
  Settings settings;
  settings.network.mode = RIPC_NETWORK_OPEN;
  const Said open = identity(settings);
  EXPECT_EQ(open.level, Level::good);
  EXPECT_TRUE(has(open.text, "not used")) << open.text;
  EXPECT_TRUE(has(open.text, "RIPC_NETWORK is open")) << open.text;
  EXPECT_FALSE(has(open.text, "cluster key")) << open.text;
  EXPECT_FALSE(has(open.advice, "ripc key new --identity")) << "it would be ignored: " << open.advice;
}

TEST(DiagnoseNetwork, ATrustFileOfOneHostNeedsNoIdentity) {
  Settings settings;
  settings.credentials.trust =
      std::make_shared<security::TrustFile>(security::trust_of("alice " + security::key_of(1) + "\n"));
  for (const std::uint32_t mode : {RIPC_NETWORK_OFF, RIPC_NETWORK_KEY}) {
    settings.network.mode = mode;
    settings.network.is_closed = true;
    settings.credentials.identity = nullptr;
    const Said alone = identity(settings);
    EXPECT_EQ(alone.level, Level::good) << alone.text;
    EXPECT_TRUE(has(alone.text, "has 1 member; ")) << alone.text;
    EXPECT_FALSE(has(alone.text, "other hosts refuse")) << alone.text;
    settings.credentials.identity = security::identity_of(2);
    EXPECT_EQ(identity(settings).level, Level::good);
  }
  settings.network.is_closed = false;
  settings.credentials.identity = nullptr;
  EXPECT_EQ(identity(settings).level, Level::limited);
}

// The context's option takes precedence over the variable.
TEST(DiagnoseNetwork, TheAdviceOnEncryptionFitsTheOption) {
  const Said off = encryption(RIPC_ENCRYPT_OFF, {"shm", "socket"});
  EXPECT_TRUE(has(off.advice, "options.encrypt")) << off.advice;
}

TEST(DiagnoseNetwork, PacketsThatAreTooOldAndThoseThatComeAgainAreTwoFindings) {
  const auto refused = [](const resolver::MulticastCounters& by) {
    return said_by([&](Report& report) { check_refused(report, by); });
  };
  resolver::MulticastCounters counters;
  counters.copies = 5;
  EXPECT_TRUE(refused(counters).empty()) << "the same packets by another way";
  counters.stale = 2;
  counters.replayed = 3;
  const std::vector<Said> findings = refused(counters);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_TRUE(has(findings[0].text, "2 packets have a time")) << findings[0].text;
  EXPECT_TRUE(has(findings[0].advice, "NTP")) << findings[0].advice;
  EXPECT_EQ(findings[1].level, Level::limited);
  EXPECT_TRUE(has(findings[1].text, "3 packets came again")) << findings[1].text;
  EXPECT_TRUE(has(findings[1].advice, "repeats packets")) << findings[1].advice;
  EXPECT_FALSE(has(findings[1].advice, "NTP")) << findings[1].advice;
}

TEST(DiagnoseNetwork, TextsThatAreTooLongEndWithThreeDots) {
  for (const std::size_t more : {std::size_t{0}, std::size_t{1}}) {
    const auto text = [more](std::size_t size) { return std::string(size - 1 + more, 'x'); };
    const std::vector<Said> findings = said_by([&](Report& report) {
      report.add(Level::good, text(sizeof(ripc_finding::subject)), text(sizeof(ripc_finding::text)),
                 text(sizeof(ripc_finding::advice)));
    });
    ASSERT_EQ(findings.size(), 1U);
    const Said& said = findings.front();
    EXPECT_EQ(said.subject.size(), sizeof(ripc_finding::subject) - 1);
    EXPECT_EQ(said.text.size(), sizeof(ripc_finding::text) - 1);
    EXPECT_EQ(said.advice.size(), sizeof(ripc_finding::advice) - 1);
    for (const std::string& each : {said.subject, said.text, said.advice})
      EXPECT_EQ(each.ends_with("x..."), more != 0) << each;
  }
}

TEST(DiagnoseNetwork, EachServerOfAnEnsembleIsNamedWhole) {
  using resolver::ServerAnswer;
  struct Case {
    ServerAnswer answer;
    bool serves;
    Level level;
    std::string text;
  };
  // The second name does not fit into the subject of a finding.
  for (const std::string& server : {std::string("zk1:2181"), std::string(60, 'z') + ".example:2181"}) {
    for (const Case& one :
         {Case{{server, "no one listens", "", "", false}, false, Level::limited, "no one listens"},
          Case{{server, "", "leader", "3.8", false}, true, Level::good, "leader, version 3.8"},
          Case{{server, "", "standalone", "", false}, true, Level::limited, "standalone, version unknown"},
          Case{{server, "", "", "", true}, false, Level::limited, "serves nobody"},
          Case{{server, "", "", "", false}, true, Level::good, "accepts connections"}}) {
      const std::vector<Said> findings =
          said_by([&](Report& report) { EXPECT_EQ(check_server(report, one.answer, true), one.serves) << one.text; });
      ASSERT_EQ(findings.size(), 1U);
      const Said& said = findings[0];
      EXPECT_EQ(said.level, one.level) << said.text;
      EXPECT_TRUE(has(said.text, one.text)) << said.text;
      EXPECT_TRUE(has(said.subject + " " + said.text, server)) << said.subject << " " << said.text;
      EXPECT_EQ(said.advice.empty(), has(said.text, "leader")) << said.advice;
    }
  }
}

TEST(DiagnoseNetwork, AClockOfTheEnsembleThatIsHalfAMinuteOffIsAFinding) {
  const auto at = [](std::int64_t milliseconds) {
    return said_by([&](Report& report) { check_clock(report, milliseconds); });
  };
  for (const std::int64_t little : {0, 30'000, -30'000}) EXPECT_TRUE(at(little).empty()) << little;
  for (const std::int64_t much : {31'000, -31'000}) {
    const std::vector<Said> findings = at(much);
    ASSERT_EQ(findings.size(), 1U);
    EXPECT_EQ(findings[0].level, Level::limited);
    EXPECT_TRUE(has(findings[0].text, much < 0 ? "31 s behind that of" : "31 s ahead of that of")) << findings[0].text;
    EXPECT_TRUE(has(findings[0].advice, "NTP"));
  }
}

}  // namespace
}  // namespace ripc::internal::capi
