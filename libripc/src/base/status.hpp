// SPDX-License-Identifier: Apache-2.0
// Status and Result: the one error policy. A failure is a Status with a sentence for people; our code does not throw.
// Where the standard library throws for lack of memory, the nearest function that can return a status catches it. The
// last ones to catch it are capi/error.hpp and the event loop, which tries again.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ripc/ripc.h"

namespace ripc::internal {

// A status code and, for anything but ok, a sentence that says what happened and what to do. The sentence is either a
// literal or shared text. So copying a status, or making one from a literal, takes no memory.
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  Status(ripc_status code) noexcept : code_(code) {}  // NOLINT: the text is ripc_status_text(code)
  template <std::size_t size>
  Status(ripc_status code, const char (&literal)[size]) noexcept : code_(code), literal_(literal) {}
  template <std::size_t size>
  Status(ripc_status code, char (&buffer)[size]) = delete;  // not a literal: it may not live long enough
  // If there is no memory for the text, the status has the general text of its code.
  Status(ripc_status code, std::string text) noexcept;

  bool ok() const noexcept { return code_ == RIPC_OK; }
  ripc_status code() const noexcept { return code_; }
  // The sentence; never empty for a failure.
  std::string_view text() const noexcept;

  friend bool operator==(const Status& status, ripc_status code) noexcept { return status.code_ == code; }

 private:
  ripc_status code_ = RIPC_OK;
  const char* literal_ = nullptr;
  std::shared_ptr<const std::string> text_;
};

// A Status that names the failed system call and the meaning of errno: EMFILE and ENFILE become RIPC_NO_DESCRIPTORS,
// ENOMEM and ENOSPC RIPC_NO_MEMORY, EACCES and EPERM RIPC_PERMISSION, anything else RIPC_SYSTEM. `advice` is appended.
// If there is no memory for the sentence, the status has only the code.
Status system_error(int error, std::string_view call, std::string_view advice = {}) noexcept;

// A value or the Status that explains why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit by design
  Result(ripc_status code) : status_(code) {}            // NOLINT: implicit by design
  template <typename From>
  Result(Result<From> other) : status_(other.status()) {  // NOLINT: implicit by design
    if (other.ok()) value_ = std::move(other).value();
  }

  bool ok() const noexcept { return value_.has_value(); }
  const Status& status() const noexcept { return status_; }
  T& value() & noexcept { return *value_; }
  const T& value() const& noexcept { return *value_; }
  T&& value() && noexcept { return *std::move(value_); }
  T* operator->() noexcept { return &*value_; }
  const T* operator->() const noexcept { return &*value_; }
  T& operator*() & noexcept { return *value_; }
  const T& operator*() const& noexcept { return *value_; }

  // Moves the value, if any, to `to`. Returns the status.
  template <typename To>
  Status move_to(To& to) && {
    if (ok()) to = *std::move(value_);
    return std::move(status_);
  }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace ripc::internal
