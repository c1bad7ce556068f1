// SPDX-License-Identifier: Apache-2.0
// More datagrams than a service takes in, from senders that keep to their credit, and from one that does not.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "../spi_calls.hpp"
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

}  // namespace
}  // namespace ripc::internal::verbs
