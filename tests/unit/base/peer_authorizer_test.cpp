// SPDX-License-Identifier: Apache-2.0
#include "base/peer_authorizer.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>

#include <functional>

#include "process_helpers.hpp"

namespace ripc::internal {
namespace {

using testing::AllOf;
using testing::HasSubstr;

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}
const sockaddr& generic(const sockaddr_in& address) { return reinterpret_cast<const sockaddr&>(address); }

sockaddr_in name_of(const UniqueFd& socket) {
  sockaddr_in name{};
  socklen_t size = sizeof name;
  EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&name), &size), 0);
  return name;
}

// A process of another user that opens a socket and then sleeps.
class Neighbour {
 public:
  Neighbour(uid_t user, gid_t group, const std::function<UniqueFd()>& open)
      : child_([&] {
          if (::setgroups(0, nullptr) != 0 || ::setgid(group) != 0 || ::setuid(user) != 0) return 1;
          const UniqueFd socket = open();
          if (!socket || ::write(pipe_[1], "x", 1) != 1) return 1;
          return ::pause();
        }) {
    char byte = 0;
    EXPECT_EQ(::read(pipe_[0], &byte, 1), 1);
  }
  ~Neighbour() {
    ::close(pipe_[0]);
    ::close(pipe_[1]);
  }

 private:
  struct Pipe {
    int ends[2];
    Pipe() { EXPECT_EQ(::pipe(ends), 0); }
    int operator[](int end) const { return ends[end]; }
  };
  Pipe pipe_;
  test::Child child_;
};

class Authorizer : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
    const sockaddr_in any = loopback(0);
    listener_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(listener_.get(), &generic(any), sizeof any), 0);
    ASSERT_EQ(::listen(listener_.get(), 8), 0);
    where_ = name_of(listener_);
  }
  UniqueFd call() const {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return ::connect(socket.get(), &generic(where_), sizeof where_) == 0 ? std::move(socket) : UniqueFd();
  }
  UniqueFd accept() const { return UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)); }
  static UniqueFd bind_datagrams(std::uint16_t port) {
    const sockaddr_in name = loopback(port);
    UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    return ::bind(socket.get(), &generic(name), sizeof name) == 0 ? std::move(socket) : UniqueFd();
  }

  UniqueFd listener_;
  sockaddr_in where_{};
};

TEST_F(Authorizer, AConnectionIsAuthorizedByItsUser) {
  const struct {
    uid_t user;
    gid_t group;
    std::uint32_t policy;
    ripc_status status;
  } cases[] = {{0, 0, RIPC_PEERS_SAME_USER, RIPC_OK},          {65533, 65533, RIPC_PEERS_SAME_USER, RIPC_REFUSED},
               {65533, 0, RIPC_PEERS_SAME_USER, RIPC_REFUSED}, {65533, 65533, RIPC_PEERS_SAME_GROUP, RIPC_REFUSED},
               {65533, 0, RIPC_PEERS_SAME_GROUP, RIPC_OK},     {65533, 65533, RIPC_PEERS_ANY, RIPC_OK}};
  for (const auto& one : cases) {
    SCOPED_TRACE(std::to_string(one.user) + ":" + std::to_string(one.group) + " " + std::to_string(one.policy));
    const Neighbour neighbour(one.user, one.group, [&] { return call(); });
    const UniqueFd accepted = accept();
    const Status status = PeerAuthorizer(PeerPolicy(one.policy)).authorize_connection(accepted.get());
    EXPECT_EQ(status.code(), one.status);
    if (status.ok()) continue;
    EXPECT_THAT(std::string(status.text()), AllOf(HasSubstr("user 65533"), HasSubstr("RIPC_PEERS=group")));
  }
}

TEST_F(Authorizer, AConnectionNoOneAcceptedIsRefusedUnlessEveryoneIsAdmitted) {
  const UniqueFd caller = call();  // no one has accepted it
  const Status status = PeerAuthorizer(PeerPolicy()).authorize_connection(caller.get());
  EXPECT_EQ(status.code(), RIPC_REFUSED);
  EXPECT_THAT(std::string(status.text()), HasSubstr("RIPC_PEERS=any"));
  EXPECT_TRUE(PeerAuthorizer(PeerPolicy(RIPC_PEERS_ANY)).authorize_connection(caller.get()).ok());
}

TEST_F(Authorizer, APeerThatHasClosedTheConnectionIsDead) {
  UniqueFd caller = call();
  const UniqueFd accepted = accept();
  caller.reset();
  EXPECT_EQ(PeerAuthorizer(PeerPolicy()).authorize_connection(accepted.get()).code(), RIPC_PEER_DEAD);
}

TEST_F(Authorizer, ARefusalNamesBothUsers) {
  listener_.reset();
  const Neighbour server(65533, 65533, [&] {
    UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const bool listens =
        ::bind(listener.get(), &generic(where_), sizeof where_) == 0 && ::listen(listener.get(), 1) == 0;
    return listens ? std::move(listener) : UniqueFd();
  });
  const UniqueFd caller = call();
  const Status status = PeerAuthorizer(PeerPolicy()).refused_by(caller.get());
  EXPECT_EQ(status.code(), RIPC_REFUSED);
  EXPECT_THAT(std::string(status.text()), AllOf(HasSubstr("user 65533"), HasSubstr("user 0"), HasSubstr("RIPC_PEERS")));
}

TEST_F(Authorizer, ASenderIsAuthorizedByTheUserOfItsPort) {
  PeerAuthorizer authorizer{PeerPolicy()};
  UniqueFd own = bind_datagrams(0);
  const sockaddr_in name = name_of(own);
  EXPECT_EQ(authorizer.authorize_sender(generic(name)), PeerAuthorizer::Verdict::admitted);
  own.reset();
  EXPECT_EQ(authorizer.authorize_sender(generic(name)), PeerAuthorizer::Verdict::unknown);
  // An admission is not remembered: the next owner of the port is another user.
  const Neighbour neighbour(65533, 65533, [&] { return bind_datagrams(ntohs(name.sin_port)); });
  EXPECT_EQ(authorizer.authorize_sender(generic(name)), PeerAuthorizer::Verdict::refused);
  EXPECT_EQ(PeerAuthorizer(PeerPolicy(RIPC_PEERS_ANY)).authorize_sender(generic(name)),
            PeerAuthorizer::Verdict::admitted);
}

TEST_F(Authorizer, APeerFromAnotherHostIsNotAsked) {
  sockaddr_in far = loopback(9);
  ASSERT_EQ(::inet_pton(AF_INET, "192.0.2.1", &far.sin_addr), 1);
  PeerAuthorizer authorizer{PeerPolicy()};
  EXPECT_EQ(authorizer.authorize_sender(generic(far)), PeerAuthorizer::Verdict::admitted);
  EXPECT_EQ(authorizer.authorize_device_sender(&generic(far)), PeerAuthorizer::Verdict::admitted);
}

TEST_F(Authorizer, ASenderByADeviceOfThisHostIsNotKnown) {
  const sockaddr_in here = loopback(9);
  PeerAuthorizer authorizer{PeerPolicy()};
  EXPECT_EQ(authorizer.authorize_device_sender(&generic(here)), PeerAuthorizer::Verdict::unknown);
  EXPECT_EQ(authorizer.authorize_device_sender(nullptr), PeerAuthorizer::Verdict::unknown);
  EXPECT_EQ(PeerAuthorizer(PeerPolicy(RIPC_PEERS_ANY)).authorize_device_sender(nullptr),
            PeerAuthorizer::Verdict::admitted);
}

}  // namespace
}  // namespace ripc::internal
