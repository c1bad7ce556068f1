// SPDX-License-Identifier: Apache-2.0
// libibverbs and librdmacm, found when the program runs. A host without them runs libripc without this transport, and a
// program that links libripc need not link them. The headers are needed to build.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <memory>

#include "base/status.hpp"

namespace ripc::internal::verbs {

// Member, function. Inline functions of verbs.h go through the device's own table and are called directly.
#define RIPC_VERBS_FUNCTIONS(X)                     \
  X(query_device, ibv_query_device)                 \
  X(query_port, ibv_query_port)                     \
  X(query_gid, ibv_query_gid)                       \
  X(query_pkey, ibv_query_pkey)                     \
  X(alloc_pd, ibv_alloc_pd)                         \
  X(dealloc_pd, ibv_dealloc_pd)                     \
  X(reg_mr, ibv_reg_mr)                             \
  X(dereg_mr, ibv_dereg_mr)                         \
  X(create_comp_channel, ibv_create_comp_channel)   \
  X(destroy_comp_channel, ibv_destroy_comp_channel) \
  X(create_cq, ibv_create_cq)                       \
  X(destroy_cq, ibv_destroy_cq)                     \
  X(get_cq_event, ibv_get_cq_event)                 \
  X(ack_cq_events, ibv_ack_cq_events)               \
  X(create_qp, ibv_create_qp)                       \
  X(modify_qp, ibv_modify_qp)                       \
  X(query_qp, ibv_query_qp)                         \
  X(destroy_qp, ibv_destroy_qp)                     \
  X(create_ah, ibv_create_ah)                       \
  X(destroy_ah, ibv_destroy_ah)                     \
  X(attach_mcast, ibv_attach_mcast)                 \
  X(detach_mcast, ibv_detach_mcast)                 \
  X(open_device, ibv_open_device)                   \
  X(close_device, ibv_close_device)                 \
  X(get_async_event, ibv_get_async_event)           \
  X(ack_async_event, ibv_ack_async_event)

#define RIPC_RDMACM_FUNCTIONS(X)                       \
  X(create_event_channel, rdma_create_event_channel)   \
  X(destroy_event_channel, rdma_destroy_event_channel) \
  X(create_id, rdma_create_id)                         \
  X(destroy_id, rdma_destroy_id)                       \
  X(bind_addr, rdma_bind_addr)                         \
  X(set_option, rdma_set_option)                       \
  X(resolve_addr, rdma_resolve_addr)                   \
  X(resolve_route, rdma_resolve_route)                 \
  X(connect, rdma_connect)                             \
  X(listen, rdma_listen)                               \
  X(accept, rdma_accept)                               \
  X(reject, rdma_reject)                               \
  X(disconnect, rdma_disconnect)                       \
  X(join_multicast, rdma_join_multicast)               \
  X(leave_multicast, rdma_leave_multicast)             \
  X(get_cm_event, rdma_get_cm_event)                   \
  X(ack_cm_event, rdma_ack_cm_event)                   \
  X(get_devices, rdma_get_devices)                     \
  X(free_devices, rdma_free_devices)                   \
  X(init_qp_attr, rdma_init_qp_attr)                   \
  X(establish, rdma_establish)

// Immutable; any thread. Stays loaded until the process ends, because both libraries keep internal state.
struct VerbsLibrary {
  // RIPC_UNSUPPORTED: the libraries are not installed, or too old.
  static Result<std::shared_ptr<const VerbsLibrary>> load();

  // Asks a device about a port. False, with errno: it does not answer. The plain function fills in only the first part
  // of the structure, and nobody looks at the rest.
  bool read_port(ibv_context* context, std::uint8_t number, ibv_port_attr& attributes) const noexcept {
    return query_port(context, number, reinterpret_cast<_compat_ibv_port_attr*>(&attributes)) == 0;
  }

// NOLINTNEXTLINE(bugprone-macro-parentheses): a name that is declared
#define RIPC_MEMBER(member, function) decltype(&::function) member = nullptr;
  RIPC_VERBS_FUNCTIONS(RIPC_MEMBER)
  RIPC_RDMACM_FUNCTIONS(RIPC_MEMBER)
#undef RIPC_MEMBER
};

}  // namespace ripc::internal::verbs
