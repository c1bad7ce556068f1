// SPDX-License-Identifier: Apache-2.0
// What ZeroMQ (PAIR sockets, ipc) does between two processes; one of the programs that tests/bench/compare runs beside
// `ripc bench`. Arguments, work and output are those of unix_pair.cpp, with an endpoint such as ipc:///tmp/x for PATH.
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace {

constexpr unsigned kSeconds = 60;

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "zmq_pair: %s: %s\n", what, zmq_strerror(zmq_errno()));
  std::_Exit(1);
}

void send(void* socket, const std::vector<char>& bytes) {
  if (zmq_send(socket, bytes.data(), bytes.size(), 0) < 0) fail("zmq_send");
}

void receive(void* socket, std::vector<char>& bytes) {
  if (zmq_recv(socket, bytes.data(), bytes.size(), 0) != static_cast<int>(bytes.size())) fail("zmq_recv");
}

void serve(void* socket, bool echo, std::size_t size, std::size_t count) {
  std::vector<char> bytes(size), end(1);
  for (std::size_t i = 0; i < count; ++i) {
    receive(socket, bytes);
    if (echo) send(socket, bytes);
  }
  if (!echo) send(socket, end);
}

void run(void* socket, bool echo, std::size_t size, std::size_t count) {
  std::vector<char> bytes(size, 'x'), end(1);
  std::vector<double> samples;
  samples.reserve(count);
  const double start = now();
  for (std::size_t i = 0; i < count; ++i) {
    const double before = echo ? now() : 0;
    send(socket, bytes);
    if (!echo) continue;
    receive(socket, bytes);
    samples.push_back(now() - before);
  }
  if (!echo) receive(socket, end);
  const double seconds = now() - start;
  std::sort(samples.begin(), samples.end());
  std::printf("{\"p50_ns\": %.1f, \"seconds\": %.9f}\n", echo ? samples[samples.size() / 2] * 1e9 : 0.0, seconds);
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t size = argc == 6 ? std::strtoull(argv[4], nullptr, 10) : 0;
  const std::size_t count = argc == 6 ? std::strtoull(argv[5], nullptr, 10) : 0;
  const std::string_view side = argc == 6 ? argv[1] : "", test = argc == 6 ? argv[3] : "";
  const bool known = (side == "serve" || side == "run") && (test == "latency" || test == "rate" || test == "bandwidth");
  if (!known || size == 0 || count == 0) {
    std::fprintf(stderr, "usage: zmq_pair serve|run ENDPOINT latency|rate|bandwidth SIZE COUNT\n");
    return 2;
  }
  ::alarm(kSeconds);
  void* context = zmq_ctx_new();
  void* socket = zmq_socket(context, ZMQ_PAIR);
  if (socket == nullptr) fail("zmq_socket");
  if ((side == "serve" ? zmq_bind(socket, argv[2]) : zmq_connect(socket, argv[2])) != 0) fail(argv[2]);
  (side == "serve" ? serve : run)(socket, test == "latency", size, count);
  zmq_close(socket);  // what was sent is delivered before zmq_ctx_term() returns
  zmq_ctx_term(context);
  return 0;
}
