// SPDX-License-Identifier: Apache-2.0
// Tests two hosts with two cables: long messages travel over both, and a cable that fails loses nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>

#include "hosts_fixture.hpp"

namespace fault {
namespace {

constexpr std::uint64_t kPeerTimeout = 2 * kSecond;
// Longer than any pause that a cable makes.
constexpr std::uint64_t kPatience = 60 * kSecond;

class Rails : public HostTest {
 protected:
  explicit Rails(Hosts::Cable cable = Hosts::Cable::two) : HostTest(cable) {}
  void TearDown() override { EXPECT_EQ(unsetenv("RIPC_RAILS"), 0); }

  static std::array<std::uint64_t, 2> transmitted() {
    return {Hosts::transmitted(), Hosts::transmitted(Hosts::kCable2)};
  }
  // The rails to the holder, by device.
  std::map<std::string, ripc_rail_info> rails() const {
    std::map<std::string, ripc_rail_info> found;
    const auto add = [](void* to, const ripc_rail_info* rail) {
      static_cast<std::map<std::string, ripc_rail_info>*>(to)->emplace(rail->device, *rail);
    };
    EXPECT_EQ(ripc_list_rails(asker_->context().get(), kHolder, add, &found), RIPC_OK) << ripc_last_error();
    return found;
  }
  void expect_two_rails() const {
    const std::string reason = path_to_holder(asker_->context()).reason;
    EXPECT_NE(reason.find("; 2 rails"), std::string::npos) << reason;
    EXPECT_FALSE(reason.ends_with("...")) << reason;
  }
  // Sends long messages until one has gone over both cables.
  void use_both() {
    both_used_ = false;
    for (int count = 0; !both_used_; ++count) {
      ASSERT_LT(count, 100) << "one of the cables carries nothing";
      const auto before = transmitted();
      ASSERT_NO_FATAL_FAILURE(send_whole());
      const auto after = transmitted();
      both_used_ = after[0] - before[0] > kLong / 10 && after[1] - before[1] > kLong / 10;
    }
    ASSERT_NO_FATAL_FAILURE(counts());
  }
  void send(Ticket& ticket, std::size_t size = kLong) {
    ripc_status status = RIPC_AGAIN;
    // There may be no room: the session may still send its short messages over the cable that is down.
    while ((status = asker_->send_long(size, ++sent_, ticket)) == RIPC_AGAIN) {
      --sent_;
      ASSERT_EQ(ripc_wait_room(asker_->service().get(), kHolder, kPatience), RIPC_OK) << ripc_last_error();
    }
    ASSERT_EQ(status, RIPC_OK) << ripc_last_error();
  }
  void send_whole(std::size_t size = kLong) {
    Ticket ticket;
    ASSERT_NO_FATAL_FAILURE(send(ticket, size));
    ASSERT_EQ(ripc_ticket_wait(ticket.get(), kPatience), RIPC_OK) << ripc_last_error();
  }
  // Sends a long message and calls `fault` while it travels.
  void send_while(Ticket& ticket, const std::function<void()>& fault) {
    const auto before = transmitted();
    ASSERT_NO_FATAL_FAILURE(send(ticket));
    ASSERT_TRUE(eventually([&] {
      const auto now = transmitted();
      return now[0] + now[1] - before[0] - before[1] > kLong / 4;
    }));
    fault();
  }
  // Expects that every message sent has arrived once, with the bytes that were sent.
  void counts() {
    const std::optional<Told> told = asker_->ask(kPatience);
    ASSERT_TRUE(told) << ripc_last_error();
    EXPECT_EQ(told->whole, sent_);
    EXPECT_EQ(told->torn, 0u);
    EXPECT_EQ(told->most_copies, 1u);
  }

