// SPDX-License-Identifier: Apache-2.0
// The parts of a context, which the caller has chosen and opened.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/spin.hpp"
#include "memory/pool.hpp"
#include "security/credentials.hpp"
#include "spi/resolver.hpp"
#include "spi/transport.hpp"

namespace ripc::internal::core {

struct ContextParts {
  std::uint64_t id = 0;
  std::unique_ptr<memory::Pool> pool;
  std::vector<std::unique_ptr<spi::Transport>> transports;  // preferred first
  std::vector<std::string> optional;                        // transports that are left out if they cannot start
  std::vector<std::string> withheld;                        // transports that this context may not use
  std::string withheld_reason;                              // "because ...", and what to do about it
  bool is_encryption_required = false;                      // transports that cannot encrypt are left out
  std::unique_ptr<spi::Resolver> resolver;
  security::Credentials credentials;  // used by transports and resolver
  Nanoseconds resolve_timeout = 1'000'000'000;
  Spin spin;
  Nanoseconds group_refresh = 250'000'000;
};

}  // namespace ripc::internal::core
