// SPDX-License-Identifier: Apache-2.0
// libripc for C++: calls. Header-only, over ripc/rpc.h, which says what a call promises; docs/calls.md introduces them.
// Not part of ripc/ripc.hpp: include both.
//
//   auto rpc = ripc::Rpc::create(*service);
//   (void)rpc->on(kEcho, [](ripc::Request request) { (void)request.reply(request.item(0).bytes()); });
//   while (true) (void)rpc->run();
//
//   ripc::Task<> greet(ripc::Rpc& rpc, ripc::ServiceId to) {
//     auto answer = co_await rpc.call(to, kEcho, ripc::bytes_of("hello"));
//     if (answer.answered()) std::puts("it is there");
//   }
//
// The rules of ripc/ripc.hpp hold here too. Nothing throws, except std::bad_alloc where the comment says "allocates".
//
//   Ownership  Rpc, Request, CallResult and Task are move-only owners. Destroy an Rpc before its Service.
//   Threads    Only one thread at a time may be in run(). Any thread may make, cancel and answer calls.
//   Callbacks  Handlers and callbacks run in run(), unless their comment says otherwise. They must not throw or block.
#pragma once

#include <atomic>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "ripc/error.hpp"
#include "ripc/handle.hpp"
#include "ripc/message.hpp"
#include "ripc/rpc.h"
#include "ripc/service.hpp"
#include "ripc/task.hpp"

namespace ripc {

// ---- Request -------------------------------------------------------------------------------------------------

// An incoming call: its arguments, and the right to answer it once, now or later, in any thread. Destroying an
// unanswered Request drops it with RIPC_CANCELLED. An empty Request, such as an answered one, has no items.
class Request {
 public:
  Request() noexcept = default;
  // Takes ownership of the request that a ripc_rpc_handler gets.
  explicit Request(ripc_request* handle) noexcept : handle_(handle) {}

  bool empty() const noexcept { return handle_ == nullptr; }
  // The caller.
  ServiceId source() const noexcept { return ripc_request_get_source(handle_.get()); }
  // The caller's proven identity.
  Peer peer() const {
    ripc_peer peer;
    ripc_peer_init(&peer);
    if (handle_ != nullptr) (void)ripc_request_peer(handle_.get(), &peer);
    return Peer(peer);
  }
  std::uint32_t method() const noexcept { return ripc_request_get_method(handle_.get()); }
  // The arguments, valid as long as the request. A wrong index gives a view with status RIPC_INVALID_ARGUMENT.
  std::size_t item_count() const noexcept { return ripc_request_get_item_count(handle_.get()); }
  ItemView item(std::size_t index) const noexcept {
    ripc_item_view view;
    const ripc_status status = ripc_request_get_item(handle_.get(), index, &view);
    if (status != RIPC_OK) view = {nullptr, 0, RIPC_VIEW_FAILED, static_cast<std::uint32_t>(status), 0, 0, 0};
    return ItemView(view);
  }
  // The caller's return buffers, for return_item(), and the room in each.
  std::size_t return_count() const noexcept { return ripc_request_get_return_count(handle_.get()); }
  std::size_t return_size(std::size_t index) const noexcept {
    return ripc_request_get_return_size(handle_.get(), index);
  }
  // The time for which the caller still waits. Zero: nobody waits, because it is over or the caller has cancelled.
  Nanoseconds time_left() const noexcept {
    const std::uint64_t left = ripc_request_time_left(handle_.get());
    return left < static_cast<std::uint64_t>(kForever.count()) ? Nanoseconds(static_cast<std::int64_t>(left))
                                                               : kForever;
  }

  // Answers with items and a code whose meaning the application defines. The request is then empty; after an error it
  // is unchanged. Items may point into it, unless they are borrowed. Only items of borrow() or return_item() can give
  // RIPC_AGAIN; without them the Ticket is empty. Otherwise like Service::reply().
  Result<Ticket> reply(const Items& items, std::uint32_t code = 0) noexcept {
    bool is_lent = false;
    for (const Item& each : std::span(items.data(), items.size()))
      is_lent = is_lent || each.kind == RIPC_ITEM_LONG || each.kind == RIPC_ITEM_RETURN;
    ripc_ticket* ticket = nullptr;
    const ripc_status status =
        ripc_request_reply(handle_.get(), code, items.data(), items.size(), is_lent ? &ticket : nullptr);
    if (status != RIPC_OK) return Error::from_last_call(status);
    (void)handle_.release();
    return Ticket(ticket);
  }
  // Ends the request without an answer: the caller gets this status, and the call may have run.
  void drop(ripc_status status) noexcept { ripc_request_drop(handle_.release(), status); }
  // The same, for a request that nothing was done for: the call did not run.
  void refuse(ripc_status status) noexcept { ripc_request_refuse(handle_.release(), status); }
  // Borrowed, for calls into ripc/rpc.h.
  ripc_request* handle() const noexcept { return handle_.get(); }

