// SPDX-License-Identifier: Apache-2.0
// Memory that is taken away: by the sender, by the receiver, by the operating system; at every stage.
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
using testing::Pages;
using testing::pattern;
using testing::RawEnd;
using testing::Side;

TEST(BulkRevoke, AFailureOfWhatWasWithdrawnIsNotTheReceiversToTell) {
  BulkPair pair;
  const std::vector<std::byte> source = pattern(1000);
  std::uint64_t transfer = 0;
  const wire::Descriptor descriptor = pair.sender.expose(source, transfer);
  ASSERT_EQ(pair.sender.peer->revoke(transfer), RIPC_REVOKED);
  ASSERT_EQ(pair.receiver.begin(descriptor), RIPC_OK);
  EXPECT_EQ(pair.receiver.finish(descriptor, RIPC_NO_WINDOW), RIPC_REVOKED);
}

TEST(BulkRevoke, BeforeItIsPulledThePullIsRefused) {
  BulkPair pair;
  const std::vector<std::byte> source = pattern(1000);
  std::vector<std::byte> target(source.size());
  std::uint64_t transfer = 0;
  const wire::Descriptor descriptor = pair.sender.expose(source, transfer);
  EXPECT_EQ(pair.sender.peer->revoke(transfer), RIPC_REVOKED);
  EXPECT_EQ(pair.receiver.take(descriptor, target.data()), RIPC_REVOKED);
  EXPECT_TRUE(all_are(target, std::byte{0}));
  EXPECT_EQ(pair.sender.peer->counters().refused, 1u);
}

TEST(BulkRevoke, InMidPullNothingIsReadAnyMoreAndThePullFails) {
  BulkPair pair;
  Pages source(64 * kMebibyte);
  std::vector<std::byte> target(source.bytes().size());
  std::uint64_t transfer = 0;
  const wire::Descriptor descriptor = pair.sender.expose(source.bytes(), transfer);
  ASSERT_EQ(pair.receiver.begin(descriptor), RIPC_OK);
  spi::Pull pull{.descriptor = descriptor, .destination = target.data()};
  ASSERT_EQ(pair.receiver.peer->pull(pull, pair.receiver.events), RIPC_PENDING);
  while (pair.receiver.peer->counters().bytes_received < kMebibyte) std::this_thread::yield();
  ASSERT_EQ(pair.sender.peer->revoke(transfer), RIPC_REVOKED);
  // Reads from here on would bring these bytes.
  std::memset(source.bytes().data(), 0xee, source.bytes().size());
  EXPECT_EQ(pair.receiver.pull(pull), RIPC_REVOKED);
  EXPECT_EQ(std::find(target.begin(), target.end(), std::byte{0xee}), target.end());
  EXPECT_EQ(pair.receiver.finish(descriptor, RIPC_OK), RIPC_REVOKED);
  // The connection still works.
  const std::vector<std::byte> other = pattern(1000);
  ASSERT_EQ(pair.receiver.take(pair.sender.expose(other, transfer), target.data()), RIPC_OK);
  EXPECT_EQ(pair.receiver.peer->counters().connections_lost, 0u);
}

TEST(BulkRevoke, AfterThePullTheMessageCannotBeDelivered) {
  BulkPair pair;
  const std::vector<std::byte> source = pattern(1000);
  std::vector<std::byte> target(source.size());
  std::uint64_t transfer = 0;
  const wire::Descriptor descriptor = pair.sender.expose(source, transfer);
  ASSERT_EQ(pair.receiver.begin(descriptor), RIPC_OK);
  spi::Pull pull{.descriptor = descriptor, .destination = target.data()};
  ASSERT_EQ(pair.receiver.pull(pull), RIPC_OK);
  EXPECT_EQ(pair.sender.peer->revoke(transfer), RIPC_REVOKED);
  EXPECT_EQ(pair.receiver.finish(descriptor, RIPC_OK), RIPC_REVOKED);
}

TEST(BulkRevoke, AfterTheFinishItTellsHowItEnded) {
  BulkPair pair;
  const std::vector<std::byte> source = pattern(1000);
  std::vector<std::byte> target(source.size());
  std::uint64_t transfer = 0;
  const wire::Descriptor descriptor = pair.sender.expose(source, transfer);
  EXPECT_TRUE(pair.sender.peer->watch(transfer));
  ASSERT_EQ(pair.receiver.take(descriptor, target.data()), RIPC_OK);
  ASSERT_TRUE(pair.sender.finished.wait());
  EXPECT_EQ(pair.sender.peer->revoke(transfer), RIPC_OK);
}

TEST(BulkRevoke, RacingWithTheFinishBothSidesAgree) {
  BulkPair pair;
  const std::vector<std::byte> source = pattern(100);
  std::vector<std::byte> target(source.size());
  for (int round = 0; round < 500; ++round) {
    std::uint64_t transfer = 0;
    const wire::Descriptor descriptor = pair.sender.expose(source, transfer);
    ripc_status taken = RIPC_PENDING;
    std::thread taker([&] { taken = pair.receiver.take(descriptor, target.data()); });
    for (int spin = 0; spin < round * 4; ++spin) cpu_pause();
    const ripc_status revoked = pair.sender.peer->revoke(transfer);
    taker.join();
    ASSERT_EQ(revoked, taken);
    ASSERT_TRUE(taken == RIPC_OK || taken == RIPC_REVOKED);
  }
}

