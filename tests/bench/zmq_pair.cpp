// SPDX-License-Identifier: Apache-2.0
// Measures ZeroMQ (PAIR sockets) between two processes. ADDRESS is an endpoint, such as ipc:///tmp/x.
#include <zmq.h>

#include "pair_program.hpp"

namespace {

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "zmq_pair: %s: %s\n", what, zmq_strerror(zmq_errno()));
  std::_Exit(1);
}

class Link {
 public:
  Link(const char* endpoint, bool serve) : context_(zmq_ctx_new()), socket_(zmq_socket(context_, ZMQ_PAIR)) {
    if (socket_ == nullptr) fail("zmq_socket");
    if ((serve ? zmq_bind(socket_, endpoint) : zmq_connect(socket_, endpoint)) != 0) fail(endpoint);
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link() {
    zmq_close(socket_);  // what was sent is delivered before zmq_ctx_term() returns
    zmq_ctx_term(context_);
  }

  void send(const std::vector<char>& bytes) {
    if (zmq_send(socket_, bytes.data(), bytes.size(), 0) < 0) fail("zmq_send");
  }
  void receive(std::vector<char>& bytes) {
    if (zmq_recv(socket_, bytes.data(), bytes.size(), 0) != static_cast<int>(bytes.size())) fail("zmq_recv");
  }

 private:
  void* context_;
  void* socket_;
};

}  // namespace

int main(int argc, char** argv) { return pair_program::main<Link>(argc, argv); }
