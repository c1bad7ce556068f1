// SPDX-License-Identifier: Apache-2.0
#include "security/trust.hpp"

#include <algorithm>

#include "base/group_id.hpp"

namespace ripc::internal::security {
namespace {

template <typename Map, typename Key>
const Trust::Member* find(const Map& map, const std::vector<Trust::Member>& members, const Key& key) noexcept {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &members[found->second];
}

bool has(const std::vector<std::size_t>* holders, const Trust::Member& member) noexcept {
  return holders != nullptr && std::ranges::find(*holders, member.number) != holders->end();
}

}  // namespace

const Trust::Member* Trust::member(const PublicKey& key) const noexcept { return find(by_key_, members_, key); }

const Trust::Member* Trust::member_with(const ExchangeKey& key) const noexcept {
  return find(by_exchange_, members_, key);
}

const Trust::Member* Trust::member_named(std::string_view name) const noexcept {
  return find(by_name_, members_, name);
}

const Trust::Member* Trust::member_of(uid_t user) const noexcept { return find(by_user_, members_, user); }

const Trust::Holders* Trust::holders_of(std::string_view name) const {
  if (const auto found = names_.find(name); found != names_.end()) return &found->second;
  for (const std::size_t size : prefix_sizes_) {
    if (size > name.size()) continue;
    if (const auto found = prefixes_.find(name.substr(0, size)); found != prefixes_.end()) return &found->second;
  }
  return nullptr;
}

bool Trust::may_hold(const Member& member, std::string_view name, ripc_service_id id) const {
  if (id == 0 || is_group(id)) return false;
  if (!name.empty() && !has(holders_of(name), member)) return false;
  // The decoder of records has checked that the name has this ID.
  if (is_named(id)) return !name.empty();
  if (const auto found = ids_.find(id); found != ids_.end()) return has(&found->second, member);
  return is_random(id) || member.holds.all;
}

bool Trust::is_given(const Member& member, std::string_view name, ripc_service_id id) const {
  return may_hold(member, name, id) && (!is_random(id) || ids_.contains(id));
}

bool Trust::may_join(const Member& member, ripc_service_id group) const noexcept {
  return is_group(group) && (member.joins.all || member.joins.ids.contains(group));
}

bool Trust::may_call(const Member& member, std::string_view name, ripc_service_id id) const {
  const Grants& calls = member.calls;
  if (calls.all || is_random(id) || calls.ids.contains(id)) return true;
  if (!is_named(id) || name.empty()) return false;
  return calls.names.contains(std::string(name)) ||
         std::ranges::any_of(calls.prefixes, [&](const std::string& prefix) { return name.starts_with(prefix); });
}

bool Trust::may_claim(const Member* member, ripc_service_id id) const {
  if (id == 0 || is_group(id)) return false;
  if (const auto found = ids_.find(id); found != ids_.end()) return member != nullptr && has(&found->second, *member);
  // The name, and so the prefix that decides, cannot be known.
  return is_random(id) || (member != nullptr && member->holds.all);
}

std::string_view Trust::unsigned_part(std::string_view text) noexcept {
  if (!text.ends_with('\n')) return text;
  const std::size_t end = text.size() < 2 ? std::string_view::npos : text.rfind('\n', text.size() - 2);
  const std::size_t start = end == std::string_view::npos ? 0 : end + 1;
  return text.substr(start).starts_with("signature ") ? text.substr(0, start) : text;
}

}  // namespace ripc::internal::security
