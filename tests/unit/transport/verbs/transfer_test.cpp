// SPDX-License-Identifier: Apache-2.0
// Long items over a real device, and connections that break meanwhile.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "nodes.hpp"

namespace ripc::verbs {
namespace {

constexpr std::size_t kSize = std::size_t{32} << 20;

class Transfers : public Nodes {
 protected:
  // An item of the client's, exposed, and its message taken by the server.
  struct Item {
    std::vector<std::byte> bytes;
    memory::Hold hold;
    wire::Descriptor descriptor{};
    std::uint64_t transfer = 0;
    std::vector<std::byte> window;
  };
  void expose(Item& item, std::byte fill) {
    item.bytes.assign(kSize, fill);
    item.window.assign(kSize, std::byte{0});
    Result<memory::Hold> hold = client_->pool().hold(item.bytes.data(), kSize);
    if (hold.ok()) item.hold = std::move(*hold);
    const spi::Exposure exposure{.bytes = item.bytes, .hold = &item.hold};
    ASSERT_EQ(channel_->expose(std::span(&exposure, 1), std::span(&item.descriptor, 1), item.transfer), RIPC_OK);
    ASSERT_EQ(sink_.source->begin(std::span(&item.descriptor, 1)), RIPC_OK);
  }
  spi::Pull pull_of(Item& item) const { return {.descriptor = item.descriptor, .destination = item.window.data()}; }
  ripc_status finish(const Item& item) {
    const Deadline deadline = Deadline::after(kLimit);
    ripc_status status = RIPC_PENDING;
    while (status == RIPC_PENDING && !deadline.expired()) status = sink_.source->finish(item.descriptor, RIPC_OK);
    return status;
  }
  RdmaBulk& bulk_of(Node& node) { return *node.transport().bulks().front(); }
  ibv_qp* pair_of(Node& node) { return bulk_of(node).connection()->id()->get()->qp; }
};

// Whoever notices it.
TEST_F(Transfers, AQueuePairInErrorIsReplacedAndTheReadsAreDoneAgain) {
  ASSERT_EQ(send(8, 'a'), RIPC_OK);
  receive(1);
  for (Node* node : {server_.get(), client_.get()}) {
    SCOPED_TRACE(node == server_.get() ? "the reader's queue pair" : "the owner's queue pair");
    const std::uint64_t made = server_->transport().bulks().front()->connections_made();
    std::array<Item, 2> items;
    std::array<spi::Pull, 2> pulls;
    for (std::size_t index = 0; index < items.size(); ++index) {
      expose(items[index], std::byte(index + 1));
      if (HasFatalFailure()) return;
      pulls[index] = pull_of(items[index]);
      ASSERT_EQ(sink_.source->prepare(pulls[index]), RIPC_OK);
    }
    bool failed = false;
    const Deadline deadline = Deadline::after(kLimit);
    const auto is_under_way = [](const spi::Pull& pull) { return pull.status == RIPC_PENDING; };
    do {
      for (spi::Pull& pull : pulls) {
        if (is_under_way(pull)) (void)sink_.source->pull(pull);
      }
      const auto* const first = static_cast<const volatile std::byte*>(items[0].window.data());
      if (!failed && *first != std::byte{0} && is_under_way(pulls[0])) {
        fail(pair_of(*node));
        failed = true;
      }
    } while (std::any_of(pulls.begin(), pulls.end(), is_under_way) && !deadline.expired());
    ASSERT_TRUE(failed) << "the transfer was over too soon";
    for (std::size_t index = 0; index < items.size(); ++index) {
      EXPECT_EQ(pulls[index].status, RIPC_OK);
      EXPECT_EQ(items[index].window, items[index].bytes);
      EXPECT_EQ(finish(items[index]), RIPC_OK);
      EXPECT_EQ(outcome_of(items[index].transfer), RIPC_OK);
    }
    EXPECT_GT(bulk_of(*server_).connections_made(), made) << "there is no new connection";
  }
  ASSERT_EQ(send(8, 'b'), RIPC_OK);
  receive(2);
  EXPECT_TRUE(channel_->alive());
}

}  // namespace
}  // namespace ripc::verbs
