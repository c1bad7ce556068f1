// SPDX-License-Identifier: Apache-2.0
#include "base/runtime_directory.hpp"

#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <thread>

#include "base/random.hpp"
#include "process_helpers.hpp"

namespace ripc::internal::test {
namespace {

using Names = std::vector<std::string>;

std::string name_of(std::uint64_t context) { return RuntimeDirectory::file_name(context).data(); }

std::shared_ptr<RuntimeDirectory> open_directory(const std::string& path, std::uint32_t policy = RIPC_PEERS_SAME_USER) {
  Result<std::shared_ptr<RuntimeDirectory>> directory = RuntimeDirectory::open(path.c_str(), policy);
  EXPECT_TRUE(directory.ok()) << directory.status().text();
  return directory.ok() ? *directory : nullptr;
}

// Leaves behind the socket of a dead context.
std::uint64_t leave_dead_context(RuntimeDirectory& directory) {
  const std::uint64_t context = random_u64();
  EXPECT_TRUE(directory.listen(context).ok());
  return context;
}

class RuntimeDirectoryTest : public ::testing::Test {
 protected:
  const TemporaryDirectory temporary_;
  const std::string path_ = temporary_ / "run";
  const std::string contexts_ = path_ + "/contexts";
};

// ---- Opening -------------------------------------------------------------------------------------------------

TEST_F(RuntimeDirectoryTest, AMissingDirectoryIsMadeWithItsSubdirectories) {
  const auto directory = open_directory(path_);
  ASSERT_NE(directory, nullptr);
  EXPECT_EQ(directory->path(), path_);
  EXPECT_EQ(mode_of(path_), 0700u);
  EXPECT_EQ(names_in(path_), (Names{"contexts", "services"}));
  EXPECT_EQ(mode_of(contexts_), 0700u);
  EXPECT_EQ(mode_of(path_ + "/services"), 0700u);
}

TEST_F(RuntimeDirectoryTest, SubdirectoriesGetThePermissionBitsOfTheDirectoryWhateverTheUmask) {
  for (const mode_t mode : {01777u, 02770u, 0755u, 0700u}) {
    const std::string path = temporary_.make("mode" + std::to_string(mode), mode);
    EXPECT_EQ(run_in_child([&] {
                ::umask(0077);
                return open_directory(path) != nullptr ? 0 : 1;
              }),
              0);
    EXPECT_EQ(mode_of(path + "/contexts"), mode);
    EXPECT_EQ(mode_of(path + "/services"), mode);
  }
}

TEST_F(RuntimeDirectoryTest, SubdirectoriesGetTheGroupOfTheDirectory) {
  SKIP_UNLESS_ROOT("gives a directory to another group");
  const std::string path = temporary_.make("group", 0770);
  ASSERT_EQ(::chown(path.c_str(), 0, test::kNobody), 0);
  ASSERT_NE(open_directory(path), nullptr);
  struct stat info {};
  ASSERT_EQ(::stat((path + "/contexts").c_str(), &info), 0);
  EXPECT_EQ(info.st_gid, test::kNobody);
}

TEST_F(RuntimeDirectoryTest, SubdirectoriesThatAreThereStayAsTheyAre) {
  temporary_.make("run", 0755);
  temporary_.make("run/contexts", 01733);
  temporary_.make("run/services", 01777);
  const auto directory = open_directory(path_);
  ASSERT_NE(directory, nullptr);
  EXPECT_EQ(mode_of(contexts_), 01733u);
  EXPECT_EQ(mode_of(path_ + "/services"), 01777u);
}

TEST_F(RuntimeDirectoryTest, ManyProcessesMayOpenAMissingDirectoryAtOnce) {
  Pipe start;
  std::vector<Child> children;
  for (int i = 0; i < 8; ++i) {
    children.emplace_back([&] {
      start.close_write();
      start.get();
      const auto directory = RuntimeDirectory::open(path_.c_str(), RIPC_PEERS_SAME_USER);
      if (!directory.ok()) return 1;
      const Result<UniqueFd> socket = (*directory)->listen(static_cast<std::uint64_t>(::getpid()));
      return socket.ok() && (*directory)->probe(static_cast<std::uint64_t>(::getpid())) == Liveness::alive ? 0 : 2;
    });
  }
  start.close_write();
  for (Child& child : children) EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(names_in(path_), (Names{"contexts", "services"}));
  EXPECT_EQ(names_in(contexts_).size(), children.size());  // all in the same directory
}

TEST_F(RuntimeDirectoryTest, ASubdirectoryThatIsALinkOrAFileIsRefused) {
  temporary_.make("run", 0700);
  ASSERT_EQ(::symlink("/tmp", contexts_.c_str()), 0);
  Result<std::shared_ptr<RuntimeDirectory>> directory = RuntimeDirectory::open(path_.c_str(), RIPC_PEERS_SAME_USER);
  EXPECT_EQ(directory.status().code(), RIPC_PERMISSION);
  EXPECT_TRUE(mentions(directory.status(), contexts_)) << directory.status().text();
  ASSERT_EQ(::unlink(contexts_.c_str()), 0);
  ASSERT_TRUE(UniqueFd(::open(contexts_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)));
  directory = RuntimeDirectory::open(path_.c_str(), RIPC_PEERS_SAME_USER);
  EXPECT_EQ(directory.status().code(), RIPC_PERMISSION);
}

TEST_F(RuntimeDirectoryTest, AnUnknownPolicyIsRefused) {
  EXPECT_EQ(RuntimeDirectory::open(path_.c_str(), 3).status().code(), RIPC_INVALID_ARGUMENT);
  EXPECT_NE(::access(path_.c_str(), F_OK), 0);
}

TEST_F(RuntimeDirectoryTest, CleanersOfTemporaryDirectoriesFindItLocked) {
  const auto directory = open_directory(path_);
  const UniqueFd cleaner(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_NE(::flock(cleaner.get(), LOCK_EX | LOCK_NB), 0);
  EXPECT_NE(open_directory(path_), nullptr);  // but other contexts can still open it
}

TEST_F(RuntimeDirectoryTest, FileNamesAreSixteenLowerCaseHexadecimalDigits) {
  EXPECT_EQ(name_of(0x00000000deadBEEF), "00000000deadbeef");
  EXPECT_EQ(RuntimeDirectory::number_of("ffffffffffffffff"), UINT64_MAX);
  EXPECT_EQ(RuntimeDirectory::number_of("0000000000000000"), 0u);
  for (const char* name : {"", ".", "..", "fff", "FFFFFFFFFFFFFFFF", "fffffffffffffffff", "0x00000000000000",
                           "+000000000000001", ".new-00000000000", "00000000deadbee "})
    EXPECT_EQ(RuntimeDirectory::number_of(name), std::nullopt) << name;
}

// ---- Sockets -------------------------------------------------------------------------------------------------

TEST_F(RuntimeDirectoryTest, AContextThatListensCanBeConnectedAndExchangesPackets) {
  const auto directory = open_directory(path_);
  const Result<UniqueFd> listener = directory->listen(7);
  ASSERT_TRUE(listener.ok()) << listener.status().text();
  const Result<UniqueFd> client = directory->connect(7);
  ASSERT_TRUE(client.ok()) << client.status().text();
  const UniqueFd server(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  ASSERT_TRUE(server);
  ASSERT_EQ(::send(client->get(), "ab", 2, 0), 2);
  ASSERT_EQ(::send(client->get(), "cd", 2, 0), 2);
  char packet[8];
  EXPECT_EQ(::recv(server.get(), packet, sizeof packet, 0), 2);  // packets keep their boundaries
}

TEST_F(RuntimeDirectoryTest, SocketsDoNotBlockAndCloseOnExec) {
  const auto directory = open_directory(path_);
  const Result<UniqueFd> listener = directory->listen(7);
  const Result<UniqueFd> client = directory->connect(7);
  ASSERT_TRUE(listener.ok() && client.ok());
  for (const int fd : {listener->get(), client->get()}) {
    EXPECT_NE(::fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
  }
}

TEST_F(RuntimeDirectoryTest, TheSocketsPermissionsFollowThePolicyWhateverTheUmask) {
  const std::pair<std::uint32_t, mode_t> policies[] = {
      {RIPC_PEERS_SAME_USER, 0600}, {RIPC_PEERS_SAME_GROUP, 0660}, {RIPC_PEERS_ANY, 0666}};
  for (const auto& [policy, mode] : policies) {
    for (const mode_t mask : {0u, 0022u, 0077u, 0777u}) {
      EXPECT_EQ(run_in_child([&, policy = policy] {
                  const auto directory = open_directory(path_, policy);
                  ::umask(mask);
                  return directory->listen(7).ok() ? 0 : 1;
                }),
                0);
      EXPECT_EQ(mode_of(contexts_ + "/" + name_of(7)), mode) << policy << " " << mask;
      ASSERT_EQ(::unlink((contexts_ + "/" + name_of(7)).c_str()), 0);
    }
  }
}

TEST_F(RuntimeDirectoryTest, ThePathMayBeLongerThanASocketAddress) {
  std::string path = temporary_.path();
  for (int i = 0; i < 10; ++i) {
    path += "/" + std::string(200, static_cast<char>('a' + i));
    ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
  }
  const auto directory = open_directory(path);
  ASSERT_NE(directory, nullptr);
  const Result<UniqueFd> listener = directory->listen(7);
  ASSERT_TRUE(listener.ok()) << listener.status().text();
  EXPECT_TRUE(directory->connect(7).ok());
  EXPECT_EQ(directory->probe(7), Liveness::alive);
}

TEST_F(RuntimeDirectoryTest, ANameIsVisibleOnlyWhenItsSocketListens) {
  constexpr int kContexts = 300;
  const auto directory = open_directory(path_);
  std::atomic<bool> done{false};
  std::vector<UniqueFd> listeners;
  std::thread maker([&] {
    for (std::uint64_t context = 1; context <= kContexts; ++context) {
      Result<UniqueFd> listener = directory->listen(context);
      if (listener.ok()) listeners.push_back(std::move(*listener));
    }
    done = true;
  });
  int refused = 0;
  int seen = 0;
  bool last_round = false;
  while (!last_round) {
    last_round = done;
    for (const std::string& name : names_in(contexts_)) {
      const std::optional<std::uint64_t> context = RuntimeDirectory::number_of(name);
      if (!context) continue;
      ++seen;
      if (!directory->connect(*context).ok() && !(directory->connect(*context).status() == RIPC_AGAIN)) ++refused;
    }
  }
  maker.join();
  EXPECT_EQ(listeners.size(), static_cast<std::size_t>(kContexts));
  EXPECT_GE(seen, kContexts);
  EXPECT_EQ(refused, 0);
}

TEST_F(RuntimeDirectoryTest, NoOneThereIsPeerDead) {
  const auto directory = open_directory(path_);
  const Status never = directory->connect(7).status();
  EXPECT_EQ(never.code(), RIPC_PEER_DEAD);
  const std::uint64_t dead = leave_dead_context(*directory);
  const Status gone = directory->connect(dead).status();
  EXPECT_EQ(gone.code(), RIPC_PEER_DEAD);
  EXPECT_TRUE(mentions(gone, name_of(dead))) << gone.text();
}

TEST_F(RuntimeDirectoryTest, TooManyWaitingConnectionsAreAgainAndRoomComesBack) {
  const auto directory = open_directory(path_);
  const Result<UniqueFd> listener = directory->listen(7);
  ASSERT_TRUE(listener.ok());
  std::vector<UniqueFd> clients;
  Status status;
  while (clients.size() < 700) {
    Result<UniqueFd> client = directory->connect(7);
    if (!client.ok()) {
      status = client.status();
      break;
    }
    clients.push_back(std::move(*client));
  }
  ASSERT_EQ(status.code(), RIPC_AGAIN) << clients.size();
  EXPECT_EQ(directory->probe(7), Liveness::alive);
  const UniqueFd server(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_TRUE(directory->connect(7).ok());
}

TEST_F(RuntimeDirectoryTest, ASocketOfAnotherKindIsCorruptAndItsLivenessUnknown) {
  const auto directory = open_directory(path_);
  const UniqueFd stranger(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  snprintf(address.sun_path, sizeof address.sun_path, "%s/%s", contexts_.c_str(), name_of(7).c_str());
  ASSERT_EQ(::bind(stranger.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(directory->connect(7).status().code(), RIPC_CORRUPT);
  EXPECT_EQ(directory->probe(7), Liveness::unknown);
  EXPECT_EQ(directory->probe(8), Liveness::dead);  // the probing socket is free again
  EXPECT_EQ(directory->sweep(), 0u);
}

TEST_F(RuntimeDirectoryTest, RemoveContextRemovesOnlyThatName) {
  const auto directory = open_directory(path_);
  const Result<UniqueFd> one = directory->listen(1);
  const Result<UniqueFd> two = directory->listen(2);
  ASSERT_TRUE(one.ok() && two.ok());
  directory->remove_context(1);
  directory->remove_context(3);
  EXPECT_EQ(names_in(contexts_), Names{name_of(2)});
}

TEST_F(RuntimeDirectoryTest, ADirectoryDeletedWhileInUseIsNamedAsTheCause) {
  const auto directory = open_directory(path_);
  std::filesystem::remove_all(path_);
  const Status status = directory->listen(7).status();
  EXPECT_EQ(status.code(), RIPC_SYSTEM);
  EXPECT_TRUE(mentions(status, "deleted while in use")) << status.text();
  EXPECT_EQ(directory->connect(7).status().code(), RIPC_PEER_DEAD);
  EXPECT_EQ(directory->sweep(), 0u);
}

TEST_F(RuntimeDirectoryTest, AForkedChildDoesNotKeepItsParentsContextAlive) {
  const auto directory = open_directory(path_);
  ForkGuard guard;
  Result<UniqueFd> listener = directory->listen(7, &guard);
  ASSERT_TRUE(listener.ok());
  EXPECT_TRUE(guard);
  Pipe ready, hold;
  Child child([&] {
    hold.close_write();
    ready.put();
    hold.get();
    return 0;
  });
  ASSERT_TRUE(ready.get());
  EXPECT_EQ(directory->probe(7), Liveness::alive);
  guard.close(*listener);
  EXPECT_EQ(directory->probe(7), Liveness::dead);
  hold.close_write();
  EXPECT_EQ(child.wait(), 0);
}

// ---- Probe ---------------------------------------------------------------------------------------------------

TEST_F(RuntimeDirectoryTest, AContextIsAliveFromListenUntilItsSocketIsClosed) {
  const auto directory = open_directory(path_);
  EXPECT_EQ(directory->probe(7), Liveness::dead);
  {
    const Result<UniqueFd> listener = directory->listen(7);
    EXPECT_EQ(directory->probe(7), Liveness::alive);
  }
  EXPECT_EQ(directory->probe(7), Liveness::dead);
  directory->remove_context(7);
  EXPECT_EQ(directory->probe(7), Liveness::dead);
}

TEST_F(RuntimeDirectoryTest, AProbeIsNotNoticedByTheContext) {
  const auto directory = open_directory(path_);
  const Result<UniqueFd> listener = directory->listen(7);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(directory->probe(7), Liveness::alive);
  EXPECT_LT(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC), 0);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(RuntimeDirectoryTest, ThreadsMayProbeAtOnce) {
  const auto directory = open_directory(path_);
  const Result<UniqueFd> listener = directory->listen(7);
  const std::uint64_t dead = leave_dead_context(*directory);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 2000; ++round) {
        if (directory->probe(7) != Liveness::alive || directory->probe(dead) != Liveness::dead) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// ---- Sweep ---------------------------------------------------------------------------------------------------

TEST_F(RuntimeDirectoryTest, SweepRemovesTheSocketsOfDeadContextsAndKeepsTheLiving) {
  const auto directory = open_directory(path_);
  const Result<UniqueFd> listener = directory->listen(7);
  leave_dead_context(*directory);
  leave_dead_context(*directory);
  EXPECT_EQ(directory->sweep(), 2u);
  EXPECT_EQ(names_in(contexts_), Names{name_of(7)});
  EXPECT_EQ(directory->sweep(), 0u);
  EXPECT_TRUE(directory->connect(7).ok());
}

TEST_F(RuntimeDirectoryTest, SweepRemovesAtOnceWhatAProcessLeftHalfMade) {
  const auto directory = open_directory(path_);
  leave_dead_context(*directory);
  const std::string left = contexts_ + "/" + names_in(contexts_)[0];
  ASSERT_EQ(::rename(left.c_str(), (contexts_ + "/.new-0123456789abcdef").c_str()), 0);
  temporary_.make("run/.new-0123456789abcdef", 0700);
  EXPECT_EQ(directory->sweep(), 2u);
  EXPECT_EQ(names_in(contexts_), Names{});
  EXPECT_EQ(names_in(path_), (Names{"contexts", "services"}));
}

TEST_F(RuntimeDirectoryTest, ASocketThatIsBoundButDoesNotListenYetIsNotSwept) {
  const auto directory = open_directory(path_);
  const UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  snprintf(address.sun_path, sizeof address.sun_path, "%s/.new-0123456789abcdef", contexts_.c_str());
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(directory->sweep(), 0u);
  EXPECT_EQ(names_in(contexts_), Names{".new-0123456789abcdef"});
}

TEST_F(RuntimeDirectoryTest, SweepLeavesAloneWhatIsNotItsOwn) {
  const auto directory = open_directory(path_);
  const Names strangers{"README", "directory", "link"};
  ASSERT_TRUE(UniqueFd(::open((contexts_ + "/README").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)));
  temporary_.make("run/contexts/directory", 0700);
  temporary_.make("run/.new-not-empty", 0700);
  temporary_.make("run/.new-not-empty/something", 0700);
  ASSERT_EQ(::symlink("/nowhere", (contexts_ + "/link").c_str()), 0);
  EXPECT_EQ(directory->sweep(), 0u);
  EXPECT_EQ(names_in(contexts_), strangers);
  EXPECT_EQ(names_in(path_), (Names{".new-not-empty", "contexts", "services"}));
}

TEST_F(RuntimeDirectoryTest, SweepIsNotStoppedByGarbageUnderTheNamesOfContexts) {
  const auto directory = open_directory(path_);
  ASSERT_TRUE(UniqueFd(::open((contexts_ + "/" + name_of(1)).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)));
  ASSERT_EQ(::symlink("/nowhere", (contexts_ + "/" + name_of(2)).c_str()), 0);
  ASSERT_EQ(::symlink(name_of(3).c_str(), (contexts_ + "/" + name_of(3)).c_str()), 0);  // to itself
  ASSERT_EQ(::mkfifo((contexts_ + "/" + name_of(4)).c_str(), 0600), 0);
  temporary_.make("run/contexts/" + name_of(5), 0700);
  const std::uint64_t dead = leave_dead_context(*directory);
  EXPECT_GE(directory->sweep(), 1u);
  EXPECT_NE(::access((contexts_ + "/" + name_of(dead)).c_str(), F_OK), 0);
  for (std::uint64_t context = 1; context <= 5; ++context) EXPECT_NE(directory->probe(context), Liveness::alive);
}

TEST_F(RuntimeDirectoryTest, ContextsCanBeMadeWhileOthersSweep) {
  constexpr std::uint64_t kContexts = 500;
  const auto directory = open_directory(path_);
  std::atomic<bool> stop{false};
  std::vector<std::thread> sweepers;
  for (int i = 0; i < 2; ++i) {
    sweepers.emplace_back([&] {
      while (!stop) directory->sweep();
    });
  }
  std::vector<UniqueFd> listeners;
  for (std::uint64_t context = 1; context <= kContexts; ++context) {
    Result<UniqueFd> listener = directory->listen(context);
    EXPECT_TRUE(listener.ok()) << listener.status().text();
    if (listener.ok()) listeners.push_back(std::move(*listener));
    if (listeners.size() > 20) {
      const std::uint64_t oldest = context - 20;
      EXPECT_EQ(directory->probe(oldest), Liveness::alive);
      directory->remove_context(oldest);
      listeners.erase(listeners.begin());
    }
  }
  stop = true;
  for (std::thread& sweeper : sweepers) sweeper.join();
  directory->sweep();
  EXPECT_EQ(names_in(contexts_).size(), listeners.size());
}

TEST_F(RuntimeDirectoryTest, DirectoriesCanBeOpenedWhileOthersSweep) {
  const auto sweeping = open_directory(path_);
  std::atomic<bool> stop{false};
  std::thread sweeper([&] {
    while (!stop) sweeping->sweep();
  });
  for (int round = 0; round < 100 && !HasFailure(); ++round) {
    EXPECT_EQ(::rmdir((path_ + "/services").c_str()), 0);
    EXPECT_NE(open_directory(path_), nullptr);
  }
  stop = true;
  sweeper.join();
  EXPECT_EQ(names_in(path_), (Names{"contexts", "services"}));
}

}  // namespace
}  // namespace ripc::internal::test
