// SPDX-License-Identifier: Apache-2.0
// The names and sentences of the status codes. Any thread.
#pragma once

#include "ripc/ripc.h"

namespace ripc::internal {

// The short name of a status, such as "RIPC_AGAIN"; "RIPC_UNKNOWN" for a value this version does not know. Static;
// never null.
const char* status_name(ripc_status status) noexcept;

// One sentence on what a status means and what to do. Static; never null, never empty.
const char* status_text(ripc_status status) noexcept;

}  // namespace ripc::internal
