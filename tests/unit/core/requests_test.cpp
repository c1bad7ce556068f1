// SPDX-License-Identifier: Apache-2.0
#include "core/state/requests.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "fake_transport.hpp"

namespace ripc::internal::core {
namespace {

std::size_t count(const RequestTable& table) {
  std::size_t count = 0;
  for (std::uint64_t id = table.next(0); id != 0; id = table.next(id)) ++count;
  return count;
}

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
  EXPECT_EQ(count(table), 1000u);
}

TEST(RequestTable, GivesARequestOnce) {
  RequestTable table;
  const std::uint64_t id = table.add(request_to(7));
  EXPECT_TRUE(table.take(id + 1).empty());
  const auto request = table.take(id);
  ASSERT_FALSE(request.empty());
  EXPECT_EQ(request.mapped().to, 7u);
  EXPECT_NE(request.mapped().channel, nullptr);
  EXPECT_TRUE(table.take(id).empty());
  EXPECT_EQ(count(table), 0u);
}

TEST(RequestTable, GivesARequestOnlyToTheServiceItWentTo) {
  RequestTable table;
  const std::uint64_t id = table.add(request_to(7));
  EXPECT_TRUE(table.take(id, 8).empty());
  EXPECT_EQ(table.next(0), id) << "it is still there";
  EXPECT_FALSE(table.take(id, 7).empty());
}

TEST(RequestTable, TakesARequestBackUnderItsName) {
  RequestTable table;
  const std::uint64_t id = table.add(request_to(7));
  table.put_back(table.take(id));
  const auto again = table.take(id, 7);
  ASSERT_FALSE(again.empty());
  EXPECT_NE(again.mapped().channel, nullptr);
}

// A peer that is stopped while it writes into the buffer of key 1.
class WritingChannel : public FakeChannel {
 public:
  ripc_status end_grant(const wire::Grant& grant) noexcept override {
    if (grant.key == 1 && is_writing) return RIPC_PENDING;
    ++ended[grant.key];
    return grant.key == 1 ? RIPC_OK : RIPC_EMPTY;
  }
  bool is_writing = true;
  std::array<int, 3> ended{};
};

TEST(RequestTable, AStoppedPeerKeepsOnlyTheBufferThatItWritesInto) {
  RequestTable table;
  const auto channel = std::make_shared<WritingChannel>();
  Request request;
  request.channel = channel;
  for (const std::uint64_t key : {0u, 1u, 2u}) request.grants.push_back({.key = key, .location = 0, .length = 1});
  const std::uint64_t id = table.add(std::move(request));
  const Status status = table.cancel(id);
  EXPECT_EQ(status.code(), RIPC_TIMEOUT);
  EXPECT_GT(channel->ended[0], 0);
  EXPECT_EQ(channel->ended[1], 0);
  EXPECT_GT(channel->ended[2], 0) << "behind the one that is written";
  EXPECT_EQ(table.next(0), id) << "the request goes on";

  channel->is_writing = false;
  EXPECT_TRUE(table.cancel(id).ok());
  EXPECT_EQ(channel->ended[1], 1);
  EXPECT_EQ(table.cancel(id).code(), RIPC_INVALID_ARGUMENT);
}

// While the request is being cancelled, somebody else cancels it, too.
class TwiceCancelledChannel final : public WritingChannel {
 public:
  explicit TwiceCancelledChannel(RequestTable& table) : table_(table) {}
  ripc_status end_grant(const wire::Grant& grant) noexcept override {
    if (const std::uint64_t id = std::exchange(request, 0); id != 0) {
      second = table_.cancel(id).code();
      is_writing = false;
    }
    return WritingChannel::end_grant(grant);
  }
  std::uint64_t request = 0;
  ripc_status second = RIPC_OK;

 private:
  RequestTable& table_;
};

TEST(RequestTable, ARequestThatIsBeingCancelledIsNotGone) {
  RequestTable table;
  const auto channel = std::make_shared<TwiceCancelledChannel>(table);
  Request request;
  request.channel = channel;
  request.to = 7;
  request.grants.push_back({.key = 1, .location = 0, .length = 1});
  const std::uint64_t id = channel->request = table.add(std::move(request));
  EXPECT_TRUE(table.cancel(id).ok());
  EXPECT_EQ(channel->second, RIPC_TIMEOUT) << "the peer was still writing";
  EXPECT_EQ(count(table), 0u);
}

// A peer that writes into four buffers. Some writes end when the first one, which is stopped, was looked at often.
class SlowlyWritingChannel : public FakeChannel {
 public:
  explicit SlowlyWritingChannel(bool does_finish) : does_finish_(does_finish) {}
  ripc_status end_grant(const wire::Grant& grant) noexcept override {
    ++looks[grant.key];
    return grant.key != 0 && does_finish_ && looks[0] > 10 ? RIPC_OK : RIPC_PENDING;
  }
  std::array<std::uint64_t, 4> looks{};

 private:
  const bool does_finish_;
};

void add_requests(RequestTable& table, const std::shared_ptr<SlowlyWritingChannel>& channel) {
  for (std::uint64_t key = 0; key < channel->looks.size(); ++key) {
    Request request;
    request.channel = channel;
    request.grants.push_back({.key = key, .location = 0, .length = 1});
    table.add(std::move(request));
  }
}

TEST(RequestTable, TheEndOfAllRequestsWaitsForStoppedPeersTogether) {
  RequestTable table;
  const auto channel = std::make_shared<SlowlyWritingChannel>(false);
  add_requests(table, channel);
  table.cancel_all();
  const auto [least, most] = std::ranges::minmax(channel->looks);
  EXPECT_EQ(least, most);
  EXPECT_EQ(count(table), channel->looks.size()) << "the buffers stay the library's";
}

TEST(RequestTable, AWriteThatGoesOnIsWaitedForThoughAnotherPeerIsStopped) {
  RequestTable table;
  const auto channel = std::make_shared<SlowlyWritingChannel>(true);
  add_requests(table, channel);
  table.cancel_all();
  EXPECT_EQ(count(table), 1u);
}

}  // namespace
}  // namespace ripc::internal::core
