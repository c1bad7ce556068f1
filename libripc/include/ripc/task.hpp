// SPDX-License-Identifier: Apache-2.0
// libripc for C++: coroutines that wait for calls. Part of ripc/rpc.hpp; include that.
#pragma once

#include <coroutine>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

namespace ripc {

template <typename T>
class Task;

namespace detail {

class TaskPromiseBase {
 public:
  // Resumes the coroutine that awaits the task. A coroutine that owns itself is destroyed here.
  struct End {
    bool await_ready() const noexcept { return false; }
    template <typename Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> ended) const noexcept {
      if (!ended.promise().owns_itself) return ended.promise().awaiting;
      ended.destroy();
      return std::noop_coroutine();
    }
    void await_resume() const noexcept {}
  };

  std::suspend_always initial_suspend() const noexcept { return {}; }
  End final_suspend() const noexcept { return {}; }
  void unhandled_exception() const noexcept { std::terminate(); }

  std::coroutine_handle<> awaiting = std::noop_coroutine();
  bool started = false;
  bool owns_itself = false;
};

template <typename T>
class TaskPromise : public TaskPromiseBase {
 public:
  template <typename Value>
  void return_value(Value&& value) {
    value_.emplace(std::forward<Value>(value));
  }
  T take() { return *std::move(value_); }

 private:
  std::optional<T> value_;
};

template <>
class TaskPromise<void> : public TaskPromiseBase {
 public:
  void return_void() const noexcept {}
  void take() const noexcept {}
};

}  // namespace detail

// A coroutine that returns a T, or nothing. It begins when it is awaited, started, or given to Rpc::spawn(), and runs
// in the thread that does so until it first waits. After a call it resumes in the thread that ends the call, which is
// usually the one in Rpc::run(). So it must not block there.
//
// Move-only; owns the coroutine. Destroying a waiting task ends the coroutine: whatever it awaits is destroyed first,
// and calls are cancelled. Start, await and destroy a task in the thread in which it resumes, or while nothing runs. An
// exception that a coroutine throws ends the program. Making one allocates its frame, and may throw std::bad_alloc.
template <typename T = void>
class [[nodiscard]] Task {
 public:
  class promise_type : public detail::TaskPromise<T> {  // NOLINT(readability-identifier-naming): the language's
   public:
    Task get_return_object() noexcept { return Task(Handle::from_promise(*this)); }
  };
  using Handle = std::coroutine_handle<promise_type>;

  Task() noexcept = default;

  bool empty() const noexcept { return frame_ == nullptr; }
  // Runs it up to its first wait. A started task may still be awaited. Starting it again, or starting an empty task,
  // does nothing.
  void start() noexcept {
    if (!empty() && !std::exchange(promise().started, true)) handle().resume();
  }
  // Whether the task has ended or is empty.
  bool done() const noexcept { return empty() || handle().done(); }
  // The result of a task that is done. Take it only once.
  T result() { return promise().take(); }

  // Waits until the task has ended, and gives its result.
  auto operator co_await() noexcept {
    struct Awaiter {
      bool await_ready() const noexcept { return handle.done(); }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) const noexcept {
        handle.promise().awaiting = awaiting;
        if (std::exchange(handle.promise().started, true)) return std::noop_coroutine();
        return handle;
      }
      T await_resume() const { return handle.promise().take(); }
      Handle handle;
    };
    return Awaiter{handle()};
  }

 private:
  friend class Rpc;
  struct Destroy {
    void operator()(promise_type* promise) const noexcept { Handle::from_promise(*promise).destroy(); }
  };

  explicit Task(Handle handle) noexcept : frame_(&handle.promise()) {}

  promise_type& promise() const noexcept { return *frame_; }
  Handle handle() const noexcept { return Handle::from_promise(*frame_); }

  std::unique_ptr<promise_type, Destroy> frame_;
};

}  // namespace ripc
