// SPDX-License-Identifier: Apache-2.0
// Two users of one host. The peer policy of the owner decides on every path from one to the other.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "peer_host.hpp"
#include "puppet.hpp"

namespace conformance {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr ripc_service_id kOwner = 77;
constexpr ripc_service_id kFriend = 78;
constexpr ripc_service_id kStranger = 79;
constexpr ripc_service_id kGroup = RIPC_GROUP_ID(7);
constexpr unsigned kOwningUser = 65533;
constexpr unsigned kStrangeUser = 65534;

struct World {
  const char* name;
  unsigned owner;        // user of the owner, and of its friend
  bool one_directory;    // which everyone may use; otherwise each process has one, and they meet by multicast
  bool has_cluster_key;  // everyone has the same one
};
constexpr World kWorlds[] = {
    {"one directory", kOwningUser, true, false},
    {"multicast", kOwningUser, false, false},
    {"multicast, the owner is root", 0, false, false},
    {"multicast with a cluster key", kOwningUser, false, true},
};

// An owner and a friend, who run as the same user and admit only that user; and a stranger, who admits everyone.
class Users : public TransportTest {
 protected:
  void SetUp() override {
    if (peer_host() != nullptr) GTEST_SKIP() << "between hosts nobody is judged by the user";
    if (const std::string reason = why_no_other_user(); !reason.empty()) GTEST_SKIP() << reason;
    ASSERT_EQ(::chmod(runtime_directory().c_str(), 01777), 0);
  }

  // Runs `story` in each world.
  void in_each_world(const std::function<void()>& story) {
    for (const World& world : kWorlds) {
      if (GetParam() == "shm" && !world.one_directory) continue;  // shared memory does not cross directories
      SCOPED_TRACE(world.name);
      world_ = &world;
      multicast_ = "239.255.82.73:" + std::to_string(20000 + ::getpid() * 8 % 12000 + (&world - kWorlds)) + "%lo,ttl=0";
      start(owner_, "owner", world.owner, RIPC_PEERS_SAME_USER, kOwner);
      start(friend_, "friend", world.owner, RIPC_PEERS_SAME_USER, kFriend);
      // Without this, the checks below would mean nothing.
      ASSERT_EQ(friend_->send_text(kOwner, "hello"), "RIPC_OK") << friend_->call("error");
      ASSERT_EQ(owner_->status_of("receive"), "RIPC_OK");
      if (!HasFatalFailure()) story();
      stranger_.reset();
      friend_.reset();
      owner_.reset();
    }
  }
  void start_stranger(std::uint32_t policy = RIPC_PEERS_ANY) {
    start(stranger_, "stranger", kStrangeUser, policy, kStranger);
  }
  // Checks that the owner's next message comes from its friend.
  void expect_nothing_for_owner() {
    ASSERT_EQ(friend_->send_text(kOwner, "mark"), "RIPC_OK") << friend_->call("error");
    EXPECT_EQ(owner_->call("receive"), short_text("mark"));
  }
  static std::string short_text(std::string_view text) {
    return "RIPC_OK " + describe(RIPC_VIEW_SHORT, {reinterpret_cast<const unsigned char*>(text.data()), text.size()});
  }

  const World* world_ = nullptr;
  std::unique_ptr<Puppet> owner_, friend_, stranger_;

 private:
  // Makes a file or directory belong to this user alone.
  std::string own(const std::string& path, unsigned user, mode_t mode) const {
    EXPECT_EQ(::chown(path.c_str(), user, user), 0);
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }
  void start(std::unique_ptr<Puppet>& puppet, const std::string& name, unsigned user, std::uint32_t policy,
             ripc_service_id id) {
    PeerSetup setup = peer_setup();
    setup.other_user = user != 0;
    setup.user = user;
    setup.settings["peer_policy"] = std::to_string(policy);
    // Most of what the stranger looks for is nowhere to be found.
    if (policy == RIPC_PEERS_ANY) setup.settings["resolve_timeout"] = std::to_string(300 * kMillisecond);
    setup.settings["RIPC_NETWORK"] = world_->has_cluster_key ? "key" : "open";
    setup.settings["RIPC_CLUSTER_KEY_FILE"] = "";
    setup.settings["RIPC_MULTICAST"] = world_->one_directory ? "off" : multicast_;
    if (!world_->one_directory) {
      setup.runtime_directory += "/" + name + std::to_string(world_ - kWorlds);
      std::filesystem::create_directory(setup.runtime_directory);
      own(setup.runtime_directory, user, 0700);
    }
    if (world_->has_cluster_key) {
      const std::string path = runtime_directory() + "/key-of-" + name;
      std::ofstream(path) << "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
                          << "\n";
      setup.settings["RIPC_CLUSTER_KEY_FILE"] = own(path, user, 0600);
    }
    puppet = std::make_unique<Puppet>(setup);
    ASSERT_EQ(puppet->register_id(id), "RIPC_OK") << puppet->call("error");
  }

