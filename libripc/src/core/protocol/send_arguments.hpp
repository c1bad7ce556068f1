// SPDX-License-Identifier: Apache-2.0
// The arguments of any send.
#pragma once

#include <cstdint>
#include <span>

#include "base/clock.hpp"
#include "core/state/message.hpp"
#include "ripc/ripc.h"

namespace ripc::internal::core {

struct SendArguments {
  ripc_service_id to = 0;
  std::span<const ripc_item> items{};
  std::uint32_t tag = 0;
  std::span<const ripc_return_buffer> returns{};
  Nanoseconds timeout = 30'000'000'000;
  ripc_ticket_callback callback = nullptr;
  void* user = nullptr;
  std::uint64_t* request_id = nullptr;  // gets the name of the request; 0: there are no return buffers
  ripc_group_outcome* outcome = nullptr;
  const Message* reply_to = nullptr;
  bool unordered = false;             // delivered as soon as it is complete
  bool more = false;                  // another long message to the same service is sent at once, by the same thread
  std::size_t auto_limit = SIZE_MAX;  // AUTO items leave a packet that would be larger, and travel long
  bool is_loan_secret = false;        // the caller does not see the ticket, and so not the end of a loan
  bool never_waits = false;           // RIPC_PENDING: the path is not known, or is not yet made wide enough
  bool holds_leases = false;          // short items in leases do not change while someone holds those leases

  bool is_reply() const noexcept { return reply_to != nullptr && reply_to->request != 0; }
};

}  // namespace ripc::internal::core
