// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "capi/diagnose.hpp"
#include "security/cipher.hpp"

namespace ripc::internal::capi {

void check_encryption(Report& report, const Settings& settings) {
  if (settings.network.is_closed || settings.network.keys == nullptr) return;
  const bool uses_rdma = std::ranges::find(settings.transports, "verbs") != settings.transports.end();
  if (settings.encrypt == RIPC_ENCRYPT_OFF) {
    report.add(Level::limited, "encryption",
               "off: what goes between hosts is authentic, but anybody on the path reads it" +
                   std::string(uses_rdma ? "; over RDMA only short messages are authentic" : ""),
               "unset RIPC_ENCRYPT, and leave out options.encrypt, unless the network is trusted");
    return;
  }
  const std::string suite(security::name_of(security::choose_suite(security::own_suites(), security::own_suites())));
  report.add(Level::good, "encryption",
             suite + " over sockets, " +
                 (settings.encrypt == RIPC_ENCRYPT_REQUIRED ? "or no connection" : "with peers that do not say off") +
                 (uses_rdma ? "; over RDMA short messages are signed, not secret, and long items are neither" : ""),
             uses_rdma ? "RIPC_ENCRYPT=required leaves RDMA out" : "");
}

void check_identity(Report& report, const Settings& settings) {
  const security::Credentials& credentials = settings.credentials;
  if (settings.network.mode == RIPC_NETWORK_OPEN) {
    report.add(Level::good, "identity", "not used: RIPC_NETWORK is open, so everybody may be and do everything",
               "to tell members apart: unset RIPC_NETWORK, and make a cluster key; docs/security.md");
    return;
  }
  if (!credentials.trust) {
    if (settings.network.is_closed) return;
    report.add(Level::good, "identity",
               std::string(credentials.identity ? "this context has one, but there is no trust file: "
                                                : "none, and no trust file: ") +
                   "whoever has the cluster key may be and do everything",
               "to tell members apart: ripc key new --identity, ripc trust add; docs/security.md");
    return;
  }
  const std::shared_ptr<const security::Trust> trust = credentials.trust->current();
  const std::string file = credentials.trust->path() + (trust->is_signed() ? ", signed, " : " ") + "has " +
                           std::to_string(trust->members().size()) +
                           (trust->members().size() == 1 ? " member; " : " members; ");
  if (settings.network.is_closed) {
    report.add(Level::good, "identity", file + "this context talks to this host only, where users prove who they are");
    return;
  }
  if (!credentials.identity) {
    report.add(Level::limited, "identity", file + "this context has no identity, so other hosts refuse it",
               "make one and add it: ripc key new --identity, ripc trust add");
    return;
  }
  const security::PublicKey& key = credentials.identity->public_key();
  const security::Trust::Member* const member = trust->member(key);
  if (member == nullptr) {
    report.add(Level::limited, "identity", file + "this context's identity is not among them",
               "ripc trust add NAME " + security::public_key_text(key));
    return;
  }
  report.add(Level::good, "identity", file + "this context is " + member->name);
}

}  // namespace ripc::internal::capi
