// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>

#include "remote/session/session.hpp"

namespace ripc::internal::remote {
namespace {

TEST(Session, AsksForNoMoreLinksThanItMayHave) {
  const std::unique_ptr<EventLoop> loop = EventLoop::create().value();
  Session session(*loop, "socket");
  EXPECT_TRUE(session.expect_channel(1, 2));
  EXPECT_TRUE(session.expect_channel(2, 2));
  EXPECT_FALSE(session.expect_channel(3, 2));
  EXPECT_FALSE(session.remove_channel(3)) << "it was not asked for";
  EXPECT_TRUE(session.remove_channel(1));
  EXPECT_TRUE(session.expect_channel(3, 2));
}

}  // namespace
}  // namespace ripc::internal::remote
