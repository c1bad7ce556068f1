// SPDX-License-Identifier: Apache-2.0
// Sealed bytes from and into memory that the application registered, and registrations that end in mid-transfer.
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
using testing::RawEnd;
using testing::Side;

// A sealed session, and the memory of a message on both sides.
class BulkSealed : public ::testing::Test {
 protected:
  ~BulkSealed() override { pair_.reset(); }
  // The new responders inherit what this thread is forbidden.
  void connect() { pair_.emplace(BulkOptions{}, true); }
  wire::Descriptor expose() {
    const std::vector<std::byte> bytes = pattern(source_.bytes().size());
    std::copy(bytes.begin(), bytes.end(), source_.bytes().begin());
    hold_ = pool_.hold(source_.bytes().data(), source_.bytes().size()).value();
    return pair_->sender.expose(source_.bytes(), transfer_, 1, &hold_);
  }
  // A pull as core makes it.
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
  // Takes the memory away as a program does that unmaps it as soon as it may.
  void take_away(Pages& pages) {
    ASSERT_TRUE(pool_.unregister_memory(pages.bytes().data()).ok());
    pages.forbid();
  }
  // Takes `pages` away when some of the message is there.
  ripc_status transfer_without(Pages& pages) {
    const wire::Descriptor descriptor = expose();
    spi::Pull pull = pull_into_target(descriptor);
    EXPECT_EQ(pair_->receiver.begin(descriptor), RIPC_OK);
    EXPECT_EQ(pair_->receiver.peer->pull(pull, pair_->receiver.events), RIPC_PENDING);
    while (pair_->receiver.peer->counters().bytes_received < kMebibyte) std::this_thread::yield();
    take_away(pages);
    return pair_->receiver.pull(pull);
  }
  // The connection still works.
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
  // These calls fail as if the memory that the kernel is asked to copy were missing.
  std::thread([&] {
    is_forbidden = support::forbid({SYS_pwrite64, SYS_pread64, SYS_process_vm_readv, SYS_process_vm_writev}, EFAULT);
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

TEST_F(BulkSealed, ARegistrationThatEndsInMidSendLeavesTheMemoryToTheProgram) {
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

// An attacker on the path of a bulk connection to an end that has exposed an item.
class BulkAttack : public ::testing::Test {
 protected:
  using Records = std::vector<std::byte>;

  BulkAttack() : path_(connect(side_, sealing_)) {
    const wire::Descriptor item = side_.expose(source_, transfer_);
    request_ = {.type = wire::bulk::Type::pull_request,
                .length = static_cast<std::uint32_t>(source_.size()),
                .id = 7,
                .key = item.key,
                .location = item.location};
  }
  static RawEnd connect(Side& side, const remote::Sealing& sealing) {
    auto [near, far] = tcp_pair();
    remote::SecureSocket own(std::move(far));
    sealing.protect_two(own);
    side.peer->adopt(std::move(own));
    return RawEnd(std::move(near));
  }
  // The first requests for the item that one of the ends that seal this way sends, each in a record.
  Records sealed(const remote::Sealing& sealing, int count, bool by_first_end = true) const {
    auto [near, far] = tcp_pair();
    remote::SecureSocket sender(std::move(near));
    by_first_end ? sealing.protect_one(sender) : sealing.protect_two(sender);
    std::array<std::byte, wire::bulk::kHeaderSize> bytes;
    encode(request_, std::span(bytes));
    for (int sent = 0; sent < count; ++sent) EXPECT_EQ(sender.send(bytes.data(), bytes.size()), std::ssize(bytes));
    Records records(static_cast<std::size_t>(count) * kRecord);
    EXPECT_TRUE(RawEnd(std::move(far)).read(records));
    return records;
  }
  std::uint64_t forged() const { return security::Counters::read(sealing_.counters->packets_forged); }
  void expect_nothing_but_the_end_of(const Records& records, std::uint64_t forged_ones) {
    ASSERT_TRUE(path_.write(records));
    if (forged_ones == 0) path_.close();
    ASSERT_TRUE(side_.await_lost(1));
    EXPECT_EQ(forged(), forged_ones);
    EXPECT_EQ(side_.peer->counters().bytes_sent, 0U) << "nothing was answered";
    EXPECT_EQ(side_.peer->transfer_status(transfer_), RIPC_PENDING);
    // The item is still there over another connection.
    const remote::Sealing other;
    RawEnd honest = connect(side_, other);
    ASSERT_TRUE(honest.write(sealed(other, 1)));
    Records answer(1);
    EXPECT_TRUE(honest.read(answer));
    EXPECT_EQ(security::Counters::read(other.counters->packets_forged), 0U);
  }

  static constexpr std::size_t kRecord = wire::bulk::kHeaderSize + security::kRecordOverhead;
  const remote::Sealing sealing_;
  const std::vector<std::byte> source_ = pattern(1000);
  Side side_;
  RawEnd path_;
  std::uint64_t transfer_ = 0;
  wire::bulk::Frame request_;
};

TEST_F(BulkAttack, AForgedRecordEndsTheConnectionAndIsCounted) {
  Records records = sealed(sealing_, 1);
  records[20] ^= std::byte{1};
  expect_nothing_but_the_end_of(records, 1);
}

TEST_F(BulkAttack, ARecordThatWasCutIsNotRead) {
  Records records = sealed(sealing_, 1);
  records.pop_back();
  expect_nothing_but_the_end_of(records, 0);
}

TEST_F(BulkAttack, AReflectedRecordIsForged) { expect_nothing_but_the_end_of(sealed(sealing_, 1, false), 1); }

TEST_F(BulkAttack, ARecordOfAnotherConnectionIsForged) {
  const remote::Sealing other;
  expect_nothing_but_the_end_of(sealed(other, 1), 1);
}

TEST_F(BulkAttack, ARecordThatComesBeforeItsTurnIsForged) {
  Records records = sealed(sealing_, 2);
  records.erase(records.begin(), records.begin() + kRecord);
  expect_nothing_but_the_end_of(records, 1);
}

}  // namespace
}  // namespace ripc::internal::socket
