// SPDX-License-Identifier: Apache-2.0
// Measures how one receiver shares its room among senders that send as fast as they can. Each sender is a process.
//
//   bench_fairness [SENDERS [SECONDS [TRANSPORT]]]      default: 10 senders, 3 seconds, socket
//
// Prints one JSON object: messages received in total and per second, and the lowest and highest count of one sender. It
// also has Jain's index of the shares (1: all equal; 1/SENDERS: one has everything). `lost` counts gaps in the senders'
// sequence numbers, and must be 0.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "ripc/ripc.hpp"
#include "support/cluster_key.hpp"

namespace {

using Clock = std::chrono::steady_clock;

struct Payload {
  std::uint64_t sender;
  std::uint64_t sequence;
};

struct Share {
  std::uint64_t received = 0;
  std::uint64_t expected = 0;  // the next sequence number
};

// Sends until the process is killed.
[[noreturn]] void send_for_ever(std::uint64_t index, ripc::ServiceId to, const ripc::ContextOptions& options) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto context = ripc::Context::create(options);
  if (!context.ok()) _exit(1);
  auto service = context->register_service();
  if (!service.ok()) _exit(1);
  for (Payload payload{index, 0};;) {
    const auto sent = service->send(to, {ripc::short_item(std::as_bytes(std::span(&payload, 1)))});
    if (sent.ok()) {
      ++payload.sequence;
    } else if (sent.code() != RIPC_AGAIN || !service->wait_room(to, std::chrono::seconds(10)).ok()) {
      std::fprintf(stderr, "bench_fairness: sender %llu: %s\n", static_cast<unsigned long long>(index),
                   std::string(sent.error().text()).c_str());
      _exit(1);
    }
  }
}

// Counts messages for `duration`, which begins with the first message of the last sender to start.
ripc::Error count(ripc::Service& service, std::chrono::seconds duration, std::vector<Share>& shares,
                  std::uint64_t& lost) {
  std::vector<ripc::Message> messages(64);
  std::size_t begun = 0;
  Clock::time_point end = Clock::now() + std::chrono::seconds(60);
  while (Clock::now() < end) {
    const auto batch = service.receive_many(messages, std::chrono::seconds(5));
    if (!batch.ok()) return batch.error();
    for (std::size_t index = 0; index < *batch; ++index) {
      Payload payload{};
      std::memcpy(&payload, messages[index].item(0).bytes().data(), sizeof payload);
      Share& share = shares.at(payload.sender);
      if (share.expected == 0 && ++begun == shares.size()) {
        for (Share& each : shares) each.received = 0;
        end = Clock::now() + duration;
      }
      lost += payload.sequence - share.expected;
      share.expected = payload.sequence + 1;
      ++share.received;
    }
  }
  return begun == shares.size() ? ripc::Error() : ripc::Error(RIPC_TIMEOUT);
}

}  // namespace

int main(int argument_count, char** arguments) {
  support::use_cluster_key();
  const auto senders = static_cast<std::size_t>(argument_count > 1 ? std::atoi(arguments[1]) : 10);
  const std::chrono::seconds duration(argument_count > 2 ? std::atoi(arguments[2]) : 3);
  ripc::ContextOptions options;
  options.transports = argument_count > 3 ? arguments[3] : "socket";
  if (senders < 1 || senders > 1000 || duration.count() < 1) {
    std::fputs("usage: bench_fairness [SENDERS [SECONDS [TRANSPORT]]]\n", stderr);
    return 2;
  }
  const ripc::ServiceId id = 1'000'000 + static_cast<ripc::ServiceId>(getpid());
  std::vector<pid_t> children;
  auto receiver = [&]() -> ripc::Error {
    auto context = ripc::Context::create(options);
    if (!context.ok()) return context.error();
    auto service = context->register_service({.id = id});
    if (!service.ok()) return service.error();
    // The forked children do not use this context: each makes its own.
    for (std::uint64_t index = 0; index < senders; ++index) {
      const pid_t child = fork();
      if (child == 0) send_for_ever(index, id, options);
      if (child > 0) children.push_back(child);
    }
    std::vector<Share> shares(senders);
    std::uint64_t lost = 0;
    auto counted = count(*service, duration, shares, lost);
    // The senders end before the service does, because they would report errors without it.
    for (const pid_t child : children) kill(child, SIGKILL);
    for (const pid_t child : children) waitpid(child, nullptr, 0);
    if (!counted.ok()) return counted;
    double sum = 0;
    double squares = 0;
    for (const Share& share : shares) {
      const auto received = static_cast<double>(share.received);
      sum += received;
      squares += received * received;
    }
    const auto [least, most] =
        std::minmax_element(shares.begin(), shares.end(),
                            [](const Share& one, const Share& other) { return one.received < other.received; });
    std::printf(
        "{\"senders\": %zu, \"transport\": \"%s\", \"seconds\": %lld, \"messages\": %.0f, \"messages_per_second\": "
        "%.0f, "
        "\"least\": %llu, \"most\": %llu, \"jain\": %.4f, \"lost\": %llu}\n",
        senders, options.transports.c_str(), static_cast<long long>(duration.count()), sum,
        sum / static_cast<double>(duration.count()), static_cast<unsigned long long>(least->received),
        static_cast<unsigned long long>(most->received),
        sum * sum / (static_cast<double>(senders) * std::max(squares, 1.0)), static_cast<unsigned long long>(lost));
    return lost == 0 ? ripc::Error() : ripc::Error(RIPC_CORRUPT);
  }();
  if (!receiver.ok()) std::fprintf(stderr, "bench_fairness: %s\n", std::string(receiver.text()).c_str());
  return receiver.ok() ? 0 : 1;
}
