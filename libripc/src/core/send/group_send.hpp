// SPDX-License-Identifier: Apache-2.0
// Sending short messages to the members of groups.
#pragma once

#include <cstddef>

#include "core/path/paths.hpp"
#include "core/send/short_send.hpp"
#include "core/state/group_table.hpp"

namespace ripc::internal::core {

// Any thread.
class GroupSend {
 public:
  // timeout: how long members are looked for.
  GroupSend(ShortSend& sender, Paths& paths, GroupTable& groups, spi::Resolver& resolver, Nanoseconds timeout) noexcept
      : sender_(sender), paths_(paths), groups_(groups), resolver_(resolver), timeout_(timeout) {}

  Status send(const SendArguments& arguments);
  // The short limit of the member that takes least.
  Result<std::size_t> short_limit(ripc_service_id group, std::size_t items);
  // Whether some member has room; `request`: if not, Host::room() will be called. Also true if no member has a channel,
  // or if the next send looks for that of a member without one.
  Result<bool> has_room(ripc_service_id group, bool request);
  // After this time, has_room() may know other members.
  Nanoseconds refresh() const noexcept { return groups_.refresh(); }

 private:
  struct Sending;
  void send_to_members(const GroupList& list, Sending& sending);
  void send_together(Sending& sending) noexcept;
  ripc_status send_to_member(GroupMember& member, Sending& sending, bool alone = true);
  Status connect_and_send(GroupMember& member, Sending& sending);
  void lose_member(const GroupMember& member, ripc_service_id group);

  ShortSend& sender_;
  Paths& paths_;
  GroupTable& groups_;
  spi::Resolver& resolver_;
  const Nanoseconds timeout_;
};

}  // namespace ripc::internal::core
