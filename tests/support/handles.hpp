// SPDX-License-Identifier: Apache-2.0
// Owners of the handles of ripc.h.
#pragma once

#include <memory>

#include "ripc/ripc.h"

namespace support {

template <auto function>
struct Release {
  template <typename Handle>
  void operator()(Handle* handle) const {
    function(handle);
  }
};
using Context = std::unique_ptr<ripc_context, Release<ripc_context_destroy>>;
using Service = std::unique_ptr<ripc_service, Release<ripc_service_unregister>>;
using ViewHold = std::unique_ptr<ripc_view_hold, Release<ripc_view_hold_release>>;
using Message = std::unique_ptr<ripc_message, Release<ripc_message_release>>;
using Ticket = std::unique_ptr<ripc_ticket, Release<ripc_ticket_release>>;

}  // namespace support
