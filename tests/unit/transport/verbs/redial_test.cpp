// SPDX-License-Identifier: Apache-2.0
// When a broken connection is dialed again: over a real device, both ends in this process.
#include <gtest/gtest.h>

#include "connected_ends.hpp"
#include "transport/verbs/bulk/rdma_bulk.hpp"

namespace ripc::internal::verbs {
namespace {

constexpr std::size_t kRedialBytes = 64 << 10;

class Redials : public ConnectedEnds {
 protected:
  Status start_owner() override {
    if (!bulk_) {
      remote::BulkHooks hooks{.finished = [](std::uint64_t, std::uint64_t, ripc_status) {},
                              .dial =
                                  [this] {
                                    const std::lock_guard lock(mutex_);
                                    ++dials_;
                                    changed_.notify_all();
                                  },
                              .repeat = [](std::uint64_t, spi::Bytes) {}};
      bulk_ =
          std::make_shared<RdmaBulk>(remote::Endpoint(), registrar_, pool_, *loop_, std::move(hooks), kConnectionLimit);
      bulk_->start();
    }
    bulk_->adopt(owner_, false);
    return {};
  }
  void TearDown() override {
    if (bulk_) bulk_->died();
    ConnectedEnds::TearDown();
    bulk_.reset();
  }
  bool dialed(int times) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::nanoseconds(kConnectionLimit), [&] { return dials_ >= times; });
  }
  int dials() {
    const std::lock_guard lock(mutex_);
    return dials_;
  }

  std::shared_ptr<RdmaBulk> bulk_;
  int dials_ = 0;
};

TEST_F(Redials, ComeWithPausesWhenNothingGoesOverTheConnections) {
  constexpr int kLosses = 6;  // then the pause is many times longer than what is done here in it
  const DevicePort port = devices_->ports().front();
  ASSERT_NO_FATAL_FAILURE(connect(port));
  // The peer never answers.
  std::vector<std::byte> window(kRedialBytes);
  EventSet events = EventSet::create().value();
  spi::Pull pull{.descriptor = {.key = 1, .location = 1, .length = kRedialBytes}, .destination = window.data()};
  ASSERT_EQ(bulk_->pull(pull, events), RIPC_PENDING);
  for (int loss = 1; loss <= kLosses; ++loss) {
    owner_->cut();
    ASSERT_TRUE(dialed(loss));
    disconnect();
    ASSERT_NO_FATAL_FAILURE(connect(port, registrar_));
  }
  on_loop([&] { bulk_->lost(*owner_, false); });
  // A dial without a pause would have been called before this task.
  on_loop([] {});
  EXPECT_EQ(dials(), kLosses);
  EXPECT_TRUE(dialed(kLosses + 1));
  bulk_->abandon(pull);
}

}  // namespace
}  // namespace ripc::internal::verbs
