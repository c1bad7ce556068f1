// SPDX-License-Identifier: Apache-2.0
// Receiving: waiting, interrupting, many at once, holding messages.
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdlib>
#include <thread>

#include "puppet.hpp"
#include "support/busy_processor.hpp"

namespace conformance {
namespace {

ripc_status receive_status(const Service& service, std::uint64_t timeout) {
  ripc_message* message = nullptr;
  const ripc_status status = ripc_receive(service.get(), 0, timeout, &message);
  EXPECT_EQ(message != nullptr, status == RIPC_OK);
  ripc_message_release(message);
  return status;
}

class Receive : public PairTest {
 protected:
  // Waits until the receives of this service have slept more than `before` times.
  bool sleeps_again(const Service& service, std::uint64_t before) {
    return eventually([&] { return statistics_of(service).sleeps > before; });
  }
};
CONFORMANCE_SUITE(Receive);

// ---- Waiting -----------------------------------------------------------------------------------------------------

TEST_P(Receive, WithoutATimeItReturnsEmptyAtOnce) {
  EXPECT_EQ(receive_status(server_, 0), RIPC_EMPTY);
  ASSERT_EQ(send(client_, server_id(), {}), RIPC_OK);
  EXPECT_TRUE(eventually([&] { return receive_status(server_, 0) == RIPC_OK; }));
  EXPECT_EQ(receive_status(server_, 0), RIPC_EMPTY);
}

TEST_P(Receive, TheTimeGivenRunsOut) {
  const std::uint64_t start = now();
  EXPECT_EQ(receive_status(server_, 30 * kMillisecond), RIPC_TIMEOUT);
  EXPECT_GE(now() - start, 30 * kMillisecond) << "not earlier";
  EXPECT_EQ(receive_status(server_, 1), RIPC_TIMEOUT);
}

// Counts how often 100 waits of 40 us sleep.
std::uint64_t sleeps_of_short_waits(const Service& service) {
  const std::uint64_t before = statistics_of(service).sleeps;
  for (int wait = 0; wait < 100; ++wait) EXPECT_EQ(receive_status(service, kMillisecond / 25), RIPC_TIMEOUT);
  return statistics_of(service).sleeps - before;
}

TEST_P(Receive, OnABusyProcessorAShortWaitSleepsButNotWhereAnotherThreadWaitsForTheDescriptor) {
  if (::sysconf(_SC_NPROCESSORS_ONLN) == 1) GTEST_SKIP() << "with one processor only waits for other hosts spin";
  const support::BusyProcessor busy;
  EXPECT_EQ(receive_status(server_, kMillisecond), RIPC_TIMEOUT);
  for (const std::uint64_t start = now(); now() - start < 30 * kMillisecond;) {
  }
  EXPECT_EQ(receive_status(server_, kMillisecond), RIPC_TIMEOUT);  // finds the processor busy
  EXPECT_GT(sleeps_of_short_waits(server_), 50u) << "a wait may end while another thread has its turn";
  // A message during such a sleep would wake both this thread and the one that waits for the descriptor.
  int fd = -1;
  ASSERT_EQ(ripc_service_get_fd(server_.get(), &fd), RIPC_OK);
  EXPECT_EQ(sleeps_of_short_waits(server_), 0u);
}

TEST_P(Receive, WithOneProcessorEachWaitOfAServiceWithoutRemotePeersSleeps) {
  if (::sysconf(_SC_NPROCESSORS_ONLN) > 1) GTEST_SKIP() << "this machine has more";
  EXPECT_EQ(sleeps_of_short_waits(server_), 100u);
}

TEST_P(Receive, ABlockedReceiverIsWokenByAMessage) {
  for (int round = 0; round < 50; ++round) {
    const std::uint64_t before = statistics_of(server_).sleeps;
    std::jthread receiver([&] { EXPECT_EQ(receive_status(server_, RIPC_FOREVER), RIPC_OK); });
    ASSERT_TRUE(sleeps_again(server_, before));
    ASSERT_EQ(send(client_, server_id(), {}), RIPC_OK);
    receiver.join();
  }
}

TEST_P(Receive, ABlockedReceiverIsWokenByItsFirstSenderEver) {
  std::jthread receiver([&] { EXPECT_EQ(receive_status(server_, RIPC_FOREVER), RIPC_OK); });
  ASSERT_TRUE(sleeps_again(server_, 0));
  const Context late_context = make_context();
  const Service late = make_service(late_context);
  ASSERT_EQ(send(late, server_id(), {}), RIPC_OK);
  receiver.join();
}

TEST_P(Receive, ABlockedReceiverIsWokenByAnotherProcess) {
  Puppet puppet(peer_setup());
  ASSERT_EQ(puppet.register_id(77), "RIPC_OK");
  for (int round = 0; round < 20; ++round) {
    const std::uint64_t before = statistics_of(server_).sleeps;
    std::jthread receiver([&] { EXPECT_EQ(receive_status(server_, RIPC_FOREVER), RIPC_OK); });
    ASSERT_TRUE(sleeps_again(server_, before));
    ASSERT_EQ(puppet.send_text(server_id(), "hello"), "RIPC_OK");
    receiver.join();
  }
}

// One lost wake would stop the exchange: both sides sleep before every message. The largest ones take several
// datagrams.
TEST_P(Receive, NoWakeIsLostBetweenTwoThatAlwaysSleep) {
  const auto no_spin = [](ripc_context_options& options) { options.spin = 0; };
  const Context near_context = make_context(no_spin);
  const Context far_context = make_context(no_spin);
  const Service near = make_service(near_context);
  const Service far = make_service(far_context);
  std::size_t limit = 0;
  ASSERT_EQ(ripc_short_limit(near.get(), id_of(far), 1, &limit), RIPC_OK);
  const std::string large(limit, 'l');
  constexpr int kCount = 3000;
  const auto send_one = [&](const Service& from, const Service& to, int count) {
    return count % 10 == 0 ? send(from, id_of(to), {item(large, RIPC_ITEM_SHORT)}) : send(from, id_of(to), {});
  };
  std::jthread echo([&] {
    for (int count = 0; count < kCount; ++count) {
      ASSERT_EQ(receive_status(far, kLimit), RIPC_OK);
      ASSERT_EQ(send_one(far, near, count), RIPC_OK);
    }
  });
  for (int count = 0; count < kCount; ++count) {
    ASSERT_EQ(send_one(near, far, count), RIPC_OK);
    ASSERT_EQ(receive_status(near, kLimit), RIPC_OK);
  }
}

TEST_P(Receive, AnIdleBlockedReceiverUsesNoCpu) {
  ASSERT_EQ(send(client_, server_id(), {}), RIPC_OK);  // peers are connected, everything is set up
  receive(server_);
  // A guest counts time that a busy machine takes away from it as used, so the quietest second decides.
  std::uint64_t thread_used = UINT64_MAX;
  std::uint64_t process_used = UINT64_MAX;
  // However slow the machine is, a receiver falls asleep once and wakes when its time is over.
  constexpr long kMostSleeps = 4;
  long sleeps = LONG_MAX;
  for (int second = 0;
       second < 5 && (thread_used >= 20 * kMillisecond || process_used >= 20 * kMillisecond || sleeps > kMostSleeps);
       ++second) {
    const std::uint64_t process_before = read_clock(CLOCK_PROCESS_CPUTIME_ID);
    std::jthread receiver([&] {
      const std::uint64_t before = thread_cpu_time();
      rusage first{};
      rusage last{};
      EXPECT_EQ(getrusage(RUSAGE_THREAD, &first), 0);
      EXPECT_EQ(receive_status(server_, kSecond), RIPC_TIMEOUT);
      EXPECT_EQ(getrusage(RUSAGE_THREAD, &last), 0);
      thread_used = std::min(thread_used, thread_cpu_time() - before);
      sleeps = std::min(sleeps, last.ru_nvcsw - first.ru_nvcsw);
    });
    receiver.join();
    process_used = std::min(process_used, read_clock(CLOCK_PROCESS_CPUTIME_ID) - process_before);
  }
  EXPECT_LT(thread_used, 20 * kMillisecond);
  EXPECT_LT(process_used, 20 * kMillisecond) << "responder threads included";
  EXPECT_LE(sleeps, kMostSleeps) << "it wakes up for nothing";
}

TEST_P(Receive, TheSpinBudgetIsTunable) {
  const Context patient = make_context([](ripc_context_options& options) { options.spin = kLimit; });
  const Service spinning = make_service(patient);
  EXPECT_EQ(receive_status(spinning, 20 * kMillisecond), RIPC_TIMEOUT);
  EXPECT_EQ(statistics_of(spinning).sleeps, 0u) << "it polls all the time";

  const Context sleepy = make_context([](ripc_context_options& options) { options.spin = 0; });
  const Service sleeping = make_service(sleepy);
  EXPECT_EQ(receive_status(sleeping, 20 * kMillisecond), RIPC_TIMEOUT);
  EXPECT_GE(statistics_of(sleeping).sleeps, 1u);
}

TEST_P(Receive, TheEnvironmentSetsTheSpinBudget) {
  ::setenv("RIPC_SPIN_US", "10000000", 1);
  const Context patient = make_context();
  ::setenv("RIPC_SPIN_US", "0", 1);
  const Context sleepy = make_context();
  ::unsetenv("RIPC_SPIN_US");
  const Service spinning = make_service(patient);
  const Service sleeping = make_service(sleepy);
  EXPECT_EQ(receive_status(spinning, 20 * kMillisecond), RIPC_TIMEOUT);
  EXPECT_EQ(statistics_of(spinning).sleeps, 0u);
  EXPECT_EQ(receive_status(sleeping, 20 * kMillisecond), RIPC_TIMEOUT);
  EXPECT_GE(statistics_of(sleeping).sleeps, 1u);
}

TEST_P(Receive, SeveralServicesOfOneContextAreReceivedInParallel) {
  const Service other = make_service(server_context_);
  std::jthread first([&] { EXPECT_EQ(text_of(receive(server_)), "one"); });
  std::jthread second([&] { EXPECT_EQ(text_of(receive(other)), "two"); });
  ASSERT_EQ(send_text(client_, id_of(other), "two"), RIPC_OK);
  second.join();
  ASSERT_EQ(send_text(client_, server_id(), "one"), RIPC_OK);
}

// ---- A second receiver ---------------------------------------------------------------------------------------------

TEST_P(Receive, ASecondThreadIsRefusedAndTakesNothing) {
  const std::uint64_t before = statistics_of(server_).sleeps;
  std::jthread receiver([&] {
    const Message message = receive(server_);
    EXPECT_EQ(text_of(message), "hello");
  });
  ASSERT_TRUE(sleeps_again(server_, before));
  EXPECT_EQ(receive_status(server_, 0), RIPC_INVALID_ARGUMENT);
  EXPECT_NE(std::string_view(ripc_last_error()).find("Another thread"), std::string_view::npos);
  ASSERT_EQ(send_text(client_, server_id(), "hello"), RIPC_OK);
  receiver.join();
  EXPECT_EQ(receive_status(server_, 0), RIPC_EMPTY) << "when the other one has returned";
}

// ---- Interrupting ------------------------------------------------------------------------------------------------

TEST_P(Receive, AnotherThreadInterruptsABlockedReceiver) {
  for (int round = 0; round < 20; ++round) {
    const std::uint64_t before = statistics_of(server_).sleeps;
    std::jthread receiver([&] { EXPECT_EQ(receive_status(server_, RIPC_FOREVER), RIPC_INTERRUPTED); });
    ASSERT_TRUE(sleeps_again(server_, before));
    ASSERT_EQ(ripc_interrupt(server_.get()), RIPC_OK);
    receiver.join();
  }
}

TEST_P(Receive, AnInterruptBeforeTheCallEndsTheNextOne) {
  ASSERT_EQ(ripc_interrupt(server_.get()), RIPC_OK);
  EXPECT_EQ(receive_status(server_, RIPC_FOREVER), RIPC_INTERRUPTED);
  EXPECT_EQ(receive_status(server_, 0), RIPC_EMPTY) << "only the next one";
}

TEST_P(Receive, AnInterruptedReceiverLosesNothing) {
  ASSERT_EQ(ripc_interrupt(server_.get()), RIPC_OK);
  ASSERT_EQ(send_text(client_, server_id(), "hello"), RIPC_OK);
  ripc_message* handle = nullptr;
  ripc_status status = ripc_receive(server_.get(), 0, kLimit, &handle);
  if (status == RIPC_INTERRUPTED) status = ripc_receive(server_.get(), 0, kLimit, &handle);
  ASSERT_EQ(status, RIPC_OK);
  const Message message(handle);
  EXPECT_EQ(text_of(message), "hello");
}

TEST_P(Receive, AnInterruptReachesASpinningReceiver) {
  const Context context = make_context([](ripc_context_options& options) { options.spin = kLimit; });
  const Service service = make_service(context);
  std::atomic<bool> started{false};
  std::jthread receiver([&] {
    started = true;
    EXPECT_EQ(receive_status(service, kLimit), RIPC_INTERRUPTED);
  });
  ASSERT_TRUE(eventually([&] { return started.load(); }));
  ASSERT_EQ(ripc_interrupt(service.get()), RIPC_OK);
}

std::atomic<ripc_service*> interrupted_by_signal{nullptr};

TEST_P(Receive, ASignalHandlerMayInterrupt) {
  interrupted_by_signal = server_.get();
  struct sigaction action {};
  struct sigaction previous {};
  action.sa_handler = [](int) { ripc_interrupt(interrupted_by_signal); };
  action.sa_flags = SA_RESTART;
  ASSERT_EQ(sigaction(SIGUSR1, &action, &previous), 0);
  ASSERT_EQ(raise(SIGUSR1), 0);  // before the call
  EXPECT_EQ(receive_status(server_, kLimit), RIPC_INTERRUPTED);

  const std::uint64_t before = statistics_of(server_).sleeps;
  std::jthread receiver([&] { EXPECT_EQ(receive_status(server_, kLimit), RIPC_INTERRUPTED); });
  ASSERT_TRUE(sleeps_again(server_, before));
  ASSERT_EQ(raise(SIGUSR1), 0);  // in another thread than the receiver's
  receiver.join();
  sigaction(SIGUSR1, &previous, nullptr);
}

TEST_P(Receive, ASignalEndsTheWait) {
  struct sigaction action {};
  struct sigaction previous {};
  action.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, &previous), 0);
  std::atomic<bool> returned{false};
  std::jthread receiver([&] {
    EXPECT_EQ(receive_status(server_, kLimit), RIPC_INTERRUPTED);
    returned = true;
  });
  ASSERT_TRUE(sleeps_again(server_, 0));
  // A signal that comes between the count and the sleep goes unnoticed, so this sends more until one is noticed.
  EXPECT_TRUE(eventually([&] {
    if (!returned) pthread_kill(receiver.native_handle(), SIGUSR1);
    return returned.load();
  }));
  receiver.join();
  sigaction(SIGUSR1, &previous, nullptr);
}

