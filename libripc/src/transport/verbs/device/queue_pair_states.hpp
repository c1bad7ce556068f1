// SPDX-License-Identifier: Apache-2.0
// Moves queue pairs through their states. librdmacm does that only for pairs made in its own context of the device;
// ours are made in our context.
#pragma once

#include <cstdint>
#include <optional>

#include "base/status.hpp"
#include "transport/verbs/device/verbs_library.hpp"

namespace ripc::internal::verbs {

// How many RDMA reads of the peer and of this side may be under way. Where a value is missing, the handshake decides.
struct ReadDepths {
  std::optional<std::uint8_t> incoming, outgoing;
};

// Prepares a new queue pair for a connection of this id, which has a device. It takes receive requests afterwards.
Status prepare_pair(const VerbsLibrary& library, rdma_cm_id& id, ibv_qp& pair);
// Brings up the queue pair when the peer is known. It sends and receives afterwards.
Status bring_up_pair(const VerbsLibrary& library, rdma_cm_id& id, ibv_qp& pair, const ReadDepths& depths);

}  // namespace ripc::internal::verbs
