// SPDX-License-Identifier: Apache-2.0
// What a device writes in front of a received datagram: 40 bytes with a global routing header. On RoCE v2 this is the
// IPv6 header. With RoCE v2 over IPv4, the last 20 bytes hold the IPv4 header, and the first 20 anything.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "wire/session_control.hpp"

namespace ripc::internal::verbs {

inline constexpr std::size_t kGrhSize = 40;

struct DatagramEnds {
  wire::session_control::Gid source{};
  wire::session_control::Gid destination{};
};

// The addresses as GIDs: an IPv4 address a.b.c.d is ::ffff:a.b.c.d. nullopt: there is no such header. Earlier contents
// of the buffer must not look like a header, so its first byte must have been 0.
std::optional<DatagramEnds> read_grh(std::span<const std::byte, kGrhSize> header) noexcept;

}  // namespace ripc::internal::verbs
