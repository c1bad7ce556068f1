// SPDX-License-Identifier: Apache-2.0
// What a context owns and what it leaves behind: independence, descriptors, threads, and a fork.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iterator>
#include <set>
#include <vector>

#include "call_ends.hpp"
#include "puppet.hpp"

namespace conformance {
namespace {

using Contexts = PairTest;
CONFORMANCE_SUITE(Contexts);

TEST_P(Contexts, TwoContextsOfOneProcessAreIndependent) {
  ASSERT_EQ(send_text(client_, server_id(), "hello"), RIPC_OK);
  EXPECT_EQ(text_of(receive(server_)), "hello");
  const Context third_context = make_context();
  const Service third = make_service(third_context);
  server_.reset();
  server_context_.reset();
  ASSERT_EQ(send_text(client_, id_of(third), "still here"), RIPC_OK);
  EXPECT_EQ(text_of(receive(third)), "still here");
}

TEST_P(Contexts, ContextsLeaveNothingBehind) {
  const auto count_in = [](const char* directory) {
    return std::distance(std::filesystem::directory_iterator(directory), std::filesystem::directory_iterator());
  };
  const auto round = [&] {
    const Context one = make_context();
    const Context other = make_context();
    const Service from = make_service(one);
    const Service to = make_service(other);
    ASSERT_EQ(send_text(from, id_of(to), "hello"), RIPC_OK);
    receive(to);
    const auto data = lease(one, 100'000);
    const Ticket ticket = send_long(from, id_of(to), {item_at(data.get(), 100'000, RIPC_ITEM_LONG)});
    receive(to, RIPC_RECEIVE_LEND);
  };
  round();
  const auto descriptors = count_in("/proc/self/fd");
  const auto threads = count_in("/proc/self/task");
  for (int count = 0; count < 10; ++count) round();
  EXPECT_EQ(count_in("/proc/self/fd"), descriptors);
  EXPECT_EQ(count_in("/proc/self/task"), threads);
}

TEST_P(Contexts, WithoutDescriptorsTheStatusSaysSo) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer itself needs descriptors";
#endif
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
  const auto allow = [&](rlim_t more) {
    const auto used = std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
    rlimit few{static_cast<rlim_t>(used) + more, usual.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  };
  const ripc_context_options options = context_options();
  std::set<ripc_status> outcomes;
  for (rlim_t more = 0; more < 40; ++more) {
    allow(more);
    ripc_context* context = nullptr;
    ripc_service* service = nullptr;
    ripc_status status = ripc_context_create(&options, &context);
    if (status == RIPC_OK) status = ripc_service_register(context, nullptr, &service);
    if (status == RIPC_OK) status = send(client_, ripc_service_get_id(service), {});
    if (status == RIPC_OK) status = send(server_, ripc_service_get_id(service), {});
    outcomes.insert(status);
    ripc_service_unregister(service);
    ripc_context_destroy(context);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
  }
  EXPECT_TRUE(outcomes.contains(RIPC_OK) && outcomes.contains(RIPC_NO_DESCRIPTORS));
  // Both ends share one descriptor table here. An end without descriptors cannot answer, so the other one times out.
  outcomes.erase(RIPC_TIMEOUT);
  EXPECT_EQ(outcomes, (std::set<ripc_status>{RIPC_OK, RIPC_NO_DESCRIPTORS}));
  ASSERT_EQ(send_text(client_, server_id(), "well again"), RIPC_OK);
  EXPECT_EQ(text_of(receive(server_)), "well again");
}

TEST_P(Contexts, DestroyingAContextEndsWhatItStillOwns) {
  Bytes window(100);
  ASSERT_EQ(ripc_window_post(client_.get(), window.data(), window.size(), 1), RIPC_OK);
  void* data = nullptr;
  ASSERT_EQ(ripc_buffer_lease(client_context_.get(), 5000, &data), RIPC_OK);
  ASSERT_EQ(send(server_, client_id(), {}), RIPC_OK);
  ripc_message* message = nullptr;
  ASSERT_EQ(ripc_receive(client_.get(), 0, kLimit, &message), RIPC_OK);  // becomes invalid with its context
  const ripc_service_id id = client_id();
  static_cast<void>(client_.release());
  client_context_.reset();
  EXPECT_TRUE(is_gone(server_, id));
}

TEST_P(Contexts, AfterForkTheParentsHandlesSaySoAndAContextOfItsOwnWorks) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer does not support new threads in a child of a process that has threads";
#elif defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "another thread may hold a lock of AddressSanitizer's allocator, for ever in the child";
#endif
  const bool in_children = traits().in_children;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(20);
    const auto fail = [](int step) {
      (void)std::fprintf(stderr, "The child failed in step %d: %s\n", step, ripc_last_error());
      ::_exit(step);
    };
    ripc_message* message = nullptr;
    void* data = nullptr;
    if (ripc_send(client_.get(), server_id(), nullptr, 0, nullptr, nullptr) != RIPC_FORKED) fail(1);
    if (ripc_receive(client_.get(), 0, 0, &message) != RIPC_FORKED) fail(2);
    if (ripc_service_register(client_context_.get(), nullptr, nullptr) == RIPC_OK) fail(3);
    if (ripc_buffer_lease(client_context_.get(), 100, &data) != RIPC_FORKED) fail(4);
    ripc_security_statistics refused;
    ripc_security_statistics_init(&refused);
    if (ripc_security_get_statistics(client_context_.get(), &refused) != RIPC_FORKED) fail(14);
    if (ripc_trust_status(client_context_.get()) != RIPC_FORKED) fail(15);
    if (ripc_list_rails(client_context_.get(), server_id(), nullptr, nullptr) != RIPC_FORKED) fail(16);
    ripc_context* context = nullptr;
    if (in_children) {
      const ripc_context_options options = context_options();
      if (ripc_context_create(&options, &context) != RIPC_OK) fail(5);
      ripc_service* service = nullptr;
      if (ripc_service_register(context, nullptr, &service) != RIPC_OK) fail(6);
      const std::string_view text = "from the child";
      const ripc_item one = item(text);
      if (ripc_send(service, server_id(), &one, 1, nullptr, nullptr) != RIPC_OK) fail(7);
      if (ripc_receive(service, 0, kLimit, &message) != RIPC_OK) fail(8);
    }
    // Destructors that run when the child ends do the same. They must not touch anything of the parent's.
    ripc_service_unregister(client_.get());
    ripc_context_destroy(client_context_.get());
    ripc_context_destroy(context);
    ::_exit(0);
  }
  if (in_children) {
    const Message message = receive(server_);
    EXPECT_EQ(text_of(message), "from the child");
    EXPECT_EQ(ripc_reply(server_.get(), message.get(), nullptr, 0, nullptr, nullptr), RIPC_OK);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the step that failed in the child";
  ASSERT_EQ(send_text(client_, server_id(), "the parent goes on"), RIPC_OK);
  EXPECT_EQ(text_of(receive(server_)), "the parent goes on");
}

// Handles that a child ends, for instance in a destructor, are the parent's: the loan, the ticket and the call go on.
class Children : public Contexts {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer does not support new threads, or locks of its allocator, in such a child";
#endif
    Contexts::SetUp();
  }
  // Runs `answers` in a child of fork(). Returns the number of the first answer that is false, from 1; 0: all are true.
  static int first_false(const std::function<std::vector<bool>()>& answers) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      const std::vector<bool> all = answers();
      const auto first = std::find(all.begin(), all.end(), false);
      ::_exit(first == all.end() ? 0 : static_cast<int>(first - all.begin()) + 1);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << "it hung";
    return WEXITSTATUS(status);
  }
};
CONFORMANCE_SUITE(Children);

TEST_P(Children, EndNeitherTheLoansNorTheTicketsOfTheirParent) {
  const Bytes data = pattern(200'000, 1);
  const auto pooled = lease(client_context_, data.size());
  std::copy(data.begin(), data.end(), pooled.get());
  const Ticket lent = send_long(client_, server_id(), {item_at(pooled.get(), data.size(), RIPC_ITEM_LONG)});
  const Message message = receive(server_, RIPC_RECEIVE_LEND);
  const Ticket waits = send_long(client_, server_id(), {item(data, RIPC_ITEM_LONG)});
  EXPECT_EQ(first_false([&]() -> std::vector<bool> {
              ripc_service_statistics statistics = initialized(ripc_service_statistics_init);
              ripc_view_hold* hold = nullptr;
              const bool holds_nothing = ripc_message_hold_views(message.get(), &hold) == RIPC_FORKED;
              ripc_message_release(message.get());
              return {ripc_ticket_poll(waits.get()) == RIPC_FORKED, ripc_ticket_wait(waits.get(), 0) == RIPC_FORKED,
                      ripc_ticket_cancel(waits.get()) == RIPC_FORKED, holds_nothing,
                      ripc_service_get_statistics(client_.get(), &statistics) == RIPC_FORKED};
            }),
            0);
  if (traits().lends) {
    EXPECT_EQ(ripc_ticket_wait(lent.get(), 5 * kMillisecond), RIPC_PENDING) << "the parent has the view";
  }
  EXPECT_TRUE(holds(view_of(message, 0), RIPC_VIEW_LENT, data));
  EXPECT_TRUE(holds(view_of(receive(server_, RIPC_RECEIVE_LEND), 0), RIPC_VIEW_LENT, data));
  EXPECT_EQ(final_status(waits), RIPC_OK);
}

TEST_P(Children, EndNeitherTheCallsNorTheRequestsOfTheirParent) {
  ripc_rpc_options options = rpc_options();
  options.workers = 1;
  CallServer server(make_context(), options);
  server.start();
  const Rpc rpc = make_rpc(client_);
  Begun begun(rpc, server.id(), CallServer::kKeep);
  ripc_request* const request = server.take(rpc);
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(first_false([&]() -> std::vector<bool> {
              const bool says_so = ripc_request_reply(request, 1, nullptr, 0, nullptr) == RIPC_FORKED &&
                                   ripc_request_time_left(request) == 0;
              ripc_request_drop(request, RIPC_LIMIT);
              ripc_request_refuse(request, RIPC_LIMIT);
              ripc_rpc_destroy(server.rpc().get());
              ripc_rpc_destroy(rpc.get());
              return {says_so, ripc_rpc_cancel(rpc.get(), begun.name) == RIPC_FORKED};
            }),
            0);
  EXPECT_EQ(ripc_request_reply(request, 9, nullptr, 0, nullptr), RIPC_OK) << ripc_last_error();
  const Outcome& outcome = begun.end(rpc);
  EXPECT_EQ(outcome.outcome, RIPC_CALL_ANSWERED) << ripc_status_name(outcome.status);
  EXPECT_EQ(outcome.code, 9u);
}

}  // namespace
}  // namespace conformance
