// SPDX-License-Identifier: Apache-2.0
// More datagrams than a service takes in, from senders that keep to their credit, and from one that does not.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "../spi_calls.hpp"
#include "altered_device.hpp"
#include "nodes.hpp"
#include "strangers.hpp"
#include "support/waiting.hpp"
#include "transport/verbs/datagram/verbs_port.hpp"

namespace ripc::internal::verbs {
namespace {

class Floods : public Nodes {
 protected:
  void SetUp() override {
    Nodes::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!has_datagrams()) GTEST_SKIP() << "this device has no datagrams";
    const AsyncEvents::Listener listener = [this](Reaction reaction, std::uint8_t) {
      if (reaction == Reaction::lose_queue) overruns_.fetch_add(1);
    };
    listener_ = device().events.listen(listener);
  }
  void TearDown() override {
    if (listener_ != 0) device().events.listen_no_more(listener_);
    Nodes::TearDown();
  }
  const Device& device() const { return *devices_->devices().front(); }
  std::unique_ptr<spi::Port> open(ripc_service_id id, std::uint32_t queue_messages) {
    Result<std::unique_ptr<spi::Port>> port = server_->transport().open_port(
        {.id = id, .queue_messages = queue_messages, .queue_bytes = 8192, .max_senders = 64}, events_);
    EXPECT_TRUE(port.ok()) << port.status().text();
    return port.ok() ? std::move(*port) : nullptr;
  }
  static ripc_status send_text(spi::Channel& channel, const std::string& text) {
    const spi::Bytes bytes = std::as_bytes(std::span(text));
    return test::send(channel, bytes);
  }

  // The server's end of a new link to the service with ID 8.
  DatagramSource& link_to(spi::Port& service) {
    channel_ = test::connect(client_->transport(), server_->transport().address(), 8, Deadline::after(kLimit)).value();
    EXPECT_EQ(send_text(*channel_, "first"), RIPC_OK);
    EXPECT_TRUE(support::eventually([&] {
      (void)service.poll(sink_, 64);
      return !sink_.packets.empty();
    }));
    return dynamic_cast<DatagramSource&>(*sink_.source);
  }

