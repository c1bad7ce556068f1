// SPDX-License-Identifier: Apache-2.0
#include "base/socket_owners.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>

#include <cstring>

#include "process_helpers.hpp"

namespace ripc::internal {
namespace {

// An address with a port, as the system calls take it.
struct Name {
  sockaddr_storage storage{};
  socklen_t size = 0;

  Name() = default;
  Name(const char* ip, std::uint16_t port = 0) {  // NOLINT: implicit by design
    sockaddr_in v4{};
    sockaddr_in6 v6{};
    if (::inet_pton(AF_INET, ip, &v4.sin_addr) == 1) {
      v4.sin_family = AF_INET;
      v4.sin_port = htons(port);
      std::memcpy(&storage, &v4, size = sizeof v4);
    } else {
      EXPECT_EQ(::inet_pton(AF_INET6, ip, &v6.sin6_addr), 1) << ip;
      v6.sin6_family = AF_INET6;
      v6.sin6_port = htons(port);
      std::memcpy(&storage, &v6, size = sizeof v6);
    }
  }
  static Name of(const UniqueFd& socket) {
    Name name;
    name.size = sizeof name.storage;
    EXPECT_EQ(::getsockname(socket.get(), &name.generic(), &name.size), 0);
    return name;
  }
  sockaddr& generic() { return reinterpret_cast<sockaddr&>(storage); }
  std::uint16_t port() const { return ntohs(reinterpret_cast<const sockaddr_in&>(storage).sin_port); }
};

UniqueFd bound(int type, Name where, bool shared = false) {
  UniqueFd socket(::socket(where.storage.ss_family, type | SOCK_CLOEXEC, 0));
  const int on = shared ? 1 : 0;
  EXPECT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
  EXPECT_EQ(::bind(socket.get(), &where.generic(), where.size), 0) << std::strerror(errno);
  return socket;
}

class Owners : public testing::TestWithParam<SocketOwners::Method> {
 protected:
  SocketOwners owners_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(, Owners, testing::Values(SocketOwners::Method::netlink, SocketOwners::Method::proc),
                         [](const auto& method) {
                           return std::string(method.param == SocketOwners::Method::netlink ? "Netlink" : "Proc");
                         });

TEST_P(Owners, TheAddressesOfThisHostAreKnown) {
  for (const char* own : {"127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"})
    EXPECT_TRUE(owners_.is_own(Name(own).generic())) << own;
  for (const char* other : {"192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1"})
    EXPECT_FALSE(owners_.is_own(Name(other).generic())) << other;
}

TEST_P(Owners, TheUserOfAConnectionIsTheOneWhoHoldsThatEnd) {
  // Where the listener is bound, and the address that the caller connects to. The last is an IPv6 socket called over
  // IPv4.
  const std::pair<const char*, const char*> ways[] = {{"127.0.0.1", "127.0.0.1"}, {"::1", "::1"}, {"::", "127.0.0.1"}};
  for (const auto& [listening, called] : ways) {
    SCOPED_TRACE(called);
    const UniqueFd listener = bound(SOCK_STREAM, listening);
    ASSERT_EQ(::listen(listener.get(), 1), 0);
    Name there(called, Name::of(listener).port());
    UniqueFd caller(::socket(there.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(caller.get(), &there.generic(), there.size), 0);
    Name here = Name::of(caller);
    EXPECT_EQ(owners_.of_connection(here.generic(), there.generic()), ::geteuid());
    EXPECT_EQ(owners_.of_connection(there.generic(), here.generic()), std::nullopt) << "nobody has accepted it yet";
    EXPECT_EQ(owners_.of_listener(there.generic()), ::geteuid());

    const UniqueFd accepted(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_EQ(owners_.of_connection(there.generic(), here.generic()), ::geteuid());
    caller.reset();
    EXPECT_EQ(owners_.of_connection(here.generic(), there.generic()), std::nullopt) << "nobody holds it any more";
  }
}

// The caller may have closed its socket, and another user may now listen at its port.
TEST_P(Owners, AListenerIsNotTakenForAConnection) {
  const UniqueFd listener = bound(SOCK_STREAM, "127.0.0.1");
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  EXPECT_EQ(owners_.of_connection(Name::of(listener).generic(), Name("127.0.0.1", 9).generic()), std::nullopt);
}

TEST_P(Owners, TheSenderOfADatagramIsTheOwnerOfItsPort) {
  for (const char* ip : {"127.0.0.1", "::1", "0.0.0.0", "::"}) {
    SCOPED_TRACE(ip);
    UniqueFd sender = bound(SOCK_DGRAM, ip);
    const std::uint16_t port = Name::of(sender).port();
    Name seen(Name(ip).storage.ss_family == AF_INET ? "127.0.0.1" : "::1", port);
    EXPECT_THAT(owners_.of_sender(seen.generic()), testing::ElementsAre(::geteuid()));
    sender.reset();
    EXPECT_THAT(owners_.of_sender(seen.generic()), testing::IsEmpty());
  }
}

TEST_P(Owners, APortOfTwoUsersBelongsToBoth) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  const UniqueFd sender = bound(SOCK_DGRAM, "127.0.0.1", true);
  Name name = Name::of(sender);
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const test::Child child([&] {
    if (!test::become_nobody()) return 1;
    const UniqueFd other = bound(SOCK_DGRAM, Name("127.0.0.1", name.port()), true);
    (void)!::write(ready[1], "x", 1);
    return ::pause();
  });
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_THAT(owners_.of_sender(name.generic()), testing::UnorderedElementsAre(0U, test::kNobody));
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
}  // namespace ripc::internal
