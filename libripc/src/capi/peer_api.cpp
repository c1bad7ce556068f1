// SPDX-License-Identifier: Apache-2.0
// The C interface for the identity of peers, and for what was refused.
#include "capi/error.hpp"
#include "capi/handles.hpp"
#include "capi/rpc_handle.hpp"
#include "ripc/rpc.h"

using namespace ripc::internal;        // NOLINT: the C functions stand outside of any namespace
using namespace ripc::internal::capi;  // NOLINT

namespace {

static_assert(RIPC_IDENTITY_SIZE > security::Trust::kMaxMemberName);

ripc_status describe(const core::Message& message, ripc_peer* peer) noexcept {
  auto result = blank<ripc_peer>();
  result.user = UINT32_MAX;
  if (message.peer != nullptr) {
    copy_text(result.identity, message.peer->identity);
    if (message.peer->user) {
      result.is_on_this_host = 1;
      result.user = *message.peer->user;
    }
  }
  return write_sized(result, peer) ? RIPC_OK : report(bad_size("ripc_peer"));
}

}  // namespace

extern "C" {

void ripc_peer_init(ripc_peer* peer) {
  init(peer);
  if (peer != nullptr) peer->user = UINT32_MAX;
}

ripc_status ripc_message_peer(const ripc_message* message, ripc_peer* peer) {
  if (message == nullptr || peer == nullptr) return report(RIPC_INVALID_ARGUMENT);
  return describe(*from(message), peer);
}

void ripc_security_statistics_init(ripc_security_statistics* statistics) { init(statistics); }

ripc_status ripc_security_get_statistics(ripc_context* context, ripc_security_statistics* statistics) {
  return guarded_on(context, [&](auto& self) -> Status {
    if (statistics == nullptr) return RIPC_INVALID_ARGUMENT;
    const security::Credentials& credentials = self.credentials();
    const security::Counters& counters = *credentials.counters;
    auto current = blank<ripc_security_statistics>();
    current.handshakes_refused = security::Counters::read(counters.handshakes_refused);
    current.links_refused = security::Counters::read(counters.links_refused);
    current.records_refused = security::Counters::read(counters.records_refused);
    current.packets_refused = security::Counters::read(counters.packets_forged) +
                              security::Counters::read(counters.packets_replayed) +
                              security::Counters::read(counters.packets_not_admitted);
    if (credentials.trust) {
      current.trust_reloads = credentials.trust->reloads();
      current.trust_failures = credentials.trust->failures();
    }
    return write_sized(current, statistics) ? Status() : bad_size("ripc_security_statistics");
  });
}

ripc_status ripc_trust_status(ripc_context* context) {
  return guarded_on(context, [&](auto& self) -> Status {
    const std::shared_ptr<security::TrustFile>& trust = self.credentials().trust;
    if (!trust) return {};
    return trust->look();
  });
}

ripc_status ripc_request_peer(const ripc_request* request, ripc_peer* peer) {
  if (is_over(request) || peer == nullptr) return report(RIPC_INVALID_ARGUMENT);
  return describe(*request->message, peer);
}

}  // extern "C"
