// SPDX-License-Identifier: Apache-2.0
// Reading and changing trust files, and what the errors of key files and trust files say.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../base/process_helpers.hpp"
#include "capi/compose.hpp"
#include "ripc/identity.h"
#include "unit/security/trust_helpers.hpp"

namespace ripc::internal::capi {
namespace {

using security::key_of;
using test::Environment;
using testing::HasSubstr;
using testing::Not;

class TrustChange : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return files_.path() + "/" + name; }
  // Writes the identity with this number to a file, and returns the file's path.
  std::string identity(unsigned number) const {
    const std::string file = path("identity" + std::to_string(number));
    auto text = security::identity_of(number)->secret_text();
    security::write_file(file, {text.data(), text.size()}, 0600);
    return file;
  }
  std::string cluster_key(unsigned signer) const {
    security::write_file(path("cluster"), std::string(63, '1') + "2\nsigner " + key_of(signer) + "\n", 0600);
    return path("cluster");
  }
  std::string content() const {
    std::ifstream stream(trust_);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  }
  ripc_status change(const char* name, const char* line, const char* signer = nullptr) const {
    return ripc_trust_change(trust_.c_str(), name, line, signer);
  }
  ripc_status read() const { return ripc_trust_read(trust_.c_str(), nullptr, nullptr); }

  const test::TemporaryDirectory files_;
  const std::string trust_ = path("trust");
  const Environment config_{"XDG_CONFIG_HOME", files_.path().c_str()};
  const Environment key_{"RIPC_CLUSTER_KEY_FILE", nullptr};
  const Environment network_{"RIPC_NETWORK", nullptr};
};

// The user's other contexts read the trust file with the key file.
TEST_F(TrustChange, TheSignatureIsAskedForWhateverTheNetworkIs) {
  const std::string key = cluster_key(9);
  const Environment named("RIPC_CLUSTER_KEY_FILE", key.c_str());
  const std::string line = key_of(1);
  for (const char* const network : {"off", "open", "key"}) {
    SCOPED_TRACE(network);
    const Environment set("RIPC_NETWORK", network);
    security::write_file(trust_, "alice " + line + "\n");
    EXPECT_EQ(read(), RIPC_REFUSED) << ripc_last_error();
    EXPECT_EQ(change("bob", key_of(2).c_str()), RIPC_REFUSED) << ripc_last_error();
    EXPECT_EQ(content(), "alice " + line + "\n");
    EXPECT_EQ(change("bob", key_of(2).c_str(), identity(9).c_str()), RIPC_OK) << ripc_last_error();
    EXPECT_EQ(read(), RIPC_OK) << ripc_last_error();
  }
}

TEST_F(TrustChange, AFileThatWasChangedSinceItWasSignedIsOnlySignedAsItIs) {
  const std::string key = cluster_key(9);
  const Environment named("RIPC_CLUSTER_KEY_FILE", key.c_str());
  const std::string signer = identity(9);
  ASSERT_EQ(change("alice", key_of(1).c_str(), signer.c_str()), RIPC_OK) << ripc_last_error();
  ASSERT_EQ(change("bob", key_of(2).c_str(), signer.c_str()), RIPC_OK) << "the signature is right";
  const std::string forged = "mallory " + key_of(3) + " holds=*\n" + content();
  security::write_file(trust_, forged);
  EXPECT_EQ(change("carol", key_of(4).c_str(), signer.c_str()), RIPC_REFUSED);
  EXPECT_THAT(ripc_last_error(), HasSubstr("ripc trust sign"));
  EXPECT_EQ(change("bob", nullptr, signer.c_str()), RIPC_REFUSED);
  EXPECT_EQ(content(), forged);
  EXPECT_EQ(change(nullptr, nullptr, signer.c_str()), RIPC_OK) << ripc_last_error();
  EXPECT_EQ(change("carol", key_of(4).c_str(), signer.c_str()), RIPC_OK) << ripc_last_error();
}