 private:
  struct Drop {
    void operator()(ripc_request* request) const noexcept { ripc_request_drop(request, RIPC_CANCELLED); }
  };
  std::unique_ptr<ripc_request, Drop> handle_;
};

// ---- CallResult ----------------------------------------------------------------------------------------------

// How a call ended, with the answer if there is one. A default-made result says that the call did not run, with
// RIPC_INVALID_ARGUMENT.
class CallResult {
 public:
  CallResult() noexcept = default;
  // A call that could not begin.
  explicit CallResult(Error why) noexcept : error_(std::move(why)) {}
  // Takes ownership of the message.
  explicit CallResult(const ripc_call_result& result) noexcept
      : outcome_(static_cast<ripc_call_outcome>(result.outcome)),
        code_(result.code),
        count_(result.item_count),
        items_(result.items),
        error_(error_of(result)),
        message_(result.message) {}

  // RIPC_CALL_ANSWERED, RIPC_CALL_DID_NOT_RUN (also if it could not begin: calling again is safe), or
  // RIPC_CALL_MAY_HAVE_RUN.
  ripc_call_outcome outcome() const noexcept { return outcome_; }
  bool answered() const noexcept { return outcome_ == RIPC_CALL_ANSWERED; }
  // RIPC_OK if the call was answered, else why not: ripc_rpc_call() lists what each status means. The text also says
  // whether it is safe to call again (ripc_call_text).
  const Error& error() const noexcept { return error_; }
  ripc_status status() const noexcept { return error_.code(); }
  // The code of the answer; 0 without one.
  std::uint32_t code() const noexcept { return code_; }
  // The answer. Views are valid only as long as this object, except those of return buffers. A wrong index gives a view
  // with status RIPC_INVALID_ARGUMENT.
  std::size_t item_count() const noexcept { return message_.empty() ? 0 : count_; }
  ItemView item(std::size_t index) const noexcept {
    if (index < item_count()) return ItemView(items_[index]);
    return ItemView({nullptr, 0, RIPC_VIEW_FAILED, RIPC_INVALID_ARGUMENT, 0, 0, 0});
  }

 private:
  static Error error_of(const ripc_call_result& result) noexcept {
    const auto status = static_cast<ripc_status>(result.status);
    if (result.outcome == RIPC_CALL_ANSWERED) return Error(status);
    return Error::with_static_text(status, ripc_call_text(result.outcome, status));
  }

