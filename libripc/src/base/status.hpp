// SPDX-License-Identifier: Apache-2.0
// Status and Result: the one error policy. A failure is a Status with a sentence for people; nothing throws.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ripc/ripc.h"

namespace ripc {

// A status code and, for anything but ok, a sentence that says what happened and what to do. The sentence is either a
// static string (no allocation: fast-path statuses) or owned text.
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  Status(ripc_status code) noexcept : code_(code) {}  // NOLINT: the text is ripc_status_text(code)
  Status(ripc_status code, std::string text) : code_(code), text_(std::move(text)) {}

  bool ok() const noexcept { return code_ == RIPC_OK; }
  ripc_status code() const noexcept { return code_; }
  // The sentence; never empty for a failure.
  std::string_view text() const noexcept;

  friend bool operator==(const Status& status, ripc_status code) noexcept { return status.code_ == code; }

 private:
  ripc_status code_ = RIPC_OK;
  std::string text_;
};

// A Status that names the failed system call and the meaning of errno: EMFILE and ENFILE become RIPC_NO_DESCRIPTORS,
// ENOMEM and ENOSPC RIPC_NO_MEMORY, EACCES and EPERM RIPC_PERMISSION, anything else RIPC_SYSTEM. `advice` is appended.
Status system_error(int error, std::string_view call, std::string_view advice = {});

// A value or the Status that explains why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit by design
  Result(ripc_status code) : status_(code) {}            // NOLINT: implicit by design

  bool ok() const noexcept { return value_.has_value(); }
  const Status& status() const noexcept { return status_; }
  T& value() & noexcept { return *value_; }
  const T& value() const& noexcept { return *value_; }
  T&& value() && noexcept { return *std::move(value_); }
  T* operator->() noexcept { return &*value_; }
  const T* operator->() const noexcept { return &*value_; }
  T& operator*() & noexcept { return *value_; }
  const T& operator*() const& noexcept { return *value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace ripc
