// SPDX-License-Identifier: Apache-2.0
// The calls to libsodium that cluster keys, identities and trust files share.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>

#include "base/status.hpp"

namespace ripc::internal {

// Call it before any other use. RIPC_SYSTEM: libsodium does not work here.
Status start_sodium();

// BLAKE2b of a purpose and parts. The boundaries between parts count, and a hash made for one use is not valid for
// another. `key`: 16 to 64 bytes, or empty. `hash`: 16 to 64 bytes. No allocation, no system call.
void hash_parts(std::span<const std::byte> key, std::string_view purpose,
                std::initializer_list<std::span<const std::byte>> parts, std::span<std::byte> hash) noexcept;

}  // namespace ripc::internal
