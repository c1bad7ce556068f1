// SPDX-License-Identifier: Apache-2.0
// How long calls, sessions, requests and their memory last, in cases where two ends meet.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <utility>
#include <vector>

#include "fake_calls.hpp"

namespace ripc::internal::rpc {
namespace {

constexpr std::uint32_t kKeep = 2;  // the method whose requests are kept

class CallLifetimes : public testing::Test {
 protected:
  CallLifetimes() {
    const ripc_rpc_handler keep = [](void* user, ripc_request* request) {
      static_cast<CallLifetimes*>(user)->kept_.push_back(request);
    };
    EXPECT_TRUE(server_.server->handle(kKeep, {keep, this, false}).ok());
  }
  ~CallLifetimes() override {
    for (ripc_request* const request : kept_)
      request->server->drop(*request, RIPC_CANCELLED, wire::call::State::may_have_run);
  }
  // Begins a call that is kept. Returns its name.
  std::uint64_t begin(CallRequest request, ripc_call_done done, void* user) {
    request.to = kServer;
    request.method = kKeep;
    request.now = network_.now;
    request.done = done;
    request.user = user;
    std::uint64_t name = 0;
    EXPECT_TRUE(client_.client->begin(request, &name).ok());
    return name;
  }

  FakeNetwork network_{7, {}, 256 << 10};
  FakeNode client_{network_, kClient};
  FakeNode server_{network_, kServer};
  Calls calls_{network_, client_, *server_.server};
  std::vector<ripc_request*> kept_;
};

TEST_F(CallLifetimes, ACancelReportsACallThatHasEndedAndWaitsForItsReport) {
  struct Pair {
    Client& client;
    std::array<std::uint64_t, 2> names{};
    std::vector<ripc_status> ends{};
    static void done(void* user, const ripc_call_result* result) {
      Pair& self = *static_cast<Pair*>(user);
      self.ends.push_back(static_cast<ripc_status>(result->status));
      if (self.ends.size() != 1) return;
      // One of the two is this call; the other ended with it.
      for (const std::uint64_t name : self.names) EXPECT_EQ(self.client.cancel(name).code(), RIPC_INVALID_ARGUMENT);
      EXPECT_EQ(self.ends.size(), 2u) << "its callback has run";
    }
  } pair{*client_.client};
  for (std::uint64_t& name : pair.names)
    name = begin({.deadline = network_.now + 100 * kMillisecond}, &Pair::done, &pair);
  network_.run(1000 * kMillisecond);
  EXPECT_EQ(pair.ends, (std::vector<ripc_status>{RIPC_TIMEOUT, RIPC_TIMEOUT}));
}

// The address sanitizer sees it.
TEST_F(CallLifetimes, ASessionLastsUntilItsLastCallIsReported) {
  ripc_call_result end{};
  const ripc_call_done done = [](void* user, const ripc_call_result* result) {
    *static_cast<ripc_call_result*>(user) = *result;
  };
  begin({.deadline = network_.now + 1000 * kMillisecond}, done, &end);
  network_.run(100 * kMillisecond);
  ASSERT_EQ(kept_.size(), 1u);
  network_.now += 15'000 * kMillisecond;  // nobody runs the endpoints meanwhile
  network_.run(100 * kMillisecond);
  EXPECT_EQ(end.status, RIPC_TIMEOUT);
  EXPECT_EQ(end.outcome, RIPC_CALL_MAY_HAVE_RUN);
}

TEST_F(CallLifetimes, AnAnswerWaitsForRoomAsLongAsItsCallWaits) {
  std::uint32_t code = 0;
  begin(
      {},
      [](void* user, const ripc_call_result* result) {
        *static_cast<std::uint32_t*>(user) = result->code;
        ripc_message_release(result->message);
      },
      &code);
  network_.run(100 * kMillisecond);
  ASSERT_EQ(kept_.size(), 1u);
  network_.weather.without_room = 100;
  EXPECT_TRUE(kept_[0]->server->reply(*kept_[0], 3, {}, nullptr).ok());
  kept_.clear();
  network_.run(30'000 * kMillisecond);
  network_.weather.without_room = 0;
  network_.run(100 * kMillisecond);
  EXPECT_EQ(code, 3u);
}

TEST_F(CallLifetimes, TheEndOfARequestThatIsDroppedElsewhereIsReportedOnceThereIsRoom) {
  begin({}, nullptr, nullptr);
  network_.run(100 * kMillisecond);
  ASSERT_EQ(kept_.size(), 1u);
  ripc_rpc_statistics before{}, after{};
  client_.client->add_to(before);
  network_.weather.without_room = 100;
  kept_[0]->server->drop(*kept_[0], RIPC_CANCELLED, wire::call::State::may_have_run);
  kept_.clear();
  network_.weather.without_room = 0;
  network_.run(100 * kMillisecond);
  client_.client->add_to(after);
  EXPECT_EQ(after.may_have_run - before.may_have_run, 1u);
}

TEST_F(CallLifetimes, AnAnswerThatWaitsWhenItsEndpointEndsLeavesACallThatMayHaveRun) {
  ripc_call_result end{};
  begin(
      {}, [](void* user, const ripc_call_result* result) { *static_cast<ripc_call_result*>(user) = *result; }, &end);
  network_.run(100 * kMillisecond);
  ASSERT_EQ(kept_.size(), 1u);
  network_.weather.without_room = 100;
  EXPECT_TRUE(kept_[0]->server->reply(*kept_[0], 3, {}, nullptr).ok());
  kept_.clear();
  network_.weather.without_room = 0;
  server_.end_server();
  network_.run(100 * kMillisecond);
  EXPECT_EQ(end.outcome, std::uint32_t{RIPC_CALL_MAY_HAVE_RUN});
  EXPECT_EQ(end.status, RIPC_CLOSED);
}

TEST_F(CallLifetimes, ForAClientThatDoesNotReadABoundedNumberOfMessagesWaits) {
  begin({}, nullptr, nullptr);
  network_.run(100 * kMillisecond);
  network_.weather.without_room = 100;
  for (std::uint32_t number = 1; number <= 10'000; ++number) {
    const CallMessage question({.kind = wire::call::Kind::ask, .number = number, .session = 7, .incarnation = 9});
    const auto* const bytes = static_cast<const std::byte*>(question.items()[0].data);
    server_.received(kClient, {{bytes, bytes + question.items()[0].size}});
  }
  const std::uint64_t before = network_.messages;
  network_.weather.without_room = 0;
  network_.run(100 * kMillisecond);
  EXPECT_GT(network_.messages - before, 0u);
  EXPECT_LE(network_.messages - before, 2u * wire::call::kMaxSlots);
}

TEST_F(CallLifetimes, AnEndingClientWaitsOnceForAllPeersThatWriteAndDoNotFinish) {
  std::array<std::byte, 8> memory{};
  const ripc_return_buffer room{memory.data(), memory.size()};
  for (int count = 0; count < 3; ++count) begin({.returns = {&room, 1}}, nullptr, nullptr);
  network_.run(100 * kMillisecond);
  ASSERT_EQ(client_.requests.size(), 3u);
  client_.peers_write = true;
  const Nanoseconds before = network_.now;
  (void)client_.client->end_all(RIPC_CLOSED);
  EXPECT_TRUE(client_.requests.empty());
  EXPECT_EQ(network_.now - before, core::RequestTable::kWritePatience);
}

TEST_F(CallLifetimes, AnEndingServerWaitsForAReplyThatIsBeingSent) {
  begin({}, nullptr, nullptr);
  network_.run(100 * kMillisecond);
  ASSERT_EQ(kept_.size(), 1u);
  std::future<void> closing;
  server_.during_send = [&] {
    closing = std::async(std::launch::async, [&] { server_.server->close(); });
    EXPECT_EQ(closing.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout)
        << "the messenger that sends would be gone";
  };
  const std::array content{std::byte{1}};
  const ripc_item given{content.data(), content.size(), RIPC_ITEM_GIVEN, 0};
  EXPECT_TRUE(kept_[0]->server->reply(*kept_[0], 3, {&given, 1}, nullptr).ok()) << "it was sent";
  kept_.clear();
  closing.get();
}

TEST_F(CallLifetimes, ARequestWithoutATimeLimitHasNoTimeLeftOnceItsEndpointIsGone) {
  begin({}, nullptr, nullptr);
  network_.run(100 * kMillisecond);
  ASSERT_EQ(kept_.size(), 1u);
  EXPECT_EQ(kept_[0]->server->time_left(*kept_[0]), UINT64_MAX);
  server_.end_server();
  EXPECT_EQ(kept_[0]->server->time_left(*kept_[0]), 0u);
}

TEST_F(CallLifetimes, TheEndOfACallIsReportedWhenItsSendHasReturned) {
  calls_.begin();  // opens the session
  network_.run(100 * kMillisecond);
  ASSERT_EQ(calls_.ended.size(), 1u);
  std::array<std::byte, 64> memory{};
  const ripc_return_buffer room{memory.data(), memory.size()};
  calls_.returns = {&room, 1};
  std::future<void> answered;
  client_.during_send = [&] {
    answered = std::async(std::launch::async, [&] { network_.run(kMillisecond); });
    EXPECT_EQ(answered.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  };
  calls_.begin();
  answered.get();
  EXPECT_EQ(calls_.ended.size(), 2u);
  EXPECT_TRUE(client_.requests.empty()) << "the peer may still write into the memory";
}

class LossyLifetimes : public CallLifetimes {
 protected:
  // An argument or answer whose first copy is lost, and what is in its memory once it was sent.
  std::vector<std::byte> content_ = std::vector<std::byte>(100, std::byte{1});
  const std::vector<std::byte> sent_ = content_;
  LossyLifetimes() {
    network_.weather.may_lose = true;
    calls_.begin();  // opens the session
    network_.run(100 * kMillisecond);
  }
  void lose_once(FakeNode& sender) {
    network_.weather.lost = 100;
    sender.during_send = [this] {
      network_.weather.lost = 0;
      std::ranges::fill(content_, std::byte{2});  // somebody else has the lease now
    };
  }
};

TEST_F(LossyLifetimes, AGivenArgumentIsRepeatedAsItWasSent) {
  lose_once(client_);
  const ripc_item given{content_.data(), content_.size(), RIPC_ITEM_GIVEN, 0};
  begin({.items = {&given, 1}}, nullptr, nullptr);
  network_.run(1000 * kMillisecond);
  ASSERT_EQ(kept_.size(), 1u);
  const ripc_item_view& view = kept_[0]->items[0];
  const auto* const bytes = static_cast<const std::byte*>(view.data);
  EXPECT_EQ(std::vector<std::byte>(bytes, bytes + view.size), sent_);
}

TEST_F(LossyLifetimes, AGivenItemOfAnAnswerIsRepeatedAsItWasSent) {
  std::vector<std::byte> answer;
  begin(
      {},
      [](void* user, const ripc_call_result* result) {
        ASSERT_EQ(result->item_count, 1u);
        const auto* const bytes = static_cast<const std::byte*>(result->items[0].data);
        static_cast<std::vector<std::byte>*>(user)->assign(bytes, bytes + result->items[0].size);
        ripc_message_release(result->message);
      },
      &answer);
  network_.run(100 * kMillisecond);
  ASSERT_EQ(kept_.size(), 1u);
  lose_once(server_);
  const ripc_item given{content_.data(), content_.size(), RIPC_ITEM_GIVEN, 0};
  EXPECT_TRUE(kept_[0]->server->reply(*kept_[0], 3, {&given, 1}, nullptr).ok());
  kept_.clear();
  network_.run(1000 * kMillisecond);
  EXPECT_EQ(answer, sent_);
}

TEST_F(LossyLifetimes, ALostAnswerIsRepeatedOnceThereIsMemory) {
  bool ended = false;
  const ripc_call_done done = [](void* user, const ripc_call_result* result) {
    *static_cast<bool*>(user) = result->outcome == RIPC_CALL_ANSWERED;
    ripc_message_release(result->message);
  };
  begin({}, done, &ended);
  network_.run(100 * kMillisecond);
  ASSERT_EQ(kept_.size(), 1u);
  network_.weather.lost = 100;
  server_.during_send = [this] {
    if (std::exchange(network_.weather.lost, 0) != 0) server_.failures = {RIPC_NO_MEMORY};  // of the next send
  };
  const std::vector<std::byte> large(kMostRepeated + 1);
  const ripc_item item{large.data(), large.size(), RIPC_ITEM_SHORT, 0};
  EXPECT_TRUE(kept_[0]->server->reply(*kept_[0], 3, {&item, 1}, nullptr).ok());
  kept_.clear();
  network_.run(1000 * kMillisecond);
  EXPECT_TRUE(ended);
  EXPECT_TRUE(server_.failures.empty());
}

TEST_F(LossyLifetimes, ALostCallWithManyShortBytesIsSentAgain) {
  lose_once(client_);
  std::vector<std::byte> large(kMostRepeated + 1);
  const ripc_item item{large.data(), large.size(), RIPC_ITEM_SHORT, 0};
  begin({.items = {&item, 1}}, nullptr, nullptr);
  network_.run(1000 * kMillisecond);
  ASSERT_EQ(kept_.size(), 1u);
  EXPECT_EQ(kept_[0]->items.size(), 1u);
}

TEST_F(LossyLifetimes, ALateRequestKeepsItsReturnBuffersThoughItIsSentAgain) {
  network_.weather.longest_delay = 1000 * kMillisecond;
  std::size_t granted = 0;
  client_.during_send = [&] {
    network_.weather.longest_delay = 0;
    granted = client_.requests.size();
  };
  std::array<std::byte, 8> memory{};
  const ripc_return_buffer room{memory.data(), memory.size()};
  bool ended = false;
  const ripc_call_done done = [](void* user, const ripc_call_result* result) {
    ripc_message_release(result->message);
    *static_cast<bool*>(user) = true;
  };
  begin({.returns = {&room, 1}}, done, &ended);
  network_.run(1000 * kMillisecond);
  EXPECT_EQ(granted, 2u);
  ASSERT_EQ(kept_.size(), 1u);
  EXPECT_TRUE(kept_[0]->server->reply(*kept_[0], 0, {}, nullptr).ok());
  kept_.clear();
  network_.run(1000 * kMillisecond);
  EXPECT_TRUE(ended);
  EXPECT_TRUE(client_.requests.empty());
}

TEST(CallSessions, AnIdleClientCountsOnceTowardsTheirLimit) {
  FakeNetwork network(7);
  FakeNode client(network, kClient);
  FakeNode other(network, kClient + 100);
  FakeNode server(network, kServer, {}, {.max_sessions = 1});
  Calls calls(network, client, *server.server);
  for (std::size_t round = 1; round <= 3; ++round) {
    calls.begin();
    network.run(6000 * kMillisecond);  // after half of its time the client no longer uses a session
    ASSERT_EQ(calls.ended.size(), round);
    EXPECT_EQ(calls.ended.back().status, RIPC_OK);
  }
  calls.begin();
  network.run(100 * kMillisecond);
  std::uint32_t status = RIPC_OK;
  CallRequest request{.to = kServer, .method = 1, .now = network.now};
  request.done = [](void* user, const ripc_call_result* result) {
    *static_cast<std::uint32_t*>(user) = result->status;
  };
  request.user = &status;
  EXPECT_TRUE(other.client->begin(request, nullptr).ok());
  network.run(100 * kMillisecond);
  EXPECT_EQ(status, RIPC_LIMIT);
}

// The source of a message is only the sender's claim.
TEST(CallSessions, AServerLooksForNoMoreClientsThanItServes) {
  constexpr std::uint32_t kServed = 8;
  FakeNetwork network(7);
  FakeNode client(network, kClient);
  FakeNode server(network, kServer, {}, {.max_sessions = kServed});
  Calls calls(network, client, *server.server);
  const auto claim = [&](const wire::call::Header& header, ripc_service_id source) {
    const CallMessage message(header);
    const auto* const bytes = static_cast<const std::byte*>(message.items()[0].data);
    server.received(source, {{bytes, bytes + message.items()[0].size}});
  };
  for (ripc_service_id source = 1000; source < 1100; ++source) {
    claim({.kind = wire::call::Kind::open, .number = 1, .code = 8}, source);
    claim({.kind = wire::call::Kind::ask, .number = 1, .session = 5}, source + 100);
  }
  EXPECT_LE(server.searches(), kServed);
  network.run(20'000 * kMillisecond);  // the sessions that nobody uses are forgotten
  EXPECT_EQ(server.searches(), 0u);
  calls.begin();
  network.run(100 * kMillisecond);
  ASSERT_EQ(calls.ended.size(), 1u);
  EXPECT_EQ(calls.ended[0].outcome, std::uint32_t{RIPC_CALL_ANSWERED});
}

TEST_F(CallLifetimes, ASessionThatIsOnlyAskedForTakesLittleMemory) {
  constexpr std::uint32_t kSessions = 1000;
  const std::size_t before = mallinfo2().uordblks;
  for (std::uint32_t nonce = 1; nonce <= kSessions; ++nonce) {
    const CallMessage open({.kind = wire::call::Kind::open, .number = nonce, .code = wire::call::kMaxSlots});
    const auto* const bytes = static_cast<const std::byte*>(open.items()[0].data);
    server_.received(kClient, {{bytes, bytes + open.items()[0].size}});
  }
  EXPECT_LT(mallinfo2().uordblks - before, kSessions * 4096u);
  ripc_rpc_statistics statistics{};
  server_.server->add_to(statistics);
  EXPECT_EQ(statistics.sessions_served, kSessions);
}

TEST_F(CallLifetimes, AnItemOfARepeatedAnswerThatCouldNotBeReadStaysFailed) {
  std::array<std::byte, 64> memory{};
  const ripc_return_buffer room{memory.data(), memory.size()};
  ripc_item_view seen{};
  CallRequest request;
  request.returns = {&room, 1};
  begin(
      request,
      [](void* user, const ripc_call_result* result) {
        *static_cast<ripc_item_view*>(user) = result->items[0];
        ripc_message_release(result->message);
      },
      &seen);
  network_.run(100 * kMillisecond);
  ASSERT_EQ(kept_.size(), 1u);
  const wire::call::Header header{
      .kind = wire::call::Kind::answer, .number = kept_[0]->number, .session = kept_[0]->session, .incarnation = 1};
  core::Message* const message = network_.take_message();
  message->source = kServer;
  message->item_count = 2;
  wire::call::encode(header, message->storage);
  message->items[0] = core::short_view(message->storage, wire::call::kHeaderSize);
  message->items[1] = {};
  message->items[1].kind = RIPC_VIEW_FAILED;
  message->items[1].status = RIPC_NO_MEMORY;
  message->items[1].size = 40;
  Arrival arrival(client_, network_.now);
  client_.client->received(message, header, arrival);
  EXPECT_EQ(seen.kind, static_cast<std::uint32_t>(RIPC_VIEW_FAILED));
  EXPECT_EQ(seen.status, RIPC_NO_MEMORY);
}

TEST_F(CallLifetimes, AFirstRequestWithoutMemoryForItsSessionDoesNotRunAndSaysSoAtOnce) {
  for (const Weather& weather : {Weather{}, Weather{.may_lose = true, .doubled = 100}}) {
    network_.weather = weather;
    calls_.ended.clear();
    calls_.runs = 0;
    server_.lacks_memory = true;
    calls_.begin();
    network_.run(100 * kMillisecond);
    EXPECT_FALSE(server_.lacks_memory) << "it has come";
    ASSERT_EQ(calls_.ended.size(), 1u);
    EXPECT_EQ(calls_.ended[0].outcome, RIPC_CALL_DID_NOT_RUN);
    EXPECT_EQ(calls_.ended[0].status, RIPC_NO_MEMORY);
    EXPECT_EQ(calls_.runs, 0) << "nor does its copy run";
    calls_.begin();
    network_.run(100 * kMillisecond);
    ASSERT_EQ(calls_.ended.size(), 2u);
    EXPECT_EQ(calls_.ended[1].outcome, RIPC_CALL_ANSWERED);
    network_.run(20'000 * kMillisecond);  // the server forgets the session
  }
}

}  // namespace
}  // namespace ripc::internal::rpc
