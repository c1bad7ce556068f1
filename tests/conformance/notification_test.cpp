// SPDX-License-Identifier: Apache-2.0
// Notifications: callbacks of one service that its peers can run.
#include <gmock/gmock.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "puppet.hpp"

namespace conformance {
namespace {

using testing::HasSubstr;
using testing::Not;

// A registered callback that keeps what it was given, and does more if told to.
struct Bell {
  explicit Bell(const Service& owner) : service(owner.get()) {
    EXPECT_EQ(ripc_notification_register(service, ring, this, &notification), RIPC_OK) << ripc_last_error();
  }

  static void ring(void* user, ripc_service_id source, const ripc_item_view* items, std::size_t count) {
    auto* self = static_cast<Bell*>(user);
    {
      const std::lock_guard lock(self->mutex);
      self->source = source;
      self->thread = std::this_thread::get_id();
      self->arguments.clear();
      for (std::size_t index = 0; index < count; ++index) {
        EXPECT_EQ(items[index].kind, RIPC_VIEW_SHORT);
        EXPECT_EQ(items[index].status, RIPC_OK);
        self->arguments.push_back(text_of(items[index]));
      }
    }
    if (self->then) self->then();
    self->runs.fetch_add(1);
  }

  ~Bell() {
    if (registered) {
      EXPECT_EQ(unregister(), RIPC_OK);
    }
  }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  ripc_status unregister() {
    registered = false;
    return ripc_notification_unregister(service, &notification);
  }
  std::vector<std::string> last_arguments() {
    const std::lock_guard lock(mutex);
    return arguments;
  }