// ---- Many at once ------------------------------------------------------------------------------------------------

TEST_P(Receive, ManyReturnsWhatIsThereUpToItsCapacity) {
  for (std::uint32_t tag = 0; tag < 25; ++tag) ASSERT_EQ(send(client_, server_id(), {}, tag), RIPC_OK);
  std::uint32_t expected = 0;
  while (expected < 25) {
    ripc_message* messages[10] = {};
    std::size_t count = 0;
    ASSERT_EQ(ripc_receive_many(server_.get(), 0, kLimit, messages, 10, &count), RIPC_OK);
    ASSERT_GE(count, 1u);
    ASSERT_LE(count, 10u);
    for (std::size_t index = 0; index < count; ++index) {
      const Message message(messages[index]);
      EXPECT_EQ(ripc_message_get_tag(message.get()), expected++);
    }
  }
}

TEST_P(Receive, ManyWaitsOnlyForTheFirst) {
  ASSERT_EQ(send(client_, server_id(), {}), RIPC_OK);
  ripc_message* messages[4] = {};
  std::size_t count = 99;
  const std::uint64_t start = now();
  ASSERT_EQ(ripc_receive_many(server_.get(), 0, 2 * kLimit, messages, 4, &count), RIPC_OK);
  EXPECT_EQ(count, 1u);
  EXPECT_LT(now() - start, kLimit);
  ripc_message_release(messages[0]);
}

