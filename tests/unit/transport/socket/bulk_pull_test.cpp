// SPDX-License-Identifier: Apache-2.0
// Pulls that nothing disturbs: what arrives, how the connections are shared, and what it costs.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "bulk_helpers.hpp"

namespace ripc::internal::socket {
namespace {

namespace bulk = wire::bulk;
using testing::all_are;
using testing::BulkPair;
using testing::kMebibyte;
using testing::kPatience;
using testing::pattern;
using testing::RawEnd;
using testing::Side;

class BulkPullSizes : public ::testing::TestWithParam<std::size_t> {};

TEST_P(BulkPullSizes, BytesArriveWholeAtAnyAlignmentAndNothingElseIsWritten) {
  BulkPair pair;
  const std::size_t size = GetParam();
  const std::vector<std::byte> source = pattern(size + 3);
  std::vector<std::byte> target(size + 32, std::byte{0x5a});
  std::uint64_t transfer = 0;
  const wire::Descriptor descriptor = pair.sender.expose(std::span(source).subspan(3), transfer);
  EXPECT_EQ(descriptor.length, size);
  EXPECT_EQ(pair.sender.peer->transfer_status(transfer), RIPC_PENDING);
  ASSERT_EQ(pair.receiver.take(descriptor, target.data() + 13), RIPC_OK);
  EXPECT_TRUE(std::equal(source.begin() + 3, source.end(), target.begin() + 13));
  EXPECT_TRUE(all_are(std::span(target).first(13), std::byte{0x5a}));
  EXPECT_TRUE(all_are(std::span(target).subspan(13 + size), std::byte{0x5a}));
  EXPECT_EQ(pair.sender.outcome(transfer), RIPC_OK);
}

INSTANTIATE_TEST_SUITE_P(Sizes, BulkPullSizes,
                         ::testing::Values(0, 1, 2, 47, 48, 4095, 65536, bulk::kMaxPayload - 1, bulk::kMaxPayload,
                                           bulk::kMaxPayload + 1, kSegmentSize - 1, kSegmentSize, kSegmentSize + 1,
                                           5 * kMebibyte + 7, 64 * kMebibyte));

TEST(BulkPull, ItemsOfOneTransferAreTakenUnderOneFinish) {
  BulkPair pair;
  const std::vector<std::byte> first = pattern(300'000, 1);
  const std::vector<std::byte> second = pattern(7, 2);
  const std::array<spi::Exposure, 3> items{{{first, nullptr}, {{}, nullptr}, {second, nullptr}}};
  std::array<wire::Descriptor, 3> descriptors{};
  std::uint64_t transfer = 0;
  ASSERT_EQ(pair.sender.peer->expose(1, items, descriptors, transfer), RIPC_OK);
  ASSERT_EQ(pair.receiver.peer->begin(descriptors, pair.receiver.events), RIPC_OK);
  std::vector<std::byte> to_first(first.size());
  std::vector<std::byte> to_second(second.size());
  spi::Pull pull{.descriptor = descriptors[2], .destination = to_second.data()};
  EXPECT_EQ(pair.receiver.pull(pull), RIPC_OK);
  pull = {.descriptor = descriptors[0], .destination = to_first.data()};
  EXPECT_EQ(pair.receiver.pull(pull), RIPC_OK);
  EXPECT_EQ(pull.copies, 1u);
  pull = {.descriptor = descriptors[1], .destination = nullptr};
  EXPECT_EQ(pair.receiver.pull(pull), RIPC_OK);
  EXPECT_EQ(pair.sender.peer->transfer_status(transfer), RIPC_PENDING);
  EXPECT_EQ(pair.receiver.finish(descriptors[0], RIPC_OK), RIPC_OK);
  EXPECT_EQ(pair.sender.outcome(transfer), RIPC_OK);
  EXPECT_EQ(first, to_first);
  EXPECT_EQ(second, to_second);
}

TEST(BulkPull, ConnectionsAreMadeOnFirstUseAndShared) {
  BulkPair pair;
  EXPECT_EQ(pair.receiver.dialed.times(), 0u);
  const std::vector<std::byte> source = pattern(1000);
  std::vector<std::byte> target(source.size());
  for (int round = 0; round < 5; ++round) {
    std::uint64_t transfer = 0;
    ASSERT_EQ(pair.receiver.take(pair.sender.expose(source, transfer), target.data()), RIPC_OK);
    ASSERT_EQ(pair.sender.outcome(transfer), RIPC_OK);
    // Also in the other direction, over the same connection.
    ASSERT_EQ(pair.sender.take(pair.receiver.expose(source, transfer), target.data()), RIPC_OK);
    ASSERT_EQ(pair.receiver.outcome(transfer), RIPC_OK);
  }
  EXPECT_EQ(pair.receiver.dialed.times(), 1u);
  EXPECT_EQ(pair.sender.dialed.times(), 0u);
  EXPECT_EQ(pair.receiver.peer->connection_count(), 1u);
}

TEST(BulkPull, AWatchedTransferIsReportedWhenItIsFinished) {
  BulkPair pair;
  const std::vector<std::byte> source = pattern(1000);
  std::vector<std::byte> target(source.size());
  std::uint64_t transfer = 0;
  const wire::Descriptor descriptor = pair.sender.expose(source, transfer, 77);
  EXPECT_TRUE(pair.sender.peer->watch(transfer));
  ASSERT_EQ(pair.receiver.take(descriptor, target.data()), RIPC_OK);
  ASSERT_TRUE(pair.sender.finished.wait());
  EXPECT_EQ(pair.sender.last_finished, (std::pair{std::uint64_t{77}, transfer}));
  EXPECT_FALSE(pair.sender.peer->watch(transfer));
  EXPECT_EQ(pair.sender.outcome(transfer), RIPC_OK);
}

TEST(BulkPull, TheReceiversFailureIsReported) {
  for (const ripc_status status : {RIPC_NO_WINDOW, RIPC_WINDOW_TOO_SMALL, RIPC_REFUSED, RIPC_NO_MEMORY}) {
    BulkPair pair;
    const std::vector<std::byte> source = pattern(1000);
    std::uint64_t transfer = 0;
    const wire::Descriptor descriptor = pair.sender.expose(source, transfer);
    EXPECT_TRUE(pair.sender.peer->watch(transfer));
    ASSERT_EQ(pair.receiver.begin(descriptor), RIPC_OK);
    if (status == RIPC_REFUSED) {
      EXPECT_EQ(pair.receiver.peer->finish(descriptor, status, pair.receiver.events), RIPC_OK);  // without waiting
    } else {
      EXPECT_EQ(pair.receiver.finish(descriptor, status), RIPC_OK);
    }
    ASSERT_TRUE(pair.sender.finished.wait());
    EXPECT_EQ(pair.sender.peer->transfer_status(transfer), status);
  }
}

TEST(BulkPull, ASmallPullIsNotKeptWaitingByAHugeOne) {
  BulkPair pair;
  pair.connect();
  const std::vector<std::byte> huge = pattern(64 * kMebibyte);
  const std::vector<std::byte> small = pattern(1000, 2);
  std::vector<std::byte> to_huge(huge.size());
  std::vector<std::byte> to_small(small.size());
  std::uint64_t transfer = 0;
  std::uint64_t other = 0;
  spi::Pull huge_pull{.descriptor = pair.sender.expose(huge, transfer), .destination = to_huge.data()};
  spi::Pull small_pull{.descriptor = pair.sender.expose(small, other), .destination = to_small.data()};
  EventSet small_events = EventSet::create().value();
  ASSERT_EQ(pair.receiver.peer->pull(huge_pull, pair.receiver.events), RIPC_PENDING);
  ASSERT_EQ(pair.receiver.peer->pull(small_pull, small_events), RIPC_PENDING);
  ASSERT_EQ(small_events.sleep(Deadline::after(kPatience), monotonic_now()), RIPC_OK);
  // Only what was requested before the small pull may come before it.
  EXPECT_LE(pair.receiver.peer->counters().bytes_requested, huge.size() + small.size());
  EXPECT_EQ(pair.receiver.peer->pull(small_pull, small_events), RIPC_OK);
  EXPECT_EQ(pair.receiver.pull(huge_pull), RIPC_OK);
  EXPECT_EQ(huge, to_huge);
  EXPECT_EQ(small, to_small);
}

TEST(BulkPull, ManyTransfersShareTheConnectionInTurns) {
  Side receiver;
  RawEnd server = RawEnd::of(receiver);
  std::vector<std::byte> target(8 * kSegmentSize);
  std::array<spi::Pull, 4> pulls;
  for (std::uint64_t index = 0; index < pulls.size(); ++index) {
    pulls[index] = {.descriptor = {.key = index + 1, .location = 0, .length = 2 * kSegmentSize},
                    .destination = target.data() + index * 2 * kSegmentSize};
    ASSERT_EQ(receiver.peer->pull(pulls[index], receiver.events), RIPC_PENDING);
  }
  // The first pull had the connection to itself. Answer segment by segment, so that the others take turns, one segment
  // each.
  std::vector<std::uint64_t> keys;
  const std::vector<std::byte> payload(bulk::kMaxPayload);
  for (int segment = 0; segment < 8; ++segment) {
    const std::optional<bulk::Frame> request = server.receive();
    ASSERT_TRUE(request);
    ASSERT_EQ(request->type, bulk::Type::pull_request);
    keys.push_back(request->key);
    for (std::uint64_t sent = 0; sent < request->length; sent += payload.size())
      ASSERT_TRUE(server.send(
          {.type = bulk::Type::data, .length = bulk::kMaxPayload, .id = request->id, .offset = request->offset + sent},
          payload));
  }
  EXPECT_EQ(keys, (std::vector<std::uint64_t>{1, 1, 2, 2, 3, 4, 3, 4}));
  for (spi::Pull& pull : pulls) EXPECT_EQ(receiver.pull(pull), RIPC_OK);
}

TEST(BulkPull, ManyThreadsPullAtOnceInBothDirections) {
  BulkPair pair({.connections = 2});
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  for (int index = 0; index < kThreads; ++index) {
    threads.emplace_back([&pair, index] {
      Side& from = index % 2 == 0 ? pair.sender : pair.receiver;
      Side& to = index % 2 == 0 ? pair.receiver : pair.sender;
      EventSet events = EventSet::create().value();
      for (std::size_t round = 0; round < 30; ++round) {
        const std::vector<std::byte> source = pattern(1 + round * 70'001, round + 1);
        std::vector<std::byte> target(source.size());
        std::uint64_t transfer = 0;
        spi::Pull pull{.descriptor = from.expose(source, transfer), .destination = target.data()};
        ASSERT_EQ(to.begin(pull.descriptor), RIPC_OK);
        while (to.peer->pull(pull, events) == RIPC_PENDING) {
          ASSERT_EQ(events.sleep(Deadline::after(kPatience), monotonic_now()), RIPC_OK);
          events.drain();
        }
        ASSERT_EQ(pull.status, RIPC_OK);
        while (to.peer->finish(pull.descriptor, RIPC_OK, events) == RIPC_PENDING) {
          ASSERT_EQ(events.sleep(Deadline::after(kPatience), monotonic_now()), RIPC_OK);
          events.drain();
        }
        ASSERT_EQ(from.outcome(transfer), RIPC_OK);
        ASSERT_EQ(source, target);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(BulkPull, OneLargePullUsesAllConnections) {
  BulkPair pair({.connections = 4});
  const std::vector<std::byte> source = pattern(64 * kMebibyte);
  std::vector<std::byte> target(source.size());
  for (int index = 0; index < 4; ++index) pair.connect();
  Side striped({.connections = 3});
  std::vector<RawEnd> servers;
  for (int index = 0; index < 3; ++index) servers.push_back(RawEnd::of(striped));
  spi::Pull pull{.descriptor = {.key = 1, .location = 2, .length = 12 * std::uint64_t{kSegmentSize}},
                 .destination = target.data()};
  ASSERT_EQ(striped.peer->pull(pull, striped.events), RIPC_PENDING);
  for (RawEnd& server : servers) EXPECT_TRUE(server.receive());
  striped.peer->abandon(pull);
  std::uint64_t transfer = 0;
  ASSERT_EQ(pair.receiver.take(pair.sender.expose(source, transfer), target.data()), RIPC_OK);
  EXPECT_EQ(source, target);
  EXPECT_EQ(pair.receiver.peer->connection_count(), 4u);
}

TEST(BulkPull, MoreConnectionsAreDialedOnlyWhileThereIsMoreToAskFor) {
  BulkPair pair({.connections = 3});
  const std::vector<std::byte> source = pattern(64 * kMebibyte);
  std::vector<std::byte> target(source.size());
  std::uint64_t transfer = 0;
  ASSERT_EQ(pair.receiver.take(pair.sender.expose(std::span(source).first(100), transfer), target.data()), RIPC_OK);
  EXPECT_EQ(pair.receiver.peer->connection_count(), 1u);
  ASSERT_EQ(pair.receiver.take(pair.sender.expose(source, transfer), target.data()), RIPC_OK);
  EXPECT_EQ(source, target);
  EXPECT_GE(pair.receiver.peer->connection_count(), 2u);
  EXPECT_LE(pair.receiver.peer->connection_count(), 3u);
}

TEST(BulkPull, BytesGoStraightBetweenMemoryAndSocketInFewSystemCalls) {
  BulkPair pair;
  const std::vector<std::byte> source = pattern(64 * kMebibyte);
  std::vector<std::byte> target(source.size());
  std::uint64_t transfer = 0;
  ASSERT_EQ(pair.receiver.take(pair.sender.expose(source, transfer), target.data()), RIPC_OK);
  ASSERT_EQ(pair.sender.outcome(transfer), RIPC_OK);
  const BulkCounters sent = pair.sender.peer->counters();
  const BulkCounters received = pair.receiver.peer->counters();
  constexpr std::uint64_t kFrames = 64 * kMebibyte / bulk::kMaxPayload;
  // Frames are the only overhead. The kernel takes or gives at most one frame in a call.
  EXPECT_EQ(received.bytes_received,
            source.size() + kFrames * (bulk::kHeaderSize + bulk::kTrailerSize) + bulk::kHeaderSize);
  EXPECT_EQ(sent.bytes_sent, received.bytes_received);
  EXPECT_EQ(received.bytes_discarded, 0u);
  EXPECT_EQ(received.bytes_requested, source.size());
  EXPECT_GE(sent.send_calls, kFrames);
  // The network hands over pieces of its own size: on loopback, mostly 64 KiB or more.
  EXPECT_LE(sent.send_calls, 64 * kMebibyte / 16384);
  EXPECT_LE(received.receive_calls, 64 * kMebibyte / 8192);
  // Requests: one call for the first ones, then one for each segment, and one for the finish.
  EXPECT_LE(received.send_calls, 64u + 2u);
}

TEST(BulkPull, TransfersAreBounded) {
  Side side;
  const std::vector<std::byte> source = pattern(10);
  std::vector<std::uint64_t> transfers(remote::kMaxTransfers);
  for (std::uint64_t& transfer : transfers) (void)side.expose(source, transfer);
  const spi::Exposure item{source, nullptr};
  wire::Descriptor descriptor{};
  std::uint64_t transfer = 0;
  EXPECT_EQ(side.peer->expose(1, std::span(&item, 1), std::span(&descriptor, 1), transfer), RIPC_AGAIN);
  EXPECT_EQ(side.peer->revoke(transfers[17]), RIPC_REVOKED);
  EXPECT_EQ(side.peer->expose(1, std::span(&item, 1), std::span(&descriptor, 1), transfer), RIPC_OK);
  for (std::uint64_t key = 1; key <= remote::kMaxTransfers; ++key)
    ASSERT_EQ(side.begin({.key = key, .location = 0, .length = 1}), RIPC_OK);
  EXPECT_EQ(side.begin({.key = remote::kMaxTransfers + 1, .location = 0, .length = 1}), RIPC_CORRUPT);
}

TEST(BulkPull, DescriptorsCannotBeGuessedFromEachOther) {
  Side side;
  const std::vector<std::byte> source = pattern(10);
  std::uint64_t transfer = 0;
  const wire::Descriptor first = side.expose(source, transfer);
  const wire::Descriptor second = side.expose(source, transfer);
  EXPECT_NE(first.key >> 12, second.key >> 12);
  EXPECT_NE(first.location >> 8, second.location >> 8);
}

TEST(BulkPull, ATransferIsBegunOnceHoweverOftenAndLateItIsAnnounced) {
  Side receiver;
  const wire::Descriptor descriptor{.key = 0x123456789, .location = 22, .length = 1};
  EXPECT_EQ(receiver.begin(descriptor), RIPC_OK);
  EXPECT_EQ(receiver.begin(descriptor), RIPC_REVOKED);
  EXPECT_EQ(receiver.peer->finish(descriptor, RIPC_REFUSED, receiver.events), RIPC_OK);
  EXPECT_EQ(receiver.begin(descriptor), RIPC_REVOKED);
}

}  // namespace
}  // namespace ripc::internal::socket
