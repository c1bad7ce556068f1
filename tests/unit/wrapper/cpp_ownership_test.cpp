// SPDX-License-Identifier: Apache-2.0
// The C++ headers: what objects own, when they are moved and when they are assigned to.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cpp_wrapper.hpp"

namespace {

using ripc::bytes_of;
using wrapper::CppWrapper;
using wrapper::kPatience;

class CppOwnership : public CppWrapper {};

// NOLINTBEGIN(bugprone-use-after-move): it is what these tests are about

TEST_F(CppOwnership, AMovedFromObjectIsEmptyAndDoesNothing) {
  ripc::Context context = std::move(here_);
  EXPECT_TRUE(here_.empty());
  EXPECT_EQ(here_.lease(1).code(), RIPC_INVALID_ARGUMENT);
  ripc::Service service = std::move(receiver_);
  EXPECT_TRUE(receiver_.empty());
  EXPECT_EQ(receiver_.id(), 0u);
  EXPECT_EQ(receiver_.name(), "");
  EXPECT_EQ(receiver_.receive(ripc::kNoWait).code(), RIPC_INVALID_ARGUMENT);
  receiver_.unregister();
  EXPECT_EQ(service.name(), "receiver");

  const std::vector<std::byte> content(100'000);
  ripc::Ticket ticket = *sender_.send(service.id(), ripc::borrow(content), {.tag = 3});
  const ripc::Ticket kept_ticket = std::move(ticket);
  EXPECT_TRUE(ticket.empty());
  EXPECT_TRUE(ticket.poll().ok());
  EXPECT_FALSE(kept_ticket.empty());
  ripc::Message message = *service.receive(kPatience, RIPC_RECEIVE_LEND);
  const ripc::Message kept_message = std::move(message);
  EXPECT_TRUE(message.empty());
  EXPECT_EQ(message.source() + message.item_count() + message.tag() + message.in_reply_to(), 0u);
  EXPECT_EQ(message.item(0).status(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(message.peer().identity, "");
  EXPECT_FALSE(message.peer().user.has_value());
  EXPECT_EQ(service.reply(message, bytes_of("x")).code(), RIPC_INVALID_ARGUMENT);
  message.release();
  EXPECT_EQ(kept_message.tag(), 3u);
  EXPECT_EQ(kept_message.item(0).size(), content.size());

  ripc::Buffer buffer = *context.lease(1000);
  const ripc::Buffer kept_buffer = std::move(buffer);
  EXPECT_TRUE(buffer.empty());
  EXPECT_EQ(buffer.size(), 0u);
  EXPECT_TRUE(buffer.bytes().empty());
  buffer.release();
  EXPECT_TRUE(context.find_buffer(kept_buffer.data()).ok());
  std::vector<std::byte> memory(5000);
  ripc::Registration registration = *context.register_memory(memory);
  const ripc::Registration kept_registration = std::move(registration);
  EXPECT_TRUE(registration.empty());
  registration.unregister();
  EXPECT_TRUE(context.find_buffer(memory.data()).ok());
  ripc::Notification notification = *service.on_notification([](auto, auto) {});
  const ripc::Notification kept_notification = std::move(notification);
  EXPECT_TRUE(notification.empty());
  notification.unregister();
  EXPECT_TRUE(sender_.notify(kept_notification.name()).ok());
  ripc::Watch watch = *context.watch(service.id(), [](auto, const auto&) {});
  const ripc::Watch kept_watch = std::move(watch);
  EXPECT_TRUE(watch.empty());
  watch.end();
  EXPECT_FALSE(kept_watch.empty());
  sender_.unregister();  // before its context
}

TEST_F(CppOwnership, AssignmentEndsWhatTheTargetOwned) {
  ripc::Buffer buffer = *here_.lease(1000);
  const std::byte* const data = buffer.data();
  buffer = *there_.lease(2000);  // of another context
  EXPECT_FALSE(here_.find_buffer(data).ok());
  EXPECT_EQ(buffer.size(), 2000u);
  EXPECT_TRUE(there_.find_buffer(buffer.data()).ok());
  std::vector<std::byte> memory(5000);
  std::vector<std::byte> other(5000);
  ripc::Registration registration = *here_.register_memory(memory);
  registration = *there_.register_memory(other);
  EXPECT_FALSE(here_.find_buffer(memory.data()).ok());
  EXPECT_TRUE(there_.find_buffer(other.data()).ok());

  const auto first = std::make_shared<int>();
  const auto second = std::make_shared<int>();
  ripc::Notification notification = *receiver_.on_notification([first](auto, auto) {});
  notification = *sender_.on_notification([second](auto, auto) {});
  EXPECT_EQ(first.use_count(), 1);
  EXPECT_EQ(second.use_count(), 2);
  EXPECT_EQ(notification.name().service, sender_.id());
  ripc::Watch watch = *here_.watch(4711, [first](auto, const auto&) {});
  watch = *there_.watch(4711, [second](auto, const auto&) {});
  EXPECT_EQ(first.use_count(), 1);
  EXPECT_EQ(second.use_count(), 3);

  const ripc::ServiceId id = receiver_.id();
  receiver_ = *there_.register_service();
  EXPECT_EQ(here_.resolve(id).code(), RIPC_NO_SERVICE);
  EXPECT_TRUE(here_.resolve(receiver_.id()).ok());
}

// NOLINTEND(bugprone-use-after-move)

TEST_F(CppOwnership, ReceiveManyReleasesWhatItsArrayOwned) {
  auto service = there_.register_service({.max_messages = 4});
  ASSERT_TRUE(service.ok());
  std::array<ripc::Message, 2> messages;
  for (int round = 0; round < 4; ++round) {
    for (std::uint32_t tag = 0; tag < 2; ++tag) ASSERT_TRUE(sender_.send(service->id(), {}, {.tag = tag}).ok());
    for (std::size_t total = 0; total < 2;) {
      const auto count = service->receive_many(std::span(messages).subspan(total), kPatience);
      ASSERT_TRUE(count.ok()) << round << ": " << count.error().text();
      total += *count;
    }
    EXPECT_EQ(messages[1].tag(), 1u);
  }
}

TEST_F(CppOwnership, AnErrorKeepsItsSentenceWhateverIsCalledAfterIt) {
  ripc::Error first = here_.resolve("nobody-has-this-name").error();
  const std::string sentence(first.text());
  EXPECT_NE(sentence, ripc_status_text(RIPC_NO_SERVICE)) << "it is a sentence of its own";
  EXPECT_EQ(sender_.send(0, {}).code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(first.text(), sentence);
  const ripc::Error moved = std::move(first);
  EXPECT_EQ(moved.text(), sentence);
  sender_.unregister();
  here_.destroy();
  EXPECT_EQ(moved.text(), sentence);
}

}  // namespace
