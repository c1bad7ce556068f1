// SPDX-License-Identifier: Apache-2.0
#include "remote/session/listener.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstddef>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "support/waiting.hpp"

namespace ripc::internal::remote {
namespace {

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST(Listener, OthersHaveTheirTurnWhileManyConnectAtOnce) {
  constexpr std::size_t kCount = 200;
  const std::unique_ptr<EventLoop> loop = EventLoop::create().value();
  Authenticator authenticator({security::Credentials(), Encryption::automatic}, PeerPolicy());
  const auto listener = Listener::open(
      *loop, authenticator, "127.0.0.1", PortRange(), support::kLimit,
      {.find = [](const auto&) { return Result<std::optional<SessionSecret>>(std::optional<SessionSecret>()); },
       .answer = [](const auto&, int) { return wire::session_control::HelloReply{.status = RIPC_REFUSED}; }},
      [](const Greeted&) {});
  ASSERT_TRUE(listener.ok()) << listener.status().text();
  Endpoint where;
  ASSERT_TRUE(Endpoint::parse("127.0.0.1", (*listener)->port(), where));
  std::vector<UniqueFd> guests;
  for (std::size_t count = 0; count < kCount; ++count) {
    guests.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(guests.back().get(), where.address(), where.size()), 0) << count;
  }
  const std::size_t before = open_descriptors();
  std::size_t turns_between = 0;
  EXPECT_TRUE(loop->run_until(
      [&] {
        const std::size_t accepted = open_descriptors() - before;
        turns_between += accepted > 0 && accepted < kCount ? 1 : 0;
        return accepted >= kCount;
      },
      Deadline::after(support::kLimit)));
  EXPECT_GT(turns_between, 0u);
}

}  // namespace
}  // namespace ripc::internal::remote