TEST_P(Receive, ManyReportsNoneLikeReceive) {
  ripc_message* messages[4] = {};
  std::size_t count = 99;
  EXPECT_EQ(ripc_receive_many(server_.get(), 0, 0, messages, 4, &count), RIPC_EMPTY);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(ripc_receive_many(server_.get(), 0, kMillisecond, messages, 4, &count), RIPC_TIMEOUT);
  EXPECT_EQ(count, 0u);
  ASSERT_EQ(ripc_interrupt(server_.get()), RIPC_OK);
  EXPECT_EQ(ripc_receive_many(server_.get(), 0, kLimit, messages, 4, &count), RIPC_INTERRUPTED);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(ripc_receive_many(server_.get(), 0, 0, messages, 0, &count), RIPC_INVALID_ARGUMENT) << "no capacity";
}

TEST_P(Receive, ManyDeliversLongMessages) {
  const Bytes data = pattern(20'000, 1);
  std::vector<Bytes> windows(5, Bytes(data.size()));
  for (Bytes& window : windows) {
    ASSERT_EQ(ripc_window_post(server_.get(), window.data(), window.size(), 1), RIPC_OK);
  }
  std::vector<Ticket> tickets;
  for (int count = 0; count < 5; ++count)
    tickets.push_back(send_long(client_, server_id(), {item(data, RIPC_ITEM_LONG)}));
  std::size_t received = 0;
  while (received < 5) {
    ripc_message* messages[5] = {};
    std::size_t count = 0;
    ASSERT_EQ(ripc_receive_many(server_.get(), 0, kLimit, messages, 5, &count), RIPC_OK);
    for (std::size_t index = 0; index < count; ++index) {
      const Message message(messages[index]);
      EXPECT_TRUE(holds(view_of(message, 0), RIPC_VIEW_WINDOW, data));
    }
    received += count;
  }
  for (const Ticket& ticket : tickets) EXPECT_EQ(final_status(ticket), RIPC_OK);
}

// ---- Holding messages --------------------------------------------------------------------------------------------

TEST_P(Receive, MessagesHeldKeepTheirBytesWhileOthersCome) {
  std::vector<Message> held;
  for (int round = 0; round < 300; ++round) {
    ASSERT_EQ(send_text(client_, server_id(), "message " + std::to_string(round)), RIPC_OK);
    held.push_back(receive(server_));
  }
  for (int round = 0; round < 300; ++round) {
    EXPECT_EQ(text_of(held[static_cast<std::size_t>(round)]), "message " + std::to_string(round));
  }
  for (std::size_t index = 0; index < 300; index += 2) held[index].reset();
  ASSERT_EQ(send_text(client_, server_id(), "late"), RIPC_OK);
  EXPECT_EQ(text_of(receive(server_)), "late");
  for (std::size_t index = 1; index < 300; index += 2)
    EXPECT_EQ(text_of(held[index]), "message " + std::to_string(index));
}

TEST_P(Receive, AnyThreadMayReleaseAMessage) {
  std::vector<Message> held;
  for (int count = 0; count < 100; ++count) {
    ASSERT_EQ(send(client_, server_id(), {}), RIPC_OK);
    held.push_back(receive(server_));
  }
  std::jthread other([&] { held.clear(); });
  for (int count = 0; count < 100; ++count) {
    ASSERT_EQ(send(client_, server_id(), {}), RIPC_OK);
    receive(server_);
  }
}

TEST_P(Receive, MaxMessagesBoundsWhatIsHeld) {
  const Service small = make_service(server_context_, [](ripc_service_options& options) { options.max_messages = 3; });
  for (std::uint32_t tag = 0; tag < 5; ++tag) ASSERT_EQ(send(client_, id_of(small), {}, tag), RIPC_OK);
  std::vector<Message> held;
  for (int count = 0; count < 3; ++count) held.push_back(receive(small));
  EXPECT_EQ(receive_status(small, 0), RIPC_LIMIT);
  EXPECT_EQ(receive_status(small, kLimit), RIPC_LIMIT) << "waiting would not help";
  held.erase(held.begin());
  EXPECT_EQ(ripc_message_get_tag(receive(small).get()), 3u) << "nothing was lost";
  EXPECT_EQ(ripc_message_get_tag(receive(small).get()), 4u);
}

TEST_P(Receive, AMessageOnItsWayIsNotOneThatIsHeld) {
  const Service small = make_service(server_context_, [](ripc_service_options& options) { options.max_messages = 1; });
  const Bytes data = pattern(std::size_t{16} << 20, 1);
  Bytes window(data.size());
  ASSERT_EQ(ripc_window_post(small.get(), window.data(), window.size(), 7), RIPC_OK);
  const Ticket ticket = send_long(client_, id_of(small), {item(data, RIPC_ITEM_LONG)});
  EXPECT_TRUE(holds(view_of(receive(small), 0), RIPC_VIEW_WINDOW, data));
  EXPECT_EQ(final_status(ticket), RIPC_OK);
}

}  // namespace
}  // namespace conformance
