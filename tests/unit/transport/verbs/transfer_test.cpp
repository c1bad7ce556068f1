// SPDX-License-Identifier: Apache-2.0
// Long items over a real device, and connections that break meanwhile.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "nodes.hpp"

namespace ripc::internal::verbs {
namespace {

constexpr std::size_t kTransferBytes = std::size_t{32} << 20;

class Transfers : public Nodes {
 protected:
  // A connection is silent for too long after two seconds.
  Transfers() : Nodes(patience_of(2'000'000'000)) {}

  // An exposed item of the client, whose message the server has taken.
  struct Item {
    std::vector<std::byte> bytes;
    memory::Hold hold;
    wire::Descriptor descriptor{};
    std::uint64_t transfer = 0;
    std::vector<std::byte> window;
  };
  void expose(Item& item, std::byte fill) {
    item.bytes.assign(kTransferBytes, fill);
    item.window.assign(kTransferBytes, std::byte{0});
    Result<memory::Hold> hold = client_->pool().hold(item.bytes.data(), kTransferBytes);
    if (hold.ok()) item.hold = std::move(*hold);
    const spi::Exposure exposure{.bytes = item.bytes, .hold = &item.hold};
    ASSERT_EQ(channel_->expose(std::span(&exposure, 1), std::span(&item.descriptor, 1), item.transfer), RIPC_OK);
    test::flush(*channel_);
    ASSERT_EQ(sink_.source->begin(std::span(&item.descriptor, 1)), RIPC_OK);
  }
  spi::Pull pull_of(Item& item) const { return {.descriptor = item.descriptor, .destination = item.window.data()}; }
  ripc_status finish(const Item& item) {
    const Deadline deadline = Deadline::after(kLimit);
    ripc_status status = RIPC_PENDING;
    while (status == RIPC_PENDING && !deadline.expired()) status = sink_.source->finish(item.descriptor, RIPC_OK);
    return status;
  }
  // Reads two items while `damage` happens to their connection.
  void replaced_after(const std::function<void()>& damage) {
    const std::size_t received = sink_.packets.size();
    ASSERT_EQ(send(8, 'a'), RIPC_OK);
    ASSERT_NO_FATAL_FAILURE(receive(received + 1));
    const std::uint64_t made = bulk_of(*server_).connections_made();
    std::array<Item, 2> items;
    std::array<spi::Pull, 2> pulls;
    for (std::size_t index = 0; index < items.size(); ++index) {
      ASSERT_NO_FATAL_FAILURE(expose(items[index], std::byte(index + 1)));
      pulls[index] = pull_of(items[index]);
      ASSERT_EQ(sink_.source->prepare(pulls[index]), RIPC_OK);
    }
    bool damaged = false;
    const Deadline deadline = Deadline::after(kLimit);
    const auto is_under_way = [](const spi::Pull& pull) { return pull.status == RIPC_PENDING; };
    do {
      for (spi::Pull& pull : pulls) {
        if (is_under_way(pull)) (void)sink_.source->pull(pull);
      }
      const auto* const first = static_cast<const volatile std::byte*>(items[0].window.data());
      if (!damaged && *first != std::byte{0} && is_under_way(pulls[0])) {
        damage();
        damaged = true;
      }
    } while (std::any_of(pulls.begin(), pulls.end(), is_under_way) && !deadline.expired());
    ASSERT_TRUE(damaged) << "the transfer was over too soon";
    for (std::size_t index = 0; index < items.size(); ++index) {
      EXPECT_EQ(pulls[index].status, RIPC_OK);
      EXPECT_EQ(items[index].window, items[index].bytes);
      EXPECT_EQ(finish(items[index]), RIPC_OK);
      EXPECT_EQ(outcome_of(items[index].transfer), RIPC_OK);
    }
    EXPECT_GT(bulk_of(*server_).connections_made(), made) << "there is no new connection";
    EXPECT_TRUE(channel_->alive());
  }
  RdmaBulk& bulk_of(Node& node) { return *node.transport().bulks().front(); }
  ibv_qp* pair_of(Node& node) { return bulk_of(node).connection()->pair(); }
};

// The queue pair is replaced, whichever side notices the error.
TEST_F(Transfers, AQueuePairInErrorIsReplacedAndTheReadsAreDoneAgain) {
  for (Node* node : {server_.get(), client_.get()}) {
    SCOPED_TRACE(node == server_.get() ? "the reader's queue pair" : "the owner's queue pair");
    replaced_after([&] { fail(pair_of(*node)); });
  }
}

// A queue pair that is reset reports nothing about what was posted to it.
TEST_F(Transfers, AQueuePairThatIsResetIsReplacedAndTheReadsAreDoneAgain) {
  replaced_after([&] { fail(pair_of(*server_), IBV_QPS_RESET); });
}

}  // namespace
}  // namespace ripc::internal::verbs
