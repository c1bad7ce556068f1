// SPDX-License-Identifier: Apache-2.0
#include "bench/pair.hpp"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <new>
#include <type_traits>

#include "bench/ticks.hpp"

namespace cli::bench {

ripc::Error system_error(const char* what) {
  return {RIPC_SYSTEM, std::string(what) + ": " + std::strerror(errno) + "."};
}

namespace {

constexpr auto kPatience = std::chrono::seconds(5);

// Reaps the child; kills it first if it does not end by itself.
bool wait_for_child(pid_t child) {
  const std::uint64_t started = monotonic_now();
  bool killed = false;
  int status = 0;
  while (true) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) return WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (ended < 0 && errno != EINTR) return false;
    if (!killed &&
        monotonic_now() - started > static_cast<std::uint64_t>(std::chrono::nanoseconds(kPatience).count())) {
      kill(child, SIGKILL);
      killed = true;
    }
    constexpr int kPauseMilliseconds = 5;
    poll(nullptr, 0, kPauseMilliseconds);
  }
}

// Spins without a pause, which would add to the measured time. Yields the processor if the other side is not running at
// all. False: the other side has ended.
bool spin_until(const Side& side, const std::atomic<std::uint64_t>& line, std::uint64_t value) noexcept {
  constexpr int kRounds = 1 << 16;
  while (true) {
    for (int round = 0; round < kRounds; ++round)
      if (line.load(std::memory_order_acquire) == value) return true;
    // It says nothing else before it has written the value.
    if (side.control.has_said()) return line.load(std::memory_order_acquire) == value;
    sched_yield();
  }
}

template <typename Call>
std::invoke_result_t<Call> try_patiently(Library& library, Call call) {
  while (true) {
    auto sent = call();
    if (sent.code() != RIPC_AGAIN) return sent;
    const ripc::Error error = library.service.wait_room(library.peer, kPatience);
    if (!error.ok() && error.code() != RIPC_INTERRUPTED) return error;
  }
}

}  // namespace

bool Control::send(const Order& order) const noexcept {
  return ::send(fd_, &order, sizeof(order), MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof(order));
}

std::optional<Order> Control::receive() const noexcept {
  constexpr int kMinute = 60'000;
  pollfd ready = {fd_, POLLIN, 0};
  int count = 0;
  do {
    count = poll(&ready, 1, kMinute);
  } while (count < 0 && errno == EINTR);
  Order order;
  if (count <= 0 || recv(fd_, &order, sizeof(order), 0) != static_cast<ssize_t>(sizeof(order))) return std::nullopt;
  return order;
}

bool Control::has_said() const noexcept {
  pollfd ready = {fd_, POLLIN, 0};
  return poll(&ready, 1, 0) != 0;
}

void Control::close() noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

std::vector<int> allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> result;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return result;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor)
    if (CPU_ISSET(static_cast<std::size_t>(processor), &set)) result.push_back(processor);
  return result;
}

