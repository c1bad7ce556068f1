// SPDX-License-Identifier: Apache-2.0
// The runtime directory between processes: killed and stopped processes, other users, other namespaces, and processes
// or disks that have run out of resources.
#include <sys/mount.h>
#include <sys/socket.h>

#include "base/random.hpp"
#include "base/runtime_directory.hpp"
#include "process_helpers.hpp"

namespace ripc::internal::test {
namespace {

using Names = std::vector<std::string>;

constexpr std::uint64_t kContext = 0x1234;

std::shared_ptr<RuntimeDirectory> open_quietly(const std::string& path, std::uint32_t policy = RIPC_PEERS_SAME_USER) {
  Result<std::shared_ptr<RuntimeDirectory>> directory = RuntimeDirectory::open(path.c_str(), policy);
  return directory.ok() ? *directory : nullptr;
}

class RuntimeDirectoryProcess : public ::testing::Test {
 protected:
  // A child that listens and then waits; `prepare` runs in it first.
  template <typename Prepare>
  Child listening_child(std::uint32_t policy, Prepare prepare) {
    Child child([&] {
      if (!prepare()) return 1;
      const auto directory = open_quietly(path_, policy);
      if (directory == nullptr) return 2;
      const Result<UniqueFd> listener = directory->listen(kContext);
      if (!listener.ok()) return 3;
      ready_.put();
      hold_.close_write();
      hold_.get();
      return 0;
    });
    ready_.close_write();
    EXPECT_TRUE(ready_.get());
    return child;
  }
  Child listening_child(std::uint32_t policy = RIPC_PEERS_SAME_USER) {
    return listening_child(policy, [] { return true; });
  }