  ripc_call_outcome outcome_ = RIPC_CALL_DID_NOT_RUN;
  std::uint32_t code_ = 0;
  std::size_t count_ = 0;
  const ripc_item_view* items_ = nullptr;  // in message_
  Error error_ = RIPC_INVALID_ARGUMENT;
  Message message_;
};

// ---- Calls ---------------------------------------------------------------------------------------------------

// How one call is made. The options are read only while the call begins. The memory of the return buffers belongs to
// the library until the call has ended.
struct CallOptions {
  Nanoseconds timeout = kDefaultTime;          // of the whole call: 5 seconds
  std::span<const ReturnBuffer> returns = {};  // memory for the answer, at most RIPC_MAX_RETURNS
  const Request* parent = nullptr;             // the call is made for this request, and gets at most its remaining time
  // Runs once, in any thread, when memory lent by borrow() is the caller's again. By then the call has ended, and the
  // server has released the request. Without this callback, only leased or registered memory can be lent.
  ripc_ticket_callback loan_ended = nullptr;
  void* loan_user = nullptr;  // for loan_ended
  // Running twice does no harm, so a call to a group goes to another member even if it may have run already.
  bool idempotent = false;
};

namespace detail {

// Like Error::from_last_call(), but RIPC_AGAIN also takes its sentence from ripc_last_error(): the general one is about
// a peer's room.
inline Error failed_rpc_call(ripc_status status) noexcept {
  if (status != RIPC_AGAIN) return Error::from_last_call(status);
  try {
    return Error(status, std::string(ripc_last_error()));
  } catch (const std::bad_alloc&) {
    return Error(status);
  }
}

// Calls `begin` with the options for the C interface.
template <typename Begin>
ripc_status with_options(const CallOptions& options, Begin begin) noexcept {
  ripc_call_options c_options;
  ripc_call_options_init(&c_options);
  // An empty request, like an answered one, has no time left.
  const bool is_over = options.parent != nullptr && options.parent->empty();
  c_options.timeout = is_over ? 0 : option_to_c(options.timeout);
  c_options.return_count = static_cast<std::uint32_t>(options.returns.size());
  c_options.returns = options.returns.data();
  c_options.parent = options.parent == nullptr ? nullptr : options.parent->handle();
  c_options.loan_ended = options.loan_ended;
  c_options.loan_user = options.loan_user;
  c_options.idempotent = options.idempotent ? 1 : 0;
  return begin(c_options);
}

inline ripc_status begin_call(ripc_rpc* rpc, ServiceId to, std::uint32_t method, const Items& items,
                              const CallOptions& options, ripc_call_done done, void* user,
                              std::uint64_t* call) noexcept {
  return with_options(options, [&](const ripc_call_options& c_options) {
    return ripc_rpc_call(rpc, to, method, items.data(), items.size(), &c_options, done, user, call);
  });
}

}  // namespace detail

// A call in progress, to be awaited once: co_await gives its CallResult. The call begins when this object is made, so
// several can be in progress before the first is awaited. It allocates nothing. Destroying it cancels the call: after
// that the return buffers are the caller's again, and the call resumes no coroutine. It can be neither copied nor
// moved.
//
// Any thread may make and await it. Task says which thread may destroy it.
class [[nodiscard]] Call {
 public:
  // Made by Rpc::call(), which describes the arguments.
  Call(ripc_rpc* rpc, ServiceId to, std::uint32_t method, const Items& items, const CallOptions& options) noexcept
      : rpc_(rpc) {
    const ripc_status status = detail::begin_call(rpc, to, method, items, options, &Call::end, this, &id_);
    if (status == RIPC_OK) return;
    result_ = CallResult(detail::failed_rpc_call(status));
    state_.store(this, std::memory_order_release);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    void* awaiting = state_.load(std::memory_order_acquire);
    if (awaiting == this || !state_.compare_exchange_strong(awaiting, std::noop_coroutine().address())) return;
    if (ripc_rpc_cancel(rpc_, id_) == RIPC_FORKED) return;  // no thread of this process will end it
    // If another thread was ending the call, it is about to be done with this object.
    while (!done()) std::this_thread::yield();
  }

  // Whether the call has ended.
  bool done() const noexcept { return state_.load(std::memory_order_acquire) == this; }
  // Ends the call with RIPC_CANCELLED before this returns; a coroutine that awaits it resumes in here.
  // RIPC_INVALID_ARGUMENT: the call has ended already.
  Error cancel() noexcept {
    const ripc_status status = ripc_rpc_cancel(rpc_, id_);
    return status == RIPC_OK ? Error() : Error::from_last_call(status);
  }

  bool await_ready() const noexcept { return done(); }
  bool await_suspend(std::coroutine_handle<> awaiting) noexcept {
    void* nobody = nullptr;
    return state_.compare_exchange_strong(nobody, awaiting.address(), std::memory_order_acq_rel);
  }
  CallResult await_resume() noexcept { return std::move(result_); }

 private:
  static void end(void* user, const ripc_call_result* result) noexcept {
    auto* self = static_cast<Call*>(user);
    self->result_ = CallResult(*result);
    // From here on the object may be gone.
    if (void* awaiting = self->state_.exchange(self, std::memory_order_acq_rel))
      std::coroutine_handle<>::from_address(awaiting).resume();
  }

