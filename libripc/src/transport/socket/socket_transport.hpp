// SPDX-License-Identifier: Apache-2.0
// The socket transport: for contexts that are connected by nothing but IP. Short messages travel as UDP datagrams, long
// ones over TCP connections.
#pragma once

#include <cstddef>

#include "remote/session/rails.hpp"
#include "remote/session/session_transport.hpp"

namespace ripc::internal::socket {

struct TransportOptions : remote::SessionOptions {
  std::size_t bulk_connections = 1;  // per rail
  remote::RailOptions rails = {};
};

class SocketTransport final : public remote::SessionTransport {
 public:
  explicit SocketTransport(TransportOptions options);

 protected:
  Result<std::shared_ptr<remote::SessionLinks>> make_links(const remote::SessionPointer& session,
                                                           remote::BulkHooks hooks) override;
  std::unique_ptr<remote::LinkPort> make_port(const spi::PortOptions& port_options, EventSet& events,
                                              std::function<void(remote::LinkPort&)> closed) override;
  std::vector<std::string> own_ips() const override;

 private:
  class Links;

  const std::size_t bulk_connections_;
  const remote::RailOptions rails_;
};

}  // namespace ripc::internal::socket
