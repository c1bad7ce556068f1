// SPDX-License-Identifier: Apache-2.0
// Tests that run out of what libripc needs: descriptors, memory, pool, disk space, room in queues, a peer that is not
// stopped. Each affected call reports the shortage, and works again as soon as it is over. Tests that limit a process
// run in a child.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <thread>

#include "fault_support.hpp"
#include "support/descriptor_scarcity.hpp"
#include "support/process_state.hpp"

namespace fault {
namespace {

constexpr ripc_service_id kService = 1001;
constexpr ripc_service_id kPeer = 1002;
constexpr ripc_service_id kOther = 1003;

// Runs `body` in a child process and expects no failure there.
void in_child(const std::function<void()>& body) {
  Process process = Process::forked(body);
  EXPECT_EQ(process.wait(4 * kLimit), 0) << "the child's own output says why";
}

// ---- Descriptors -------------------------------------------------------------------------------------------------

TEST(Descriptors, AContextThatCannotHaveThemSaysSoAndLeavesNothingBehind) {
  const TemporaryDirectory directory;
  in_child([&] {
    ripc_context_options options = context_options(directory.path());
    std::size_t before = descriptor_count();
    bool created = false;
    std::size_t failures = 0;
    for (std::size_t left = 0; left < 40 && !created; ++left) {
      ripc_context* context = nullptr;
      ripc_status status = RIPC_OK;
      {
        const support::DescriptorScarcity scarcity(left);
        status = ripc_context_create(&options, &context);
      }
      if (status == RIPC_OK) {
        created = true;
        ripc_context_destroy(context);
      } else {
        ++failures;
        EXPECT_EQ(status, RIPC_NO_DESCRIPTORS) << left << " left: " << ripc_last_error();
        EXPECT_EQ(context, nullptr);
        EXPECT_TRUE(names_in(directory.path() + "/contexts").empty());
      }
      EXPECT_EQ(descriptor_count(), before) << "with " << left << " left";
    }
    EXPECT_TRUE(created);
    EXPECT_GT(failures, 3u);
  });
}

TEST(Descriptors, AServiceThatCannotHaveThemSaysSoAndCanBeRegisteredLater) {
  const TemporaryDirectory directory;
  in_child([&] {
    const Context context = make_context(directory.path());
    ASSERT_TRUE(context);
    // The page with the state of services stays once it exists, so it is made first.
    make_service(context, kOther).reset();
    std::size_t failures = 0;
    Service service;
    for (std::size_t left = 0; left < 20 && !service; ++left) {
      const std::size_t before = descriptor_count();
      ripc_service* made = nullptr;
      ripc_service_options options;
      ripc_service_options_init(&options);
      options.id = kService;
      ripc_status status = RIPC_OK;
      {
        const support::DescriptorScarcity scarcity(left);
        status = ripc_service_register(context.get(), &options, &made);
      }
      service.reset(made);
      if (status == RIPC_OK) continue;
      ++failures;
      EXPECT_EQ(status, RIPC_NO_DESCRIPTORS) << left << " left: " << ripc_last_error();
      EXPECT_TRUE(names_in(directory.path() + "/services").empty()) << "with " << left << " left";
      EXPECT_EQ(descriptor_count(), before) << "with " << left << " left";
    }
    EXPECT_TRUE(service);
    EXPECT_GT(failures, 1u);
  });
}

TEST(Descriptors, ASenderThatCannotHaveThemSaysSoAndCanSendLater) {
  const TemporaryDirectory directory;
  const auto peer_body = [&] {
    const Context context = make_context(directory.path());
    const Service service = make_service(context, kPeer);
    ASSERT_TRUE(service);
    const Message message = receive(service, 2 * kLimit);
    ASSERT_TRUE(message);
    EXPECT_EQ(flaw_of(message.get()), "");
  };
  Process peer = Process::forked(peer_body);
  ASSERT_TRUE(eventually([&] { return names_in(directory.path() + "/services").size() == 1; }));
  in_child([&] {
    const Context context = make_context(directory.path());
    const Service service = make_service(context, kService);
    ASSERT_TRUE(service);
    std::size_t failures = 0;
    bool sent = false;
    for (std::size_t left = 0; left < 30 && !sent; ++left) {
      const support::DescriptorScarcity scarcity(left);
      const ripc_status status = send_short(service, kPeer, 1);
      sent = status == RIPC_OK;
      if (sent) break;
      ++failures;
      EXPECT_EQ(status, RIPC_NO_DESCRIPTORS) << left << " left: " << ripc_last_error();
    }
    EXPECT_TRUE(sent);
    EXPECT_GT(failures, 1u);
  });
  EXPECT_EQ(peer.wait(), 0);
}

// The receiver makes a queue for each attempt, and has only a few for one sender.
TEST(Descriptors, ASenderThatStaysWithoutThemForManyAttemptsCanSendLater) {
  constexpr int kAttempts = 9;
  const TemporaryDirectory directory;
  Process peer = Process::forked([&] {
    const Context context = make_context(directory.path());
    const Service known = make_service(context, kOther);
    const Service service = make_service(context, kPeer);
    ASSERT_TRUE(known && service);
    EXPECT_TRUE(receive(known, 2 * kLimit));
    EXPECT_TRUE(receive(service, 2 * kLimit));
  });
  ASSERT_TRUE(eventually([&] { return names_in(directory.path() + "/services").size() == 2; }));
  in_child([&] {
    const Context context = make_context(directory.path());
    const Service service = make_service(context, kService);
    ASSERT_TRUE(service);
    ASSERT_EQ(send_short(service, kOther, 1), RIPC_OK) << "this connects the two contexts";
    // Enough to look for the service, and too few for the link.
    for (const auto left : std::to_array<std::size_t>({1, 2})) {
      const support::DescriptorScarcity scarcity(left);
      for (int attempt = 0; attempt < kAttempts; ++attempt) EXPECT_NE(send_short(service, kPeer, 1), RIPC_OK);
    }
    ripc_status status = RIPC_OK;
    EXPECT_TRUE(eventually([&] { return (status = send_short(service, kPeer, 1)) == RIPC_OK; }))
        << status << ": " << ripc_last_error();
  });
  EXPECT_EQ(peer.wait(), 0);
}

TEST(Descriptors, AReceiverThatCannotHaveThemRefusesAndTakesPeersLater) {
  const TemporaryDirectory directory;
  in_child([&] {
    const Context context = make_context(directory.path());
    const Service service = make_service(context, kService);
    const Context known_context = make_context(directory.path());
    const Service known = make_service(known_context, kPeer);
    ASSERT_TRUE(service && known);
    ASSERT_EQ(exchange(service, known, 1), "");
    // The newcomer is another process, with enough descriptors of its own; it tries until it gets through.
    const std::string result = directory.path() + "/statuses";
    Process newcomer("newcomer", {directory.path(), result});
    // Its context must exist beforehand, and its first attempts must meet the scarcity.
    ASSERT_TRUE(eventually([&] { return access((result + ".started").c_str(), F_OK) == 0; }));
    {
      const support::DescriptorScarcity scarcity(0);
      // A folder, because a file would need a descriptor.
      ASSERT_EQ(mkdir((result + ".go").c_str(), 0700), 0);
      EXPECT_EQ(exchange(service, known, 2), "") << "those that are connected go on";
      const std::uint64_t until = now() + 300 * kMillisecond;
      while (now() < until) EXPECT_EQ(exchange(service, known, 3), "");
    }
    Message message;
    ASSERT_TRUE(eventually([&] { return (message = receive(service, 100 * kMillisecond)) != nullptr; }))
        << "descriptors are free again, but nobody is accepted";
    EXPECT_EQ(ripc_message_get_source(message.get()), kOther);
    EXPECT_EQ(newcomer.wait(), 0);
    std::string statuses;
    std::getline(std::ifstream(result), statuses);
    std::printf("what the newcomer heard meanwhile: %s\n", statuses.c_str());
  });
}

// Arguments DIRECTORY RESULT: sends to kService until it works; every failure must say what is wrong.
int newcomer(const std::vector<std::string>& arguments) {
  ripc_context_options options = context_options(arguments.at(0));
  options.resolve_timeout = 100 * kMillisecond;
  ripc_context* raw = nullptr;
  if (ripc_context_create(&options, &raw) != RIPC_OK) return 1;
  const Context context(raw);
  const Service service = make_service(context, kOther);
  if (!service) return 2;
  std::ofstream(arguments.at(1) + ".started") << "";
  if (!eventually([&] { return access((arguments.at(1) + ".go").c_str(), F_OK) == 0; })) return 5;
  std::string heard;
  ripc_status status = RIPC_OK;
  const bool sent = eventually([&] {
    status = send_short(service, kService, 1);
    const std::string name = ripc_status_name(status);
    if (heard.find(name) == std::string::npos) heard += name + " ";
    return status == RIPC_OK;
  });
  std::ofstream(arguments.at(1)) << heard;
  if (!sent) return 3;
  for (const char* allowed :
       {"RIPC_OK ", "RIPC_TIMEOUT ", "RIPC_NO_DESCRIPTORS ", "RIPC_REFUSED ", "RIPC_AGAIN ", "RIPC_PEER_DEAD "}) {
    if (const std::size_t at = heard.find(allowed); at != std::string::npos) heard.erase(at, std::strlen(allowed));
  }
  if (!heard.empty()) std::fprintf(stderr, "the newcomer heard %s\n", heard.c_str());
  return heard.empty() ? 0 : 4;
}

// ---- Memory ------------------------------------------------------------------------------------------------------

TEST(Memory, ThePoolEndsAtItsLimitAndLeasesAgainWhenSomeIsGivenBack) {
  const TemporaryDirectory directory;
  const Context context = make_context(directory.path(), 64 << 20);
  ASSERT_TRUE(context);
  std::vector<void*> leases;
  ripc_status status = RIPC_OK;
  for (;;) {
    void* data = nullptr;
    status = ripc_buffer_lease(context.get(), 4 << 20, &data);
    if (status != RIPC_OK) break;
    leases.push_back(data);
    ASSERT_LE(leases.size(), 16u);
  }
  EXPECT_EQ(status, RIPC_NO_MEMORY) << ripc_last_error();
  ASSERT_GE(leases.size(), 8u);
  EXPECT_GT(pool_statistics_of(context).failures, 0u);
  ASSERT_EQ(ripc_buffer_release(context.get(), leases.back()), RIPC_OK);
  leases.pop_back();
  void* data = nullptr;
  EXPECT_EQ(ripc_buffer_lease(context.get(), 4 << 20, &data), RIPC_OK) << ripc_last_error();
  leases.push_back(data);
  for (void* const lease : leases) EXPECT_EQ(ripc_buffer_release(context.get(), lease), RIPC_OK);
  EXPECT_EQ(pool_statistics_of(context).leased, 0u);
}

TEST(Memory, WithoutAddressSpaceALeaseAndANewPeerFailAndWorkLater) {
  if (kSanitized) GTEST_SKIP() << "sanitizers reserve the address space themselves";
  const TemporaryDirectory directory;
  Process peer = Process::forked([&] {
    const Context context = make_context(directory.path());
    const Service service =
        make_service(context, kPeer, [](ripc_service_options& options) { options.queue_bytes = 64 << 20; });
    ASSERT_TRUE(service);
    EXPECT_TRUE(receive(service, 2 * kLimit));
  });
  ASSERT_TRUE(eventually([&] { return names_in(directory.path() + "/services").size() == 1; }));
  in_child([&] {
    const Context context = make_context(directory.path());
    const Service service = make_service(context, kService);
    ASSERT_TRUE(service);
    // Make beforehand what can be made, so that only large allocations meet the limit.
    EXPECT_EQ(send_short(service, 99999, 1), RIPC_NO_SERVICE);
    rlimit before{};
    getrlimit(RLIMIT_AS, &before);
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit tight{pages * 4096 + (8 << 20), before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
    void* data = nullptr;
    const ripc_status leased = ripc_buffer_lease(context.get(), 32 << 20, &data);
    const ripc_status sent = send_short(service, kPeer, 1);
    ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
    EXPECT_EQ(leased, RIPC_NO_MEMORY);
    EXPECT_EQ(sent, RIPC_NO_MEMORY);
    EXPECT_EQ(ripc_buffer_lease(context.get(), 32 << 20, &data), RIPC_OK) << ripc_last_error();
    EXPECT_EQ(ripc_buffer_release(context.get(), data), RIPC_OK);
    EXPECT_EQ(send_short(service, kPeer, 1), RIPC_OK) << ripc_last_error();
  });
  EXPECT_EQ(peer.wait(), 0);
}

// ---- Disk --------------------------------------------------------------------------------------------------------

TEST(Disk, AFullRuntimeDirectoryIsSaidAndIsNoTroubleWhenThereIsRoomAgain) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can mount a small file system";
  const TemporaryDirectory directory;
  Process process = Process::forked([&] {
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", directory.path().c_str(), "tmpfs", 0, "size=32k,nr_inodes=10,mode=700") != 0)
      _exit(77);
    // Used inodes: the root, contexts, services, and what follows.
    const Context first = make_context(directory.path());
    const Service service = make_service(first, kService);
    ASSERT_TRUE(service);
    std::vector<std::string> fillers;
    for (int number = 0; number < 20; ++number) {
      const std::string name = directory.path() + "/filler" + std::to_string(number);
      std::ofstream file(name);
      if (!file) break;
      fillers.push_back(name);
    }
    ASSERT_FALSE(fillers.empty());
    ripc_context_options options = context_options(directory.path());
    ripc_context* context = nullptr;
    EXPECT_EQ(ripc_context_create(&options, &context), RIPC_NO_MEMORY) << ripc_last_error();
    ripc_service* another = nullptr;
    EXPECT_EQ(ripc_service_register(first.get(), nullptr, &another), RIPC_NO_MEMORY) << ripc_last_error();
    for (const std::string& name : fillers) unlink(name.c_str());
    // Nothing half-made is left, and everything works.
    EXPECT_EQ(names_in(directory.path() + "/contexts").size(), 1u);
    EXPECT_EQ(names_in(directory.path() + "/services").size(), 1u);
    const Context second = make_context(directory.path());
    const Service peer = make_service(second, kPeer);
    ASSERT_TRUE(peer);
    EXPECT_EQ(exchange(service, peer, 1), "");
  });
  const int status = process.wait();
  if (status == 77) GTEST_SKIP() << "this machine does not let root mount a file system";
  EXPECT_EQ(status, 0);
}

// ---- Queues and stopped processes --------------------------------------------------------------------------------

// Arguments DIRECTORY: receives for ever, checks each message, and answers a message with tag 9 to kService.
int slow_reader(const std::vector<std::string>& arguments) {
  const Context context = make_context(arguments.at(0));
  const Service service =
      make_service(context, kPeer, [](ripc_service_options& options) { options.queue_messages = 16; });
  if (!service || send_short(service, kService, 1) != RIPC_OK) return 1;
  for (;;) {
    const Message message = receive(service, kLimit, RIPC_RECEIVE_LEND);
    if (!message) continue;  // a signal ends a wait
    if (!flaw_of(message.get()).empty()) return 2;
    if (ripc_message_get_tag(message.get()) == 9 && send_short(service, kService, 9, 64, 9) != RIPC_OK) return 3;
  }
}

TEST(Stopped, ItsSendersHearAgainAndTimeoutsOthersAreUndisturbedAndAllResumes) {
  const TemporaryDirectory directory;
  const Context context = make_context(directory.path(), 64 << 20);
  const Service service = make_service(context, kService);
  const Context other_context = make_context(directory.path());
  const Service other = make_service(other_context, kOther);
  ASSERT_TRUE(service && other);
  Process peer("slow_reader", {directory.path()});
  ASSERT_TRUE(receive(service));
  ASSERT_EQ(send_short(service, kPeer, 1), RIPC_OK) << ripc_last_error();
  ASSERT_EQ(exchange(service, other, 1), "");
  peer.signal(SIGSTOP);
  // The peer may take some messages until the kernel has stopped it.
  std::vector<std::byte> bytes = make_item(30000, 2);
  const ripc_item item{bytes.data(), bytes.size(), RIPC_ITEM_LONG, 0};
  ripc_send_options options;
  ripc_send_options_init(&options);
  options.timeout = 50 * kMillisecond;
  ripc_ticket* ticket = nullptr;
  ASSERT_TRUE(eventually([&] { return support::state_of_process(peer.pid()) == 'T'; }));
  ASSERT_EQ(ripc_send(service.get(), kPeer, &item, 1, &options, &ticket), RIPC_OK) << ripc_last_error();
  const Ticket owned(ticket);
  ripc_status status = RIPC_OK;
  int sent = 0;
  while ((status = send_short(service, kPeer, 3)) == RIPC_OK) ASSERT_LT(++sent, 100);
  EXPECT_EQ(status, RIPC_AGAIN);
  EXPECT_EQ(ripc_wait_room(service.get(), kPeer, 10 * kMillisecond), RIPC_TIMEOUT);
  EXPECT_EQ(ripc_ticket_wait(ticket, kLimit), RIPC_TIMEOUT);
  for (std::uint64_t round = 0; round < 100; ++round) ASSERT_EQ(exchange(service, other, round), "");
  peer.signal(SIGCONT);
  ASSERT_EQ(ripc_wait_room(service.get(), kPeer, kLimit), RIPC_OK) << ripc_last_error();
  ASSERT_TRUE(eventually([&] { return send_short(service, kPeer, 4, 64, 9) == RIPC_OK; }));
  const Message answer = receive(service);
  ASSERT_TRUE(answer) << "it goes on where it was stopped";
  EXPECT_EQ(ripc_message_get_tag(answer.get()), 9u);
}

TEST(Queues, ManySendersOverAFullQueueLoseNothing) {
  constexpr int kSenders = 12;
  constexpr std::uint64_t kMessages = 400;
  const TemporaryDirectory directory;
  const Context context = make_context(directory.path());
  const Service service = make_service(context, kService, [](ripc_service_options& options) {
    options.queue_messages = 16;
    options.queue_bytes = 4096;
  });
  ASSERT_TRUE(service);
  // Half of the senders share a context, and so a queue; the others have their own.
  const Context shared_context = make_context(directory.path());
  std::atomic<int> failures{0};
  std::atomic<std::uint64_t> again{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < kSenders; ++number) {
    threads.emplace_back([&, number] {
      Context own = number % 2 == 0 ? make_context(directory.path()) : nullptr;
      const Service sender = make_service(own ? own : shared_context, 2000 + static_cast<ripc_service_id>(number));
      if (!sender) {
        ++failures;
        return;
      }
      for (std::uint64_t index = 0; index < kMessages;) {
        const ripc_status status =
            send_short(sender, kService, index, 24 + index % 1000, static_cast<std::uint32_t>(index));
        if (status == RIPC_OK) {
          ++index;
        } else if (status == RIPC_AGAIN) {
          ++again;
          const ripc_status room = ripc_wait_room(sender.get(), kService, kLimit);
          if (room != RIPC_OK) {
            ++failures;
            return;
          }
        } else {
          ++failures;
          return;
        }
      }
      // The context must live until everything was taken: the receiver drops nothing, but reads at its own pace.
      (void)eventually(
          [&] { return statistics_of(service).messages_received == kSenders * kMessages || failures != 0; });
    });
  }
  std::array<std::uint64_t, kSenders> next{};
  std::uint64_t received = 0;
  while (received < kSenders * kMessages && failures == 0) {
    const Message message = receive(service, kLimit);
    if (!message) break;
    ++received;
    EXPECT_EQ(flaw_of(message.get()), "");
    const std::size_t from = ripc_message_get_source(message.get()) - 2000;
    if (from >= kSenders) {
      ADD_FAILURE() << "a message from nobody";
      break;
    }
    EXPECT_EQ(ripc_message_get_tag(message.get()), next[from]++) << "in order";
  }
  if (received != kSenders * kMessages) ++failures;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(received, kSenders * kMessages);
  EXPECT_EQ(failures, 0);
  EXPECT_GT(again, 0u) << "the queue was never full";
}

}  // namespace
}  // namespace fault

int main(int argc, char** argv) {
  return fault::run(argc, argv, {{"newcomer", fault::newcomer}, {"slow_reader", fault::slow_reader}});
}
