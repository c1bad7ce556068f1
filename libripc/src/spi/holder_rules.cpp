// SPDX-License-Identifier: Apache-2.0
#include "spi/holder_rules.hpp"

#include <algorithm>
#include <string>

#include "base/clock.hpp"
#include "base/group_id.hpp"
#include "base/plain_text.hpp"

namespace ripc::internal::spi {
namespace {

std::string holder_text(const ServiceRecord& holder) {
  std::string text =
      holder.name.empty() ? std::string("a service without a name") : "the service '" + holder.name + "'";
  if (holder.pid != 0) text += " of process " + std::to_string(holder.pid);
  return text;
}

}  // namespace

Status check_holder(const ServiceRecord& record, const ServiceRecord& holder, bool takeover) {
  if (record.context == holder.context && record.incarnation > holder.incarnation) return {};
  // Two names can have the same ID by accident only if the ID was made from a name.
  const bool named = is_named(record.id);
  if (named && holder.name != record.name)
    return Status(RIPC_NAME_COLLISION, "The service ID " + id_text(record.id) + " is held by " + holder_text(holder) +
                                           ": rename one of the two, or give one another ID.");
  if (takeover) return {};
  return Status(RIPC_ID_IN_USE, "The service ID " + id_text(record.id) + " is held by " + holder_text(holder) +
                                    ", which is alive: take another ID, end that process, or ask for takeover.");
}

std::uint64_t next_incarnation(std::uint64_t wanted, std::uint64_t previous) noexcept {
  if (previous > kMaxIncarnation) previous = 0;
  if (wanted > previous) return wanted;
  return std::max<std::uint64_t>(realtime_now(), previous + 1);
}

}  // namespace ripc::internal::spi
