// SPDX-License-Identifier: Apache-2.0
// librdmacm moves only queue pairs through their states that were made in its own context of the device. These are made
// in ours.
#pragma once

#include <cstdint>
#include <optional>

#include "base/status.hpp"
#include "transport/verbs/device/verbs_library.hpp"

namespace ripc::internal::verbs {

// RDMA reads that may be under way: of the peer's, and of this side's. What the handshake says, if there is nothing.
struct ReadDepths {
  std::optional<std::uint8_t> incoming, outgoing;
};

// A new queue pair for a connection of this id, which has a device: it takes receive requests afterwards.
Status prepare_pair(const VerbsLibrary& library, rdma_cm_id& id, ibv_qp& pair);
// The peer is known: it sends and receives afterwards.
Status bring_up_pair(const VerbsLibrary& library, rdma_cm_id& id, ibv_qp& pair, const ReadDepths& depths);

}  // namespace ripc::internal::verbs
