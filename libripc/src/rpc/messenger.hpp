// SPDX-License-Identifier: Apache-2.0
// What calls need from the message layer: sending for one service, its paths, and the clock. Tests use their own
// implementation.
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

// The most bytes of AUTO items that travel in a message. Larger ones travel long, so that a repeat is only the header.
inline constexpr std::size_t kMostRepeated = std::size_t{128} << 10;

// Any thread, unless it says otherwise.
class Messenger {
 public:
  struct Path {
    bool is_known = false;               // messages can be sent without waiting
    bool loses = false;                  // a message may be lost on the way
    std::uint64_t incarnation = 0;       // of the service that the path leads to; 0: unknown
    std::weak_ptr<const void> way = {};  // what it is: another path to the same service has another one
  };
  virtual ~Messenger() = default;

  virtual std::uint64_t incarnation() const noexcept = 0;
  virtual Nanoseconds now() const noexcept = 0;
  // At most 10 ms behind now().
  virtual Nanoseconds rough_now() const noexcept = 0;
  // The time limit for finding a path.
  virtual Nanoseconds resolve_timeout() const noexcept = 0;
  virtual Path path(ripc_service_id to) noexcept = 0;

  // Sends a message of AUTO and SHORT items if the path is known; allocates nothing. RIPC_PENDING: send() has to do it.
  // `loses`: set if it was sent, to whether it may be lost.
  virtual ripc_status send_short(ripc_service_id to, std::span<const ripc_item> items, bool& loses) noexcept = 0;
  ripc_status send_short(ripc_service_id to, std::span<const ripc_item> items) noexcept {
    bool loses = false;
    return send_short(to, items, loses);
  }
  // Sends any message. Finds the path first, if there is none, unless `never_waits`.
  virtual Status send(const core::SendArguments& arguments, std::shared_ptr<core::Ticket>* ticket) = 0;
  // RIPC_INVALID_ARGUMENT: a GIVEN item does not lie in a lease.
  virtual Status check_given(std::span<const ripc_item> items) = 0;
  // Ends the leases of GIVEN items.
  virtual void release_given(std::span<const ripc_item> items) noexcept = 0;
  // Called when a message to this service had no room: the endpoint's changed() is called when there may be some.
  virtual void ask_for_room(ripc_service_id to) noexcept = 0;
  // Gives return buffers back. May wait for the peer that is writing one.
  virtual void end_request(std::uint64_t request, Deadline deadline) noexcept = 0;

  // The living members of a group, as far as they are known without asking other hosts. nullptr: find_path() has never
  // reported RIPC_OK for the group.
  virtual std::shared_ptr<const core::GroupList> members(ripc_service_id group) = 0;

  // Searches for the path to a service, or for members of a group, until it is found or the returned Search is
  // destroyed. `report` runs in another thread after each look, with RIPC_OK or the reason for the failure. It may run
  // once more while the Search is being destroyed.
  using Search = std::shared_ptr<void>;
  virtual Search find_path(ripc_service_id to, std::function<void(ripc_status)> report) = 0;

  // Wakes the receiving thread.
  virtual void wake() noexcept = 0;
};

}  // namespace ripc::internal::rpc
