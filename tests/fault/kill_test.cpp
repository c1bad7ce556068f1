// SPDX-License-Identifier: Apache-2.0
// Tests kill -9 at any moment, over shared memory and over sockets. One process survives all rounds. In each round
// another process starts, and both exchange messages of every kind. The other process is killed after a random time. It
// may be starting, sending, receiving, answering, lending or holding a lent view, notifying, or taking over or losing
// an ID.
// RIPC_FAULT_ROUNDS sets the number of rounds, RIPC_FAULT_SEED chooses the moments.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "fault_support.hpp"
#include "traffic.hpp"

namespace fault {
namespace {

constexpr ripc_service_id kSurvivor = 1001;
constexpr ripc_service_id kVictim = 1002;
constexpr ripc_service_id kFresh = 1003;
constexpr std::uint64_t kPool = 256 << 20;

// The role of the process that will be killed: arguments DIRECTORY SEED TRANSPORT.
int victim(const std::vector<std::string>& arguments) {
  const Context context = make_context(arguments.at(0), kPool, arguments.at(2).c_str());
  if (!context) return 1;
  const Service service = make_service(context, kVictim, [](ripc_service_options& options) { options.takeover = 1; });
  if (!service) return 1;
  Traffic traffic(context.get(), service.get(), kSurvivor, std::stoull(arguments.at(1)));
  while (traffic.step() && traffic.flaw().empty()) {
  }
  if (traffic.flaw().empty()) return 0;
  // The survivor looks for this file, because the exit status is lost if the kill comes first.
  std::fprintf(stderr, "victim: %s\n", traffic.flaw().c_str());
  std::ofstream(arguments.at(0) + "/flaw") << traffic.flaw();
  return 1;
}

void spin(std::uint64_t duration, const std::function<void()>& work) {
  const std::uint64_t until = now() + duration;
  while (now() < until) work();
}

// What the survivor holds when nobody talks to it.
struct Holdings {
  std::size_t descriptors = 0;  // all but those of pool arenas
  std::size_t arenas = 0;       // descriptors of pool arenas: the pool keeps as many as were ever needed at once
  std::size_t mappings = 0;
  std::size_t threads = 0;
};

Holdings holdings() {
  const std::size_t arenas = descriptor_count("/memfd:ripc-pool");
  return {descriptor_count() - arenas, arenas, mapping_count(), thread_count()};
}

class Kill : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Over, Kill, testing::Values("shm", "socket"), [](const auto& one) { return one.param; });

TEST_P(Kill, ASurvivorLosesNothingButTheMessagesOfTheDead) {
  const auto [rounds, seed] = rounds_from_environment();
  Random random(seed);
  const TemporaryDirectory directory;
  const std::vector<std::string> shared_before = names_in("/dev/shm");
  const Context context = make_context(directory.path(), kPool, GetParam());
  const Service service = make_service(context, kSurvivor);
  ASSERT_TRUE(service);
  Holdings before{};
  std::uint64_t received = 0;
  std::uint64_t most_leased = 0;
  std::uint64_t rung = 0;
  std::uint64_t fenced = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    {
      Process process("victim", {directory.path(), std::to_string(random.next()), GetParam()});
      Traffic traffic(context.get(), service.get(), kVictim, random.next());
      // A third of the victims die while they start, the others in the middle of the traffic.
      if (random.below(3) == 0) {
        spin(random.below(15 * kMillisecond), [&] { traffic.receive_all(); });
      } else {
        ASSERT_TRUE(eventually([&] {
          traffic.receive_all();
          return traffic.received() != 0;
        })) << "the victim never sent anything";
        // Counts steps, not time, so that a slow machine gets as far.
        for (std::uint64_t steps = random.below(300); steps > 0 && traffic.step(); --steps) {
        }
      }
      process.kill();
      most_leased = std::max(most_leased, pool_statistics_of(context).leased);
      // The survivor still receives what the dead process had sent; then its queue disappears.
      ASSERT_TRUE(eventually([&] {
        traffic.receive_all();
        return statistics_of(service).senders == 0;
      })) << "the queue of a dead process stays";
      ASSERT_TRUE(traffic.settle()) << "a ticket of a dead process never ends";
      ASSERT_EQ(traffic.flaw(), "");
      ASSERT_FALSE(std::filesystem::exists(directory.path() + "/flaw")) << "the victim received something torn";
      received += traffic.received();
      rung += traffic.rung();
      fenced += traffic.fenced();
      ASSERT_TRUE(make_service(context, kContested)) << "the ID of a dead holder stays taken";
    }
    {
      const Context fresh = make_context(directory.path(), kPool, GetParam());
      ASSERT_TRUE(fresh);
      EXPECT_EQ(names_in(directory.path() + "/contexts").size(), 2u) << "a new context clears what the dead left";
      EXPECT_EQ(names_in(directory.path() + "/services").size(), 1u);
      const Service greeter = make_service(fresh, kFresh);
      ASSERT_TRUE(greeter);
      ASSERT_EQ(exchange(service, greeter, round), "");
    }
    ASSERT_TRUE(eventually([&] { return pool_statistics_of(context).leased == 0; }))
        << pool_statistics_of(context).leased << " bytes of the pool are never given back";
    if (round == 3) before = holdings();
    if (round <= 3) continue;
    // The descriptors of the fresh peer are closed when the survivor next looks at its channel.
    ASSERT_TRUE(eventually([&] {
      ripc_message* none = nullptr;
      EXPECT_EQ(ripc_receive(service.get(), 0, 0, &none), RIPC_EMPTY);
      return holdings().descriptors <= before.descriptors;
    })) << holdings().descriptors
        << " descriptors, " << before.descriptors << " at first";
    ASSERT_TRUE(eventually([&] { return holdings().arenas == pool_statistics_of(context).arenas; }))
        << holdings().arenas << " descriptors of arenas, " << pool_statistics_of(context).arenas << " arenas";
    ASSERT_TRUE(eventually([&] { return thread_count() <= before.threads; }));
    ASSERT_LE(mapping_count(), before.mappings + (kSanitized ? 2000 : 48));
  }
  EXPECT_EQ(statistics_of(service).packets_corrupt, 0u);
  EXPECT_GT(received, rounds) << "the rounds were not about anything";
  EXPECT_GT(most_leased, 0u) << "nobody was ever killed while memory was held for him";
  if (rounds >= 200) {
    EXPECT_GT(rung, 0u) << "no notification ever ran";
    EXPECT_GT(fenced, 0u) << "no service was ever taken over";
  }
  std::printf(
      "%llu messages received, %llu notifications run, %llu takeovers suffered; up to %llu bytes held at a death\n",
      static_cast<unsigned long long>(received), static_cast<unsigned long long>(rung),
      static_cast<unsigned long long>(fenced), static_cast<unsigned long long>(most_leased));
  EXPECT_EQ(names_in("/dev/shm"), shared_before);
}

