// SPDX-License-Identifier: Apache-2.0
// News about the network interfaces of this machine.
#pragma once

#include "base/unique_fd.hpp"

namespace ripc::internal {

// A socket that becomes readable when an interface or address changes; the reader empties it (drain_watch). Where the
// system does not allow this, the descriptor is invalid, and changes go unnoticed.
UniqueFd watch_interfaces();
void drain_watch(int fd) noexcept;

}  // namespace ripc::internal
