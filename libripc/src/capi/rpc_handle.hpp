// SPDX-License-Identifier: Apache-2.0
// The handle of an endpoint.
#pragma once

#include "capi/error.hpp"
#include "ripc/rpc.h"
#include "rpc/endpoint.hpp"

namespace ripc::internal::capi {

inline rpc::Endpoint* from(ripc_rpc* handle) noexcept { return reinterpret_cast<rpc::Endpoint*>(handle); }

// The request was answered, dropped or refused; or there is none. True until another request uses its memory.
inline bool is_over(const ripc_request* request) noexcept { return request == nullptr || request->message == nullptr; }

// guarded() for a call on an endpoint.
template <typename Call>
ripc_status on_endpoint(ripc_rpc* handle, const Call& call) noexcept {
  return guarded([&]() -> Status {
    if (handle == nullptr) return RIPC_INVALID_ARGUMENT;
    if (!from(handle)->service().context().usable()) return RIPC_FORKED;
    return call(*from(handle));
  });
}

}  // namespace ripc::internal::capi
