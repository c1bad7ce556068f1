// SPDX-License-Identifier: Apache-2.0
// Environment variables.
#pragma once

#include <stdlib.h>

#include <cstdint>
#include <string>

#include "base/parse_number.hpp"
#include "base/status.hpp"

namespace ripc::internal::capi {

// The value of a variable; empty if it is not set. A set-user-ID program ignores the environment: the user who starts
// it must not choose its peers.
inline std::string environment(const char* name) {
  const char* value = ::secure_getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// Sets `number` if the variable is set.
inline Status read_number(const char* name, std::uint64_t least, std::uint64_t most, std::uint64_t& number) {
  const std::string text = environment(name);
  if (text.empty()) return {};
  std::uint64_t value = 0;
  if (!parse_number(text, value) || value < least || value > most)
    return Status(RIPC_INVALID_ARGUMENT, std::string(name) + " is '" + text + "': give a whole number from " +
                                             std::to_string(least) + " to " + std::to_string(most) + ".");
  number = value;
  return {};
}

// Sets `choice` if the variable is "on" or "off".
inline Status read_switch(const char* name, bool& choice) {
  const std::string text = environment(name);
  if (!text.empty() && text != "on" && text != "off")
    return Status(RIPC_INVALID_ARGUMENT, std::string(name) + " is '" + text + "': set it to on or off.");
  if (!text.empty()) choice = text == "on";
  return {};
}

}  // namespace ripc::internal::capi
