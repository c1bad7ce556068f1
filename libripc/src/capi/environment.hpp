// SPDX-License-Identifier: Apache-2.0
// Variables of the environment.
#pragma once

#include <cstdlib>
#include <string>

namespace ripc::capi {

// The value of a variable; empty if it is not set.
inline std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace ripc::capi
