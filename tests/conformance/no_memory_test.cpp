// SPDX-License-Identifier: Apache-2.0
// Every call for which there is no memory says so, or works without it: no process ends, and nothing is lost, left
// locked or leaked. Each case lets one allocation of an operation fail: the first, then the second and so on, until the
// operation needs no more. In between, the same operation must work.
#include "no_memory.hpp"

#include <array>
#include <atomic>
#include <functional>

#include "support/failing_new.hpp"

namespace conformance {
namespace {

CONFORMANCE_SUITE(NoMemoryTest);

TEST_P(NoMemoryTest, TheFirstMessageToAServiceIsSentOrIsNot) {
  Context context;
  Service service;
  const std::string text = "hello";
  const ripc_item item = item_at(text.data(), text.size(), RIPC_ITEM_SHORT);
  fail_each([&] { return ripc_send(service.get(), server_id(), &item, 1, nullptr, nullptr); },
            [&](ripc_status status) {
              if (status == RIPC_OK) {
                EXPECT_EQ(text_of(receive(server_)), text);
              }
              expect_empty();
            },
            [&] {
              service.reset();
              context = make_context();
              service = make_service(context);
            });
}

TEST_P(NoMemoryTest, ALongMessageIsSentWithItsTicketOrIsNot) {
  ASSERT_EQ(send_text(client_, server_id(), "first"), RIPC_OK);
  (void)receive(server_);
  // Other transports do not give their transfers back at once.
  const std::size_t transfers = traits().exact_queue ? count_transfers() : 0;
  const ripc_item item = item_at(data_.data(), kLong, RIPC_ITEM_LONG);
  std::atomic<int> called_back{0};
  ripc_send_options options = send_options();
  options.callback = [](void* user, ripc_status) { ++*static_cast<std::atomic<int>*>(user); };
  options.user = &called_back;
  int sent = 0;
  ripc_ticket* ticket = nullptr;
  fail_each([&] { return ripc_send(client_.get(), server_id(), &item, 1, &options, &ticket); },
            [&](ripc_status status) {
              ASSERT_EQ(ticket != nullptr, status == RIPC_OK);
              if (status == RIPC_OK) {
                ++sent;
                const Ticket owner(ticket);
                post();
                EXPECT_TRUE(holds(view_of(receive(server_), 0), RIPC_VIEW_WINDOW, data_));
                EXPECT_EQ(final_status(owner), RIPC_OK);
              }
              expect_empty();
            });
  EXPECT_TRUE(eventually([&] { return called_back == sent; })) << called_back << " of " << sent;
  if (traits().exact_queue) {
    EXPECT_EQ(count_transfers(), transfers) << "each that was not sent has given its slot back";
  }
}

TEST_P(NoMemoryTest, TheSenderOfSeveralLongMessagesLearnsWhichWereSent) {
  ASSERT_EQ(send_text(client_, server_id(), "first"), RIPC_OK);
  (void)receive(server_);
  const ripc_item item = item_at(data_.data(), kLong, RIPC_ITEM_LONG);
  const std::array<ripc_outgoing, 3> messages{{{&item, 1, 0}, {&item, 1, 1}, {&item, 1, 2}}};
  std::array<ripc_ticket*, 3> tickets{};
  std::size_t sent = 0;
  fail_each(
      [&] {
        return ripc_send_many(client_.get(), server_id(), messages.data(), messages.size(), nullptr, tickets.data(),
                              &sent);
      },
      [&](ripc_status status) {
        EXPECT_EQ(sent == messages.size(), status == RIPC_OK);
        for (std::size_t index = 0; index < messages.size(); ++index) {
          const Ticket owner(tickets[index]);
          ASSERT_EQ(owner != nullptr, index < sent) << index << " of " << sent;
          if (!owner) continue;
          post();
          EXPECT_TRUE(holds(view_of(receive(server_), 0), RIPC_VIEW_WINDOW, data_));
          EXPECT_EQ(final_status(owner), RIPC_OK);
        }
        expect_empty();
      });
}

TEST_P(NoMemoryTest, ATicketCanBeWaitedForAndWithdrawn) {
  const ripc_item item = item_at(data_.data(), kLong, RIPC_ITEM_LONG);
  ripc_ticket* ticket = nullptr;
  const auto send = [&] {
    ASSERT_EQ(ripc_send(client_.get(), server_id(), &item, 1, nullptr, &ticket), RIPC_OK) << ripc_last_error();
  };
  fail_each(
      [&] {
        const ripc_status status = ripc_ticket_cancel(ticket);
        return status == RIPC_CANCELLED ? RIPC_OK : status;
      },
      [&](ripc_status) {
        EXPECT_EQ(final_status(Ticket(ticket)), RIPC_CANCELLED);
        expect_empty();
      },
      send);
  fail_each(
      [&] {
        const ripc_status status = ripc_ticket_wait(ticket, 0);
        return status == RIPC_PENDING ? RIPC_OK : status;
      },
      [&](ripc_status) { EXPECT_EQ(ripc_ticket_cancel(Ticket(ticket).get()), RIPC_CANCELLED); }, send);
}

TEST_P(NoMemoryTest, AMessageThatCannotBeReceivedNowIsReceivedLater) {
  const Bytes some = pattern(3000, 3);
  const std::vector<ripc_item> many(RIPC_MAX_ITEMS, item_at(some.data(), 20, RIPC_ITEM_SHORT));
  const auto answered = [&](const std::function<void(const Message&)>& look) {
    return [this, look](ripc_status status) {
      if (status == RIPC_NO_MEMORY) {
        ASSERT_EQ(received_, nullptr);
        ASSERT_EQ(receive_once(), RIPC_OK) << ripc_last_error();
      }
      look(take_received());
      expect_empty();
    };
  };
  fail_each(
      [&] { return receive_once(); }, answered([&](const Message& message) {
        ASSERT_EQ(ripc_message_get_item_count(message.get()), many.size());
        EXPECT_EQ(view_of(message, many.size() - 1).size, 20u);
      }),
      [&] { ASSERT_EQ(ripc_send(client_.get(), server_id(), many.data(), many.size(), nullptr, nullptr), RIPC_OK); });
  fail_each([&] { return receive_once(); },
            answered([&](const Message& message) { EXPECT_TRUE(holds(view_of(message, 0), RIPC_VIEW_WINDOW, data_)); }),
            [&] {
              post();
              (void)send_long(client_, server_id(), {item(data_, RIPC_ITEM_LONG)});
            });
}

TEST_P(NoMemoryTest, AMessageOfANewPeerIsReceivedLater) {
  Context context;
  Service service;
  fail_each([&] { return receive_once(); },
            [&](ripc_status status) {
              if (status == RIPC_NO_MEMORY) {
                ASSERT_EQ(receive_once(), RIPC_OK) << ripc_last_error();
              }
              EXPECT_EQ(text_of(take_received()), "new");
              // The server learned the way back from this message.
              EXPECT_EQ(send_text(server_, id_of(service), "back"), RIPC_OK);
              EXPECT_EQ(text_of(receive(service)), "back");
            },
            [&] {
              service.reset();
              context = make_context();
              service = make_service(context);
              ASSERT_EQ(send_text(service, server_id(), "new"), RIPC_OK);
            });
}

TEST_P(NoMemoryTest, ALentItemIsLentAndGivenBack) {
  const auto memory = lease(client_context_, kLong);
  fill_pattern(memory.get(), kLong, 1);
  ripc_view_hold* hold = nullptr;
  Ticket ticket;
  fail_each([&] { return received_ != nullptr ? RIPC_OK : receive_once(RIPC_RECEIVE_LEND); },
            [&](ripc_status status) {
              if (status == RIPC_NO_MEMORY) {
                ASSERT_EQ(receive_once(RIPC_RECEIVE_LEND), RIPC_OK) << ripc_last_error();
              }
              // If there was no memory for the item, its view says so, and the sender is notified.
              const ripc_item_view view = view_of(Message(received_), 0);
              received_ = nullptr;
              if (view.kind == RIPC_VIEW_FAILED) {
                EXPECT_EQ(view.status, static_cast<std::uint32_t>(RIPC_NO_MEMORY));
              }
              EXPECT_EQ(final_status(ticket), view.kind == RIPC_VIEW_FAILED ? RIPC_NO_MEMORY : RIPC_OK);
            },
            [&] { ticket = send_long(client_, server_id(), {item_at(memory.get(), kLong, RIPC_ITEM_LONG)}); });
  ticket = send_long(client_, server_id(), {item_at(memory.get(), kLong, RIPC_ITEM_LONG)});
  const Message message = receive(server_, RIPC_RECEIVE_LEND);
  fail_each([&] { return ripc_message_hold_views(message.get(), &hold); },
            [&](ripc_status status) {
              EXPECT_EQ(hold != nullptr, status == RIPC_OK);
              ripc_view_hold_release(hold);
            });
}

TEST_P(NoMemoryTest, ARequestAndItsReplyAreSentWholeOrNotAtAll) {
  Bytes buffer(kLong);
  const ripc_return_buffer target{buffer.data(), buffer.size()};
  std::uint64_t request = 0;
  ripc_send_options options = send_options();
  options.returns = &target;
  options.return_count = 1;
  options.request_id = &request;
  const std::string text = "fill it";
  const ripc_item question = item_at(text.data(), text.size(), RIPC_ITEM_SHORT);
  const auto ask = [&] { return ripc_send(client_.get(), server_id(), &question, 1, &options, nullptr); };
  fail_each(ask, [&](ripc_status status) {
    if (status == RIPC_OK) {
      EXPECT_EQ(ripc_message_get_return_count(receive(server_).get()), 1u);
      EXPECT_EQ(ripc_request_cancel(client_.get(), request), RIPC_OK) << ripc_last_error();
    }
    expect_empty();
  });
  fail_each([&] { return receive_once(); },
            [&](ripc_status status) {
              if (status == RIPC_NO_MEMORY) {
                ASSERT_EQ(receive_once(), RIPC_OK) << ripc_last_error();
              }
              EXPECT_EQ(ripc_message_get_return_size(take_received().get(), 0), buffer.size());
              EXPECT_EQ(ripc_request_cancel(client_.get(), request), RIPC_OK);
            },
            [&] { ASSERT_EQ(ask(), RIPC_OK); });
  // The reply, and what the requester sees of it.
  Message message;
  const ripc_item answer = item_at(data_.data(), kLong, RIPC_ITEM_RETURN, 0);
  const auto receive_reply = [&] {
    const Message reply = receive(client_);
    EXPECT_TRUE(holds(view_of(reply, 0), RIPC_VIEW_RETURNED, data_));
    EXPECT_EQ(ripc_message_get_in_reply_to(reply.get()), request);
  };
  fail_each([&] { return ripc_reply(server_.get(), message.get(), &answer, 1, nullptr, nullptr); },
            [&](ripc_status status) {
              if (status == RIPC_NO_MEMORY) {
                ASSERT_EQ(ripc_reply(server_.get(), message.get(), &answer, 1, nullptr, nullptr), RIPC_OK)
                    << "it can be sent again";
              }
              receive_reply();
            },
            [&] {
              ASSERT_EQ(ask(), RIPC_OK);
              message = receive(server_);
            });
  fail_each([&] { return ripc_receive(client_.get(), 0, kLimit, &received_); },
            [&](ripc_status status) {
              if (status == RIPC_NO_MEMORY) {
                ASSERT_EQ(ripc_receive(client_.get(), 0, kLimit, &received_), RIPC_OK);
              }
              EXPECT_TRUE(holds(view_of(take_received(), 0), RIPC_VIEW_RETURNED, data_));
            },
            [&] {
              received_ = nullptr;
              ASSERT_EQ(ask(), RIPC_OK);
              message = receive(server_);
              ASSERT_EQ(ripc_reply(server_.get(), message.get(), &answer, 1, nullptr, nullptr), RIPC_OK);
            });
}

TEST_P(NoMemoryTest, AWindowIsPostedOrIsNot) {
  std::size_t posted = 0;
  fail_each([&] { return ripc_window_post(server_.get(), window_.data(), 1, 9); },
            [&](ripc_status status) { posted += status == RIPC_OK ? 1 : 0; });
  std::size_t withdrawn = 0;
  fail_each([&] { return ripc_window_withdraw(server_.get(), 9, &withdrawn); },
            [&](ripc_status) { EXPECT_EQ(withdrawn, std::exchange(posted, 0)); });
}

TEST_P(NoMemoryTest, MemoryIsLeasedAndRegisteredOrIsNot) {
  void* data = nullptr;
  const auto give_back = [&](ripc_status status) {
    EXPECT_EQ(data != nullptr, status == RIPC_OK);
    if (data != nullptr) {
      EXPECT_EQ(ripc_buffer_release(client_context_.get(), data), RIPC_OK);
    }
    data = nullptr;
  };
  for (const std::size_t size : {std::size_t{1}, std::size_t{4096}, std::size_t{1} << 20, std::size_t{80} << 20})
    fail_each([&] { return ripc_buffer_lease(client_context_.get(), size, &data); }, give_back);
  fail_each([&] { return ripc_memory_register(client_context_.get(), data_.data(), data_.size()); },
            [&](ripc_status status) {
              EXPECT_EQ(ripc_memory_unregister(client_context_.get(), data_.data()),
                        status == RIPC_OK ? RIPC_OK : RIPC_INVALID_ARGUMENT);
            });
  EXPECT_EQ(pool_statistics_of(client_context_).leased, 0u);
}

TEST_P(NoMemoryTest, ANotificationIsRegisteredAndSentOrIsNot) {
  std::atomic<int> runs{0};
  const ripc_notification_callback count = [](void* user, ripc_service_id, const ripc_item_view*, std::size_t) {
    ++*static_cast<std::atomic<int>*>(user);
  };
  ripc_notification notification{};
  fail_each([&] { return ripc_notification_register(server_.get(), count, &runs, &notification); },
            [&](ripc_status status) {
              if (status == RIPC_OK) {
                EXPECT_EQ(ripc_notification_unregister(server_.get(), &notification), RIPC_OK);
              }
            });
  ASSERT_EQ(ripc_notification_register(server_.get(), count, &runs, &notification), RIPC_OK);
  const std::string text = "news";
  const ripc_item item = item_at(text.data(), text.size(), RIPC_ITEM_SHORT);
  int sent = 0;
  fail_each([&] { return ripc_notify(client_.get(), &notification, &item, 1); },
            [&](ripc_status status) { sent += status == RIPC_OK ? 1 : 0; });
  EXPECT_TRUE(eventually([&] { return runs == sent; })) << runs << " of " << sent;
}

TEST_P(NoMemoryTest, AServiceIsRegisteredOrIsNot) {
  constexpr ripc_service_id kId = 4711;
  ripc_service_options options = initialized(ripc_service_options_init);
  options.id = kId;
  ripc_service* service = nullptr;
  fail_each([&] { return ripc_service_register(server_context_.get(), &options, &service); },
            [&](ripc_status status) {
              ASSERT_EQ(service != nullptr, status == RIPC_OK);
              const Service owner(service);
              if (status != RIPC_OK) return;
              EXPECT_EQ(send_text(client_, kId, "there"), RIPC_OK);
              EXPECT_EQ(text_of(receive(owner)), "there");
            });
  // The service ends even without memory.
  fail_each(
      [&] {
        ripc_service_unregister(service);
        return RIPC_OK;
      },
      [](ripc_status) {},
      [&] {
        ASSERT_EQ(ripc_service_register(server_context_.get(), &options, &service), RIPC_OK) << ripc_last_error();
      });
  EXPECT_TRUE(is_gone(client_, kId));
}

TEST_P(NoMemoryTest, AContextIsMadeOrIsNotAndEnds) {
  const ripc_context_options options = context_options();
  ripc_context* context = nullptr;
  fail_each([&] { return ripc_context_create(&options, &context); },
            [&](ripc_status status) {
              ASSERT_EQ(context != nullptr, status == RIPC_OK);
              ripc_context_destroy(context);
            });
  fail_each(
      [&] {
        ripc_context_destroy(context);
        return RIPC_OK;
      },
      [&](ripc_status) {},
      [&] {
        context = make_context().release();
        ripc_service* service = nullptr;
        ASSERT_EQ(ripc_service_register(context, nullptr, &service), RIPC_OK);
        ASSERT_EQ(ripc_send(service, server_id(), nullptr, 0, nullptr, nullptr), RIPC_OK);
        (void)receive(server_);
      });
}

TEST_P(NoMemoryTest, ServicesAreFoundOrThatIsSaid) {
  ripc_service_id group = 0;
  ASSERT_EQ(ripc_group_id_from_name("no memory", &group), RIPC_OK);
  ripc_service_info info = initialized(ripc_service_info_init);
  const ripc_service_visitor count = [](void* user, const ripc_service_info*) { ++*static_cast<int*>(user); };
  int visited = 0;
  fail_each([&] { return ripc_resolve(client_context_.get(), server_id(), &info); }, [](ripc_status) {});
  fail_each([&] { return ripc_find_path(client_context_.get(), server_id(), &info); }, [](ripc_status) {});
  fail_each([&] { return ripc_list_services(client_context_.get(), count, &visited); }, [](ripc_status) {});
  fail_each([&] { return ripc_group_join(server_.get(), group); }, [](ripc_status) {},
            [&] { ASSERT_EQ(ripc_group_leave(server_.get(), group), RIPC_OK); });
  fail_each([&] { return ripc_group_members(client_context_.get(), group, count, &visited); }, [](ripc_status) {});
  const ripc_item item = item_at("all", 3, RIPC_ITEM_SHORT);
  fail_each([&] { return ripc_send(client_.get(), group, &item, 1, nullptr, nullptr); },
            [&](ripc_status status) {
              if (status == RIPC_OK) {
                EXPECT_EQ(text_of(receive(server_)), "all");
              }
              expect_empty();
            });
}

// A report that finds no memory is made later, or not at all if the watch ends first.
TEST_P(NoMemoryTest, AWatchEndsThoughItsReportLacksMemory) {
  std::uint64_t nth = 1;
  for (bool failed = true; failed; ++nth) {
    SCOPED_TRACE(testing::Message() << "allocation " << nth);
    ASSERT_LT(nth, kMostAllocations);
    std::atomic<int> told{0};
    const ripc_watch_callback tell = [](void* user, ripc_status, const ripc_service_info*) {
      ++*static_cast<std::atomic<int>*>(user);
    };
    const FailingAllocation failing(nth, Where::elsewhere, Count::rest);
    ripc_watch* watch = nullptr;
    ASSERT_EQ(ripc_service_watch(client_context_.get(), server_id(), tell, &told, &watch), RIPC_OK);
    EXPECT_TRUE(eventually([&] { return failing.failed() || told == 1; }));
    failed = failing.failed();
    ripc_service_unwatch(watch);
  }
}

// If the responders and other threads of the library lack memory, this costs at most a connection. Operations under way
// fail with a status, and the next attempt works.
TEST_P(NoMemoryTest, TheResponderSurvives) {
  const ripc_item small = item_at("short", 5, RIPC_ITEM_SHORT);
  const ripc_item large = item_at(data_.data(), kLong, RIPC_ITEM_LONG);
  std::atomic<int> told{0};
  const ripc_notification_callback run = [](void* user, ripc_service_id, const ripc_item_view*, std::size_t) {
    ++*static_cast<std::atomic<int>*>(user);
  };
  ripc_notification notification{};
  ASSERT_EQ(ripc_notification_register(server_.get(), run, &told, &notification), RIPC_OK);
  std::uint64_t nth = 1;
  for (bool failed = true; failed; ++nth) {
    SCOPED_TRACE(testing::Message() << "allocation " << nth);
    ASSERT_LT(nth, kMostAllocations);
    const Context context = make_context();
    const Service service = make_service(context);
    std::atomic<int> called_back{0};
    ripc_send_options options = send_options();
    options.timeout = kLimit;
    options.callback = [](void* user, ripc_status) { ++*static_cast<std::atomic<int>*>(user); };
    options.user = &called_back;
    post();
    int tickets = 0;
    {
      const FailingAllocation failing(nth, Where::elsewhere);
      (void)ripc_send(service.get(), server_id(), &small, 1, nullptr, nullptr);
      ripc_ticket* ticket = nullptr;
      if (ripc_send(service.get(), server_id(), &large, 1, &options, &ticket) == RIPC_OK) ++tickets;
      (void)ripc_notify(service.get(), &notification, &small, 1);
      // An operation that has to start again takes a while.
      while (ripc_receive(server_.get(), 0, 50 * kMillisecond, &received_) == RIPC_OK ||
             (ticket != nullptr && ripc_ticket_wait(ticket, 0) == RIPC_PENDING)) {
        ripc_message_release(received_);
        received_ = nullptr;
      }
      (void)ripc_send(server_.get(), id_of(service), &small, 1, nullptr, nullptr);
      if (ticket != nullptr) {
        EXPECT_NE(ripc_ticket_wait(ticket, 0), RIPC_TIMEOUT);
      }
      ripc_ticket_release(ticket);
      failed = failing.failed();
    }
    EXPECT_TRUE(eventually([&] { return called_back == tickets; })) << called_back << " of " << tickets;
    withdraw();
    // Everything works again.
    EXPECT_TRUE(eventually([&] { return send_text(service, server_id(), "again") == RIPC_OK; })) << ripc_last_error();
    ripc_message* message = nullptr;
    std::string text;
    while (text != "again" && ripc_receive(server_.get(), 0, kLimit, &message) == RIPC_OK) {
      const Message owner(message);
      if (ripc_message_get_item_count(message) == 1) text = text_of(owner);
    }
    EXPECT_EQ(text, "again");
    const int before = told;
    EXPECT_TRUE(eventually([&] { return ripc_notify(service.get(), &notification, &small, 1) == RIPC_OK; }))
        << ripc_last_error();
    EXPECT_TRUE(eventually([&] { return told > before; }));
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

}  // namespace
}  // namespace conformance
