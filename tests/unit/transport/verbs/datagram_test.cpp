// SPDX-License-Identifier: Apache-2.0
// Short messages over the datagrams of a real device: what they cost, who may send them, and what an error leaves.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <future>
#include <string>

#include "nodes.hpp"
#include "support/failing_allocation.hpp"
#include "support/waiting.hpp"
#include "transport/verbs/datagram/verbs_port.hpp"

namespace ripc::internal::verbs {
namespace {

class Datagrams : public Nodes {
 protected:
  void SetUp() override {
    Nodes::SetUp();
    if (IsSkipped()) return;
    if (!has_datagrams()) GTEST_SKIP() << "this device has no datagrams";
  }

  static std::string pattern(std::size_t size) {
    std::string text(size, ' ');
    for (std::size_t index = 0; index < size; ++index) text[index] = static_cast<char>(index * 31 + index / 251);
    return text;
  }

  // Sends packets of this size until there is no room, at most `most`, and reads them. Returns how many there were.
  std::size_t fill_and_read(std::size_t size, std::size_t most) {
    std::size_t sent = 0;
    while (sent < most && send(size, 'c') == RIPC_OK) ++sent;
    receive(sent);
    EXPECT_EQ(port_->statistics().lost, 0u);
    const Deadline deadline = Deadline::after(kLimit);
    while (!channel_->has_room(false) && !deadline.expired()) (void)port_->poll(sink_, 64);
    EXPECT_EQ(send(size, 'c'), RIPC_OK) << "the room comes back";
    return sent;
  }

