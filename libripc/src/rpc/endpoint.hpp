// SPDX-License-Identifier: Apache-2.0
// Calls from and to one service: the client half, the server half, and the thread that runs both.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <span>
#include <thread>

#include "base/biased_mutex.hpp"
#include "core/service.hpp"
#include "rpc/client.hpp"
#include "rpc/recorder.hpp"
#include "rpc/server.hpp"
#include "rpc/service_messenger.hpp"

namespace ripc::internal::rpc {

class Endpoint {
 public:
  struct Options {
    Client::Options client;
    Server::Options server;
    std::uint32_t workers = 0;
    std::uint32_t worker_queue = 1024;
    bool is_recorded = false;  // events without a callback are read with run_recorded()
  };
  // RIPC_ID_IN_USE: the service has an endpoint already.
  static Result<std::unique_ptr<Endpoint>> create(core::Service& service, const Options& options);
  ~Endpoint();

  // Any thread.
  Status handle(std::uint32_t method, const Handler& handler);
  Status call(const CallRequest& request, std::uint64_t* name);
  Status call_and_wait(const CallRequest& request, ripc_call_result& result);
  Status cancel(std::uint64_t name);
  Nanoseconds now() const noexcept { return messenger_.now(); }
  Nanoseconds rough_now() const noexcept { return messenger_.rough_now(); }
  ripc_rpc_statistics statistics() const noexcept;
  // By method.
  std::map<std::uint32_t, ripc_rpc_method_statistics> methods() const;
  core::Service& service() noexcept { return service_; }

  // One thread at a time; RIPC_AGAIN for others.
  Status run(Nanoseconds timeout, std::size_t& events);
  // The same, but takes the recorded events. If there are some already, it does not run. RIPC_CLOSED: there are none,
  // and the endpoint was closed.
  Status run_recorded(Nanoseconds timeout, std::span<Recorder::Event> events, std::size_t& count);
  // Ends every call. Nobody may run the endpoint.
  void close();

 private:
  Endpoint(core::Service& service, const Options& options);
  // Hands a call to the client. RIPC_INVALID_ARGUMENT: there are LONG arguments whose owner would not learn when the
  // loan ends.
  Status begin(const CallRequest& request, std::uint64_t* name);
  // RIPC_NO_MEMORY: the next call does the remaining work.
  Status run_some(Nanoseconds timeout, std::size_t& events) noexcept;
  // Makes this thread the one that runs the endpoint, until leave(). RIPC_AGAIN: another one is in run(). A thread in
  // call_and_wait() makes way; the time that this takes is subtracted from `timeout`.
  Status enter(Nanoseconds& timeout) noexcept;
  Status take_over(std::unique_lock<BiasedMutex>& lock, Nanoseconds& timeout) noexcept;
  void leave() noexcept;
  bool is_run_here() noexcept;
  // `began`, `now`: the clock, or 0 if it has to be read.
  std::size_t receive(Nanoseconds began, Nanoseconds timeout, ripc_status& status);
  std::size_t take_messages(Nanoseconds now, Nanoseconds timeout, ripc_status& status);
  std::size_t receive_one(core::Message* message, Arrival& arrival);
  // Refuses requests that nobody will read any more: their callers learn at once that these did not run.
  void refuse_unread() noexcept;

  core::Service& service_;
  ServiceMessenger messenger_;
  std::unique_ptr<Workers> workers_;    // null: none
  std::unique_ptr<Recorder> recorder_;  // null: all events have callbacks
  const std::shared_ptr<Client> client_;
  const std::shared_ptr<Server> server_;
  bool observes_ = false;  // whether it observes the service and receives from it
  bool is_closed_ = false;
  Nanoseconds received_at_ = 0;               // about when the last messages came; used by the thread that runs it
  Nanoseconds looked_at_ = 0;                 // when it last looked for messages
  bool takes_all_ = false;                    // take all messages that have come before the next handler
  BiasedMutex turn_mutex_;                    // biased to the thread that usually runs it; guards the members below
  std::thread::id runner_;                    // the thread that runs it now
  std::thread::id last_runner_;               // the last one in run()
  std::uint64_t turns_ = 0;                   // how many run() has taken
  bool is_waiter_ = false;                    // runner_ is in call_and_wait()
  std::size_t wanting_ = 0;                   // threads in run() that wait for one in call_and_wait() to make way
  std::atomic<bool> is_wanted_{false};        // the runner is to make way
  std::condition_variable_any turn_changed_;  // somebody has left run(), or a call that is waited for has ended
  std::atomic<std::uint64_t> dropped_{0};
};

}  // namespace ripc::internal::rpc
