// SPDX-License-Identifier: Apache-2.0
// Registrations that may be refused.
#pragma once

#include <functional>

#include "harness.hpp"

namespace conformance {

// Returns the status of a registration, and ends the registration at once.
inline ripc_status try_register(const Context& context, const std::function<void(ripc_service_options&)>& change) {
  ripc_service_options options = initialized(ripc_service_options_init);
  change(options);
  ripc_service* service = nullptr;
  const ripc_status status = ripc_service_register(context.get(), &options, &service);
  EXPECT_EQ(service != nullptr, status == RIPC_OK) << "a refused registration makes no handle";
  ripc_service_unregister(service);
  return status;
}

inline ripc_status try_register(const Context& context, ripc_service_id id) {
  return try_register(context, [id](ripc_service_options& options) { options.id = id; });
}

}  // namespace conformance