  // Sends until something arrives: what was under way when the queue failed may be lost.
  void exchange_after_an_error(char fill) {
    sink_.packets.clear();
    const Deadline deadline = Deadline::after(kLimit);
    while (sink_.packets.empty() && !deadline.expired()) {
      (void)send(8, fill);
      // A thread that waits for room does the same.
      (void)channel_->has_room(true);
      (void)port_->poll(sink_, 64);
    }
    ASSERT_FALSE(sink_.packets.empty()) << "nothing arrives any more";
    EXPECT_EQ(sink_.packets.front(), std::string(8, fill));
  }
};

TEST_F(Datagrams, ASmallMessageIsOneWorkRequestAndOneDoorbellAndCopiedByTheDeviceOnly) {
  const std::uint64_t copied = counters().copied;
  expect_one_work_request_each();
  EXPECT_EQ(counters().copied, copied);
}

TEST_F(Datagrams, APacketOfTheirSizeIsCopiedOnceAndArrivesWhole) {
  const DatagramCounters before = counters();
  ASSERT_EQ(send(datagram_limit(), 'b'), RIPC_OK);
  receive(1);
  const DatagramCounters after = counters();
  EXPECT_EQ(after.copied - before.copied, 1u);
  EXPECT_EQ(after.work_requests - before.work_requests, 1u);
  EXPECT_EQ(sink_.packets.back(), std::string(datagram_limit(), 'b'));
}

TEST_F(Datagrams, ALargerPacketTakesSeveralAndFewDoorbellsAndIsCopiedOnce) {
  const std::size_t limit = channel_->packet_limit();
  EXPECT_EQ(limit, wire::datagram::kMaxPacket);
  std::size_t count = 0;
  for (const std::size_t size : {datagram_limit() + 1, std::size_t{64} << 10, limit}) {
    const std::string text = pattern(size);
    const std::span bytes = std::as_bytes(std::span(text));
    // The ranges and the datagrams end at different places.
    const std::array<spi::Bytes, 4> ranges = {bytes.first(1), bytes.subspan(1, 0), bytes.subspan(1, size / 2),
                                              bytes.subspan(1 + size / 2)};
    const DatagramCounters before = counters();
    ASSERT_EQ(channel_->send({.kind = spi::Outgoing::Kind::packet, .packet = ranges}), RIPC_OK);
    receive(++count);
    const DatagramCounters after = counters();
    const std::size_t datagrams = (size + datagram_limit() - 1) / datagram_limit();
    EXPECT_EQ(after.work_requests - before.work_requests, datagrams);
    EXPECT_EQ(after.copied - before.copied, datagrams);
    EXPECT_EQ(after.doorbells - before.doorbells,
              (datagrams + DatagramSender::kMostMessages - 1) / DatagramSender::kMostMessages);
    EXPECT_EQ(sink_.packets.back(), text) << size;
  }
  EXPECT_EQ(send(limit + 1, 'b'), RIPC_TOO_LARGE);
  const spi::PortStatistics seen = port_->statistics();
  EXPECT_EQ(seen.lost + seen.late + seen.duplicates + seen.corrupt, 0u);
}

TEST_F(Datagrams, ALinkThatAReceiverHasNoMemoryForIsReceivedLater) {
  std::uint64_t nth = 1;
  for (bool failed = true; failed; ++nth) {
    SCOPED_TRACE(testing::Message() << "allocation " << nth);
    ASSERT_LT(nth, 100u);
    ASSERT_TRUE(connect());
    ASSERT_EQ(send(8, 'n'), RIPC_OK);
    sink_.refuses = true;  // it would take memory too
    {
      const support::FailingAllocation failing(nth);
      (void)port_->poll(sink_, 64);
      failed = failing.failed();
    }
    sink_.refuses = false;
    sink_.packets.clear();
    receive(1);
    EXPECT_TRUE(support::eventually([&] {
      (void)port_->poll(sink_, 64);
      return port_->statistics().sources == 1;
    })) << "the former link has ended";
  }
}

TEST_F(Datagrams, PacketsOfAllSizesKeepTheirOrder) {
  constexpr std::size_t kCount = 300;
  std::vector<std::string> sent;
  while (sent.size() < kCount) {
    const std::size_t size = sent.size() * 7919 % (3 * datagram_limit()) + 1;
    const std::string text = pattern(size);
    if (test::send(*channel_, std::as_bytes(std::span(text)), false) == RIPC_OK) {
      sent.push_back(text);
    } else {
      (void)channel_->has_room(true);
      (void)port_->poll(sink_, 64);
    }
  }
  receive(kCount);
  EXPECT_EQ(sink_.packets, sent);
}

TEST_F(Datagrams, ManyLargerPacketsStopTheirSenderAndNoneIsLost) {
  // has_room() reports room for the largest packet.
  const std::size_t sent = fill_and_read(channel_->packet_limit(), 10'000);
  EXPECT_GE(sent, 1u);
  EXPECT_LT(sent, 10'000u);
}

TEST_F(Datagrams, APacketThatFindsNoRoomIsOfferedAgainWhole) {
  const std::string text = pattern(3 * datagram_limit());
  ASSERT_EQ(test::send(*channel_, std::as_bytes(std::span(text)), false), RIPC_OK);
  sink_.refuses = true;
  const Deadline deadline = Deadline::after(kLimit);
  while (sink_.refused < 3 && !deadline.expired()) (void)port_->poll(sink_, 64);
  EXPECT_TRUE(sink_.packets.empty());
  sink_.refuses = false;
  receive(1);
  EXPECT_EQ(sink_.packets.back(), text);
}

// One work request, one doorbell, and no copy of the payload: the device reads it where it lies.
TEST_F(Datagrams, AGivenMessageIsGatheredWhereItLies) {
  constexpr std::size_t kSize = 3000;
  std::byte* const data = client_->pool().lease(kSize).value();
  std::fill_n(data, kSize, std::byte{'g'});
  std::array<ripc_item, 2> items = {ripc_item{data, 1000, RIPC_ITEM_SHORT, 0},
                                    ripc_item{data + 1000, 500, RIPC_ITEM_SHORT, 0}};
  const wire::Plain message{.source = 1, .tag = 0, .items = items, .bytes = 1500};
  const DatagramCounters before = counters();
  bool copied = true;
  ASSERT_EQ(channel_->send({.kind = spi::Outgoing::Kind::given, .message = message, .copied = &copied}), RIPC_OK);
  EXPECT_FALSE(copied);
  receive(1);
  const DatagramCounters after = counters();
  EXPECT_EQ(after.work_requests - before.work_requests, 1u);
  EXPECT_EQ(after.doorbells - before.doorbells, 1u);
  EXPECT_EQ(after.gathered - before.gathered, 1u);
  EXPECT_EQ(after.copied, before.copied);
  EXPECT_EQ(after.inlined, before.inlined);
  ASSERT_EQ(sink_.packets.back().size(), message.packet_size());
  EXPECT_EQ(sink_.packets.back().substr(wire::packet_size(2, 0)), std::string(1500, 'g'));
  // A small item in front of it, and an item that lies in no lease, go with the header.
  const std::string small = "in front";
  items[0] = {small.data(), small.size(), RIPC_ITEM_SHORT, 0};
  ASSERT_EQ(channel_->send({.kind = spi::Outgoing::Kind::given,
                            .message = {.source = 1, .tag = 0, .items = items, .bytes = 508},
                            .copied = &copied}),
            RIPC_OK);
  EXPECT_TRUE(copied);
  receive(2);
  EXPECT_EQ(sink_.packets.back().substr(wire::packet_size(2, 0)), small + std::string(500, 'g'));
  EXPECT_EQ(counters().gathered - before.gathered, 2u);
  EXPECT_EQ(client_->pool().release(data).code(), RIPC_OK);
}

TEST_F(Datagrams, AGivenLeaseIsKeptWhileTheDeviceMayReadItAndFewAre) {
  constexpr std::size_t kSize = 1500;
  constexpr std::size_t kCount = 1000;
  ripc_pool_statistics pool{};
  std::uint64_t most = 0;
  for (std::size_t index = 0; index < kCount; ++index) {
    std::byte* const data = client_->pool().lease(kSize).value();
    std::fill_n(data, kSize, static_cast<std::byte>('a' + index % 26));
    const ripc_item item{data, kSize, RIPC_ITEM_SHORT, 0};
    bool copied = true;
    ASSERT_EQ(channel_->send({.kind = spi::Outgoing::Kind::given,
                              .message = {.source = 1, .tag = 0, .items = std::span(&item, 1), .bytes = kSize},
                              .copied = &copied}),
              RIPC_OK)
        << index;
    ASSERT_FALSE(copied) << index;
    ASSERT_TRUE(client_->pool().release(data).ok());
    client_->pool().fill_statistics(pool);
    EXPECT_EQ(pool.deferred_releases, index + 1) << "the device may read it still";
    most = std::max(most, pool.leased);
    receive(index + 1);
    EXPECT_EQ(sink_.packets.back().substr(wire::packet_size(1, 0)),
              std::string(kSize, static_cast<char>('a' + index % 26)));
  }
  EXPECT_LE(most, InFlightLeases::kMost + kSize);
  const DatagramCounters end = counters();
  EXPECT_LE(end.completions, kCount / 16) << "nobody waits for one";
}

// Otherwise a small message would keep a large lease from the pool.
TEST_F(Datagrams, AGivenMessageInALargeLeaseIsCopied) {
  std::byte* const data = client_->pool().lease(InFlightLeases::kMostOfOne + 1).value();
  std::fill_n(data, 1000, std::byte{'l'});
  const ripc_item item{data, 1000, RIPC_ITEM_SHORT, 0};
  bool copied = false;
  ASSERT_EQ(channel_->send({.kind = spi::Outgoing::Kind::given,
                            .message = {.source = 1, .tag = 0, .items = std::span(&item, 1), .bytes = 1000},
                            .copied = &copied}),
            RIPC_OK);
  EXPECT_TRUE(copied);
  ASSERT_TRUE(client_->pool().release(data).ok());
  ripc_pool_statistics pool{};
  client_->pool().fill_statistics(pool);
  EXPECT_EQ(pool.leased, 0u);
  receive(1);
  EXPECT_EQ(sink_.packets.back().substr(wire::packet_size(1, 0)), std::string(1000, 'l'));
}

TEST_F(Datagrams, ManyMessagesAreRungForOnce) {
  const std::string text = "one of many";
  const ripc_item item{text.data(), text.size(), RIPC_ITEM_SHORT, 0};
  std::array<wire::Plain, 32> messages;
  messages.fill({.source = 1, .tag = 0, .items = std::span(&item, 1), .bytes = text.size()});
  const DatagramCounters before = counters();
  std::size_t sent = 0;
  ASSERT_EQ(channel_->send_many(messages, sent), RIPC_OK);
  EXPECT_EQ(sent, messages.size());
  receive(sent);
  const DatagramCounters after = counters();
  EXPECT_EQ(after.doorbells - before.doorbells, 1u);
  EXPECT_EQ(after.work_requests - before.work_requests, messages.size());
}

TEST_F(Datagrams, AReceiverThatDoesNotReadStopsItsSenderAndLosesNothing) {
  const std::size_t sent = fill_and_read(8, 100'000);
  EXPECT_GE(sent, 1024u);
  EXPECT_LT(sent, 100'000u);
}

TEST_F(Datagrams, ASenderLivesAsLongAsItsResponderUsesIt) {
  const DevicePort port = devices_->ports().front();
  const std::unique_ptr<EventLoop> loop = EventLoop::create().value();
  std::shared_ptr<DatagramSender> sender =
      DatagramSender::create(port, std::make_shared<Registrar>(port.device, client_->pool()), *loop).value();
  std::promise<void> reads, goes_on;
  sender->listen(5, 6, nullptr, [&](const wire::datagram::Header&) {
    reads.set_value();
    goes_on.get_future().wait();
  });
  std::thread responder([&] { loop->run(); });
  // From now on the responder reads what an event reports.
  std::promise<void> watches;
  loop->post([&] { watches.set_value(); });
  watches.get_future().wait();
  const DatagramAddress own = sender->address();
  const DatagramRoute route{.handle = sender->find_handle(own.gid, own.lid).value(),
                            .queue_pair = own.queue_pair,
                            .queue_key = own.queue_key};
  EXPECT_EQ(sender->send(route, {.kind = wire::datagram::Kind::greeting, .token = 6, .credit_link = 5}, {}), RIPC_OK);
  reads.get_future().wait();
  const std::weak_ptr<DatagramSender> used = sender;
  sender.reset();
  EXPECT_FALSE(used.expired());
  goes_on.set_value();
  EXPECT_TRUE(support::eventually([&] { return used.expired(); }));
  loop->stop();
  responder.join();
}

TEST_F(Datagrams, ASendersQueuePairInErrorIsStartedAgain) {
  ASSERT_EQ(send(8, 'd'), RIPC_OK);
  receive(1);
  fail(sender_of(*client_)->pair());
  exchange_after_an_error('e');
  EXPECT_GE(counters().restarts, 1u);
}

TEST_F(Datagrams, AServicesQueuePairInErrorIsStartedAgain) {
  ASSERT_EQ(send(8, 'd'), RIPC_OK);
  receive(1);
  auto* const port = dynamic_cast<VerbsPort*>(port_.get());
  ASSERT_NE(port, nullptr);
  for (ibv_qp* pair : port->pairs()) fail(pair);
  exchange_after_an_error('e');
}

}  // namespace
}  // namespace ripc::internal::verbs
