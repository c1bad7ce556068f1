// SPDX-License-Identifier: Apache-2.0
#include "remote/bulk/segment_queue.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace ripc::internal::remote {
namespace {

struct TestPull : PullEntry<TestPull>, Destination {
  using PullEntry::PullEntry;
};

constexpr wire::bulk::Frame data(std::uint64_t id, std::uint64_t offset, std::uint32_t length) {
  return {.type = wire::bulk::Type::data, .length = length, .id = id, .offset = offset};
}

class Segments : public testing::Test {
 protected:
  EventSet events_ = EventSet::create().value();
  std::shared_ptr<TestPull> pull_ =
      std::make_shared<TestPull>(wire::Descriptor{.key = 1, .location = 0, .length = 1000}, events_);
  SegmentQueue<TestPull> queue_;
  RailPace pace_;
};

TEST_F(Segments, DataBelongsToTheOldestAndComesInOrder) {
  EXPECT_EQ(queue_.begin_data(data(1, 0, 1)), nullptr) << "nothing was asked for";
  queue_.ask(1, pull_, {.begin = 0, .end = 300});
  queue_.ask(2, pull_, {.begin = 300, .end = 400});
  EXPECT_EQ(queue_.begin_data(data(2, 300, 100)), nullptr) << "not its turn";
  EXPECT_EQ(queue_.begin_data(data(1, 1, 100)), nullptr) << "another place";
  EXPECT_EQ(queue_.begin_data(data(1, 0, 301)), nullptr) << "too much";
  EXPECT_EQ(queue_.begin_data(data(1, 0, 100)), pull_);
  EXPECT_EQ(queue_.end_data(data(1, 0, 100), RIPC_OK, pace_), pull_);
  EXPECT_EQ(queue_.begin_data(data(1, 0, 100)), nullptr) << "again";
  EXPECT_EQ(queue_.begin_data(data(1, 100, 200)), pull_);
  EXPECT_EQ(queue_.size(), 2u);
  EXPECT_EQ(queue_.end_data(data(1, 100, 200), RIPC_OK, pace_), pull_);
  EXPECT_EQ(queue_.size(), 1u);
  EXPECT_EQ(queue_.begin_data(data(2, 300, 100)), pull_);
}

TEST_F(Segments, DataWithoutBytesMakesNoSense) {
  queue_.ask(1, pull_, {.begin = 0, .end = 300});
  EXPECT_EQ(queue_.end_data(data(1, 0, 0), RIPC_OK, pace_), nullptr);
}

TEST_F(Segments, ARefusalEndsTheSegment) {
  queue_.ask(1, pull_, {.begin = 0, .end = 300});
  EXPECT_EQ(queue_.end_data(data(1, 0, 0), RIPC_REVOKED, pace_), pull_);
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(queue_.end_data(data(1, 0, 0), RIPC_REVOKED, pace_), nullptr);
}

TEST_F(Segments, MissingBytesAreGivenBack) {
  queue_.ask(1, pull_, {.begin = 0, .end = 300});
  queue_.ask(2, pull_, {.begin = 300, .end = 400});
  EXPECT_EQ(queue_.end_data(data(1, 0, 100), RIPC_OK, pace_), pull_);
  std::uint64_t bytes = 0;
  queue_.give_back([&](TestPull& pull, ByteRange rest) {
    EXPECT_EQ(&pull, pull_.get());
    bytes += rest.end - rest.begin;
  });
  EXPECT_EQ(bytes, 300u);
}

TEST_F(Segments, FourAreAskedForAtATime) {
  for (std::uint64_t id = 1; id <= 4; ++id) {
    EXPECT_TRUE(queue_.has_room());
    queue_.ask(id, pull_, {.begin = id, .end = id + 1});
  }
  EXPECT_FALSE(queue_.has_room());
}

}  // namespace
}  // namespace ripc::internal::remote
