// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/process_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include <array>
#include <cstring>
#include <vector>

#include "../../base/process_helpers.hpp"
#include "support/forbidden_calls.hpp"
#include "support/waiting.hpp"

namespace ripc::internal::shm {
namespace {

constexpr std::size_t kPage = 4096;

std::uint64_t address_of(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

// A child with a copy of this process's memory at the same addresses, and the pidfd that a connection would have.
class Peer {
 public:
  Peer() {
    int sockets[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    mine_.reset(sockets[0]);
    its_.reset(sockets[1]);
    for (std::size_t i = 0; i < memory_.size(); ++i) memory_[i] = static_cast<std::byte>(i % 251);
    child_.emplace([this] {
      mine_.reset();
      char byte = 0;
      while (::recv(its_.get(), &byte, 1, 0) == 1) {  // 'c': check what was written; anything else: say it is there
        bool good = true;
        if (byte == 'c') {
          for (const std::byte byte_there : memory_) good &= byte_there == std::byte{0x77};
        }
        byte = good ? 'y' : 'n';
        if (::send(its_.get(), &byte, 1, MSG_NOSIGNAL) != 1) break;
      }
      return 0;
    });
    its_.reset();
    EXPECT_EQ(ask('?'), 'y');
  }

  char ask(char question) {
    char answer = 0;
    EXPECT_EQ(::send(mine_.get(), &question, 1, MSG_NOSIGNAL), 1);
    EXPECT_EQ(::recv(mine_.get(), &answer, 1, 0), 1);
    return answer;
  }
  PeerProcess process() { return of(child_->pid()); }
  // This process made the socket pair, so its credentials name this process. The test uses the process ID instead.
  static PeerProcess of(pid_t pid) {
    return PeerProcess(UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))), pid);
  }
  void end() {
    child_->kill(SIGKILL);
    EXPECT_EQ(child_->wait(), 1000 + SIGKILL);
  }
  std::vector<std::byte>& memory() { return memory_; }