// In the test above, the survivor receives half of the messages. Here it only sends, to a receiver that dies while it
// pulls data or holds views. Every ticket must end, with the data taken or with the peer's death.
TEST_P(Kill, EveryTicketEndsWhenItsReceiverDies) {
  const auto [rounds, seed] = rounds_from_environment(10);
  Random random(seed + 1);
  const TemporaryDirectory directory;
  const Context context = make_context(directory.path(), kPool, GetParam());
  const Service service = make_service(context, kSurvivor);
  ASSERT_TRUE(service);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    Process process("victim", {directory.path(), std::to_string(random.next()), GetParam()});
    ASSERT_TRUE(eventually([&] { return receive(service, 0) != nullptr; }));
    std::vector<Ticket> tickets;
    for (int count = 0; count < 32; ++count) {
      void* lease = nullptr;
      ASSERT_EQ(ripc_buffer_lease(context.get(), 100000, &lease), RIPC_OK) << ripc_last_error();
      fill_item(lease, 100000, random.next());
      const ripc_item item{lease, 100000, RIPC_ITEM_LONG, 0};
      ripc_ticket* ticket = nullptr;
      ripc_send_options options;
      ripc_send_options_init(&options);
      options.timeout = RIPC_FOREVER;
      if (ripc_send(service.get(), kVictim, &item, 1, &options, &ticket) == RIPC_OK) tickets.emplace_back(ticket);
      ASSERT_EQ(ripc_buffer_release(context.get(), lease), RIPC_OK);
    }
    spin(random.below(2 * kMillisecond), [] {});
    process.kill();
    for (const Ticket& ticket : tickets) {
      const ripc_status status = ripc_ticket_wait(ticket.get(), kLimit);
      EXPECT_TRUE(status == RIPC_OK || status == RIPC_PEER_DEAD || status == RIPC_NO_WINDOW)
          << ripc_status_name(status);
    }
    EXPECT_TRUE(eventually([&] { return pool_statistics_of(context).leased == 0; }));
    while (receive(service, 0)) {
    }
  }
}

}  // namespace
}  // namespace fault

int main(int argc, char** argv) { return fault::run(argc, argv, {{"victim", fault::victim}}); }
