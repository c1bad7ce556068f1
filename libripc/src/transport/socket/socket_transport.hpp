// SPDX-License-Identifier: Apache-2.0
// The socket transport: contexts that have nothing but IP between them. Short messages travel as UDP datagrams, long
// ones over TCP connections.
#pragma once

#include <cstddef>
#include <string_view>

#include "network/session_transport.hpp"

namespace ripc::socket {

struct TransportOptions : network::SessionOptions {
  std::size_t bulk_connections = 1;
};

class SocketTransport final : public network::SessionTransport {
 public:
  explicit SocketTransport(TransportOptions options);

  std::string_view name() const noexcept override { return "socket"; }

 protected:
  Result<std::shared_ptr<network::Bulk>> make_bulk(const network::SessionPointer& session,
                                                   network::BulkHooks hooks) override;
  void connect_bulk(const network::SessionPointer& session) override;
  void bulk_accepted(const network::SessionPointer& session, network::GuardedSocket socket) override;
  std::vector<std::string> own_ips() const override;

 private:
  const std::size_t bulk_connections_;
};

}  // namespace ripc::socket
