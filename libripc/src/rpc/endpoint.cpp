// SPDX-License-Identifier: Apache-2.0
#include "rpc/endpoint.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "base/backoff.hpp"

namespace ripc::internal::rpc {

namespace {

// The most messages that are received together.
constexpr std::size_t kBatch = 32;
// After this long without a look, the endpoint takes all messages, up to kMostBatches, before it starts a handler: the
// message that cancels a request comes after that request.
constexpr Nanoseconds kAway = 1'000'000;
constexpr std::size_t kMostBatches = 256;
// The most handlers that one run() starts, so that it returns.
constexpr std::size_t kMostRuns = 64;
// While handlers run, messages are taken at least this often. So it is known how long a request has waited. A request
// whose time is over, or whose caller has cancelled, does not start.
constexpr Nanoseconds kTakePause = 20'000;
// The most messages that an endpoint refuses when it ends, so that a client that calls again and again does not hold it
// up.
constexpr std::size_t kMostRefused = 65536;
// A thread that waits for its call runs the endpoint itself if the thread that ran it stays away for this long. It
// checks for that less and less often.
constexpr Nanoseconds kAbsence = 1'000'000;
constexpr Nanoseconds kLongestAbsence = 16'000'000;
// How long an ending endpoint waits for long arguments that are on their way, so that their calls can be answered, and
// for room for answers.
constexpr Nanoseconds kLastPatience = 100'000'000;

}  // namespace

Endpoint::Endpoint(core::Service& service, const Options& options)
    : service_(service),
      messenger_(service),
      workers_(options.workers != 0 ? std::make_unique<Workers>(options.workers, options.worker_queue) : nullptr),
      recorder_(options.is_recorded ? std::make_unique<Recorder>() : nullptr),
      client_(std::make_shared<Client>(messenger_, options.client)),
      server_(std::make_shared<Server>(messenger_, workers_.get(), options.server)) {}

Result<std::unique_ptr<Endpoint>> Endpoint::create(core::Service& service, const Options& options) {
  std::unique_ptr<Endpoint> endpoint(new Endpoint(service, options));
  auto observer = std::make_shared<const std::function<void()>>(
      [client = std::weak_ptr(endpoint->client_), server = std::weak_ptr(endpoint->server_)] {
        if (const auto to = client.lock()) to->changed();
        if (const auto to = server.lock()) to->changed();
      });
  if (endpoint->workers_) {
    if (Status started = endpoint->workers_->start(); !started.ok()) return started;
  }
  if (!service.observe(std::move(observer)))
    return Status(RIPC_ID_IN_USE, "The service has an endpoint already: use that one, or destroy it first.");
  endpoint->observes_ = true;
  return endpoint;
}

Endpoint::~Endpoint() {
  (void)client_->end_all(RIPC_CLOSED);
  if (workers_) {
    // A worker may wait for a call that has ended now.
    is_wanted_.store(true, std::memory_order_relaxed);
    messenger_.wake();
    workers_->stop();
  }
  recorder_.reset();  // while requests can be refused
  server_->refuse_all();
  if (observes_) refuse_unread();
  server_->close();
  // Up to this point no other endpoint receives.
  if (observes_) service_.observe(nullptr);
}

void Endpoint::refuse_unread() noexcept {
  Nanoseconds now = messenger_.now();
  Arrival arrival(messenger_, now);
  const Deadline patience = Deadline::after(kLastPatience, now);
  std::array<core::Message*, kBatch> messages;
  for (std::size_t refused = 0; refused < kMostRefused; refused += kBatch) {
    std::size_t count = 0;
    now = messenger_.now();
    server_->progress(now);
    const Nanoseconds left = patience.remaining(now);
    const Nanoseconds until_due = elapsed(now, server_->next_due());
    const Nanoseconds timeout = server_->has_waiting()      ? std::min(left, until_due)
                                : service_.has_incomplete() ? left
                                                            : 0;
    (void)service_.receive(RIPC_RECEIVE_LEND, timeout, messages, count);
    for (core::Message* message : std::span(messages).first(count)) {
      wire::call::Header header;
      if (read_header(*message, header) == RIPC_OK && !is_for_client(header.kind)) {
        (void)server_->received(message, header, arrival);
      } else {
        core::MessagePool::release(message);
      }
    }
    const bool waits = server_->has_waiting() || service_.has_incomplete();
    if (count != 0 || (waits && !patience.expired())) continue;
    // Other messages wait behind them.
    if (!service_.refuse_incomplete()) return;
  }
}

void Endpoint::close() {
  is_closed_ = true;
  (void)client_->end_all(RIPC_CLOSED);
}

Status Endpoint::handle(std::uint32_t method, const Handler& handler) {
  if (handler.run != nullptr) return server_->handle(method, handler);
  if (!recorder_ || handler.is_for_workers)
    return Status(RIPC_INVALID_ARGUMENT, "There is no handler: give one, or set ripc_rpc_options.recorded.");
  return server_->handle(method, recorder_->handler(handler.user));
}

// The loan does not end with the call: the server may still hold the request.
Status Endpoint::begin(const CallRequest& request, std::uint64_t* name) {
  for (const ripc_item& item : request.items) {
    if (item.kind != RIPC_ITEM_LONG || request.loan_ended != nullptr) continue;
    if (const auto lent = core::LongSend::lend(service_.context().pool(), item, false); !lent.ok())
      return lent.status();
  }
  return client_->begin(request, name);
}

Status Endpoint::call(const CallRequest& request, std::uint64_t* name) {
  if (request.done != nullptr || !recorder_) return begin(request, name);
  Recorder::Expected& end = recorder_->expect(request.user);
  CallRequest recorded = request;
  recorded.done = &Recorder::ended;
  recorded.user = &end;
  Status begun = begin(recorded, name);
  if (!begun.ok()) recorder_->forget(end);
  return begun;
}

Status Endpoint::cancel(std::uint64_t name) {
  Status cancelled = client_->cancel(name);
  if (recorder_) messenger_.wake();  // it may have recorded an end
  return cancelled;
}

// ---- The thread that runs it ---------------------------------------------------------------------------------

Status Endpoint::run(Nanoseconds timeout, std::size_t& events) {
  events = 0;
  if (Status turn = enter(timeout); !turn.ok()) return turn;
  const Status status = run_some(timeout, events);
  leave();
  return status;
}

Status Endpoint::run_recorded(Nanoseconds timeout, std::span<Recorder::Event> events, std::size_t& count) {
  count = 0;
  if (!recorder_) return Status(RIPC_INVALID_ARGUMENT, "The endpoint records nothing: set ripc_rpc_options.recorded.");
  if (Status turn = enter(timeout); !turn.ok()) return turn;
  Status status;
  count = recorder_->take(events);
  if (count == 0) {
    std::size_t happened = 0;
    status = is_closed_ ? Status(RIPC_CLOSED) : run_some(timeout, happened);
    count = recorder_->take(events);
    if (count != 0) status = {};
  }
  leave();
  return status;
}

Status Endpoint::enter(Nanoseconds& timeout) noexcept {
  turn_mutex_.adopt();
  std::unique_lock lock(turn_mutex_);
  if (runner_ != std::thread::id{}) [[unlikely]] {
    if (Status taken = take_over(lock, timeout); !taken.ok()) return taken;
  }
  runner_ = last_runner_ = std::this_thread::get_id();
  ++turns_;
  return {};
}

// Handlers belong in the thread of run(), and not in a worker that waits for its own call.
Status Endpoint::take_over(std::unique_lock<BiasedMutex>& lock, Nanoseconds& timeout) noexcept {
  const Deadline deadline = Deadline::after(timeout, messenger_.now());
  ++wanting_;
  while (is_waiter_ && runner_ != std::this_thread::get_id()) {
    // A thread that does not wait finds the turn free when it comes next.
    last_runner_ = std::this_thread::get_id();
    is_wanted_.store(true, std::memory_order_relaxed);
    messenger_.wake();
    const Nanoseconds left = timeout == 0 ? 0 : deadline.remaining();
    if (left == 0) break;
    turn_changed_.wait_for(lock, std::chrono::nanoseconds(std::min(left, kAbsence)));
  }
  --wanting_;
  if (runner_ == std::thread::id{}) {
    if (timeout != 0) timeout = deadline.remaining();
    return {};
  }
  if (is_waiter_ && runner_ != std::this_thread::get_id()) return timeout == 0 ? RIPC_EMPTY : RIPC_TIMEOUT;
  return Status(RIPC_AGAIN, "Another thread runs this endpoint: one is enough.");
}

void Endpoint::leave() noexcept {
  const std::lock_guard lock(turn_mutex_);
  runner_ = std::thread::id{};
  is_wanted_.store(false, std::memory_order_relaxed);
  if (std::exchange(is_waiter_, false)) turn_changed_.notify_all();
}

bool Endpoint::is_run_here() noexcept {
  const std::lock_guard lock(turn_mutex_);
  return runner_ == std::this_thread::get_id();
}

Status Endpoint::run_some(Nanoseconds timeout, std::size_t& events) noexcept try {
  Nanoseconds now = messenger_.now();
  const Deadline deadline = Deadline::after(timeout, now);
  for (;; now = messenger_.now()) {
    takes_all_ = elapsed(std::exchange(looked_at_, now), now) > kAway;
    server_->progress(now);
    events += client_->progress(now);
    const bool is_due = timeout == 0 || events != 0 || server_->has_ready();
    const Nanoseconds until = is_due ? 0 : std::min({deadline.at(), client_->sleep_until(), server_->next_due()});
    ripc_status status = RIPC_OK;
    events += receive(events == 0 ? now : 0, until == UINT64_MAX ? until : until > now ? until - now : 0, status);
    if (events != 0 || (recorder_ && !recorder_->empty())) {
      if (status == RIPC_INTERRUPTED) service_.interrupt();  // is for the next run()
      return {};
    }
    if (status == RIPC_FENCED || status == RIPC_CLOSED) {
      // No more answers arrive here.
      events += client_->end_all(status);
      if (events != 0) return {};
    }
    if (status != RIPC_OK && status != RIPC_EMPTY && status != RIPC_TIMEOUT) return status;
    if (is_wanted_.load(std::memory_order_relaxed)) return {};
    if (timeout == 0) return RIPC_EMPTY;
    if (deadline.expired()) return RIPC_TIMEOUT;
  }
} catch (const std::bad_alloc&) {
  return RIPC_NO_MEMORY;
}

std::size_t Endpoint::receive(Nanoseconds began, Nanoseconds timeout, ripc_status& status) {
  std::size_t events = take_messages(began, timeout, status);
  for (std::size_t runs = 0; server_->has_ready() && runs < kMostRuns; ++runs) {
    const Nanoseconds now = runs == 0 && received_at_ != 0 ? received_at_ : messenger_.now();
    server_->run_next(now);
    ++events;
    if (received_at_ == 0) received_at_ = now;
    if (now - received_at_ < kTakePause) continue;
    received_at_ = now;
    takes_all_ = true;
    ripc_status nothing_came = RIPC_OK;
    events += take_messages(now, 0, nothing_came);
    if (nothing_came == RIPC_INTERRUPTED) service_.interrupt();  // is for the next run()
  }
  received_at_ = 0;
  return events;
}

std::size_t Endpoint::take_messages(Nanoseconds now, Nanoseconds timeout, ripc_status& status) {
  std::array<core::Message*, kBatch> messages;
  std::size_t count = 0;
  std::size_t events = 0;
  status = service_.receive(RIPC_RECEIVE_LEND, timeout, messages, count);
  for (std::size_t batch = 1; count != 0; ++batch) {
    // A wait has read the clock already: reading it again takes time that a call waits for.
    if (const Nanoseconds waited = service_.came_after(); waited != 0) now = waited != UINT64_MAX ? waited : 0;
    received_at_ = now != 0 ? now : messenger_.now();
    Arrival arrival(messenger_, received_at_);
    std::size_t ends = 0;
    for (core::Message* message : std::span(messages).first(count)) ends += receive_one(message, arrival);
    if (ends != 0) received_at_ = now = 0;  // their callbacks took an unknown time
    events += ends;
    if (!takes_all_ || batch == kMostBatches) break;
    if (service_.receive(RIPC_RECEIVE_LEND, 0, messages, count) == RIPC_INTERRUPTED) service_.interrupt();
  }
  return events;
}

std::size_t Endpoint::receive_one(core::Message* message, Arrival& arrival) {
  wire::call::Header header;
  const ripc_status status = read_header(*message, header);
  if (status == RIPC_OK) {
    return is_for_client(header.kind) ? client_->received(message, header, arrival)
                                      : server_->received(message, header, arrival);
  }
  dropped_.fetch_add(1, std::memory_order_relaxed);
  if (status == RIPC_VERSION_MISMATCH) server_->refuse_version(*message, header);
  core::MessagePool::release(message);
  return 0;
}

// ---- Waiting -------------------------------------------------------------------------------------------------

Status Endpoint::call_and_wait(const CallRequest& request, ripc_call_result& result) {
  if (is_run_here())
    return Status(RIPC_INVALID_ARGUMENT,
                  "This thread runs the endpoint, and would wait for itself: use ripc_rpc_call(), or a worker.");
  struct Wait {
    Endpoint& endpoint;
    ripc_call_result& result;
    bool is_over = false;  // under turn_mutex_
  } wait{*this, result};
  CallRequest waited = request;
  waited.user = &wait;
  waited.done = [](void* user, const ripc_call_result* ended) {
    Wait& self = *static_cast<Wait*>(user);
    const std::lock_guard lock(self.endpoint.turn_mutex_);
    self.result = *ended;
    self.is_over = true;
    self.endpoint.turn_changed_.notify_all();
  };
  if (Status begun = begin(waited, nullptr); !begun.ok()) return begun;
  bool is_interrupted = false;
  for (;;) {
    {
      std::unique_lock lock(turn_mutex_);
      const auto is_free = [this] { return runner_ == std::thread::id{} && wanting_ == 0; };
      const bool is_alone = last_runner_ == std::thread::id{} || last_runner_ == std::this_thread::get_id();
      Backoff pause{kAbsence, kLongestAbsence};
      for (std::uint64_t turns = is_alone ? turns_ : turns_ - 1; !wait.is_over && !(is_free() && turns == turns_);) {
        turns = turns_;
        turn_changed_.wait_for(lock, std::chrono::nanoseconds(pause.next()));
      }
      if (wait.is_over) break;
      runner_ = std::this_thread::get_id();
      is_waiter_ = true;
    }
    std::size_t events = 0;
    // Every call ends: whatever keeps the service from receiving ends all calls.
    const Status status = run_some(UINT64_MAX, events);
    if (status.code() == RIPC_INTERRUPTED) is_interrupted = true;
    leave();
    if (status.ok() || status.code() == RIPC_TIMEOUT || status.code() == RIPC_INTERRUPTED) continue;
    // For lack of messages or memory, the next receive would fail at once, too.
    std::unique_lock lock(turn_mutex_);
    turn_changed_.wait_for(lock, std::chrono::nanoseconds(kAbsence), [&wait] { return wait.is_over; });
  }
  if (is_interrupted) service_.interrupt();  // is for the next run()
  return {};
}

ripc_rpc_statistics Endpoint::statistics() const noexcept {
  ripc_rpc_statistics statistics{};
  statistics.size = sizeof statistics;
  statistics.dropped = dropped_.load(std::memory_order_relaxed);
  client_->add_to(statistics);
  server_->add_to(statistics);
  return statistics;
}

std::map<std::uint32_t, ripc_rpc_method_statistics> Endpoint::methods() const {
  std::map<std::uint32_t, ripc_rpc_method_statistics> methods;
  client_->add_to(methods);
  server_->add_to(methods);
  for (auto& [method, statistics] : methods) {
    statistics.size = sizeof statistics;
    statistics.method = method;
  }
  return methods;
}

}  // namespace ripc::internal::rpc