std::uint64_t processor_time() noexcept {
  timespec time{};
  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

void pin_to(int processor) noexcept {
  if (processor < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(processor), &set);
  (void)sched_setaffinity(0, sizeof(set), &set);
}

BenchResult run_pair(const BenchOptions& options, const std::function<ripc::Error(Side&)>& other,
                     const std::function<BenchResult(Side&)>& measure) {
  std::array<int, 2> sockets{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()) != 0) return system_error("socketpair");
  void* memory = mmap(nullptr, sizeof(SharedLines), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return system_error("mmap");
  auto* shared = new (memory) SharedLines;
  const std::vector<int> processors = allowed_processors();
  const bool pin = options.pin && processors.size() >= 2;
  cpu_set_t before;
  CPU_ZERO(&before);
  (void)sched_getaffinity(0, sizeof(before), &before);

  std::fflush(stdout);
  std::fflush(stderr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return system_error("fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    ::close(sockets[0]);
    Side side{Control(sockets[1]), shared, pin ? processors[1] : -1};
    const ripc::Error error = other(side);
    if (!error.ok()) print_error("the other side: " + std::string(error.text()));
    std::fflush(stderr);
    _exit(error.ok() ? 0 : 1);
  }
  ::close(sockets[1]);
  Side side{Control(sockets[0]), shared, pin ? processors[0] : -1};
  BenchResult result = measure(side);
  side.control.close();
  const bool ended_well = wait_for_child(child);
  (void)sched_setaffinity(0, sizeof(before), &before);
  munmap(memory, sizeof(SharedLines));
  if (!result.ok()) return result;
  if (!ended_well) return other_side_ended();
  (*result)["pinned"] = pin ? Json{processors[0], processors[1]} : Json(nullptr);
  if (!result->contains("iterations")) (*result)["iterations"] = options.iterations;
  return result;
}

ripc::Result<Library> open_library(const Side& side, const BenchOptions& options) {
  ripc::ContextOptions context_options = options.context();
  // Longer than any round trip, but not for ever: on a busy machine the two sides may only ever run at different times.
  constexpr std::chrono::milliseconds kLongSpin{5};
  if (options.wait == "spin") context_options.spin = kLongSpin;
  if (options.wait == "block") context_options.spin = ripc::kNoWait;
  auto context = ripc::Context::create(context_options);
  if (!context.ok()) return context.error();
  ripc::ServiceOptions service_options;
  service_options.queue_messages = options.queue_messages;
  service_options.queue_bytes = options.queue_bytes;
  auto service = context->register_service(service_options);
  if (!service.ok()) return service.error();
  Library library{*std::move(context), *std::move(service), 0, options.kind};
  Order hello;
  hello.kind = library.service.id();
  if (!side.control.send(hello)) return other_side_ended();
  const auto answer = side.control.receive();
  if (!answer) return other_side_ended();
  library.peer = answer->kind;
  auto limit = library.service.short_limit(library.peer);
  if (!limit.ok()) return limit.error();
  if (options.kind == "auto") library.kind = options.size <= *limit ? "short" : "long";
  pin_to(side.processor);
  return library;
}

ripc::Item payload_item(const BenchOptions& options, ripc::Bytes bytes) noexcept {
  if (options.kind == "auto") return ripc::item(bytes);
  return options.kind == "short" ? ripc::short_item(bytes) : ripc::borrow(bytes);
}

ripc::Result<ripc::Ticket> send_patiently(Library& library, const ripc::Items& items,
                                          const ripc::SendOptions& options) {
  return try_patiently(library, [&] { return library.service.send(library.peer, items, options); });
}

ripc::Error send_many_patiently(Library& library, std::span<const ripc::OutgoingMessage> messages,
                                std::span<ripc::Ticket> tickets, const ripc::SendOptions& options) {
  while (!messages.empty()) {
    const auto sent =
        try_patiently(library, [&] { return library.service.send_many(library.peer, messages, tickets, options); });
    if (!sent.ok()) return sent.error();
    messages = messages.subspan(*sent);
    tickets = tickets.subspan(*sent);
  }
  return {};
}

ripc::Result<ripc::Ticket> reply_patiently(Library& library, const ripc::Message& message, const ripc::Items& items) {
  return try_patiently(library, [&] { return library.service.reply(message, items); });
}

// Both sides count rounds from the value that the last block left; between blocks the two lines are equal.
bool measure_cacheline(const Side& side, std::uint64_t count, std::vector<double>& samples) {
  static const TickClock clock;
  auto& [there, back] = *side.shared;
  std::uint64_t answer = back.load(std::memory_order_acquire);
  for (std::uint64_t round = 0; round < count; ++round) {
    const std::uint64_t start = clock.now();
    there.store(++answer, std::memory_order_release);
    if (!spin_until(side, back, answer)) return false;
    samples.push_back(clock.nanoseconds(clock.now() - start));
  }
  return true;
}

void answer_cacheline(const Side& side, std::uint64_t count) {
  auto& [there, back] = *side.shared;
  std::uint64_t answer = back.load(std::memory_order_acquire);
  for (std::uint64_t round = 0; round < count; ++round) {
    if (!spin_until(side, there, ++answer)) return;
    back.store(answer, std::memory_order_release);
  }
}

ripc::Error other_side_ended() {
  return {RIPC_PEER_DEAD, "The other side of the measurement has ended: its own message is above."};
}

}  // namespace cli::bench