  std::string multicast_;
};
CONFORMANCE_SUITE(Users);

TEST_P(Users, AStrangerReadsNothingAndDeliversNothing) {
  in_each_world([&] {
    start_stranger();
    EXPECT_NE(stranger_->send_text(kOwner, "let me in"), "RIPC_OK");
    EXPECT_NE(stranger_->status_of("request 77 100000"), "RIPC_OK");
    EXPECT_NE(stranger_->call("send_long 77 100000 3 foreign 100"), "RIPC_OK");
    expect_nothing_for_owner();
    // In a common directory the stranger cannot see the owner, so it does not try to connect.
    if (!world_->one_directory) {
      EXPECT_THAT(owner_->call("refused"), testing::Not("0"));
    }
  });
}

TEST_P(Users, AStrangersNotificationDoesNotRun) {
  in_each_world([&] {
    start_stranger();
    const std::string bell = owner_->call("notification");
    ASSERT_EQ(bell.substr(0, 8), "RIPC_OK ");
    const std::string ring = "notify" + bell.substr(7);
    EXPECT_NE(stranger_->call(ring + " hello"), "RIPC_OK");
    ASSERT_EQ(friend_->call(ring + " hello"), "RIPC_OK") << friend_->call("error");
    EXPECT_TRUE(eventually([&] { return owner_->call("notified") != "0"; }));
    EXPECT_EQ(owner_->call("notified"), "1");
  });
}

TEST_P(Users, AStrangerPullsNothing) {
  in_each_world([&] {
    start_stranger();
    EXPECT_NE(owner_->send_text(kStranger, "a secret"), "RIPC_OK");
    EXPECT_NE(owner_->call("send_long 79 100000 3 foreign 100"), "RIPC_OK");
    // The stranger's next message is its own.
    ASSERT_EQ(stranger_->send_text(kStranger, "mark"), "RIPC_OK") << stranger_->call("error");
    EXPECT_EQ(stranger_->call("receive"), short_text("mark"));
  });
}

TEST_P(Users, AStrangerTakesNothingOver) {
  in_each_world([&] {
    start_stranger();
    (void)stranger_->call("unregister");
    (void)stranger_->register_id(kOwner, true);
    // No one else sends to the stranger, whatever status it got: neither former nor new clients, nor the owner.
    ASSERT_EQ(friend_->send_text(kOwner, "as before"), "RIPC_OK") << friend_->call("error");
    EXPECT_EQ(owner_->call("receive"), short_text("as before"));
    ASSERT_EQ(friend_->call("unregister"), "ok");
    ASSERT_EQ(friend_->register_id(kFriend), "RIPC_OK");
    expect_nothing_for_owner();
    ASSERT_EQ(owner_->send_text(kOwner, "to myself"), "RIPC_OK") << owner_->call("error");
    EXPECT_EQ(owner_->call("receive"), short_text("to myself"));
  });
}

// As the stranger admits everyone, its record may be changed, but the stranger would not learn of that.
TEST_P(Users, AStrangerIsNotTakenOverAndKeepsItsClients) {
  in_each_world([&] {
    if (!world_->one_directory) return;  // the owner does not see the stranger
    start_stranger();
    ASSERT_EQ(owner_->call("unregister"), "ok");
    EXPECT_EQ(owner_->register_id(kStranger, true), "RIPC_PERMISSION");
    EXPECT_THAT(owner_->call("error"), HasSubstr("RIPC_PEERS"));
    ASSERT_EQ(stranger_->send_text(kStranger, "as before"), "RIPC_OK") << stranger_->call("error");
    EXPECT_EQ(stranger_->call("receive"), short_text("as before"));
  });
}

TEST_P(Users, AStrangerInAGroupReceivesNothingAndDeliversNothing) {
  in_each_world([&] {
    const std::string group = std::to_string(kGroup);
    start_stranger();
    ASSERT_EQ(stranger_->call("join " + group), "RIPC_OK") << stranger_->call("error");
    ASSERT_EQ(friend_->call("join " + group), "RIPC_OK");
    ASSERT_TRUE(eventually([&] { return owner_->send_text(kGroup, "a secret") == "RIPC_OK"; }));
    EXPECT_EQ(friend_->call("receive"), short_text("a secret"));
    ASSERT_EQ(stranger_->send_text(kStranger, "mark"), "RIPC_OK") << stranger_->call("error");
    EXPECT_EQ(stranger_->call("receive"), short_text("mark"));
    ASSERT_EQ(owner_->call("join " + group), "RIPC_OK");
    (void)stranger_->send_text(kGroup, "listen to me");
    expect_nothing_for_owner();
  });
}

TEST_P(Users, AStrangerIsNotListedThoughItAdmitsEverybody) {
  in_each_world([&] {
    start_stranger();
    const std::string seen = owner_->call("list");
    EXPECT_THAT(seen, HasSubstr(" 78"));
    EXPECT_THAT(seen, Not(HasSubstr(" 79")));
  });
}

TEST_P(Users, AUserDoesNotListServicesOfAnotherUser) {
  in_each_world([&] {
    start_stranger(RIPC_PEERS_SAME_USER);
    const std::string seen = owner_->call("list");
    EXPECT_THAT(seen, HasSubstr(" 78"));
    EXPECT_THAT(seen, Not(HasSubstr(" 79")));
    // Everyone admits root.
    const std::string seen_by_stranger = stranger_->call("list");
    EXPECT_TRUE(world_->owner == 0 || seen_by_stranger.find(" 77") == std::string::npos) << seen_by_stranger;
  });
}

}  // namespace
}  // namespace conformance
