// SPDX-License-Identifier: Apache-2.0
// What the tests of messages with long items share: a service, its peers and its windows.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "fake_source.hpp"

namespace ripc::internal::core {

inline constexpr int kLooks = 10;  // more than any test has packets
inline constexpr std::uint64_t kLarge = std::uint64_t{9}
                                        << 20;  // more than may be under way before something else begins

class LongReceiving : public testing::Test {
 protected:
  void SetUp() override {
    ContextParts parts = fake_parts(std::make_unique<FakeTransport>(sources_));
    parts.spin = {.time = RIPC_FOREVER / 4, .adapts = false};  // nothing would wake a sleeper
    Result<std::unique_ptr<Context>> context = Context::create(std::move(parts));
    ASSERT_TRUE(context.ok()) << context.status().text();
    context_ = std::move(*context);
    ASSERT_NO_FATAL_FAILURE(open({}));
  }
  void TearDown() override {
    if (service_ != nullptr) context_->services().remove(service_);
  }
  void open(const ServiceOptions& options) {
    if (service_ != nullptr) context_->services().remove(service_);
    Result<Service*> service = context_->services().add(options);
    ASSERT_TRUE(service.ok()) << service.status().text();
    service_ = *service;
  }

  FakeSource& peer(std::size_t messages_at_once = 8) {
    sources_.push_back(std::make_shared<FakeSource>(messages_at_once));
    return *sources_.back();
  }
  void post(std::size_t count, std::size_t size = FakeSource::kLength) {
    for (std::size_t index = 0; index < count; ++index) {
      landings_.emplace_back(size);
      ASSERT_TRUE(service_->windows().post(landings_.back().data(), size, landings_.size() - 1).ok());
    }
  }

  // Sends a request with this return buffer; returns its ID.
  std::uint64_t ask(std::span<std::byte> buffer) {
    const ripc_return_buffer landing{buffer.data(), buffer.size()};
    std::uint64_t request = 0;
    SendArguments arguments;
    arguments.to = FakeSource::kService;
    arguments.returns = std::span(&landing, 1);
    arguments.request_id = &request;
    const Status sent = service_->sender().send(arguments, nullptr);
    EXPECT_TRUE(sent.ok()) << sent.text();
    return request;
  }

  // What one message, if there was one, contained; the message itself is released.
  struct Received {
    ripc_status status = RIPC_OK;
    std::uint32_t tag = 0;
    std::vector<ripc_item_view> views;
    int first_byte = -1;  // of the first item
  };
  Received receive(std::uint32_t flags = 0) {
    std::array<Message*, 1> messages{};
    std::size_t count = 0;
    Received received;
    // Each call takes one packet, whether or not the packet completes a message.
    for (int look = 0; look < kLooks && count == 0; ++look)
      received.status = service_->receive(flags, 0, messages, count);
    if (received.status != RIPC_OK) return received;
    const Message& message = *messages[0];
    received.tag = message.tag;
    received.views.assign(message.items, message.items + message.item_count);
    if (!received.views.empty() && received.views[0].data != nullptr)
      received.first_byte = static_cast<const unsigned char*>(received.views[0].data)[0];
    MessagePool::release(messages[0]);
    return received;
  }
  // Receives messages, releases them and returns their tags.
  std::vector<std::uint32_t> receive_many(Nanoseconds timeout) {
    std::array<Message*, 8> messages{};
    std::size_t count = 0;
    EXPECT_EQ(service_->receive(0, timeout, messages, count), RIPC_OK);
    std::vector<std::uint32_t> tags;
    for (std::size_t index = 0; index < count; ++index) {
      tags.push_back(messages[index]->tag);
      MessagePool::release(messages[index]);
    }
    return tags;
  }
  void expect_nothing(std::uint32_t flags = 0) { EXPECT_EQ(receive(flags).status, RIPC_EMPTY); }
  // Expects the message with this tag, its first item in the window with this cookie and filled with the key.
  void expect_in_window(std::uint32_t tag, std::uint64_t cookie, int key) {
    const Received received = receive();
    ASSERT_EQ(received.status, RIPC_OK);
    EXPECT_EQ(received.tag, tag);
    ASSERT_EQ(received.views.size(), 1u);
    EXPECT_EQ(received.views[0].kind, static_cast<std::uint32_t>(RIPC_VIEW_WINDOW));
    EXPECT_EQ(received.views[0].cookie, cookie);
    EXPECT_EQ(received.first_byte, key);
  }

  FakeSources sources_;
  std::unique_ptr<Context> context_;
  Service* service_ = nullptr;
  std::deque<std::vector<std::byte>> landings_;
};

}  // namespace ripc::internal::core