  AsyncEvents::ListenerId listener_ = 0;
  std::atomic<int> overruns_{0};  // of completion queues
};

TEST_F(Floods, OfManySendersFillNoCompletionQueueAndLoseNothing) {
  constexpr int kSenders = 12;
  const auto service = open(8, 256);
  ASSERT_NE(service, nullptr);
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<std::shared_ptr<spi::Channel>> channels;
  for (int sender = 0; sender < kSenders; ++sender) {
    nodes.push_back(std::make_unique<Node>(devices_, options_));
    Result<std::shared_ptr<spi::Channel>> channel =
        test::connect(nodes.back()->transport(), server_->transport().address(), 8, Deadline::after(kLimit));
    ASSERT_TRUE(channel.ok()) << channel.status().text();
    channels.push_back(std::move(*channel));
  }
  std::map<std::string, std::size_t> sent, received;
  std::size_t total = 0;
  const Deadline deadline = Deadline::after(kLimit);
  for (int round = 0; round < 3; ++round) {
    // No one reads until all senders are stopped.
    for (int sender = 0; sender < kSenders; ++sender) {
      const std::string text = std::to_string(sender);
      const std::size_t before = total;
      ripc_status status = RIPC_OK;
      while (status == RIPC_OK || (total == before && status == RIPC_AGAIN)) {
        ASSERT_FALSE(deadline.expired());
        status = send_text(*channels[static_cast<std::size_t>(sender)], text);
        if (status == RIPC_OK) {
          ++sent[text];
          ++total;
        }
      }
      ASSERT_EQ(status, RIPC_AGAIN) << "it is stopped";
    }
    while (sink_.packets.size() < total && !deadline.expired()) (void)service->poll(sink_, 64);
  }
  for (const std::string& packet : sink_.packets) ++received[packet];
  EXPECT_EQ(received, sent);
  EXPECT_EQ(service->statistics().lost, 0u);
  EXPECT_EQ(overruns_, 0);
}

TEST_F(Floods, ThatIgnoreTheCreditCostOthersDatagramsAndNothingElse) {
  const auto service = open(8, 16);
  ASSERT_NE(service, nullptr);
  Result<std::shared_ptr<spi::Channel>> honest =
      test::connect(client_->transport(), server_->transport().address(), 8, Deadline::after(kLimit));
  ASSERT_TRUE(honest.ok()) << honest.status().text();
  ASSERT_EQ(send_text(**honest, "first"), RIPC_OK);
  while (sink_.packets.empty()) (void)service->poll(sink_, 64);

  StrangeSender stranger(devices_->ports().front());
  const DatagramAddress target = dynamic_cast<VerbsPort&>(*service).addresses().front();
  constexpr std::uint64_t kFlood = 2000;  // many times the number of buffers
  const std::string garbage(64, 'x');
  for (std::uint64_t count = 0; count < kFlood; ++count)
    ASSERT_TRUE(stranger.send(target, std::as_bytes(std::span(garbage))));
  constexpr std::uint64_t kLost = 8;
  for (std::uint64_t count = 0; count < kLost; ++count) ASSERT_EQ(send_text(**honest, "lost"), RIPC_OK);
  // When this datagram has left, all that were sent before it by the same queue have left, too.
  ASSERT_TRUE(stranger.send(target, std::as_bytes(std::span(garbage))));

  const auto reads_until = [&](const std::string& text) {
    return support::eventually([&] {
      (void)send_text(**honest, text);
      (void)(*honest)->has_room(true);
      (void)service->poll(sink_, 64);
      return sink_.packets.back() == text;
    });
  };
  ASSERT_TRUE(reads_until("after")) << "its buffers are posted again";
  const spi::PortStatistics statistics = service->statistics();
  EXPECT_GE(statistics.lost, kLost) << "they are missed";
  EXPECT_GT(statistics.corrupt, 0u) << "what took their place is counted";
  EXPECT_LT(statistics.corrupt, kFlood) << "there were not so many buffers";
  EXPECT_TRUE((*honest)->alive());
  EXPECT_EQ(overruns_, 0);
  ASSERT_EQ(send(8, 'o'), RIPC_OK) << "another service of the same context";
}

TEST_F(Floods, OfASenderWhoseMessagesWaitTakeNoMoreMemoryThanItsCredit) {
  const auto service = open(8, 16);
  ASSERT_NE(service, nullptr);
  DatagramSource& source = link_to(*service);
  const std::shared_ptr<DatagramSender> sender = sender_of(*client_);
  const DatagramAddress target = dynamic_cast<VerbsPort&>(*service).addresses().front();
  const DatagramRoute route{.handle = sender->find_handle(target.gid, target.lid).value(),
                            .queue_pair = target.queue_pair,
                            .queue_key = target.queue_key};
  std::uint32_t sequence = 1;  // of link_to()
  for (const std::uint32_t datagrams : {1u, 8u}) {
    SCOPED_TRACE(datagrams);
    const std::vector<std::byte> packet(datagrams * datagram_limit(), std::byte{1});
    const std::uint32_t flood = 4 * source.budget() / datagrams;
    const std::uint64_t before = service->statistics().corrupt;
    const std::size_t received = sink_.packets.size();
    sink_.blocks = true;
    for (std::uint32_t sent = 1; sent <= flood; ++sent) {
      const wire::datagram::Header header{.after = static_cast<std::uint8_t>(datagrams - 1),
                                          .sequence = sequence + 1,
                                          .token = source.token(),
                                          .spent = 1};
      sequence += datagrams;
      const spi::Bytes bytes = packet;
      ASSERT_TRUE(support::eventually(
          [&] { return sender->send_parts(route, header, std::span(&bytes, 1), datagram_limit()) == RIPC_OK; }));
      ASSERT_TRUE(support::eventually([&] {
        (void)service->poll(sink_, 64);
        return source.backlog.size() + service->statistics().corrupt - before == sent;
      }));
    }
    EXPECT_EQ(source.backlog.size(), source.budget() / datagrams);
    sink_.blocks = false;
    EXPECT_TRUE(support::eventually([&] {
      (void)service->poll(sink_, 64);
      return sink_.packets.size() == received + source.budget() / datagrams;
    })) << "what was kept is delivered";
    EXPECT_TRUE(source.backlog.empty());
  }
}

TEST_F(Floods, ByTheControlConnectionTakeNoMoreMemoryThanTheCredit) {
  const auto service = open(8, 16);
  ASSERT_NE(service, nullptr);
  DatagramSource& source = link_to(*service);
  wire::datagram::HeaderBytes header;
  std::vector<std::byte> datagram(header.size() + 64, std::byte{1});
  std::uint32_t sequence = 1;
  sink_.blocks = true;
  for (int round = 0; round < 20; ++round) {
    server_->in_responder([&] {
      for (std::uint32_t count = 0; count < source.budget(); ++count) {
        wire::datagram::encode({.sequence = ++sequence, .token = source.token(), .spent = 1}, header);
        std::ranges::copy(header, datagram.begin());
        dynamic_cast<VerbsPort&>(*service).pass(source, datagram);
      }
    });
    (void)service->poll(sink_, 64);
  }
  const std::size_t waiting = source.backlog.size();
  EXPECT_EQ(waiting, source.budget());
  sink_.blocks = false;
  EXPECT_TRUE(support::eventually([&] {
    (void)service->poll(sink_, 64);
    return sink_.packets.size() > 1 + waiting;
  })) << "then comes what waited before it";
}

TEST_F(Floods, WithoutPacketsLeaveTheReceiverItsTurn) {
  constexpr std::uint64_t kEndless = 1000;
  constexpr std::uint64_t kMostRounds = 16;
  const auto service = open(8, 16);
  ASSERT_NE(service, nullptr);
  (void)link_to(*service);
  auto& port = dynamic_cast<VerbsPort&>(*service);
  StrangeSender stranger(devices_->ports().front());
  const EndlessQueue endless(port.pairs().front()->recv_cq, kEndless);
  const std::string garbage(64, 'x');
  ASSERT_TRUE(stranger.send(port.addresses().front(), std::as_bytes(std::span(garbage))));
  const std::uint64_t before = service->statistics().corrupt;
  ASSERT_TRUE(support::eventually([&] {
    (void)service->poll(sink_, 64);
    return service->statistics().corrupt != before;
  }));
  const std::uint64_t looks = endless.looks();
  EXPECT_EQ(service->poll(sink_, 64), 0u);
  EXPECT_LE(endless.looks() - looks, kMostRounds);
  EXPECT_NE(events_.sleep(Deadline::after(kLimit), monotonic_now()), RIPC_TIMEOUT) << "it is woken for the rest";
}

TEST_F(Floods, OfASendersCreditLeaveOthersTheirTurn) {
  constexpr std::uint64_t kEndless = 100;
  constexpr std::uint64_t kMostRounds = 16;
  const std::shared_ptr<DatagramSender> sender = sender_of(*client_);
  StrangeSender stranger(devices_->ports().front());
  const EndlessQueue endless(sender->pair()->recv_cq, kEndless);
  const std::string garbage(64, 'x');
  {
    const auto pause = client_->pause();
    const std::uint64_t before = sender->counters().rejected;
    ASSERT_TRUE(stranger.send(sender->address(), std::as_bytes(std::span(garbage))));
    ASSERT_TRUE(support::eventually([&] {
      sender->read_credits();
      return sender->counters().rejected != before;
    }));
    const std::uint64_t looks = endless.looks();
    sender->read_credits();
    EXPECT_LE(endless.looks() - looks, kMostRounds);
  }
  // No event tells of what was left.
  EXPECT_TRUE(support::eventually([&] { return endless.looks() > kEndless; })) << "the responder reads on";
}

}  // namespace
}  // namespace ripc::internal::verbs