TEST_F(TrustChange, AFileThatMayBeCutOffIsNeitherChangedNorSigned) {
  const std::string text = "alice " + key_of(1) + "\n# members";
  security::write_file(trust_, text);
  const auto expect_refused = [&](ripc_status status) {
    EXPECT_EQ(status, RIPC_INVALID_ARGUMENT);
    EXPECT_THAT(ripc_last_error(), HasSubstr("line 2: the last line has no end"));
    EXPECT_EQ(content(), text);
  };
  expect_refused(read());
  expect_refused(change("bob", key_of(2).c_str()));
  expect_refused(change("alice", key_of(2).c_str()));
  expect_refused(change("alice", nullptr));
  expect_refused(change(nullptr, nullptr, identity(9).c_str()));
}

TEST_F(TrustChange, AnAddedMemberReplacesNone) {
  const auto add = [this](const char* name, const std::string& line) {
    return ripc_trust_add(trust_.c_str(), name, line.empty() ? nullptr : line.c_str(), nullptr);
  };
  EXPECT_EQ(add("alice", key_of(1)), RIPC_OK) << ripc_last_error();
  EXPECT_EQ(add("bob", key_of(2)), RIPC_OK) << ripc_last_error();
  const std::string text = content();
  EXPECT_EQ(add("alice", key_of(3)), RIPC_ID_IN_USE);
  EXPECT_THAT(ripc_last_error(), HasSubstr("'alice' is a member already"));
  EXPECT_EQ(add("alice", ""), RIPC_INVALID_ARGUMENT) << "that would remove the member";
  EXPECT_EQ(add(nullptr, key_of(3)), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(content(), text);
}

TEST_F(TrustChange, NoNameRemovesComments) {
  const std::string text = "# members\n\nalice " + key_of(1) + "\n";
  security::write_file(trust_, text);
  EXPECT_EQ(change("", nullptr), RIPC_INVALID_ARGUMENT);
  EXPECT_THAT(ripc_last_error(), HasSubstr("no member's name"));
  EXPECT_EQ(content(), text);
}

TEST_F(TrustChange, ChangesOfSeveralThreadsAreAllMade) {
  constexpr unsigned kEach = 20;
  // The keys of distinct members.
  std::vector<std::string> keys;
  for (unsigned number = 0; number < 2 * kEach; ++number) {
    std::array<char, RIPC_PUBLIC_KEY_SIZE> key{};
    ASSERT_EQ(ripc_identity_create(path("key").c_str(), 1, nullptr, 0, key.data()), RIPC_OK) << ripc_last_error();
    keys.emplace_back(key.data());
  }
  const auto add = [&](unsigned first) {
    for (unsigned number = first; number < first + kEach; ++number) {
      const std::string name = "member" + std::to_string(number);
      EXPECT_EQ(change(name.c_str(), keys[number].c_str()), RIPC_OK) << ripc_last_error();
    }
  };
  std::thread other(add, kEach);
  add(0);
  other.join();
  std::size_t members = 0;
  const auto count = [](void* user, const ripc_trust_member*) { ++*static_cast<std::size_t*>(user); };
  EXPECT_EQ(ripc_trust_read(trust_.c_str(), count, &members), RIPC_OK) << ripc_last_error();
  EXPECT_EQ(members, 2 * kEach);
}

TEST_F(TrustChange, AnotherSignerIsToldWhoMustSign) {
  const std::string key = cluster_key(9);
  const Environment named("RIPC_CLUSTER_KEY_FILE", key.c_str());
  EXPECT_EQ(change("alice", key_of(1).c_str(), identity(8).c_str()), RIPC_REFUSED);
  EXPECT_THAT(ripc_last_error(), HasSubstr(key_of(9)));
  EXPECT_THAT(ripc_last_error(), HasSubstr("--signer"));
  EXPECT_THAT(ripc_last_error(), Not(HasSubstr("has been changed")));
}

TEST_F(TrustChange, EveryMisuseIsAnsweredWithWhatToDo) {
  const std::string name_it = "name one, or pass NULL";
  struct Case {
    const char* what;
    std::function<ripc_status()> call;
    std::string words;
  };
  for (const Case& one :
       {Case{"identity_create", [] { return ripc_identity_create("", 0, nullptr, 0, nullptr); }, name_it},
        Case{"identity_read", [] { return ripc_identity_read("", nullptr, 0, nullptr); }, name_it},
        Case{"trust_read", [] { return ripc_trust_read("", nullptr, nullptr); }, name_it},
        Case{"trust_change", [] { return ripc_trust_change("", nullptr, nullptr, nullptr); }, name_it},
        Case{"cluster_key_create", [] { return ripc_cluster_key_create("", 0, nullptr, 0); }, name_it},
        Case{"signer", [&] { return change(nullptr, nullptr, ""); }, "pass NULL for none"},
        Case{"line without name", [&] { return change(nullptr, key_of(1).c_str()); }, "name the member"}}) {
    EXPECT_EQ(one.call(), RIPC_INVALID_ARGUMENT) << one.what;
    EXPECT_THAT(ripc_last_error(), HasSubstr(one.words)) << one.what;
  }
}

TEST_F(TrustChange, WithoutDescriptorsTheAdviceIsToRaiseTheirLimit) {
  security::write_file(trust_, "alice " + key_of(1) + "\n");
  const std::string me = identity(1);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const std::string line = key_of(2);
  for (const auto& [what, call] : std::vector<std::pair<const char*, std::function<ripc_status()>>>{
           {"trust_read", [&] { return read(); }},
           {"trust_change", [&] { return change("bob", line.c_str()); }},
           {"identity_read", [&] { return ripc_identity_read(me.c_str(), nullptr, 0, nullptr); }},
           {"identity_create", [&] { return ripc_identity_create(path("new").c_str(), 0, nullptr, 0, nullptr); }},
           {"cluster_key_create", [&] { return ripc_cluster_key_create(path("new").c_str(), 0, nullptr, 0); }}}) {
    const rlimit none{.rlim_cur = 0, .rlim_max = limit.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    const ripc_status status = call();
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(status, RIPC_NO_DESCRIPTORS) << what;
    EXPECT_THAT(ripc_last_error(), HasSubstr("`ulimit -n`")) << what;
    EXPECT_THAT(ripc_last_error(), Not(HasSubstr("let this user read"))) << what;
    EXPECT_THAT(ripc_last_error(), Not(HasSubstr("writable"))) << what;
  }
}

TEST_F(TrustChange, TheStatusesOfTheHeaderAreThoseOfTheCalls) {
  const std::string missing = path("missing");
  EXPECT_EQ(ripc_identity_read(missing.c_str(), nullptr, 0, nullptr), RIPC_SYSTEM);
  EXPECT_EQ(read(), RIPC_SYSTEM);
  EXPECT_EQ(change("alice", nullptr), RIPC_SYSTEM) << "there is no file to remove it from";
  EXPECT_FALSE(std::filesystem::exists(trust_ + ".lock")) << "nothing is to be changed";
  const std::string me = identity(1);
  EXPECT_EQ(ripc_identity_read(me.c_str(), nullptr, 0, nullptr), RIPC_OK) << "the key is not asked for";
  ASSERT_EQ(::chmod(me.c_str(), 0644), 0);
  EXPECT_EQ(ripc_identity_read(me.c_str(), nullptr, 0, nullptr), RIPC_PERMISSION);
  EXPECT_EQ(ripc_identity_read(files_.path().c_str(), nullptr, 0, nullptr), RIPC_PERMISSION) << "no plain file";
  security::write_file(me, "nonsense\n", 0600);
  EXPECT_EQ(ripc_identity_read(me.c_str(), nullptr, 0, nullptr), RIPC_INVALID_ARGUMENT);
  security::write_file(trust_, "alice " + key_of(1) + "\n", 0666);
  EXPECT_EQ(read(), RIPC_PERMISSION);
  security::write_file(trust_, std::string(security::Trust::kMaxFileSize, '#') + "\n");
  EXPECT_EQ(read(), RIPC_INVALID_ARGUMENT) << "over 1 MiB";
}

// Where a call names no file, the environment decides.
TEST_F(TrustChange, WithoutANameTheFilesOfTheEnvironmentAreMeant) {
  const std::string me = identity(1);
  const Environment identity_file("RIPC_IDENTITY_FILE", me.c_str());
  const Environment trust_file("RIPC_TRUST_FILE", trust_.c_str());
  std::array<char, 4096> found{};
  std::array<char, RIPC_PUBLIC_KEY_SIZE> key{};
  EXPECT_EQ(ripc_identity_read(nullptr, found.data(), found.size(), key.data()), RIPC_OK) << ripc_last_error();
  EXPECT_EQ(found.data(), me);
  EXPECT_EQ(key.data(), key_of(1));
  EXPECT_EQ(ripc_trust_change(nullptr, "alice", key_of(1).c_str(), nullptr), RIPC_OK) << ripc_last_error();
  EXPECT_EQ(content(), "alice " + key_of(1) + "\n");
  EXPECT_EQ(ripc_trust_read(nullptr, nullptr, nullptr), RIPC_OK) << ripc_last_error();
  struct stat info {};
  ASSERT_EQ(::stat(trust_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0644U);
  // A new identity goes to the default place.
  EXPECT_EQ(ripc_identity_create(nullptr, 0, found.data(), found.size(), nullptr), RIPC_OK) << ripc_last_error();
  EXPECT_EQ(found.data(), path("ripc/identity.key"));
}

TEST_F(TrustChange, TheMembersOfAGoodFileAreVisitedInTheCallingThreadAndOfABadOneNobody) {
  struct Visit {
    std::thread::id thread = std::this_thread::get_id();
    std::string seen;
  } visit;
  const auto add = [](void* user, const ripc_trust_member* member) {
    auto& self = *static_cast<Visit*>(user);
    EXPECT_EQ(std::this_thread::get_id(), self.thread);
    EXPECT_EQ(member->size, sizeof *member);
    self.seen += std::to_string(member->line) + "|" + member->name + "|" + member->public_key + "|" + member->rights;
  };
  const std::string text = "# members\nalice " + key_of(1) + "  holds=a  calls=b \n";
  security::write_file(trust_, text);
  const ripc_status status = ripc_trust_read(trust_.c_str(), add, &visit);
  EXPECT_EQ(status, RIPC_OK) << ripc_last_error();
  EXPECT_EQ(visit.seen, "2|alice|" + key_of(1) + "|holds=a  calls=b");
  visit.seen.clear();
  security::write_file(trust_, text + "nonsense\n");
  EXPECT_EQ(ripc_trust_read(trust_.c_str(), add, &visit), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(visit.seen, "");
}

TEST_F(TrustChange, AReaderSeesTheOldFileOrTheNewOne) {
  security::write_file(trust_, "alice " + key_of(1) + "\n");
  std::atomic<bool> is_over{false};
  std::thread reader([&] {
    while (!is_over) EXPECT_EQ(read(), RIPC_OK) << ripc_last_error();
  });
  for (unsigned round = 0; round < 50; ++round)
    EXPECT_EQ(change("alice", key_of(1 + round % 2).c_str()), RIPC_OK) << ripc_last_error();
  is_over = true;
  reader.join();
}

TEST_F(TrustChange, ASignerThatCannotBeUsedChangesNothing) {
  const std::string text = "alice " + key_of(1) + "\n";
  security::write_file(trust_, text);
  const std::string open_to_others = identity(8);
  ASSERT_EQ(::chmod(open_to_others.c_str(), 0644), 0);
  security::write_file(path("nonsense"), "nonsense\n", 0600);
  for (const auto& [signer, status] :
       std::vector<std::pair<std::string, ripc_status>>{{path("missing"), RIPC_SYSTEM},
                                                        {path("nonsense"), RIPC_INVALID_ARGUMENT},
                                                        {open_to_others, RIPC_PERMISSION}}) {
    EXPECT_EQ(change("bob", key_of(2).c_str(), signer.c_str()), status) << signer << ": " << ripc_last_error();
    EXPECT_EQ(content(), text) << signer;
  }
}

// The calls use the default place: first there is none, then it is in a folder of root, where this user may not write.
TEST_F(TrustChange, WithoutAHomeOrTheRightToWriteThereTheStatusSaysSo) {
  SKIP_UNLESS_ROOT("to become a user of no name");
  constexpr uid_t kNameless = 54321;
  ASSERT_EQ(::chmod(files_.path().c_str(), 0755), 0);
  struct Case {
    const char* what;
    std::function<ripc_status()> call;
  };
  EXPECT_EQ(
      test::run_in_child([&] {
        CHILD_CHECK(::setgroups(0, nullptr) == 0 && ::setresgid(kNameless, kNameless, kNameless) == 0);
        CHILD_CHECK(::setresuid(kNameless, kNameless, kNameless) == 0);
        for (const auto& [place, status] : {std::pair("nowhere", RIPC_SYSTEM), std::pair("root's", RIPC_PERMISSION)}) {
          const Environment home("HOME", nullptr);
          const Environment config("XDG_CONFIG_HOME", status == RIPC_SYSTEM ? nullptr : files_.path().c_str());
          for (const Case& one :
               {Case{"identity_create", [] { return ripc_identity_create(nullptr, 0, nullptr, 0, nullptr); }},
                Case{"cluster_key_create", [] { return ripc_cluster_key_create(nullptr, 0, nullptr, 0); }},
                Case{"trust_change", [] { return ripc_trust_change(nullptr, "alice", key_of(1).c_str(), nullptr); }}}) {
            const ripc_status got = one.call();
            if (got != status) std::fprintf(stderr, "%s, %s: %s\n", place, one.what, ripc_last_error());
            CHILD_CHECK(got == status);
          }
        }
        return 0;
      }),
      0);
}

// Contexts use the files in the default place, unless a setting says otherwise.
TEST_F(TrustChange, AnIdentityInTheDefaultPlaceIsFoundUnlessAnotherOneIsNamedOrTheNetworkIsOpen) {
  const Environment no_identity("RIPC_IDENTITY_FILE", nullptr);
  const Environment no_trust("RIPC_TRUST_FILE", nullptr);
  std::array<char, RIPC_PUBLIC_KEY_SIZE> key{};
  ASSERT_EQ(ripc_identity_create(nullptr, 0, nullptr, 0, key.data()), RIPC_OK) << ripc_last_error();
  const auto found = [](std::uint32_t network) {
    ripc_context_options options;
    ripc_context_options_init(&options);
    options.network = network;
    const Result<Settings> settings = read_settings(options);
    EXPECT_TRUE(settings.ok()) << settings.status().text();
    if (!settings.ok() || !settings->credentials.identity) return std::string();
    return security::public_key_text(settings->credentials.identity->public_key());
  };
  EXPECT_EQ(found(RIPC_NETWORK_KEY), key.data());
  EXPECT_EQ(found(RIPC_NETWORK_OPEN), "");
  const std::string other = identity(1);
  const Environment named("RIPC_IDENTITY_FILE", other.c_str());
  EXPECT_EQ(found(RIPC_NETWORK_KEY), key_of(1));
}

// A change without a signer removes an existing signature, which would be wrong.
TEST_F(TrustChange, AChangeWithoutASignerTakesTheSignatureAway) {
  ASSERT_EQ(change("alice", key_of(1).c_str(), identity(9).c_str()), RIPC_OK) << ripc_last_error();
  EXPECT_THAT(content(), HasSubstr("\nsignature "));
  ASSERT_EQ(change("bob", key_of(2).c_str()), RIPC_OK) << ripc_last_error();
  EXPECT_THAT(content(), Not(HasSubstr("signature")));
}

TEST_F(TrustChange, AFolderThatCannotBeMadeIsCalledByWhatItIsFor) {
  // Puts a file where a folder must be.
  security::write_file(path("ripc"), "");
  for (const auto& [call, what] : std::vector<std::pair<std::function<ripc_status()>, std::string>>{
           {[] { return ripc_identity_create(nullptr, 0, nullptr, 0, nullptr); }, "identity"},
           {[] { return ripc_trust_change(nullptr, "alice", key_of(1).c_str(), nullptr); }, "trust file"},
           {[] { return ripc_cluster_key_create(nullptr, 0, nullptr, 0); }, "cluster key"}}) {
    const Environment deeper("XDG_CONFIG_HOME", path("ripc/deeper").c_str());
    EXPECT_EQ(call(), RIPC_SYSTEM) << what;
    EXPECT_THAT(ripc_last_error(), HasSubstr("for the " + what)) << ripc_last_error();
  }
}

}  // namespace
}  // namespace ripc::internal::capi
