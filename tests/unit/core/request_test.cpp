// SPDX-License-Identifier: Apache-2.0
// Requests and their names. Also how a sender follows a service that has moved.
#include <gtest/gtest.h>

#include <array>

#include "core/context.hpp"
#include "core/service.hpp"
#include "fake_source.hpp"
#include "support/waiting.hpp"

namespace ripc::internal::core {
namespace {

class Requests : public testing::Test {
 protected:
  void SetUp() override {
    auto resolver = std::make_unique<FakeResolver>();
    resolver_ = resolver.get();
    Result<std::unique_ptr<Context>> context =
        Context::create(fake_parts(std::make_unique<FakeTransport>(sources_), std::move(resolver)));
    ASSERT_TRUE(context.ok()) << context.status().text();
    context_ = std::move(*context);
    const Result<Service*> service = context_->services().add({});
    ASSERT_TRUE(service.ok()) << service.status().text();
    service_ = *service;
  }

  std::uint64_t ask() {
    std::uint64_t request = 0;
    SendArguments arguments;
    arguments.to = FakeSource::kService;
    const ripc_return_buffer buffer{.data = memory_.data(), .size = memory_.size()};
    arguments.returns = {&buffer, 1};
    arguments.request_id = &request;
    const Status sent = service_->sender().send(arguments, nullptr);
    EXPECT_TRUE(sent.ok()) << sent.text();
    return request;
  }
  std::shared_ptr<FakeChannel> channel() {
    return std::static_pointer_cast<FakeChannel>(context_->paths().known_channel(FakeSource::kService));
  }
  Message* receive() {
    std::array<Message*, 1> messages{};
    std::size_t count = 0;
    (void)service_->receive(0, 0, messages, count);
    return count == 0 ? nullptr : messages[0];
  }

  std::array<std::byte, 8> memory_{};
  FakeSources sources_;
  FakeResolver* resolver_ = nullptr;
  std::unique_ptr<Context> context_;
  Service* service_ = nullptr;
};

// The number in the packet's item of this type; 0: there is no such item.
std::uint64_t sent_number(const std::vector<std::byte>& bytes, wire::ItemType type) {
  wire::Packet packet;
  if (!packet.decode(bytes).ok()) return 0;
  for (const wire::DecodedItem& item : packet.items()) {
    if (item.type == type) return packet.number(item);
  }
  return 0;
}

TEST_F(Requests, HaveANameThatTheReplyCarries) {
  const std::uint64_t request = ask();
  ASSERT_NE(request, 0u);
  EXPECT_EQ(sent_number(channel()->last_packet(), wire::ItemType::request), request);

  sources_.push_back(std::make_shared<FakeSource>(1));
  sources_.back()->send_reply(5, request);
  Message* message = receive();
  ASSERT_NE(message, nullptr);
  EXPECT_EQ(message->in_reply_to, request);
  EXPECT_EQ(message->tag, 5u);
  MessagePool::release(message);
  EXPECT_EQ(service_->cancel_request(request).code(), RIPC_INVALID_ARGUMENT) << "it was answered";
}

TEST_F(Requests, AreAnsweredByTheirName) {
  constexpr std::uint64_t kRequest = 1234;
  sources_.push_back(std::make_shared<FakeSource>(1));
  sources_.back()->send_request(6, kRequest);
  Message* message = receive();
  ASSERT_NE(message, nullptr);
  EXPECT_EQ(message->request, kRequest);
  SendArguments arguments;
  arguments.to = FakeSource::kService;
  arguments.reply_to = message;
  EXPECT_TRUE(service_->sender().send(arguments, nullptr).ok());
  EXPECT_EQ(sent_number(channel()->last_packet(), wire::ItemType::reply), kRequest);
  MessagePool::release(message);
}

TEST_F(Requests, WithoutReturnBuffersHaveNoName) {
  std::uint64_t request = 1;
  SendArguments arguments;
  arguments.to = FakeSource::kService;
  arguments.request_id = &request;
  EXPECT_TRUE(service_->sender().send(arguments, nullptr).ok());
  EXPECT_EQ(request, 0u);
  EXPECT_TRUE(channel()->last_packet().empty()) << "a plain message";
}

TEST_F(Requests, AServiceWhoseIdAnotherContextHasNowIsFencedAsSoonAsAResolverSaysSo) {
  const auto status = [&] {
    std::array<Message*, 1> messages{};
    std::size_t count = 0;
    return service_->receive(0, 0, messages, count);
  };
  spi::ServiceRecord now;
  now.id = service_->id();
  now.context = context_->id();
  now.incarnation = 2;
  resolver_->incarnation = 2;
  resolver_->observe_with({.id = now.id, .now = &now});
  EXPECT_EQ(status(), RIPC_EMPTY) << "it has it itself";
  now.context = 2;
  now.incarnation = 1;
  resolver_->observe_with({.id = now.id, .now = &now});
  EXPECT_EQ(status(), RIPC_EMPTY) << "an older one";
  now.incarnation = 2;
  resolver_->observe_with({.id = now.id, .now = &now});
  EXPECT_TRUE(support::eventually([&] { return status() == RIPC_FENCED; }));
}

TEST_F(Requests, GoToTheNewHolderAsSoonAsAResolverSaysThatTheServiceHasMoved) {
  (void)ask();
  const auto former = channel();
  ASSERT_NE(former, nullptr);
  spi::ServiceRecord record;
  record.id = FakeSource::kService;
  record.incarnation = former->incarnation();
  resolver_->observe_with({.id = record.id, .now = &record});
  EXPECT_EQ(channel(), former) << "that is where it leads";
  resolver_->observe_with({.id = record.id});
  EXPECT_EQ(channel(), former) << "the resolver does not know where it is";
  record.incarnation = former->incarnation() + 1;
  resolver_->observe_with({.id = record.id, .now = &record});
  EXPECT_EQ(channel(), nullptr);
  (void)ask();
  EXPECT_NE(channel(), former);
}

}  // namespace
}  // namespace ripc::internal::core
