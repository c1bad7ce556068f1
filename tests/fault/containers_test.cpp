// SPDX-License-Identifier: Apache-2.0
// Tests a service in a container: a process with its own mounts, processes, interfaces, host name and System V objects.
// Peers use shared memory exactly if the container shares their runtime directory.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "fault_support.hpp"
#include "hosts_fixture.hpp"

namespace fault {
namespace {

constexpr const char* kTransports = "shm,socket";
constexpr int kNoContainers = 77;

// Isolates this process, the first of its container, except for what it shares on purpose. False if that fails.
bool furnish(const std::string& directory, bool shared) {
  return mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("proc", "/proc", "proc", 0, nullptr) == 0 && mount("tmpfs", "/dev/shm", "tmpfs", 0, nullptr) == 0 &&
         (shared || mount("tmpfs", directory.c_str(), "tmpfs", 0, "mode=0700") == 0) &&
         sethostname("container", 9) == 0;
}

// The holder's role in a container: arguments DIRECTORY, and "shared" or "own", which says whose runtime directory that
// is. Runs until it is killed. Without arguments: exits with 0 if containers can be made here.
int container(const std::vector<std::string>& arguments) {
  if (unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS) != 0) return kNoContainers;
  const pid_t child = fork();
  if (child < 0) return kNoContainers;
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const std::string directory = arguments.empty() ? "/tmp" : arguments[0];
    if (!furnish(directory, !arguments.empty() && arguments.at(1) == "shared")) _exit(kNoContainers);
    _exit(arguments.empty() ? 0 : holder({directory, kTransports}));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

class Containers : public HostTest {
 protected:
  void SetUp() override {
    HostTest::SetUp();
    if (IsSkipped()) return;
    if (Process("container", {}).wait() != 0) GTEST_SKIP() << "this process may not mount in new namespaces";
    ASSERT_EQ(setenv("RIPC_PEER_TIMEOUT_MS", "1000", 1), 0);
  }
  void start_container(const char* whose) {
    process_ = hosts_.start_there("container", {directory_here_.path(), whose});
  }
  void start_asker() {
    asker_ = std::make_unique<Asker>(directory_here_.path(), kTransports);
    ASSERT_TRUE(asker_->ask()) << ripc_last_error();
  }
  ripc_service_info path() const { return path_to_holder(asker_->context()); }
};

TEST_F(Containers, ThatShareTheRuntimeDirectoryUseSharedMemoryThoughAllElseIsTheirOwn) {
  start_container("shared");
  ASSERT_NO_FATAL_FAILURE(start_asker());
  EXPECT_STREQ(path().transport, "shm") << path().reason;
  ASSERT_NO_FATAL_FAILURE(exchange_long(1));
  // None of this needs the network between the hosts.
  hosts_.plug(false);
  EXPECT_TRUE(asker_->ask()) << ripc_last_error();
  ASSERT_NO_FATAL_FAILURE(exchange_long(3));
}

TEST_F(Containers, WithARuntimeDirectoryOfTheirOwnAreOtherHostsEvenIfItHasTheSameName) {
  start_container("own");
  ASSERT_NO_FATAL_FAILURE(start_asker());
  const ripc_service_info info = path();
  EXPECT_STREQ(info.transport, "socket") << info.reason;
  EXPECT_NE(std::string(info.others).find("shm"), std::string::npos) << "nothing tells why it is not shared memory";
  ASSERT_NO_FATAL_FAILURE(exchange_long(1));
}

TEST_F(Containers, ThatAreReplacedByOneWithAnotherDirectoryAreFollowed) {
  start_container("shared");
  ASSERT_NO_FATAL_FAILURE(start_asker());
  process_.kill();
  start_container("own");
  ASSERT_TRUE(asker_->ask()) << ripc_last_error();
  EXPECT_STREQ(path().transport, "socket") << path().reason;
  process_.kill();
  start_container("shared");
  ASSERT_TRUE(asker_->ask()) << ripc_last_error();
  EXPECT_STREQ(path().transport, "shm") << path().reason;
  ASSERT_NO_FATAL_FAILURE(exchange_long(1));
}

}  // namespace
}  // namespace fault

int main(int argc, char** argv) {
  return fault::run(argc, argv, {{"holder", fault::holder}, {"container", fault::container}});
}
