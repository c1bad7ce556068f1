// SPDX-License-Identifier: Apache-2.0
// The C++ headers: ownership, errors and callbacks. Other tests cover the library behind them.
#include "cpp_wrapper.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace {

using ripc::Bytes;
using ripc::bytes_of;
using ripc::Context;
using ripc::Message;
using ripc::Service;
using ripc::Ticket;
using wrapper::CppWrapper;
using wrapper::kPatience;

static_assert(!std::is_copy_constructible_v<Context> && std::is_nothrow_move_constructible_v<Context>);
static_assert(!std::is_copy_constructible_v<Service> && std::is_nothrow_move_assignable_v<Service>);
static_assert(!std::is_copy_constructible_v<Message> && std::is_nothrow_move_assignable_v<Message>);
static_assert(!std::is_copy_constructible_v<Ticket> && std::is_nothrow_move_assignable_v<Ticket>);
static_assert(!std::is_copy_constructible_v<ripc::Buffer> && !std::is_copy_constructible_v<ripc::Registration>);
static_assert(!std::is_copy_constructible_v<ripc::Notification>);
static_assert(!std::is_constructible_v<ripc::Result<std::size_t>, ripc_status>);

// borrow() accepts only what outlives the call, so no temporary that owns its memory.
template <typename Value>
concept Borrowable = requires(Value&& value) {
  ripc::borrow(std::forward<Value>(value));
};
static_assert(Borrowable<std::string&> && Borrowable<const std::vector<int>&> && Borrowable<Bytes> &&
              Borrowable<ripc::WritableBytes> && Borrowable<std::string_view> && Borrowable<const char (&)[6]>);
static_assert(!Borrowable<std::string> && !Borrowable<std::vector<std::byte>> && !Borrowable<const std::string> &&
              !Borrowable<std::array<std::byte, 8>> && !Borrowable<std::vector<std::string>&>);

TEST(CppItems, AreNoneOneSeveralOrTheBytesOrTextOfOne) {
  const auto sizes = [](const ripc::Items& items) {
    std::vector<std::size_t> each;
    for (const ripc::Item& item : std::span(items.data(), items.size())) each.push_back(item.size);
    return each;
  };
  using Sizes = std::vector<std::size_t>;
  const std::string text = "text";
  const ripc::Item one = ripc::borrow(text);
  const std::vector<ripc::Item> several{one, one};
  EXPECT_EQ(sizes({}), Sizes());
  EXPECT_EQ(sizes(one), Sizes{4});
  EXPECT_EQ(sizes({one, ripc::item("x")}), (Sizes{4, 1}));
  EXPECT_EQ(sizes({one}), Sizes{4});
  EXPECT_EQ(sizes(several), (Sizes{4, 4}));
  EXPECT_EQ(sizes(std::span(several).first(1)), Sizes{4});
  EXPECT_EQ(sizes(std::array{one, one, one}), (Sizes{4, 4, 4}));
  EXPECT_EQ(sizes(std::vector<ripc::Item>()), Sizes());
  EXPECT_EQ(sizes(text), Sizes{4});
  EXPECT_EQ(sizes("literal"), Sizes{7});
  EXPECT_EQ(sizes(bytes_of(text)), Sizes{4});
  EXPECT_EQ(sizes(std::vector<std::byte>(3)), Sizes{3});
  ripc::Items kept = one;
  const ripc::Items copy = kept;  // refers to its own item
  kept = {};
  EXPECT_EQ(copy.data()->data, text.data());
  EXPECT_EQ(copy.data()->kind, std::uint32_t{RIPC_ITEM_LONG});
}

