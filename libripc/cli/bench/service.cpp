// SPDX-License-Identifier: Apache-2.0
// Requests to a service that computes for some time for each of them: shows how the ways to wait perform under load.
// Clients send by the clock, whether answers come or not. An answer's time counts from the moment when its request was
// due.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "bench/options.hpp"
#include "bench/pair.hpp"
#include "bench/payload.hpp"
#include "bench/tally.hpp"

namespace cli::bench {
namespace {

constexpr std::uint32_t kLastRequest = 1;  // the tag of the message that ends the service
constexpr auto kAnswerPatience = std::chrono::seconds(2);
constexpr double kWarmUp = 0.1;  // of the duration

std::uint64_t to_nanoseconds(double seconds) { return static_cast<std::uint64_t>(seconds * 1e9); }

// Processes that compute and do nothing else, one for each processor in turn, until the end of the scope.
class Neighbours {
 public:
  explicit Neighbours(std::uint64_t count) {
    const std::vector<int> processors = allowed_processors();
    for (std::uint64_t index = 0; index < count; ++index) {
      const pid_t parent = getpid();
      const pid_t child = fork();
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        if (!processors.empty()) pin_to(processors[index % processors.size()]);
        for (volatile std::uint64_t counter = 0;;) counter = counter + 1;
      }
      if (child > 0) children_.push_back(child);
    }
  }
  ~Neighbours() {
    for (const pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  std::size_t count() const noexcept { return children_.size(); }

 private:
  std::vector<pid_t> children_;
};

// Takes a service's messages: in the calling thread, or (--wait thread) in one that hands them over.
class Intake {
 public:
  Intake(ripc::Service& service, const BenchOptions& options) : service_(service) {
    if (options.wait == "thread") thread_ = std::thread([this] { receive(); });
  }
  ~Intake() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    (void)service_.interrupt();
    thread_.join();
  }

  // RIPC_TIMEOUT or RIPC_EMPTY: no message came.
  ripc::Result<ripc::Message> take(std::chrono::nanoseconds timeout) {
    if (!thread_.joinable()) return service_.receive(timeout);
    std::unique_lock lock(mutex_);
    (void)came_.wait_for(lock, timeout, [this] { return !messages_.empty() || !error_.ok(); });
    if (messages_.empty()) return error_.ok() ? ripc::Error(RIPC_TIMEOUT) : error_;
    ripc::Message message = std::move(messages_.front());
    messages_.pop_front();
    return message;
  }

 private:
  void receive() {
    while (true) {
      auto message = service_.receive();
      const std::lock_guard lock(mutex_);
      if (ends_) return;
      if (message.ok()) {
        messages_.push_back(*std::move(message));
      } else if (message.code() != RIPC_INTERRUPTED) {
        error_ = message.error();
      }
      came_.notify_one();
      if (!error_.ok()) return;
    }
  }

  ripc::Service& service_;
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<ripc::Message> messages_;
  ripc::Error error_;
  bool ends_ = false;
  std::thread thread_;  // last: it uses the others
};

// ---- The service ---------------------------------------------------------------------------------------------

void compute(std::uint64_t duration) noexcept {
  if (duration == 0) return;
  const std::uint64_t end = monotonic_now() + duration;
  while (monotonic_now() < end) {
  }
}

// Answers each request with its payload. Reports before and after how much processor time it has used.
ripc::Error service_side(Side& side, const BenchOptions& options) {
  auto library = open_library(side, options);
  if (!library.ok()) return library.error();
  const auto service_time = static_cast<std::uint64_t>(options.service_time * 1000);
  Intake intake(library->service, options);
  if (!side.control.send({0, processor_time(), 0})) return {};
  while (true) {
    auto message = intake.take(kAnswerPatience);
    if (message.code() == RIPC_TIMEOUT) {
      if (side.control.has_said()) return {};  // the client's last request was lost, or it has died
      continue;
    }
    if (!message.ok()) return message.error();
    if (message->tag() == kLastRequest) break;
    compute(service_time);
    const ripc::Item question = ripc::short_item(message->item(0).bytes());
    auto ticket = library->service.reply(*message, question);
    while (ticket.code() == RIPC_AGAIN) {
      const ripc::Error error = library->service.wait_room(message->source(), kAnswerPatience);
      if (!error.ok() && error.code() != RIPC_INTERRUPTED) return error;
      ticket = library->service.reply(*message, question);
    }
    if (!ticket.ok()) return ticket.error();
  }
  (void)side.control.send({0, processor_time(), 0});
  (void)side.control.receive();
  return {};
}

// ---- The clients ---------------------------------------------------------------------------------------------

struct Request {
  std::uint64_t sequence;
  std::uint64_t due;
};

class Client {
 public:
  Client(ripc::Service& service, ripc::ServiceId to, const BenchOptions& options)
      : service_(service),
        to_(to),
        interval_(options.rate > 0 ? static_cast<double>(options.clients) * 1e9 / options.rate : 0),
        intake_(service, options),
        payload_(options.size) {}