TEST(BulkRevoke, ATransferIsTakenOnce) {
  BulkPair pair;
  const std::vector<std::byte> source = pattern(1000);
  std::vector<std::byte> target(source.size());
  std::uint64_t transfer = 0;
  const wire::Descriptor descriptor = pair.sender.expose(source, transfer);
  ASSERT_EQ(pair.receiver.take(descriptor, target.data()), RIPC_OK);
  ASSERT_EQ(pair.sender.outcome(transfer), RIPC_OK);
  target.assign(target.size(), std::byte{});
  // The token is known, but no longer valid.
  spi::Pull pull{.descriptor = descriptor, .destination = target.data()};
  EXPECT_EQ(pair.receiver.pull(pull), RIPC_REVOKED);
  (void)pair.sender.expose(source, transfer);  // in the same slot
  pull = {.descriptor = descriptor, .destination = target.data()};
  EXPECT_EQ(pair.receiver.pull(pull), RIPC_REVOKED);
  EXPECT_TRUE(all_are(target, std::byte{0}));
}

TEST(BulkRevoke, MemoryThatTheSenderUnmapsEndsTheTransferAndNothingElse) {
  for (const std::size_t readable : {std::size_t{0}, 4096 * std::size_t{1}, 5 * kMebibyte + 4096}) {
    BulkPair pair;
    Pages source(16 * kMebibyte);
    std::vector<std::byte> target(source.bytes().size());
    source.forbid(readable);
    std::uint64_t transfer = 0;
    const wire::Descriptor descriptor = pair.sender.expose(source.bytes(), transfer);
    EXPECT_TRUE(pair.sender.peer->watch(transfer));
    EXPECT_EQ(pair.receiver.take(descriptor, target.data()), RIPC_CANCELLED);
    EXPECT_EQ(pair.receiver.finish(descriptor, RIPC_OK), RIPC_REVOKED);
    ASSERT_TRUE(pair.sender.finished.wait());
    EXPECT_EQ(pair.sender.peer->transfer_status(transfer), RIPC_CANCELLED);
    const std::vector<std::byte> other = pattern(1000);
    ASSERT_EQ(pair.receiver.take(pair.sender.expose(other, transfer), target.data()), RIPC_OK);
    EXPECT_EQ(pair.receiver.peer->counters().connections_lost, 0u);
    EXPECT_EQ(pair.sender.peer->counters().connections_lost, 0u);
  }
}

TEST(BulkRevoke, AHoleThatIsMappedAgainIsNotDeliveredAsZeros) {
  // The frame was padded, and its trailer was lost with the connection. The memory is back when the receiver asks
  // again.
  Side sender;
  Pages source(2 * bulk::kMaxPayload);
  source.forbid(bulk::kMaxPayload / 2);
  std::uint64_t transfer = 0;
  const wire::Descriptor descriptor = sender.expose(source.bytes(), transfer);
  EXPECT_TRUE(sender.peer->watch(transfer));
  const bulk::Frame request{.type = bulk::Type::pull_request,
                            .length = 2 * bulk::kMaxPayload,
                            .id = 1,
                            .key = descriptor.key,
                            .location = descriptor.location};
  {
    RawEnd raw = RawEnd::of(sender);
    ASSERT_TRUE(raw.send(request));
    ASSERT_TRUE(sender.finished.wait());
  }
  ASSERT_EQ(::mprotect(source.bytes().data(), source.bytes().size(), PROT_READ | PROT_WRITE), 0);
  RawEnd raw = RawEnd::of(sender);
  ASSERT_TRUE(raw.send(request));
  const std::optional<bulk::Frame> refusal = raw.receive();
  ASSERT_TRUE(refusal);
  std::vector<std::byte> payload;
  EXPECT_EQ(refusal->length, 0u);
  EXPECT_EQ(raw.receive_payload(*refusal, payload), RIPC_CANCELLED);
}

TEST(BulkRevoke, ADestinationThatIsUnmappedEndsThePullAndNothingElse) {
  for (const std::size_t writable : {std::size_t{0}, 4096 * std::size_t{1}, 5 * kMebibyte + 4096}) {
    BulkPair pair;
    const std::vector<std::byte> source = pattern(16 * kMebibyte);
    Pages target(source.size());
    target.forbid(writable);
    std::uint64_t transfer = 0;
    const wire::Descriptor descriptor = pair.sender.expose(source, transfer);
    EXPECT_EQ(pair.receiver.take(descriptor, target.bytes().data()), RIPC_CANCELLED);
    std::vector<std::byte> other(source.size());
    ASSERT_EQ(pair.receiver.take(pair.sender.expose(source, transfer), other.data()), RIPC_OK);
    EXPECT_EQ(pair.receiver.peer->counters().connections_lost, 0u);
    EXPECT_EQ(source, other);
  }
}

