// SPDX-License-Identifier: Apache-2.0
// One datagram for many receivers: sends messages to groups by the network's multicast if the members' links leave by
// the same port of a device. A *round* is a set of links that were asked to join with one token. Nothing is sent with
// it before all of them have received a greeting, so that all members of a round are reached. See
// docs/internals/groups.md for the picture.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/backoff.hpp"
#include "base/clock.hpp"
#include "remote/session/session.hpp"
#include "spi/transport.hpp"
#include "transport/verbs/datagram/datagram_sender.hpp"
#include "transport/verbs/groups/group_memberships.hpp"

namespace ripc::internal::verbs {

class DatagramChannel;

// Any thread.
class GroupSender final : public spi::Multicast, public std::enable_shared_from_this<GroupSender> {
 public:
  static constexpr std::size_t kMostMembers = 256;  // of a round; the other members get separate copies
  static constexpr std::size_t kMostGroups = 64;    // if there are more, the one used longest ago is forgotten

  // Asks for the membership of the sender's port in a group; `joined` gets it later, in any thread.
  using Join = std::function<void(ripc_service_id group, std::function<void(MembershipPointer)> joined)>;

  GroupSender(std::shared_ptr<DatagramSender> sender, Join join) : join_(std::move(join)), sender_(std::move(sender)) {}

  void send(ripc_service_id group, std::span<spi::Channel* const> channels, const wire::Plain& message,
            std::span<std::uint8_t> sent) noexcept override;
  // The receiver of this link has received a greeting with the token.
  void joined(std::uint32_t link, std::uint64_t token) noexcept;
  // This link leaves the port.
  void left(std::uint32_t link) noexcept;
  // The device is gone. Links that have moved away may keep this object.
  void give_up() noexcept;

 private:
  struct Member {
    std::uint32_t link = 0;
    // Empty: it was not asked. Weak: a round must not keep a lost session alive.
    std::weak_ptr<remote::Session> session;
    bool has_joined = false;
  };
  struct Round {
    std::uint64_t token = 0;      // 0: there is no round
    std::vector<Member> members;  // in the order of their links
    std::uint32_t sequence = 0;   // of the last packet
    Nanoseconds began = 0;
    Nanoseconds greet_at = 0;
    Backoff greet_pause{1'000'000, 64'000'000};
  };
  struct Group {
    MembershipPointer membership;
    Nanoseconds ask_at = 0;                     // earliest time to ask for the membership
    std::shared_ptr<const JoinedGroup> joined;  // what `route` was made of
    DatagramRoute route;
    Round active;                           // all have joined; usable while all its links are present
    Round pending;                          // not all have joined
    Nanoseconds round_at = 0;               // earliest time of a new round
    std::vector<std::uint32_t> not_joined;  // links that have not joined in time, in order
    Nanoseconds retry_at = 0;
    std::uint64_t last_use = 0;
  };
  // A channel of the send that is going on.
  struct Present {
    std::uint32_t link;
    std::size_t index;
    DatagramChannel* channel;
  };

  Group& group_locked(ripc_service_id id);
  bool is_ready_locked(ripc_service_id id, Group& group);
  void take_present_locked(std::span<spi::Channel* const> channels);
  const Present* find_present_locked(std::uint32_t link) const noexcept;
  void prepare_locked(ripc_service_id id, Group& group);
  void begin_round_locked(ripc_service_id id, Group& group, Nanoseconds now);
  void greet_locked(const Group& group, Round& round, Nanoseconds now) noexcept;
  void send_round_locked(Group& group, const wire::Plain& message, std::span<std::uint8_t> sent);

  const Join join_;
  // Held while channels or the sender are locked.
  std::mutex mutex_;
  std::shared_ptr<DatagramSender> sender_;  // null: given up
  std::unordered_map<ripc_service_id, Group> groups_;
  std::uint64_t uses_ = 0;
  // Of the send that is going on; kept to reuse their memory.
  std::vector<Present> present_;            // in the order of their links
  std::vector<std::uint32_t> candidates_;   // links of the next round, in order
  std::vector<DatagramChannel*> channels_;  // of the active round
};

}  // namespace ripc::internal::verbs
