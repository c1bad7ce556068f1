// SPDX-License-Identifier: Apache-2.0
#include "remote/session/handshake.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>

#include "remote/session/listener.hpp"
#include "support/waiting.hpp"

namespace ripc::internal::remote {
namespace {

constexpr std::uint64_t kContext = 7;

// How a handshake ends for the end that begins it, if the other end answers with this status.
std::optional<Greeted> greeted_with(ripc_status answer) {
  const std::unique_ptr<EventLoop> loop = EventLoop::create().value();
  Authenticator authenticator({security::Credentials(), Encryption::automatic}, PeerPolicy());
  auto listener = Listener::open(
      *loop, authenticator, "127.0.0.1", PortRange(), support::kLimit,
      {.find = [](const auto&) { return Result<std::optional<SessionSecret>>(std::optional<SessionSecret>()); },
       .answer = [&](const auto&,
                     int) { return wire::session_control::HelloReply{.context = kContext, .status = answer}; }},
      [](const Greeted&) {});
  EXPECT_TRUE(listener.ok()) << listener.status().text();
  if (!listener.ok()) return {};
  Endpoint remote;
  EXPECT_TRUE(Endpoint::parse("127.0.0.1", (*listener)->port(), remote));
  std::optional<Greeted> end;
  const auto role = static_cast<std::uint32_t>(wire::session_control::Role::control);
  const Greeting greeting{.hello = {.context = 1, .session = 1, .role = role, .port = 1, .offers = {}}, .session = {}};
  const auto handshake =
      Handshake::dial(*loop, authenticator, remote, greeting, kContext, Deadline::after(support::kLimit),
                      [&](Greeted greeted) { end.emplace(std::move(greeted)); });
  (void)loop->run_until([&] { return end.has_value(); }, Deadline::after(support::kLimit));
  return end;
}

TEST(Handshake, APeerThatLacksMemoryOrDescriptorsMayHaveThemSoon) {
  for (const ripc_status status : {RIPC_NO_MEMORY, RIPC_NO_DESCRIPTORS}) {
    const std::optional<Greeted> end = greeted_with(status);
    ASSERT_TRUE(end);
    EXPECT_EQ(end->status.code(), status) << end->status.text();
    EXPECT_FALSE(end->definite) << status;
  }
}

TEST(Handshake, ARefusalIsDefinite) {
  for (const ripc_status status : {RIPC_REFUSED, RIPC_LIMIT, RIPC_PEER_DEAD}) {
    const std::optional<Greeted> end = greeted_with(status);
    ASSERT_TRUE(end);
    EXPECT_EQ(end->status.code(), status) << end->status.text();
    EXPECT_TRUE(end->definite) << status;
  }
}

}  // namespace
}  // namespace ripc::internal::remote
