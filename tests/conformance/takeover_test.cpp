// SPDX-License-Identifier: Apache-2.0
// Who holds an ID: takeover, fencing, and registrations of one ID at the same time.
#include <signal.h>

#include <atomic>
#include <latch>
#include <thread>

#include "call_ends.hpp"
#include "puppet.hpp"
#include "registering.hpp"

namespace conformance {
namespace {

constexpr ripc_service_id kTakenId = 4711;
constexpr std::size_t kThreads = 4;

struct Registered {
  ripc_status status = RIPC_PENDING;
  Service service;
};

class Takeover : public TransportTest {
 protected:
  void SetUp() override { context_ = make_context(); }

  // Registers kTakenId in each of the contexts at the same time, each from a thread of its own.
  static std::vector<Registered> register_at_once(const std::vector<ripc_context*>& contexts, bool takeover = false) {
    std::vector<Registered> registered(contexts.size());
    std::latch start(static_cast<std::ptrdiff_t>(contexts.size()));
    std::vector<std::jthread> threads;
    for (std::size_t index = 0; index < contexts.size(); ++index) {
      threads.emplace_back([&, index] {
        ripc_service_options options = initialized(ripc_service_options_init);
        options.id = kTakenId;
        options.takeover = takeover ? 1 : 0;
        ripc_service* service = nullptr;
        start.arrive_and_wait();
        registered[index].status = ripc_service_register(contexts[index], &options, &service);
        registered[index].service.reset(service);
      });
    }
    threads.clear();
    return registered;
  }
  // Checks that one registration has the ID, and that all others learned this.
  static void expect_one_winner(const std::vector<Registered>& registered) {
    std::size_t refused = 0;
    for (const Registered& one : registered) {
      if (one.status == RIPC_ID_IN_USE) ++refused;
      if (one.service) {
        EXPECT_EQ(ripc_service_get_id(one.service.get()), kTakenId);
      }
    }
    EXPECT_EQ(refused, registered.size() - 1);
  }

