// SPDX-License-Identifier: Apache-2.0
// Tests two hosts whose network fails. It is cut for a while or for good, in both directions or in one; addresses
// change, and the MTU shrinks. Processes are also killed in the middle of long transfers.
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "fault_support.hpp"
#include "hosts_fixture.hpp"

namespace fault {
namespace {

// What a call may take in addition to its promised time-out, because of heartbeats and of other work on this machine.
constexpr std::uint64_t kLate = 2 * kSecond;

// Leaves out the descriptors of pool arenas: the pool keeps as many as were ever needed at once.
std::size_t open_descriptors() { return descriptor_count() - descriptor_count("/memfd:ripc-pool"); }

class HostFaults : public HostTest {
 protected:
  void dies_in_time(const std::function<void()>& cut, const std::function<void()>& heal);

  // Sends a long message and calls `cut` when two fifths of it have left. The holder is stopped meanwhile, so that a
  // slow cut is not too late.
  void send_and_cut(std::uint64_t seed, Ticket& ticket, const std::function<void()>& cut) {
    const std::uint64_t before = Hosts::transmitted();
    ASSERT_EQ(asker_->send_long(kLong, seed, ticket), RIPC_OK) << ripc_last_error();
    ASSERT_TRUE(eventually([&] { return Hosts::transmitted() >= before + kLong / 5 * 2; }));
    process_.signal(SIGSTOP);
    cut();
    const ripc_status status = ripc_ticket_poll(ticket.get());
    process_.signal(SIGCONT);
    ASSERT_EQ(status, RIPC_PENDING) << "the cut came too late to be one";
  }
};

TEST_F(HostFaults, ALongMessageGoesOnAfterACutThatIsShorterThanThePeerTimeout) {
  ASSERT_NO_FATAL_FAILURE(start(4 * kSecond));
  ASSERT_NO_FATAL_FAILURE(exchange_long(100));
  const std::size_t connections = Hosts::connections();
  const std::uint64_t before = Hosts::transmitted();
  Ticket ticket;
  ASSERT_NO_FATAL_FAILURE(send_and_cut(1, ticket, [&] { hosts_.plug(false); }));
  // The control connection is given up after half of the peer time-out; it must be made anew.
  ASSERT_TRUE(eventually([&] { return Hosts::connections() < connections; }));
  hosts_.plug(true);
  EXPECT_EQ(ripc_ticket_wait(ticket.get(), kLimit), RIPC_OK) << ripc_last_error();
  EXPECT_LT(Hosts::transmitted() - before, kLong + kLong / 5) << "it was sent from the beginning again";
  const std::optional<Told> told = asker_->ask();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->whole, 2u);
  EXPECT_EQ(told->torn, 0u);
  EXPECT_EQ(told->most_copies, 1u);
}

// The kernel of this host knows only the users of this host.
TEST_F(HostFaults, APeerOfAnotherHostHasNoUserHere) {
  ASSERT_NO_FATAL_FAILURE(start(4 * kSecond));
  ASSERT_EQ(asker_->request_long(100'000, 1), RIPC_OK) << ripc_last_error();
  const Message message = receive(asker_->service(), kLimit);
  ASSERT_TRUE(message);
  ASSERT_EQ(ripc_message_get_source(message.get()), kHolder);
  ripc_peer peer;
  ripc_peer_init(&peer);
  EXPECT_EQ(ripc_message_peer(message.get(), &peer), RIPC_OK);
  EXPECT_EQ(peer.is_on_this_host, 0u);
  EXPECT_EQ(peer.user, UINT32_MAX);
  EXPECT_STREQ(peer.identity, "");
}

class HostMembers : public HostTest {
 protected:
  void be(const char* member) { EXPECT_EQ(setenv("RIPC_IDENTITY_FILE", (directory_here_ / member).c_str(), 1), 0); }
  void SetUp() override {
    HostTest::SetUp();
    const std::string trust = directory_here_ / "trust";
    for (const char* member : {"holder", "asker"}) {
      std::array<char, RIPC_PUBLIC_KEY_SIZE> key{};
      ASSERT_EQ(ripc_identity_create((directory_here_ / member).c_str(), 0, nullptr, 0, key.data()), RIPC_OK);
      const std::string line = std::string(key.data()) + " holds=*";
      ASSERT_EQ(ripc_trust_change(trust.c_str(), member, line.c_str(), nullptr), RIPC_OK) << ripc_last_error();
    }
    ASSERT_EQ(setenv("RIPC_TRUST_FILE", trust.c_str(), 1), 0);
  }
  void TearDown() override {
    EXPECT_EQ(unsetenv("RIPC_TRUST_FILE"), 0);
    EXPECT_EQ(unsetenv("RIPC_IDENTITY_FILE"), 0);
  }
};

// No kernel knows the user at the other end, so each end knows the other by the key that it proves.
TEST_F(HostMembers, APeerOfAnotherHostIsTheMemberWhoseKeyItHas) {
  be("holder");
  start_holder();
  be("asker");
  asker_ = std::make_unique<Asker>(directory_here_.path());
  ASSERT_TRUE(*asker_);
  ASSERT_TRUE(asker_->ask()) << ripc_last_error();
  ASSERT_EQ(asker_->request_long(100'000, 1), RIPC_OK) << ripc_last_error();
  const Message message = receive(asker_->service(), kLimit);
  ASSERT_TRUE(message);
  ripc_peer peer;
  ripc_peer_init(&peer);
  EXPECT_EQ(ripc_message_peer(message.get(), &peer), RIPC_OK);
  EXPECT_EQ(peer.is_on_this_host, 0u);
  EXPECT_STREQ(peer.identity, "holder");
}

// Tests a cut that lasts. Everything that waits for the peer ends in time with its death, and nothing of the peer is
// left. When the network works again, so does the path.
void HostFaults::dies_in_time(const std::function<void()>& cut, const std::function<void()>& heal) {
  constexpr std::uint64_t kPeerTimeout = kSecond;
  ASSERT_NO_FATAL_FAILURE(start(kPeerTimeout));
  ASSERT_NO_FATAL_FAILURE(exchange_long(100));
  ripc_service_info nobody{};
  nobody.size = sizeof nobody;
  // The resolver keeps the sockets of its first question, so it asks once before descriptors are counted.
  ASSERT_EQ(ripc_resolve(ripc_service_get_context(asker_->service().get()), kNobody, &nobody), RIPC_NO_SERVICE);
  const std::size_t descriptors = open_descriptors();
  const std::optional<Told> known_before = asker_->ask();
  ASSERT_TRUE(known_before);
  Ticket ticket;
  ASSERT_NO_FATAL_FAILURE(send_and_cut(1, ticket, cut));
  const std::uint64_t cut_at = now();
  EXPECT_EQ(ripc_ticket_wait(ticket.get(), kLimit), RIPC_PEER_DEAD);
  EXPECT_LE(now() - cut_at, kPeerTimeout + kLate);
  ticket.reset();  // the ticket keeps its channel open
  const std::uint64_t asked_at = now();
  const ripc_status status = send_short(asker_->service(), kHolder, 1);
  EXPECT_TRUE(status == RIPC_PEER_DEAD || status == RIPC_NO_SERVICE || status == RIPC_TIMEOUT)
      << ripc_status_name(status) << ": " << ripc_last_error();
  EXPECT_LE(now() - asked_at, kSecond + kLate) << "longer than the time for resolving";
  heal();
  const std::optional<Told> told = asker_->ask();
  ASSERT_TRUE(told) << "the path does not come back: " << ripc_last_error();
  EXPECT_EQ(told->torn, 0u);
  EXPECT_EQ(told->whole, known_before->whole) << "a message was delivered that had failed";
  ASSERT_NO_FATAL_FAILURE(exchange_long(200));
  EXPECT_TRUE(eventually([&] { return open_descriptors() <= descriptors; }))
      << open_descriptors() << " descriptors, " << descriptors << " before";
  std::uint64_t there = 0;
  EXPECT_TRUE(eventually([&] {
    const std::optional<Told> last = asker_->ask();
    there = last ? last->descriptors : 0;
    return last && there <= known_before->descriptors;
  })) << there
      << " descriptors there, " << known_before->descriptors << " before";
}

TEST_F(HostFaults, APeerThatIsCutOffForGoodIsDeadInTimeAndComesBack) {
  dies_in_time([&] { hosts_.plug(false); }, [&] { hosts_.plug(true); });
}

TEST_F(HostFaults, APeerWhoseInterfaceGoesDownIsDeadInTimeAndComesBack) {
  dies_in_time([&] { hosts_.there("link set cable down"); }, [&] { hosts_.there("link set cable up"); });
}

// Frames to a wrong link-layer address are silently lost.
constexpr const char* kWrong = " lladdr 02:00:00:00:00:99 nud permanent dev cable";

TEST_F(HostFaults, APeerThatFallsSilentIsDeadInTimeAndComesBack) {
  const std::string address = Hosts::kHere;
  dies_in_time([&] { hosts_.there("neighbour replace " + address + kWrong); },
               [&] { hosts_.there("neighbour delete " + address + " dev cable"); });
}

TEST_F(HostFaults, APeerThatNoLongerHearsIsDeadInTimeAndComesBack) {
  const std::string address = Hosts::kThere;
  dies_in_time([&] { hosts_.here("neighbour replace " + address + kWrong); },
               [&] { hosts_.here("neighbour delete " + address + " dev cable"); });
}

TEST_F(HostFaults, AHostThatChangesItsAddressKeepsItsSessions) {
  ASSERT_NO_FATAL_FAILURE(start(kSecond));
  ASSERT_NO_FATAL_FAILURE(exchange_long(100));
  Ticket ticket;
  ASSERT_EQ(asker_->send_long(kLong, 150, ticket), RIPC_OK) << ripc_last_error();
  hosts_.here("link set cable down");
  hosts_.here(std::string("address delete ") + Hosts::kHere + "/24 dev cable");
  hosts_.here("address add 10.78.0.3/24 dev cable");
  hosts_.here("link set cable up");
  // No packet can leave from the former address any more; the session connects again, from the new one.
  EXPECT_TRUE(asker_->ask()) << ripc_last_error();
  EXPECT_EQ(ripc_ticket_wait(ticket.get(), kLimit), RIPC_OK) << "a ticket ends with the session";
  ASSERT_NO_FATAL_FAILURE(exchange_long(200));
}

TEST_F(HostFaults, AnMtuThatShrinksKeepsNoMessageBack) {
  ASSERT_NO_FATAL_FAILURE(start(kSecond));
  constexpr std::size_t kOneDatagram = 1400;
  std::size_t limit = 0;
  ASSERT_EQ(ripc_short_limit(asker_->service().get(), kHolder, 1, &limit), RIPC_OK) << ripc_last_error();
  const std::optional<Told> before = asker_->ask();
  ASSERT_TRUE(before);
  ASSERT_EQ(send_short(asker_->service(), kHolder, 7, kOneDatagram), RIPC_OK) << ripc_last_error();
  hosts_.there("link set cable mtu 600");
  hosts_.here("link set cable mtu 600");
  EXPECT_EQ(send_short(asker_->service(), kHolder, 8, kOneDatagram), RIPC_OK) << ripc_last_error();
  EXPECT_EQ(send_short(asker_->service(), kHolder, 9, limit), RIPC_OK) << ripc_last_error();
  EXPECT_EQ(send_short(asker_->service(), kHolder, 1, limit + 1), RIPC_TOO_LARGE);
  const std::optional<Told> after = asker_->ask();
  ASSERT_TRUE(after);
  EXPECT_EQ(after->whole, before->whole + 3) << "the largest message that the limit allows did not come";
  EXPECT_EQ(after->torn, 0u);
  ASSERT_NO_FATAL_FAILURE(exchange_long(200));
}

TEST_F(HostFaults, EitherSideGoesOnWhenTheOtherIsKilledInALongTransfer) {
  const auto [rounds, seed] = rounds_from_environment(10);
  Random random(seed);
  ASSERT_NO_FATAL_FAILURE(start(2 * kSecond));
  std::size_t descriptors = 0;
  std::uint64_t interrupted_sends = 0;
  std::uint64_t interrupted_receives = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const bool receiver_dies = round % 2 == 0;
    SCOPED_TRACE("round " + std::to_string(round) + (receiver_dies ? ", the receiver dies" : ", the sender dies"));
    // Kills each side before any data has moved, halfway, and when the last byte has left; then at random.
    const std::uint64_t share = round < 6 ? kLong / 2 * (round / 2) : random.below(kLong);
    Ticket ticket;
    if (receiver_dies) {
      const std::uint64_t before = Hosts::transmitted();
      ASSERT_EQ(asker_->send_long(kLong, random.next(), ticket), RIPC_OK) << ripc_last_error();
      ASSERT_TRUE(eventually([&] { return Hosts::transmitted() >= before + share; }));
      process_.kill();
      const ripc_status status = ripc_ticket_wait(ticket.get(), kLimit);
      EXPECT_TRUE(status == RIPC_OK || status == RIPC_PEER_DEAD) << ripc_status_name(status);
      if (status == RIPC_PEER_DEAD) ++interrupted_sends;
    } else {
      const std::uint64_t before = Hosts::received();
      ASSERT_EQ(asker_->request_long(kLong, random.next()), RIPC_OK) << ripc_last_error();
      // The transfer goes on only while this process receives.
      ripc_status status = RIPC_TIMEOUT;
      ASSERT_TRUE(eventually([&] {
        if (status == RIPC_TIMEOUT) status = asker_->receive_long(kMillisecond);
        return Hosts::received() >= before + share;
      }));
      process_.kill();
      if (status == RIPC_TIMEOUT) status = asker_->receive_long(kSecond);
      EXPECT_TRUE(status == RIPC_OK || status == RIPC_PEER_DEAD || status == RIPC_TIMEOUT) << ripc_status_name(status);
      if (status != RIPC_OK) ++interrupted_receives;
    }
    ticket.reset();
    start_holder();
    ASSERT_TRUE(asker_->ask()) << "the process that was started again is not reached";
    EXPECT_TRUE(eventually([&] { return asker_->window_is_free(); })) << "the window of the dead transfer stays used";
    if (round == 1) descriptors = open_descriptors();
    if (round <= 1) continue;
    EXPECT_TRUE(eventually([&] { return open_descriptors() <= descriptors; }))
        << open_descriptors() << " descriptors, " << descriptors << " at first";
  }
  std::printf("%llu sends and %llu receives were interrupted\n", static_cast<unsigned long long>(interrupted_sends),
              static_cast<unsigned long long>(interrupted_receives));
  EXPECT_GT(interrupted_sends, 0u) << "no receiver was ever killed in the midst of a transfer";
  EXPECT_GT(interrupted_receives, 0u) << "no sender was ever killed in the midst of a transfer";
  ASSERT_NO_FATAL_FAILURE(exchange_long(1));
}

}  // namespace
}  // namespace fault

int main(int argc, char** argv) { return fault::run(argc, argv, {{"holder", fault::holder}}); }
