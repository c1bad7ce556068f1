// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/device/queue_pair_states.hpp"

#include <errno.h>

namespace ripc::internal::verbs {

namespace {

// Some kernels set additional private bits.
constexpr int kKnownAttributes = (static_cast<int>(IBV_QP_DEST_QPN) << 1) - 1;

Status move(const VerbsLibrary& library, rdma_cm_id& id, ibv_qp& pair, ibv_qp_state state, const ReadDepths& depths) {
  ibv_qp_attr attributes{};
  attributes.qp_state = state;
  int mask = 0;
  if (library.init_qp_attr(&id, &attributes, &mask) != 0)
    return system_error(errno, "rdma_init_qp_attr", "see `ripc doctor`");
  if (state == IBV_QPS_RTR && depths.incoming) attributes.max_dest_rd_atomic = *depths.incoming;
  if (state == IBV_QPS_RTS && depths.outgoing) attributes.max_rd_atomic = *depths.outgoing;
  if (const int error = library.modify_qp(&pair, &attributes, mask & kKnownAttributes); error != 0)
    return system_error(error, "ibv_modify_qp", "see `ripc doctor`");
  return {};
}

}  // namespace

Status prepare_pair(const VerbsLibrary& library, rdma_cm_id& id, ibv_qp& pair) {
  return move(library, id, pair, IBV_QPS_INIT, {});
}

Status bring_up_pair(const VerbsLibrary& library, rdma_cm_id& id, ibv_qp& pair, const ReadDepths& depths) {
  // The first time, it was not yet known what the peer may do.
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    if (Status status = move(library, id, pair, state, depths); !status.ok()) return status;
  }
  return {};
}

}  // namespace ripc::internal::verbs