  Context context_;
};
CONFORMANCE_SUITE(Takeover);

TEST_P(Takeover, TakeoverFencesTheOldHolder) {
  const Context other = make_context();
  const Context third = make_context();
  const Service sender = make_service(third);
  const Service old_holder = make_service(context_, kTakenId);
  ASSERT_EQ(send_text(sender, kTakenId, "to the old one"), RIPC_OK);
  EXPECT_EQ(text_of(receive(old_holder)), "to the old one");

  const Service new_holder = make_service(other, [](ripc_service_options& options) {
    options.id = kTakenId;
    options.takeover = 1;
  });
  EXPECT_GT(ripc_service_get_incarnation(new_holder.get()), ripc_service_get_incarnation(old_holder.get()));

  ripc_message* message = nullptr;
  EXPECT_EQ(ripc_receive(old_holder.get(), 0, 0, &message), RIPC_FENCED);
  EXPECT_EQ(ripc_receive(old_holder.get(), 0, kLimit, &message), RIPC_FENCED) << "from then on";
  EXPECT_EQ(send_text(old_holder, id_of(sender), "from beyond"), RIPC_FENCED);

  ASSERT_EQ(send_text(sender, kTakenId, "to the new one"), RIPC_OK) << "the client goes on";
  EXPECT_EQ(text_of(receive(new_holder)), "to the new one");
}

TEST_P(Takeover, EveryCallOfTheOldHolderSaysSo) {
  const Context other = make_context();
  const Service peer = make_service(other);
  const Service old_holder = make_service(context_, kTakenId);
  const Rpc rpc = make_rpc(old_holder);
  const ripc_service_id group = RIPC_GROUP_ID(7);
  ASSERT_EQ(ripc_group_join(old_holder.get(), group), RIPC_OK);
  const Service new_holder = make_service(other, [](ripc_service_options& options) {
    options.id = kTakenId;
    options.takeover = 1;
  });
  ripc_message* message = nullptr;
  ASSERT_EQ(ripc_receive(old_holder.get(), 0, kLimit, &message), RIPC_FENCED);
  const ripc_service_id to = id_of(peer);
  const ripc_outgoing outgoing{nullptr, 0, 0};
  const ripc_notification notification{to, 1};
  std::size_t count = 0;
  EXPECT_EQ(ripc_send_many(old_holder.get(), to, &outgoing, 1, nullptr, nullptr, nullptr), RIPC_FENCED);
  EXPECT_EQ(ripc_notify(old_holder.get(), &notification, nullptr, 0), RIPC_FENCED);
  EXPECT_EQ(ripc_short_limit(old_holder.get(), to, 1, &count), RIPC_FENCED);
  EXPECT_EQ(ripc_wait_room(old_holder.get(), to, 0), RIPC_FENCED);
  EXPECT_EQ(ripc_request_room_event(old_holder.get(), to), RIPC_FENCED);
  EXPECT_EQ(ripc_group_join(old_holder.get(), RIPC_GROUP_ID(8)), RIPC_FENCED);
  EXPECT_EQ(ripc_group_leave(old_holder.get(), group), RIPC_FENCED);
  EXPECT_EQ(send_text(old_holder, group, "to the group"), RIPC_FENCED);
  EXPECT_EQ(ripc_rpc_run(rpc.get(), 0, nullptr), RIPC_FENCED);
  EXPECT_EQ(call(rpc, to, 1).begun, RIPC_FENCED);
}

TEST_P(Takeover, TakeoverWakesTheOldHoldersReceive) {
  const Context other = make_context();
  const Service old_holder = make_service(context_, kTakenId);
  std::jthread receiver([&] {
    ripc_message* message = nullptr;
    EXPECT_EQ(ripc_receive(old_holder.get(), 0, kLimit, &message), RIPC_FENCED);
  });
  EXPECT_TRUE(eventually([&] { return statistics_of(old_holder).sleeps > 0; }));
  const Service new_holder = make_service(other, [](ripc_service_options& options) {
    options.id = kTakenId;
    options.takeover = 1;
  });
  receiver.join();
}

TEST_P(Takeover, AFencedServiceGetsNoMessagesEvenIfNobodyElseHasItsId) {
  const Service old_holder = make_service(context_, kTakenId);
  const Context client_context = make_context();
  const Service client = make_service(client_context);
  // The client knows from now on where the answer to this message goes, without a resolver.
  ASSERT_EQ(send_text(old_holder, id_of(client), "who I am"), RIPC_OK);
  (void)receive(client);
  {
    const Context context = make_context();
    (void)make_service(context, [](ripc_service_options& options) {
      options.id = kTakenId;
      options.takeover = 1;
    });
  }
  ripc_message* message = nullptr;
  ASSERT_EQ(ripc_receive(old_holder.get(), 0, kLimit, &message), RIPC_FENCED);
  EXPECT_EQ(send_text(client, kTakenId, "lost"), RIPC_NO_SERVICE);
}

TEST_P(Takeover, UnregisteringAFencedServiceLeavesTheNewHolderAlone) {
  const Context other = make_context();
  const Service sender = make_service(context_);
  Service old_holder = make_service(context_, kTakenId);
  const Service new_holder = make_service(other, [](ripc_service_options& options) {
    options.id = kTakenId;
    options.takeover = 1;
  });
  old_holder.reset();
  ASSERT_EQ(send_text(sender, kTakenId, "hello"), RIPC_OK);
  EXPECT_EQ(text_of(receive(new_holder)), "hello");
  EXPECT_EQ(try_register(context_, kTakenId), RIPC_ID_IN_USE);
}

TEST_P(Takeover, TheEndOfTheOldHolderOfTheSameContextTakesNothingFromTheNewOne) {
  const Context other = make_context();
  const Service client = make_service(other);
  Service old_holder = make_service(context_, kTakenId);
  ASSERT_EQ(send_text(client, kTakenId, "to the old one"), RIPC_OK);
  const Service new_holder = make_service(context_, [](ripc_service_options& options) {
    options.id = kTakenId;
    options.takeover = 1;
  });
  ASSERT_EQ(send_text(client, kTakenId, "to the new one"), RIPC_OK);
  EXPECT_EQ(text_of(receive(new_holder)), "to the new one");
  std::atomic<int> rung{0};
  const auto ring = [](void* user, ripc_service_id, const ripc_item_view*, std::size_t) {
    ++*static_cast<std::atomic<int>*>(user);
  };
  ripc_notification bell;
  ASSERT_EQ(ripc_notification_register(new_holder.get(), ring, &rung, &bell), RIPC_OK);
  const Bytes data = pattern(3000, 1);
  const Ticket ticket = send_long(new_holder, id_of(client), {item(data, RIPC_ITEM_LONG)});

  old_holder.reset();

  ASSERT_EQ(ripc_notify(client.get(), &bell, nullptr, 0), RIPC_OK);
  EXPECT_TRUE(eventually([&] { return rung == 1; })) << "its links are known no more";
  Bytes window(data.size());
  ASSERT_EQ(ripc_window_post(client.get(), window.data(), window.size(), 0), RIPC_OK);
  EXPECT_TRUE(holds(view_of(receive(client), 0), RIPC_VIEW_WINDOW, data)) << "its tickets were ended";
  EXPECT_EQ(final_status(ticket), RIPC_OK);
  ASSERT_EQ(send_text(client, kTakenId, "again"), RIPC_OK);
  EXPECT_EQ(text_of(receive(new_holder)), "again");
}

TEST_P(Takeover, TakeoverReachesAHolderInAnotherProcess) {
  Puppet puppet(peer_setup());
  ASSERT_EQ(puppet.register_id(kTakenId), "RIPC_OK");
  const Service sender = make_service(context_);
  ASSERT_EQ(send_text(sender, kTakenId, "to the puppet"), RIPC_OK);
  const Context other = make_context();
  const Service new_holder = make_service(other, [](ripc_service_options& options) {
    options.id = kTakenId;
    options.takeover = 1;
  });
  EXPECT_EQ(puppet.status_of("receive"), "RIPC_FENCED");
  ASSERT_EQ(send_text(sender, kTakenId, "to the new one"), RIPC_OK);
  EXPECT_EQ(text_of(receive(new_holder)), "to the new one");
}

TEST_P(Takeover, AnotherProcessMayTakeOver) {
  Puppet puppet(peer_setup());
  const Service old_holder = make_service(context_, kTakenId);
  ASSERT_EQ(puppet.register_id(kTakenId, true), "RIPC_OK");
  ripc_message* message = nullptr;
  EXPECT_EQ(ripc_receive(old_holder.get(), 0, 0, &message), RIPC_FENCED);
}

TEST_P(Takeover, TakeoverOfAStoppedProcessDoesNotHang) {
  Puppet puppet(peer_setup());
  ASSERT_EQ(puppet.register_id(kTakenId), "RIPC_OK");
  puppet.signal(SIGSTOP);
  const Service new_holder = make_service(context_, [](ripc_service_options& options) {
    options.id = kTakenId;
    options.takeover = 1;
  });
  puppet.signal(SIGCONT);
  EXPECT_EQ(puppet.status_of("receive"), "RIPC_FENCED");
}

// The former holder does not end its links, and no one has noticed its silence yet.
TEST_P(Takeover, ALookupLeadsSendsFromAStoppedHolderToTheNewOne) {
  Puppet puppet(peer_setup());
  ASSERT_EQ(puppet.register_id(kTakenId), "RIPC_OK");
  const Context path_context = make_context();
  const Service path_asker = make_service(path_context);
  const Context record_context = make_context();
  const Service record_asker = make_service(record_context);
  ASSERT_EQ(send_text(path_asker, kTakenId, "to the first holder"), RIPC_OK);
  ASSERT_EQ(send_text(record_asker, kTakenId, "to the first holder"), RIPC_OK);
  puppet.signal(SIGSTOP);
  const Service new_holder = make_service(context_, [](ripc_service_options& options) {
    options.id = kTakenId;
    options.takeover = 1;
  });
  ripc_service_info info = initialized(ripc_service_info_init);
  EXPECT_EQ(ripc_find_path(path_context.get(), kTakenId, &info), RIPC_OK) << ripc_last_error();
  EXPECT_EQ(info.incarnation, ripc_service_get_incarnation(new_holder.get()));
  EXPECT_EQ(send_text(path_asker, kTakenId, "by the path"), RIPC_OK);
  EXPECT_EQ(text_of(receive(new_holder)), "by the path");
  EXPECT_EQ(ripc_resolve(record_context.get(), kTakenId, &info), RIPC_OK) << ripc_last_error();
  EXPECT_EQ(send_text(record_asker, kTakenId, "by the record"), RIPC_OK);
  EXPECT_EQ(text_of(receive(new_holder)), "by the record");
  puppet.signal(SIGCONT);
}

TEST_P(Takeover, TakeoverWithoutAHolderIsAnOrdinaryRegistration) {
  EXPECT_EQ(try_register(context_,
                         [](ripc_service_options& options) {
                           options.id = kTakenId;
                           options.takeover = 1;
                         }),
            RIPC_OK);
}

// ---- Elsewhere and again -----------------------------------------------------------------------------------------

TEST_P(Takeover, OneOfSeveralContextsThatRegisterAtTheSameTimeWins) {
  std::vector<Context> owners;
  std::vector<ripc_context*> contexts;
  for (std::size_t count = 0; count < kThreads; ++count) contexts.push_back(owners.emplace_back(make_context()).get());
  for (int round = 0; round < 30; ++round) {
    expect_one_winner(register_at_once(contexts));
    if (HasFailure()) return;
  }
}

TEST_P(Takeover, OneOfSeveralThreadsOfAContextThatRegisterAnIdWins) {
  for (int round = 0; round < 30; ++round) {
    expect_one_winner(register_at_once(std::vector(kThreads, context_.get())));
    const Service next = make_service(context_, kTakenId);
    ASSERT_NE(next, nullptr) << "the one that won is gone, and its ID free";
    if (HasFailure()) return;
  }
}

TEST_P(Takeover, TheLastOfSeveralThreadsOfAContextThatTakeAnIdOverHasIt) {
  const Context other = make_context();
  const Service client = make_service(other);
  const std::vector<Registered> registered = register_at_once(std::vector(kThreads, context_.get()), true);
  ASSERT_EQ(send_text(client, kTakenId, "to whoever has it"), RIPC_OK);
  int holders = 0;
  for (const auto& [status_of_registration, owner] : registered) {
    EXPECT_EQ(status_of_registration, RIPC_OK);
    ripc_service* const service = owner.get();
    ripc_message* message = nullptr;
    const ripc_status status = ripc_receive(service, 0, 0, &message);
    if (status != RIPC_FENCED) ++holders;
    if (status == RIPC_EMPTY) {
      EXPECT_EQ(ripc_receive(service, 0, kLimit, &message), RIPC_OK);
    }
    if (message != nullptr) {
      EXPECT_EQ(text_of(Message(message)), "to whoever has it");
    }
  }
  EXPECT_EQ(holders, 1);
}

}  // namespace
}  // namespace conformance
