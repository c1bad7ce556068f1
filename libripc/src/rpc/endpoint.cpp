// SPDX-License-Identifier: Apache-2.0
#include "rpc/endpoint.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace ripc::internal::rpc {

namespace {

// Messages that are received together.
constexpr std::size_t kBatch = 32;
// Handlers that one run() starts, so that it returns.
constexpr std::size_t kMostRuns = 64;
// While handlers run, messages are taken at least so often. So the time that a request waits is known, and it does not
// start when that is over or the caller has cancelled.
constexpr Nanoseconds kTakePause = 20'000;
// Messages that an endpoint refuses when it ends. A client that calls again and again does not keep it.
constexpr std::size_t kMostRefused = 65536;
// How long it waits for long arguments that are on their way: then their calls can be answered.
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
  if (workers_) workers_->stop();
  (void)client_->end_all(RIPC_CLOSED);
  server_->refuse_all();
  if (observes_) refuse_unread();
  server_->close();
  // Until here no other endpoint receives.
  if (observes_) service_.observe(nullptr);
}

void Endpoint::refuse_unread() noexcept {
  const Nanoseconds now = messenger_.now();
  const Deadline patience = Deadline::after(kLastPatience, now);
  std::array<core::Message*, kBatch> messages;
  for (std::size_t refused = 0; refused < kMostRefused; refused += kBatch) {
    std::size_t count = 0;
    const Nanoseconds timeout = service_.has_incomplete() ? patience.remaining() : 0;
    (void)service_.receive(RIPC_RECEIVE_LEND, timeout, messages, count);
    for (core::Message* message : std::span(messages).first(count)) {
      wire::call::Header header;
      if (read_header(*message, header) == RIPC_OK && !is_for_client(header.kind)) {
        (void)server_->received(message, header, now);
      } else {
        core::MessagePool::release(message);
      }
    }
    if (count != 0 || (timeout == 0 && service_.has_incomplete() && !patience.expired())) continue;
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

// The end of the call is not that of the loan: the server may hold the request.
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
  if (recorder_ && cancelled.ok()) messenger_.wake();
  return cancelled;
}

// ---- The thread that runs it ---------------------------------------------------------------------------------

Status Endpoint::run(Nanoseconds timeout, std::size_t& events) {
  events = 0;
  if (Status turn = enter(); !turn.ok()) return turn;
  const Status status = run_some(Deadline::after(timeout), events);
  leave();
  return status;
}

Status Endpoint::run_recorded(Nanoseconds timeout, std::span<Recorder::Event> events, std::size_t& count) {
  count = 0;
  if (!recorder_) return Status(RIPC_INVALID_ARGUMENT, "The endpoint records nothing: set ripc_rpc_options.recorded.");
  if (Status turn = enter(); !turn.ok()) return turn;
  Status status;
  count = recorder_->take(events);
  if (count == 0) {
    std::size_t happened = 0;
    status = is_closed_ ? Status(RIPC_CLOSED) : run_some(Deadline::after(timeout), happened);
    count = recorder_->take(events);
    if (count != 0) status = {};
  }
  leave();
  return status;
}

Status Endpoint::enter() noexcept {
  turn_mutex_.adopt();
  const std::lock_guard lock(turn_mutex_);
  if (runner_ != std::thread::id{}) return Status(RIPC_AGAIN, "Another thread runs this endpoint: one is enough.");
  runner_ = std::this_thread::get_id();
  return {};
}

void Endpoint::leave() noexcept {
  const std::lock_guard lock(turn_mutex_);
  runner_ = std::thread::id{};
  if (waiting_ != 0) turn_changed_.notify_all();
}

bool Endpoint::is_run_here() noexcept {
  const std::lock_guard lock(turn_mutex_);
  return runner_ == std::this_thread::get_id();
}

Status Endpoint::run_some(Deadline deadline, std::size_t& events) noexcept try {
  for (;;) {
    const Nanoseconds now = messenger_.now();
    server_->progress(now);
    events += client_->progress(now);
    const bool is_due = events != 0 || server_->has_ready();
    const Nanoseconds until = is_due ? 0 : std::min({deadline.at(), client_->sleep_until(), server_->next_due()});
    ripc_status status = RIPC_OK;
    events += receive(until == UINT64_MAX ? until : until > now ? until - now : 0, status);
    if (events != 0 || (recorder_ && !recorder_->empty())) {
      if (status == RIPC_INTERRUPTED) service_.interrupt();  // is for the next run()
      return {};
    }
    if (status == RIPC_FENCED || status == RIPC_CLOSED) {
      // No answer finds its way here any more.
      events += client_->end_all(status);
      if (events != 0) return {};
    }
    if (status != RIPC_OK && status != RIPC_EMPTY && status != RIPC_TIMEOUT) return status;
    if (deadline.at() == 0 || deadline.expired()) return deadline.at() == 0 ? RIPC_EMPTY : RIPC_TIMEOUT;
  }
} catch (const std::bad_alloc&) {
  return RIPC_NO_MEMORY;
}

std::size_t Endpoint::receive(Nanoseconds timeout, ripc_status& status) {
  std::size_t events = take_messages(timeout, status);
  for (std::size_t runs = 0; server_->has_ready() && runs < kMostRuns; ++runs) {
    const Nanoseconds now = runs == 0 && received_at_ != 0 ? received_at_ : messenger_.now();
    server_->run_next(now);
    ++events;
    if (received_at_ == 0) received_at_ = now;
    if (now - received_at_ < kTakePause) continue;
    received_at_ = now;
    ripc_status nothing_came = RIPC_OK;
    events += take_messages(0, nothing_came);
    if (nothing_came == RIPC_INTERRUPTED) service_.interrupt();  // is for the next run()
  }
  received_at_ = 0;
  return events;
}

std::size_t Endpoint::take_messages(Nanoseconds timeout, ripc_status& status) {
  std::array<core::Message*, kBatch> messages;
  std::size_t count = 0;
  status = service_.receive(RIPC_RECEIVE_LEND, timeout, messages, count);
  if (count == 0) return 0;
  std::size_t events = 0;
  received_at_ = messenger_.now();
  for (core::Message* message : std::span(messages).first(count)) events += receive_one(message, received_at_);
  if (events != 0) received_at_ = 0;  // the reports of ends took as long as they liked
  return events;
}

std::size_t Endpoint::receive_one(core::Message* message, Nanoseconds now) {
  wire::call::Header header;
  const ripc_status status = read_header(*message, header);
  if (status == RIPC_OK) {
    return is_for_client(header.kind) ? client_->received(message, header, now)
                                      : server_->received(message, header, now);
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
      ++waiting_;
      turn_changed_.wait(lock, [&] { return wait.is_over || runner_ == std::thread::id{}; });
      --waiting_;
      if (wait.is_over) break;
      runner_ = std::this_thread::get_id();
    }
    std::size_t events = 0;
    // Every call ends; what keeps the service from receiving ends all of them.
    const Status status = run_some(Deadline::never(), events);
    if (status.code() == RIPC_INTERRUPTED) is_interrupted = true;
    leave();
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
