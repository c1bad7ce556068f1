// SPDX-License-Identifier: Apache-2.0
// The system refuses what is to be sent: its buffers are full, or it has no memory for them. Nothing is lost, and
// senders can wait. The executable's sendmsg() and sendmmsg() take precedence over those of the C library.
#include <errno.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "socket_helpers.hpp"

namespace {

// The error for sends of the calling thread; 0: the system decides.
constinit thread_local int error_of_sends = 0;
constinit thread_local unsigned messages_left = 0;  // that the system still takes
constinit thread_local unsigned refusals = 0;

}  // namespace

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the names of the C library are reserved
extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  if (error_of_sends != 0 && messages_left == 0) {
    ++refusals;
    errno = error_of_sends;
    return -1;
  }
  if (error_of_sends != 0) --messages_left;
  return syscall(SYS_sendmsg, socket, message, flags);
}

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name)
extern "C" int sendmmsg(int socket, mmsghdr* messages, unsigned count, int flags) {
  unsigned wanted = count;
  if (error_of_sends != 0) wanted = std::min(count, messages_left);
  if (wanted == 0) {
    ++refusals;
    errno = error_of_sends;
    return -1;
  }
  const auto taken = static_cast<int>(syscall(SYS_sendmmsg, socket, messages, wanted, flags));
  if (error_of_sends != 0 && taken > 0) messages_left -= static_cast<unsigned>(taken);
  return taken;
}

namespace ripc::internal::socket {
namespace {

// While it lives, the system takes only `takes` more messages from this thread.
class FullSystem {
 public:
  explicit FullSystem(int error, unsigned takes = 0) {
    error_of_sends = error;
    messages_left = takes;
    refusals = 0;
  }
  ~FullSystem() { error_of_sends = 0; }
  FullSystem(const FullSystem&) = delete;
  FullSystem& operator=(const FullSystem&) = delete;
  unsigned refused() const { return refusals; }
};

class FullSystemTest : public ::testing::TestWithParam<int> {
 protected:
  FullSystemTest()
      : events_(std::move(EventSet::create().value())),
        port_(receiver_.open_port(events_)),
        channel_(sender_.channel(receiver_)) {}
  ~FullSystemTest() override { port_.reset(); }

  bool poll_until(std::size_t packets) {
    return eventually([&] {
      (void)port_->poll(sink_, 64);
      return sink_.packets.size() >= packets;
    });
  }
  // Waits for room as the core does.
  bool room_comes() {
    const int before = sender_.host().rooms();
    return channel_->has_room(false) || channel_->has_room(true) ||
           eventually([&] { return sender_.host().rooms() > before; });
  }

  Node receiver_;
  Node sender_;
  EventSet events_;
  std::unique_ptr<remote::UdpPort> port_;
  std::shared_ptr<remote::UdpChannel> channel_;
  CollectingSink sink_;
};

INSTANTIATE_TEST_SUITE_P(Errors, FullSystemTest, ::testing::Values(EAGAIN, ENOBUFS, ENOMEM),
                         [](const auto& error) { return std::string(strerrorname_np(error.param)); });

TEST_P(FullSystemTest, AMessageThatIsNotTakenIsSentAgainAndNothingIsLost) {
  ASSERT_EQ(send_text(*channel_, "first"), RIPC_OK);
  {
    const FullSystem full(GetParam());
    EXPECT_EQ(send_text(*channel_, "second"), RIPC_AGAIN);
    EXPECT_EQ(full.refused(), 1u);
  }
  ASSERT_TRUE(room_comes());
  ASSERT_EQ(send_text(*channel_, "second"), RIPC_OK);
  ASSERT_TRUE(poll_until(2));
  EXPECT_EQ(sink_.packets[0].second, "first");
  EXPECT_EQ(sink_.packets[1].second, "second");
  EXPECT_EQ(port_->statistics().lost, 0u);
  EXPECT_EQ(sender_.host().losses(), 0);
}

TEST_P(FullSystemTest, OnlyMessagesThatTheSystemTakesCount) {
  std::vector<std::string> texts;
  for (std::size_t size = 1; size <= 5; ++size) texts.emplace_back(size, 'x');
  const Plains plains(texts);
  const std::span messages(plains.messages);
  std::size_t sent = 0;
  {
    const FullSystem full(GetParam(), 2);
    EXPECT_EQ(channel_->send_many(messages, sent), RIPC_OK);
    EXPECT_EQ(sent, 2u);
    std::size_t more = 0;
    EXPECT_EQ(channel_->send_many(messages.subspan(sent), more), RIPC_AGAIN);
    EXPECT_EQ(more, 0u);
  }
  ASSERT_TRUE(room_comes());
  std::size_t rest = 0;
  ASSERT_EQ(channel_->send_many(messages.subspan(sent), rest), RIPC_OK);
  ASSERT_EQ(sent + rest, messages.size());
  ASSERT_TRUE(poll_until(messages.size()));
  for (std::size_t index = 0; index < texts.size(); ++index)
    EXPECT_EQ(sink_.packets[index].second.substr(wire::packet_size(1, 0)), texts[index]);
  EXPECT_EQ(port_->statistics().lost, 0u);
}

TEST_P(FullSystemTest, CreditThatCannotBeSentIsSentLater) {
  std::size_t sent = 0;
  while (send_text(*channel_, "x") == RIPC_OK) ++sent;
  {
    const FullSystem full(GetParam());
    ASSERT_TRUE(poll_until(sent));
    EXPECT_NE(full.refused(), 0u);
  }
  EXPECT_FALSE(channel_->has_room(false));
  EXPECT_TRUE(eventually([&] {
    (void)port_->poll(sink_, 64);
    return channel_->has_room(false);
  }));
  EXPECT_EQ(send_text(*channel_, "x"), RIPC_OK);
  EXPECT_EQ(port_->statistics().lost, 0u);
}

}  // namespace
}  // namespace ripc::internal::socket