  ripc_service* service;
  ripc_notification notification{};
  std::atomic<bool> registered{true};
  std::function<void()> then;
  std::atomic<int> runs{0};
  std::mutex mutex;
  ripc_service_id source = 0;
  std::thread::id thread;
  std::vector<std::string> arguments;
};

class Notifications : public PairTest {
 protected:
  // Rings from the client; waits for room.
  ripc_status ring(const Bell& bell, Items items = {}) {
    ripc_status status = RIPC_AGAIN;
    eventually([&] {
      status = ripc_notify(client_.get(), &bell.notification, std::data(items), items.size());
      return status != RIPC_AGAIN;
    });
    return status;
  }
  void ring_and_wait(Bell& bell, Items items = {}) {
    const int before = bell.runs;
    ASSERT_EQ(ring(bell, items), RIPC_OK) << ripc_last_error();
    ASSERT_TRUE(eventually([&] { return bell.runs > before; }));
  }
};
CONFORMANCE_SUITE(Notifications);

TEST_P(Notifications, TheCallbackRunsWithItsArguments) {
  Bell bell(server_);
  EXPECT_EQ(bell.notification.service, server_id());
  EXPECT_NE(bell.notification.handle, 0u);
  const std::string_view a = "alpha";
  const std::string_view b = "beta";
  ring_and_wait(bell, {item(a), item_at(nullptr, 0, RIPC_ITEM_AUTO), item(b)});
  EXPECT_EQ(bell.last_arguments(), (std::vector<std::string>{"alpha", "", "beta"}));
  EXPECT_EQ(bell.source, client_id());
  EXPECT_NE(bell.thread, std::this_thread::get_id()) << "in the responder thread, though nobody receives";
}

TEST_P(Notifications, ArgumentsMayBeNone) {
  Bell bell(server_);
  ring_and_wait(bell);
  EXPECT_TRUE(bell.last_arguments().empty());
}

TEST_P(Notifications, ArgumentsMayReachTheShortLimitAndNotBeyond) {
  Bell bell(server_);
  constexpr std::size_t kMost = 60'000;  // on any path
  std::size_t limit = 0;
  ASSERT_EQ(ripc_short_limit(client_.get(), server_id(), 1, &limit), RIPC_OK);
  const std::string large(limit + 1, 'x');
  limit = std::min(limit, kMost);
  ring_and_wait(bell, {item_at(large.data(), limit, RIPC_ITEM_SHORT)});
  EXPECT_EQ(bell.last_arguments(), std::vector<std::string>{large.substr(0, limit)});
  EXPECT_EQ(ring(bell, {item(large, RIPC_ITEM_SHORT)}), RIPC_TOO_LARGE);
  EXPECT_EQ(ring(bell, {item(large, RIPC_ITEM_AUTO)}), RIPC_TOO_LARGE) << "arguments are never long";
  EXPECT_THAT(ripc_last_error(), HasSubstr("ripc_send()"));
  EXPECT_THAT(ripc_last_error(), Not(HasSubstr("LONG")));
}

TEST_P(Notifications, OneItemHasAtMost61408BytesAndEachFurtherOneTakesFourOfThem) {
  const Service roomy =
      make_service(server_context_, [](ripc_service_options& options) { options.queue_bytes = 1u << 20; });
  std::size_t limit = 0;
  ASSERT_EQ(ripc_short_limit(client_.get(), id_of(roomy), 1, &limit), RIPC_OK);
  if (limit < 61'409) GTEST_SKIP() << "no message to this peer is as large";
  Bell bell(roomy);
  const std::string bytes(61'409, 'x');
  for (const std::size_t count : {1u, 2u, 63u}) {
    const std::size_t most = 61'408 - 4 * (count - 1);
    std::vector<ripc_item> items(count, item_at(bytes.data(), 1, RIPC_ITEM_SHORT));
    items.back().size = most - (count - 1);
    const auto notify = [&] { return ripc_notify(client_.get(), &bell.notification, items.data(), items.size()); };
    const int before = bell.runs;
    EXPECT_EQ(notify(), RIPC_OK) << count << ": " << ripc_last_error();
    EXPECT_TRUE(eventually([&] { return bell.runs > before; }));
    ++items.back().size;
    EXPECT_EQ(notify(), RIPC_TOO_LARGE) << count;
  }
}

TEST_P(Notifications, LongItemsAndTooManyItemsAreRefused) {
  Bell bell(server_);
  const std::string_view text = "text";
  EXPECT_EQ(ring(bell, {item(text, RIPC_ITEM_LONG)}), RIPC_INVALID_ARGUMENT);
  EXPECT_THAT(ripc_last_error(), HasSubstr("ripc_send()"));
  EXPECT_EQ(ring(bell, {item(text, RIPC_ITEM_RETURN)}), RIPC_INVALID_ARGUMENT);
  const std::vector<ripc_item> items(RIPC_MAX_ITEMS + 1);
  EXPECT_EQ(ripc_notify(client_.get(), &bell.notification, items.data(), items.size()), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(bell.runs, 0);
}

TEST_P(Notifications, EveryRegistrationHasAHandleOfItsOwn) {
  std::set<std::uint64_t> handles;
  std::set<std::uint64_t> upper_halves;
  std::vector<std::unique_ptr<Bell>> bells;
  for (int count = 0; count < 50; ++count) {
    bells.push_back(std::make_unique<Bell>(server_));
    handles.insert(bells.back()->notification.handle);
    upper_halves.insert(bells.back()->notification.handle >> 32);
  }
  EXPECT_EQ(handles.size(), 50u);
  EXPECT_GE(upper_halves.size(), 48u) << "who knows one could guess the next";
  ring_and_wait(*bells[17]);
  for (std::size_t index = 0; index < bells.size(); ++index) EXPECT_EQ(bells[index]->runs, index == 17 ? 1 : 0);
}

TEST_P(Notifications, AHandleTravelsAsPlainBytesAndRunsFromAnotherProcess) {
  Puppet puppet(peer_setup());
  ASSERT_EQ(puppet.register_id(77), "RIPC_OK");
  Bell bell(server_);
  ASSERT_EQ(send(server_, 77, {item_at(&bell.notification, sizeof bell.notification, RIPC_ITEM_SHORT)}), RIPC_OK);
  const auto* bytes = reinterpret_cast<const unsigned char*>(&bell.notification);
  EXPECT_EQ(puppet.call("receive"), "RIPC_OK " + describe(RIPC_VIEW_SHORT, {bytes, sizeof bell.notification}));
  EXPECT_EQ(puppet.call("notify " + std::to_string(bell.notification.service) + " " +
                        std::to_string(bell.notification.handle) + " from afar"),
            "RIPC_OK");
  ASSERT_TRUE(eventually([&] { return bell.runs == 1; }));
  EXPECT_EQ(bell.last_arguments(), std::vector<std::string>{"from afar"});
  EXPECT_EQ(bell.source, 77u);
}

TEST_P(Notifications, AnUnknownHandleIsIgnoredAndCounted) {
  Bell bell(server_);
  ripc_notification guess = bell.notification;
  guess.handle ^= 1;
  ASSERT_EQ(ripc_notify(client_.get(), &guess, nullptr, 0), RIPC_OK);
  EXPECT_TRUE(eventually([&] { return statistics_of(server_).notifications_unknown == 1; }));
  ring_and_wait(bell);
  EXPECT_EQ(bell.runs, 1);
}

TEST_P(Notifications, AHandleOfAnotherServiceIsUnknown) {
  const Service neighbour = make_service(server_context_);
  Bell bell(server_);
  ripc_notification misdirected = bell.notification;
  misdirected.service = id_of(neighbour);
  ASSERT_EQ(ripc_notify(client_.get(), &misdirected, nullptr, 0), RIPC_OK);
  EXPECT_TRUE(eventually([&] { return statistics_of(neighbour).notifications_unknown == 1; }));
  EXPECT_EQ(bell.runs, 0);
}

TEST_P(Notifications, ToAServiceThatIsNotThereTheyFailLikeASend) {
  const ripc_notification nobody{987654, 1};
  EXPECT_EQ(ripc_notify(client_.get(), &nobody, nullptr, 0), RIPC_NO_SERVICE);
}

// ---- Unregister --------------------------------------------------------------------------------------------------

TEST_P(Notifications, AfterUnregisterTheCallbackNeverRunsAgain) {
  Bell gone(server_);
  Bell witness(server_);
  ring_and_wait(gone);
  ASSERT_EQ(gone.unregister(), RIPC_OK);
  ASSERT_EQ(ring(gone), RIPC_OK) << "the sender cannot know";
  ring_and_wait(witness);  // comes after
  EXPECT_EQ(gone.runs, 1);
  EXPECT_EQ(statistics_of(server_).notifications_unknown, 1u);
  EXPECT_EQ(gone.unregister(), RIPC_INVALID_ARGUMENT) << "it is not registered any more";
}

TEST_P(Notifications, UnregisterOfWhatIsNotRegisteredIsRefused) {
  const ripc_notification never{server_id(), 4242};
  EXPECT_EQ(ripc_notification_unregister(server_.get(), &never), RIPC_INVALID_ARGUMENT);
  Bell bell(server_);
  EXPECT_EQ(ripc_notification_unregister(client_.get(), &bell.notification), RIPC_INVALID_ARGUMENT);
}

TEST_P(Notifications, UnregisterWaitsForARunningCallback) {
  std::mutex mutex;
  std::condition_variable changed;
  bool entered = false;
  bool may_leave = false;
  std::atomic<bool> left{false};
  Bell bell(server_);
  bell.then = [&] {
    std::unique_lock lock(mutex);
    entered = true;
    changed.notify_all();
    changed.wait_for(lock, std::chrono::seconds(10), [&] { return may_leave; });
    left = true;
  };
  ASSERT_EQ(ring(bell), RIPC_OK);
  {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(10), [&] { return entered; }));
  }
  std::atomic<bool> calling{false};
  std::jthread other([&] {
    calling = true;
    EXPECT_EQ(bell.unregister(), RIPC_OK);
    EXPECT_TRUE(left) << "unregister returned while the callback was running";
  });
  ASSERT_TRUE(eventually([&] { return calling.load(); }));
  {
    const std::lock_guard lock(mutex);
    may_leave = true;
    changed.notify_all();
  }
  other.join();
  EXPECT_EQ(bell.runs, 1);
}

TEST_P(Notifications, UnregisterFromInsideMakesTheRunTheLast) {
  Bell bell(server_);
  Bell witness(server_);
  std::atomic<int> status{-1};
  bell.then = [&] { status = bell.unregister(); };
  ring_and_wait(bell);
  EXPECT_EQ(status, RIPC_OK);
  ASSERT_EQ(ring(bell), RIPC_OK);
  ring_and_wait(witness);
  EXPECT_EQ(bell.runs, 1);
}

TEST_P(Notifications, UnregisterDuringAStormLeavesNoLateRun) {
  std::atomic<bool> finished{false};
  std::mutex mutex;
  ripc_notification target{};
  std::jthread storm([&] {
    while (!finished) {
      ripc_notification notification;
      {
        const std::lock_guard lock(mutex);
        notification = target;
      }
      if (notification.service != 0) ripc_notify(client_.get(), &notification, nullptr, 0);
    }
  });
  for (int round = 0; round < 100; ++round) {
    std::atomic<bool> may_run{true};
    std::atomic<int> late{0};
    Bell bell(server_);
    bell.then = [&] {
      if (!may_run) ++late;
    };
    {
      const std::lock_guard lock(mutex);
      target = bell.notification;
    }
    EXPECT_TRUE(eventually([&] { return bell.runs > 0; }));
    ASSERT_EQ(bell.unregister(), RIPC_OK);
    may_run = false;
    const int runs = bell.runs;
    std::this_thread::yield();
    EXPECT_EQ(late, 0);
    EXPECT_EQ(bell.runs, runs);
  }
  finished = true;
}

TEST_P(Notifications, UnregisteringTheServiceEndsItsCallbacks) {
  Bell bell(server_);
  ring_and_wait(bell);
  bell.registered = false;
  server_.reset();
  EXPECT_TRUE(eventually([&] {
    const ripc_status status = ripc_notify(client_.get(), &bell.notification, nullptr, 0);
    return status == RIPC_NO_SERVICE || status == RIPC_PEER_DEAD;
  }));
  EXPECT_EQ(bell.runs, 1);
}

// ---- What callbacks may do ---------------------------------------------------------------------------------------

TEST_P(Notifications, ACallbackMaySend) {
  Bell bell(server_);
  std::atomic<int> sent{-1};
  bell.then = [&] { sent = send_text(server_, client_id(), "from inside"); };
  ring_and_wait(bell);
  EXPECT_EQ(sent, RIPC_OK);
  EXPECT_EQ(text_of(receive(client_)), "from inside");
}

TEST_P(Notifications, ACallbackMaySendToAServiceItNeverMet) {
  const Context far_context = make_context();
  const Service far = make_service(far_context);
  const Service near = make_service(server_context_);
  Bell bell(server_);
  std::atomic<int> sent{-1};
  std::atomic<int> sent_near{-1};
  bell.then = [&] {
    sent = send_text(server_, id_of(far), "hello stranger");  // has to resolve and connect
    sent_near = send_text(server_, id_of(near), "hello neighbour");
  };
  ring_and_wait(bell);
  EXPECT_EQ(sent, RIPC_OK);
  EXPECT_EQ(sent_near, RIPC_OK);
  EXPECT_EQ(text_of(receive(far)), "hello stranger");
  EXPECT_EQ(text_of(receive(near)), "hello neighbour");
}

TEST_P(Notifications, ACallbackMayReplyToAMessageThatIsHeld) {
  Bytes buffer(1000);
  const ripc_return_buffer one{buffer.data(), buffer.size()};
  ripc_send_options options = send_options();
  options.return_count = 1;
  options.returns = &one;
  ASSERT_EQ(ripc_send(client_.get(), server_id(), nullptr, 0, &options, nullptr), RIPC_OK);
  Message question = receive(server_);
  const Bytes data = pattern(1000, 1);
  Bell bell(server_);
  std::atomic<int> replied{-1};
  bell.then = [&] {
    const ripc_item filled = item(data, RIPC_ITEM_RETURN);
    replied = ripc_reply(server_.get(), question.get(), &filled, 1, nullptr, nullptr);
    question.reset();
  };
  ring_and_wait(bell);
  EXPECT_EQ(replied, RIPC_OK);
  EXPECT_TRUE(holds(view_of(receive(client_), 0), RIPC_VIEW_RETURNED, data));
}

TEST_P(Notifications, ACallbackMaySendLongMessagesAndPostWindows) {
  const Bytes data = pattern(100'000, 2);
  Bytes client_window(data.size());
  Bytes server_window(data.size());
  ASSERT_EQ(ripc_window_post(client_.get(), client_window.data(), client_window.size(), 1), RIPC_OK);
  Bell bell(server_);
  std::atomic<int> posted{-1};
  bell.then = [&] {
    posted = ripc_window_post(server_.get(), server_window.data(), server_window.size(), 2);
    const ripc_item one = item(data, RIPC_ITEM_LONG);
    ripc_ticket* ticket = nullptr;
    if (ripc_send(server_.get(), client_id(), &one, 1, nullptr, &ticket) == RIPC_OK) ripc_ticket_release(ticket);
  };
  ring_and_wait(bell);
  EXPECT_EQ(posted, RIPC_OK);
  EXPECT_TRUE(holds(view_of(receive(client_), 0), RIPC_VIEW_WINDOW, data));
  const Ticket ticket = send_long(client_, server_id(), {item(data, RIPC_ITEM_LONG)});
  EXPECT_TRUE(holds(view_of(receive(server_), 0), RIPC_VIEW_WINDOW, data));
}

TEST_P(Notifications, ACallbackMayRegisterAndRingAnother) {
  std::unique_ptr<Bell> second;
  Bell first(server_);
  first.then = [&] { second = std::make_unique<Bell>(server_); };
  ring_and_wait(first);
  ASSERT_NE(second, nullptr);
  ring_and_wait(*second);
  Bell answer(client_);
  second->then = [&] { EXPECT_EQ(ripc_notify(server_.get(), &answer.notification, nullptr, 0), RIPC_OK); };
  ring_and_wait(*second);
  EXPECT_TRUE(eventually([&] { return answer.runs == 1; })) << "and call back";
}

TEST_P(Notifications, TheyDoNotDisturbMessages) {
  Bell bell(server_);
  constexpr int kCount = 1000;
  std::jthread ringing([&] {
    for (int count = 0; count < kCount; ++count) ASSERT_EQ(ring(bell), RIPC_OK);
  });
  for (std::uint32_t tag = 0; tag < 1000; ++tag) {
    ASSERT_TRUE(eventually([&] { return send(client_, server_id(), {}, tag) == RIPC_OK; }));
    ASSERT_EQ(ripc_message_get_tag(receive(server_).get()), tag);
  }
  ringing.join();
  EXPECT_TRUE(eventually([&] { return bell.runs == kCount; }));
  EXPECT_EQ(statistics_of(server_).notifications_run, static_cast<std::uint64_t>(kCount));
  EXPECT_EQ(statistics_of(client_).notifications_sent, static_cast<std::uint64_t>(kCount));
}

}  // namespace
}  // namespace conformance
