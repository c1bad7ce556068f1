// SPDX-License-Identifier: Apache-2.0
#include "core/state/notification.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/waiting.hpp"
#include "wire/packet.hpp"

namespace ripc::internal::core {
namespace {

using support::eventually;

constexpr Nanoseconds kPatience = 20'000'000'000;

std::vector<std::byte> notification(std::uint64_t handle, std::string_view text) {
  wire::Encoder encoder(wire::PacketKind::notification, 0, 5);
  EXPECT_TRUE(encoder.add_handle(handle));
  EXPECT_TRUE(encoder.add_payload(std::as_bytes(std::span(text))));
  std::vector<std::byte> packet;
  for (const auto& range : encoder.finish()) packet.insert(packet.end(), range.begin(), range.end());
  return packet;
}

struct Listener {
  std::atomic<int> calls{0};
  std::string text;
  ripc_service_id source = 0;
  std::size_t count = 0;
  std::function<void()> inside;
  static void hear(void* user, ripc_service_id source, const ripc_item_view* items, std::size_t count) {
    auto& self = *static_cast<Listener*>(user);
    self.source = source;
    self.count = count;
    if (count != 0) self.text.assign(static_cast<const char*>(items[0].data), items[0].size);
    if (self.inside) self.inside();
    ++self.calls;
  }
};

class NotificationTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<EventLoop>> made = EventLoop::create();
    ASSERT_TRUE(made.ok());
    loop_ = std::move(made).value();
    table_ = std::make_shared<NotificationTable>(*loop_);
  }
  void TearDown() override { finish(); }
  void start() {
    thread_ = std::thread([this] { loop_->run(); });
  }
  void finish() {
    loop_->stop();
    if (thread_.joinable()) thread_.join();
  }

  std::unique_ptr<EventLoop> loop_;
  std::shared_ptr<NotificationTable> table_;
  std::thread thread_;
};

TEST_F(NotificationTest, RunsItsCallbackWithACopyOfThePacket) {
  Listener listener;
  const std::uint64_t handle = table_->add(Listener::hear, &listener);
  EXPECT_NE(handle, 0u);
  auto packet = notification(handle, "hello");
  table_->arrived(packet);
  std::fill(packet.begin(), packet.end(), std::byte{0});
  start();
  ASSERT_TRUE(eventually([&] { return listener.calls == 1; }));
  finish();
  EXPECT_EQ(listener.text, "hello");
  EXPECT_EQ(listener.source, 5u);
  EXPECT_EQ(listener.count, 1u);
  EXPECT_EQ(table_->run_count(), 1u);
  EXPECT_EQ(table_->unknown_count(), 0u);
}

TEST_F(NotificationTest, CountsWhatItDoesNotKnowAndWhatIsNoNotification) {
  Listener listener;
  const std::uint64_t handle = table_->add(Listener::hear, &listener);
  table_->arrived(notification(handle ^ 1, "x"));
  const auto whole = notification(handle, "x");
  table_->arrived(std::span(whole).first(whole.size() - 1));
  table_->arrived({});
  start();
  EXPECT_TRUE(eventually([&] { return table_->unknown_count() == 3; }));
  finish();
  EXPECT_EQ(listener.calls, 0);
}

TEST_F(NotificationTest, NeverRunsAfterItWasRemoved) {
  Listener first, second;
  const std::uint64_t handle = table_->add(Listener::hear, &first), other = table_->add(Listener::hear, &second);
  EXPECT_NE(handle, other);
  table_->arrived(notification(handle, "x"));
  table_->arrived(notification(other, "y"));
  EXPECT_TRUE(table_->remove(handle));
  EXPECT_FALSE(table_->remove(handle));
  start();
  EXPECT_TRUE(eventually([&] { return second.calls == 1; }));
  finish();
  EXPECT_EQ(first.calls, 0);
}

TEST_F(NotificationTest, RemoveWaitsForARunThatIsUnderWay) {
  Listener listener;
  std::atomic<bool> inside{false}, go_on{false};
  listener.inside = [&] {
    inside = true;
    (void)eventually([&] { return go_on.load(); });
  };
  const std::uint64_t handle = table_->add(Listener::hear, &listener);
  start();
  table_->arrived(notification(handle, "x"));
  ASSERT_TRUE(eventually([&] { return inside.load(); }));
  std::thread other([&] { go_on = true; });
  EXPECT_TRUE(table_->remove(handle));
  EXPECT_EQ(listener.calls, 1) << "the callback has returned";
  other.join();
}

TEST_F(NotificationTest, CanBeRemovedInsideItsOwnCallback) {
  Listener listener;
  std::uint64_t handle = 0;
  bool removed = false;
  listener.inside = [&] { removed = table_->remove(handle); };
  handle = table_->add(Listener::hear, &listener);
  table_->arrived(notification(handle, "x"));
  table_->arrived(notification(handle, "x"));
  start();
  EXPECT_TRUE(eventually([&] { return listener.calls == 1 && table_->unknown_count() == 1; }));
  finish();
  EXPECT_TRUE(removed);
  EXPECT_EQ(listener.calls, 1) << "the run that was under way is the last";
}

TEST_F(NotificationTest, RemoveAllRemovesAll) {
  std::array<Listener, 3> listeners;
  std::vector<std::uint64_t> handles;
  for (Listener& listener : listeners) handles.push_back(table_->add(Listener::hear, &listener));
  table_->remove_all();
  for (const std::uint64_t handle : handles) EXPECT_FALSE(table_->remove(handle));
}

TEST_F(NotificationTest, DropsAndCountsWhatIsTooMuchForTheResponder) {
  Listener listener;
  const std::uint64_t handle = table_->add(Listener::hear, &listener);
  const auto packet = notification(handle, "x");
  for (std::uint32_t i = 0; i < NotificationTable::kMaxWaiting + 10; ++i) table_->arrived(packet);
  EXPECT_EQ(table_->unknown_count(), 10u);
  start();
  EXPECT_TRUE(eventually([&] { return listener.calls == static_cast<int>(NotificationTable::kMaxWaiting); }));
  EXPECT_EQ(table_->unknown_count(), 10u);
  table_->arrived(packet);
  EXPECT_TRUE(eventually([&] { return listener.calls == static_cast<int>(NotificationTable::kMaxWaiting) + 1; }));
  finish();
}

}  // namespace
}  // namespace ripc::internal::core
