// SPDX-License-Identifier: Apache-2.0
// Scale test: 1,000 services in one process, and 200 processes that talk to them. Prints what a peer costs. Checks that
// everything arrives, and bounds the memory that the two sides of an idle peer share.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>

#include "fault_support.hpp"
#include "support/process_state.hpp"

namespace fault {
namespace {

constexpr std::size_t kServices = 1000;
constexpr std::size_t kClients = 200;
constexpr std::size_t kServicesPerClient = kServices / kClients;
constexpr std::uint64_t kMessagesPerService = 4;
constexpr ripc_service_id kFirst = 10000;
constexpr std::size_t kMostPerPeer = 64 << 10;  // bytes of shared memory for both directions
constexpr std::uint64_t kPatience = 60 * kSecond;

struct Pipe {
  Pipe() {
    if (pipe2(ends.data(), O_CLOEXEC) != 0) ADD_FAILURE() << "no pipe";
  }
  ~Pipe() {
    close(ends[0]);
    close_writer();
  }
  void close_writer() {
    if (ends[1] >= 0) close(ends[1]);
    ends[1] = -1;
  }
  std::array<int, 2> ends{-1, -1};
};

// Waits until the other side has written a byte or closed its end.
void wait_for_byte(int fd) {
  char byte = 0;
  while (::read(fd, &byte, 1) < 0 && errno == EINTR) {
  }
}

int talk(const Service& service, ripc_service_id to) {
  for (std::uint64_t index = 0; index < kMessagesPerService; ++index) {
    ripc_status status = RIPC_OK;
    // With so many clients at once, the server may be too busy to answer a new peer in time.
    if (!eventually(
            [&] {
              status = send_short(service, to, index);
              return status != RIPC_TIMEOUT && status != RIPC_AGAIN;
            },
            kPatience) ||
        status != RIPC_OK) {
      std::fprintf(stderr, "client: %s: %s\n", ripc_status_name(status), ripc_last_error());
      return 2;
    }
    const Message reply = receive(service, kPatience);
    if (!reply || !flaw_of(reply.get()).empty() || ripc_message_get_source(reply.get()) != to) return 3;
  }
  return 0;
}

// One client: talks to its first service, reports, waits, talks to the others, reports, and stays until told to go.
int client(std::size_t number, const std::string& directory, int done, int start, int second, int leave) {
  wait_for_byte(start);
  ripc_context_options options = context_options(directory);
  options.resolve_timeout = 10 * kSecond;
  ripc_context* raw = nullptr;
  if (ripc_context_create(&options, &raw) != RIPC_OK) return 1;
  const Context context(raw);
  const Service service = make_service(context, 0);
  if (!service) return 1;
  int status = talk(service, kFirst + number);
  const char byte = status == 0 ? '+' : '-';
  if (::write(done, &byte, 1) != 1) return 4;
  wait_for_byte(second);
  for (std::size_t index = 1; status == 0 && index < kServicesPerClient; ++index)
    status = talk(service, kFirst + number + index * kClients);
  const char last = status == 0 ? '+' : '-';
  if (::write(done, &last, 1) != 1) return 4;
  wait_for_byte(leave);
  return status;
}

// The bytes of libripc's shared memory that a process maps. Summed over all processes, each page counts once.
std::uint64_t shared_share(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/smaps");
  std::uint64_t sum = 0;
  bool ours = false;
  for (std::string line; std::getline(file, line);) {
    if (line.size() > 12 && line.find('-') != std::string::npos && line.find(" kB") == std::string::npos &&
        !line.starts_with("VmFlags")) {
      ours = line.find("memfd:ripc") != std::string::npos;
    } else if (ours && line.starts_with("Pss:")) {
      sum += std::stoull(line.substr(4)) * 1024;
    }
  }
  return sum;
}

// Answers everything until `expected` clients have said that they are finished. Returns how many succeeded.
std::size_t serve(const std::vector<Service>& services, int done, std::size_t expected) {
  std::size_t finished = 0;
  std::size_t good = 0;
  const std::vector<std::byte> bytes = make_item(64, 5);
  const ripc_item item{bytes.data(), bytes.size(), RIPC_ITEM_SHORT, 0};
  const std::uint64_t until = now() + 2 * kPatience;
  while (finished < expected && now() < until) {
    bool idle = true;
    for (const Service& service : services) {
      while (const Message message = receive(service, 0)) {
        idle = false;
        EXPECT_EQ(flaw_of(message.get()), "");
        ripc_status status = RIPC_OK;
        EXPECT_TRUE(eventually([&] {
          status = ripc_reply(service.get(), message.get(), &item, 1, nullptr, nullptr);
          return status != RIPC_TIMEOUT && status != RIPC_AGAIN;
        }));
        EXPECT_EQ(status, RIPC_OK) << ripc_last_error();
      }
    }
    pollfd readable{done, POLLIN, 0};
    while (::poll(&readable, 1, idle ? 1 : 0) == 1 && (readable.revents & POLLIN) != 0) {
      char byte = 0;
      if (::read(done, &byte, 1) != 1) break;
      ++finished;
      if (byte == '+') ++good;
      if (finished == expected) break;
    }
  }
  return good;
}

TEST(Scale, AThousandServicesAndTwoHundredProcesses) {
  raise_descriptor_limit(65536);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < 8192) GTEST_SKIP() << "needs 8192 descriptors: raise the hard limit (ulimit -Hn)";
  const TemporaryDirectory directory;
  Pipe done, start, second, leave;
  // Forked before any thread or context exists here.
  std::vector<Process> clients;
  for (std::size_t number = 0; number < kClients; ++number) {
    clients.push_back(Process::forked([&] {
      start.close_writer();
      second.close_writer();
      leave.close_writer();
      if (client(number, directory.path(), done.ends[1], start.ends[0], second.ends[0], leave.ends[0]) != 0)
        ADD_FAILURE() << "client " << number;
    }));
    ASSERT_GT(clients.back().pid(), 0);
  }

