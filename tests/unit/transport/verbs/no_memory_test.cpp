// SPDX-License-Identifier: Apache-2.0
// Long items while memory runs out: whatever finds none fails or starts anew, and the process goes on.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "long_items.hpp"
#include "support/failing_allocation.hpp"
#include "support/waiting.hpp"

namespace ripc::internal::verbs {
namespace {

using support::FailingAllocation;

class ScarceMemory : public LongItems {
 protected:
  // After the first call, which may have failed.
  ripc_status go_on(spi::Pull& pull, ripc_status status) {
    const Deadline deadline = Deadline::after(kLimit);
    while (status == RIPC_PENDING && !deadline.expired()) status = sink_.source->pull(pull);
    return status;
  }
  void end(const Item& item, ripc_status status) {
    (void)sink_.source->finish(item.descriptor, status == RIPC_OK ? RIPC_OK : RIPC_NO_MEMORY);
    (void)test::revoke(*channel_, item.transfer);
  }
  void expect_arrival() {
    const Item item = expose();
    ASSERT_EQ(begin(item), RIPC_OK);
    EXPECT_EQ(pull(item), RIPC_OK);
    end(item, RIPC_OK);
  }
  // The session may have ended, too.
  void expect_recovery() {
    EXPECT_TRUE(support::eventually([&] {
      sink_.packets.clear();
      if (!channel_ || !channel_->alive() || send(8, 'b') != RIPC_OK) {
        channel_.reset();
        (void)connect();
      }
      const Deadline soon = Deadline::after(100'000'000);
      while (sink_.packets.empty() && !soon.expired()) (void)port_->poll(sink_, 64);
      return !sink_.packets.empty();
    }));
  }
};

TEST_F(ScarceMemory, APullThatFindsNoneFailsAndTheNextOneArrives) {
  bool has_failed = true;
  for (std::uint64_t nth = 1; has_failed && !HasFailure(); ++nth) {
    SCOPED_TRACE(nth);
    const Item item = expose();
    ASSERT_EQ(begin(item), RIPC_OK);
    spi::Pull pull{.descriptor = item.descriptor, .destination = window_};
    ripc_status status = RIPC_PENDING;
    {
      const FailingAllocation scarce(nth);
      status = sink_.source->pull(pull);
      has_failed = scarce.failed();
    }
    status = go_on(pull, status);
    EXPECT_TRUE(status == RIPC_OK || (status == RIPC_NO_MEMORY && has_failed)) << status;
    end(item, status);
    expect_recovery();
  }
  expect_arrival();
}

TEST_F(ScarceMemory, AnExposureThatFindsNoneFailsAndTheNextOneIsRead) {
  expect_arrival();  // so that there is a connection, over which items are offered
  bool has_failed = true;
  for (std::uint64_t nth = 1; has_failed && !HasFailure(); ++nth) {
    SCOPED_TRACE(nth);
    const memory::Hold hold = client_->pool().hold(bytes_, kSize).value();
    const spi::Exposure exposure{.bytes = {bytes_, kSize}, .hold = &hold};
    Item item;
    ripc_status status = RIPC_PENDING;
    {
      const FailingAllocation scarce(nth);
      status = channel_->expose(std::span(&exposure, 1), std::span(&item.descriptor, 1), item.transfer);
      bulk_of(*client_).send_offers();
      has_failed = scarce.failed();
    }
    EXPECT_TRUE(status == RIPC_OK || (status == RIPC_NO_MEMORY && has_failed)) << status;
    if (status == RIPC_OK) (void)test::revoke(*channel_, item.transfer);
  }
  expect_arrival();
}

TEST_F(ScarceMemory, APushThatFindsNoneIsLeftToThePeer) {
  bool has_failed = true;
  std::vector<std::byte> buffer(kSize);
  for (std::uint64_t nth = 1; has_failed && !HasFailure(); ++nth) {
    SCOPED_TRACE(nth);
    wire::Grant grant{};
    ASSERT_EQ(channel_->grant(buffer, grant), RIPC_OK);
    ripc_status status = RIPC_PENDING;
    {
      const FailingAllocation scarce(nth);
      status = sink_.source->push(grant, {window_, kSize});
      has_failed = scarce.failed();
    }
    EXPECT_TRUE(status == RIPC_OK || (status == RIPC_UNSUPPORTED && has_failed)) << status;
    (void)channel_->end_grant(grant);
  }
}

TEST_F(ScarceMemory, AnItemArrivesOrFailsIfTheRespondersFindNone) {
  constexpr std::uint64_t kMost = 100;
  bool has_failed = true;
  for (std::uint64_t nth = 1; has_failed && nth <= kMost && !HasFailure(); ++nth) {
    SCOPED_TRACE(nth);
    const memory::Hold hold = client_->pool().hold(bytes_, kSize).value();
    const spi::Exposure exposure{.bytes = {bytes_, kSize}, .hold = &hold};
    Item item;
    ripc_status status = RIPC_PENDING;
    {
      const FailingAllocation scarce(nth, FailingAllocation::Where::elsewhere);
      status = channel_->expose(std::span(&exposure, 1), std::span(&item.descriptor, 1), item.transfer);
      if (status == RIPC_OK) status = begin(item);
      if (status == RIPC_OK) status = pull(item);
      has_failed = scarce.failed();
    }
    EXPECT_NE(status, RIPC_PENDING);
    EXPECT_TRUE(status == RIPC_OK || has_failed) << status;
    end(item, status);
    expect_recovery();
  }
}

}  // namespace
}  // namespace ripc::internal::verbs
