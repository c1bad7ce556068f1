// SPDX-License-Identifier: Apache-2.0
// What happens to long items when a process may lock little memory, over a real device. Each test goes on in its own
// process, which has no right to lock more.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <vector>

#include "altered_device.hpp"
#include "nodes.hpp"

namespace ripc::internal::verbs {
namespace {

constexpr std::size_t kMebibyte = 1 << 20;
constexpr std::size_t kLockedBytes = 64 << 10;
constexpr int kCannotRun = 77;

class LockedMemory : public Nodes {
 protected:
  void SetUp() override {
    std::error_code error;
    if (std::filesystem::is_empty("/sys/class/infiniband", error) || error) GTEST_SKIP() << "there is no RDMA device";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }

  // Limits how much all registered memory may take from now on.
  static void limit(std::size_t bytes) {
    const rlimit allowed{.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
    ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &allowed), 0);
  }
  static void lose_the_right_to_lock_more() {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
    ASSERT_EQ(::syscall(SYS_capget, &header, sets), 0);
    sets[CAP_TO_INDEX(CAP_IPC_LOCK)].effective &= ~CAP_TO_MASK(CAP_IPC_LOCK);
    ASSERT_EQ(::syscall(SYS_capset, &header, sets), 0);
  }
  // Runs in the new process.
  [[noreturn]] void go_on(const std::function<void()>& test) {
    limit(1024 * kMebibyte);
    lose_the_right_to_lock_more();
    if (!HasFailure()) Nodes::SetUp();
    if (!HasFailure() && !IsSkipped()) test();
    // Nothing else prints the failures of this process.
    const testing::TestResult& result = *testing::UnitTest::GetInstance()->current_test_info()->result();
    for (int part = 0; part < result.total_part_count(); ++part)
      std::fprintf(stderr, "%s\n", result.GetTestPartResult(part).message());
    ::_exit(HasFailure() ? 1 : IsSkipped() ? kCannotRun : 0);
  }

  static bool ended_well(int status) {
    return WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == kCannotRun);
  }

  // How a transfer of an item of the client into the server's window ends: what the ticket and the receiver get.
  struct Outcome {
    ripc_status sender = RIPC_PENDING;
    ripc_status receiver = RIPC_PENDING;
    bool is_whole = false;
  };
  Outcome transfer(std::span<std::byte> bytes, std::byte* window) {
    Outcome outcome;
    const Result<memory::Hold> hold = client_->pool().hold(bytes.data(), bytes.size());
    const spi::Exposure exposure{.bytes = bytes, .hold = hold.ok() ? &*hold : nullptr};
    wire::Descriptor descriptor{};
    std::uint64_t number = 0;
    EXPECT_EQ(channel_->expose(std::span(&exposure, 1), std::span(&descriptor, 1), number), RIPC_OK);
    test::flush(*channel_);
    EXPECT_EQ(sink_.source->begin(std::span(&descriptor, 1)), RIPC_OK);
    spi::Pull pull{.descriptor = descriptor, .destination = window};
    const Deadline deadline = Deadline::after(kLimit);
    while (sink_.source->pull(pull) == RIPC_PENDING && !deadline.expired()) {
    }
    outcome.receiver = pull.status;
    outcome.is_whole = std::equal(bytes.begin(), bytes.end(), window);
    while (sink_.source->finish(descriptor, pull.status) == RIPC_PENDING && !deadline.expired()) {
    }
    outcome.sender = outcome_of(number);
    return outcome;
  }
  // Afterwards, both sides have registered what they need for small items, and there is a connection.
  void begin() {
    ASSERT_EQ(send(8, 'a'), RIPC_OK);
    ASSERT_NO_FATAL_FAILURE(receive(1));
    bytes_ = {client_->pool().lease(kLockedBytes).value(), kLockedBytes};
    window_ = server_->pool().lease(kLockedBytes).value();
    std::fill(bytes_.begin(), bytes_.end(), std::byte{1});
    ASSERT_EQ(transfer(bytes_, window_).sender, RIPC_OK);
  }

