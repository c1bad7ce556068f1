// SPDX-License-Identifier: Apache-2.0
// soak [MINUTES]: mixed traffic between two processes for a long time (60 minutes unless told otherwise). The other
// process is killed and started again every few seconds. Prints one line a minute; the exit status is 1 as soon as
// something arrives torn, or memory, descriptors or threads have grown since the first minute.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "fault_support.hpp"
#include "traffic.hpp"

namespace fault {
namespace {

constexpr ripc_service_id kHere = 1001;
constexpr ripc_service_id kThere = 1002;
constexpr std::uint64_t kPool = 256 << 20;
constexpr std::uint64_t kLifeTime = 5 * kSecond;
constexpr std::size_t kMayGrow = 32 << 20;  // bytes that allocators may keep

// Arguments DIRECTORY SEED TRANSPORT.
int other(const std::vector<std::string>& arguments) {
  const Context context = make_context(arguments.at(0), kPool, arguments.at(2).c_str());
  const Service service = make_service(context, kThere, [](ripc_service_options& options) { options.takeover = 1; });
  if (!service) return 1;
  Traffic traffic(context.get(), service.get(), kHere, std::stoull(arguments.at(1)));
  while (traffic.step() && traffic.flaw().empty()) {
  }
  if (!traffic.flaw().empty()) std::fprintf(stderr, "soak: the other process: %s\n", traffic.flaw().c_str());
  return traffic.flaw().empty() ? 0 : 2;
}

int soak(std::uint64_t minutes, const std::string& transport) {
  const TemporaryDirectory directory;
  const Context context = make_context(directory.path(), kPool, transport.c_str());
  const Service service = make_service(context, kHere);
  if (!service) return 1;
  Random random(number_from_environment("RIPC_FAULT_SEED", 1));
  std::size_t first_memory = 0, first_descriptors = 0, first_threads = 0;
  std::uint64_t messages = 0;
  std::uint64_t lives = 0;
  const std::uint64_t begin = now();
  for (std::uint64_t minute = 1; minute <= minutes; ++minute) {
    while (now() < begin + minute * 60 * kSecond) {
      Process process("other", {directory.path(), std::to_string(random.next()), transport});
      ++lives;
      Traffic traffic(context.get(), service.get(), kThere, random.next());
      const std::uint64_t until = now() + kLifeTime / 2 + random.below(kLifeTime);
      while (now() < until && traffic.flaw().empty()) (void)traffic.step();
      process.kill();
      const bool gone = eventually([&] {
        traffic.receive_all();
        return statistics_of(service).senders == 0;
      });
      const bool settled = traffic.settle();
      messages += traffic.received() + traffic.sent();
      if (!traffic.flaw().empty() || !gone || !settled) {
        std::printf("FAILED: %s%s%s\n", traffic.flaw().c_str(), gone ? "" : " the queue of a dead process stays",
                    settled ? "" : " a ticket never ends");
        return 1;
      }
    }
    const bool returned = eventually([&] { return pool_statistics_of(context).leased == 0; });
    const std::size_t memory = resident_bytes();
    const std::size_t descriptors = descriptor_count();
    const std::size_t threads = thread_count();
    std::printf(
        "minute %llu: %llu messages, %llu lives, %zu KiB resident, %zu descriptors, %zu threads, %zu mappings, "
        "%llu bytes leased\n",
        static_cast<unsigned long long>(minute), static_cast<unsigned long long>(messages),
        static_cast<unsigned long long>(lives), memory / 1024, descriptors, threads, mapping_count(),
        static_cast<unsigned long long>(pool_statistics_of(context).leased));
    std::fflush(stdout);
    if (minute == 1) {
      first_memory = memory;
      first_descriptors = descriptors;
      first_threads = threads;
    }
    if (!returned || memory > first_memory + kMayGrow || descriptors > first_descriptors + 2 ||
        threads > first_threads) {
      std::printf("FAILED: it has grown since the first minute\n");
      return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace fault

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]).starts_with("--role="))
    return fault::run(argc, argv, {{"other", fault::other}});
  const std::uint64_t minutes = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 60;
  const std::string transport = argc > 2 ? argv[2] : "shm";
  if (minutes == 0 || argc > 3 || (transport != "shm" && transport != "socket")) {
    std::fprintf(stderr, "usage: %s [MINUTES [shm|socket]]\n", argv[0]);
    return 2;
  }
  return fault::soak(minutes, transport);
}
