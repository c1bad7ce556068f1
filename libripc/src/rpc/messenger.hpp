// SPDX-License-Identifier: Apache-2.0
// What calls need of the messages below them: one service's sending, its paths, and the clock. Tests have one of their
// own.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "base/clock.hpp"
#include "base/status.hpp"
#include "core/protocol/send_arguments.hpp"
#include "core/state/group_table.hpp"
#include "core/state/ticket.hpp"

namespace ripc::internal::rpc {

// Bytes of AUTO items that travel in a message, at most. More travel long: then a repeat is only the header.
inline constexpr std::size_t kMostRepeated = std::size_t{128} << 10;

// Any thread, unless it says otherwise.
class Messenger {
 public:
  struct Path {
    bool is_known = false;          // messages can be sent without waiting
    bool loses = false;             // a message may be lost on the way
    std::uint64_t incarnation = 0;  // of the service that it leads to; 0: unknown
  };
  virtual ~Messenger() = default;

  virtual std::uint64_t incarnation() const noexcept = 0;
  virtual Nanoseconds now() const noexcept = 0;
  // Behind now() by 10 ms at most.
  virtual Nanoseconds rough_now() const noexcept = 0;
  // For finding a path.
  virtual Nanoseconds resolve_timeout() const noexcept = 0;
  virtual Path path(ripc_service_id to) noexcept = 0;

  // A message of AUTO and SHORT items, where the path is known: no allocation. RIPC_PENDING: send() has to do it.
  // `loses`: where it is sent, whether it may be lost.
  virtual ripc_status send_short(ripc_service_id to, std::span<const ripc_item> items, bool& loses) noexcept = 0;
  ripc_status send_short(ripc_service_id to, std::span<const ripc_item> items) noexcept {
    bool loses = false;
    return send_short(to, items, loses);
  }
  // Any message. Finds the path first, if there is none.
  virtual Status send(const core::SendArguments& arguments, std::shared_ptr<core::Ticket>* ticket) = 0;
  // Ends the lease of what was given.
  virtual void release_given(std::span<const ripc_item> items) noexcept = 0;
  // A message to this service had no room: changed() of the endpoint is called when it may have some.
  virtual void ask_for_room(ripc_service_id to) noexcept = 0;
  // Gives return buffers back. May wait for the peer that is writing one.
  virtual void end_request(std::uint64_t request) noexcept = 0;

  // The living members of a group, as far as is known without asking other hosts; nullptr: find_path() of the group
  // never reported RIPC_OK.
  virtual std::shared_ptr<const core::GroupList> members(ripc_service_id group) = 0;

  // Looks for the path to a service, or for members of a group, until it is found, or the result is gone. `report` runs
  // in another thread after each look: RIPC_OK, or why it was not found; it may run once more while the result goes.
  using Search = std::shared_ptr<void>;
  virtual Search find_path(ripc_service_id to, std::function<void(ripc_status)> report) = 0;

  // Ends the wait of the thread that receives.
  virtual void wake() noexcept = 0;
};

}  // namespace ripc::internal::rpc