  ripc_rpc* rpc_;
  std::uint64_t id_ = 0;
  CallResult result_;
  // The coroutine that waits, if any; this object itself when the call has ended.
  std::atomic<void*> state_{nullptr};
};

// Gets the result of a call, in the thread that ends it. It may make calls.
using CallCallback = std::function<void(CallResult)>;

// ---- Rpc -----------------------------------------------------------------------------------------------------

// How an endpoint is made. 0 selects the default of ripc_rpc_options.
struct RpcOptions {
  std::uint32_t slots = 0;         // calls in progress to one server at once, a power of 2; default 8
  std::uint32_t queue = 0;         // calls to one server that wait; default 1024
  std::uint32_t max_sessions = 0;  // clients served at once; default 65536
  std::uint32_t workers = 0;       // threads for handlers with RIPC_RPC_WORKER; default none
  std::uint32_t worker_queue = 0;  // requests that wait for a worker; default 1024
};

namespace detail {

// Whether a std::function, a similar type or a function pointer is empty.
template <typename Function>
bool is_empty(const Function& function) noexcept {
  if constexpr (std::is_pointer_v<Function> || requires {
                  function.operator bool();
                  function == nullptr;
                })
    return function == nullptr;
  else
    return false;
}

// The handlers must outlive the endpoint.
struct RpcDestroy {
  void operator()(ripc_rpc* rpc) const noexcept { ripc_rpc_destroy(rpc); }
  std::vector<std::shared_ptr<void>> handlers{};
};

}  // namespace detail

// An endpoint: makes calls from its service, and answers calls to it. It alone receives from the service.
//
// The destructor ends all calls in its thread, with RIPC_CLOSED: coroutines resume and callbacks run inside it. No
// thread may be in run() at that time. Moving an Rpc disturbs no call and no handler. But references to it, such as
// those that a coroutine holds, still refer to the old object, which is then empty.
class Rpc {
 public:
  // The service must have no endpoint yet, and outlive it. RIPC_ID_IN_USE, RIPC_INVALID_ARGUMENT, RIPC_NO_MEMORY,
  // RIPC_SYSTEM.
  static Result<Rpc> create(Service& service, const RpcOptions& options = {}) noexcept {
    ripc_rpc_options c_options;
    ripc_rpc_options_init(&c_options);
    c_options.slots = options.slots;
    c_options.queue = options.queue;
    c_options.max_sessions = options.max_sessions;
    c_options.workers = options.workers;
    c_options.worker_queue = options.worker_queue;
    ripc_rpc* rpc = nullptr;
    const ripc_status status = ripc_rpc_create(service.handle(), &c_options, &rpc);
    if (status != RIPC_OK) return Error::from_last_call(status);
    return Rpc(rpc);
  }

  Rpc() noexcept = default;
  // Takes ownership of a handle from ripc_rpc_create().
  explicit Rpc(ripc_rpc* handle) noexcept : handle_(handle) {}

  bool empty() const noexcept { return handle_ == nullptr; }
  // Ends the endpoint now, like the destructor.
  void destroy() noexcept { handle_ = {}; }
  // Borrowed, for calls into ripc/rpc.h.
  ripc_rpc* handle() const noexcept { return handle_.get(); }

  // Registers the handler of a method. The handler takes a Request, and is a function that returns nothing, or a
  // coroutine that returns Task<>. It is kept until the endpoint is destroyed. flags: RIPC_RPC_WORKER lets it run in
  // worker threads, several at once, where it may block; a coroutine runs there only until it first waits.
  // RIPC_INVALID_ARGUMENT: also an empty std::function. Allocates. An exception of the handler ends the process.
  //
  // One thread at a time may call this, while another is in run(). Calls that arrive before the handler is registered
  // are refused with RIPC_UNSUPPORTED.
  //
  // A coroutine allocates its frame for each call. Without memory for the frame, the request is dropped.
  template <typename Handler>
  requires std::invocable<Handler&, Request> Error on(std::uint32_t method, Handler handler, std::uint32_t flags = 0) {
    using Given = std::invoke_result_t<Handler&, Request>;
    static_assert(std::is_void_v<Given> || std::is_same_v<Given, Task<>>,
                  "a handler returns nothing, or Task<>: it answers with Request::reply(), or see ripc::on_typed()");
    if (detail::is_empty(handler)) return detail::no_function();
    auto owned = std::make_shared<Handler>(std::move(handler));
    auto& handlers = handle_.get_deleter().handlers;
    handlers.push_back(owned);
    const ripc_status status = ripc_rpc_handle(handle_.get(), method, flags, &Rpc::run_handler<Handler>, owned.get());
    if (status == RIPC_OK) return {};
    handlers.pop_back();
    return Error::from_last_call(status);
  }

  // Begins a call to a service, or to one member of a group (ripc_rpc_call() says which), to be awaited: auto result =
  // co_await rpc.call(...). It waits only as ripc_rpc_call() may. A call that cannot begin has ended when this returns:
  // RIPC_AGAIN (too many wait: run(), then call again), RIPC_TIMEOUT (the parent has no time left), RIPC_TOO_LARGE,
  // RIPC_FENCED, RIPC_CLOSED, RIPC_INVALID_ARGUMENT, RIPC_NO_MEMORY. The rules for memory are those of Service::send().
  //
  // Several items: std::array{ripc::item(a), ripc::item(b)}. GCC 12 does not accept {a, b} in a co_await.
  Call call(ServiceId to, std::uint32_t method, const Items& items = {}, const CallOptions& options = {}) noexcept {
    return {handle_.get(), to, method, items, options};
  }

