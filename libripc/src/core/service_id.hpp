// SPDX-License-Identifier: Apache-2.0
// IDs: well-known numbers (00), groups (01), names (10) and random ones (11), distinguished by their two top bits.
#pragma once

#include <string_view>

#include "base/status.hpp"

namespace ripc::internal::core {

// 1 to 200 bytes of valid UTF-8 without '/' and control characters.
Status check_service_name(std::string_view name);
// RIPC_OK if the ID is a group's.
Status check_group(ripc_service_id id);

// The top bits 10, then 62 bits of XXH3-64 over the name's bytes. The name must be valid.
ripc_service_id service_id_from_name(std::string_view name) noexcept;

// The top bits 011, then 61 bits of XXH3-64 over the name's bytes. The name must be valid.
ripc_service_id group_id_from_name(std::string_view name) noexcept;

// The same for any text. RIPC_INVALID_ARGUMENT: it is not a valid name.
Result<ripc_service_id> id_of_name(std::string_view name);
Result<ripc_service_id> id_of_group(std::string_view name);

// The top bits 11, then 62 random bits.
ripc_service_id random_service_id() noexcept;

}  // namespace ripc::internal::core
