// SPDX-License-Identifier: Apache-2.0
// Return buffers that the peer writes: every outcome of a push.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <vector>

#include "bulk_helpers.hpp"

namespace ripc::internal::socket {
namespace {

namespace bulk = wire::bulk;
using testing::all_are;
using testing::BulkPair;
using testing::kMebibyte;
using testing::pattern;
using testing::RawEnd;
using testing::Side;

class BulkPushSizes : public ::testing::TestWithParam<std::size_t> {};

TEST_P(BulkPushSizes, BytesLandAtTheStartOfTheBufferAndNothingElseIsWritten) {
  BulkPair pair;
  const std::vector<std::byte> bytes = pattern(GetParam());
  std::vector<std::byte> buffer(bytes.size() + 100, std::byte{0x5a});
  wire::Grant grant{};
  ASSERT_EQ(pair.sender.peer->grant(1, std::span(buffer).subspan(3, bytes.size() + 50), grant), RIPC_OK);
  EXPECT_EQ(grant.length, bytes.size() + 50);
  EXPECT_EQ(pair.receiver.peer->push(grant, bytes), RIPC_OK);
  EXPECT_EQ(pair.sender.peer->end_grant(grant), RIPC_OK);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), buffer.begin() + 3));
  EXPECT_TRUE(all_are(std::span(buffer).first(3), std::byte{0x5a}));
  EXPECT_TRUE(all_are(std::span(buffer).subspan(3 + bytes.size()), std::byte{0x5a}));
}

INSTANTIATE_TEST_SUITE_P(Sizes, BulkPushSizes,
                         ::testing::Values(0, 1, 1000, bulk::kMaxPayload, bulk::kMaxPayload + 1, 20 * kMebibyte + 3));

TEST(BulkPush, AGrantThatNoOneWroteIsEmpty) {
  Side side;
  std::vector<std::byte> buffer(100);
  wire::Grant grant{};
  ASSERT_EQ(side.peer->grant(1, buffer, grant), RIPC_OK);
  EXPECT_EQ(side.peer->end_grant(grant), RIPC_EMPTY);
  EXPECT_EQ(side.peer->end_grant(grant), RIPC_EMPTY);
}

TEST(BulkPush, AGrantIsWrittenOnlyWhileItLasts) {
  BulkPair pair;
  const std::vector<std::byte> bytes = pattern(100);
  const std::vector<std::byte> before(100, std::byte{7});
  std::vector<std::byte> buffer = before;
  wire::Grant grant{};
  ASSERT_EQ(pair.sender.peer->grant(1, buffer, grant), RIPC_OK);
  EXPECT_EQ(pair.receiver.peer->push(grant, std::span(before).first(50)), RIPC_OK);
  // The reply that was to announce the write found no room.
  EXPECT_EQ(pair.receiver.peer->push(grant, bytes), RIPC_OK);
  EXPECT_EQ(buffer, bytes);
  EXPECT_EQ(pair.sender.peer->end_grant(grant), RIPC_OK);
  buffer = before;
  EXPECT_EQ(pair.receiver.peer->push(grant, bytes), RIPC_REVOKED);
  wire::Grant guessed = grant;
  ASSERT_EQ(pair.sender.peer->grant(1, buffer, grant), RIPC_OK);
  EXPECT_EQ(pair.receiver.peer->push(guessed, bytes), RIPC_REVOKED);  // the same slot
  guessed = grant;
  ++guessed.location;
  EXPECT_EQ(pair.receiver.peer->push(guessed, bytes), RIPC_REVOKED);
  EXPECT_EQ(buffer, before);
  EXPECT_EQ(pair.sender.peer->end_grant(grant), RIPC_EMPTY);
}

TEST(BulkPush, MoreThanTheBufferHoldsIsRefusedHereAndThere) {
  BulkPair pair;
  const std::vector<std::byte> bytes = pattern(101);
  std::vector<std::byte> buffer(200);
  wire::Grant grant{};
  ASSERT_EQ(pair.sender.peer->grant(1, std::span(buffer).first(100), grant), RIPC_OK);
  EXPECT_EQ(pair.receiver.peer->push(grant, bytes), RIPC_TOO_LARGE);
  wire::Grant lie = grant;
  lie.length = 200;
  EXPECT_EQ(pair.receiver.peer->push(lie, bytes), RIPC_REVOKED);
  EXPECT_TRUE(all_are(buffer, std::byte{0}));
}

