// SPDX-License-Identifier: Apache-2.0
#include "base/status.hpp"

#include <cerrno>
#include <system_error>

#include "base/status_text.hpp"

namespace ripc {
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

std::string_view Status::text() const noexcept {
  return text_.empty() ? std::string_view(status_text(code_)) : std::string_view(text_);
}

Status system_error(int error, std::string_view call, std::string_view advice) {
  const ripc_status code = code_of(error);
  std::string text(call);
  text += " failed: ";
  text += std::generic_category().message(error);
  text += " (errno ";
  text += std::to_string(error);
  text += "); ";
  text += advice.empty() ? default_advice(code) : advice;
  if (text.back() != '.') text += '.';
  return Status(code, std::move(text));
}

}  // namespace ripc
