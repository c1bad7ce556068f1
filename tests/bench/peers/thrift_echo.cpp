// SPDX-License-Identifier: Apache-2.0
// Thrift: its binary protocol, one connection, one server thread. Its client has no window, but the two halves of a
// call can be used separately.
#include <gen-cpp/Echo.h>
#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/server/TSimpleServer.h>
#include <thrift/transport/TBufferTransports.h>
#include <thrift/transport/TServerSocket.h>
#include <thrift/transport/TSocket.h>

#include <memory>

#include "echo_program.hpp"

namespace {

namespace protocol = apache::thrift::protocol;
namespace transport = apache::thrift::transport;

class Handler final : public peers::EchoIf {
  void echo(std::string& answer, const std::string& data) override { answer = data; }
};

void serve(const peers::Address& address) {
  const auto socket = address.path.empty() ? std::make_shared<transport::TServerSocket>("127.0.0.1", address.port)
                                           : std::make_shared<transport::TServerSocket>(address.path);
  apache::thrift::server::TSimpleServer server(std::make_shared<peers::EchoProcessor>(std::make_shared<Handler>()),
                                               socket, std::make_shared<transport::TBufferedTransportFactory>(),
                                               std::make_shared<protocol::TBinaryProtocolFactory>());
  server.serve();
}

class Caller {
 public:
  explicit Caller(const peers::Address& address)
      : transport_(std::make_shared<transport::TBufferedTransport>(
            address.path.empty() ? std::make_shared<transport::TSocket>("127.0.0.1", address.port)
                                 : std::make_shared<transport::TSocket>(address.path))),
        client_(std::make_shared<protocol::TBinaryProtocol>(transport_)) {
    transport_->open();
  }

  // Answers come in the order of the calls.
  void run(peers::Slots& slots) {
    std::size_t under_way = 0;
    for (peers::Slot& slot : slots) under_way += begin(slot) ? 1 : 0;
    std::string answer;
    for (std::size_t next = 0; under_way > 0; next = (next + 1) % slots.size()) {
      client_.recv_echo(answer);
      slots[next].end(answer);
      if (!begin(slots[next])) --under_way;
    }
  }

 private:
  bool begin(peers::Slot& slot) {
    const std::string bytes = slot.begin();
    if (!bytes.empty()) client_.send_echo(bytes);
    return !bytes.empty();
  }

  std::shared_ptr<transport::TTransport> transport_;
  peers::EchoClient client_;
};

}  // namespace

int main(int argc, char** argv) {
  std::unique_ptr<Caller> caller;
  return peers::main(argc, argv, serve, [&](const peers::Address& address, peers::Slots& slots) {
    if (!caller) caller = std::make_unique<Caller>(address);
    caller->run(slots);
  });
}