 private:
  std::vector<std::byte> memory_ = std::vector<std::byte>(5 * kPage + 17);
  UniqueFd mine_, its_;
  std::optional<test::Child> child_;
};

TEST(PeerProcess, ReadsThePeersMemory) {
  Peer peer;
  const PeerProcess process = peer.process();
  const std::vector<std::byte> expected = peer.memory();
  std::fill(peer.memory().begin(), peer.memory().end(), std::byte{0});  // ours, not the peer's
  std::vector<std::byte> read(expected.size());
  EXPECT_EQ(process.read(address_of(peer.memory().data()), read), RIPC_OK);
  EXPECT_EQ(read, expected);
}

TEST(PeerProcess, WritesThePeersMemory) {
  Peer peer;
  const PeerProcess process = peer.process();
  EXPECT_EQ(peer.ask('c'), 'n');
  const std::vector<std::byte> bytes(peer.memory().size(), std::byte{0x77});
  EXPECT_EQ(process.write(address_of(peer.memory().data()), bytes), RIPC_OK);
  EXPECT_EQ(peer.ask('c'), 'y');
}

// At some distances within a page, the bytes are copied through memory of this process. Every byte has to arrive there,
// too.
TEST(PeerProcess, MovesEveryByteAtEveryDistanceWithinAPage) {
  constexpr std::size_t kSize = (std::size_t{1} << 20) + 3 * kPage + 5;
  auto* memory = static_cast<std::byte*>(
      ::mmap(nullptr, kSize + kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(memory), MAP_FAILED);
  const PeerProcess process = Peer::of(::getpid());
  std::vector<std::byte> local(kSize + 2 * kPage);
  std::byte* const page = local.data() + (kPage - address_of(local.data()) % kPage) % kPage;
  for (const std::size_t distance : std::to_array<std::size_t>({0, 1, 16, 31, 32, 2048, 4064, 4065, 4095})) {
    for (std::size_t i = 0; i < kSize; ++i) page[i] = static_cast<std::byte>((i * 7 + distance) % 251);
    std::memset(memory, 0, kSize + kPage);
    ASSERT_EQ(process.write(address_of(memory + distance), std::span(page, kSize)), RIPC_OK);
    EXPECT_EQ(std::memcmp(memory + distance, page, kSize), 0) << "written at a distance of " << distance;
    std::memset(page, 0, kSize);
    ASSERT_EQ(process.read(address_of(memory + distance), std::span(page, kSize)), RIPC_OK);
    EXPECT_EQ(std::memcmp(memory + distance, page, kSize), 0) << "read at a distance of " << distance;
  }
  ::munmap(memory, kSize + kPage);
}

TEST(PeerProcess, SaysCancelledWhenTheEndOfEitherMemoryIsGone) {
  constexpr std::size_t kSize = std::size_t{1} << 20;
  const PeerProcess process = Peer::of(::getpid());
  for (const std::size_t distance : std::to_array<std::size_t>({0, 16})) {
    auto* whole = static_cast<std::byte*>(
        ::mmap(nullptr, kSize + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    auto* half = static_cast<std::byte*>(
        ::mmap(nullptr, kSize + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(static_cast<void*>(whole), MAP_FAILED);
    ASSERT_NE(static_cast<void*>(half), MAP_FAILED);
    ASSERT_EQ(::munmap(half + kSize / 2, kSize / 2 + kPage), 0);
    EXPECT_EQ(process.write(address_of(half + distance), std::span(whole, kSize)), RIPC_CANCELLED);
    EXPECT_EQ(process.write(address_of(whole + distance), std::span(half, kSize)), RIPC_CANCELLED);
    EXPECT_EQ(process.read(address_of(half + distance), std::span(whole, kSize)), RIPC_CANCELLED);
    EXPECT_EQ(process.read(address_of(whole), std::span(half + distance, kSize)), RIPC_CANCELLED);
    ::munmap(whole, kSize + kPage);
    ::munmap(half, kSize / 2);
  }
}

TEST(PeerProcess, SaysCancelledForMemoryThatIsNotThere) {
  Peer peer;
  const PeerProcess process = peer.process();
  std::vector<std::byte> bytes(64);
  EXPECT_EQ(process.read(0, bytes), RIPC_CANCELLED);
  EXPECT_EQ(process.read(UINT64_MAX - 4096, bytes), RIPC_CANCELLED);
  EXPECT_EQ(process.write(16, bytes), RIPC_CANCELLED);
}

TEST(PeerProcess, SaysPeerDeadWhenTheProcessIsGone) {
  Peer peer;
  const PeerProcess process = peer.process();
  peer.end();
  std::vector<std::byte> bytes(64);
  EXPECT_EQ(process.read(address_of(peer.memory().data()), bytes), RIPC_PEER_DEAD);
  EXPECT_EQ(process.write(address_of(peer.memory().data()), bytes), RIPC_PEER_DEAD);
}

TEST(PeerProcess, TakesASignalToThisProcessForNoDeathOfThePeer) {
  EXPECT_EQ(test::run_in_child([] {
              const PeerProcess process = Peer::of(::getppid());
              std::array<std::byte, 64> from{};
              std::array<std::byte, 64> to{};
              struct sigaction action {};
              action.sa_handler = [](int) {};
              CHILD_CHECK(::sigaction(SIGALRM, &action, nullptr) == 0);
              const itimerval often{{0, 20}, {0, 20}};
              CHILD_CHECK(::setitimer(ITIMER_REAL, &often, nullptr) == 0);
              for (int count = 0; count < 300'000; ++count)
                CHILD_CHECK(process.read(address_of(from.data()), to) == RIPC_OK);
              return 0;
            }),
            0);
}

TEST(PeerProcess, RefusesAProcessThatIsNotVisible) {
  const PeerProcess process(UniqueFd(), 0);
  std::vector<std::byte> bytes(64);
  EXPECT_EQ(process.read(address_of(bytes.data()), bytes), RIPC_UNSUPPORTED);
  EXPECT_EQ(process.write(address_of(bytes.data()), bytes), RIPC_UNSUPPORTED);
}

TEST(PeerProcess, KnowsWhyItDoesNotReachThePeer) {
  EXPECT_EQ(Peer::of(::getpid()).reach(), Reach::direct);
  EXPECT_EQ(PeerProcess(UniqueFd(), 0).reach(), Reach::not_visible);
  EXPECT_EQ(test::run_in_child([] {
              CHILD_CHECK(::geteuid() != 0 || test::become_nobody());
              const test::Child hidden([] {
                CHILD_CHECK(::prctl(PR_SET_DUMPABLE, 0) == 0);
                return ::pause();
              });
              // It takes the child a moment to hide.
              CHILD_CHECK(support::eventually([&] { return Peer::of(hidden.pid()).reach() == Reach::not_traceable; }));
              CHILD_CHECK(support::forbid({SYS_process_vm_readv, SYS_process_vm_writev}, EPERM));
              CHILD_CHECK(Peer::of(::getpid()).reach() == Reach::no_system_call);
              return 0;
            }),
            0);
}

TEST(OpenPeerProcess, NamesTheProcessAtTheOtherEnd) {
  int sockets[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
  const UniqueFd first(sockets[0]), second(sockets[1]);
  EXPECT_FALSE(open_peer_process(first.get(), 0)) << "not visible from here";
  UniqueFd self = open_peer_process(first.get(), ::getpid());
  ASSERT_TRUE(self);
  const std::array<char, 5> text{"here"};
  std::array<std::byte, 5> read{};
  const PeerProcess process(std::move(self), ::getpid());
  EXPECT_EQ(process.read(address_of(text.data()), read), RIPC_OK);
  EXPECT_EQ(std::memcmp(read.data(), text.data(), text.size()), 0);
}

// Runs in this process or, with its status as the exit code, in a child that may not use process_vm_readv().
void check_copy_own_memory() {
  void* memory = ::mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHILD_CHECK(memory != MAP_FAILED);
  auto* bytes = static_cast<std::byte*>(memory);
  std::memset(bytes, 0x31, 2 * kPage);
  std::vector<std::byte> copy(2 * kPage);
  CHILD_CHECK(copy_own_memory(copy.data(), bytes, copy.size()) == RIPC_OK);
  CHILD_CHECK(copy.back() == std::byte{0x31});
  CHILD_CHECK(copy_own_memory(copy.data(), bytes, 0) == RIPC_OK);
  CHILD_CHECK(::munmap(bytes + kPage, kPage) == 0);
  CHILD_CHECK(copy_own_memory(copy.data(), bytes, kPage) == RIPC_OK);
  CHILD_CHECK(copy_own_memory(copy.data(), bytes, 2 * kPage) == RIPC_CANCELLED);
  CHILD_CHECK(copy_own_memory(copy.data(), bytes + kPage, 1) == RIPC_CANCELLED);
  ::munmap(bytes, kPage);
  // More than a pipe holds.
  std::vector<std::byte> from(std::size_t{1} << 20);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i % 251);
  std::vector<std::byte> to(from.size());
  CHILD_CHECK(copy_own_memory(to.data(), from.data(), from.size()) == RIPC_OK);
  CHILD_CHECK(to == from);
}

TEST(CopyOwnMemory, SaysCancelledInsteadOfAFault) {
  EXPECT_EQ(test::run_in_child([] {
              check_copy_own_memory();
              return 0;
            }),
            0);
}

TEST(CopyOwnMemory, WorksWhereNoProcessMayBeRead) {
  for (const int error : {EPERM, ENOSYS}) {
    EXPECT_EQ(test::run_in_child([error] {
                CHILD_CHECK(support::forbid({SYS_process_vm_readv, SYS_process_vm_writev}, error));
                std::byte from{1};
                std::byte to{0};
                const PeerProcess self = Peer::of(::getpid());
                CHILD_CHECK(self.read(address_of(&from), std::span(&to, 1)) == RIPC_UNSUPPORTED);
                check_copy_own_memory();
                return 0;
              }),
              0);
  }
}

TEST(CopyOwnMemory, WorksForAProcessThatNoOneMayTrace) {
  EXPECT_EQ(test::run_in_child([] {
              CHILD_CHECK(::geteuid() != 0 || test::become_nobody());
              CHILD_CHECK(::prctl(PR_SET_DUMPABLE, 0) == 0);
              CHILD_CHECK(support::forbid({SYS_process_vm_readv, SYS_process_vm_writev}, EPERM));
              check_copy_own_memory();
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace ripc::internal::shm
