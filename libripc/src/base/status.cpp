// SPDX-License-Identifier: Apache-2.0
#include "base/status.hpp"

#include <cerrno>
#include <new>
#include <system_error>

#include "base/status_text.hpp"

namespace ripc::internal {
namespace {

ripc_status code_of(int error) noexcept {
  switch (error) {
    case EMFILE:
    case ENFILE:
      return RIPC_NO_DESCRIPTORS;
    case ENOMEM:
    case ENOSPC:
      return RIPC_NO_MEMORY;
    case EACCES:
    case EPERM:
      return RIPC_PERMISSION;
    default:
      return RIPC_SYSTEM;
  }
}

std::string_view default_advice(ripc_status code) noexcept {
  switch (code) {
    case RIPC_NO_DESCRIPTORS:
      return "raise the limit with `ulimit -n`, or close descriptors that are not needed";
    case RIPC_NO_MEMORY:
      return "free memory or disk space, or raise the limit of this process or container";
    case RIPC_PERMISSION:
      return "check the user of this process and what its container or sandbox allows";
    default:
      return "`ripc doctor` checks what libripc needs from this machine";
  }
}

}  // namespace

Status::Status(ripc_status code, std::string text) noexcept : code_(code) {
  if (text.empty()) return;
  try {
    text_ = std::make_shared<const std::string>(std::move(text));
  } catch (const std::bad_alloc&) {
    text_ = nullptr;
  }
}

std::string_view Status::text() const noexcept {
  if (text_ != nullptr) return *text_;
  return literal_ != nullptr && *literal_ != '\0' ? literal_ : status_text(code_);
}

Status system_error(int error, std::string_view call, std::string_view advice) noexcept try {
  const ripc_status code = code_of(error);
  std::string text(call);
  text += " failed: ";
  text += std::generic_category().message(error);
  text += " (errno ";
  text += std::to_string(error);
  text += "); ";
  // If descriptors have run out, the call itself is not at fault.
  text += advice.empty() || code == RIPC_NO_DESCRIPTORS ? default_advice(code) : advice;
  if (text.back() != '.') text += '.';
  return Status(code, std::move(text));
} catch (const std::bad_alloc&) {
  return code_of(error);
}

}  // namespace ripc::internal
