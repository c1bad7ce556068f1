// SPDX-License-Identifier: Apache-2.0
// Both ends of calls, over the public C interface.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "harness.hpp"
#include "ripc/rpc.h"

namespace conformance {

using Rpc = std::unique_ptr<ripc_rpc, support::Release<ripc_rpc_destroy>>;

inline ripc_rpc_options rpc_options() {
  ripc_rpc_options options = initialized(ripc_rpc_options_init);
  return options;
}
inline Rpc make_rpc(const Service& service, const ripc_rpc_options& options = rpc_options()) {
  ripc_rpc* made = nullptr;
  EXPECT_EQ(ripc_rpc_create(service.get(), &options, &made), RIPC_OK) << ripc_last_error();
  return Rpc(made);
}
inline ripc_call_options call_options(std::uint64_t timeout = RIPC_DEFAULT_TIME) {
  ripc_call_options options = initialized(ripc_call_options_init);
  options.timeout = timeout;
  return options;
}
inline ripc_rpc_statistics statistics_of(const Rpc& rpc) {
  ripc_rpc_statistics statistics = initialized(ripc_rpc_statistics_init);
  EXPECT_EQ(ripc_rpc_get_statistics(rpc.get(), &statistics), RIPC_OK);
  return statistics;
}

// The outcome of a call. The answer's message is already released.
struct Outcome {
  ripc_status begun = RIPC_PENDING;
  ripc_call_outcome outcome = RIPC_CALL_ANSWERED;
  ripc_status status = RIPC_PENDING;
  std::uint32_t code = 0;
  std::vector<std::string> items = {};
  std::vector<std::uint32_t> kinds = {};
  friend bool operator==(const Outcome&, const Outcome&) = default;
};
inline Outcome outcome_of(const ripc_call_result& result) {
  Outcome outcome{.begun = RIPC_OK,
                  .outcome = static_cast<ripc_call_outcome>(result.outcome),
                  .status = static_cast<ripc_status>(result.status),
                  .code = result.code};
  for (const ripc_item_view& view : std::span(result.items, result.item_count)) {
    outcome.items.emplace_back(static_cast<const char*>(view.data), view.size);
    outcome.kinds.push_back(view.kind);
  }
  ripc_message_release(result.message);
  return outcome;
}

// A call that was begun with ripc_rpc_call(), and how it ended.
class Begun {
 public:
  Begun(const Rpc& rpc, ripc_service_id to, std::uint32_t method, Items items = {},
        const ripc_call_options& options = call_options()) {
    begun = ripc_rpc_call(rpc.get(), to, method, items.begin(), items.size(), &options, &Begun::done, this, &name);
  }
  Begun(const Begun&) = delete;
  Begun& operator=(const Begun&) = delete;

  bool has_ended() const { return ends_ != 0; }
  int ends() const { return ends_; }
  // Runs the endpoint until the call has ended, unless another thread does.
  const Outcome& end(const Rpc& rpc) const {
    const std::uint64_t limit = now() + kLimit;
    while (!has_ended() && now() < limit) (void)ripc_rpc_run(rpc.get(), 10 * kMillisecond, nullptr);
    EXPECT_TRUE(has_ended());
    return outcome;
  }

  std::uint64_t name = 0;
  ripc_status begun = RIPC_PENDING;
  Outcome outcome;
  std::function<void()> then;

 private:
  static void done(void* user, const ripc_call_result* result) {
    auto& self = *static_cast<Begun*>(user);
    self.outcome = outcome_of(*result);
    ++self.ends_;
    if (self.then) self.then();
  }
  std::atomic<int> ends_{0};
};

inline Outcome call(const Rpc& rpc, ripc_service_id to, std::uint32_t method, Items items = {},
                    const ripc_call_options& options = call_options()) {
  ripc_call_result result = initialized(ripc_call_result_init);
  const ripc_status begun = ripc_rpc_call_wait(rpc.get(), to, method, items.begin(), items.size(), &options, &result);
  if (begun != RIPC_OK) return {.begun = begun};
  return outcome_of(result);
}

// A server with a thread that runs it. Method 1 echoes its arguments, with code 7. Method 2 keeps the request for the
// test. Method 3 runs in a worker: it waits for release(), then echoes.
class CallServer {
 public:
  static constexpr std::uint32_t kEcho = 1;
  static constexpr std::uint32_t kKeep = 2;
  static constexpr std::uint32_t kWork = 3;

