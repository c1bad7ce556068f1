// SPDX-License-Identifier: Apache-2.0
// Counters, and what a message costs: copies, wakes, allocations.
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>
#include <tuple>
#include <utility>

#include "allocation_counter.hpp"
#include "harness.hpp"
#include "puppet.hpp"

namespace conformance {
namespace {

class Statistics : public PairTest {};
CONFORMANCE_SUITE(Statistics);

class Costs : public PairTest {
 protected:
  void SetUp() override {
    if (!traits().exact_costs) GTEST_SKIP() << "these counts are promised by other transports";
    PairTest::SetUp();
  }
};
CONFORMANCE_SUITE(Costs);

class Allocations : public PairTest {
 protected:
  void SetUp() override {
    if (!can_count_allocations()) GTEST_SKIP() << "a sanitizer has its own malloc";
    const NoSignsOfLife quiet;
    PairTest::SetUp();
  }
};
CONFORMANCE_SUITE(Allocations);

// ---- Rails -------------------------------------------------------------------------------------------------------

class Rails : public Statistics {
 protected:
  std::vector<ripc_rail_info> rails_to(ripc_service_id id) const {
    struct Visit {
      std::thread::id thread = std::this_thread::get_id();
      std::vector<ripc_rail_info> found;
    } visit;
    const auto add = [](void* to, const ripc_rail_info* rail) {
      auto& self = *static_cast<Visit*>(to);
      EXPECT_EQ(std::this_thread::get_id(), self.thread);
      EXPECT_EQ(rail->size, sizeof *rail);
      self.found.push_back(*rail);
    };
    EXPECT_EQ(ripc_list_rails(server_context_.get(), id, add, &visit), RIPC_OK) << ripc_last_error();
    return visit.found;
  }
};
CONFORMANCE_SUITE(Rails);

TEST_P(Rails, AreThoseThatLongItemsTake) {
  for (const ripc_rail_info& rail : rails_to(client_id()))
    EXPECT_EQ(rail.connections, 0u) << "nothing long has come yet";
  const Bytes data = pattern(300'000, 1);
  Bytes window(data.size());
  ASSERT_EQ(ripc_window_post(server_.get(), window.data(), window.size(), 1), RIPC_OK);
  const Ticket ticket = send_long(client_, server_id(), {item(data, RIPC_ITEM_LONG)});
  EXPECT_TRUE(holds(view_of(receive(server_), 0), RIPC_VIEW_WINDOW, data));
  const std::vector<ripc_rail_info> after = rails_to(client_id());
  if (GetParam() == "shm") {
    EXPECT_TRUE(after.empty());
    return;
  }
  ASSERT_EQ(after.size(), 1u) << "the process is on this host";
  EXPECT_NE(std::string_view(after[0].device), "");
  EXPECT_NE(std::string_view(after[0].local), "");
  EXPECT_NE(std::string_view(after[0].peer), "");
  EXPECT_GE(after[0].bytes_received, data.size());
  EXPECT_GE(after[0].connections, 1u);
  EXPECT_EQ(after[0].spare, 0u);
  EXPECT_LT(after[0].bytes_sent, data.size());
  // And in the other direction. Over RDMA the client itself reads and counts.
  if (GetParam() != "socket") return;
  ASSERT_EQ(ripc_window_post(client_.get(), window.data(), window.size(), 1), RIPC_OK);
  const Ticket back = send_long(server_, client_id(), {item(data, RIPC_ITEM_LONG)});
  EXPECT_TRUE(holds(view_of(receive(client_), 0), RIPC_VIEW_WINDOW, data));
  EXPECT_EQ(final_status(back), RIPC_OK);
  const std::vector<ripc_rail_info> both = rails_to(client_id());
  ASSERT_EQ(both.size(), 1u);
  EXPECT_GE(both[0].bytes_sent, data.size());
  EXPECT_LT(both[0].bytes_received, 2 * data.size());
}

// RIPC_TEST_RAILS says how many rails join the hosts, if the peers are on another host.
TEST_P(Rails, AreAllThatJoinTheHosts) {
  constexpr std::size_t kSize = 12'000'000;
  const char* const told = std::getenv("RIPC_TEST_RAILS");
  const std::size_t count = GetParam() == "shm" ? 0 : told == nullptr ? 1 : std::strtoul(told, nullptr, 10);
  Puppet puppet(peer_setup());
  ASSERT_EQ(puppet.register_id(77), "RIPC_OK");
  Bytes window(kSize);
  const auto has_carried = [](const ripc_rail_info& rail) { return rail.bytes_received > 1'000'000; };
  EXPECT_TRUE(eventually([&] {
    EXPECT_EQ(ripc_window_post(server_.get(), window.data(), window.size(), 1), RIPC_OK);
    EXPECT_EQ(puppet.call("send_long " + std::to_string(server_id()) + ' ' + std::to_string(kSize) + " 22 foreign 0"),
              "RIPC_OK");
    EXPECT_TRUE(holds(view_of(receive(server_), 0), RIPC_VIEW_WINDOW, pattern(kSize, 22)));
    EXPECT_EQ(puppet.call("wait"), "RIPC_OK");
    const std::vector<ripc_rail_info> rails = rails_to(77);
    return HasFailure() || (rails.size() == count && std::all_of(rails.begin(), rails.end(), has_carried));
  }));
  // And in the other direction. The peer itself counts what it reads by RDMA.
  const Bytes data = pattern(kSize, 23);
  const auto has_sent = [](const ripc_rail_info& rail) {
    return rail.bytes_sent > 1'000'000 || !std::filesystem::exists(std::string("/sys/class/net/") + rail.device);
  };
  EXPECT_TRUE(eventually([&] {
    EXPECT_EQ(puppet.call("post " + std::to_string(kSize) + " 1"), "RIPC_OK");
    const Ticket ticket = send_long(server_, 77, {item(data, RIPC_ITEM_LONG)});
    EXPECT_EQ(puppet.call("receive"), "RIPC_OK " + describe(RIPC_VIEW_WINDOW, data));
    EXPECT_EQ(final_status(ticket), RIPC_OK);
    EXPECT_EQ(puppet.call("release"), "ok");
    const std::vector<ripc_rail_info> rails = rails_to(77);
    return HasFailure() || std::all_of(rails.begin(), rails.end(), has_sent);
  }));
}

TEST_P(Rails, AreAskedForByAServiceThatIsThere) {
  const auto none = [](void*, const ripc_rail_info*) { FAIL(); };
  EXPECT_EQ(ripc_list_rails(server_context_.get(), client_id(), nullptr, nullptr), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_list_rails(nullptr, client_id(), none, nullptr), RIPC_INVALID_ARGUMENT);
  const Context hasty = make_context([](ripc_context_options& options) { options.resolve_timeout = 0; });
  EXPECT_EQ(ripc_list_rails(hasty.get(), 12345, none, nullptr), RIPC_NO_SERVICE);
}

// ---- Counters ----------------------------------------------------------------------------------------------------

TEST_P(Statistics, StartAtZero) {
  const ripc_service_statistics statistics = statistics_of(client_);
  EXPECT_EQ(statistics.size, sizeof statistics);
  EXPECT_EQ(statistics.messages_sent, 0u);
  EXPECT_EQ(statistics.messages_received, 0u);
  EXPECT_EQ(statistics.payload_copies, 0u);
  EXPECT_EQ(statistics.resolutions, 0u);
  EXPECT_EQ(statistics.senders, 0u);
}

TEST_P(Statistics, CountMessagesAndBytesOnBothSides) {
  const std::string_view text = "12345";
  const Bytes data = pattern(1000, 1);
  Bytes window(1000);
  ASSERT_EQ(ripc_window_post(server_.get(), window.data(), window.size(), 1), RIPC_OK);
  for (int count = 0; count < 10; ++count) {
    ASSERT_EQ(send(client_, server_id(), {item(text), item(text)}), RIPC_OK);
    receive(server_);
  }
  const Ticket ticket = send_long(client_, server_id(), {item(text, RIPC_ITEM_SHORT), item(data, RIPC_ITEM_LONG)});
  receive(server_);
  const Ticket discarded = send_long(client_, server_id(), {item(data, RIPC_ITEM_LONG)});
  receive(server_);
  const Ticket lent = send_long(client_, server_id(), {item(data, RIPC_ITEM_LONG)});
  receive(server_, RIPC_RECEIVE_LEND);

  const ripc_service_statistics sent = statistics_of(client_);
  EXPECT_EQ(sent.messages_sent, 13u);
  EXPECT_EQ(sent.short_bytes_sent, 105u);
  EXPECT_EQ(sent.long_items_sent, 3u);
  EXPECT_EQ(sent.messages_received, 0u);
  EXPECT_EQ(sent.resolutions, 1u);
  const ripc_service_statistics received = statistics_of(server_);
  EXPECT_EQ(received.messages_received, 13u);
  EXPECT_EQ(received.short_bytes_received, 105u);
  EXPECT_EQ(received.long_items_received, 2u) << "in a window and lent";
  EXPECT_EQ(received.long_bytes_received, 2000u);
  EXPECT_EQ(received.items_discarded, 1u);
  EXPECT_EQ(received.items_lent, 1u);
  EXPECT_EQ(received.messages_sent, 0u);
  EXPECT_EQ(received.packets_lost, 0u);
  EXPECT_EQ(received.packets_corrupt, 0u);
  EXPECT_EQ(received.senders, 1u);
}

TEST_P(Statistics, CountRepliesIntoReturnBuffers) {
  Bytes buffer(100);
  const ripc_return_buffer one{buffer.data(), buffer.size()};
  ripc_send_options options = send_options();
  options.return_count = 1;
  options.returns = &one;
  ASSERT_EQ(ripc_send(client_.get(), server_id(), nullptr, 0, &options, nullptr), RIPC_OK);
  const Message question = receive(server_);
  const Bytes data = pattern(100, 2);
  const ripc_item filled = item(data, RIPC_ITEM_RETURN);
  ASSERT_EQ(ripc_reply(server_.get(), question.get(), &filled, 1, nullptr, nullptr), RIPC_OK);
  receive(client_);
  EXPECT_EQ(statistics_of(server_).items_returned, 1u);
  EXPECT_EQ(statistics_of(server_).messages_sent, 1u);
  EXPECT_EQ(statistics_of(client_).messages_received, 1u);
}

TEST_P(Statistics, BelongToTheirService) {
  const Service neighbour = make_service(client_context_);
  ASSERT_EQ(send(client_, server_id(), {}), RIPC_OK);
  EXPECT_EQ(statistics_of(client_).messages_sent, 1u);
  EXPECT_EQ(statistics_of(neighbour).messages_sent, 0u);
}

TEST_P(Statistics, AnyThreadMayReadThemMeanwhile) {
  std::atomic<bool> finished{false};
  std::jthread reader([&] {
    std::uint64_t last = 0;
    while (!finished) {
      const std::uint64_t received = statistics_of(server_).messages_received;
      ASSERT_GE(received, last);
      last = received;
    }
  });
  for (int count = 0; count < 2000; ++count) {
    ASSERT_EQ(send(client_, server_id(), {}), RIPC_OK);
    receive(server_);
  }
  finished = true;
  reader.join();
  EXPECT_EQ(statistics_of(server_).messages_received, 2000u);
}

// ---- Copies ------------------------------------------------------------------------------------------------------

TEST_P(Costs, AShortMessageIsCopiedOnceOnEachSide) {
  const Bytes data = pattern(200, 1);
  for (int count = 0; count < 10; ++count) {
    ASSERT_EQ(send(client_, server_id(), {item(data, RIPC_ITEM_SHORT)}), RIPC_OK);
    EXPECT_EQ(view_of(receive(server_), 0).copied, 1u);
  }
  EXPECT_EQ(statistics_of(client_).payload_copies, 10u);
  EXPECT_EQ(statistics_of(server_).payload_copies, 10u);
}

TEST_P(Costs, ALongItemFromThePoolIsCopiedOnceInAll) {
  const auto data = lease(client_context_, 1'000'000);
  Bytes window(1'000'000);
  ASSERT_EQ(ripc_window_post(server_.get(), window.data(), window.size(), 1), RIPC_OK);
  const Ticket ticket = send_long(client_, server_id(), {item_at(data.get(), window.size(), RIPC_ITEM_LONG)});
  EXPECT_EQ(view_of(receive(server_), 0).copied, 1u);
  EXPECT_EQ(statistics_of(client_).payload_copies + statistics_of(server_).payload_copies, 1u);
}

TEST_P(Costs, ALentItemIsNotCopied) {
  const auto data = lease(client_context_, 1'000'000);
  const Ticket ticket = send_long(client_, server_id(), {item_at(data.get(), 1'000'000, RIPC_ITEM_LONG)});
  EXPECT_EQ(view_of(receive(server_, RIPC_RECEIVE_LEND), 0).copied, 0u);
  EXPECT_EQ(statistics_of(client_).payload_copies + statistics_of(server_).payload_copies, 0u);
}

TEST_P(Costs, AReturnedItemIsCopiedOnceInAllAndASmallOneAlsoIntoAndOutOfTheMessage) {
  std::uint64_t before = 0;
  for (const auto& [size, copies, by_receiver] : {std::tuple{100'000u, 1u, 0u}, std::tuple{1000u, 3u, 2u}}) {
    const auto buffer = lease(client_context_, size);
    const ripc_return_buffer one{buffer.get(), size};
    ripc_send_options options = send_options();
    options.return_count = 1;
    options.returns = &one;
    ASSERT_EQ(ripc_send(client_.get(), server_id(), nullptr, 0, &options, nullptr), RIPC_OK);
    const Message question = receive(server_);
    const Bytes data = pattern(size, 2);
    const ripc_item filled = item(data, RIPC_ITEM_RETURN);
    ASSERT_EQ(ripc_reply(server_.get(), question.get(), &filled, 1, nullptr, nullptr), RIPC_OK);
    EXPECT_EQ(view_of(receive(client_), 0).copied, by_receiver) << "the replier did the others";
    const std::uint64_t after = statistics_of(client_).payload_copies + statistics_of(server_).payload_copies;
    EXPECT_EQ(after - std::exchange(before, after), copies) << size;
  }
}

// ---- Wakes -------------------------------------------------------------------------------------------------------

TEST_P(Costs, NoSystemCallWakesAReceiverThatSpins) {
  const Context context = make_context([](ripc_context_options& options) { options.spin = kLimit; });
  const Service spinning = make_service(context);
  std::jthread receiver([&] {
    for (int count = 0; count < 200; ++count) receive(spinning);
  });
  for (int count = 0; count < 200; ++count) {
    ripc_status status = RIPC_AGAIN;
    ASSERT_TRUE(eventually([&] { return (status = send(client_, id_of(spinning), {})) != RIPC_AGAIN; }));
    ASSERT_EQ(status, RIPC_OK);
  }
  receiver.join();
  EXPECT_EQ(statistics_of(spinning).sleeps, 0u);
  EXPECT_EQ(statistics_of(client_).wakes_sent, 0u);
}

TEST_P(Costs, ASleepingReceiverIsWokenExactlyOnce) {
  const Context context = make_context([](ripc_context_options& options) { options.spin = 0; });
  const Service sleeping = make_service(context);
  ASSERT_EQ(send(client_, id_of(sleeping), {}), RIPC_OK);
  receive(sleeping);
  ASSERT_EQ(statistics_of(client_).wakes_sent, 0u) << "it was not asleep";
  ripc_message* none = nullptr;
  ASSERT_EQ(ripc_receive(sleeping.get(), 0, 20 * kMillisecond, &none), RIPC_TIMEOUT);  // what woke it before is over
  for (std::uint64_t round = 1; round <= 20; ++round) {
    const std::uint64_t before = statistics_of(sleeping).sleeps;
    std::jthread receiver([&] { receive(sleeping); });
    ASSERT_TRUE(eventually([&] { return statistics_of(sleeping).sleeps > before; }));
    ASSERT_EQ(send(client_, id_of(sleeping), {}), RIPC_OK);
    receiver.join();
    EXPECT_EQ(statistics_of(sleeping).sleeps, before + 1);
    EXPECT_EQ(statistics_of(client_).wakes_sent, round);
    for (int count = 0; count < 5; ++count) ASSERT_EQ(send(client_, id_of(sleeping), {}), RIPC_OK);
    EXPECT_EQ(statistics_of(client_).wakes_sent, round) << "it is awake";
    for (int count = 0; count < 5; ++count) receive(sleeping);
  }
}

TEST_P(Costs, AReceiverThatSleepsIsWokenOnceForAllThatComesBeforeItLooks) {
  int fd = -1;
  ASSERT_EQ(ripc_service_get_fd(server_.get(), &fd), RIPC_OK);
  ASSERT_EQ(send(client_, server_id(), {}), RIPC_OK);
  receive(server_);
  for (std::uint64_t round = 1; round <= 3; ++round) {
    // From here on its senders believe that it waits for the descriptor.
    ripc_message* none = nullptr;
    ASSERT_EQ(ripc_receive(server_.get(), 0, 0, &none), RIPC_EMPTY);
    const std::uint64_t before = statistics_of(client_).wakes_sent;
    for (int count = 0; count < 5; ++count) ASSERT_EQ(send(client_, server_id(), {}), RIPC_OK);
    EXPECT_EQ(statistics_of(client_).wakes_sent, before + 1) << round;
    for (int count = 0; count < 5; ++count) receive(server_);
  }
}

// ---- Allocations -------------------------------------------------------------------------------------------------

// The whole process is counted, and its responder may still be tidying up after an earlier connection. An allocation
// per message shows in every attempt.
std::uint64_t fewest_allocations(const std::function<bool()>& exchange) {
  std::uint64_t fewest = UINT64_MAX;
  for (int attempt = 0; attempt < 20 && fewest != 0; ++attempt) {
    const std::uint64_t before = allocation_count();
    const bool worked = exchange();
    const std::uint64_t after = allocation_count();
    if (!worked) return UINT64_MAX;
    fewest = std::min(fewest, after - before);
  }
  return fewest;
}

TEST_P(Allocations, AfterWarmUpAShortMessageAllocatesNothing) {
  const Bytes data = pattern(500, 1);
  const ripc_item one = item(data, RIPC_ITEM_SHORT);
  const auto exchange = [&](int rounds) {
    for (int count = 0; count < rounds; ++count) {
      ripc_message* question = nullptr;
      ripc_message* answer = nullptr;
      if (ripc_send(client_.get(), server_id(), &one, 1, nullptr, nullptr) != RIPC_OK) return false;
      if (ripc_receive(server_.get(), 0, kLimit, &question) != RIPC_OK) return false;
      if (ripc_reply(server_.get(), question, &one, 1, nullptr, nullptr) != RIPC_OK) return false;
      if (ripc_receive(client_.get(), 0, kLimit, &answer) != RIPC_OK) return false;
      ripc_message_release(answer);
      ripc_message_release(question);
    }
    return true;
  };
  ASSERT_TRUE(exchange(1000));
  const std::uint64_t control = allocation_count();
  { const Bytes counted(10); }
  ASSERT_EQ(allocation_count(), control + 1) << "the counter counts";
  EXPECT_EQ(fewest_allocations([&] { return exchange(1000); }), 0u);
}

TEST_P(Allocations, AfterWarmUpReceivingManyAllocatesNothing) {
  const auto exchange = [&](int rounds) {
    for (int count = 0; count < rounds; ++count) {
      for (int index = 0; index < 50; ++index) {
        if (ripc_send(client_.get(), server_id(), nullptr, 0, nullptr, nullptr) != RIPC_OK) return false;
      }
      std::size_t received = 0;
      while (received < 50) {
        ripc_message* messages[16];
        std::size_t got = 0;
        if (ripc_receive_many(server_.get(), 0, kLimit, messages, 16, &got) != RIPC_OK) return false;
        for (std::size_t index = 0; index < got; ++index) ripc_message_release(messages[index]);
        received += got;
      }
    }
    return true;
  };
  ASSERT_TRUE(exchange(50));
  EXPECT_EQ(fewest_allocations([&] { return exchange(50); }), 0u);
}

}  // namespace
}  // namespace conformance
