// SPDX-License-Identifier: Apache-2.0
// gRPC, with its callback interface on both sides.
#include <echo.grpc.pb.h>
#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <memory>
#include <mutex>

#include "echo_program.hpp"

namespace {

std::string target(const peers::Address& address) {
  return address.path.empty() ? "127.0.0.1:" + std::to_string(address.port) : "unix:" + address.path;
}

class EchoService final : public peers::Echo::CallbackService {
  grpc::ServerUnaryReactor* Echo(grpc::CallbackServerContext* context, const peers::Bytes* request,
                                 peers::Bytes* response) override {
    response->set_data(request->data());
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

void serve(const peers::Address& address) {
  EchoService service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(target(address), grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  if (const auto server = builder.BuildAndStart()) server->Wait();
}

class Caller {
 public:
  explicit Caller(const peers::Address& address)
      : stub_(peers::Echo::NewStub(grpc::CreateChannel(target(address), grpc::InsecureChannelCredentials()))) {}

  void run(peers::Slots& slots) {
    left_ = slots.size();
    for (peers::Slot& slot : slots) begin(slot);
    std::unique_lock lock(mutex_);
    all_ended_.wait(lock, [this] { return left_ == 0; });
  }

 private:
  struct Call {
    grpc::ClientContext context;
    peers::Bytes request, response;
  };
  void begin(peers::Slot& slot) {
    auto call = std::make_shared<Call>();
    call->request.set_data(slot.begin());
    if (call->request.data().empty()) {
      const std::lock_guard lock(mutex_);
      if (--left_ == 0) all_ended_.notify_one();
      return;
    }
    stub_->async()->Echo(&call->context, &call->request, &call->response, [this, call, &slot](grpc::Status status) {
      slot.end(status.ok() ? call->response.data() : "");
      begin(slot);
    });
  }

  std::unique_ptr<peers::Echo::Stub> stub_;
  std::mutex mutex_;
  std::condition_variable all_ended_;
  std::size_t left_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  std::unique_ptr<Caller> caller;
  return peers::main(argc, argv, serve, [&](const peers::Address& address, peers::Slots& slots) {
    if (!caller) caller = std::make_unique<Caller>(address);
    caller->run(slots);
  });
}
