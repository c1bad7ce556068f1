// SPDX-License-Identifier: Apache-2.0
// A peer that lies in every field hurts only its own connection. It reads and writes nothing that it was not given.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "bulk_helpers.hpp"

namespace ripc::internal::socket {
namespace {

namespace bulk = wire::bulk;
using testing::all_are;
using testing::pattern;
using testing::RawEnd;
using testing::Side;

// The refusal that every request without a right to it gets; it does not say why.
void expect_refused(RawEnd& raw, const bulk::Frame& request) {
  ASSERT_TRUE(raw.send(request));
  const std::optional<bulk::Frame> frame = raw.receive();
  ASSERT_TRUE(frame);
  EXPECT_EQ(*frame, (bulk::Frame{.type = bulk::Type::data, .id = request.id, .offset = request.offset}));
  std::vector<std::byte> payload;
  EXPECT_EQ(raw.receive_payload(*frame, payload), RIPC_REVOKED);
}

TEST(BulkHostile, WrongTokensAndPlacesAreRefusedAndCounted) {
  Side side;
  Side other;
  RawEnd raw = RawEnd::of(side);
  const std::vector<std::byte> source = pattern(1000);
  std::uint64_t transfer = 0;
  const wire::Descriptor descriptor = side.expose(source, transfer);
  const wire::Descriptor foreign = other.expose(source, transfer);
  const bulk::Frame good{.type = bulk::Type::pull_request,
                         .length = 1000,
                         .id = 7,
                         .key = descriptor.key,
                         .location = descriptor.location};
  std::vector<bulk::Frame> bad(9, good);
  bad[0].key ^= std::uint64_t{1} << 63;
  bad[1].key ^= 1;  // another slot
  bad[2].key |= 0xfff;
  bad[3].location ^= std::uint64_t{1} << 8;
  bad[4].location += 1;  // an item that is not there
  bad[5].length = 1001;
  bad[6].offset = 1;
  bad[7].offset = UINT64_MAX - 1000;
  bad[8].key = foreign.key;  // of another peer's session
  bad[8].location = foreign.location;
  for (const bulk::Frame& request : bad) expect_refused(raw, request);
  EXPECT_EQ(side.peer->counters().refused, bad.size());
  ASSERT_TRUE(raw.send(good));
  const bulk::Frame answer = raw.receive().value();
  std::vector<std::byte> payload;
  EXPECT_EQ(raw.receive_payload(answer, payload), RIPC_OK);
  EXPECT_EQ(payload, source);
  // A finish for an unknown transfer is answered, and ends nothing.
  for (const std::uint64_t flip : {std::uint64_t{1}, std::uint64_t{1} << 40}) {
    ASSERT_TRUE(raw.send(
        {.type = bulk::Type::finish, .key = descriptor.key ^ flip, .location = descriptor.location, .value = RIPC_OK}));
    EXPECT_EQ(raw.receive().value().value, static_cast<std::uint64_t>(RIPC_REVOKED));
  }
}

TEST(BulkHostile, AnImpossibleFinishStatusIsCorruption) {
  Side side;
  RawEnd raw = RawEnd::of(side);
  const std::vector<std::byte> source = pattern(10);
  for (const ripc_status status : {RIPC_PENDING, RIPC_AGAIN, RIPC_PEER_DEAD, RIPC_TIMEOUT, RIPC_SYSTEM}) {
    std::uint64_t transfer = 0;
    const wire::Descriptor descriptor = side.expose(source, transfer);
    ASSERT_TRUE(raw.send({.type = bulk::Type::finish,
                          .key = descriptor.key,
                          .location = descriptor.location,
                          .value = static_cast<std::uint64_t>(status)}));
    ASSERT_TRUE(raw.receive());
    EXPECT_EQ(side.outcome(transfer), RIPC_CORRUPT);
  }
}

class BulkHostileData : public ::testing::TestWithParam<int> {};

// Data that does not match the request ends the connection; the pull goes on over another one.
TEST_P(BulkHostileData, DataThatNoOneAskedForEndsTheConnection) {
  Side side;
  std::vector<std::byte> target(3000, std::byte{0x5a});
  const std::vector<std::byte> payload = pattern(3000);
  spi::Pull pull{.descriptor = {.key = 1, .location = 2, .length = 1000}, .destination = target.data() + 1000};
  RawEnd raw = RawEnd::of(side);
  ASSERT_EQ(side.peer->pull(pull, side.events), RIPC_PENDING);
  const bulk::Frame request = raw.receive().value();
  bulk::Frame data{.type = bulk::Type::data, .length = 1000, .id = request.id};
  ripc_status status = RIPC_OK;
  switch (GetParam()) {
    case 0:
      data.id += 1;
      break;
    case 1:
      data.offset = 1;
      break;
    case 2:
      data.length = 1001;
      break;
    case 3:
      data.offset = UINT64_MAX - 2000;
      break;
    case 4:
      data.length = 0;
      break;  // for ever
    case 5:
      data.id = 0;
      break;
    default:
      status = static_cast<ripc_status>(RIPC_SYSTEM + 1);
      break;
  }
  (void)raw.send(data, std::span(payload).first(data.length), status);
  EXPECT_TRUE(raw.is_closed());
  EXPECT_TRUE(side.await_lost(1));
  EXPECT_EQ(side.peer->counters().violations, 1u);
  EXPECT_TRUE(all_are(std::span(target).first(1000), std::byte{0x5a}));
  EXPECT_TRUE(all_are(std::span(target).subspan(2000), std::byte{0x5a}));
  RawEnd honest = RawEnd::of(side);
  const bulk::Frame again = honest.receive().value();
  ASSERT_TRUE(honest.send({.type = bulk::Type::data, .length = 1000, .id = again.id}, std::span(payload).first(1000)));
  EXPECT_EQ(side.pull(pull), RIPC_OK);
}

INSTANTIATE_TEST_SUITE_P(Lies, BulkHostileData, ::testing::Range(0, 7));

TEST(BulkHostile, DataAfterTheEndOfASegmentEndsTheConnection) {
  Side side;
  std::vector<std::byte> target(10);
  const std::vector<std::byte> payload = pattern(10);
  spi::Pull pull{.descriptor = {.key = 1, .location = 2, .length = 10}, .destination = target.data()};
  RawEnd raw = RawEnd::of(side);
  ASSERT_EQ(side.peer->pull(pull, side.events), RIPC_PENDING);
  const bulk::Frame data{.type = bulk::Type::data, .length = 10, .id = raw.receive().value().id};
  ASSERT_TRUE(raw.send(data, payload));
  EXPECT_EQ(side.pull(pull), RIPC_OK);
  (void)raw.send(data, payload);
  EXPECT_TRUE(raw.is_closed());
}

TEST(BulkHostile, AnswersThatNoOneWaitsForChangeNothing) {
  Side side;
  RawEnd raw = RawEnd::of(side);
  const wire::Descriptor descriptor{.key = 5, .location = 6, .length = 7};
  ASSERT_EQ(side.begin(descriptor), RIPC_OK);
  const bulk::Frame finished{.type = bulk::Type::finished, .key = 5, .location = 6, .value = RIPC_OK};
  bulk::Frame wrong = finished;
  wrong.location = 7;
  ASSERT_TRUE(raw.send(finished));  // before it was asked
  ASSERT_TRUE(raw.send({.type = bulk::Type::pushed, .id = 1, .value = RIPC_OK}));
  ASSERT_TRUE(raw.send({.type = bulk::Type::finish}));
  ASSERT_TRUE(raw.receive());  // so the ones before have been looked at
  EXPECT_EQ(side.peer->finish(descriptor, RIPC_OK, side.events), RIPC_PENDING);
  ASSERT_TRUE(raw.receive());
  ASSERT_TRUE(raw.send(wrong));
  ASSERT_TRUE(raw.send({.type = bulk::Type::finish}));
  ASSERT_TRUE(raw.receive());
  EXPECT_EQ(side.peer->finish(descriptor, RIPC_OK, side.events), RIPC_PENDING);
  ASSERT_TRUE(raw.send(finished));
  EXPECT_EQ(side.finish(descriptor, RIPC_OK), RIPC_OK);
  EXPECT_EQ(side.peer->counters().violations, 0u);
}

TEST(BulkHostile, AnotherConnectionCannotAnswerAPush) {
  Side side;
  RawEnd raw = RawEnd::of(side);
  const std::vector<std::byte> bytes = pattern(100);
  ripc_status status = RIPC_PENDING;
  std::thread pusher([&] { status = side.peer->push({.key = 1, .location = 2, .length = 100}, bytes); });
  const bulk::Frame push = raw.receive().value();
  RawEnd second = RawEnd::of(side);
  ASSERT_TRUE(second.send({.type = bulk::Type::pushed, .id = push.id, .value = RIPC_OK}));
  ASSERT_TRUE(second.send({.type = bulk::Type::finish}));
  ASSERT_TRUE(second.receive());
  ASSERT_TRUE(raw.send({.type = bulk::Type::pushed, .id = push.id, .value = RIPC_REVOKED}));
  pusher.join();
  EXPECT_EQ(status, RIPC_REVOKED);
}

TEST(BulkHostile, PushesThatLieWriteNothing) {
  std::vector<std::byte> memory(3000, std::byte{0x5a});
  const std::vector<std::byte> payload = pattern(3000);
  Side side;
  wire::Grant grant{};
  ASSERT_EQ(side.peer->grant(1, std::span(memory).subspan(1000, 1000), grant), RIPC_OK);
  const bulk::Frame good{
      .type = bulk::Type::push, .length = 500, .id = 3, .key = grant.key, .location = grant.location, .value = 1000};
  RawEnd raw = RawEnd::of(side);
  std::vector<bulk::Frame> bad(7, good);
  bad[0].key ^= std::uint64_t{1} << 40;
  bad[1].key ^= 1;
  bad[2].location ^= 1;
  bad[3].value = 1001;  // more than the buffer holds
  bad[4].offset = 500;  // no beginning
  bad[5].value = bad[5].length = 1001;
  bad[6].key |= 0x3ff;
  for (const bulk::Frame& frame : bad) {
    ASSERT_TRUE(raw.send(frame, std::span(payload).first(frame.length)));
    EXPECT_EQ(raw.receive(), (bulk::Frame{.type = bulk::Type::pushed, .id = 3, .value = RIPC_REVOKED}));
  }
  EXPECT_TRUE(all_are(memory, std::byte{0x5a}));
  // Half of it, then a frame that does not fit: another ID, another total, a gap, or the same part again.
  ASSERT_TRUE(raw.send(good, std::span(payload).first(500)));
  bulk::Frame rest = good;
  rest.offset = 500;
  std::vector<bulk::Frame> wrong(4, rest);
  wrong[0].id = 4;
  wrong[1].value = 1001;
  wrong[2].offset = 499;
  wrong[3].offset = 0;
  for (const bulk::Frame& frame : wrong) {
    ASSERT_TRUE(raw.send(frame, std::span(payload).subspan(2000, frame.length)));
    EXPECT_EQ(raw.receive(), (bulk::Frame{.type = bulk::Type::pushed, .id = frame.id, .value = RIPC_REVOKED}));
  }
  // From another connection, too.
  RawEnd second = RawEnd::of(side);
  ASSERT_TRUE(second.send(rest, std::span(payload).subspan(2000, 500)));
  EXPECT_EQ(second.receive().value().value, static_cast<std::uint64_t>(RIPC_REVOKED));
  ASSERT_TRUE(raw.send(rest, std::span(payload).subspan(500, 500)));
  EXPECT_EQ(raw.receive(), (bulk::Frame{.type = bulk::Type::pushed, .id = 3, .value = RIPC_OK}));
  EXPECT_EQ(side.peer->end_grant(grant), RIPC_OK);
  EXPECT_TRUE(std::equal(payload.begin(), payload.begin() + 1000, memory.begin() + 1000));
  EXPECT_TRUE(all_are(std::span(memory).first(1000), std::byte{0x5a}));
  EXPECT_TRUE(all_are(std::span(memory).subspan(2000), std::byte{0x5a}));
}

TEST(BulkHostile, TooManyRequestsEndTheConnection) {
  Side side;
  RawEnd raw = RawEnd::of(side);
  const std::vector<std::byte> source = pattern(std::size_t{16} << 20);
  std::uint64_t transfer = 0;
  const wire::Descriptor descriptor = side.expose(source, transfer);
  // The peer reads nothing, so the first answer already fills the connection.
  for (std::uint64_t index = 0; index < remote::kMaxJobs + 2; ++index)
    (void)raw.send({.type = bulk::Type::pull_request,
                    .length = bulk::kMaxSegment,
                    .id = index,
                    .key = descriptor.key,
                    .location = descriptor.location});
  EXPECT_TRUE(raw.is_closed());
  EXPECT_TRUE(side.await_lost(1));
  EXPECT_EQ(side.peer->counters().violations, 1u);
}

TEST(BulkHostile, AnswersThatAreNotReadDoNotPileUpWithoutEnd) {
  Side side;
  RawEnd raw = RawEnd::of(side);
  const bulk::Frame finish{.type = bulk::Type::finish, .key = 1, .location = 2, .value = RIPC_OK};
  std::vector<std::byte> many(4096 * bulk::kHeaderSize);
  for (std::size_t index = 0; index < 4096; ++index)
    encode(finish, std::span<std::byte, bulk::kHeaderSize>(many.data() + index * bulk::kHeaderSize, bulk::kHeaderSize));
  bool ended = false;
  for (int round = 0; round < 1000 && !ended; ++round) ended = !raw.write(many);
  EXPECT_TRUE(ended);
  EXPECT_TRUE(side.await_lost(1));
}

TEST(BulkHostile, NoiseNeverHurtsMoreThanItsConnection) {
  Side side;
  const std::vector<std::byte> source = pattern(1000);
  std::vector<std::byte> buffer(1000);
  std::uint64_t transfer = 0;
  const wire::Descriptor descriptor = side.expose(source, transfer);
  wire::Grant grant{};
  ASSERT_EQ(side.peer->grant(1, buffer, grant), RIPC_OK);
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    RawEnd raw = RawEnd::of(side);
    bulk::Frame frame{.type = static_cast<bulk::Type>(1 + random() % 6),
                      .length = static_cast<std::uint32_t>(random() % 2000),
                      .id = random() % 3,
                      .key = random() % 2 ? descriptor.key : random(),
                      .location = random() % 2 ? descriptor.location : random(),
                      .offset = random() % 1500,
                      .value = random() % 4};
    std::array<std::byte, bulk::kHeaderSize> bytes;
    encode(frame, std::span(bytes));
    if (random() % 3 == 0) bytes[random() % bytes.size()] ^= static_cast<std::byte>(1 + random() % 255);
    (void)raw.write(bytes);
    (void)raw.write(pattern(1 + random() % 3000, random()));
    ::shutdown(raw.fd(), SHUT_WR);
    EXPECT_TRUE(raw.is_closed());
  }
  while (side.peer->connection_count() != 0) std::this_thread::yield();
  EXPECT_TRUE(all_are(buffer, std::byte{0}));
}

}  // namespace
}  // namespace ripc::internal::socket
