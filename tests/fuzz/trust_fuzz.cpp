// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of trust files. Any text is refused with its line, or understood. If it is understood, the rights
// of its members do not contradict each other.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/service_id.hpp"
#include "require.hpp"
#include "security/trust.hpp"

namespace {

using fuzz::require;
using ripc::internal::Result;
using ripc::internal::Status;
using ripc::internal::security::Trust;
namespace core = ripc::internal::core;

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  require(text.starts_with(Trust::unsigned_part(text)));
  static const Trust::Reading kReading{.service_id = core::id_of_name, .group_id = core::id_of_group, .signer = {}};
  const auto read = Trust::parse(text, "FILE", kReading);
  if (!read.ok()) {
    require(read.status() == RIPC_INVALID_ARGUMENT);
    require(read.status().text().find("FILE") != std::string_view::npos);
    return 0;
  }
  const Trust& trust = **read;
  for (const Trust::Member& member : trust.members()) {
    require(trust.member_named(member.name) == &member && trust.member(member.key) == &member);
    require(trust.member_with(member.exchange) == &member);
    require(!member.user || trust.member_of(*member.user) == &member);
    for (const std::string& name : member.holds.names) {
      const Result<ripc_service_id> id = core::id_of_name(name);
      if (!id.ok()) continue;
      // A name that the file gives to a member is its own; a member with only a matching prefix cannot hold it.
      require(trust.may_hold(member, name, *id) && trust.is_given(member, name, *id) && trust.may_claim(&member, *id));
      for (const Trust::Member& other : trust.members())
        require(trust.may_hold(other, name, *id) == other.holds.names.contains(name));
      require(!trust.may_claim(nullptr, *id));
    }
    for (const ripc_service_id id : member.holds.ids) require(trust.may_hold(member, "", id));
    for (const ripc_service_id group : member.joins.ids) require(trust.may_join(member, group));
    for (const std::string& name : member.calls.names) {
      if (const Result<ripc_service_id> id = core::id_of_name(name); id.ok())
        require(trust.may_call(member, name, *id));
    }
  }
  return 0;
}
