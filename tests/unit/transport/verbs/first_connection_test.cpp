// SPDX-License-Identifier: Apache-2.0
// Which connection of a session small items are asked for: over a real device, both ends in this process.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "connected_ends.hpp"
#include "transport/verbs/bulk/rdma_pull_table.hpp"

namespace ripc::internal::verbs {
namespace {

using FirstConnection = ConnectedEnds;

TEST_F(FirstConnection, CarriesSmallItemsEvenIfItWasMadeLast) {
  const DevicePort port = devices_->ports().front();
  ASSERT_NO_FATAL_FAILURE(connect(port));
  const auto other_manager = std::exchange(manager_, nullptr);
  const auto other = std::exchange(owner_, nullptr);
  const auto other_peer = std::exchange(peer_, nullptr);
  const auto other_owner_ends = std::exchange(owner_ends_, std::make_shared<Ends>());
  const auto other_peer_ends = std::exchange(peer_ends_, std::make_shared<Ends>());
  established_ = 0;
  ASSERT_NO_FATAL_FAILURE(connect(port, registrar_));

  const PresentRegistrar present(registrar_);
  remote::FinishTable finishes;
  RdmaPullTable pulls(present, *loop_, finishes, kConnectionLimit);
  pulls.connection_made(other, false);
  pulls.connection_made(owner_, true);
  EventSet events = EventSet::create().value();
  std::vector<std::byte> window(64 << 10);
  spi::Pull pull{.descriptor = {.key = 1, .location = 1, .length = window.size()}, .destination = window.data()};
  EXPECT_EQ(pulls.pull(pull, events), RIPC_PENDING);
  owner_->flush();
  other->flush();
  EXPECT_TRUE(peer_ends_->heard(1) && peer_ends_->frames().front().type == wire::bulk::Type::ask_read);
  EXPECT_TRUE(other_peer_ends->frames().empty());
  pulls.abandon(pull);
  pulls.died();
  on_loop([&] {
    other->close();
    other_peer->close();
  });
}

}  // namespace
}  // namespace ripc::internal::verbs