  const std::uint64_t begin = now();
  const Context context = make_context(directory.path());
  ASSERT_TRUE(context);
  std::vector<Service> services;
  for (std::size_t number = 0; number < kServices; ++number) {
    services.push_back(make_service(context, kFirst + number));
    ASSERT_TRUE(services.back()) << number;
  }
  const std::uint64_t registered = now();
  const std::size_t descriptors = descriptor_count();
  const std::uint64_t memory = support::memory_of("Pss:");
  const std::uint64_t shared = shared_share(getpid());

  // Every client talks to one service, both ways.
  start.close_writer();
  ASSERT_EQ(serve(services, done.ends[0], kClients), kClients);
  const std::uint64_t connected = now();
  std::uint64_t shared_sum = shared_share(getpid());
  for (const Process& process : clients) shared_sum += shared_share(process.pid());
  // The sum also counts a page that does not belong to the peer: each client's state lines of its own service.
  const std::uint64_t per_peer = (shared_sum - shared) / kClients;
  std::printf("1,000 services: %.2f s, %.1f KiB and %.2f descriptors each\n",
              static_cast<double>(registered - begin) / 1e9, static_cast<double>(memory) / 1024 / kServices,
              static_cast<double>(descriptors) / kServices);
  std::printf(
      "200 peers, both ways: %.2f s; shared memory of both sides %.1f KiB per idle peer; server: "
      "Pss %.1f KiB, private %.1f KiB and %.2f descriptors per peer\n",
      static_cast<double>(connected - registered) / 1e9, static_cast<double>(per_peer) / 1024,
      static_cast<double>(support::memory_of("Pss:") - memory) / 1024 / kClients,
      static_cast<double>(support::memory_of("Private_Dirty:")) / 1024 / kClients,
      static_cast<double>(descriptor_count() - descriptors) / kClients);
  EXPECT_GT(per_peer, 0u);
  EXPECT_LE(per_peer, kMostPerPeer);

  // Then each client talks to the rest of its services.
  second.close_writer();
  ASSERT_EQ(serve(services, done.ends[0], kClients), kClients);
  std::printf("1,000 links: %.2f s\n", static_cast<double>(now() - connected) / 1e9);
  std::uint64_t received = 0;
  for (const Service& service : services) {
    const ripc_service_statistics statistics = statistics_of(service);
    EXPECT_EQ(statistics.messages_received, kMessagesPerService);
    received += statistics.messages_received;
  }
  EXPECT_EQ(received, kServices * kMessagesPerService);
  leave.close_writer();
  for (Process& process : clients) EXPECT_EQ(process.wait(kPatience), 0);
  // All clients are gone: the server holds what it held before.
  EXPECT_TRUE(eventually([&] {
    for (const Service& service : services) (void)receive(service, 0);
    return descriptor_count() <= descriptors;
  })) << descriptor_count()
      << " descriptors, " << descriptors << " before";
}

}  // namespace
}  // namespace fault

int main(int argc, char** argv) { return fault::run(argc, argv, {}); }
