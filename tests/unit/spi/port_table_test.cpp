// SPDX-License-Identifier: Apache-2.0
#include "spi/port_table.hpp"

#include <gtest/gtest.h>

#include <set>

namespace ripc::spi {
namespace {

struct Port {};

TEST(PortTable, TheOneOpenedLastTakesNewLinks) {
  PortTable<Port> table;
  Port first, second;
  EXPECT_EQ(table.find(1), nullptr);
  table.add(1, first);
  table.add(1, second);
  EXPECT_EQ(table.find(1), &second);
  EXPECT_EQ(table.find(2), nullptr);
}

TEST(PortTable, WhicheverIsClosedTheOtherOneIsLeft) {
  PortTable<Port> table;
  Port first, second;
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
  PortTable<Port> table;
  Port first, second;
  table.add(1, first);
  table.remove(1, second);
  table.remove(2, first);
  EXPECT_EQ(table.find(1), &first);
}

TEST(PortTable, AllAreVisited) {
  PortTable<Port> table;
  Port first, second, other;
  table.add(1, first);
  table.add(1, second);
  table.add(2, other);
  std::set<Port*> visited;
  const auto visit = [&](Port& port) { visited.insert(&port); };
  table.for_each_of(1, visit);
  EXPECT_EQ(visited, (std::set<Port*>{&first, &second}));
  table.for_each(visit);
  EXPECT_EQ(visited.size(), 3u);
}

}  // namespace
}  // namespace ripc::spi