TEST(BulkPush, EndingTheGrantCutsAWriteOff) {
  Side side;
  RawEnd pusher = RawEnd::of(side);
  std::vector<std::byte> buffer(1000);
  const std::vector<std::byte> bytes = pattern(1000);
  wire::Grant grant{};
  ASSERT_EQ(side.peer->grant(1, buffer, grant), RIPC_OK);
  ASSERT_TRUE(pusher.send({.type = bulk::Type::push,
                           .length = 1000,
                           .id = 9,
                           .key = grant.key,
                           .location = grant.location,
                           .value = 1000}));
  ASSERT_TRUE(pusher.write(std::span(bytes).first(400)));
  while (side.peer->counters().bytes_received < bulk::kHeaderSize + 400) std::this_thread::yield();
  EXPECT_EQ(side.peer->end_grant(grant), RIPC_EMPTY);
  buffer.assign(buffer.size(), std::byte{0x77});
  ASSERT_TRUE(pusher.write(std::span(bytes).subspan(400)));
  ASSERT_TRUE(pusher.write(bulk::encode_trailer(RIPC_OK)));
  EXPECT_EQ(pusher.receive(), (bulk::Frame{.type = bulk::Type::pushed, .id = 9, .value = RIPC_REVOKED}));
  EXPECT_TRUE(all_are(buffer, std::byte{0x77}));
}

TEST(BulkPush, ALostConnectionLetsTheRequesterPullInstead) {
  Side pusher;
  const std::vector<std::byte> bytes = pattern(1000);
  for (const bool with_connection : {true, false}) {
    std::optional<RawEnd> raw;
    if (with_connection) raw = RawEnd::of(pusher);
    pusher.in_responder([&] { pusher.on_dial = [&] { pusher.peer->dial_failed(); }; });
    ripc_status status = RIPC_PENDING;
    std::thread thread([&] { status = pusher.peer->push({.key = 1, .location = 2, .length = 1000}, bytes); });
    if (raw) {
      const std::optional<bulk::Frame> frame = raw->receive();
      EXPECT_TRUE(frame && frame->type == bulk::Type::push && frame->value == 1000);
      raw->close();
    }
    thread.join();
    EXPECT_EQ(status, RIPC_UNSUPPORTED);
    while (pusher.peer->connection_count() != 0) std::this_thread::yield();
  }
}

TEST(BulkPush, ABufferWhoseWriterIsCutOffCanStillBeWritten) {
  Side side;
  std::vector<std::byte> buffer(1000);
  const std::vector<std::byte> bytes = pattern(1000);
  wire::Grant grant{};
  ASSERT_EQ(side.peer->grant(1, buffer, grant), RIPC_OK);
  const bulk::Frame frame{
      .type = bulk::Type::push, .length = 1000, .id = 1, .key = grant.key, .location = grant.location, .value = 1000};
  {
    RawEnd first = RawEnd::of(side);
    ASSERT_TRUE(first.send(frame));
    ASSERT_TRUE(first.write(std::span(bytes).first(400)));
  }
  while (side.peer->connection_count() != 0) std::this_thread::yield();
  RawEnd second = RawEnd::of(side);
  ASSERT_TRUE(second.send(frame, bytes));
  EXPECT_EQ(second.receive(), (bulk::Frame{.type = bulk::Type::pushed, .id = 1, .value = RIPC_OK}));
  EXPECT_EQ(side.peer->end_grant(grant), RIPC_OK);
  EXPECT_EQ(buffer, bytes);
}

TEST(BulkPush, APeerThatDoesNotAnswerIsGivenUp) {
  Side pusher({.stall_timeout = 50'000'000});
  RawEnd silent = RawEnd::of(pusher);
  const std::vector<std::byte> bytes = pattern(1000);
  EXPECT_EQ(pusher.peer->push({.key = 1, .location = 2, .length = 1000}, bytes), RIPC_UNSUPPORTED);
}

TEST(BulkPush, OverASilentConnectionBesideAnotherIsGivenUpLongBeforeThePatienceEnds) {
  constexpr Nanoseconds kStall = 8'000'000'000;
  Side pusher({.stall_timeout = kStall});
  RawEnd silent = RawEnd::of(pusher);
  RawEnd other = RawEnd::of(pusher);
  const std::vector<std::byte> bytes = pattern(1000);
  const Nanoseconds began = monotonic_now();
  EXPECT_EQ(pusher.peer->push({.key = 1, .location = 2, .length = 1000}, bytes), RIPC_UNSUPPORTED);
  EXPECT_LT(monotonic_now() - began, kStall * 3 / 4);
  EXPECT_EQ(pusher.peer->connection_count(), 1u);
}

TEST(BulkPush, OfManyBytesIsLeftToThePullThatUsesAllRails) {
  Side pusher;
  const std::vector<std::byte> bytes = pattern(kSegmentSize + 1);
  const auto push = [&](std::size_t size) {
    return pusher.peer->push({.key = 1, .location = 2, .length = size}, std::span(bytes).first(size));
  };
  RawEnd first = RawEnd::of(pusher);
  RawEnd second = RawEnd::of(pusher, INADDR_LOOPBACK + 1);
  EXPECT_EQ(push(kSegmentSize + 1), RIPC_UNSUPPORTED);
  EXPECT_EQ(pusher.peer->connection_count(), 2u);
  // A small push goes over one of the connections.
  std::thread answering([&] {
    const std::optional<bulk::Frame> frame = first.receive();
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->type, bulk::Type::push);
    EXPECT_TRUE(first.send({.type = bulk::Type::pushed, .id = frame->id, .value = RIPC_OK}));
  });
  EXPECT_EQ(push(1000), RIPC_OK);
  answering.join();
}