  const TemporaryDirectory temporary_;
  std::string path_ = temporary_ / "run";
  Pipe ready_, hold_;
};

TEST_F(RuntimeDirectoryProcess, AContextDiesWithItsProcess) {
  const auto directory = open_quietly(path_);
  Child child = listening_child();
  EXPECT_EQ(directory->probe(kContext), Liveness::alive);
  child.kill(SIGKILL);
  EXPECT_EQ(child.wait(), 1000 + SIGKILL);
  EXPECT_EQ(directory->probe(kContext), Liveness::dead);
  EXPECT_EQ(directory->connect(kContext).status().code(), RIPC_PEER_DEAD);
  EXPECT_EQ(directory->sweep(), 1u);
  EXPECT_EQ(names_in(path_ + "/contexts"), Names{});
}

TEST_F(RuntimeDirectoryProcess, AStoppedProcessIsAliveAndCanBeConnected) {
  const auto directory = open_quietly(path_);
  Child child = listening_child();
  child.kill(SIGSTOP);
  int status = 0;
  ASSERT_EQ(::waitpid(child.pid(), &status, WUNTRACED), child.pid());
  EXPECT_EQ(directory->probe(kContext), Liveness::alive);
  EXPECT_EQ(directory->sweep(), 0u);
  EXPECT_TRUE(directory->connect(kContext).ok());
}

TEST_F(RuntimeDirectoryProcess, AfterSigkillAtAnyMomentTheNextSweepLeavesNothing) {
  for (int round = 0; round < 100; ++round) {
    Pipe started;
    Child child([&] {
      started.put();
      for (;;) {
        const auto directory = RuntimeDirectory::open(path_.c_str(), RIPC_PEERS_SAME_USER);
        if (!directory.ok()) return 1;
        const Result<UniqueFd> listener = (*directory)->listen(random_u64());
        if (!listener.ok()) return 2;
      }
    });
    ASSERT_TRUE(started.get());
    ::usleep(static_cast<useconds_t>(random_u64() % 2000));  // the random moment
    child.kill(SIGKILL);
    ASSERT_EQ(child.wait(), 1000 + SIGKILL);
    const auto directory = open_quietly(path_);
    ASSERT_NE(directory, nullptr);
    directory->sweep();
    ASSERT_EQ(names_in(path_), (Names{"contexts", "services"}));
    ASSERT_EQ(names_in(path_ + "/contexts"), Names{});
    if (round % 4 == 0) std::filesystem::remove_all(path_);  // so that some kills interrupt making the directories
  }
}

TEST_F(RuntimeDirectoryProcess, WithoutDescriptorsListenAndConnectSaySoAndProbingGoesOn) {
  EXPECT_EQ(run_in_child([&] {
              const auto directory = open_quietly(path_);
              CHILD_CHECK(directory != nullptr);
              const Result<UniqueFd> listener = directory->listen(kContext);
              CHILD_CHECK(listener.ok());
              CHILD_CHECK(directory->listen(2).ok());  // dead at once: its socket is closed
              test::fill_descriptor_table();
              const Status status = directory->listen(3).status();
              CHILD_CHECK(status == RIPC_NO_DESCRIPTORS && mentions(status, "ulimit"));
              CHILD_CHECK(directory->connect(kContext).status() == RIPC_NO_DESCRIPTORS);
              CHILD_CHECK(directory->probe(kContext) == Liveness::alive);
              CHILD_CHECK(directory->probe(2) == Liveness::dead);
              CHILD_CHECK(directory->sweep() == 0);
              CHILD_CHECK(RuntimeDirectory::open(path_.c_str(), 0).status() == RIPC_NO_DESCRIPTORS);
              return 0;
            }),
            0);
  EXPECT_EQ(names_in(path_ + "/contexts").size(), 2u);
}

TEST_F(RuntimeDirectoryProcess, AFullDiskIsNamedAsTheCause) {
  SKIP_UNLESS_ROOT("mounts a small file system");
  temporary_.make("run", 0700);
  const int result = run_in_child([&] {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 77;
    // Room for the root, the two directories and one socket.
    if (::mount("none", path_.c_str(), "tmpfs", 0, "size=64k,nr_inodes=4,mode=0700") != 0) return 77;
    const auto directory = open_quietly(path_);
    CHILD_CHECK(directory != nullptr);
    Result<UniqueFd> listener = directory->listen(kContext);
    CHILD_CHECK(listener.ok());
    const Status status = directory->listen(2).status();
    CHILD_CHECK(status == RIPC_NO_MEMORY && mentions(status, path_) && mentions(status, "used up"));
    CHILD_CHECK(directory->probe(kContext) == Liveness::alive);
    directory->remove_context(kContext);
    listener->reset();
    CHILD_CHECK(directory->listen(3).ok());
    return 0;
  });
  if (result == 77) GTEST_SKIP() << "this sandbox forbids mount namespaces";
  EXPECT_EQ(result, 0);
}

// ---- Users ---------------------------------------------------------------------------------------------------

TEST_F(RuntimeDirectoryProcess, AnotherUserIsKeptOutByThePolicySameUser) {
  SKIP_UNLESS_ROOT("becomes another user");
  temporary_.make("run", 01777);
  const auto directory = open_quietly(path_);
  const Result<UniqueFd> listener = directory->listen(kContext);
  ASSERT_TRUE(listener.ok());
  EXPECT_EQ(run_in_child([&] {
              CHILD_CHECK(test::become_nobody());
              const auto own = open_quietly(path_);
              CHILD_CHECK(own != nullptr);
              const Status status = own->connect(kContext).status();
              CHILD_CHECK(status == RIPC_PERMISSION && mentions(status, "RIPC_PEERS"));
              CHILD_CHECK(own->probe(kContext) == Liveness::unknown);
              CHILD_CHECK(own->sweep() == 0);
              return 0;
            }),
            0);
  EXPECT_EQ(directory->probe(kContext), Liveness::alive);
}

TEST_F(RuntimeDirectoryProcess, UsersMeetInASharedDirectoryWithThePolicyAny) {
  SKIP_UNLESS_ROOT("becomes another user");
  temporary_.make("run", 01777);
  const auto directory = open_quietly(path_, RIPC_PEERS_ANY);
  const Result<UniqueFd> listener = directory->listen(1);
  ASSERT_TRUE(listener.ok());
  Child child = listening_child(RIPC_PEERS_ANY, [] { return test::become_nobody(); });
  EXPECT_EQ(directory->probe(kContext), Liveness::alive);
  EXPECT_TRUE(directory->connect(kContext).ok());
  EXPECT_EQ(run_in_child([&] {
              CHILD_CHECK(test::become_nobody());
              const auto own = open_quietly(path_, RIPC_PEERS_ANY);
              CHILD_CHECK(own != nullptr && own->connect(1).ok());
              CHILD_CHECK(own->probe(1) == Liveness::alive);
              return 0;
            }),
            0);
}

TEST_F(RuntimeDirectoryProcess, UsersOfOneGroupMeetWithThePolicySameGroup) {
  SKIP_UNLESS_ROOT("becomes another user");
  temporary_.make("run", 02770);
  ASSERT_EQ(::chown(path_.c_str(), 0, test::kNobody), 0);
  ASSERT_EQ(::chmod(path_.c_str(), 02770), 0);
  Child child = listening_child(RIPC_PEERS_SAME_GROUP, [] {
    return ::setgroups(0, nullptr) == 0 && ::setresgid(test::kNobody, test::kNobody, test::kNobody) == 0;
  });
  EXPECT_EQ(run_in_child([&] {
              CHILD_CHECK(test::become_nobody());
              const auto own = open_quietly(path_, RIPC_PEERS_SAME_GROUP);
              CHILD_CHECK(own != nullptr && own->connect(kContext).ok());
              return 0;
            }),
            0);
}

TEST_F(RuntimeDirectoryProcess, InAStickyDirectoryTheDeadOfAnotherUserStayUntilThatUserOrRootSweeps) {
  SKIP_UNLESS_ROOT("becomes another user");
  temporary_.make("run", 01777);
  ASSERT_NE(open_quietly(path_, RIPC_PEERS_ANY), nullptr);
  EXPECT_EQ(run_in_child([&] {
              const auto own = open_quietly(path_, RIPC_PEERS_ANY);
              CHILD_CHECK(own->listen(kContext).ok());
              CHILD_CHECK(test::become_nobody());
              CHILD_CHECK(own->probe(kContext) == Liveness::dead);
              CHILD_CHECK(own->sweep() == 0);
              return 0;
            }),
            0);
  EXPECT_EQ(open_quietly(path_, RIPC_PEERS_ANY)->sweep(), 1u);
}

TEST_F(RuntimeDirectoryProcess, ADirectoryThatThisUserMayNotWriteSaysWhatToDo) {
  SKIP_UNLESS_ROOT("becomes another user");
  temporary_.make("run", 0755);
  ASSERT_NE(open_quietly(path_), nullptr);
  EXPECT_EQ(run_in_child([&] {
              CHILD_CHECK(test::become_nobody());
              const auto own = open_quietly(path_);
              CHILD_CHECK(own != nullptr);  // reading is allowed
              const Status status = own->listen(kContext).status();
              CHILD_CHECK(status == RIPC_PERMISSION && mentions(status, path_) && mentions(status, "RIPC_RUNTIME_DIR"));
              return 0;
            }),
            0);
}

TEST_F(RuntimeDirectoryProcess, ADirectoryThatMayBeUsedButNotListedWorks) {
  SKIP_UNLESS_ROOT("becomes another user");
  temporary_.make("run", 01733);
  const auto directory = open_quietly(path_, RIPC_PEERS_ANY);
  ASSERT_NE(directory, nullptr);
  Child child = listening_child(RIPC_PEERS_ANY, [] { return test::become_nobody(); });
  EXPECT_TRUE(directory->connect(kContext).ok());
}

// ---- Namespaces ----------------------------------------------------------------------------------------------

// In a child of root: enters a new mount namespace in which the runtime directory has another path.
bool move_to_other_mount_namespace(const std::string& from, const std::string& to) {
  return ::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount(from.c_str(), to.c_str(), nullptr, MS_BIND, nullptr) == 0;
}

TEST_F(RuntimeDirectoryProcess, ContextsMeetAcrossMountAndPidNamespaces) {
  SKIP_UNLESS_ROOT("makes namespaces");
  temporary_.make("run", 0700);
  const std::string elsewhere = temporary_.make("elsewhere", 0700);
  const auto directory = open_quietly(path_);
  const Result<UniqueFd> listener = directory->listen(1);
  ASSERT_TRUE(listener.ok());
  const std::string outside = path_;
  path_ = elsewhere;
  Pipe answer;
  Child child([&] {
    if (!move_to_other_mount_namespace(outside, elsewhere) || ::unshare(CLONE_NEWPID) != 0) {
      ready_.put();
      return 77;
    }
    return run_in_child([&] {
      CHILD_CHECK(::getpid() == 1);  // in the new PID namespace
      // As in a container: /proc shows this namespace only.
      CHILD_CHECK(::mount("proc", "/proc", "proc", 0, nullptr) == 0);
      const auto own = open_quietly(elsewhere);
      CHILD_CHECK(own != nullptr);
      const Result<UniqueFd> socket = own->listen(kContext);
      CHILD_CHECK(socket.ok());
      CHILD_CHECK(own->probe(1) == Liveness::alive);
      CHILD_CHECK(own->connect(1).ok());
      CHILD_CHECK(own->sweep() == 0);
      ready_.put();
      CHILD_CHECK(answer.get());
      return 0;
    });
  });
  ASSERT_TRUE(ready_.get());
  const Liveness seen = directory->probe(kContext);
  const bool connected = directory->connect(kContext).ok();
  const std::size_t swept = directory->sweep();
  answer.put();
  const int result = child.wait();
  if (result == 77) GTEST_SKIP() << "this sandbox forbids namespaces";
  EXPECT_EQ(result, 0);
  EXPECT_EQ(seen, Liveness::alive);
  EXPECT_TRUE(connected);
  EXPECT_EQ(swept, 0u);
  EXPECT_EQ(directory->probe(kContext), Liveness::dead);
}

TEST_F(RuntimeDirectoryProcess, WithoutProcAShortPathWorksAndALongOneSaysWhy) {
  SKIP_UNLESS_ROOT("makes namespaces");
  temporary_.make("run", 0700);
  const std::string empty = temporary_.make("empty", 0700);
  const std::string longer = temporary_.make(std::string(120, 'x'), 0700);
  const int result = run_in_child([&] {
    if (!move_to_other_mount_namespace(empty, "/proc")) return 77;
    const auto directory = open_quietly(path_);
    CHILD_CHECK(directory != nullptr);
    const Result<UniqueFd> listener = directory->listen(kContext);
    CHILD_CHECK(listener.ok());
    CHILD_CHECK(directory->connect(kContext).ok());
    CHILD_CHECK(directory->probe(kContext) == Liveness::alive);
    const auto other = open_quietly(longer);
    CHILD_CHECK(other != nullptr);
    const Status status = other->listen(kContext).status();
    CHILD_CHECK(status == RIPC_LIMIT && mentions(status, "/proc"));
    CHILD_CHECK(other->probe(kContext) == Liveness::unknown);
    return 0;
  });
  if (result == 77) GTEST_SKIP() << "this sandbox forbids mount namespaces";
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace ripc::internal::test
