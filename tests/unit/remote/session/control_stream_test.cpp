// SPDX-License-Identifier: Apache-2.0
#include "remote/session/control_stream.hpp"

#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <memory>
#include <vector>

namespace ripc::internal::remote {
namespace {

TEST(ControlStream, FinishEndsAtItsDeadlineThoughThePeerSendsMore) {
  const std::unique_ptr<EventLoop> loop = EventLoop::create().value();
  ControlStream stream(*loop);
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  const UniqueFd peer(ends[0]);
  ASSERT_TRUE(stream.attach(UniqueFd(ends[1]), 0, [](std::uint32_t) {}).ok());
  const auto unread = [&] {
    int bytes = 0;
    EXPECT_EQ(ioctl(ends[1], FIONREAD, &bytes), 0);
    return static_cast<std::size_t>(bytes);
  };
  const std::vector<std::byte> bytes(wire::session_control::kMaxSize);
  while (::send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0) continue;
  ASSERT_GT(unread(), 2 * wire::session_control::kMaxSize) << "more than it reads at once";
  stream.finish(Deadline::after(0));
  EXPECT_GT(unread(), 0U);
  stream.detach();
}

}  // namespace
}  // namespace ripc::internal::remote