TEST(BulkPush, DeathOfThePeerEndsIt) {
  Side pusher;
  RawEnd silent = RawEnd::of(pusher);
  const std::vector<std::byte> bytes = pattern(1000);
  std::thread killer([&] {
    EXPECT_TRUE(silent.receive());
    pusher.peer->died();
  });
  EXPECT_EQ(pusher.peer->push({.key = 1, .location = 2, .length = 1000}, bytes), RIPC_PEER_DEAD);
  killer.join();
}

TEST(BulkPush, InTheResponderItRunsTheLoop) {
  BulkPair pair;
  const std::vector<std::byte> bytes = pattern(5 * kMebibyte);
  std::vector<std::byte> buffer(bytes.size());
  wire::Grant grant{};
  ASSERT_EQ(pair.sender.peer->grant(1, buffer, grant), RIPC_OK);
  ripc_status status = RIPC_PENDING;
  pair.receiver.in_responder([&] { status = pair.receiver.peer->push(grant, bytes); });
  EXPECT_EQ(status, RIPC_OK);
  EXPECT_EQ(pair.sender.peer->end_grant(grant), RIPC_OK);
  EXPECT_EQ(buffer, bytes);
}

TEST(BulkPush, MemoryThatCannotBeAccessedEndsThePushAndNothingElse) {
  BulkPair pair;
  constexpr std::size_t kSize = 4 * kMebibyte;
  void* pages = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(::mprotect(static_cast<std::byte*>(pages) + kMebibyte + 4096, kSize - kMebibyte - 4096, PROT_NONE), 0);
  const std::span<std::byte> broken(static_cast<std::byte*>(pages), kSize);
  std::vector<std::byte> whole(kSize);
  wire::Grant grant{};
  ASSERT_EQ(pair.sender.peer->grant(1, whole, grant), RIPC_OK);
  EXPECT_EQ(pair.receiver.peer->push(grant, broken), RIPC_CANCELLED);
  // The buffer does not count as written, and can still be written.
  const std::vector<std::byte> bytes = pattern(kSize);
  EXPECT_EQ(pair.receiver.peer->push(grant, bytes), RIPC_OK);
  EXPECT_EQ(pair.sender.peer->end_grant(grant), RIPC_OK);
  EXPECT_EQ(whole, bytes);
  // The same on the other side.
  ASSERT_EQ(pair.sender.peer->grant(1, broken, grant), RIPC_OK);
  EXPECT_NE(pair.receiver.peer->push(grant, bytes), RIPC_OK);
  EXPECT_EQ(pair.sender.peer->end_grant(grant), RIPC_EMPTY);
  EXPECT_EQ(pair.receiver.peer->counters().connections_lost, 0u);
  ::munmap(pages, kSize);
}

TEST(BulkPush, PushesAndPullsShareAConnection) {
  BulkPair pair;
  const std::vector<std::byte> bytes = pattern(32 * kMebibyte);
  std::vector<std::byte> buffer(bytes.size());
  std::vector<std::byte> target(bytes.size());
  wire::Grant grant{};
  ASSERT_EQ(pair.sender.peer->grant(1, buffer, grant), RIPC_OK);
  ripc_status pushed = RIPC_PENDING;
  std::thread pusher([&] { pushed = pair.receiver.peer->push(grant, bytes); });
  std::uint64_t transfer = 0;
  EXPECT_EQ(pair.sender.take(pair.receiver.expose(bytes, transfer), target.data()), RIPC_OK);
  pusher.join();
  EXPECT_EQ(pushed, RIPC_OK);
  EXPECT_EQ(bytes, target);
  EXPECT_EQ(bytes, buffer);
  EXPECT_LE(pair.sender.peer->connection_count(), 2u);  // both may have dialed
}

TEST(BulkPush, GrantsAreBounded) {
  Side side;
  std::vector<std::byte> buffer(10);
  wire::Grant grant{};
  for (std::size_t index = 0; index < remote::kMaxGrants; ++index)
    ASSERT_EQ(side.peer->grant(1, buffer, grant), RIPC_OK);
  wire::Grant one_more{};
  EXPECT_EQ(side.peer->grant(1, buffer, one_more), RIPC_AGAIN);
  EXPECT_EQ(side.peer->end_grant(grant), RIPC_EMPTY);
  EXPECT_EQ(side.peer->grant(1, buffer, one_more), RIPC_OK);
}

}  // namespace
}  // namespace ripc::internal::socket
