// SPDX-License-Identifier: Apache-2.0
#include "base/fork_guard.hpp"

#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "process_helpers.hpp"

namespace ripc::internal::test {
namespace {

struct SocketPair {
  UniqueFd near, far;
  SocketPair() {
    int fds[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    near.reset(fds[0]);
    far.reset(fds[1]);
    const timeval limit{30, 0};
    ::setsockopt(far.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  // Waits until no one holds the near end.
  bool far_sees_end() const {
    char byte = 0;
    return ::recv(far.get(), &byte, 1, 0) == 0;
  }
};

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

bool is_socket(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode);
}

TEST(ForkGuard, TheGenerationChangesInAChildAndStaysInTheParent) {
  const std::uint64_t before = ForkGuard::generation();
  EXPECT_EQ(run_in_child([&] {
              const std::uint64_t child = ForkGuard::generation();
              CHILD_CHECK(child != before);
              return run_in_child(
                  [&] { return ForkGuard::generation() != child && ForkGuard::generation() != before ? 0 : 1; });
            }),
            0);
  EXPECT_EQ(ForkGuard::generation(), before);
}

TEST(ForkGuard, ARegisteredSocketEndsWithTheParentThoughTheChildLives) {
  SocketPair sockets;
  Pipe hold;
  ForkGuard guard(sockets.near.get());
  ASSERT_TRUE(guard);
  Child child([&] {
    hold.close_write();
    hold.get();
    return 0;
  });
  guard.close(sockets.near);
  EXPECT_FALSE(guard);
  EXPECT_FALSE(sockets.near);
  EXPECT_TRUE(sockets.far_sees_end());
  hold.close_write();
  EXPECT_EQ(child.wait(), 0);
}

TEST(ForkGuard, ADescriptorThatIsNotRegisteredStaysOpenInTheChild) {
  SocketPair sockets;
  SocketPair registered;
  const ForkGuard guard(registered.near.get());
  EXPECT_EQ(run_in_child([&] { return is_socket(sockets.near.get()) && !is_socket(registered.near.get()) ? 0 : 1; }),
            0);
}

TEST(ForkGuard, EndingTheRegistrationLeavesTheDescriptorOpenEverywhere) {
  SocketPair sockets;
  ForkGuard guard(sockets.near.get());
  guard.reset();
  EXPECT_FALSE(guard);
  EXPECT_TRUE(is_socket(sockets.near.get()));
  EXPECT_EQ(run_in_child([&] { return is_socket(sockets.near.get()) ? 0 : 1; }), 0);
}

TEST(ForkGuard, MovingAGuardMovesTheRegistration) {
  SocketPair first, second;
  ForkGuard guard(first.near.get());
  ForkGuard other(std::move(guard));
  EXPECT_FALSE(guard);  // NOLINT: what a moved-from guard is, is part of its promise
  EXPECT_EQ(run_in_child([&] { return is_socket(first.near.get()) ? 1 : 0; }), 0);
  other = ForkGuard(second.near.get());
  EXPECT_EQ(run_in_child([&] { return is_socket(first.near.get()) && !is_socket(second.near.get()) ? 0 : 1; }), 0);
}

TEST(ForkGuard, InTheChildTheNumberStaysTakenAndInert) {
  SocketPair sockets;
  const int fd = sockets.near.get();
  ForkGuard guard(fd);
  EXPECT_EQ(run_in_child([&] {
              CHILD_CHECK(is_open(fd) && !is_socket(fd));
              CHILD_CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
              char byte = 0;
              CHILD_CHECK(::read(fd, &byte, 1) < 0 && errno == EBADF);
              CHILD_CHECK(::write(fd, "x", 1) < 0 && errno == EBADF);
              const UniqueFd next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
              CHILD_CHECK(next && next.get() != fd);
              // The copies of the parent's objects may be destroyed in any order.
              guard.reset();
              sockets.near.reset();
              CHILD_CHECK(!is_open(fd));
              return 0;
            }),
            0);
  EXPECT_TRUE(is_socket(fd));
}

TEST(ForkGuard, ACopiedGuardInTheChildDoesNotTouchTheChildsOwnRegistrations) {
  SocketPair sockets;
  ForkGuard guard(sockets.near.get());
  EXPECT_EQ(run_in_child([&] {
              SocketPair own;
              const ForkGuard own_guard(own.near.get());
              guard.reset();
              return run_in_child([&] { return is_socket(own.near.get()) ? 1 : 0; });
            }),
            0);
}

TEST(ForkGuard, TheChildGivesUpSocketsEvenWithoutAFreeDescriptor) {
  EXPECT_EQ(run_in_child([] {
              SocketPair first, second;
              ForkGuard one(first.near.get()), two(second.near.get());
              test::fill_descriptor_table();
              CHILD_CHECK(run_in_child([&] {
                            CHILD_CHECK(!is_socket(first.near.get()) && !is_socket(second.near.get()));
                            CHILD_CHECK(is_open(first.near.get()) && is_open(second.near.get()));
                            return 0;
                          }) == 0);
              CHILD_CHECK(is_socket(first.near.get()) && is_socket(second.near.get()));
              return 0;
            }),
            0);
}

TEST(ForkGuard, AnOfdLockEndsWithTheParentThoughTheChildLives) {
  TemporaryDirectory directory;
  const std::string path = directory / "file";
  ForkGuard guard;
  UniqueFd fd = ForkGuard::open(guard, [&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600); });
  ASSERT_TRUE(fd);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  ASSERT_EQ(::fcntl(fd.get(), F_OFD_SETLK, &lock), 0);
  const UniqueFd other(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_NE(::fcntl(other.get(), F_OFD_SETLK, &lock), 0);
  Pipe ready, hold;
  Child child([&] {
    hold.close_write();
    ready.put();
    hold.get();
    return 0;
  });
  ASSERT_TRUE(ready.get());
  guard.close(fd);  // closes without unlocking: only the last descriptor ends an OFD lock
  EXPECT_EQ(::fcntl(other.get(), F_OFD_SETLK, &lock), 0);
  hold.close_write();
  EXPECT_EQ(child.wait(), 0);
}

TEST(ForkGuard, OpenReportsTheErrorOfTheCallAndRegistersNothing) {
  ForkGuard guard;
  const UniqueFd fd = ForkGuard::open(guard, [] { return ::open("/does/not/exist", O_RDONLY | O_CLOEXEC); });
  EXPECT_EQ(errno, ENOENT);
  EXPECT_FALSE(fd);
  EXPECT_FALSE(guard);
}

// No fork happens between opening a descriptor and registering it, or between unregistering and closing it.
TEST(ForkGuard, NoForkFallsBetweenOpeningOrClosingAndTheRegistration) {
  std::vector<int> sockets_before;
  for (int fd = 0; fd < 256; ++fd) {
    if (is_socket(fd)) sockets_before.push_back(fd);
  }
  std::atomic<bool> stop{false};
  std::atomic<int> opened{0};
  std::thread opener([&] {
    while (!stop) {
      ForkGuard guard;
      UniqueFd fd = ForkGuard::open(guard, [] { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); });
      if (fd) ++opened;
      guard.close(fd);
    }
  });
  while (opened == 0) std::this_thread::yield();
  int leaks = 0;
  for (int round = 0; round < 100; ++round) {
    leaks += run_in_child([&] {
      for (int fd = 0; fd < 256; ++fd) {
        const bool was_there = std::find(sockets_before.begin(), sockets_before.end(), fd) != sockets_before.end();
        if (is_socket(fd) && !was_there) return 1;
      }
      return 0;
    });
  }
  stop = true;
  opener.join();
  EXPECT_EQ(leaks, 0);
}

}  // namespace
}  // namespace ripc::internal::test
