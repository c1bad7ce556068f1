// SPDX-License-Identifier: Apache-2.0
#include "remote/bulk/pull_table.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <list>
#include <memory>
#include <string>

namespace ripc::internal::remote {
namespace {

struct PulledWire {};
struct PulledLane : Lane<PulledWire> {
  std::size_t under_way() const noexcept { return 1; }
  bool has_room() const noexcept { return true; }
};
struct PlainPull : PullEntry<PlainPull> {
  using PullEntry::PullEntry;
};

// When the rails are lost, each part comes back, and there may be no memory.
TEST(PullEntry, HasAPlaceForEachPartThatItsRailsBring) {
  constexpr std::uint64_t kKiB = 1024;
  EventSet events = EventSet::create().value();
  for (const int rails : {1, 2, 3, 5, 16}) {
    for (const std::uint64_t size : {kKiB, 64 * kKiB, 129 * kKiB, 200 * kKiB, 1000 * kKiB, 3000 * kKiB}) {
      SCOPED_TRACE(std::to_string(size) + " bytes over " + std::to_string(rails) + " rails");
      Lanes<PulledLane> lanes(1'000'000'000);
      for (int rail = 0; rail < rails; ++rail) {
        std::list<PulledLane> made(1);
        made.front().connection = std::make_shared<PulledWire>();
        made.front().pace.asked(1024 * kKiB, 0);
        made.front().pace.arrived(1024 * kKiB, 1'000'000);
        lanes.add(made);
      }
      PlainPull pull({.key = 1, .location = 1, .length = size}, events);
      std::size_t parts = 0;
      while (pull.has_unasked()) {
        const auto [lane, segment] = lanes.next(pull.unasked(), 0, [](const PulledLane&) { return true; });
        ASSERT_NE(lane, nullptr);
        const ByteRange part = pull.take_unasked(segment);
        lane->pace.asked(part.end - part.begin, 0);
        ++parts;
      }
      EXPECT_GE(pull.returned.capacity(), parts);
    }
  }
}

}  // namespace
}  // namespace ripc::internal::remote