  explicit CallServer(Context context, ripc_rpc_options options = rpc_options(), ripc_service_id id = 0)
      : context_(std::move(context)), service_(make_service(context_, id)) {
    ripc_rpc* made = nullptr;
    EXPECT_EQ(ripc_rpc_create(service_.get(), &options, &made), RIPC_OK) << ripc_last_error();
    rpc_.reset(made);
    EXPECT_EQ(ripc_rpc_handle(made, kEcho, 0, &CallServer::echo, this), RIPC_OK);
    EXPECT_EQ(ripc_rpc_handle(made, kKeep, 0, &CallServer::keep, this), RIPC_OK);
    if (options.workers == 0) return;
    EXPECT_EQ(ripc_rpc_handle(made, kWork, RIPC_RPC_WORKER, &CallServer::work, this), RIPC_OK);
  }
  ~CallServer() {
    stop();
    release();
    for (ripc_request* request : kept_) ripc_request_drop(request, RIPC_CANCELLED);
  }
  CallServer(const CallServer&) = delete;
  CallServer& operator=(const CallServer&) = delete;

  void start() {
    runs_ = true;
    thread_ = std::thread([this] {
      while (runs_) (void)ripc_rpc_run(rpc_.get(), kLimit, nullptr);
    });
  }
  void stop() {
    if (!thread_.joinable()) return;
    runs_ = false;
    (void)ripc_interrupt(service_.get());
    thread_.join();
  }
  ripc_service_id id() const { return id_of(service_); }
  Context& context() { return context_; }
  Rpc& rpc() { return rpc_; }
  Service& service() { return service_; }
  // Returns the next request that method 2 has kept; nullptr and a failure if there is none.
  ripc_request* take() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::nanoseconds(kLimit), [&] { return !kept_.empty(); })) {
      ADD_FAILURE() << "no request has come";
      return nullptr;
    }
    ripc_request* const request = kept_.front();
    kept_.pop_front();
    return request;
  }
  // Does the same, while this thread runs the client.
  ripc_request* take(const Rpc& client) {
    const std::uint64_t limit = now() + kLimit;
    while (kept() == 0 && now() < limit) (void)ripc_rpc_run(client.get(), kMillisecond, nullptr);
    return take();
  }
  std::size_t kept() {
    const std::lock_guard lock(mutex_);
    return kept_.size();
  }
  void release() {
    const std::lock_guard lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }
  bool wait_until_working(int workers) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::nanoseconds(kLimit), [&] { return working_ == workers; });
  }
  static ripc_status echo_to(ripc_request* request, std::uint32_t code) {
    std::vector<ripc_item> items;
    for (std::size_t index = 0; index < ripc_request_get_item_count(request); ++index) {
      ripc_item_view view;
      EXPECT_EQ(ripc_request_get_item(request, index, &view), RIPC_OK);
      items.push_back(item_at(view.data, view.size, RIPC_ITEM_AUTO));
    }
    return ripc_request_reply(request, code, items.data(), items.size(), nullptr);
  }

 private:
  static void echo(void*, ripc_request* request) { EXPECT_EQ(echo_to(request, 7), RIPC_OK) << ripc_last_error(); }
  static void keep(void* user, ripc_request* request) {
    auto& self = *static_cast<CallServer*>(user);
    const std::lock_guard lock(self.mutex_);
    self.kept_.push_back(request);
    self.changed_.notify_all();
  }
  static void work(void* user, ripc_request* request) {
    auto& self = *static_cast<CallServer*>(user);
    {
      std::unique_lock lock(self.mutex_);
      ++self.working_;
      self.changed_.notify_all();
      self.changed_.wait(lock, [&] { return self.released_; });
      --self.working_;
    }
    EXPECT_EQ(echo_to(request, 9), RIPC_OK) << ripc_last_error();
  }

  Context context_;
  Service service_;
  Rpc rpc_;
  std::atomic<bool> runs_{false};
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<ripc_request*> kept_;
  bool released_ = false;
  int working_ = 0;
};

class CallTest : public TransportTest {
 protected:
  CallTest() : context_(make_context()), service_(make_service(context_)), rpc_(make_rpc(service_)) {}

  // A caller that looks for a service only for a short time.
  struct Hasty {
    explicit Hasty(const CallTest& test)
        : context(
              test.make_context([](ripc_context_options& options) { options.resolve_timeout = 500 * kMillisecond; })),
          service(conformance::make_service(context)),
          rpc(make_rpc(service)) {}
    Context context;
    Service service;
    Rpc rpc;
  };

  Context context_;
  Service service_;
  Rpc rpc_;
};

}  // namespace conformance