TEST(BulkRevoke, AnAbandonedPullWritesNothingMore) {
  BulkPair pair;
  const std::vector<std::byte> source = pattern(64 * kMebibyte);
  for (std::size_t round = 0; round < 8; ++round) {
    Pages target(source.size());
    std::uint64_t transfer = 0;
    spi::Pull pull{.descriptor = pair.sender.expose(source, transfer), .destination = target.bytes().data()};
    const std::uint64_t before = pair.receiver.peer->counters().bytes_received;
    ASSERT_EQ(pair.receiver.peer->pull(pull, pair.receiver.events), RIPC_PENDING);
    while (pair.receiver.peer->counters().bytes_received - before < round * 700'000) std::this_thread::yield();
    pair.receiver.peer->abandon(pull);
    // Any write from now on would show: as another byte, or as a fault that belongs to no pull.
    std::memset(target.bytes().data(), 0x77, target.bytes().size());
    std::vector<std::byte> other(1000);
    std::uint64_t next = 0;
    ASSERT_EQ(pair.receiver.take(pair.sender.expose(std::span(source).first(1000), next), other.data()), RIPC_OK);
    EXPECT_TRUE(all_are(target.bytes(), std::byte{0x77})) << round;
    EXPECT_EQ(pair.sender.peer->revoke(transfer), RIPC_REVOKED);
  }
  EXPECT_GT(pair.receiver.peer->counters().bytes_discarded, 0u);
  EXPECT_EQ(pair.receiver.peer->counters().connections_lost, 0u);
}

TEST(BulkRevoke, AbandoningInMidFrameThrowsTheRestAway) {
  Side receiver;
  RawEnd server = RawEnd::of(receiver);
  const std::vector<std::byte> payload = pattern(1000);
  std::vector<std::byte> target(1000);
  spi::Pull pull{.descriptor = {.key = 1, .location = 2, .length = 1000}, .destination = target.data()};
  ASSERT_EQ(receiver.peer->pull(pull, receiver.events), RIPC_PENDING);
  const bulk::Frame request = server.receive().value();
  ASSERT_TRUE(server.send({.type = bulk::Type::data, .length = 1000, .id = request.id}));
  ASSERT_TRUE(server.write(std::span(payload).first(400)));
  while (receiver.peer->counters().bytes_received < bulk::kHeaderSize + 400) std::this_thread::yield();
  receiver.peer->abandon(pull);
  target.assign(target.size(), std::byte{0x77});
  ASSERT_TRUE(server.write(std::span(payload).subspan(400)));
  ASSERT_TRUE(server.write(bulk::encode_trailer(RIPC_OK)));
  while (receiver.peer->counters().bytes_discarded < 600) std::this_thread::yield();
  EXPECT_TRUE(all_are(target, std::byte{0x77}));
  EXPECT_EQ(receiver.peer->counters().violations, 0u);
}

TEST(BulkRevoke, ALostChannelEndsWhatItExposedAndNotWhatOthersDid) {
  BulkPair pair;
  const std::vector<std::byte> source = pattern(1000);
  std::vector<std::byte> target(source.size());
  std::uint64_t lost = 0;
  std::uint64_t kept = 0;
  const wire::Descriptor lost_descriptor = pair.sender.expose(source, lost, 1);
  const wire::Descriptor kept_descriptor = pair.sender.expose(source, kept, 2);
  wire::Grant lost_grant{};
  wire::Grant kept_grant{};
  std::vector<std::byte> untouched(source.size());
  std::vector<std::byte> returned(source.size());
  ASSERT_EQ(pair.sender.peer->grant(1, untouched, lost_grant), RIPC_OK);
  ASSERT_EQ(pair.sender.peer->grant(2, returned, kept_grant), RIPC_OK);
  pair.sender.peer->end_owner(1);
  EXPECT_EQ(pair.sender.peer->transfer_status(lost), RIPC_PEER_DEAD);
  EXPECT_EQ(pair.receiver.take(lost_descriptor, target.data()), RIPC_REVOKED);
  EXPECT_EQ(pair.receiver.take(kept_descriptor, target.data()), RIPC_OK);
  EXPECT_EQ(pair.sender.outcome(kept), RIPC_OK);
  EXPECT_EQ(pair.receiver.peer->push(lost_grant, source), RIPC_REVOKED);
  EXPECT_EQ(pair.receiver.peer->push(kept_grant, source), RIPC_OK);
  EXPECT_EQ(pair.sender.peer->end_grant(lost_grant), RIPC_EMPTY);
  EXPECT_EQ(pair.sender.peer->end_grant(kept_grant), RIPC_OK);
  EXPECT_EQ(source, returned);
  EXPECT_TRUE(all_are(untouched, std::byte{0}));
}

}  // namespace
}  // namespace ripc::internal::socket