  // Sends the requests that are due from `start` to `end`; those before `measured` are for warming up.
  ripc::Error run(std::uint64_t start, std::uint64_t measured, std::uint64_t end) {
    measured_ = measured;
    // Sleeps should end on time.
    prctl(PR_SET_TIMERSLACK, 1UL);
    std::uint64_t scheduled = 0;
    const auto due_at = [&] { return start + static_cast<std::uint64_t>(static_cast<double>(scheduled) * interval_); };
    while (true) {
      std::uint64_t now = monotonic_now();
      // In a closed loop a request is due when the last one is answered.
      std::uint64_t due = interval_ > 0 ? due_at() : under_way_.empty() ? now : end;
      bool is_full = false;
      while (due <= now && due < end && now < end && !is_full) {
        auto ticket = send(due);
        if (ticket.code() == RIPC_AGAIN) {
          is_full = true;
        } else if (!ticket.ok()) {
          return ticket.error();
        } else {
          ++scheduled;
          due = interval_ > 0 ? due_at() : end;
        }
      }
      if (now >= end) break;
      // When the queue is full, the next answer shows that there is room.
      const std::uint64_t until = is_full ? end : std::min(due, end);
      now = monotonic_now();
      if (const auto error = take(until > now ? until - now : 0); !error.ok() && error.code() != RIPC_TIMEOUT)
        return error;
    }
    if (interval_ > 0) unsent_ = static_cast<std::uint64_t>(static_cast<double>(end - start) / interval_) - scheduled;
    return finish();
  }

  std::vector<double> samples;  // nanoseconds from the time a request was due to its answer
  Tally tally;
  std::uint64_t last_answer = 0;
  std::uint64_t unsent() const noexcept { return unsent_; }

 private:
  ripc::Result<ripc::Ticket> send(std::uint64_t due) {
    fill_pattern(payload_, sequence_);
    auto ticket = service_.send(to_, ripc::short_item(payload_));
    if (ticket.ok()) under_way_.push_back({sequence_++, due});
    return ticket;
  }

  ripc::Error take(std::uint64_t timeout) {
    auto message = intake_.take(std::chrono::nanoseconds(timeout));
    if (!message.ok()) return message.code() == RIPC_EMPTY ? ripc::Error(RIPC_TIMEOUT) : message.error();
    last_answer = monotonic_now();
    const ripc::ItemView view = message->item(0);
    const std::uint64_t sequence = sequence_of(view.bytes());
    // Answers come in the order of the requests.
    while (!under_way_.empty() && under_way_.front().sequence < sequence) {
      under_way_.pop_front();
      ++tally.lost;
    }
    const bool is_due = !under_way_.empty() && under_way_.front().sequence == sequence;
    tally.check(is_due && view.size() == payload_.size() && check_pattern(view.bytes(), sequence));
    if (!is_due) return {};
    const std::uint64_t due = under_way_.front().due;
    under_way_.pop_front();
    if (due >= measured_) samples.push_back(static_cast<double>(last_answer - due));
    return {};
  }

  ripc::Error finish() {
    while (!under_way_.empty()) {
      const auto error = take(static_cast<std::uint64_t>(std::chrono::nanoseconds(kAnswerPatience).count()));
      if (error.code() == RIPC_TIMEOUT) break;
      if (!error.ok()) return error;
    }
    tally.lost += under_way_.size();
    return {};
  }

