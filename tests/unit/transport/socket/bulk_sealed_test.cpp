// SPDX-License-Identifier: Apache-2.0
// Sealed bytes from and into memory that the application registered, and its end in mid-transfer.
#include <errno.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <algorithm>
#include <thread>

#include "bulk_helpers.hpp"
#include "memory/pool.hpp"
#include "support/forbidden_calls.hpp"

namespace ripc::internal::socket {
namespace {

using testing::BulkPair;
using testing::kMebibyte;
using testing::Pages;
using testing::pattern;

// A sealed session, and the memory of a message on both sides.
class BulkSealed : public ::testing::Test {
 protected:
  ~BulkSealed() override { pair_.reset(); }
  // Responders have what this thread is forbidden.
  void connect() { pair_.emplace(BulkOptions{}, true); }
  wire::Descriptor expose() {
    const std::vector<std::byte> bytes = pattern(source_.bytes().size());
    std::copy(bytes.begin(), bytes.end(), source_.bytes().begin());
    hold_ = pool_.hold(source_.bytes().data(), source_.bytes().size()).value();
    return pair_->sender.expose(source_.bytes(), transfer_, 1, &hold_);
  }
  // As core does.
  spi::Pull pull_into_target(const wire::Descriptor& descriptor) {
    const memory::Hold hold = pool_.hold(target_.bytes().data(), target_.bytes().size()).value();
    return {.descriptor = descriptor, .destination = target_.bytes().data(), .residence = hold.residence()};
  }
  ripc_status transfer() {
    const wire::Descriptor descriptor = expose();
    spi::Pull pull = pull_into_target(descriptor);
    const ripc_status begun = pair_->receiver.begin(descriptor);
    return begun != RIPC_OK ? begun : pair_->receiver.pull(pull);
  }
  void add(Pages& pages) { ASSERT_TRUE(pool_.register_memory(pages.bytes().data(), pages.bytes().size()).ok()); }
  // As a program that unmaps as soon as it may.
  void take_away(Pages& pages) {
    ASSERT_TRUE(pool_.unregister_memory(pages.bytes().data()).ok());
    pages.forbid();
  }
  // Ends `pages` when some of the message is there.
  ripc_status transfer_without(Pages& pages) {
    const wire::Descriptor descriptor = expose();
    spi::Pull pull = pull_into_target(descriptor);
    EXPECT_EQ(pair_->receiver.begin(descriptor), RIPC_OK);
    EXPECT_EQ(pair_->receiver.peer->pull(pull, pair_->receiver.events), RIPC_PENDING);
    while (pair_->receiver.peer->counters().bytes_received < kMebibyte) std::this_thread::yield();
    take_away(pages);
    return pair_->receiver.pull(pull);
  }
  // The connection is as good as before.
  void expect_that_others_travel() {
    const std::vector<std::byte> source = pattern(100'000);
    std::vector<std::byte> target(source.size());
    std::uint64_t transfer = 0;
    EXPECT_EQ(pair_->receiver.take(pair_->sender.expose(source, transfer), target.data()), RIPC_OK);
    EXPECT_EQ(source, target);
    EXPECT_EQ(pair_->receiver.peer->counters().connections_lost, 0u);
  }

  memory::Pool pool_{kMebibyte};
  Pages source_{64 * kMebibyte};
  Pages target_{64 * kMebibyte};
  memory::Hold hold_;
  std::uint64_t transfer_ = 0;
  std::optional<BulkPair> pair_;
};

TEST_F(BulkSealed, RegisteredMemoryTakesNoCheckedCopyOnEitherSide) {
  bool is_forbidden = false;
  std::array<ripc_status, 4> outcomes{};
  // What the kernel is asked to copy is missing, then.
  std::thread([&] {
    is_forbidden = support::forbid({SYS_process_vm_readv, SYS_process_vm_writev}, EFAULT);
    if (!is_forbidden) return;
    for (std::size_t registered = 0; registered < outcomes.size(); ++registered) {
      if ((registered & 1) != 0) add(source_);
      if ((registered & 2) != 0) add(target_);
      connect();
      outcomes[registered] = transfer();
      pair_.reset();
      if ((registered & 1) != 0) (void)pool_.unregister_memory(source_.bytes().data());
      if ((registered & 2) != 0) (void)pool_.unregister_memory(target_.bytes().data());
    }
  }).join();
  if (!is_forbidden) GTEST_SKIP() << "the kernel takes no seccomp filter";
  EXPECT_EQ(outcomes[0], RIPC_CANCELLED);
  EXPECT_EQ(outcomes[1], RIPC_CANCELLED) << "the target is not registered";
  EXPECT_EQ(outcomes[2], RIPC_CANCELLED) << "the source is not registered";
  EXPECT_EQ(outcomes[3], RIPC_OK);
  EXPECT_TRUE(std::equal(source_.bytes().begin(), source_.bytes().end(), target_.bytes().begin()));
}

TEST_F(BulkSealed, ARegistrationThatEndsInMidPullLeavesTheMemoryToTheProgram) {
  add(target_);
  connect();
  EXPECT_EQ(transfer_without(target_), RIPC_CANCELLED);
  expect_that_others_travel();
}

TEST_F(BulkSealed, AndSoItDoesInMidSend) {
  add(source_);
  connect();
  EXPECT_EQ(transfer_without(source_), RIPC_CANCELLED);
  expect_that_others_travel();
}

TEST_F(BulkSealed, AMessageStillLandsInMemoryThatIsNotRegisteredAnyMoreButMapped) {
  add(source_);
  add(target_);
  connect();
  const wire::Descriptor descriptor = expose();
  spi::Pull pull = pull_into_target(descriptor);
  ASSERT_TRUE(pool_.unregister_memory(source_.bytes().data()).ok());
  ASSERT_TRUE(pool_.unregister_memory(target_.bytes().data()).ok());
  ASSERT_EQ(pair_->receiver.begin(descriptor), RIPC_OK);
  EXPECT_EQ(pair_->receiver.pull(pull), RIPC_OK);
  EXPECT_TRUE(std::equal(source_.bytes().begin(), source_.bytes().end(), target_.bytes().begin()));
}

}  // namespace
}  // namespace ripc::internal::socket
