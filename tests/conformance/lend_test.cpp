// SPDX-License-Identifier: Apache-2.0
// Lending: long items as read-only views of the sender's memory.
#include <signal.h>
#include <sys/wait.h>

#include <cstring>
#include <thread>

#include "puppet.hpp"

namespace conformance {
namespace {

class Lend : public PairTest {
 protected:
  using Lease = decltype(lease(Context(), 1));

  void SetUp() override {
    PairTest::SetUp();
    data_ = pattern(200'000, 1);
    pooled_ = lease(client_context_, data_.size());
    std::memcpy(pooled_.get(), data_.data(), data_.size());
  }
  void TearDown() override { pooled_.reset(); }
  Ticket send_pooled(const ripc_send_options* options = nullptr) {
    return send_long(client_, server_id(), {item_at(pooled_.get(), data_.size(), RIPC_ITEM_LONG)}, options);
  }

  Bytes data_;
  Lease pooled_;
};
CONFORMANCE_SUITE(Lend);

TEST_P(Lend, PoolMemoryComesAsAViewWithoutACopy) {
  const Ticket ticket = send_pooled();
  const Message message = receive(server_, RIPC_RECEIVE_LEND);
  const ripc_item_view view = view_of(message, 0);
  EXPECT_TRUE(holds(view, RIPC_VIEW_LENT, data_));
  if (traits().lends) {
    EXPECT_EQ(view.copied, 0u);
  }
  EXPECT_EQ(statistics_of(server_).items_lent, 1u);
}

TEST_P(Lend, TheTicketCompletesWhenTheViewIsReleased) {
  if (!traits().lends) GTEST_SKIP() << "this transport copies instead of lending";
  const Ticket ticket = send_pooled();
  Message message = receive(server_, RIPC_RECEIVE_LEND);
  EXPECT_EQ(ripc_ticket_wait(ticket.get(), 5 * kMillisecond), RIPC_PENDING) << "the memory is still in use";
  message.reset();
  EXPECT_EQ(final_status(ticket), RIPC_OK);
}

TEST_P(Lend, MemoryThatCannotBeLentComesInLibraryMemory) {
  const Ticket ticket = send_long(client_, server_id(), {item(data_, RIPC_ITEM_LONG)});
  const Message message = receive(server_, RIPC_RECEIVE_LEND);
  EXPECT_TRUE(holds(view_of(message, 0), RIPC_VIEW_LENT, data_));
  EXPECT_NE(view_of(message, 0).data, data_.data());
}

TEST_P(Lend, WithoutLibraryMemoryForItTheItemFails) {
  const Context poor = make_context([](ripc_context_options& options) { options.pool_limit = 4u << 20; });
  const Service borrower = make_service(poor);
  const Bytes data = pattern(8u << 20, 2);
  const std::string_view text = "short";
  const Ticket ticket = send_long(client_, id_of(borrower), {item(text, RIPC_ITEM_SHORT), item(data, RIPC_ITEM_LONG)});
  const Message message = receive(borrower, RIPC_RECEIVE_LEND);
  EXPECT_EQ(text_of(message, 0), "short");
  EXPECT_TRUE(failed(view_of(message, 1), RIPC_NO_MEMORY, data.size()));
  const ripc_status status = final_status(ticket);
  EXPECT_TRUE(status != RIPC_OK && status != RIPC_PENDING) << ripc_status_name(status);
}

TEST_P(Lend, NoWindowIsUsed) {
  Bytes window(data_.size(), 0xee);
  ASSERT_EQ(ripc_window_post(server_.get(), window.data(), window.size(), 5), RIPC_OK);
  const Ticket lent_ticket = send_pooled();
  EXPECT_TRUE(holds(view_of(receive(server_, RIPC_RECEIVE_LEND), 0), RIPC_VIEW_LENT, data_));
  EXPECT_EQ(window, Bytes(data_.size(), 0xee));
  const Ticket ticket = send_pooled();
  const Message message = receive(server_);
  EXPECT_TRUE(holds(view_of(message, 0), RIPC_VIEW_WINDOW, data_));
  EXPECT_EQ(view_of(message, 0).cookie, 5u) << "it is still posted";
}

TEST_P(Lend, ShortItemsStayShort) {
  const std::string_view text = "short";
  const Ticket ticket = send_long(client_, server_id(),
                                  {item(text, RIPC_ITEM_SHORT), item_at(pooled_.get(), data_.size(), RIPC_ITEM_LONG)});
  const Message message = receive(server_, RIPC_RECEIVE_LEND);
  EXPECT_EQ(view_of(message, 0).kind, RIPC_VIEW_SHORT);
  EXPECT_EQ(text_of(message, 0), "short");
  EXPECT_TRUE(holds(view_of(message, 1), RIPC_VIEW_LENT, data_));
}

TEST_P(Lend, AViewMayBeAnyPartOfALease) {
  const Ticket ticket = send_long(
      client_, server_id(),
      {item_at(pooled_.get() + 1, 100, RIPC_ITEM_LONG), item_at(pooled_.get() + data_.size() - 1, 1, RIPC_ITEM_LONG),
       item_at(pooled_.get() + 77, 0, RIPC_ITEM_LONG)});
  const Message message = receive(server_, RIPC_RECEIVE_LEND);
  EXPECT_TRUE(holds(view_of(message, 0), RIPC_VIEW_LENT, std::span(data_).subspan(1, 100)));
  EXPECT_TRUE(holds(view_of(message, 1), RIPC_VIEW_LENT, std::span(data_).last(1)));
  EXPECT_EQ(view_of(message, 2).size, 0u);
  EXPECT_EQ(view_of(message, 2).status, RIPC_OK);
}

TEST_P(Lend, SeveralViewsMayBeHeldAndReleasedInAnyOrder) {
  std::vector<Lease> leases;
  std::vector<Ticket> tickets;
  std::vector<Message> messages;
  for (unsigned index = 0; index < 20; ++index) {
    leases.push_back(lease(client_context_, 50'000));
    fill_pattern(leases[index].get(), 50'000, index);
    tickets.push_back(send_long(client_, server_id(), {item_at(leases[index].get(), 50'000, RIPC_ITEM_LONG)}));
    messages.push_back(receive(server_, RIPC_RECEIVE_LEND));
  }
  for (const unsigned index : {13u, 0u, 19u, 7u}) {
    messages[index].reset();
    EXPECT_EQ(final_status(tickets[index]), RIPC_OK) << index;
  }
  for (unsigned index = 0; index < 20; ++index) {
    if (messages[index] == nullptr) continue;
    EXPECT_TRUE(holds(view_of(messages[index], 0), RIPC_VIEW_LENT, pattern(50'000, index))) << index;
  }
  while (!messages.empty()) messages.pop_back();
  for (const Ticket& ticket : tickets) EXPECT_EQ(final_status(ticket), RIPC_OK);
}

TEST_P(Lend, ManyMessagesMayBeLentAtOnce) {
  const Ticket first = send_pooled();
  const Ticket second = send_pooled();
  std::size_t received = 0;
  while (received < 2) {
    ripc_message* messages[2] = {};
    std::size_t count = 0;
    ASSERT_EQ(ripc_receive_many(server_.get(), RIPC_RECEIVE_LEND, kLimit, messages, 2, &count), RIPC_OK);
    for (std::size_t index = 0; index < count; ++index) {
      const Message message(messages[index]);
      EXPECT_TRUE(holds(view_of(message, 0), RIPC_VIEW_LENT, data_));
    }
    received += count;
  }
}

TEST_P(Lend, ALeaseReleasedWhileLentIsKept) {
  const Ticket ticket = send_pooled();
  const Message message = receive(server_, RIPC_RECEIVE_LEND);
  const unsigned char* start = pooled_.get();
  pooled_.reset();
  std::vector<Lease> others;
  for (int count = 0; count < 20; ++count) {
    others.push_back(lease(client_context_, data_.size()));
    std::memset(others.back().get(), 0xee, data_.size());
    if (traits().lends) {
      EXPECT_NE(others.back().get(), start);
    }
  }
  EXPECT_TRUE(holds(view_of(message, 0), RIPC_VIEW_LENT, data_));
}

TEST_P(Lend, AViewSurvivesTheTimeOutAndTheCancelOfItsTicket) {
  ripc_send_options options = send_options();
  Ticket timed;
  Message first;
  // On a busy machine the time may be over before the message is taken.
  for (options.timeout = 10 * kMillisecond; !first && options.timeout < kLimit; options.timeout *= 4) {
    timed = send_pooled(&options);
    ripc_message* handle = nullptr;
    if (ripc_receive(server_.get(), RIPC_RECEIVE_LEND, options.timeout + 200 * kMillisecond, &handle) == RIPC_OK)
      first.reset(handle);
  }
  ASSERT_TRUE(first);
  const bool was_lent = view_of(first, 0).status == RIPC_OK;  // else the time was over before
  const Ticket cancelled = send_pooled();
  const Message second = receive(server_, RIPC_RECEIVE_LEND);
  ripc_ticket_cancel(cancelled.get());
  ripc_ticket_wait(timed.get(), options.timeout);
  pooled_.reset();
  const auto other = lease(client_context_, data_.size());
  std::memset(other.get(), 0xee, data_.size());
  if (was_lent) {
    EXPECT_TRUE(holds(view_of(first, 0), RIPC_VIEW_LENT, data_));
  }
  EXPECT_TRUE(holds(view_of(second, 0), RIPC_VIEW_LENT, data_));
}

TEST_P(Lend, AViewSurvivesTheDeathOfItsOwner) {
  for (const char* memory : {"pool", "foreign"}) {
    Puppet puppet(peer_setup());
    ASSERT_EQ(puppet.register_id(77), "RIPC_OK");
    ASSERT_EQ(puppet.call("send_long " + std::to_string(server_id()) + " 300000 9 " + memory + " 0"), "RIPC_OK");
    Message message = receive(server_, RIPC_RECEIVE_LEND);
    puppet.kill();
    EXPECT_TRUE(is_gone(server_, 77));
    EXPECT_TRUE(holds(view_of(message, 0), RIPC_VIEW_LENT, pattern(300'000, 9))) << memory;
    message.reset();
    ASSERT_EQ(send_text(client_, server_id(), "still well"), RIPC_OK);
    EXPECT_EQ(text_of(receive(server_)), "still well");
  }
}

TEST_P(Lend, TheDeathOfABorrowerEndsTheTicket) {
  if (!traits().lends) GTEST_SKIP() << "this transport copies instead of lending";
  Puppet puppet(peer_setup());
  ASSERT_EQ(puppet.register_id(77), "RIPC_OK");
  const Ticket ticket = send_long(client_, 77, {item_at(pooled_.get(), data_.size(), RIPC_ITEM_LONG)});
  ASSERT_EQ(puppet.call("receive lend"), "RIPC_OK " + describe(RIPC_VIEW_LENT, data_));
  EXPECT_EQ(ripc_ticket_poll(ticket.get()), RIPC_PENDING);
  puppet.kill();
  const ripc_status status = final_status(ticket);
  EXPECT_TRUE(status == RIPC_OK || status == RIPC_PEER_DEAD) << ripc_status_name(status);
}

TEST_P(Lend, AViewSurvivesItsOwnService) {
  const Ticket ticket = send_pooled();
  Message message = receive(server_, RIPC_RECEIVE_LEND);
  server_.reset();
  EXPECT_TRUE(holds(view_of(message, 0), RIPC_VIEW_LENT, data_));
  message.reset();
  const ripc_status status = final_status(ticket);
  EXPECT_TRUE(status == RIPC_OK || status == RIPC_PEER_DEAD) << ripc_status_name(status);
}

ViewHold hold_of(const Message& message) {
  ripc_view_hold* hold = nullptr;
  EXPECT_EQ(ripc_message_hold_views(message.get(), &hold), RIPC_OK) << ripc_last_error();
  return ViewHold(hold);
}

TEST_P(Lend, AHoldKeepsTheViewReadableAfterTheMessageTheSenderAndItsProcess) {
  ViewHold hold;
  ripc_item_view view{};
  {
    Puppet puppet(peer_setup());
    ASSERT_EQ(puppet.register_id(77), "RIPC_OK");
    ASSERT_EQ(puppet.call("send_long " + std::to_string(server_id()) + " 300000 9 pool 0"), "RIPC_OK");
    Message message = receive(server_, RIPC_RECEIVE_LEND);
    view = view_of(message, 0);
    hold = hold_of(message);
    message.reset();
    puppet.kill();
    EXPECT_TRUE(is_gone(server_, 77));
  }
  server_.reset();
  // No one is left who could change the memory; or it is the pool's, and no one has leased it again.
  EXPECT_TRUE(holds(view, RIPC_VIEW_LENT, pattern(300'000, 9)));
}

TEST_P(Lend, AHoldDoesNotHoldUpTheTicket) {
  const Ticket ticket = send_pooled();
  Message message = receive(server_, RIPC_RECEIVE_LEND);
  const ViewHold hold = hold_of(message);
  message.reset();
  EXPECT_EQ(final_status(ticket), RIPC_OK);
}

TEST_P(Lend, OnlyLentItemsAreHeld) {
  ASSERT_EQ(send_text(client_, server_id(), "short"), RIPC_OK);
  const Message message = receive(server_, RIPC_RECEIVE_LEND);
  auto* hold = reinterpret_cast<ripc_view_hold*>(&data_);
  EXPECT_EQ(ripc_message_hold_views(message.get(), &hold), RIPC_EMPTY);
  EXPECT_EQ(hold, nullptr);
  // A large one may lie in memory of its own.
  std::size_t limit = 0;
  ASSERT_EQ(ripc_short_limit(client_.get(), server_id(), 1, &limit), RIPC_OK);
  ASSERT_EQ(send(client_, server_id(), {item(pattern(limit, 2), RIPC_ITEM_SHORT)}), RIPC_OK);
  EXPECT_EQ(ripc_message_hold_views(receive(server_, RIPC_RECEIVE_LEND).get(), &hold), RIPC_EMPTY);
  EXPECT_EQ(ripc_message_hold_views(nullptr, &hold), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_message_hold_views(message.get(), nullptr), RIPC_INVALID_ARGUMENT);
}

TEST_P(Lend, ABorrowerCannotWriteToTheSendersMemory) {
  if (!traits().lends) GTEST_SKIP() << "this transport copies instead of lending";
  Puppet puppet(peer_setup());
  ASSERT_EQ(puppet.register_id(77), "RIPC_OK");
  const Ticket ticket = send_long(client_, 77, {item_at(pooled_.get(), data_.size(), RIPC_ITEM_LONG)});
  ASSERT_EQ(puppet.status_of("receive lend"), "RIPC_OK");
  puppet.tell("scribble");
  const int status = puppet.finish();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << "the write must end the process";
  EXPECT_EQ(std::memcmp(pooled_.get(), data_.data(), data_.size()), 0);
}

TEST_P(Lend, AnyThreadMayReleaseAView) {
  const Ticket ticket = send_pooled();
  Message message = receive(server_, RIPC_RECEIVE_LEND);
  std::jthread other([&] { message.reset(); });
  EXPECT_EQ(final_status(ticket), RIPC_OK);
}

TEST_P(Lend, LargeAndSmallItemsAreLentAlike) {
  for (const std::size_t size : {1024u, 1u << 20, 64u << 20}) {
    const auto data = lease(client_context_, size);
    fill_pattern(data.get(), size, 3);
    const Ticket ticket = send_long(client_, server_id(), {item_at(data.get(), size, RIPC_ITEM_LONG)});
    Message message = receive(server_, RIPC_RECEIVE_LEND);
    const ripc_item_view view = view_of(message, 0);
    ASSERT_EQ(view.kind, RIPC_VIEW_LENT);
    ASSERT_EQ(view.size, size);
    EXPECT_EQ(std::memcmp(view.data, data.get(), size), 0);
    message.reset();
    EXPECT_EQ(final_status(ticket), RIPC_OK);
  }
}

}  // namespace
}  // namespace conformance
