// SPDX-License-Identifier: Apache-2.0
// What the two ends of an RDMA connection tell each other before the connection exists. They name its session, and
// prove that the session is theirs. The specification is docs/wire.md.
//
//   56 bytes   u8 version | 7 zero | u64 session | u64 number | proof (32)
#pragma once

#include <cstdint>

#include "security/secret.hpp"
#include "transport/verbs/device/connection_manager.hpp"
#include "wire/session_control.hpp"

namespace ripc::internal::verbs {

struct ConnectionPrivateData {
  std::uint64_t session = 0;
  std::uint64_t number = 0;  // of the attempt within its session; it grows
  security::Secret::Bytes proof{};
};

enum class Side : std::uint8_t { dialing, accepting };

// The proof is a MAC, with the session's secret, over the nonce that the accepting side sent over the control
// connection. Without a secret (null), the proof is the nonce itself, which only the two ends of that connection know.
PrivateData make_private_data(const security::Secret* secret, Side side, const wire::session_control::Nonce& nonce,
                              std::uint64_t session, std::uint64_t number);
// False: the data is invalid, or of another version.
bool parse(const PrivateData& data, ConnectionPrivateData& claim);
bool is_proven(const security::Secret* secret, Side side, const wire::session_control::Nonce& nonce,
               const ConnectionPrivateData& claim);

}  // namespace ripc::internal::verbs