  ripc::Service& service_;
  const ripc::ServiceId to_;
  const double interval_;  // nanoseconds between requests; 0: closed loop
  Intake intake_;
  std::vector<std::byte> payload_;
  std::deque<Request> under_way_;
  std::uint64_t sequence_ = 0;
  std::uint64_t measured_ = 0;
  std::uint64_t unsent_ = 0;
};

BenchResult measure_service(Side& side, const BenchOptions& options) {
  auto library = open_library(side, options);
  if (!library.ok()) return library.error();
  std::vector<ripc::Service> services;
  for (std::uint64_t index = 1; index < options.clients; ++index) {
    auto service = library->context.register_service();
    if (!service.ok()) return service.error();
    if (const auto limit = service->short_limit(library->peer); !limit.ok()) return limit.error();
    services.push_back(*std::move(service));
  }
  const auto service_before = side.control.receive();
  if (!service_before) return other_side_ended();

  std::deque<Client> clients;
  for (std::uint64_t index = 0; index < options.clients; ++index)
    clients.emplace_back(index == 0 ? library->service : services[index - 1], library->peer, options);
  const std::uint64_t before = processor_time();
  const std::uint64_t start = monotonic_now();
  const std::uint64_t end = start + to_nanoseconds(options.duration);
  const std::uint64_t measured = start + to_nanoseconds(options.duration * kWarmUp);
  std::vector<ripc::Error> errors(clients.size());
  std::vector<std::thread> threads;
  for (std::size_t index = 1; index < clients.size(); ++index)
    threads.emplace_back([&, index] { errors[index] = clients[index].run(start, measured, end); });
  errors[0] = clients[0].run(start, measured, end);
  for (std::thread& thread : threads) thread.join();
  const std::uint64_t client_used = processor_time() - before;
  for (const ripc::Error& error : errors)
    if (!error.ok()) return error;

  const ripc::Item nothing = ripc::short_item({});
  if (auto ticket = send_patiently(*library, nothing, {.tag = kLastRequest}); !ticket.ok()) return ticket.error();
  const auto service_after = side.control.receive();
  if (!service_after) return other_side_ended();

  Tally tally;
  std::vector<double> samples;
  std::uint64_t unsent = 0;
  std::uint64_t last_answer = start;
  for (const Client& client : clients) {
    samples.insert(samples.end(), client.samples.begin(), client.samples.end());
    tally.lost += client.tally.lost;
    tally.corrupt += client.tally.corrupt;
    tally.checked += client.tally.checked;
    unsent += client.unsent();
    last_answer = std::max(last_answer, client.last_answer);
  }
  const auto answers = static_cast<double>(std::max<std::uint64_t>(tally.checked, 1));
  const double seconds = static_cast<double>(std::max(last_answer, end) - start) / 1e9;
  const auto server_seconds = static_cast<double>(service_after->count - service_before->count) / 1e9;
  const auto client_seconds = static_cast<double>(client_used) / 1e9;
  Json json;
  json["offered_messages_per_second"] = options.rate;
  json["messages_per_second"] = static_cast<double>(samples.size()) / (seconds * (1 - kWarmUp));
  json["latency_ns"] = percentiles(samples);
  json["service_processor_share"] = server_seconds / seconds;
  json["client_processor_share"] = client_seconds / seconds;
  json["service_processor_ns"] = server_seconds * 1e9 / answers;
  json["client_processor_ns"] = client_seconds * 1e9 / answers;
  json["unsent"] = static_cast<double>(unsent);
  json["iterations"] = tally.checked;
  tally.put(json);
  return json;
}

}  // namespace

BenchResult run_service(const BenchOptions& options) {
  BenchOptions actual = options;
  // The receiving thread may run on any free processor.
  if (options.wait == "thread") actual.pin = false;
  const Neighbours neighbours(options.neighbours);
  auto result = run_pair(
      actual, [&](Side& side) { return service_side(side, actual); },
      [&](Side& side) { return measure_service(side, actual); });
  if (!result.ok()) return result;
  (*result)["service_time_us"] = options.service_time;
  (*result)["clients"] = options.clients;
  (*result)["neighbours"] = neighbours.count();
  return result;
}

}  // namespace cli::bench
