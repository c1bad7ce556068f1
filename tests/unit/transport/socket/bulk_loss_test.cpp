// SPDX-License-Identifier: Apache-2.0
// Connections that end, stall or cannot be made, and peers that die.
#include <gtest/gtest.h>

#include <vector>

#include "bulk_helpers.hpp"

namespace ripc::internal::socket {
namespace {

namespace bulk = wire::bulk;
using testing::BulkPair;
using testing::kMebibyte;
using testing::kPatience;
using testing::pattern;
using testing::RawEnd;
using testing::Side;

// How many bytes a server sends at a time here.
constexpr std::uint32_t kPiece = std::uint32_t{256} << 10;

// Answers a request with the first `frames` whole frames of it, then a piece of one more.
void answer_partly(RawEnd& server, const bulk::Frame& request, spi::Bytes item, std::uint64_t frames) {
  for (std::uint64_t index = 0; index < frames; ++index) {
    const std::uint64_t offset = request.offset + index * kPiece;
    ASSERT_TRUE(server.send({.type = bulk::Type::data, .length = kPiece, .id = request.id, .offset = offset},
                            item.subspan(offset, kPiece)));
  }
  const std::uint64_t offset = request.offset + frames * kPiece;
  ASSERT_TRUE(server.send({.type = bulk::Type::data, .length = kPiece, .id = request.id, .offset = offset}));
  ASSERT_TRUE(server.write(item.subspan(offset, 1000)));
}

void answer(RawEnd& server, const bulk::Frame& request, spi::Bytes item) {
  for (std::uint64_t sent = 0; sent < request.length;) {
    const auto length = static_cast<std::uint32_t>(std::min<std::uint64_t>(request.length - sent, kPiece));
    ASSERT_TRUE(
        server.send({.type = bulk::Type::data, .length = length, .id = request.id, .offset = request.offset + sent},
                    item.subspan(request.offset + sent, length)));
    sent += length;
  }
}

TEST(BulkLoss, OnlyWhatIsMissingIsAskedForAgain) {
  Side receiver;
  const std::vector<std::byte> source = pattern(3 * kSegmentSize + 500);
  std::vector<std::byte> target(source.size());
  auto first = std::make_unique<RawEnd>(RawEnd::of(receiver));
  spi::Pull pull{.descriptor = {.key = 11, .location = 22, .length = source.size()}, .destination = target.data()};
  ASSERT_EQ(receiver.peer->pull(pull, receiver.events), RIPC_PENDING);
  std::vector<bulk::Frame> requests;
  for (int index = 0; index < 4; ++index) requests.push_back(first->receive().value());
  answer(*first, requests[0], source);
  answer_partly(*first, requests[1], source, 2);
  first.reset();
  ASSERT_TRUE(receiver.dialed.wait());
  RawEnd second = RawEnd::of(receiver);
  std::uint64_t asked = 0;
  for (int index = 0; index < 3; ++index) {
    const std::optional<bulk::Frame> request = second.receive();
    ASSERT_TRUE(request);
    EXPECT_EQ(request->key, 11u);
    EXPECT_EQ(request->location, 22u);
    EXPECT_GE(request->offset, kSegmentSize + 2 * kPiece);
    asked += request->length;
    answer(second, *request, source);
  }
  EXPECT_EQ(asked, source.size() - kSegmentSize - 2 * kPiece);
  EXPECT_EQ(receiver.pull(pull), RIPC_OK);
  EXPECT_EQ(source, target);
  EXPECT_EQ(receiver.peer->counters().bytes_requested, source.size() + asked);
  EXPECT_EQ(receiver.peer->counters().connections_lost, 1u);
}

TEST(BulkLoss, APullSurvivesCutsAtAnyTime) {
  BulkPair pair({.connections = 2});
  const std::vector<std::byte> source = pattern(64 * kMebibyte);
  std::vector<std::byte> target(source.size());
  std::uint64_t transfer = 0;
  const wire::Descriptor descriptor = pair.sender.expose(source, transfer);
  ASSERT_EQ(pair.receiver.begin(descriptor), RIPC_OK);
  spi::Pull pull{.descriptor = descriptor, .destination = target.data()};
  int cuts = 0;
  const Deadline deadline = Deadline::after(kPatience);
  std::uint64_t next_cut = 5 * kMebibyte;
  while (pair.receiver.peer->pull(pull, pair.receiver.events) == RIPC_PENDING && !deadline.expired()) {
    if (pair.receiver.peer->counters().bytes_received < next_cut) continue;
    pair.cut();
    ++cuts;
    next_cut += 11 * kMebibyte;
  }
  ASSERT_EQ(pull.status, RIPC_OK);
  EXPECT_GE(cuts, 3);
  EXPECT_EQ(pair.receiver.finish(descriptor, RIPC_OK), RIPC_OK);
  EXPECT_EQ(source, target);
  EXPECT_EQ(pair.sender.outcome(transfer), RIPC_OK);
  // At most what was under way on each lost connection is requested again.
  const std::uint64_t lost = pair.receiver.peer->counters().connections_lost;
  EXPECT_LE(pair.receiver.peer->counters().bytes_requested, source.size() + lost * kSegmentsAhead * kSegmentSize);
}

TEST(BulkLoss, AnotherConnectionTakesOverWhatALostOneOwed) {
  Side receiver({.connections = 2});
  const std::vector<std::byte> source = pattern(2 * kSegmentSize);
  std::vector<std::byte> target(source.size());
  RawEnd first = RawEnd::of(receiver);
  RawEnd second = RawEnd::of(receiver);
  spi::Pull pull{.descriptor = {.key = 1, .location = 2, .length = source.size()}, .destination = target.data()};
  ASSERT_EQ(receiver.peer->pull(pull, receiver.events), RIPC_PENDING);
  ASSERT_TRUE(first.receive());
  first.close();
  for (std::uint64_t answered = 0; answered < source.size();) {
    const auto request = second.receive();
    ASSERT_TRUE(request);
    answer(second, *request, source);
    answered += request->length;
  }
  EXPECT_EQ(receiver.pull(pull), RIPC_OK);
  EXPECT_EQ(source, target);
}

TEST(BulkLoss, AFinishWithoutAnswerIsSaidAgainAndAnsweredTheSame) {
  for (const ripc_status answer : {RIPC_OK, RIPC_REVOKED}) {
    Side receiver;
    const wire::Descriptor descriptor{.key = 5, .location = 6, .length = 7};
    auto first = std::make_unique<RawEnd>(RawEnd::of(receiver));
    ASSERT_EQ(receiver.begin(descriptor), RIPC_OK);
    ASSERT_EQ(receiver.peer->finish(descriptor, RIPC_OK, receiver.events), RIPC_PENDING);
    const bulk::Frame finish{.type = bulk::Type::finish, .key = 5, .location = 6, .value = RIPC_OK};
    EXPECT_EQ(first->receive(), finish);
    first.reset();
    ASSERT_TRUE(receiver.dialed.wait());
    RawEnd second = RawEnd::of(receiver);
    EXPECT_EQ(second.receive(), finish);
    ASSERT_TRUE(second.send(
        {.type = bulk::Type::finished, .key = 5, .location = 6, .value = static_cast<std::uint64_t>(answer)}));
    EXPECT_EQ(receiver.finish(descriptor, RIPC_OK), answer);
  }
  // The exposing side also remembers its answer, even when the transfer is long gone.
  Side sender;
  RawEnd raw = RawEnd::of(sender);
  const std::vector<std::byte> source = pattern(10);
  std::uint64_t transfer = 0;
  const wire::Descriptor taken = sender.expose(source, transfer);
  const bulk::Frame finish{.type = bulk::Type::finish, .key = taken.key, .location = taken.location, .value = RIPC_OK};
  ASSERT_TRUE(raw.send(finish));
  EXPECT_EQ(raw.receive().value().value, static_cast<std::uint64_t>(RIPC_OK));
  EXPECT_EQ(sender.outcome(transfer), RIPC_OK);
  (void)sender.expose(source, transfer);  // in the same slot
  ASSERT_TRUE(raw.send(finish));
  EXPECT_EQ(raw.receive().value().value, static_cast<std::uint64_t>(RIPC_OK));
}

TEST(BulkLoss, AFailureThatCouldNotBeReportedIsReportedLater) {
  Side receiver;
  const wire::Descriptor descriptor{.key = 5, .location = 6, .length = 7};
  ASSERT_EQ(receiver.begin(descriptor), RIPC_OK);
  EXPECT_EQ(receiver.peer->finish(descriptor, RIPC_REFUSED, receiver.events), RIPC_OK);
  ASSERT_TRUE(receiver.dialed.wait());
  RawEnd raw = RawEnd::of(receiver);
  EXPECT_EQ(raw.receive(), (bulk::Frame{.type = bulk::Type::finish, .key = 5, .location = 6, .value = RIPC_REFUSED}));
}

TEST(BulkLoss, DialingIsTriedAgainWhileSomethingWaits) {
  BulkPair pair;
  std::atomic<int> failures{3};
  pair.receiver.in_responder([&] {
    pair.receiver.on_dial = [&] {
      if (failures.fetch_sub(1) > 0) {
        pair.receiver.peer->dial_failed();
      } else {
        pair.connect();
      }
    };
  });
  const std::vector<std::byte> source = pattern(1000);
  std::vector<std::byte> target(source.size());
  std::uint64_t transfer = 0;
  ASSERT_EQ(pair.receiver.take(pair.sender.expose(source, transfer), target.data()), RIPC_OK);
  EXPECT_EQ(source, target);
  EXPECT_EQ(pair.receiver.dialed.times(), 4u);
}

TEST(BulkLoss, AConnectionThatOwesAnAnswerAndIsSilentIsGivenUp) {
  Side receiver({.stall_timeout = 100'000'000});
  const std::vector<std::byte> source = pattern(1000);
  std::vector<std::byte> target(source.size());
  RawEnd silent = RawEnd::of(receiver);
  spi::Pull pull{.descriptor = {.key = 1, .location = 2, .length = source.size()}, .destination = target.data()};
  ASSERT_EQ(receiver.peer->pull(pull, receiver.events), RIPC_PENDING);
  ASSERT_TRUE(silent.receive());
  EXPECT_TRUE(silent.is_closed());
  ASSERT_TRUE(receiver.dialed.wait());
  RawEnd lively = RawEnd::of(receiver);
  answer(lively, lively.receive().value(), source);
  EXPECT_EQ(receiver.pull(pull), RIPC_OK);
  EXPECT_EQ(source, target);
}

TEST(BulkLoss, AnotherConnectionBringsASilentOnesBytesBeforeThePatienceEnds) {
  constexpr Nanoseconds kStall = 8'000'000'000;
  Side receiver({.connections = 2, .stall_timeout = kStall});
  const std::vector<std::byte> source = pattern(4 * kSegmentSize);
  std::vector<std::byte> target(source.size());
  RawEnd silent = RawEnd::of(receiver);
  RawEnd lively = RawEnd::of(receiver);
  std::thread answering([&] {
    while (const std::optional<bulk::Frame> request = lively.receive()) answer(lively, *request, source);
  });
  spi::Pull pull{.descriptor = {.key = 1, .location = 2, .length = source.size()}, .destination = target.data()};
  const Nanoseconds began = monotonic_now();
  EXPECT_EQ(receiver.pull(pull), RIPC_OK);
  EXPECT_LT(monotonic_now() - began, kStall * 3 / 4);
  EXPECT_EQ(source, target);
  EXPECT_TRUE(silent.receive()) << "it was asked for some of it";
  receiver.peer->died();
  answering.join();
}

TEST(BulkLoss, DeathOfThePeerEndsEverything) {
  Side side;
  RawEnd raw = RawEnd::of(side);
  std::vector<std::byte> target(100);
  const std::vector<std::byte> source = pattern(100);
  std::uint64_t transfer = 0;
  std::uint64_t finished = 0;
  (void)side.expose(source, transfer);
  const wire::Descriptor done = side.expose(source, finished);
  ASSERT_TRUE(raw.send({.type = bulk::Type::finish, .key = done.key, .location = done.location, .value = RIPC_OK}));
  ASSERT_TRUE(raw.receive());
  wire::Grant grant{};
  ASSERT_EQ(side.peer->grant(1, target, grant), RIPC_OK);
  spi::Pull pull{.descriptor = {.key = 1, .location = 2, .length = 100}, .destination = target.data()};
  ASSERT_EQ(side.peer->pull(pull, side.events), RIPC_PENDING);
  const wire::Descriptor telling{.key = 5, .location = 6, .length = 7};
  ASSERT_EQ(side.begin(telling), RIPC_OK);
  ASSERT_EQ(side.peer->finish(telling, RIPC_OK, side.events), RIPC_PENDING);
  side.peer->died();
  EXPECT_TRUE(raw.is_closed());
  EXPECT_EQ(side.events.sleep(Deadline::after(kPatience), monotonic_now()), RIPC_OK);
  EXPECT_EQ(side.peer->pull(pull, side.events), RIPC_PEER_DEAD);
  EXPECT_EQ(side.peer->finish(telling, RIPC_OK, side.events), RIPC_REVOKED);
  EXPECT_EQ(side.peer->transfer_status(transfer), RIPC_PEER_DEAD);
  EXPECT_EQ(side.peer->transfer_status(finished), RIPC_OK);
  EXPECT_EQ(side.peer->end_grant(grant), RIPC_EMPTY);
  // Later calls fail, too.
  const spi::Exposure item{source, nullptr};
  wire::Descriptor descriptor{};
  EXPECT_EQ(side.peer->expose(1, std::span(&item, 1), std::span(&descriptor, 1), transfer), RIPC_PEER_DEAD);
  EXPECT_EQ(side.peer->grant(1, target, grant), RIPC_PEER_DEAD);
  EXPECT_EQ(side.begin(descriptor), RIPC_REVOKED);
  EXPECT_EQ(side.peer->pull(pull, side.events), RIPC_PEER_DEAD);
  EXPECT_EQ(side.peer->push({.key = 1, .location = 2, .length = 100}, source), RIPC_PEER_DEAD);
  RawEnd late = RawEnd::of(side);
  EXPECT_TRUE(late.is_closed());
}

TEST(BulkLoss, APeerThatDiesWhileItSendsLeavesTheReceiverWhole) {
  BulkPair pair;
  const std::vector<std::byte> source = pattern(64 * kMebibyte);
  std::vector<std::byte> target(source.size());
  std::uint64_t transfer = 0;
  spi::Pull pull{.descriptor = pair.sender.expose(source, transfer), .destination = target.data()};
  ASSERT_EQ(pair.receiver.peer->pull(pull, pair.receiver.events), RIPC_PENDING);
  while (pair.receiver.peer->counters().bytes_received < kMebibyte) std::this_thread::yield();
  pair.sender.peer->died();
  pair.receiver.peer->died();
  EXPECT_EQ(pair.receiver.pull(pull), RIPC_PEER_DEAD);
  const std::vector<std::byte> copy = target;
  pair.receiver.in_responder([] {});
  EXPECT_EQ(copy, target);
  EXPECT_EQ(pair.sender.peer->transfer_status(transfer), RIPC_PEER_DEAD);
}

TEST(BulkLoss, EventsThatWereForgottenAreNotWoken) {
  Side side;
  RawEnd raw = RawEnd::of(side);
  std::vector<std::byte> target(100);
  EventSet events = EventSet::create().value();
  spi::Pull pull{.descriptor = {.key = 1, .location = 2, .length = 100}, .destination = target.data()};
  ASSERT_EQ(side.peer->pull(pull, events), RIPC_PENDING);
  const wire::Descriptor telling{.key = 5, .location = 6, .length = 7};
  ASSERT_EQ(side.begin(telling), RIPC_OK);
  ASSERT_EQ(side.peer->finish(telling, RIPC_OK, events), RIPC_PENDING);
  side.peer->forget(events);
  side.peer->died();
  EXPECT_EQ(events.sleep(Deadline::after(0), monotonic_now()), RIPC_TIMEOUT);
  EXPECT_EQ(side.peer->pull(pull, events), RIPC_PEER_DEAD);
}

TEST(BulkLoss, ConnectionsAreBounded) {
  Side side;
  std::vector<RawEnd> ends;
  for (std::size_t index = 0; index < kMaxBulkConnections; ++index) ends.push_back(RawEnd::of(side));
  RawEnd one_more = RawEnd::of(side);
  EXPECT_TRUE(one_more.is_closed());
  EXPECT_EQ(side.peer->connection_count(), kMaxBulkConnections);
}

}  // namespace
}  // namespace ripc::internal::socket
