// SPDX-License-Identifier: Apache-2.0
// Starts the threads of the library.
#pragma once

#include <pthread.h>

#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "base/status.hpp"

namespace ripc::internal {

// Tools that show threads show `name`, of at most 15 characters. `what` begins the sentence of an error: RIPC_SYSTEM.
template <typename Body>
Status start_thread(std::thread& thread, const char* name, std::string_view what, Body&& body) try {
  thread = std::thread(std::forward<Body>(body));
  ::pthread_setname_np(thread.native_handle(), name);
  return {};
} catch (const std::system_error& error) {
  return system_error(error.code().value(), what, "raise ulimit -u");
}

}  // namespace ripc::internal