  // Like call(), but runs `callback` once when the call has ended. Returns the call's number, for cancel(). After an
  // error, which is one of those above, the callback does not run. RIPC_INVALID_ARGUMENT: also an empty callback.
  // Allocates.
  Result<std::uint64_t> call_then(ServiceId to, std::uint32_t method, const Items& items, CallCallback callback,
                                  const CallOptions& options = {}) {
    if (callback == nullptr) return detail::no_function();
    auto state = std::make_unique<CallCallback>(std::move(callback));
    constexpr auto kEnd = [](void* user, const ripc_call_result* result) noexcept {
      const std::unique_ptr<CallCallback> owned(static_cast<CallCallback*>(user));
      (*owned)(CallResult(*result));
    };
    std::uint64_t id = 0;
    const ripc_status status = detail::begin_call(handle_.get(), to, method, items, options, kEnd, state.get(), &id);
    if (status != RIPC_OK) return detail::failed_rpc_call(status);
    (void)state.release();  // the callback owns it, and may have run already
    return id;
  }
  // Like call(), but waits for the end. Meanwhile it runs the endpoint, unless another thread does. Whatever interrupts
  // this wait interrupts the next run() instead. Not allowed in handlers and callbacks that run() calls:
  // RIPC_INVALID_ARGUMENT.
  CallResult call_wait(ServiceId to, std::uint32_t method, const Items& items = {},
                       const CallOptions& options = {}) noexcept {
    ripc_call_result result;
    ripc_call_result_init(&result);
    const ripc_status status = detail::with_options(options, [&](const ripc_call_options& c_options) {
      return ripc_rpc_call_wait(handle_.get(), to, method, items.data(), items.size(), &c_options, &result);
    });
    return status == RIPC_OK ? CallResult(result) : CallResult(detail::failed_rpc_call(status));
  }
  // Ends a call: its callback runs inside cancel(), with RIPC_CANCELLED, and its return buffers are the caller's again.
  // RIPC_INVALID_ARGUMENT: it has ended, or another thread is running its callback.
  Error cancel(std::uint64_t call) noexcept {
    const ripc_status status = ripc_rpc_cancel(handle_.get(), call);
    return status == RIPC_OK ? Error() : Error::from_last_call(status);
  }

  // Starts a coroutine that owns itself: it is destroyed when it ends.
  static void spawn(Task<> task) noexcept {
    if (task.done()) return;
    Task<>::promise_type& promise = *task.frame_.release();
    promise.owns_itself = true;
    if (!std::exchange(promise.started, true)) Task<>::Handle::from_promise(promise).resume();
  }

  // Receives, runs handlers and ends calls, until at least one of these has happened; returns how many. With kNoWait
  // RIPC_EMPTY means that there was nothing to do. RIPC_TIMEOUT, RIPC_INTERRUPTED (Service::interrupt()), RIPC_AGAIN
  // (another thread is in run()), and the errors of Service::receive().
  Result<std::size_t> run(Nanoseconds timeout = kForever) noexcept {
    std::size_t events = 0;
    const ripc_status status = ripc_rpc_run(handle_.get(), detail::to_c(timeout), &events);
    if (status != RIPC_OK) return detail::failed_rpc_call(status);
    return events;
  }

  // Counters since the endpoint was made.
  Result<ripc_rpc_statistics> statistics() noexcept {
    ripc_rpc_statistics statistics;
    ripc_rpc_statistics_init(&statistics);
    const ripc_status status = ripc_rpc_get_statistics(handle_.get(), &statistics);
    if (status != RIPC_OK) return Error::from_last_call(status);
    return statistics;
  }

  // Counters and latencies of each method that was called or has a handler, in ascending order. Allocates.
  Result<std::vector<ripc_rpc_method_statistics>> methods() {
    using Method = ripc_rpc_method_statistics;
    detail::Collected<Method> collected;
    constexpr auto kAdd = [](void* user, const Method* method) noexcept {
      static_cast<detail::Collected<Method>*>(user)->add([&] { return *method; });
    };
    const ripc_status status = ripc_rpc_list_methods(handle_.get(), kAdd, &collected);
    return std::move(collected).finish(status);
  }

 private:
  template <typename Handler>
  static void run_handler(void* user, ripc_request* request) noexcept {
    Handler& handler = *static_cast<Handler*>(user);
    if constexpr (std::is_same_v<std::invoke_result_t<Handler&, Request>, Task<>>) {
      try {
        spawn(handler(Request(request)));
      } catch (const std::bad_alloc&) {
      }
    } else {
      handler(Request(request));
    }
  }

  std::unique_ptr<ripc_rpc, detail::RpcDestroy> handle_;
};

}  // namespace ripc
