// SPDX-License-Identifier: Apache-2.0
// How links with their own connection end: what their sender has sent arrives, and nothing is left behind.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <future>
#include <set>
#include <string>
#include <thread>

#include "medium_link.hpp"

namespace ripc::internal::socket {
namespace {

// The peer's responder does not run, so nobody answers the question for a connection.
TEST_F(MediumLink, ALinkThatHasEndedIsForgottenThoughItsConnectionWasNeverMade) {
  TransportOptions options;
  options.peer_timeout = 400'000'000;
  Node impatient(options);
  EventSet events = make_events();
  const auto port = impatient.open_port(events, 8);
  const auto there = sender_.channel(impatient, 8);
  ASSERT_NE(there, nullptr);
  const auto back_port = sender_.open_port(events, 9);
  auto ending = impatient.channel(sender_, 9);
  const auto lasting = impatient.channel(sender_, 9);
  ASSERT_TRUE(ending != nullptr && lasting != nullptr);
  const remote::SessionPointer session = lasting->session();
  ASSERT_TRUE(session->incoming) << "the peer makes the connections";
  const Halt halt(sender_);
  EXPECT_FALSE(grows(*ending));
  ending.reset();
  EXPECT_FALSE(grows(*lasting));
  std::promise<std::size_t> waiting;
  impatient.loop().post([&] { waiting.set_value(session->stream_takers.size()); });
  EXPECT_EQ(waiting.get_future().get(), 1u);
}

TEST_F(MediumLink, PacketsArriveThoughTheirSenderHasEnded) {
  auto channel = grown();
  ASSERT_NE(channel, nullptr);
  const std::string large(100'000, 'e');
  std::size_t sent = 0;
  while (send_text(*channel, large) == RIPC_OK) ++sent;
  channel.reset();
  ASSERT_TRUE(poll_until(sent));
  ASSERT_TRUE(eventually([&] {
    (void)port_->poll(sink_, 64);
    return sink_.gone == 1;
  }));
  EXPECT_EQ(sink_.packets.size(), sent);
  EXPECT_EQ(port_->statistics().lost, 0u);
}

// The last messages are still in the sender's process when its context is to end.
TEST_F(MediumLink, PacketsArriveThoughTheContextOfTheirSenderEnds) {
  const auto channel = grown();
  ASSERT_NE(channel, nullptr);
  const std::string large(100'000, 'e');
  std::size_t sent = 0;
  while (send_text(*channel, large) == RIPC_OK) ++sent;
  // A busy machine has more time than the context would give it.
  sender_.loop().post([&] { channel->leave(Deadline::after(kLimit)); });
  std::atomic<bool> has_ended{false};
  std::thread ending([&] {
    sender_.stop();
    has_ended = true;
  });
  // A context that does not wait for the receiver has ended by then.
  const Nanoseconds begin = monotonic_now();
  EXPECT_TRUE(eventually([&] { return has_ended || monotonic_now() - begin > 100'000'000; }));
  EXPECT_TRUE(poll_until(sent)) << sink_.packets.size() << " of " << sent;
  ending.join();
  ASSERT_TRUE(eventually([&] {
    (void)port_->poll(sink_, 64);
    return sink_.gone == 1;
  }));
  EXPECT_EQ(port_->statistics().lost, 0u);
}

// Its datagrams and the records of its connections may be slower than the news of its end.
TEST_F(MediumLink, TheReceiverWaitsForTheLastPacketsOfAContextThatHasEnded) {
  constexpr Nanoseconds kLeast = 1'000'000'000;
  const auto channel = sender_.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  ASSERT_EQ(send_text(*channel, "first"), RIPC_OK);
  ASSERT_TRUE(poll_until(1));
  ASSERT_EQ(send_text(*channel, "last"), RIPC_OK);
  ASSERT_GE(lose_datagrams(), 1u);
  const Nanoseconds begin = monotonic_now();
  sender_.stop();
  ASSERT_TRUE(eventually([&] {
    (void)port_->poll(sink_, 64);
    return sink_.gone == 1;
  }));
  EXPECT_GE(monotonic_now() - begin, kLeast);
}

TEST_F(MediumLink, ALinkWhoseConnectionIsCutGoesOnByDatagramsAndGrowsAgain) {
  const auto channel = sender_.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  const std::size_t limit = channel->ready_limit();
  const std::set<int> before = streams();
  ASSERT_TRUE(grows(*channel));
  ASSERT_EQ(send_text(*channel, std::string(100'000, 'c')), RIPC_OK);
  ASSERT_TRUE(poll_until(1));
  for (const int fd : streams()) {
    if (!before.contains(fd)) (void)shutdown(fd, SHUT_RDWR);
  }
  ASSERT_TRUE(eventually([&] { return channel->ready_limit() == limit; }));
  EXPECT_EQ(send_text(*channel, std::string(100'000, 'c')), RIPC_TOO_LARGE);
  ASSERT_EQ(send_text(*channel, "by datagram"), RIPC_OK);
  ASSERT_TRUE(poll_until(2));
  EXPECT_EQ(sink_.packets.back().second, "by datagram");
  ASSERT_TRUE(grows(*channel));
  ASSERT_EQ(send_text(*channel, std::string(100'000, 'd')), RIPC_OK);
  ASSERT_TRUE(poll_until(3));
  EXPECT_EQ(sink_.packets.back().second, std::string(100'000, 'd'));
  EXPECT_EQ(port_->statistics().lost, 0u);
}

}  // namespace
}  // namespace ripc::internal::socket
