// SPDX-License-Identifier: Apache-2.0
// Measures a plain Unix stream socket between two processes. ADDRESS is the path of the socket.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "pair_program.hpp"

namespace {

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "unix_pair: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
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
  while (::connect(socket, name, sizeof address) != 0) {  // alarm() limits the wait
    if (errno != ENOENT && errno != ECONNREFUSED) fail(path);
    ::usleep(1000);
  }
  return socket;
}

class Link {
 public:
  Link(const char* path, bool serve) : socket_(open_socket(path, serve)) {}
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link() { ::close(socket_); }

  void send(const std::vector<char>& bytes) const {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t count = ::send(socket_, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
      if (count < 0) fail("send");
      done += static_cast<std::size_t>(count);
    }
  }
  void receive(std::vector<char>& bytes) const {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t count = ::recv(socket_, bytes.data() + done, bytes.size() - done, 0);
      if (count <= 0) fail("recv");
      done += static_cast<std::size_t>(count);
    }
  }

 private:
  int socket_;
};

}  // namespace

int main(int argc, char** argv) { return pair_program::main<Link>(argc, argv); }
