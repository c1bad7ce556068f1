// SPDX-License-Identifier: Apache-2.0
// Rules shared by all resolvers that publish: who may take an ID, and with which incarnation.
#pragma once

#include <cstdint>

#include "base/status.hpp"
#include "spi/resolver.hpp"

namespace ripc::internal::spi {

// Whether `record` may take its ID from `holder`, which is alive. RIPC_NAME_COLLISION: the ID was made from a name, and
// the names differ. RIPC_ID_IN_USE: it was not asked for takeover. The same registration may come again with a larger
// incarnation; a new one has none yet.
Status check_holder(const ServiceRecord& record, const ServiceRecord& holder, bool takeover);

// The incarnation of a new holder: `wanted` if it is larger than `previous`, the incarnation of the last known holder
// (0: none). Otherwise it is the wall clock in nanoseconds or previous + 1, whichever is larger.
std::uint64_t next_incarnation(std::uint64_t wanted, std::uint64_t previous) noexcept;

// Whether a record may carry this address. Whoever resolves the record would open the directory that a shared-memory
// address names, and keep it open; only the user's own list of services may name any.
inline bool is_for_records(const Address& address) noexcept {
  return address.transport != "shm" || address.locator.starts_with('#');
}

// No clock exceeds this for two centuries. A larger number is forged, to leave no room for later incarnations.
inline constexpr std::uint64_t kMaxIncarnation = INT64_MAX;

}  // namespace ripc::internal::spi
