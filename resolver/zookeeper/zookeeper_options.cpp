// SPDX-License-Identifier: Apache-2.0
#include "resolver/zookeeper/zookeeper_options.hpp"

#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include "base/parse_number.hpp"

namespace ripc::internal::resolver {
namespace {

constexpr std::size_t kMaxHostSize = 255;
constexpr std::size_t kMaxChrootSize = 200;

Status wrong_ensemble(std::string_view item, std::string_view why) {
  return Status(RIPC_INVALID_ARGUMENT, "RIPC_ZOOKEEPER: '" + std::string(item) + "' " + std::string(why) +
                                           ": write HOST:PORT,...[/FOLDER], such as zk1:2181,zk2:2181,zk3:2181/ripc.");
}

bool is_host_character(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}

bool is_address_character(char c) noexcept { return is_host_character(c) || c == ':' || c == '%'; }

Result<ZooKeeperServer> parse_server(std::string_view item) {
  ZooKeeperServer server;
  std::string_view port;
  bool has_port = false;
  bool is_valid = false;
  if (item.starts_with('[')) {
    const std::size_t end = item.find(']');
    if (end == std::string_view::npos) return wrong_ensemble(item, "has no closing bracket");
    server.host = item.substr(1, end - 1);
    is_valid = std::ranges::all_of(server.host, is_address_character);
    const std::string_view rest = item.substr(end + 1);
    has_port = !rest.empty();
    if (has_port && rest[0] != ':') return wrong_ensemble(item, "has something else than a port after the address");
    if (has_port) port = rest.substr(1);
  } else {
    const std::size_t colon = item.find(':');
    has_port = colon != std::string_view::npos;
    server.host = item.substr(0, colon);
    if (has_port) port = item.substr(colon + 1);
    is_valid = std::ranges::all_of(server.host, is_host_character);
  }
  if (server.host.empty() || server.host.size() > kMaxHostSize || !is_valid)
    return wrong_ensemble(item, "names no host");
  std::uint64_t number = 0;
  if (has_port && (!parse_number(port, number) || number == 0 || number > 65535))
    return wrong_ensemble(item, "has no port from 1 to 65535");
  if (has_port) server.port = static_cast<std::uint16_t>(number);
  return server;
}

// Checks the path as ZooKeeper requires, and allows only plain characters.
bool is_chroot(std::string_view path) {
  if (path.size() > kMaxChrootSize) return false;
  while (!path.empty()) {
    path.remove_prefix(1);
    const std::string_view part = path.substr(0, path.find('/'));
    if (part.empty() || part == "." || part == ".." || !std::ranges::all_of(part, is_host_character)) return false;
    path.remove_prefix(part.size());
  }
  return true;
}

}  // namespace

std::string ZooKeeperServer::text() const {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<AddressList> ZooKeeperServer::look_up() const {
  const std::string port_text = std::to_string(port);
  addrinfo hints{};
  hints.ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  int error = ::getaddrinfo(host.c_str(), port_text.c_str(), &hints, &first);
  if (error == EAI_ADDRFAMILY) {
    // The host has no address of that kind, except on the loopback interface.
    hints.ai_flags = AI_NUMERICSERV;
    error = ::getaddrinfo(host.c_str(), port_text.c_str(), &hints, &first);
  }
  const int reason = errno;
  if (error == 0) return AddressList(first, &::freeaddrinfo);
  std::string cause = error == EAI_SYSTEM ? std::strerror(reason) : ::gai_strerror(error);
  if (error == EAI_SYSTEM && reason == EMFILE) cause += "; raise ulimit -n";
  if (error == EAI_NONAME || error == EAI_NODATA)
    return Status(RIPC_NO_SERVICE, "the host name " + host + " has no address (" + cause + ")");
  return Status(RIPC_SYSTEM, "the host name " + host + " cannot be looked up (" + cause + ")");
}

std::string ZooKeeperOptions::text() const {
  std::string text;
  for (const ZooKeeperServer& server : servers) text += (text.empty() ? "" : ",") + server.text();
  return text + chroot;
}

Result<std::string> ZooKeeperOptions::connect_text() const {
  std::set<std::string> addresses;
  ripc_status failure = RIPC_SYSTEM;
  std::string reasons;
  for (const ZooKeeperServer& server : servers) {
    const Result<AddressList> found = server.look_up();
    if (!found.ok()) {
      failure = found.status().code();
      reasons.append(reasons.empty() ? "" : "; ").append(found.status().text());
      continue;
    }
    for (const addrinfo* address = found->get(); address != nullptr; address = address->ai_next) {
      char text[INET6_ADDRSTRLEN + 1 + IF_NAMESIZE];
      if (::getnameinfo(address->ai_addr, address->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0)
        addresses.insert(std::string(text) + ":" + std::to_string(server.port));
    }
  }
  if (addresses.empty()) return Status(failure, std::move(reasons));
  std::string text;
  for (const std::string& address : addresses) text += (text.empty() ? "" : ",") + address;
  return text;
}

Result<ZooKeeperOptions> parse_zookeeper_options(std::string_view text) {
  ZooKeeperOptions options;
  const std::size_t slash = std::min(text.find('/'), text.size());
  const std::string_view servers = text.substr(0, slash);
  const std::string_view folder = text.substr(slash);
  if (folder == "/") {
    options.chroot.clear();
  } else if (!folder.empty()) {
    if (!is_chroot(folder)) return wrong_ensemble(folder, "is no folder");
    options.chroot = folder;
  }
  for (std::size_t start = 0; start <= servers.size();) {
    const std::size_t end = std::min(servers.find(',', start), servers.size());
    Result<ZooKeeperServer> server = parse_server(servers.substr(start, end - start));
    if (!server.ok()) return server.status();
    options.servers.push_back(std::move(*server));
    start = end + 1;
  }
  if (options.servers.size() > kMaxZooKeeperServers) return wrong_ensemble(servers, "are more than 16 servers");
  return options;
}

}  // namespace ripc::internal::resolver
