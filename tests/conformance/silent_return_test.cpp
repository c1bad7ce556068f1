// SPDX-License-Identifier: Apache-2.0
// Return buffers are written without the requester's processor: the requester is stopped meanwhile.
#include <signal.h>
#include <sys/uio.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "peer_host.hpp"
#include "puppet.hpp"

namespace conformance {
namespace {

class SilentReturns : public PairTest {};
CONFORMANCE_SUITE(SilentReturns);

constexpr std::size_t kReturnBytes = std::size_t{96} << 20;

// How many threads of the process are not stopped.
std::size_t running_threads(pid_t process) {
  std::size_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task")) {
    std::ifstream file(task.path() / "stat");
    std::string text;
    std::getline(file, text);
    const std::size_t name_end = text.rfind(") ");
    if (name_end == std::string::npos || text[name_end + 2] != 'T') ++count;
  }
  return count;
}

// Memory of another process.
class Far {
 public:
  Far(pid_t process, std::uintptr_t address) : process_(process), address_(address) {}
  unsigned char at(std::size_t offset) const {
    unsigned char byte = 0;
    EXPECT_TRUE(read(offset, &byte, 1)) << "the process's memory cannot be read";
    return byte;
  }
  bool equals(const Bytes& bytes) const {
    Bytes there(bytes.size());
    return read(0, there.data(), there.size()) && there == bytes;
  }

 private:
  bool read(std::size_t offset, void* to, std::size_t size) const {
    const iovec here{to, size};
    const iovec there{reinterpret_cast<void*>(address_ + offset), size};
    return ::process_vm_readv(process_, &here, 1, &there, 1, 0) == static_cast<ssize_t>(size);
  }

  pid_t process_;
  std::uintptr_t address_;
};

TEST_P(SilentReturns, AWriteGoesOnToItsEndWhileTheRequesterIsStopped) {
  if (!traits().silent_returns) GTEST_SKIP() << "with this transport the requester's process reads what comes";
  if (peer_host() != nullptr) GTEST_SKIP() << "looks at the memory of a process of this machine";
  Bytes data = pattern(kReturnBytes, 18);
  data.front() = data.back() = 0xff;  // the buffer is zero before
  // The requester has to give the right to write first. It is stopped between the first byte and the last, which takes
  // more than one attempt if this machine is busy.
  constexpr int kAttempts = 10;
  bool in_the_midst = false;
  for (int attempt = 0; attempt < kAttempts && !in_the_midst; ++attempt) {
    Puppet puppet(peer_setup());
    ASSERT_EQ(puppet.register_id(77), "RIPC_OK");
    std::istringstream answer(
        puppet.call("request " + std::to_string(server_id()) + " " + std::to_string(kReturnBytes)));
    std::string status;
    std::uintptr_t address = 0;
    answer >> status >> address;
    ASSERT_EQ(status, "RIPC_OK");
    const Far buffer(puppet.pid(), address);
    const Message question = receive(server_);
    std::jthread replier([&] {
      const ripc_item one = item(data, RIPC_ITEM_RETURN);
      EXPECT_EQ(ripc_reply(server_.get(), question.get(), &one, 1, nullptr, nullptr), RIPC_OK) << ripc_last_error();
    });
    const std::uint64_t end = now() + kLimit;
    while (buffer.at(0) == 0 && now() < end) {
    }
    puppet.signal(SIGSTOP);
    ASSERT_TRUE(eventually([&] { return running_threads(puppet.pid()) == 0; }));
    in_the_midst = buffer.at(0) != 0 && buffer.at(kReturnBytes - 1) == 0;
    EXPECT_TRUE(eventually([&] { return buffer.at(kReturnBytes - 1) != 0; })) << "the write waits for the requester";
    EXPECT_TRUE(eventually([&] { return buffer.equals(data); })) << "not all of it is there";
    EXPECT_EQ(running_threads(puppet.pid()), 0u);
    puppet.signal(SIGCONT);
    replier.join();
    EXPECT_EQ(puppet.status_of("receive"), "RIPC_OK");
  }
  EXPECT_TRUE(in_the_midst) << "the requester was never stopped in the midst of a write";
}

}  // namespace
}  // namespace conformance