  std::span<std::byte> bytes_;
  std::byte* window_ = nullptr;
};

TEST_F(LockedMemory, ThatIsShortForASenderEndsItsTicketWithAStatusOfItsOwn) {
  EXPECT_EXIT(go_on([this] {
                if (devices_->devices().front()->iwarp)
                  GTEST_SKIP() << "the receiver registers for each read, and first";
                begin();
                limit(0);
                std::vector<std::byte> bytes(kLockedBytes, std::byte{2});
                const Outcome outcome = transfer(bytes, window_);
                EXPECT_EQ(outcome.sender, RIPC_LIMIT);
                EXPECT_NE(outcome.receiver, RIPC_OK);
                limit(1024 * kMebibyte);
                EXPECT_EQ(transfer(bytes, window_).sender, RIPC_OK);
                EXPECT_EQ(client_->transport().bulks().front()->connections_made(), 1u);
              }),
              ended_well, "");
}

TEST_F(LockedMemory, ThatIsShortForAReceiverFailsTheItem) {
  EXPECT_EXIT(go_on([this] {
                begin();
                limit(0);
                std::vector<std::byte> window(kLockedBytes);
                const Outcome outcome = transfer(bytes_, window.data());
                EXPECT_EQ(outcome.receiver, RIPC_NO_MEMORY);
                EXPECT_EQ(outcome.sender, RIPC_NO_MEMORY);
              }),
              ended_well, "");
}

TEST_F(LockedMemory, ThatIsLessThanAnArenaIsEnoughForLeasedItems) {
  EXPECT_EXIT(go_on([this] {
                limit(48 * kMebibyte);
                begin();
                EXPECT_TRUE(transfer(bytes_, window_).is_whole);
                // The same on devices that register whole arenas for their windows.
                const memory::Hold hold = client_->pool().hold(bytes_.data(), bytes_.size()).value();
                ASSERT_GT(hold.arena()->size, 48 * kMebibyte);
                memory::Pool& pool = client_->pool();
                Registrar registrar(with_narrow_windows(devices_->devices().front()), pool);
                const Result<RegionPointer> region = registrar.for_window(bytes_.data(), bytes_.size(), hold.arena());
                ASSERT_TRUE(region.ok()) << region.status().text();
                EXPECT_EQ((*region)->mr()->length, kLockedBytes);
                EXPECT_EQ(registrar.arena(*hold.arena()).status().code(), RIPC_NO_MEMORY);
              }),
              ended_well, "");
}

TEST_F(LockedMemory, ThatOnlyPartsUseGivesWayToAnArena) {
  EXPECT_EXIT(go_on([this] {
                memory::Pool pool(std::uint64_t{512} * kMebibyte);
                Registrar registrar(devices_->devices().front(), pool);
                std::byte* const lease = pool.lease(16 * kMebibyte).value();
                const memory::Hold hold = pool.hold(lease, 16 * kMebibyte).value();
                // The registrar keeps parts of an arena that cannot be registered as a whole.
                limit(32 * kMebibyte);
                ASSERT_FALSE(registrar.arena(*hold.arena()).ok());
                ASSERT_TRUE(registrar.local(lease, 16 * kMebibyte, false).ok());
                const Registrations made(*devices_);
                ASSERT_TRUE(registrar.local(lease, 16 * kMebibyte, false).ok());
                ASSERT_EQ(made.count(), 0u);
                memory::Pool other(std::uint64_t{512} * kMebibyte);
                std::byte* const small = other.lease(kMebibyte).value();
                const memory::Hold next = other.hold(small, kMebibyte).value();
                limit(next.arena()->size + 12 * kMebibyte);
                memory::Arena arena = *next.arena();
                arena.id = hold.arena()->id + 1;
                const Result<RegionPointer> whole = registrar.arena(arena);
                EXPECT_TRUE(whole.ok()) << whole.status().text();
              }),
              ended_well, "");
}

}  // namespace
}  // namespace ripc::internal::verbs
