// SPDX-License-Identifier: Apache-2.0
// The only place where C++ results become C statuses.
#pragma once

#include <new>
#include <utility>

#include "base/status.hpp"

namespace ripc::internal::capi {

// Remembers a failure for ripc_last_error() and returns its code.
ripc_status report(const Status& status) noexcept;
inline ripc_status report(ripc_status code) noexcept;
// Remembers a failure that needs no text of its own.
void remember(ripc_status code) noexcept;

inline ripc_status report(ripc_status code) noexcept {
  if (code != RIPC_OK) [[unlikely]]
    remember(code);
  return code;
}

// Runs a call of the C interface. No exception leaves it, and a failure is remembered. `call` returns Status or
// ripc_status.
template <typename Call>
ripc_status guarded(Call&& call) noexcept {
  try {
    return report(std::forward<Call>(call)());
  } catch (const std::bad_alloc&) {
    return report(RIPC_NO_MEMORY);
  } catch (...) {
    return report(RIPC_SYSTEM);
  }
}

}  // namespace ripc::internal::capi
