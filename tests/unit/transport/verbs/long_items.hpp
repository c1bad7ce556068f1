// SPDX-License-Identifier: Apache-2.0
// Long items of a client's pool that the server takes into its own pool, over the first device.
#pragma once

#include <cstddef>

#include "nodes.hpp"
#include "transport/verbs/bulk/rdma_bulk.hpp"

namespace ripc::internal::verbs {

class LongItems : public Nodes {
 protected:
  static constexpr std::size_t kSize = 64 << 10;

  void SetUp() override {
    Nodes::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    ASSERT_EQ(send(8, 'a'), RIPC_OK);
    ASSERT_NO_FATAL_FAILURE(receive(1));
    bytes_ = client_->pool().lease(kSize).value();
    window_ = server_->pool().lease(kSize).value();
  }
  void TearDown() override {
    if (bytes_ != nullptr) (void)client_->pool().release(bytes_);
    if (window_ != nullptr) (void)server_->pool().release(window_);
    Nodes::TearDown();
  }

  struct Item {
    wire::Descriptor descriptor{};
    std::uint64_t transfer = 0;
  };
  Item expose(bool more = false) {
    Item item;
    const memory::Hold hold = client_->pool().hold(bytes_, kSize).value();
    const spi::Exposure exposure{.bytes = {bytes_, kSize}, .hold = &hold};
    EXPECT_EQ(channel_->expose(std::span(&exposure, 1), std::span(&item.descriptor, 1), item.transfer), RIPC_OK);
    if (!more) bulk_of(*client_).send_offers();
    return item;
  }
  ripc_status begin(const Item& item) { return sink_.source->begin(std::span(&item.descriptor, 1)); }
  ripc_status pull(const Item& item, bool finishes = false) {
    spi::Pull pull{.descriptor = item.descriptor, .destination = window_, .finishes = finishes};
    const Deadline deadline = Deadline::after(kLimit);
    while (sink_.source->pull(pull) == RIPC_PENDING && !deadline.expired()) {
    }
    return pull.status;
  }
  ripc_status finish(const Item& item, ripc_status with = RIPC_OK) {
    const Deadline deadline = Deadline::after(kLimit);
    ripc_status status = RIPC_PENDING;
    while (status == RIPC_PENDING && !deadline.expired()) status = sink_.source->finish(item.descriptor, with);
    return status;
  }
  static RdmaBulk& bulk_of(Node& node) { return *node.transport().bulks().front(); }

  std::byte* bytes_ = nullptr;
  std::byte* window_ = nullptr;
};

}  // namespace ripc::internal::verbs
