// SPDX-License-Identifier: Apache-2.0
// Cap'n Proto RPC.
#include <capnp/ez-rpc.h>
#include <echo.capnp.h>

#include <memory>

#include "echo_program.hpp"

namespace {

std::string target(const peers::Address& address) {
  return address.path.empty() ? "127.0.0.1:" + std::to_string(address.port) : "unix:" + address.path;
}

class EchoServer final : public peers::Echo::Server {
  kj::Promise<void> echo(EchoContext context) override {
    context.getResults().setData(context.getParams().getData());
    return kj::READY_NOW;
  }
};

void serve(const peers::Address& address) {
  capnp::EzRpcServer server(kj::heap<EchoServer>(), target(address));
  kj::NEVER_DONE.wait(server.getWaitScope());
}

kj::Promise<void> call_all(peers::Echo::Client& echo, peers::Slot& slot) {
  const std::string bytes = slot.begin();
  if (bytes.empty()) return kj::READY_NOW;
  auto request = echo.echoRequest();
  request.setData(kj::arrayPtr(reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()));
  return request.send().then([&](auto&& response) {
    const auto data = response.getData();
    slot.end({reinterpret_cast<const char*>(data.begin()), data.size()});
    return call_all(echo, slot);
  });
}

}  // namespace

int main(int argc, char** argv) {
  std::unique_ptr<capnp::EzRpcClient> client;
  return peers::main(argc, argv, serve, [&](const peers::Address& address, peers::Slots& slots) {
    if (!client) client = std::make_unique<capnp::EzRpcClient>(target(address));
    auto echo = client->getMain<peers::Echo>();
    kj::Vector<kj::Promise<void>> all;
    for (peers::Slot& slot : slots) all.add(call_all(echo, slot));
    kj::joinPromises(all.releaseAsArray()).wait(client->getWaitScope());
  });
}
