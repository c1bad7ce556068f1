// SPDX-License-Identifier: Apache-2.0
// An application forks while a device reads and writes its memory. The pages stay those of the parent, whatever the
// child does with its copies.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "nodes.hpp"
#include "support/waiting.hpp"

namespace ripc::internal::verbs {
namespace {

constexpr std::size_t kForkedBytes = std::size_t{16} << 20;

class Forked : public Nodes {
 protected:
  // Starts a process that does `work` and ends.
  static pid_t start(const std::function<void()>& work) {
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      work();
      ::_exit(0);
    }
    return child;
  }
  static void await(pid_t child) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  // Transfers an item of the client into a window of the server; `meanwhile` runs when the transfer has begun.
  void transfer(std::byte fill, const std::function<void()>& meanwhile) {
    std::fill(bytes_.begin(), bytes_.end(), fill);
    std::fill(window_.begin(), window_.end(), std::byte{0});
    const std::size_t received = sink_.packets.size();
    ASSERT_EQ(send(8, 'a'), RIPC_OK);
    ASSERT_NO_FATAL_FAILURE(receive(received + 1));
    LongItem item;
    ASSERT_NO_FATAL_FAILURE(item.begin(*client_, *channel_, *sink_.source, bytes_, window_.data()));
    spi::Pull& pull = item.pull;
    ASSERT_EQ(sink_.source->pull(pull), RIPC_PENDING);
    meanwhile();
    EXPECT_TRUE(support::eventually([&] { return sink_.source->pull(pull) != RIPC_PENDING; }));
    EXPECT_EQ(pull.status, RIPC_OK);
    EXPECT_EQ(window_, bytes_);
    EXPECT_TRUE(support::eventually([&] { return sink_.source->finish(pull.descriptor, RIPC_OK) == RIPC_OK; }));
    EXPECT_EQ(outcome_of(item.transfer), RIPC_OK);
  }

  std::vector<std::byte> bytes_ = std::vector<std::byte>(kForkedBytes), window_ = std::vector<std::byte>(kForkedBytes);
};

TEST_F(Forked, AChildThatWritesToAllTheMemoryAndEndsChangesNothing) {
  // The second time the memory is kept registered.
  for (const int round : {1, 2, 3}) {
    SCOPED_TRACE(round);
    pid_t child = -1;
    ASSERT_NO_FATAL_FAILURE(transfer(std::byte(round), [&] {
      child = start([this] {
        std::fill(bytes_.begin(), bytes_.end(), std::byte{0xee});
        std::fill(window_.begin(), window_.end(), std::byte{0xee});
      });
      await(child);
    }));
  }
}

TEST_F(Forked, AChildThatLivesOnSharesNothingWithTheDevice) {
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  pid_t child = -1;
  ASSERT_NO_FATAL_FAILURE(transfer(std::byte{1}, [&] {
    child = start([&] {
      ::close(pipe_ends[1]);
      char end = 0;
      (void)!::read(pipe_ends[0], &end, 1);
    });
  }));
  // The device sends what was written after the fork.
  ASSERT_NO_FATAL_FAILURE(transfer(std::byte{2}, [] {}));
  ASSERT_NO_FATAL_FAILURE(transfer(std::byte{3}, [] {}));
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
  ASSERT_NO_FATAL_FAILURE(await(child));
  ASSERT_NO_FATAL_FAILURE(transfer(std::byte{4}, [] {}));
}

TEST_F(Forked, AChildThatRunsAnotherProgramDisturbsNoOne) {
  for (const int round : {1, 2}) {
    ASSERT_NO_FATAL_FAILURE(transfer(std::byte(round), [&] {
      const pid_t child = start([] { (void)::execlp("true", "true", nullptr); });
      await(child);
    }));
  }
  const std::size_t received = sink_.packets.size();
  for (int count = 0; count < 200; ++count) {
    if (count % 50 == 0) {
      const pid_t child = start([] { (void)::execlp("true", "true", nullptr); });
      await(child);
    }
    ASSERT_EQ(send(300, static_cast<char>('a' + count % 26)), RIPC_OK);
    ASSERT_NO_FATAL_FAILURE(receive(received + static_cast<std::size_t>(count) + 1));
    EXPECT_EQ(sink_.packets.back(), std::string(300, static_cast<char>('a' + count % 26)));
  }
}

}  // namespace
}  // namespace ripc::internal::verbs
