// SPDX-License-Identifier: Apache-2.0
#include "capi/error.hpp"

#include <string>

#include "base/status_text.hpp"

namespace ripc::internal::capi {

namespace {

struct LastError {
  ripc_status code = RIPC_OK;
  std::string text;  // empty: the code's general sentence suffices
};

LastError& last_error() noexcept {
  thread_local LastError error;
  return error;
}

}  // namespace

void remember(ripc_status code) noexcept {
  LastError& error = last_error();
  error.code = code;
  error.text.clear();
}

ripc_status report(const Status& status) noexcept {
  if (status.ok()) return RIPC_OK;
  remember(status.code());
  try {
    last_error().text = status.text();
  } catch (...) {
    // Without memory for the sentence, the general one must suffice.
  }
  return status.code();
}

}  // namespace ripc::internal::capi

extern "C" {

const char* ripc_status_name(ripc_status status) { return ripc::internal::status_name(status); }
const char* ripc_status_text(ripc_status status) { return ripc::internal::status_text(status); }
const char* ripc_version(void) { return RIPC_VERSION_STRING; }

const char* ripc_last_error(void) {
  const auto& error = ripc::internal::capi::last_error();
  return error.text.empty() ? ripc::internal::status_text(error.code) : error.text.c_str();
}

}  // extern "C"
