// SPDX-License-Identifier: Apache-2.0
// The credentials of the members in the tests of resolvers.
#pragma once

#include <memory>
#include <string>

#include "unit/security/trust_helpers.hpp"

namespace ripc::internal::test {

inline const std::string kTrustText = "alice " + security::key_of(1) + " holds=bank joins=prices\nbob " +
                                      security::key_of(2) + " holds=*\ncarol " + security::key_of(3) + "\n";

// `member`: 1 is alice, 2 bob, 3 carol; others are not in the trust file, and 0 has no identity.
inline security::Credentials member_credentials(std::shared_ptr<const ClusterKeys> keys, unsigned member,
                                                const std::string& text = kTrustText) {
  return {.keys = std::move(keys),
          .identity = member == 0 ? nullptr : security::identity_of(member),
          .trust = std::make_shared<security::TrustFile>(security::trust_of(text))};
}

}  // namespace ripc::internal::test
