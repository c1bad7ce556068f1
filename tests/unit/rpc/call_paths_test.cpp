// SPDX-License-Identifier: Apache-2.0
// Calls that are under way when their path is lost, made again or without room.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "fake_calls.hpp"

namespace ripc::internal::rpc {
namespace {

class CallPaths : public testing::Test {
 protected:
  void open_session() {
    calls_.begin();
    network_.run(100 * kMillisecond);
    ASSERT_EQ(calls_.ended.size(), 1u);
  }
  // The outcome of the call that ended last, once all that were begun have ended.
  std::uint32_t end(std::size_t begun) {
    network_.run(1000 * kMillisecond);
    EXPECT_EQ(calls_.ended.size(), begun) << "its deadline is a minute away";
    return calls_.ended.size() == begun ? calls_.ended.back().outcome : UINT32_MAX;
  }

  FakeNetwork network_{7, {.delay = kMillisecond}};
  FakeNode client_{network_, kClient};
  FakeNode server_{network_, kServer};
  Calls calls_{network_, client_, *server_.server};
};

TEST_F(CallPaths, ACallThatIsLostWithAPathThatSomebodyElseMakesAgainEndsSoon) {
  open_session();
  calls_.begin();
  client_.lose_and_remake_path(kServer);
  EXPECT_EQ(end(2), RIPC_CALL_DID_NOT_RUN);
  EXPECT_EQ(calls_.runs, 1);
}

TEST_F(CallPaths, ASessionIsAskedForAgainWhenSomebodyElseMakesItsPathAgain) {
  calls_.begin();
  while (network_.messages == 0) ASSERT_TRUE(network_.step(UINT64_MAX));
  client_.lose_and_remake_path(kServer);
  EXPECT_EQ(end(1), RIPC_CALL_ANSWERED);
}

TEST_F(CallPaths, ACallThatIsLostWithAPathDuringItsSendEndsSoon) {
  open_session();
  std::array<std::byte, 8> memory{};
  const ripc_return_buffer room{memory.data(), memory.size()};
  calls_.returns = {&room, 1};
  client_.during_send = [&] {
    client_.lose_and_remake_path(kServer);
    network_.run(kMillisecond);
  };
  calls_.begin();
  EXPECT_EQ(end(2), RIPC_CALL_DID_NOT_RUN);
  EXPECT_EQ(calls_.runs, 1);
}

// The path is lost after a call was sent. Then all messages of the client find its queue full, from `since` until it
// has room again.
class WithoutRoom : public CallPaths {
 protected:
  void lose_path(Nanoseconds since) {
    network_.cut(kClient, kServer, 100);
    client_.disconnect(kServer);
    network_.run(since);
    network_.weather.without_room = 100;
    network_.run(10 * kMillisecond);
    network_.weather.without_room = 0;
  }
};

TEST_F(WithoutRoom, AQuestionIsAskedOnceThereIsSome) {
  open_session();
  calls_.begin();
  network_.weather.without_room = 100;
  lose_path(0);
  EXPECT_EQ(end(2), RIPC_CALL_DID_NOT_RUN);
}

TEST_F(WithoutRoom, ACallIsWithdrawnOnceThereIsSome) {
  open_session();
  calls_.begin();
  lose_path(3 * kMillisecond / 2);  // the server has reported that it has not seen the call
  EXPECT_EQ(end(2), RIPC_CALL_DID_NOT_RUN);
  EXPECT_EQ(calls_.runs, 1);
}

TEST_F(WithoutRoom, ACallIsSentAgainOnceThereIsSome) {
  calls_.begin();  // waits for the session, so a copy is kept
  while (network_.messages != 3) ASSERT_TRUE(network_.step(UINT64_MAX));
  lose_path(3 * kMillisecond / 2);  // the server has reported that it has not seen the call
  EXPECT_EQ(end(1), RIPC_CALL_ANSWERED);
  EXPECT_EQ(calls_.runs, 1);
}

}  // namespace
}  // namespace ripc::internal::rpc
