// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/transfer_table.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "../../base/process_helpers.hpp"
#include "shm_helpers.hpp"

namespace ripc::internal::shm {
namespace {

constexpr std::array<ExposedItem, 1> kNothing{{{nullptr, 0, 0}}};

struct Ends {
  LinkMemory memory;
  TransferOwner owner{memory.owner()};
  TransferTaker taker{memory.peer()};
  bool tell = false;
  std::array<bool, kTransferSlots> reads{};

  Key expose() {
    Key key{};
    EXPECT_EQ(owner.expose(kNothing, key), RIPC_OK);
    return key;
  }
  Key pulling() {
    const Key key = expose();
    EXPECT_EQ(taker.begin(key), RIPC_OK);
    return key;
  }
  ripc_status revoke(Key key) noexcept {
    bool is_read = false;
    const ripc_status status = owner.revoke(key, is_read);
    reads[key.slot] = is_read;
    return status;
  }
  // Whether the receiver still reads a transfer that was revoked.
  bool is_draining(Key key) noexcept { return reads[key.slot] && owner.status(key) == RIPC_PENDING; }
};

TEST(Key, KeepsItsPartsInOneNumber) {
  const Key key = Key::from(Key{0x12345678, 77, 63}.value());
  EXPECT_EQ(key.generation, 0x12345678u);
  EXPECT_EQ(key.slot, 77);
  EXPECT_EQ(key.item, 63);
  EXPECT_EQ(Key::from(UINT64_MAX).value(), UINT64_MAX);
}

TEST(Transfer, GoesFromExposedOverPullingToDone) {
  Ends ends;
  const Key key = ends.expose();
  EXPECT_EQ(key.item, 0);
  EXPECT_EQ(ends.owner.status(key), RIPC_PENDING);
  EXPECT_EQ(ends.taker.begin(key), RIPC_OK);
  EXPECT_EQ(ends.owner.status(key), RIPC_PENDING);
  EXPECT_EQ(ends.taker.finish(key, RIPC_OK, ends.tell), RIPC_OK);
  EXPECT_FALSE(ends.tell) << "nobody asked";
  EXPECT_EQ(ends.owner.status(key), RIPC_OK);
}

TEST(Transfer, CanBeBegunOnce) {
  Ends ends;
  const Key key = ends.pulling();
  EXPECT_EQ(ends.taker.begin(key), RIPC_REVOKED);
  EXPECT_EQ(ends.taker.finish(key, RIPC_OK, ends.tell), RIPC_OK);
  EXPECT_EQ(ends.taker.begin(key), RIPC_REVOKED);
  EXPECT_EQ(ends.taker.finish(key, RIPC_OK, ends.tell), RIPC_REVOKED) << "and finished once";
}

TEST(Transfer, TellsTheOwnerHowTheReceiverFinishedIt) {
  Ends ends;
  for (const ripc_status status :
       {RIPC_OK, RIPC_NO_WINDOW, RIPC_WINDOW_TOO_SMALL, RIPC_REFUSED, RIPC_NO_MEMORY, RIPC_CANCELLED}) {
    const Key key = ends.pulling();
    EXPECT_EQ(ends.taker.finish(key, status, ends.tell), RIPC_OK);
    EXPECT_EQ(ends.owner.status(key), status);
  }
  const Key key = ends.pulling();
  EXPECT_EQ(ends.taker.finish(key, RIPC_CLOSED, ends.tell), RIPC_OK);
  EXPECT_EQ(ends.owner.status(key), RIPC_PEER_DEAD) << "a service that was closed is gone for its senders";
}

TEST(Transfer, BelievesOnlyStatusesThatAReceiverCanReport) {
  Ends ends;
  for (const ripc_status status : {RIPC_PENDING, RIPC_TIMEOUT, RIPC_FORKED, RIPC_SYSTEM}) {
    const Key key = ends.pulling();
    EXPECT_EQ(ends.taker.finish(key, status, ends.tell), RIPC_OK);
    EXPECT_EQ(ends.owner.status(key), RIPC_CORRUPT) << status;
  }
}

TEST(Transfer, OfEverySlotAtOnceThenSaysAgain) {
  Ends ends;
  std::vector<Key> keys;
  for (std::size_t i = 0; i < kTransferSlots; ++i) keys.push_back(ends.expose());
  Key key{};
  EXPECT_EQ(ends.owner.expose(kNothing, key), RIPC_AGAIN);
  EXPECT_EQ(ends.revoke(keys[5]), RIPC_REVOKED);
  EXPECT_EQ(ends.owner.expose(kNothing, key), RIPC_OK);
  EXPECT_NE(key.value(), keys[5].value()) << "a slot that is used again has another name";
  EXPECT_EQ(ends.taker.begin(keys[5]), RIPC_REVOKED);
  EXPECT_EQ(ends.taker.begin(key), RIPC_OK);
  for (const Key& other : keys) {
    if (other.value() != keys[5].value()) {
      EXPECT_EQ(ends.taker.begin(other), RIPC_OK);
    }
  }
}

TEST(Transfer, RevokedBeforeItWasBegunCannotBeBegun) {
  Ends ends;
  const Key key = ends.expose();
  EXPECT_EQ(ends.revoke(key), RIPC_REVOKED);
  EXPECT_FALSE(ends.is_draining(key)) << "nobody reads";
  EXPECT_EQ(ends.taker.begin(key), RIPC_REVOKED);
}

TEST(Transfer, RevokedDuringThePullCannotBeDeliveredAndDrainsUntilTheReceiverStops) {
  Ends ends;
  const Key key = ends.pulling();
  EXPECT_EQ(ends.revoke(key), RIPC_REVOKED);
  EXPECT_TRUE(ends.is_draining(key));
  EXPECT_FALSE(ends.taker.mark_lent(key));
  EXPECT_EQ(ends.taker.finish(key, RIPC_OK, ends.tell), RIPC_REVOKED);
  EXPECT_FALSE(ends.is_draining(key));
}

TEST(Transfer, RevokedAfterItWasFinishedHasTheStatusItFinishedWith) {
  Ends ends;
  const Key key = ends.pulling();
  EXPECT_EQ(ends.taker.finish(key, RIPC_NO_WINDOW, ends.tell), RIPC_OK);
  EXPECT_EQ(ends.revoke(key), RIPC_NO_WINDOW);
}

TEST(Transfer, ThatIsLentCannotBeRevokedUntilItIsGivenBack) {
  Ends ends;
  const Key key = ends.pulling();
  EXPECT_TRUE(ends.taker.mark_lent(key));
  EXPECT_TRUE(ends.taker.mark_lent(key)) << "it covers all items";
  EXPECT_EQ(ends.revoke(key), RIPC_PENDING);
  EXPECT_EQ(ends.owner.status(key), RIPC_PENDING);
  EXPECT_EQ(ends.taker.finish(key, RIPC_OK, ends.tell), RIPC_OK);
  EXPECT_EQ(ends.owner.status(key), RIPC_OK);
}

TEST(Transfer, IsOnlyLentWhileItIsPulled) {
  Ends ends;
  const Key key = ends.expose();
  EXPECT_FALSE(ends.taker.mark_lent(key));
  EXPECT_EQ(ends.taker.begin(key), RIPC_OK);
  EXPECT_EQ(ends.taker.finish(key, RIPC_OK, ends.tell), RIPC_OK);
  EXPECT_FALSE(ends.taker.mark_lent(key));
}

TEST(Transfer, FindsItsItemsWhileItIsExposed) {
  Ends ends;
  const std::array<std::byte, 8> bytes{};
  const std::array<ExposedItem, 2> items{{{bytes.data(), 3, 0}, {bytes.data() + 3, 5, 9}}};
  Key key{};
  ASSERT_EQ(ends.owner.expose(items, key), RIPC_OK);
  ExposedItem item{};
  ASSERT_TRUE(ends.owner.find({key.generation, key.slot, 1}, item));
  EXPECT_EQ(item.data, bytes.data() + 3);
  EXPECT_EQ(item.size, 5u);
  EXPECT_EQ(item.arena, 9u);
  ASSERT_EQ(ends.taker.begin(key), RIPC_OK);
  EXPECT_TRUE(ends.owner.find(key, item));
  EXPECT_EQ(item.size, 3u);
  EXPECT_FALSE(ends.owner.find({key.generation, key.slot, 2}, item)) << "no such item";
  EXPECT_FALSE(ends.owner.find({key.generation + 1, key.slot, 0}, item)) << "another generation";
  EXPECT_FALSE(ends.owner.find({key.generation, 100, 0}, item)) << "a slot that was never used";
  EXPECT_FALSE(ends.owner.find(Key::from(UINT64_MAX), item)) << "no such slot";
  EXPECT_EQ(ends.revoke(key), RIPC_REVOKED);
  EXPECT_FALSE(ends.owner.find(key, item));
}

TEST(Transfer, DoesNotEndWhileItsOwnerReadsItsMemoryForThePeer) {
  Ends ends;
  const std::array<std::byte, 8> bytes{};
  const std::array<ExposedItem, 1> items{{{bytes.data(), bytes.size(), 0}}};
  Key key{};
  ASSERT_EQ(ends.owner.expose(items, key), RIPC_OK);
  ASSERT_EQ(ends.taker.begin(key), RIPC_OK);
  ExposedItem item{};
  std::unique_lock<std::mutex> reading = ends.owner.find(key, item);
  ASSERT_TRUE(reading);
  EXPECT_EQ(ends.taker.finish(key, RIPC_OK, ends.tell), RIPC_OK);
  std::future<ripc_status> end = std::async(std::launch::async, [&] { return ends.owner.status(key); });
  EXPECT_EQ(end.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  reading.unlock();
  EXPECT_EQ(end.get(), RIPC_OK);
}

TEST(Transfer, OfSlotsThatDoNotExistIsCorrupt) {
  Ends ends;
  EXPECT_EQ(ends.taker.begin({1, kTransferSlots, 0}), RIPC_CORRUPT);
  EXPECT_EQ(ends.taker.begin({1, UINT16_MAX, 0}), RIPC_CORRUPT);
  EXPECT_EQ(ends.taker.finish({1, kTransferSlots, 0}, RIPC_OK, ends.tell), RIPC_CORRUPT);
}

TEST(Transfer, ThatIsWatchedMakesTheReceiverTellOnce) {
  Ends ends;
  const Key first = ends.pulling(), second = ends.pulling();
  ends.owner.watch(first);
  EXPECT_EQ(ends.taker.finish(first, RIPC_OK, ends.tell), RIPC_OK);
  EXPECT_TRUE(ends.tell);
  const auto [finished, count] = ends.owner.collect_finished();
  ASSERT_EQ(count, 1u);
  EXPECT_EQ(finished[0].key.value(), first.value());
  EXPECT_EQ(finished[0].status, RIPC_OK);
  EXPECT_EQ(ends.owner.status(first), RIPC_OK);
  EXPECT_EQ(ends.taker.finish(second, RIPC_OK, ends.tell), RIPC_OK);
  EXPECT_FALSE(ends.tell) << "nobody watches the second";
}

TEST(Transfer, ThatNoOneWatchesIsNotReported) {
  Ends ends;
  const Key watched = ends.pulling(), other = ends.pulling();
  ends.owner.watch(watched);
  EXPECT_EQ(ends.taker.finish(other, RIPC_OK, ends.tell), RIPC_OK);
  EXPECT_FALSE(ends.tell) << "only another one is watched";
  EXPECT_EQ(ends.owner.status(other), RIPC_OK);
  EXPECT_EQ(ends.taker.finish(watched, RIPC_OK, ends.tell), RIPC_OK);
  EXPECT_TRUE(ends.tell);
}

TEST(Transfer, IsNotWatchedBecauseTheOneBeforeItInItsSlotWas) {
  Ends ends;
  const Key first = ends.pulling(), other = ends.pulling();
  ends.owner.watch(first);
  ends.owner.watch(other);
  EXPECT_EQ(ends.revoke(first), RIPC_REVOKED);
  EXPECT_EQ(ends.taker.finish(first, RIPC_OK, ends.tell), RIPC_REVOKED);
  EXPECT_FALSE(ends.is_draining(first));
  (void)ends.owner.collect_finished();
  const Key second = ends.pulling();
  ASSERT_EQ(second.slot, first.slot);
  EXPECT_EQ(ends.taker.finish(second, RIPC_OK, ends.tell), RIPC_OK);
  EXPECT_FALSE(ends.tell);
}

TEST(Transfer, OfALaterSlotIsWatchedByABitOfItsOwn) {
  Ends ends;
  std::vector<Key> keys;
  for (std::size_t count = 0; count < kTransferSlots; ++count) keys.push_back(ends.pulling());
  ends.owner.watch(keys[kTransferSlots - 1]);
  for (std::size_t slot = 0; slot < kTransferSlots - 1; ++slot) {
    EXPECT_EQ(ends.taker.finish(keys[slot], RIPC_OK, ends.tell), RIPC_OK);
    EXPECT_FALSE(ends.tell) << slot;
  }
  EXPECT_EQ(ends.taker.finish(keys[kTransferSlots - 1], RIPC_OK, ends.tell), RIPC_OK);
  EXPECT_TRUE(ends.tell);
}

TEST(Transfer, StaysWatchedWhileOthersFinish) {
  Ends ends;
  const Key first = ends.pulling(), second = ends.pulling();
  ends.owner.watch(first);
  ends.owner.watch(second);
  EXPECT_EQ(ends.taker.finish(first, RIPC_OK, ends.tell), RIPC_OK);
  EXPECT_TRUE(ends.tell);
  EXPECT_EQ(ends.owner.collect_finished().count, 1u);
  EXPECT_EQ(ends.owner.status(first), RIPC_OK);
  EXPECT_EQ(ends.taker.finish(second, RIPC_OK, ends.tell), RIPC_OK);
  EXPECT_TRUE(ends.tell);
  EXPECT_EQ(ends.owner.collect_finished().count, 1u);
}

TEST(Transfer, ThatIsWatchedWhenItHasFinishedIsSeenToHave) {
  Ends ends;
  const Key key = ends.pulling();
  EXPECT_EQ(ends.taker.finish(key, RIPC_NO_WINDOW, ends.tell), RIPC_OK);
  ends.owner.watch(key);
  EXPECT_EQ(ends.owner.status(key), RIPC_NO_WINDOW);
}

TEST(Transfer, EndsWhenThePeerDiesButKeepsWhatItHadFinished) {
  Ends ends;
  const Key exposed = ends.expose(), pulling = ends.pulling(), lent = ends.pulling(), done = ends.pulling(),
            drained = ends.pulling();
  EXPECT_TRUE(ends.taker.mark_lent(lent));
  EXPECT_EQ(ends.taker.finish(done, RIPC_NO_WINDOW, ends.tell), RIPC_OK);
  EXPECT_EQ(ends.revoke(drained), RIPC_REVOKED);
  EXPECT_TRUE(ends.is_draining(drained));
  ends.owner.peer_died();
  EXPECT_FALSE(ends.is_draining(drained));
  EXPECT_EQ(ends.owner.status(exposed), RIPC_PEER_DEAD);
  EXPECT_EQ(ends.revoke(pulling), RIPC_PEER_DEAD);
  EXPECT_EQ(ends.owner.status(lent), RIPC_PEER_DEAD);
  EXPECT_EQ(ends.owner.status(done), RIPC_NO_WINDOW);
  ExposedItem item{};
  EXPECT_FALSE(ends.owner.find(exposed, item));
  Key key{};
  EXPECT_EQ(ends.owner.expose(kNothing, key), RIPC_PEER_DEAD);
}

// The connection has ended, but the process runs on and has the memory mapped.
TEST(Transfer, EndsWithThePeerWhateverThePeerWritesIntoItsWordAfterwards) {
  for (const TransferState forged : {TransferState::exposed, TransferState::pulling, TransferState::lent,
                                     TransferState::revoked, TransferState::drained}) {
    SCOPED_TRACE(static_cast<int>(forged));
    Ends ends;
    const Key waited = ends.pulling(), revoked = ends.pulling(), draining = ends.pulling();
    EXPECT_EQ(ends.revoke(draining), RIPC_REVOKED);
    EXPECT_TRUE(ends.is_draining(draining));
    ends.owner.peer_died();
    for (const Key key : {waited, revoked, draining})
      ends.memory.control().transfers[key.slot].store(std::uint64_t{key.generation} << 32 |
                                                      static_cast<std::uint8_t>(forged));
    EXPECT_EQ(ends.owner.collect_finished().count, 3u) << "waiting threads are told";
    EXPECT_EQ(ends.owner.status(waited), RIPC_PEER_DEAD);
    EXPECT_EQ(ends.revoke(revoked), RIPC_PEER_DEAD);
    EXPECT_FALSE(ends.is_draining(draining)) << "its memory is free again";
  }
}

TEST(Transfer, WithAForgedWordIsCorruptAndCanBeRevoked) {
  Ends ends;
  const Key forged = ends.expose(), revoked = ends.expose();
  ends.memory.control().transfers[forged.slot].store(0x1234'5678'0000'0004);
  EXPECT_EQ(ends.owner.status(forged), RIPC_CORRUPT);
  ends.memory.control().transfers[revoked.slot].store(UINT64_MAX);
  EXPECT_EQ(ends.revoke(revoked), RIPC_REVOKED);
  EXPECT_FALSE(ends.is_draining(revoked));
}

// Withdrawn memory is never delivered, and delivered memory is never reported as withdrawn.
TEST(Transfer, IsEitherDeliveredOrRevokedWhenBothHappenAtOnce) {
  Ends ends;
  for (const bool lend : {false, true}) {
    for (int round = 0; round < 1500; ++round) {
      const Key key = ends.expose();
      std::atomic<int> ready{0};
      ripc_status delivered = RIPC_PENDING;
      std::thread receiver([&] {
        ++ready;
        while (ready < 2) std::this_thread::yield();
        bool tell = false;
        if (ends.taker.begin(key) != RIPC_OK) {
          delivered = RIPC_REVOKED;
          return;
        }
        if (lend) (void)ends.taker.mark_lent(key);
        delivered = ends.taker.finish(key, RIPC_OK, tell);
      });
      ++ready;
      while (ready < 2) std::this_thread::yield();
      ripc_status outcome = ends.revoke(key);
      receiver.join();
      if (outcome == RIPC_PENDING) outcome = ends.owner.status(key);
      ASSERT_EQ(outcome, delivered) << "round " << round;
      ASSERT_FALSE(ends.is_draining(key));
    }
  }
}

// ---- Grants ----------------------------------------------------------------------------------------------------

struct GrantEnds {
  LinkMemory memory;
  GrantOwner owner{memory.owner()};
  TransferTaker taker{memory.peer()};

  Key grant() {
    Key key{};
    EXPECT_EQ(owner.grant(key), RIPC_OK);
    return key;
  }
};

TEST(Grant, IsWrittenByOneAtATimeAndAgainUntilItEnds) {
  GrantEnds ends;
  const Key key = ends.grant();
  EXPECT_TRUE(ends.taker.begin_write(key));
  EXPECT_FALSE(ends.taker.begin_write(key));
  EXPECT_EQ(ends.owner.end(key), RIPC_PENDING);
  ends.taker.end_write(key, true);
  // The reply that was to announce the write found no room.
  EXPECT_TRUE(ends.taker.begin_write(key));
  EXPECT_EQ(ends.owner.end(key), RIPC_PENDING);
  ends.taker.end_write(key, true);
  EXPECT_EQ(ends.owner.end(key), RIPC_OK);
  EXPECT_FALSE(ends.taker.begin_write(key));
}

TEST(Grant, ThatEndedCannotBeWritten) {
  GrantEnds ends;
  const Key key = ends.grant();
  EXPECT_EQ(ends.owner.end(key), RIPC_EMPTY);
  EXPECT_FALSE(ends.taker.begin_write(key));
  ends.taker.end_write(key, true);
  const Key again = ends.grant();
  EXPECT_NE(again.value(), key.value());
  EXPECT_FALSE(ends.taker.begin_write(key));
  EXPECT_TRUE(ends.taker.begin_write(again));
}

TEST(Grant, StaysOpenAfterAWriteThatFailed) {
  GrantEnds ends;
  const Key key = ends.grant();
  EXPECT_TRUE(ends.taker.begin_write(key));
  ends.taker.end_write(key, false);
  EXPECT_TRUE(ends.taker.begin_write(key));
  ends.taker.end_write(key, false);
  EXPECT_EQ(ends.owner.end(key), RIPC_EMPTY);
}

TEST(Grant, OfEverySlotAtOnceThenSaysAgain) {
  GrantEnds ends;
  std::vector<Key> keys;
  for (std::size_t i = 0; i < kGrantSlots; ++i) keys.push_back(ends.grant());
  Key key{};
  EXPECT_EQ(ends.owner.grant(key), RIPC_AGAIN);
  EXPECT_EQ(ends.owner.end(keys[3]), RIPC_EMPTY);
  EXPECT_EQ(ends.owner.grant(key), RIPC_OK);
}

TEST(Grant, EndsAtOnceWhenThePeerDiedDuringAWrite) {
  GrantEnds ends;
  const Key writing = ends.grant(), written = ends.grant();
  EXPECT_TRUE(ends.taker.begin_write(writing));
  EXPECT_TRUE(ends.taker.begin_write(written));
  ends.taker.end_write(written, true);
  ends.owner.peer_died();
  EXPECT_EQ(ends.owner.end(writing), RIPC_EMPTY);
  EXPECT_EQ(ends.owner.end(written), RIPC_OK);
  Key key{};
  EXPECT_EQ(ends.owner.grant(key), RIPC_PEER_DEAD);
}

TEST(Grant, OfALostPeerStaysPendingDuringAWriteAsLongAsTheProcessRuns) {
  test::Child child([] { return ::pause(); });
  const PeerProcess process(UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, child.pid(), 0))), child.pid());
  const LinkMemory memory;
  GrantOwner owner(memory.owner(), &process);
  TransferTaker taker(memory.peer());
  Key key{};
  ASSERT_EQ(owner.grant(key), RIPC_OK);
  ASSERT_TRUE(taker.begin_write(key));
  owner.peer_died();
  EXPECT_EQ(owner.end(key), RIPC_PENDING);
  child.kill(SIGKILL);
  EXPECT_EQ(child.wait(), 1000 + SIGKILL);
  EXPECT_EQ(owner.end(key), RIPC_EMPTY);
}

TEST(Grant, OfSlotsThatDoNotExistIsNeitherWrittenNorEnded) {
  GrantEnds ends;
  EXPECT_FALSE(ends.taker.begin_write({1, kGrantSlots, 0}));
  EXPECT_EQ(ends.owner.end({1, kGrantSlots, 0}), RIPC_EMPTY);
  EXPECT_EQ(ends.owner.end(Key::from(UINT64_MAX)), RIPC_EMPTY);
}

TEST(Grant, IsWrittenOrEndedWhenBothHappenAtOnce) {
  GrantEnds ends;
  for (int round = 0; round < 1500; ++round) {
    const Key key = ends.grant();
    bool wrote = false;
    std::thread replier([&] {
      wrote = ends.taker.begin_write(key);
      if (wrote) ends.taker.end_write(key, true);
    });
    ripc_status status = ends.owner.end(key);
    replier.join();
    if (status == RIPC_PENDING) status = ends.owner.end(key);
    ASSERT_EQ(status, wrote ? RIPC_OK : RIPC_EMPTY);
  }
}

}  // namespace
}  // namespace ripc::internal::shm
