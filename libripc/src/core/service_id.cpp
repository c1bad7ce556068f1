// SPDX-License-Identifier: Apache-2.0
#include "core/service_id.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/group_id.hpp"
#include "base/plain_text.hpp"
#include "base/random.hpp"
#include "spi/resolver.hpp"

namespace ripc::internal::core {

namespace {

constexpr ripc_service_id kLowBits = (ripc_service_id{1} << 62) - 1;
constexpr ripc_service_id kNamedGroup = ripc_service_id{3} << 61;
constexpr ripc_service_id kNamed = ripc_service_id{2} << 62;
constexpr ripc_service_id kRandom = ripc_service_id{3} << 62;

}  // namespace

Status check_service_name(std::string_view name) {
  if (name.empty() || name.size() > spi::kMaxNameSize)
    return Status(RIPC_INVALID_ARGUMENT,
                  "A name has 1 to 200 bytes; this one has " + std::to_string(name.size()) + ".");
  if (!is_plain_text(name) || name.find('/') != std::string_view::npos)
    return Status(RIPC_INVALID_ARGUMENT, "A name is UTF-8 text without '/' and control characters.");
  return {};
}

Status check_group(ripc_service_id id) {
  if (is_group(id)) return {};
  return Status(RIPC_INVALID_ARGUMENT,
                id_text(id) + " is not the ID of a group: make one from a name, or from a number of a group.");
}

ripc_service_id service_id_from_name(std::string_view name) noexcept {
  return kNamed | (XXH3_64bits(name.data(), name.size()) & kLowBits);
}

ripc_service_id group_id_from_name(std::string_view name) noexcept {
  return kNamedGroup | (XXH3_64bits(name.data(), name.size()) & (kLowBits >> 1));
}

Result<ripc_service_id> id_of_name(std::string_view name) {
  if (Status status = check_service_name(name); !status.ok()) return status;
  return service_id_from_name(name);
}

Result<ripc_service_id> id_of_group(std::string_view name) {
  if (Status status = check_service_name(name); !status.ok()) return status;
  return group_id_from_name(name);
}

ripc_service_id random_service_id() noexcept { return kRandom | (random_u64() & kLowBits); }

}  // namespace ripc::internal::core
