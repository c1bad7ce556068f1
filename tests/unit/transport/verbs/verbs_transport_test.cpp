// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/verbs_transport.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "nodes.hpp"
#include "support/waiting.hpp"

namespace ripc::internal::verbs {
namespace {

using EndedSessions = Nodes;

TEST_F(EndedSessions, LeaveNothingBehindThatServedLongItems) {
  ASSERT_EQ(server_->transport().bulks().size(), 1u);
  const std::weak_ptr<RdmaBulk> bulk = server_->transport().bulks().front();
  channel_.reset();
  client_.reset();
  EXPECT_TRUE(support::eventually([&] {
    (void)port_->poll(sink_, 64);
    return bulk.expired();
  }));
}

}  // namespace
}  // namespace ripc::internal::verbs
