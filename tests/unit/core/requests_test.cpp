// SPDX-License-Identifier: Apache-2.0
#include "core/requests.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "fake_transport.hpp"

namespace ripc::core {
namespace {

Request request_to(ripc_service_id to) {
  Request request;
  request.channel = std::make_shared<FakeChannel>();
  request.to = to;
  return request;
}

TEST(RequestTable, NamesEachRequestDifferentlyAndNeverZero) {
  RequestTable table;
  std::set<std::uint64_t> ids{0};
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(ids.insert(table.add(request_to(1))).second);
  EXPECT_EQ(table.ids().size(), 1000u);
}

TEST(RequestTable, GivesARequestOnce) {
  RequestTable table;
  const std::uint64_t id = table.add(request_to(7));
  EXPECT_FALSE(table.take(id + 1).has_value());
  const auto request = table.take(id);
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->to, 7u);
  EXPECT_NE(request->channel, nullptr);
  EXPECT_FALSE(table.take(id).has_value());
  EXPECT_TRUE(table.ids().empty());
}

TEST(RequestTable, GivesARequestOnlyToTheServiceItWentTo) {
  RequestTable table;
  const std::uint64_t id = table.add(request_to(7));
  EXPECT_FALSE(table.take(id, 8).has_value());
  EXPECT_EQ(table.ids(), std::vector<std::uint64_t>{id}) << "it is still there";
  EXPECT_TRUE(table.take(id, 7).has_value());
}

TEST(RequestTable, TakesARequestBackUnderItsName) {
  RequestTable table;
  const std::uint64_t id = table.add(request_to(7));
  table.put_back(id, *table.take(id));
  const auto again = table.take(id, 7);
  ASSERT_TRUE(again.has_value());
  EXPECT_NE(again->channel, nullptr);
}

}  // namespace
}  // namespace ripc::core