TEST_F(CppWrapper, EmptyObjectsGiveInvalidArgumentAndDoNothing) {
  Service service;
  EXPECT_EQ(service.send(1, bytes_of("x")).code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(service.receive(ripc::kNoWait).code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(service.id(), 0u);
  EXPECT_EQ(service.name(), "");
  EXPECT_EQ(Context().lease(1).code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(Message().item_count(), 0u);
  EXPECT_EQ(Message().item(0).status(), RIPC_INVALID_ARGUMENT);
  EXPECT_TRUE(Ticket().poll().ok());
  service.unregister();
}

TEST_F(CppWrapper, EmptyCallbacksAreRefused) {
  const std::array<ripc::Item, 1> items{ripc::item("x")};
  for (const ripc::Error& error : {receiver_.on_notification({}).error(), here_.watch(receiver_.id(), {}).error(),
                                   sender_.send_then(receiver_.id(), items, {})}) {
    EXPECT_EQ(error.code(), RIPC_INVALID_ARGUMENT);
    EXPECT_NE(error.text().find("function is empty"), std::string_view::npos) << error.text();
  }
}

TEST_F(CppWrapper, TheSentenceOfAnEmptyObjectSaysSo) {
  Service none;
  EXPECT_NE(none.statistics().error().text().find("may be empty or moved from"), std::string_view::npos);
}

TEST(CppResult, AFailedOneThatIsAskedForItsValueEndsTheProgramWithItsSentence) {
  ripc::Result<std::string> failed = ripc::Error(RIPC_NO_SERVICE, "No one is called that.");
  EXPECT_DEATH((void)*failed, "RIPC_NO_SERVICE: No one is called that.");
  EXPECT_DEATH((void)failed->size(), "No one is called that.");
  EXPECT_DEATH((void)std::move(failed).value(), "No one is called that.");
}

TEST(CppResult, TheValueOfATemporaryLivesAsLongAsItsReference) {
  const auto words = [] { return ripc::Result<std::vector<std::string>>({"one", "two"}); };
  static_assert(std::is_same_v<decltype(*words()), std::vector<std::string>>);
  static_assert(std::is_same_v<decltype(words().value()), std::vector<std::string>>);
  static_assert(std::is_same_v<decltype(words().error()), ripc::Error>);
  const auto& kept = *words();
  EXPECT_EQ(kept.front() + kept.back(), "onetwo");
}

TEST_F(CppWrapper, ErrorsHaveACodeANameAndASentence) {
  const auto failed = here_.resolve("nobody-has-this-name");
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.code(), RIPC_NO_SERVICE);
  EXPECT_STREQ(failed.error().name(), "RIPC_NO_SERVICE");
  EXPECT_GT(failed.error().text().size(), 10u);
  EXPECT_TRUE(ripc::Error().ok());
  EXPECT_EQ(ripc::Error(RIPC_CLOSED).text(), ripc_status_text(RIPC_CLOSED));
  EXPECT_EQ(ripc::Error(RIPC_CLOSED, "why").text(), "why");
}

TEST_F(CppWrapper, ShortMessageArrivesWithItsItemsAndTag) {
  const std::vector<int> numbers = {1, 2, 3};
  auto sent =
      sender_.send(receiver_.id(), {ripc::short_item(bytes_of("text")), ripc::item(bytes_of(numbers))}, {.tag = 7});
  ASSERT_TRUE(sent.ok()) << sent.error().text();
  EXPECT_TRUE(sent->empty());
  auto message = receiver_.receive(kPatience);
  ASSERT_TRUE(message.ok()) << message.error().text();
  EXPECT_EQ(message->source(), sender_.id());
  EXPECT_EQ(message->tag(), 7u);
  ASSERT_EQ(message->item_count(), 2u);
  EXPECT_EQ(message->item(0).text(), "text");
  EXPECT_EQ(message->item(1).size(), sizeof(int) * numbers.size());
  EXPECT_EQ(message->item(2).kind(), RIPC_VIEW_FAILED);
  ripc::GroupOutcome outcome{.members = 7, .taken = 7};
  ASSERT_TRUE(receiver_.reply(*message, bytes_of("answer"), {.outcome = &outcome, .unordered = true}).ok());
  EXPECT_EQ(outcome.members, 0u);
  EXPECT_EQ(outcome.taken, 0u);
  auto reply = sender_.receive(kPatience);
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->item(0).text(), "answer");
}

TEST_F(CppWrapper, TicketIsPendingUntilTheLongItemIsInItsWindow) {
  auto buffer = here_.lease(100'000);
  ASSERT_TRUE(buffer.ok());
  buffer->bytes()[99'999] = std::byte{42};
  std::vector<std::byte> window(100'000);
  ASSERT_TRUE(receiver_.post_window(window, 5).ok());
  auto ticket = sender_.send(receiver_.id(), ripc::borrow(buffer->bytes()));
  ASSERT_TRUE(ticket.ok()) << ticket.error().text();
  ASSERT_FALSE(ticket->empty());
  EXPECT_EQ(ticket->poll(), RIPC_PENDING);
  buffer->release();  // the library keeps it
  auto message = receiver_.receive(kPatience);
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(message->item(0).kind(), RIPC_VIEW_WINDOW);
  EXPECT_EQ(message->item(0).cookie(), 5u);
  EXPECT_EQ(window[99'999], std::byte{42});
  EXPECT_TRUE(ticket->wait(kPatience).ok());
}

TEST_F(CppWrapper, ReturnBufferIsFilledAndTheReplyNamesTheRequest) {
  std::vector<std::byte> landing(5000);
  const std::array<ripc::ReturnBuffer, 1> returns = {ripc::return_buffer(landing)};
  std::uint64_t request = 0;
  ASSERT_TRUE(sender_.send(receiver_.id(), {}, {.returns = returns, .request_id = &request}).ok());
  EXPECT_NE(request, 0u);
  auto message = receiver_.receive(kPatience);
  ASSERT_TRUE(message.ok());
  ASSERT_EQ(message->return_count(), 1u);
  EXPECT_EQ(message->return_size(0), 5000u);
  const std::vector<std::byte> content(5000, std::byte{9});
  ASSERT_TRUE(receiver_.reply(*message, ripc::return_item(content)).ok());
  auto reply = sender_.receive(kPatience);
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->in_reply_to(), request);
  EXPECT_EQ(reply->item(0).kind(), RIPC_VIEW_RETURNED);
  EXPECT_EQ(landing, content);
  EXPECT_EQ(sender_.cancel_request(request), RIPC_INVALID_ARGUMENT);
}

TEST_F(CppWrapper, SendManyGivesATicketForEachMessageThatIsLong) {
  const std::vector<std::byte> content(1 << 20, std::byte{5});
  std::vector<std::vector<std::byte>> windows(2, std::vector<std::byte>(content.size()));
  for (auto& window : windows) ASSERT_TRUE(receiver_.post_window(window).ok());
  const std::array<ripc::Item, 2> items = {ripc::borrow(content), ripc::short_item(bytes_of("short"))};
  const std::array<ripc::OutgoingMessage, 3> messages = {ripc::outgoing_message({&items[0], 1}, 1),
                                                         ripc::outgoing_message({&items[1], 1}, 2),
                                                         ripc::outgoing_message({&items[0], 1}, 3)};
  std::array<ripc::Ticket, 3> tickets;
  EXPECT_EQ(sender_.send(0, {}).code(), RIPC_INVALID_ARGUMENT);  // its error text differs from the next call's
  const auto few = sender_.send_many(receiver_.id(), messages, std::span(tickets).first(2));
  EXPECT_EQ(few.code(), RIPC_INVALID_ARGUMENT);
  EXPECT_NE(few.error().text().find("fewer tickets"), std::string_view::npos) << few.error().text();
  EXPECT_EQ(sender_.send_many(receiver_.id(), messages, tickets, {.tag = 1}).code(), RIPC_INVALID_ARGUMENT);
  const auto sent = sender_.send_many(receiver_.id(), messages, tickets);
  ASSERT_TRUE(sent.ok()) << sent.error().text();
  EXPECT_EQ(*sent, 3u);
  for (std::uint32_t tag = 1; tag <= 3; ++tag) {
    auto message = receiver_.receive(kPatience);
    ASSERT_TRUE(message.ok()) << message.error().text();
    EXPECT_EQ(message->tag(), tag);
  }
  EXPECT_EQ(windows[1], content);
  EXPECT_TRUE(tickets[1].empty());
  for (ripc::Ticket& ticket : tickets) EXPECT_TRUE(ticket.wait(kPatience).ok());
}

TEST_F(CppWrapper, SendThenRunsItsCallbackOnceForLongAndForShortMessages) {
  auto token = std::make_shared<int>();
  std::promise<ripc_status> completed;
  auto future = completed.get_future();
  const std::vector<std::byte> content(100'000);
  std::vector<std::byte> window(100'000);
  ASSERT_TRUE(receiver_.post_window(window).ok());
  const ripc::Item items = ripc::borrow(content);
  ASSERT_TRUE(
      sender_.send_then(receiver_.id(), items, [&, token](ripc_status status) { completed.set_value(status); }).ok());
  ASSERT_TRUE(receiver_.receive(kPatience).ok());
  ASSERT_EQ(future.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(future.get(), RIPC_OK);

  std::optional<ripc_status> short_status;
  EXPECT_TRUE(
      sender_.send_then(receiver_.id(), {}, [&, token](ripc_status status) { short_status.emplace(status); }).ok());
  EXPECT_EQ(short_status, RIPC_OK);

  bool ran = false;
  EXPECT_FALSE(sender_.send_then(0, {}, [&, token](ripc_status) { ran = true; }).ok());
  EXPECT_FALSE(ran);
  sender_.unregister();
  here_.destroy();  // ends the responder thread, so no callback object is still being destroyed
  EXPECT_EQ(token.use_count(), 1);
}

TEST_F(CppWrapper, PendingCallbackRunsWhenTheServiceEnds) {
  std::promise<ripc_status> completed;
  auto future = completed.get_future();
  const std::vector<std::byte> content(100'000);
  const ripc::Item items = ripc::borrow(content);
  ASSERT_TRUE(sender_.send_then(receiver_.id(), items, [&](ripc_status status) { completed.set_value(status); }).ok());
  sender_.unregister();
  ASSERT_EQ(future.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(future.get(), RIPC_CLOSED);
}

TEST_F(CppWrapper, ReceiveManyFillsTheFrontOfTheArray) {
  for (std::size_t index = 0; index < 100; ++index)
    ASSERT_TRUE(sender_.send(receiver_.id(), bytes_of(std::string_view("0123456789", 1 + index % 10))).ok());
  std::array<Message, 80> messages;
  std::size_t total = 0;
  while (total < 100) {
    auto count = receiver_.receive_many(messages, kPatience);
    ASSERT_TRUE(count.ok()) << count.error().text();
    ASSERT_GT(*count, 0u);
    for (std::size_t index = 0; index < *count; ++index)
      EXPECT_EQ(messages[index].item(0).size(), 1 + (total + index) % 10);
    total += *count;
  }
  EXPECT_EQ(total, 100u);
  EXPECT_EQ(receiver_.receive_many(messages, ripc::kNoWait).code(), RIPC_EMPTY);
}

TEST_F(CppWrapper, NotificationRunsAndIsSilentAfterUnregister) {
  std::promise<std::string> text;
  auto future = text.get_future();
  auto notification = receiver_.on_notification([&](ripc::ServiceId, std::span<const ripc_item_view> items) {
    text.set_value(std::string(ripc::ItemView(items[0]).text()));
  });
  ASSERT_TRUE(notification.ok());
  ripc::Notification moved = *std::move(notification);
  ASSERT_TRUE(sender_.notify(moved.name(), ripc::short_item(bytes_of("hello"))).ok());
  ASSERT_EQ(future.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(future.get(), "hello");
  const ripc_notification name = moved.name();
  moved.unregister();
  ASSERT_TRUE(sender_.notify(name).ok());  // a second run would set the promise twice
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (receiver_.statistics()->notifications_unknown == 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_EQ(receiver_.statistics()->notifications_unknown, 1u);
}

TEST_F(CppWrapper, NotificationMayDestroyItselfInItsCallback) {
  auto holder = std::make_unique<std::optional<ripc::Notification>>();
  auto token = std::make_shared<int>();
  std::promise<void> done;
  auto future = done.get_future();
  auto notification = receiver_.on_notification([&, token](ripc::ServiceId, std::span<const ripc_item_view>) {
    holder->reset();
    EXPECT_GE(token.use_count(), 2);  // the callback object lives until it returns
    done.set_value();
  });
  ASSERT_TRUE(notification.ok());
  const ripc_notification name = notification->name();
  holder->emplace(*std::move(notification));
  ASSERT_TRUE(sender_.notify(name).ok());
  ASSERT_EQ(future.wait_for(kPatience), std::future_status::ready);
  receiver_.unregister();
  there_.destroy();  // ends the responder thread, and with it the run
  EXPECT_EQ(token.use_count(), 1);
}

TEST_F(CppWrapper, BuffersAndRegistrationsEndWithTheirObjects) {
  const std::byte* data = nullptr;
  {
    auto buffer = here_.lease(1000);
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ(buffer->size(), 1000u);
    data = buffer->data();
    EXPECT_TRUE(here_.find_buffer(data + 999).ok());
  }
  EXPECT_FALSE(here_.find_buffer(data).ok());
  std::vector<std::byte> memory(5000);
  {
    auto registration = here_.register_memory(memory);
    ASSERT_TRUE(registration.ok());
    EXPECT_TRUE(here_.find_buffer(memory.data()).ok());
  }
  EXPECT_FALSE(here_.find_buffer(memory.data()).ok());
}

TEST_F(CppWrapper, WindowsAreTakenBackByTheirCookie) {
  std::vector<std::byte> memory(10);
  for (int index = 0; index < 3; ++index) ASSERT_TRUE(receiver_.post_window(memory, 8).ok());
  ASSERT_TRUE(there_.post_window(memory, 8).ok());
  EXPECT_EQ(receiver_.withdraw_windows(8).value(), 3u);
  EXPECT_EQ(there_.withdraw_windows(8).value(), 1u);
  EXPECT_EQ(receiver_.withdraw_windows(8).value(), 0u);
}

TEST_F(CppWrapper, ServicesAreFoundByNameAndInTheList) {
  auto info = here_.resolve("receiver");
  ASSERT_TRUE(info.ok()) << info.error().text();
  EXPECT_EQ(info->id, receiver_.id());
  EXPECT_EQ(info->id, ripc::id_from_name("receiver").value());
  EXPECT_EQ(info->incarnation, receiver_.incarnation());
  auto services = here_.services();
  ASSERT_TRUE(services.ok());
  EXPECT_EQ(services->size(), 2u);
  auto rails = here_.rails(receiver_.id());
  ASSERT_TRUE(rails.ok());
  EXPECT_TRUE(rails->empty()) << "shared memory has none";
  EXPECT_FALSE(here_.rails(12345).ok());
}

TEST_F(CppWrapper, AServiceIsWaitedForByIdAndByName) {
  EXPECT_EQ(here_.wait_service("receiver").value().id, receiver_.id());
  EXPECT_EQ(here_.wait_service(receiver_.id(), kPatience).value().name, "receiver");
  EXPECT_EQ(here_.wait_service("nobody", ripc::kNoWait).code(), RIPC_NO_SERVICE);
}

TEST_F(CppWrapper, AWatchOwnsItsCallbackWhichMayEndIt) {
  const auto alive = std::make_shared<int>(0);
  std::promise<ripc_status> first;
  std::promise<ripc_status> second;
  ripc::Watch watch;
  std::promise<void> kept;
  {
    auto made = here_.watch(receiver_.id(), [&, alive](ripc_status status, const ripc::ServiceInfo& info) {
      EXPECT_EQ(info.name, "receiver");
      if (status == RIPC_OK) return first.set_value(status);
      // Callbacks may run before watch() has returned.
      kept.get_future().wait();
      watch.end();
      second.set_value(status);
    });
    ASSERT_TRUE(made.ok()) << made.error().text();
    watch = *std::move(made);
    EXPECT_FALSE(watch.empty());
    kept.set_value();
  }
  EXPECT_EQ(first.get_future().get(), RIPC_OK);
  receiver_.unregister();
  EXPECT_EQ(second.get_future().get(), RIPC_CLOSED);
  EXPECT_TRUE(watch.empty());
  EXPECT_FALSE(here_.watch(0, [alive](ripc_status, const ripc::ServiceInfo&) {}).ok());
}

TEST(CppContext, OneThatIsDestroyedInItsOwnCallbackEndsTheProgramWithASentence) {
  const support::TemporaryDirectory folder;
  ripc::ContextOptions options;
  options.runtime_directory = folder.path();
  const auto destroy_in_callback = [&] {
    auto context = *Context::create(options);
    auto service = *context.register_service();
    auto watch = context.watch(service.id(), [&](ripc_status, const ripc::ServiceInfo&) { context.destroy(); });
    (void)std::promise<void>().get_future().wait_for(kPatience);
  };
  EXPECT_DEATH(destroy_in_callback(), "destroy it in another thread");
}

TEST_F(CppWrapper, ManyServicesAreRegisteredAtOnceOrNone) {
  {
    const std::array<ripc::ServiceOptions, 3> wanted{{{.name = "a"}, {.id = 7}, {}}};
    auto services = here_.register_services(wanted);
    ASSERT_TRUE(services.ok()) << services.error().text();
    ASSERT_EQ(services->size(), 3u);
    EXPECT_EQ((*services)[0].name(), "a");
    EXPECT_EQ((*services)[1].id(), 7u);
  }
  const std::array<ripc::ServiceOptions, 2> taken{{{.name = "b"}, {.name = "receiver"}}};
  EXPECT_EQ(here_.register_services(taken).code(), RIPC_ID_IN_USE);
  EXPECT_FALSE(here_.resolve("b").ok());
  const auto none = here_.register_services({});
  ASSERT_TRUE(none.ok()) << none.error().text();
  EXPECT_TRUE(none->empty());
}

TEST_F(CppWrapper, ANameWithAZeroInItIsNotTheOneBeforeTheZero) {
  const std::string name("receiver\0s", 10);
  EXPECT_EQ(ripc::id_from_name(name).code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc::group_id_from_name(name).code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(here_.resolve(name).code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(here_.wait_service(name, ripc::kNoWait).code(), RIPC_INVALID_ARGUMENT);
  const std::array<ripc::ServiceOptions, 1> options{{{.name = name}}};
  EXPECT_EQ(here_.register_service(options[0]).code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(here_.register_services(options).code(), RIPC_INVALID_ARGUMENT);
}

TEST_F(CppWrapper, NegativeTimesOfWaitsAreZeroAndTheDefaultTimeIsForOptions) {
  for (const ripc::Nanoseconds time : {ripc::kDefaultTime, ripc::Nanoseconds(-1)}) {
    auto received = std::async(std::launch::async, [&] { return receiver_.receive(time).code(); });
    if (received.wait_for(kPatience) != std::future_status::ready) (void)receiver_.interrupt();
    EXPECT_EQ(received.get(), RIPC_EMPTY);
  }
  // A negative timeout drops what is not taken at once; the default keeps it for 30 seconds.
  const std::vector<std::byte> content(100'000);
  auto kept = sender_.send(receiver_.id(), ripc::borrow(content), {.timeout = ripc::kDefaultTime});
  auto dropped = sender_.send(receiver_.id(), ripc::borrow(content), {.timeout = ripc::Nanoseconds(-1)});
  ASSERT_TRUE(kept.ok() && dropped.ok());
  EXPECT_EQ(dropped->wait(kPatience), RIPC_TIMEOUT);
  EXPECT_EQ(kept->poll(), RIPC_PENDING);
  EXPECT_EQ(kept->cancel(), RIPC_CANCELLED);
}

TEST_F(CppWrapper, InterruptEndsAReceive) {
  ASSERT_TRUE(receiver_.interrupt().ok());
  EXPECT_EQ(receiver_.receive(kPatience).code(), RIPC_INTERRUPTED);
  ASSERT_TRUE(sender_.send(receiver_.id(), bytes_of("x")).ok());
  auto statistics = sender_.statistics();
  ASSERT_TRUE(statistics.ok());
  EXPECT_EQ(statistics->messages_sent, 1u);
}

}  // namespace
