// SPDX-License-Identifier: Apache-2.0
// libripc for C++: the one error policy, and time. Part of ripc/ripc.hpp; include that.
//
// libripc throws only std::bad_alloc, and only where a comment says so. A call that can fail returns an Error, or a
// Result that holds a value or an Error. Both are [[nodiscard]]. An Error is RIPC_OK, or a status code with a sentence
// that says what happened and what to do next.
#pragma once

#if __cplusplus < 202002L
#error "ripc.hpp needs C++20: compile with -std=c++20, or include ripc.h, which C and older C++ understand"
#endif

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ripc/ripc.h"

namespace ripc {

// ---- Time ----------------------------------------------------------------------------------------------------

using Nanoseconds = std::chrono::nanoseconds;

// "No limit", for every timeout. Negative timeouts count as zero.
inline constexpr Nanoseconds kForever = Nanoseconds::max();
// In options: the default that the field names.
inline constexpr Nanoseconds kDefaultTime = Nanoseconds::min();
// "Do not wait".
inline constexpr Nanoseconds kNoWait = Nanoseconds::zero();

namespace detail {
constexpr std::uint64_t to_c(Nanoseconds timeout) noexcept {
  if (timeout == kForever) return RIPC_FOREVER;
  return timeout.count() < 0 ? 0 : static_cast<std::uint64_t>(timeout.count());
}
constexpr std::uint64_t option_to_c(Nanoseconds time) noexcept {
  return time == kDefaultTime ? RIPC_DEFAULT_TIME : to_c(time);
}
}  // namespace detail

// ---- Error ---------------------------------------------------------------------------------------------------

// The outcome of a call. A plain value, independent of every handle; any thread may read it.
class [[nodiscard]] Error {
 public:
  // RIPC_OK.
  Error() noexcept = default;
  // A status with the general sentence for it (ripc_status_text). Does not allocate.
  Error(ripc_status code) noexcept : code_(code) {}  // NOLINT(google-explicit-constructor): statuses are errors
  // A status with its own sentence. If there is no memory for that sentence, the Error has the general one.
  Error(ripc_status code, std::string text) noexcept : code_(code) {
    try {
      if (text.empty()) return;
      const auto owned = std::make_shared<const std::string>(std::move(text));
      text_ = {owned, owned->c_str()};
    } catch (const std::bad_alloc&) {
    }
  }
  // The same with a text that lives as long as the program. Does not allocate.
  static Error with_static_text(ripc_status code, const char* text) noexcept {
    Error error(code);
    error.text_ = {std::shared_ptr<void>(), text};
    return error;
  }

  // The outcome of this thread's last call into ripc.h. RIPC_AGAIN, RIPC_EMPTY, RIPC_PENDING and RIPC_INTERRUPTED,
  // which a working program meets all the time, keep their general sentence and do not allocate. RIPC_TIMEOUT does not
  // allocate either if a wait simply ran out of time. The others take the sentence from ripc_last_error().
  static Error from_last_call(ripc_status code) noexcept {
    if (code <= RIPC_INTERRUPTED && code != RIPC_TIMEOUT) return Error(code);
    const std::string_view sentence = ripc_last_error();
    if (sentence == ripc_status_text(code)) return Error(code);
    try {
      return Error(code, std::string(sentence));
    } catch (const std::bad_alloc&) {
      return Error(code);
    }
  }

  bool ok() const noexcept { return code_ == RIPC_OK; }
  ripc_status code() const noexcept { return code_; }
  // "RIPC_NO_SERVICE". Static.
  const char* name() const noexcept { return ripc_status_name(code_); }
  // The sentence. Valid as long as this Error.
  std::string_view text() const noexcept { return text_ != nullptr ? text_.get() : ripc_status_text(code_); }

  friend bool operator==(const Error& error, ripc_status code) noexcept { return error.code_ == code; }

 private:
  ripc_status code_ = RIPC_OK;
  std::shared_ptr<const char> text_;  // most errors have none: two words to move
};

// ---- Result --------------------------------------------------------------------------------------------------

namespace detail {

[[noreturn, gnu::cold, gnu::noinline]] inline void end_without_value(const Error& error) noexcept {
  const std::string_view text = error.text();
  std::fprintf(stderr, "ripc: a failed Result was asked for its value: %s: %.*s\n", error.name(),
               static_cast<int>(text.size()), text.data());
  std::abort();
}

// The C interface reads a string only up to its first zero byte, and would use a different file.
inline bool has_zero(const std::string& text) noexcept { return text.find('\0') != std::string::npos; }
inline Error zero_in_text() noexcept {
  return Error::with_static_text(RIPC_INVALID_ARGUMENT,
                                 "The name of a file or an option has a zero byte: leave it out.");
}

inline Error no_function() noexcept {
  return Error::with_static_text(RIPC_INVALID_ARGUMENT, "The function is empty: give one that can be called.");
}

}  // namespace detail

// A value, or the Error that explains why there is none. Moving it moves the value. Asking a failed Result for its
// value ends the program, with the error's sentence on standard error. The value of a temporary Result is moved out, so
// that a reference can keep it: `for (const auto& one : *context.services())`.
template <typename T>
class [[nodiscard]] Result {
  static_assert(!std::is_same_v<T, ripc_status> && !std::is_same_v<T, Error>, "return the Error itself");

 public:
  Result(T value) noexcept : value_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) noexcept : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  Result(ripc_status) = delete;  // say Error(status): a bare status would silently become a number in Result<size_t>

  bool ok() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return ok(); }
  // RIPC_OK if there is a value.
  const Error& error() const& noexcept { return error_; }
  Error error() && noexcept { return std::move(error_); }
  ripc_status code() const noexcept { return error_.code(); }

  T& value() & noexcept { return checked(*this); }
  const T& value() const& noexcept { return checked(*this); }
  T value() && noexcept { return std::move(checked(*this)); }
  T& operator*() & noexcept { return checked(*this); }
  const T& operator*() const& noexcept { return checked(*this); }
  T operator*() && noexcept { return std::move(checked(*this)); }
  T* operator->() noexcept { return &checked(*this); }
  const T* operator->() const noexcept { return &checked(*this); }

 private:
  template <typename Self>
  static auto& checked(Self& self) noexcept {
    if (!self.value_) [[unlikely]]
      detail::end_without_value(self.error_);
    return *self.value_;
  }

  std::optional<T> value_;
  Error error_;
};

namespace detail {

// Collects the values that a visitor gets. Exceptions must not cross the C interface, so a lack of memory is noted here
// until finish() reports it.
template <typename Value>
struct Collected {
  template <typename Make>
  void add(Make make) noexcept {
    try {
      values.push_back(make());
    } catch (const std::bad_alloc&) {
      out_of_memory = true;
    }
  }
  Result<std::vector<Value>> finish(ripc_status status) && noexcept {
    if (status != RIPC_OK) return Error::from_last_call(status);
    if (out_of_memory) return Error(RIPC_NO_MEMORY);
    return std::move(values);
  }
  std::vector<Value> values;
  bool out_of_memory = false;
};

}  // namespace detail

}  // namespace ripc
