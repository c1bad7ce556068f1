// SPDX-License-Identifier: Apache-2.0
// Tests two hosts whose cable loses, delays, reorders and duplicates packets. Long messages arrive whole, lost short
// messages are counted, and nothing stalls.
#include <gtest/gtest.h>

#include "hosts_fixture.hpp"

namespace fault {
namespace {

// Longer than any pause that a bad cable makes.
constexpr std::uint64_t kPeerTimeout = 20 * kSecond;
constexpr std::uint64_t kPatience = 60 * kSecond;
constexpr std::uint64_t kFlood = 5000;

class BadCable : public RelayedHostTest {
 protected:
  void TearDown() override { EXPECT_EQ(unsetenv("RIPC_SOCKET_STREAMS"), 0); }
  // Makes links on both hosts do without a connection of their own. To be called before start().
  static void use_datagrams_only() { ASSERT_EQ(setenv("RIPC_SOCKET_STREAMS", "off", 1), 0); }
  // Sends a long message each way. The request for the second one is a short message, which may be lost.
  void exchange(std::uint64_t seed, std::size_t size) {
    Ticket ticket;
    ASSERT_EQ(asker_->send_long(size, seed, ticket), RIPC_OK) << ripc_last_error();
    ASSERT_EQ(ripc_ticket_wait(ticket.get(), kPatience), RIPC_OK) << ripc_last_error();
    ripc_status status = RIPC_TIMEOUT;
    ASSERT_TRUE(eventually(
        [&] {
          if (asker_->request_long(size, seed + 1) == RIPC_OK) status = asker_->receive_long(5 * kSecond);
          return status != RIPC_TIMEOUT;
        },
        kPatience));
    ASSERT_EQ(status, RIPC_OK) << ripc_status_name(status);
  }
  // Expects that each message sent was received, counted as lost, or counted as too late. `told` gets the holder's
  // totals.
  void accounts_for_all(Told& told) {
    const std::optional<Told> answer = asker_->ask(kPatience);
    ASSERT_TRUE(answer) << ripc_last_error();
    told = *answer;
    const std::uint64_t sent = statistics_of(asker_->service()).messages_sent;
    EXPECT_EQ(told.taken + told.lost + told.late, sent)
        << told.taken << " taken, " << told.lost << " lost, " << told.late << " late";
  }
};

TEST_F(BadCable, LongMessagesComeWholeWhateverIsLost) {
  ASSERT_NO_FATAL_FAILURE(start(kPeerTimeout));
  struct Case {
    std::uint64_t lost;
    std::size_t size;
  };
  for (const Case& one : {Case{0, kLong}, Case{10, 4'000'000}, Case{50, 1'000'000}, Case{200, 100'000}}) {
    SCOPED_TRACE(std::to_string(one.lost) + " of 1000 packets are lost");
    hosts_.relay().set({.lost = one.lost});
    const std::uint64_t before = hosts_.relay().lost();
    ASSERT_NO_FATAL_FAILURE(exchange(one.lost, one.size));
    if (one.lost != 0) {
      EXPECT_GT(hosts_.relay().lost(), before);
    }
  }
  hosts_.relay().set({});
  const std::optional<Told> told = asker_->ask();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->whole, 4u);
  EXPECT_EQ(told->torn, 0u);
  EXPECT_EQ(told->most_copies, 1u);
}

TEST_F(BadCable, LongMessagesComeWholeThroughDelayReorderingAndDuplication) {
  ASSERT_NO_FATAL_FAILURE(start(kPeerTimeout));
  hosts_.relay().set({.lost = 5, .duplicated = 50, .reordered = 50, .delay = 2 * kMillisecond});
  ASSERT_NO_FATAL_FAILURE(exchange(1, 4'000'000));
  const std::optional<Told> told = asker_->ask(kPatience);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->torn, 0u);
  EXPECT_EQ(told->most_copies, 1u);
}

TEST_F(BadCable, ShortMessagesThatAreLostAreCountedAndCreditsDoNotRunOut) {
  ASSERT_NO_FATAL_FAILURE(use_datagrams_only());
  ASSERT_NO_FATAL_FAILURE(start(kPeerTimeout));
  Told told{};
  for (const std::uint64_t lost : {0u, 10u, 50u, 200u}) {
    SCOPED_TRACE(std::to_string(lost) + " of 1000 packets are lost");
    const std::uint64_t before = told.lost;
    hosts_.relay().set({.lost = lost});
    ASSERT_NO_FATAL_FAILURE(flood(kFlood, kPatience));
    ASSERT_NO_FATAL_FAILURE(accounts_for_all(told));
    if (lost == 0) {
      EXPECT_EQ(told.lost, 0u) << "the cable lost " << hosts_.relay().lost();
    } else {
      // The bounds are so wide that no seed makes the test fail.
      EXPECT_GT(told.lost - before, kFlood * lost / 1000 / 2);
      EXPECT_LT(told.lost - before, kFlood * lost / 1000 * 2 + 50);
    }
  }
  EXPECT_EQ(told.duplicates, 0u);
}

TEST_F(BadCable, NothingIsLostOnceALinkHasAConnection) {
  constexpr std::size_t kMedium = 5000;
  ASSERT_NO_FATAL_FAILURE(start(kPeerTimeout));
  ASSERT_EQ(send_short(asker_->service(), kHolder, 1, kMedium, kIgnored), RIPC_OK) << ripc_last_error();
  Told told{};
  for (const std::uint64_t lost : {10u, 50u}) {
    SCOPED_TRACE(std::to_string(lost) + " of 1000 packets are lost");
    hosts_.relay().set({.lost = lost, .reordered = lost});
    ASSERT_NO_FATAL_FAILURE(flood(kFlood, kPatience));
    ASSERT_NO_FATAL_FAILURE(accounts_for_all(told));
    EXPECT_EQ(told.lost + told.late, 0u);
  }
}

TEST_F(BadCable, DuplicatesAreDroppedAndCounted) {
  ASSERT_NO_FATAL_FAILURE(use_datagrams_only());
  ASSERT_NO_FATAL_FAILURE(start(kPeerTimeout));
  hosts_.relay().set({.duplicated = 200});
  ASSERT_NO_FATAL_FAILURE(flood(kFlood, kPatience));
  Told told{};
  ASSERT_NO_FATAL_FAILURE(accounts_for_all(told));
  // Credits do not cover duplicates: while the receiver does not run, duplicates take the room of other packets.
  EXPECT_EQ(told.late, 0u);
  EXPECT_LE(told.lost, hosts_.dropped_there());
  EXPECT_GT(told.duplicates, kFlood / 10);
  EXPECT_LE(told.duplicates, hosts_.relay().duplicated());
}

TEST_F(BadCable, MessagesThatWereOvertakenAreDroppedAndCounted) {
  ASSERT_NO_FATAL_FAILURE(use_datagrams_only());
  ASSERT_NO_FATAL_FAILURE(start(kPeerTimeout));
  hosts_.relay().set({.reordered = 100, .delay = kMillisecond});
  ASSERT_NO_FATAL_FAILURE(flood(kFlood, kPatience));
  Told told{};
  ASSERT_NO_FATAL_FAILURE(accounts_for_all(told));
  EXPECT_GT(told.late, 0u);
  EXPECT_LE(told.late, hosts_.relay().reordered());
}

TEST_F(BadCable, ServicesAreFoundThoughAFifthOfAllPacketsIsLost) {
  ASSERT_NO_FATAL_FAILURE(start(kPeerTimeout));
  hosts_.relay().set({.lost = 200});
  const std::uint64_t before = hosts_.relay().lost();
  for (int round = 0; round < 20; ++round) {
    const Context newcomer = make_far_context(directory_here_.path());
    ripc_service_info info{};
    info.size = sizeof info;
    EXPECT_EQ(ripc_resolve(newcomer.get(), kHolder, &info), RIPC_OK) << ripc_last_error();
  }
  EXPECT_GT(hosts_.relay().lost(), before);
}

}  // namespace
}  // namespace fault

int main(int argc, char** argv) { return fault::run(argc, argv, {{"holder", fault::holder}}); }
