// SPDX-License-Identifier: Apache-2.0
#include "remote/session/authenticator.hpp"

#include <cstring>

#include "base/random.hpp"

namespace ripc::internal::remote {

Status Authenticator::authorize(int socket) {
  Status status = authorizer_.authorize_connection(socket);
  if (status == RIPC_REFUSED) count_refused();
  return status;
}

wire::session_control::Nonce random_nonce() noexcept {
  wire::session_control::Nonce nonce;
  for (std::size_t offset = 0; offset < nonce.size(); offset += sizeof(std::uint64_t)) {
    const std::uint64_t random = random_u64();
    std::memcpy(nonce.data() + offset, &random, sizeof random);
  }
  return nonce;
}

}  // namespace ripc::internal::remote