  bool both_used_ = false;
  std::uint64_t sent_ = 0;
};

TEST_F(Rails, LongMessagesTravelOverBothCables) {
  ASSERT_NO_FATAL_FAILURE(start(kPeerTimeout));
  ASSERT_NO_FATAL_FAILURE(use_both());
  expect_two_rails();
  auto used = rails();
  ASSERT_EQ(used.size(), 2u);
  // The last sample of a rate may be wrong if the machine is busy. The next message corrects it.
  const auto is_spare = [](const auto& named) { return named.second.spare != 0; };
  for (int count = 0; count < 20 && std::ranges::any_of(used, is_spare); ++count) {
    ASSERT_NO_FATAL_FAILURE(use_both());
    used = rails();
  }
  const auto carried = transmitted();
  for (const auto& [cable, local, peer, bytes] : {std::tuple(Hosts::kCable, Hosts::kHere, Hosts::kThere, carried[0]),
                                                  std::tuple(Hosts::kCable2, "10.79.0.1", "10.79.0.2", carried[1])}) {
    SCOPED_TRACE(cable);
    const ripc_rail_info& rail = used[cable];
    EXPECT_EQ(std::string_view(rail.local), local);
    EXPECT_EQ(std::string_view(rail.peer), peer);
    EXPECT_GT(rail.bytes_sent, bytes / 2);
    EXPECT_LT(rail.bytes_sent, bytes) << "with the headers of the network";
    EXPECT_GT(rail.rate, 0u);
    EXPECT_EQ(rail.spare, 0u);
    EXPECT_EQ(rail.connections, 1u);
  }
}

TEST_F(Rails, AreShownBeforeTheFirstLongMessageAndWhereTheyHaveFailed) {
  ASSERT_NO_FATAL_FAILURE(start(kPeerTimeout));
  expect_two_rails();
  const auto unused = rails();
  ASSERT_EQ(unused.size(), 2u);
  for (const auto& [device, rail] : unused) {
    SCOPED_TRACE(device);
    EXPECT_EQ(rail.connections, 0u);
    EXPECT_EQ(rail.rate, 0u);
    EXPECT_EQ(rail.bytes_sent + rail.bytes_received, 0u);
  }
  // A medium message makes a TCP connection for the link.
  ASSERT_EQ(send_short(asker_->service(), kHolder, 0, 16384, kIgnored), RIPC_OK) << ripc_last_error();
  expect_two_rails();

  ASSERT_NO_FATAL_FAILURE(use_both());
  hosts_.there(std::string("link set ") + Hosts::kCable2 + " down");
  ASSERT_NO_FATAL_FAILURE(send_whole());
  EXPECT_TRUE(eventually([&] { return rails()[Hosts::kCable2].connections == 0; }, kPatience));
  EXPECT_EQ(rails().size(), 2u);
  EXPECT_EQ(rails()[Hosts::kCable].connections, 1u);
}

TEST_F(Rails, OneRailIsUsedIfThatIsWhatTheSettingSays) {
  ASSERT_EQ(setenv("RIPC_RAILS", "1", 1), 0);
  ASSERT_NO_FATAL_FAILURE(start(kPeerTimeout));
  for (int count = 0; count < 3; ++count) ASSERT_NO_FATAL_FAILURE(send_whole());
  const auto [first, second] = transmitted();
  EXPECT_LT(std::min(first, second), kLong / 10);
  ASSERT_NO_FATAL_FAILURE(counts());
}

TEST_F(Rails, OnlyInterfacesThatTheSettingNamesAreUsed) {
  ASSERT_EQ(setenv("RIPC_RAILS", Hosts::kCable2, 1), 0);
  ASSERT_NO_FATAL_FAILURE(start(kPeerTimeout));
  for (int count = 0; count < 3; ++count) ASSERT_NO_FATAL_FAILURE(send_whole());
  const auto [first, second] = transmitted();
  EXPECT_LT(first, kLong / 10);
  EXPECT_GT(second, 3 * kLong);
}

TEST_F(Rails, ACableThatFailsInTheMidstOfALongMessageLosesNothing) {
  for (const char* const cable : {Hosts::kCable, Hosts::kCable2}) {
    SCOPED_TRACE(cable);
    sent_ = 0;
    ASSERT_NO_FATAL_FAILURE(start(kPeerTimeout));
    ASSERT_NO_FATAL_FAILURE(use_both());
    Ticket ticket;
    ASSERT_NO_FATAL_FAILURE(send_while(ticket, [&] { hosts_.plug(false, cable); }));
    EXPECT_EQ(ripc_ticket_wait(ticket.get(), kPatience), RIPC_OK) << ripc_last_error();
    ASSERT_NO_FATAL_FAILURE(send_whole());
    ASSERT_NO_FATAL_FAILURE(counts());
    hosts_.plug(true, cable);
    EXPECT_NO_FATAL_FAILURE(use_both()) << "it is taken up again";
    asker_.reset();
  }
}

TEST_F(Rails, EachCableMayFailInTurn) {
  ASSERT_NO_FATAL_FAILURE(start(kPeerTimeout));
  ASSERT_NO_FATAL_FAILURE(use_both());
  for (int round = 0; round < 2; ++round) {
    for (const char* const cable : {Hosts::kCable, Hosts::kCable2}) {
      SCOPED_TRACE(cable);
      Ticket ticket;
      ASSERT_NO_FATAL_FAILURE(send_while(ticket, [&] { hosts_.plug(false, cable); }));
      EXPECT_EQ(ripc_ticket_wait(ticket.get(), kPatience), RIPC_OK) << ripc_last_error();
      // If the session used this cable, it has moved once both directions work again.
      ASSERT_NO_FATAL_FAILURE(counts());
      hosts_.plug(true, cable);
      ASSERT_NO_FATAL_FAILURE(use_both());
    }
  }
}

// The parameter says which cable is down in each of two alternating seconds; null: none.
class Flapping : public Rails, public testing::WithParamInterface<std::array<const char*, 2>> {};

TEST_P(Flapping, CablesThatComeAndGoLoseNothing) {
  ASSERT_NO_FATAL_FAILURE(start(kPeerTimeout));
  ASSERT_NO_FATAL_FAILURE(use_both());
  const std::uint64_t until = now() + number_from_environment("RIPC_FAULT_FLAPPING", 10) * kSecond;
  std::mutex mutex;
  std::condition_variable ended;
  bool is_over = false;
  std::thread flapping([&] {
    std::unique_lock lock(mutex);
    for (std::size_t turn = 0; !ended.wait_for(lock, std::chrono::seconds(1), [&] { return is_over; }); ++turn) {
      if (const char* const former = GetParam()[(turn + 1) % 2]) hosts_.plug(true, former);
      if (const char* const next = GetParam()[turn % 2]) hosts_.plug(false, next);
    }
  });
  while (now() < until && !HasFatalFailure()) send_whole();
  {
    const std::lock_guard lock(mutex);
    is_over = true;
  }
  ended.notify_one();
  flapping.join();
  for (const char* const cable : {Hosts::kCable, Hosts::kCable2}) hosts_.plug(true, cable);
  ASSERT_NO_FATAL_FAILURE(counts());
  EXPECT_NO_FATAL_FAILURE(use_both()) << "they are taken up again";
}

INSTANTIATE_TEST_SUITE_P(, Flapping,
                         testing::Values(std::array<const char*, 2>{Hosts::kCable2, nullptr},
                                         std::array<const char*, 2>{Hosts::kCable, nullptr},
                                         std::array<const char*, 2>{Hosts::kCable, Hosts::kCable2}),
                         [](const auto& instance) {
                           return instance.param[1] != nullptr         ? "BothInTurn"
                                  : instance.param[0] == Hosts::kCable ? "ThatOfTheSession"
                                                                       : "TheOther";
                         });

// The parameter is a cable, and how the addresses of its network begin.
class Renumbered : public Rails, public testing::WithParamInterface<std::pair<const char*, const char*>> {
 protected:
  // Commands that give an end of the cable another address; `host` is the last number of its present one.
  std::array<std::string, 2> commands(const char* host) {
    const auto [cable, network] = GetParam();
    const std::string end = std::string("/24 dev ") + cable;
    return {std::string("address delete ") + network + host + end, std::string("address add ") + network + "7" + end};
  }
};

TEST_P(Renumbered, ARailWhoseAddressHereChangesLosesNothingAndIsTakenUpAgain) {
  ASSERT_NO_FATAL_FAILURE(start(kPeerTimeout));
  ASSERT_NO_FATAL_FAILURE(use_both());
  Ticket ticket;
  ASSERT_NO_FATAL_FAILURE(send_while(ticket, [&] {
    for (const std::string& command : commands("1")) hosts_.here(command);
  }));
  EXPECT_EQ(ripc_ticket_wait(ticket.get(), kPatience), RIPC_OK) << ripc_last_error();
  ASSERT_NO_FATAL_FAILURE(counts());
  EXPECT_NO_FATAL_FAILURE(use_both()) << "it is not taken up again from the new address";
}

TEST_P(Renumbered, ARailWhoseAddressThereChangesLosesNothingAndTheNextSessionHasIt) {
  ASSERT_NO_FATAL_FAILURE(start(kPeerTimeout));
  ASSERT_NO_FATAL_FAILURE(use_both());
  Ticket ticket;
  ASSERT_NO_FATAL_FAILURE(send_while(ticket, [&] {
    for (const std::string& command : commands("2")) hosts_.there(command);
  }));
  EXPECT_EQ(ripc_ticket_wait(ticket.get(), kPatience), RIPC_OK) << ripc_last_error();
  ASSERT_NO_FATAL_FAILURE(send_whole());
  ASSERT_NO_FATAL_FAILURE(counts());
  asker_.reset();
  asker_ = std::make_unique<Asker>(directory_here_.path());
  ASSERT_TRUE(*asker_);
  EXPECT_NO_FATAL_FAILURE(use_both());
}

INSTANTIATE_TEST_SUITE_P(, Renumbered,
                         testing::Values(std::pair(Hosts::kCable, "10.78.0."), std::pair(Hosts::kCable2, "10.79.0.")),
                         [](const auto& instance) {
                           return std::string(instance.index == 0 ? "ThatOfTheSession" : "TheOther");
                         });

TEST_F(Rails, ACableThatIsTenTimesSlowerCarriesLittle) {
  ASSERT_NO_FATAL_FAILURE(start(kPeerTimeout));
  Hosts::shape(Hosts::kCable2, "100mbit");
  // The first messages find the rates out.
  for (int count = 0; count < 3; ++count) ASSERT_NO_FATAL_FAILURE(send_whole());
  const auto before = transmitted();
  for (int count = 0; count < 3; ++count) ASSERT_NO_FATAL_FAILURE(send_whole());
  const auto after = transmitted();
  EXPECT_LT(after[1] - before[1], (after[0] - before[0]) / 5);
  ASSERT_NO_FATAL_FAILURE(counts());
}

// The first of two cables loses packets when a test wants it to.
class LossyRail : public Rails {
 protected:
  LossyRail() : Rails(Hosts::Cable::relayed_and_direct) {}
};

// The bytes sent bound the time: the clean cable must carry most of them, and hardly anything may be sent twice.
TEST_F(LossyRail, ACableThatLosesPacketsHoldsUpNothing) {
  constexpr std::size_t kSize = std::size_t{64} << 20;
  ASSERT_NO_FATAL_FAILURE(start(kPeerTimeout));
  ASSERT_NO_FATAL_FAILURE(use_both());
  hosts_.relay().set({.lost = 50});
  // Each message finds the rails as the previous one left them.
  for (int count = 0; count < 3; ++count) {
    const auto before = transmitted();
    const std::uint64_t lost_before = hosts_.relay().lost();
    ASSERT_NO_FATAL_FAILURE(send_whole(kSize));
    const auto after = transmitted();
    EXPECT_GT(hosts_.relay().lost(), lost_before) << "the lossy cable is not used at all";
    EXPECT_GT(after[1] - before[1], kSize / 2);
    EXPECT_LT(after[0] - before[0] + after[1] - before[1], kSize / 4 * 5);
  }
  hosts_.relay().set({});
  ASSERT_NO_FATAL_FAILURE(counts());
}

// TCP repeats a lost part of a greeting after a second, which is all the time that the session has.
TEST_F(LossyRail, ASessionThatMovesThereOutlivesALostGreeting) {
  ASSERT_NO_FATAL_FAILURE(start(kPeerTimeout));
  ASSERT_NO_FATAL_FAILURE(use_both());
  hosts_.plug(false);
  ASSERT_NO_FATAL_FAILURE(counts()) << "over the clean cable";
  hosts_.plug(true);
  ASSERT_NO_FATAL_FAILURE(use_both());
  // The message is under way for three seconds, and would end with its session.
  Hosts::shape(Hosts::kCable, "80mbit");
  Ticket ticket;
  ASSERT_NO_FATAL_FAILURE(send(ticket, std::size_t{32} << 20));
  hosts_.relay().lose_next_dial();
  hosts_.there(std::string("link set ") + Hosts::kCable2 + " down");
  EXPECT_EQ(ripc_ticket_wait(ticket.get(), kPatience), RIPC_OK) << ripc_last_error();
  EXPECT_EQ(hosts_.relay().lost(), 1u);
  ASSERT_NO_FATAL_FAILURE(counts());
}

// The first cable lets connections be made, but drops large packets. The parameter says whether the holder sends the
// long messages.
class BlackHole : public LossyRail, public testing::WithParamInterface<bool> {
 protected:
  // Sends a long message. Returns whether the first cable carried a part of it.
  bool is_used() {
    constexpr std::size_t kSize = std::size_t{16} << 20;
    const auto carried = [] { return GetParam() ? Hosts::received() : Hosts::transmitted(); };
    const std::uint64_t before = carried();
    if (GetParam()) {
      EXPECT_EQ(asker_->request_long(kSize, 1), RIPC_OK) << ripc_last_error();
      EXPECT_EQ(asker_->receive_long(kPatience), RIPC_OK);
    } else {
      send_whole(kSize);
    }
    return carried() - before > kSize / 10;
  }
};

TEST_P(BlackHole, IsTriedLessAndLessOftenAndTakenUpAgain) {
  ASSERT_NO_FATAL_FAILURE(start(kPeerTimeout));
  ASSERT_TRUE(eventually([&] { return is_used(); }, kPatience));
  hosts_.relay().set({.longest = 600});
  const std::uint64_t before = Hosts::dials();
  for (const std::uint64_t until = now() + 4 * kPeerTimeout; now() < until && !HasFailure();) (void)is_used();
  const std::uint64_t tries = Hosts::dials() - before;
  EXPECT_GE(tries, 2u);
  EXPECT_LE(tries, 7u) << "each of them holds up what is under way";
  hosts_.relay().set({});
  EXPECT_TRUE(eventually([&] { return is_used(); }, kPatience)) << "it is not taken up again";
}

INSTANTIATE_TEST_SUITE_P(, BlackHole, testing::Bool(), [](const auto& instance) {
  return std::string(instance.param ? "OnTheWayBack" : "OnTheWayThere");
});

// A ticket would fail with its session.
TEST_F(Rails, TheSessionOutlivesTheCableThatItUses) {
  ASSERT_NO_FATAL_FAILURE(start(kPeerTimeout));
  ASSERT_NO_FATAL_FAILURE(use_both());
  Ticket ticket;
  // Nobody receives the message before the cable has failed.
  process_.signal(SIGSTOP);
  ASSERT_NO_FATAL_FAILURE(send(ticket));
  hosts_.plug(false);
  process_.signal(SIGCONT);
  EXPECT_EQ(ripc_ticket_wait(ticket.get(), kPatience), RIPC_OK) << ripc_last_error();
  ASSERT_NO_FATAL_FAILURE(counts());
}

TEST_F(Rails, WithoutAnyCableThePeerIsDeadInTime) {
  ASSERT_NO_FATAL_FAILURE(start(kPeerTimeout));
  ASSERT_NO_FATAL_FAILURE(use_both());
  Ticket ticket;
  ASSERT_NO_FATAL_FAILURE(send_while(ticket, [&] {
    process_.signal(SIGSTOP);
    hosts_.plug(false);
    hosts_.plug(false, Hosts::kCable2);
  }));
  EXPECT_EQ(ripc_ticket_wait(ticket.get(), kPatience), RIPC_PEER_DEAD);
  process_.signal(SIGCONT);
}

}  // namespace
}  // namespace fault

int main(int argc, char** argv) { return fault::run(argc, argv, {{"holder", fault::holder}}); }
