// SPDX-License-Identifier: Apache-2.0
// What a context authenticates itself with, whom it trusts, and what it has refused.
#pragma once

#include <memory>

#include "base/cluster_key.hpp"
#include "security/counters.hpp"
#include "security/identity.hpp"
#include "security/trust_file.hpp"

namespace ripc::internal::security {

// Each but the counters may be missing (null).
struct Credentials {
  std::shared_ptr<const ClusterKeys> keys;   // none: anyone who reaches a port or a group is a peer
  std::shared_ptr<const Identity> identity;  // none: a member without a name
  std::shared_ptr<TrustFile> trust;          // none: every member may be and do everything
  std::shared_ptr<Counters> counters = std::make_shared<Counters>();
};

}  // namespace ripc::internal::security
