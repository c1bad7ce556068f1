// SPDX-License-Identifier: Apache-2.0
// The socket transport: contexts that have nothing but IP between them. Short messages travel as UDP datagrams, long
// ones over TCP connections.
#pragma once

#include <cstddef>
#include <string_view>

#include "remote/session/session_transport.hpp"

namespace ripc::socket {

struct TransportOptions : remote::SessionOptions {
  std::size_t bulk_connections = 1;
};

class SocketTransport final : public remote::SessionTransport {
 public:
  explicit SocketTransport(TransportOptions options);

 protected:
  Result<std::shared_ptr<remote::Bulk>> make_bulk(const remote::SessionPointer& session,
                                                  remote::BulkHooks hooks) override;
  void connect_bulk(const remote::SessionPointer& session) override;
  void bulk_accepted(const remote::SessionPointer& session, remote::GuardedSocket socket) override;
  std::vector<std::string> own_ips() const override;

 private:
  const std::size_t bulk_connections_;
};

}  // namespace ripc::socket
