// SPDX-License-Identifier: Apache-2.0
#include "spi/port_table.hpp"

#include <gtest/gtest.h>

#include <set>

namespace ripc::internal::spi {
namespace {

struct AnyPort {};

TEST(PortTable, TheOneOpenedLastTakesNewLinks) {
  PortTable<AnyPort> table;
  AnyPort first, second;
  EXPECT_EQ(table.find(1), nullptr);
  table.add(1, first);
  table.add(1, second);
  EXPECT_EQ(table.find(1), &second);
  EXPECT_EQ(table.find(2), nullptr);
}

TEST(PortTable, ClosingEitherPortLeavesTheOther) {
  PortTable<AnyPort> table;
  AnyPort first, second;
  table.add(1, first);
  table.add(1, second);
  table.remove(1, first);
  EXPECT_EQ(table.find(1), &second);
  table.add(1, first);
  table.remove(1, first);
  EXPECT_EQ(table.find(1), &second);
  table.remove(1, second);
  EXPECT_EQ(table.find(1), nullptr);
}

TEST(PortTable, RemovingAPortOfAnotherServiceChangesNothing) {
  PortTable<AnyPort> table;
  AnyPort first, second;
  table.add(1, first);
  table.remove(1, second);
  table.remove(2, first);
  EXPECT_EQ(table.find(1), &first);
}

TEST(PortTable, AllOfAServiceAreVisited) {
  PortTable<AnyPort> table;
  AnyPort first, second, other;
  table.add(1, first);
  table.add(1, second);
  table.add(2, other);
  std::set<AnyPort*> visited;
  table.for_each_of(1, [&](AnyPort& port) { visited.insert(&port); });
  EXPECT_EQ(visited, (std::set<AnyPort*>{&first, &second}));
}

}  // namespace
}  // namespace ripc::internal::spi
