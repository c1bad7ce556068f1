// SPDX-License-Identifier: Apache-2.0
#include "base/peer_authorizer.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

namespace ripc::internal {

namespace {

// This avoids looking up the sender of a flood for each packet. A longer time would silence the port's next owner.
constexpr Nanoseconds kRefusalLasts = 50'000'000;

using AskForName = int (*)(int, sockaddr*, socklen_t*);

bool ask_for(AskForName ask, int socket, sockaddr_storage& name) noexcept {
  socklen_t size = sizeof name;
  return ask(socket, reinterpret_cast<sockaddr*>(&name), &size) == 0;
}

const sockaddr& generic(const sockaddr_storage& name) noexcept { return reinterpret_cast<const sockaddr&>(name); }

std::uint16_t port_of(const sockaddr_storage& name) noexcept {
  // At the same place in both families.
  sockaddr_in v4;
  std::memcpy(&v4, &name, sizeof v4);
  return ntohs(v4.sin_port);
}

bool is_closed(int socket) noexcept {
  std::byte next{};
  const ssize_t size = ::recv(socket, &next, 1, MSG_PEEK | MSG_DONTWAIT);
  return size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR);
}

std::string own_user() { return "this process of user " + std::to_string(::geteuid()); }

constexpr const char* kAdmit = "RIPC_PEERS=group or RIPC_PEERS=any";

}  // namespace

Status PeerAuthorizer::authorize_connection(int socket) {
  if (policy_.admits_all()) return {};
  sockaddr_storage local{};
  sockaddr_storage remote{};
  if (!ask_for(::getsockname, socket, local) || !ask_for(::getpeername, socket, remote)) return RIPC_PEER_DEAD;
  if (!owners_.is_own(generic(remote))) return {};
  const std::optional<uid_t> user = owners_.of_connection(generic(remote), generic(local));
  if (!user && is_closed(socket)) return Status(RIPC_PEER_DEAD, "The peer closed the connection.");
  if (!user)
    return Status(RIPC_REFUSED, "The peer at port " + std::to_string(port_of(remote)) +
                                    " of this host was refused: the kernel does not report its user, because "
                                    "an address translation or a user namespace hides it. Start " +
                                    own_user() + " with RIPC_PEERS=any if every user of this host is trusted.");
  if (policy_.admits(*user)) return {};
  return Status(RIPC_REFUSED, "The peer is a process of user " + std::to_string(*user) + " of this host, whom " +
                                  own_user() + " does not admit: start this one with " + kAdmit +
                                  " if that user is trusted.");
}

bool PeerAuthorizer::is_on_this_host(int socket) {
  sockaddr_storage remote{};
  return ask_for(::getpeername, socket, remote) && owners_.is_own(generic(remote));
}

std::optional<uid_t> PeerAuthorizer::user_of(int socket) {
  sockaddr_storage local{};
  sockaddr_storage remote{};
  if (!ask_for(::getsockname, socket, local) || !ask_for(::getpeername, socket, remote)) return {};
  if (!owners_.is_own(generic(remote))) return {};
  return owners_.of_connection(generic(remote), generic(local));
}

Status PeerAuthorizer::refused_by(int socket) {
  sockaddr_storage remote{};
  if (!ask_for(::getpeername, socket, remote)) return RIPC_REFUSED;
  if (!owners_.is_own(generic(remote)))
    return Status(RIPC_REFUSED,
                  "The process that holds the service does not admit this one: it is connected to max_peers processes. "
                  "Raise max_peers there.");
  // A peer that has refused closes its end, but its listening socket stays.
  const std::optional<uid_t> user = owners_.of_listener(generic(remote));
  const std::string service = "The process" + (user ? " of user " + std::to_string(*user) : std::string()) +
                              " that holds the service does not admit " + own_user();
  const bool is_same = user && *user == ::geteuid();
  return Status(RIPC_REFUSED, service + (is_same ? ": it is connected to max_peers processes. Raise max_peers there."
                                                 : ": start it with " + std::string(kAdmit) +
                                                       " if it may trust this user, or with a larger max_peers if it "
                                                       "has that many peers."));
}

PeerAuthorizer::Verdict PeerAuthorizer::authorize_sender(const sockaddr& from) {
  if (policy_.admits_all()) return Verdict::admitted;
  Source source{};
  const std::size_t size = from.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  std::memcpy(source.data(), &from, size);
  sockaddr_storage name{};
  std::memcpy(&name, &from, size);
  const std::uint16_t port = port_of(name);
  {
    const std::lock_guard lock(mutex_);
    const Refusal& known = place_of(port);
    if (known.source == source && monotonic_now() < known.until) return Verdict::refused;
  }
  if (!owners_.is_own(from)) return Verdict::admitted;
  const std::vector<uid_t> users = owners_.of_sender(from);
  if (users.empty()) return Verdict::unknown;
  if (std::ranges::all_of(users, [&](uid_t user) { return policy_.admits(user); })) return Verdict::admitted;
  const std::lock_guard lock(mutex_);
  place_of(port) = {.source = source, .until = monotonic_now() + kRefusalLasts};
  return Verdict::refused;
}

PeerAuthorizer::Verdict PeerAuthorizer::authorize_device_sender(const sockaddr* from) {
  const bool is_admitted = policy_.admits_all() || (from != nullptr && !owners_.is_own(*from));
  return is_admitted ? Verdict::admitted : Verdict::unknown;
}

}  // namespace ripc::internal
