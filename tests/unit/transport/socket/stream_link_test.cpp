// SPDX-License-Identifier: Apache-2.0
// Links whose datagrams go over the session's control connection, because UDP does not get through.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "link_ends.hpp"
#include "transport/socket/stream_bulk.hpp"

namespace ripc::internal::socket {
namespace {

class StreamLink : public LinkEnds {
 protected:
  // A link that is opened after another one of its session has found that UDP does not get through.
  std::shared_ptr<remote::UdpChannel> stream_channel(Node& sender) {
    const auto first = sender.channel(receiver_);
    if (!first) return nullptr;
    first->session()->no_datagrams_until.store(UINT64_MAX);
    return sender.channel(receiver_);
  }
};

TEST_F(StreamLink, PacketsArriveOnceWholeAndInOrderAndCreditsDoNotRunOut) {
  const auto channel = stream_channel(sender_);
  ASSERT_NE(channel, nullptr);
  EXPECT_NE(channel->describe(Deadline::after(0)).text.find("UDP does not get through: short messages go over TCP"),
            std::string::npos)
      << channel->describe(Deadline::after(0)).text;
  // Far more than there is credit for at once.
  constexpr std::size_t kCount = 5000;
  for (std::size_t number = 0; number < kCount; ++number) {
    const std::string text = std::to_string(number) + std::string(number % 3000, 'x');
    ASSERT_TRUE(eventually([&] {
      const ripc_status status = send_text(*channel, text);
      if (status == RIPC_AGAIN) (void)port_->poll(sink_, 64);
      return status == RIPC_OK;
    }));
  }
  ASSERT_TRUE(poll_until(kCount));
  for (std::size_t number = 0; number < kCount; ++number)
    ASSERT_EQ(sink_.packets[number].second, std::to_string(number) + std::string(number % 3000, 'x'));
  const spi::PortStatistics statistics = port_->statistics();
  EXPECT_EQ(statistics.lost + statistics.late + statistics.duplicates + statistics.corrupt, 0u);
}

TEST_F(StreamLink, TheLargestPacketFits) {
  const auto channel = stream_channel(sender_);
  ASSERT_NE(channel, nullptr);
  const std::string largest(channel->ready_limit(), 'x');
  ASSERT_EQ(send_text(*channel, largest), RIPC_OK);
  EXPECT_EQ(send_text(*channel, largest + 'x'), RIPC_TOO_LARGE);
  ASSERT_TRUE(poll_until(1));
  EXPECT_EQ(sink_.packets[0].second, largest);
}

TEST_F(StreamLink, IsReceivedBesideMoreLinksThanAreReadDirectly) {
  std::vector<std::unique_ptr<Node>> others;
  std::vector<std::shared_ptr<remote::UdpChannel>> channels;
  for (int count = 0; count < 8; ++count) {
    others.push_back(std::make_unique<Node>());
    channels.push_back(others.back()->channel(receiver_));
    ASSERT_NE(channels.back(), nullptr);
  }
  const auto channel = stream_channel(sender_);
  ASSERT_NE(channel, nullptr);
  ASSERT_EQ(send_text(*channels.front(), "by UDP"), RIPC_OK);
  ASSERT_TRUE(poll_until(1));
  for (int number = 0; number < 3; ++number) {
    ASSERT_EQ(send_text(*channel, "by TCP"), RIPC_OK);
    ASSERT_TRUE(poll_until(static_cast<std::size_t>(number) + 2)) << number;
  }
}

TEST_F(StreamLink, PacketsTheReceiverCannotTakeYetWait) {
  const auto channel = stream_channel(sender_);
  ASSERT_NE(channel, nullptr);
  for (const char* text : {"one", "two", "three"}) ASSERT_EQ(send_text(*channel, text), RIPC_OK);
  sink_.answer = spi::Delivery::blocked;
  ASSERT_TRUE(eventually([&] {
    (void)port_->poll(sink_, 64);
    return channel->session()->stream.has_room();
  }));
  ASSERT_EQ(send_text(*channel, "four"), RIPC_OK);
  sink_.answer = spi::Delivery::taken;
  ASSERT_TRUE(poll_until(4));
  EXPECT_EQ(sink_.packets[0].second, "one");
  EXPECT_EQ(sink_.packets[3].second, "four");
}

TEST_F(StreamLink, AHealthyLinkIsProvenAndKeepsToUdp) {
  const auto channel = sender_.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  EXPECT_NE(channel->describe(Deadline::after(0)).text.find("UDP packets"), std::string::npos)
      << channel->describe(Deadline::after(0)).text;
}

// A receiver that does not read proves nothing about the path.
TEST_F(StreamLink, AReceiverThatReadsNothingForLongKeepsItsSendersOnUdp) {
  TransportOptions options;
  options.peer_timeout = 400'000'000;
  Node impatient(options);
  const auto channel = impatient.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  std::size_t sent = 0;
  const Deadline sending = Deadline::after(1'500'000'000);
  while (!sending.expired()) {
    if (send_text(*channel, "x") == RIPC_OK) ++sent;
  }
  EXPECT_NE(channel->describe(Deadline::after(0)).text.find("UDP packets"), std::string::npos)
      << channel->describe(Deadline::after(0)).text;
  ASSERT_TRUE(poll_until(sent)) << sink_.packets.size() << " of " << sent;
  EXPECT_EQ(port_->statistics().lost, 0u);
}

// The only end of a link over a path that takes no datagrams. Its peer says nothing.
class LoneLink : public ::testing::Test {
 protected:
  explicit LoneLink(std::uint32_t credit = 1000) {
    remote::Endpoint loopback;
    EXPECT_TRUE(remote::Endpoint::parse("127.0.0.1", 0, loopback));
    remote::LinkSocket socket = std::move(remote::LinkSocket::open(loopback, {}).value());
    EXPECT_TRUE(socket.connect(remote::Endpoint::local_of(silent_.fd())).ok());
    session_->bulk = StreamBulk::create(*loop_, {}, {});
    channel_ = remote::LinkChannel::make<remote::UdpChannel>(
        remote::LinkChannel::Parts{.session = session_,
                                   .loop = loop_.get(),
                                   .host = &host_,
                                   .service = 7,
                                   .link = 1,
                                   .token = 1,
                                   .incarnation = 1,
                                   .credit = credit,
                                   .failed = [](remote::LinkChannel&) {}},
        std::move(socket), wire::datagram::kMaxRecordPacket, true,
        [this](std::uint32_t, const remote::StreamTaker& taker) {
          int ends[2];
          EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
          peer_.reset(ends[0]);
          taker(UniqueFd(ends[1]));
        },
        kLimit);
    thread_ = std::thread([this] { loop_->run(); });
  }
  ~LoneLink() override {
    channel_.reset();
    loop_->post([this] { loop_->stop(); });
    thread_.join();
  }
  static remote::LinkSocket silent() {
    remote::Endpoint loopback;
    EXPECT_TRUE(remote::Endpoint::parse("127.0.0.1", 0, loopback));
    return std::move(remote::LinkSocket::open(loopback, {}).value());
  }
  bool take_greeting() const {
    wire::datagram::Header header;
    return silent_.receive(header) == RIPC_OK && header.kind == wire::datagram::Kind::greeting;
  }

  RecordingHost host_;
  std::unique_ptr<EventLoop> loop_ = std::move(EventLoop::create().value());
  const remote::LinkSocket silent_ = silent();
  remote::SessionPointer session_ = std::make_shared<remote::Session>(*loop_, "socket");
  UniqueFd peer_;  // the other end of the connection
  std::shared_ptr<remote::UdpChannel> channel_;
  std::thread thread_;
};

TEST_F(LoneLink, AConnectionThatIsCutLeavesTheQuestionWhetherDatagramsGetThroughAndItIsAskedAgain) {
  channel_->check_path();
  ASSERT_EQ(channel_->widen(100'000), RIPC_OK);
  const auto limit = channel_->ready_limit();
  while (take_greeting()) continue;
  peer_.reset();
  ASSERT_TRUE(eventually([&] { return channel_->ready_limit() < limit; }));
  channel_->check_path();
  EXPECT_TRUE(eventually([&] { return take_greeting(); }));
}

TEST_F(LoneLink, AConnectionThatIsCutWhileUdpIsProvenAgainLeavesThatQuestionAndItIsAskedAgain) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  const UniqueFd control(ends[0]);
  std::atomic<bool> attached{false};
  loop_->post([&] {
    EXPECT_TRUE(session_->stream.attach(UniqueFd(ends[1]), 0, [](std::uint32_t) {}).ok());
    attached = true;
  });
  ASSERT_TRUE(eventually([&] { return attached.load(); }));
  // Nothing else goes by the control connection.
  const auto is_asked = [&] {
    std::array<char, 256> bytes;
    return recv(control.get(), bytes.data(), bytes.size(), 0) > 0;
  };
  // Credit proves that UDP gets through.
  wire::datagram::HeaderBytes grant;
  wire::datagram::encode({.kind = wire::datagram::Kind::credit, .token = 1, .credit_link = 1, .credit = 100'000},
                         grant);
  channel_->handle(wire::session_control::Streamed{.link = 1, .datagram = grant});
  ASSERT_EQ(send_text(*channel_, "x"), RIPC_OK);
  channel_->check_path();
  ASSERT_TRUE(eventually(is_asked));
  ASSERT_EQ(channel_->widen(100'000), RIPC_OK);
  const auto limit = channel_->ready_limit();
  peer_.reset();
  ASSERT_TRUE(eventually([&] { return channel_->ready_limit() < limit; }));
  channel_->check_path();
  EXPECT_TRUE(eventually(is_asked));
}

TEST_F(LoneLink, APeerThatHasClosedTheLinkKeepsNoConnectionOpenByNotReading) {
  ASSERT_EQ(channel_->widen(100'000), RIPC_OK);
  while (send_text(*channel_, std::string(100'000, 'x')) == RIPC_OK) continue;
  ASSERT_TRUE(channel_->end(RIPC_CLOSED));
  pollfd end{peer_.get(), 0, 0};
  EXPECT_TRUE(eventually([&] { return poll(&end, 1, 0) == 1 && (end.revents & POLLHUP) != 0; }));
}

class LoneLinkWithMuchCredit : public LoneLink {
 protected:
  LoneLinkWithMuchCredit() : LoneLink(1u << 30) {}
};

TEST_F(LoneLinkWithMuchCredit, AllThatWasSentBeforeUdpIsFoundToBeBlockedGoesByTheControlConnection) {
  constexpr std::uint32_t kCount = 5000;  // more than the control connection keeps
  channel_->check_path();
  for (std::uint32_t count = 0; count < kCount; ++count) ASSERT_EQ(send_text(*channel_, "x"), RIPC_OK);
  for (int denial = 0; denial < 2; ++denial) channel_->handle(wire::session_control::Proved{.link = 1, .arrived = 0});
  EXPECT_EQ(send_text(*channel_, "x"), RIPC_AGAIN);
  remote::ControlStream peer(*loop_);
  std::atomic<std::uint32_t> came{0};
  const auto take = [&](std::uint32_t) {
    std::span<const std::byte> bytes;
    while (peer.receive(bytes) == remote::ControlStream::Event::frame) {
      const auto frame = wire::session_control::decode(bytes);
      wire::datagram::Header header;
      const auto* const streamed = std::get_if<wire::session_control::Streamed>(&*frame);
      if (streamed != nullptr && wire::datagram::decode(streamed->datagram, header) == RIPC_OK &&
          header.sequence == came + 1)
        ++came;
    }
    session_->stream.acknowledged(peer.received());
  };
  const auto in_loop = [&](const std::function<void()>& task) {
    std::promise<void> done;
    loop_->post([&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  };
  in_loop([&] {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    EXPECT_TRUE(peer.attach(UniqueFd(ends[0]), 0, take).ok());
    EXPECT_TRUE(session_->stream.attach(UniqueFd(ends[1]), 0, [&](std::uint32_t) { session_->stream.flush(); }).ok());
  });
  EXPECT_TRUE(eventually([&] { return came == kCount; })) << came;
  EXPECT_EQ(send_text(*channel_, "x"), RIPC_OK);
  EXPECT_TRUE(eventually([&] { return came == kCount + 1; })) << came;
  in_loop([&] { peer.detach(); });
}

}  // namespace
}  // namespace ripc::internal::socket
