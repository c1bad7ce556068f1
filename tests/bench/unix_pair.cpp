// SPDX-License-Identifier: Apache-2.0
// What a plain Unix stream socket does between two processes; one of the programs that tests/bench/compare runs beside
// `ripc bench`. The two sides are two processes, so that each can be put on its own processor:
//
//   unix_pair serve PATH latency|rate|bandwidth SIZE COUNT
//   unix_pair run   PATH latency|rate|bandwidth SIZE COUNT
//
// latency: COUNT round trips of SIZE bytes; rate and bandwidth: COUNT messages of SIZE bytes one way, then one byte
// back when the last one was read. `run` prints one JSON object: p50_ns (of a round trip; 0 unless latency) and
// seconds (for everything). A message is read whole, as a protocol with lengths would. Both end after 60 seconds.
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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
  std::fprintf(stderr, "unix_pair: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

void send_all(int socket, const std::vector<char>& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::send(socket, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (count < 0) fail("send");
    done += static_cast<std::size_t>(count);
  }
}

void receive_all(int socket, std::vector<char>& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::recv(socket, bytes.data() + done, bytes.size() - done, 0);
    if (count <= 0) fail("recv");
    done += static_cast<std::size_t>(count);
  }
}

int open_socket(const char* path, bool serve) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (std::strlen(path) >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    fail(path);
  }
  std::strcpy(address.sun_path, path);
  const auto* name = reinterpret_cast<const sockaddr*>(&address);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) fail("socket");
  if (serve) {
    if (::bind(socket, name, sizeof address) != 0 || ::listen(socket, 1) != 0) fail(path);
    const int connection = ::accept(socket, nullptr, nullptr);
    if (connection < 0) fail("accept");
    ::unlink(path);
    return connection;
  }
  while (::connect(socket, name, sizeof address) != 0) {  // alarm() bounds it
    if (errno != ENOENT && errno != ECONNREFUSED) fail(path);
    ::usleep(1000);
  }
  return socket;
}

void serve(int socket, bool echo, std::size_t size, std::size_t count) {
  std::vector<char> bytes(size), end(1);
  for (std::size_t i = 0; i < count; ++i) {
    receive_all(socket, bytes);
    if (echo) send_all(socket, bytes);
  }
  if (!echo) send_all(socket, end);
}

void run(int socket, bool echo, std::size_t size, std::size_t count) {
  std::vector<char> bytes(size, 'x'), end(1);
  std::vector<double> samples;
  samples.reserve(count);
  const double start = now();
  for (std::size_t i = 0; i < count; ++i) {
    const double before = echo ? now() : 0;
    send_all(socket, bytes);
    if (!echo) continue;
    receive_all(socket, bytes);
    samples.push_back(now() - before);
  }
  if (!echo) receive_all(socket, end);
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
    std::fprintf(stderr, "usage: unix_pair serve|run PATH latency|rate|bandwidth SIZE COUNT\n");
    return 2;
  }
  ::alarm(kSeconds);
  const int socket = open_socket(argv[2], side == "serve");
  (side == "serve" ? serve : run)(socket, test == "latency", size, count);
  ::close(socket);
  return 0;
}
