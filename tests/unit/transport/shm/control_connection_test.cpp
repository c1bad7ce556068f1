// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/control_connection.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <vector>

namespace ripc::internal::shm {
namespace {

using Event = ControlConnection::Event;

std::vector<std::byte> message(std::size_t size, int number) {
  return std::vector<std::byte>(size, static_cast<std::byte>(number));
}

class ConnectionTest : public testing::Test {
 protected:
  void SetUp() override {
    int sockets[2] = {-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets), 0);
    left_ = std::make_unique<ControlConnection>(UniqueFd(sockets[0]));
    right_ = std::make_unique<ControlConnection>(UniqueFd(sockets[1]));
  }
  std::shared_ptr<const Mapping> find(std::uint32_t arena) const {
    std::shared_ptr<const Mapping> mapping;
    const ripc_status status = left_->foreign_arena(arena, mapping);
    EXPECT_EQ(status == RIPC_OK, mapping != nullptr);
    return mapping;
  }

  void notify(const std::vector<std::byte>& notice) {
    left_->notify_encoded([&](std::vector<std::byte>& bytes) {
      bytes = notice;
      return RIPC_OK;
    });
  }

  std::vector<std::byte> content() const {
    return {received_.bytes.begin(), received_.bytes.begin() + static_cast<std::ptrdiff_t>(received_.size)};
  }

  std::unique_ptr<ControlConnection> left_, right_;
  Received received_;
};

TEST_F(ConnectionTest, KnowsThePeersCredentials) {
  EXPECT_EQ(left_->credentials().pid, ::getpid());
  EXPECT_EQ(left_->credentials().uid, ::geteuid());
  EXPECT_EQ(left_->credentials().gid, ::getegid());
  EXPECT_TRUE(left_->peer_may_map()) << "the same user";
  EXPECT_GE(left_->fd(), 0);
}

TEST_F(ConnectionTest, CarriesMessagesInOrderWithTheirBounds) {
  EXPECT_EQ(right_->receive(received_), Event::nothing);
  for (int number = 1; number <= 3; ++number)
    ASSERT_EQ(left_->send(message(static_cast<std::size_t>(number) * 10, number)), RIPC_OK);
  for (int number = 1; number <= 3; ++number) {
    ASSERT_EQ(right_->receive(received_), Event::message);
    EXPECT_EQ(content(), message(static_cast<std::size_t>(number) * 10, number));
    for (const UniqueFd& descriptor : received_.descriptors) EXPECT_FALSE(descriptor);
  }
  EXPECT_EQ(right_->receive(received_), Event::nothing);
}

TEST_F(ConnectionTest, CarriesTheLargestMessage) {
  ASSERT_EQ(left_->send(message(kMaxControlMessage, 5)), RIPC_OK);
  ASSERT_EQ(right_->receive(received_), Event::message);
  EXPECT_EQ(received_.size, kMaxControlMessage);
}

TEST_F(ConnectionTest, ClosesOnAMessageThatIsLargerThanAllowed) {
  const auto large = message(kMaxControlMessage + 1, 5);
  ASSERT_EQ(::send(left_->fd(), large.data(), large.size(), 0), static_cast<ssize_t>(large.size()));
  EXPECT_EQ(right_->receive(received_), Event::closed);
}

TEST_F(ConnectionTest, SaysTooLargeForWhatNoSocketTakes) {
  EXPECT_EQ(left_->send(message(std::size_t{64} << 20, 1)), RIPC_TOO_LARGE);
  EXPECT_EQ(left_->send(message(8, 1)), RIPC_OK);
}

TEST_F(ConnectionTest, CarriesDescriptors) {
  int pipes[2] = {-1, -1};
  ASSERT_EQ(::pipe2(pipes, O_CLOEXEC), 0);
  UniqueFd reader(pipes[0]), writer(pipes[1]);
  const std::array<int, 2> descriptors{reader.get(), writer.get()};
  ASSERT_EQ(left_->send(message(4, 1), descriptors), RIPC_OK);
  ASSERT_EQ(right_->receive(received_), Event::message);
  ASSERT_TRUE(received_.descriptors[0] && received_.descriptors[1]);
  EXPECT_FALSE(received_.descriptors[2]);
  EXPECT_EQ(::write(received_.descriptors[1].get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(::read(reader.get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
}

TEST_F(ConnectionTest, ClosesASocketThatItWasSentWithoutWaitingForItsBytes) {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  linger lasting{1, 60};
  ASSERT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &lasting, sizeof lasting), 0);
  const std::array<int, 1> descriptor{socket.get()};
  ASSERT_EQ(left_->send(message(4, 1), descriptor), RIPC_OK);
  ASSERT_EQ(right_->receive(received_), Event::message);
  EXPECT_FALSE(received_.descriptors[0]) << "a part that keeps it would close it later";
  socklen_t size = sizeof lasting;
  ASSERT_EQ(::getsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &lasting, &size), 0);
  EXPECT_EQ(lasting.l_onoff, 0) << "closing it may wait";
}

TEST_F(ConnectionTest, QueuesWhatTheSocketDoesNotTakeUpToALimitAndSendsItLater) {
  int pipes[2] = {-1, -1};
  ASSERT_EQ(::pipe2(pipes, O_CLOEXEC), 0);
  UniqueFd reader(pipes[0]), writer(pipes[1]);
  int sent = 0;
  ripc_status status = RIPC_OK;
  const std::array<int, 1> descriptor{writer.get()};
  while (sent < 100'000) {
    status =
        left_->send(message(100, sent), sent % 100 == 0 ? std::span<const int>(descriptor) : std::span<const int>());
    if (status != RIPC_OK) break;
    ++sent;
  }
  ASSERT_EQ(status, RIPC_AGAIN) << "nothing was sent";
  ASSERT_GT(sent, 100);
  writer.reset();  // what is queued has a copy
  for (int number = 0; number < sent;) {
    const Event event = right_->receive(received_);
    if (event == Event::nothing) {
      left_->flush();
      ASSERT_EQ(right_->receive(received_), Event::message) << number;
    } else {
      ASSERT_EQ(event, Event::message) << number;
    }
    ASSERT_EQ(content(), message(100, number)) << number;
    ASSERT_EQ(static_cast<bool>(received_.descriptors[0]), number % 100 == 0) << number;
    ++number;
  }
  EXPECT_EQ(right_->receive(received_), Event::nothing);
  EXPECT_EQ(left_->send(message(100, 1)), RIPC_OK);
}

TEST_F(ConnectionTest, LosesNoNoticeToAFullQueueAndKeepsEachOnce) {
  int sent = 0;
  while (sent < 100'000 && left_->send(message(100, 1)) == RIPC_OK) ++sent;
  ASSERT_LT(sent, 100'000);
  for (int count = 0; count < 10'000; ++count) notify(message(16, count % 2));
  for (; sent > 0; --sent) {
    left_->flush();
    ASSERT_EQ(right_->receive(received_), Event::message);
    ASSERT_EQ(received_.size, 100u);
  }
  for (int number = 0; number < 2; ++number) {
    left_->flush();
    ASSERT_EQ(right_->receive(received_), Event::message);
    EXPECT_EQ(content(), message(16, number));
  }
  notify(message(16, 5));
  ASSERT_EQ(right_->receive(received_), Event::message);
  EXPECT_EQ(content(), message(16, 5)) << "and nothing else is left";
}

TEST_F(ConnectionTest, MakesTheLoopWaitUntilTheSocketIsWritable) {
  Result<std::unique_ptr<EventLoop>> made = EventLoop::create();
  ASSERT_TRUE(made.ok());
  EventLoop& loop = **made;
  left_->attach(loop);
  ASSERT_TRUE(loop.add(left_->fd(), EPOLLIN,
                       [&](std::uint32_t events) {
                         if ((events & EPOLLOUT) != 0) left_->flush();
                       })
                  .ok());
  int sent = 0;
  while (sent < 100'000 && left_->send(message(100, sent)) == RIPC_OK) ++sent;
  int received = 0;
  const auto take_all = [&] {
    while (right_->receive(received_) == Event::message) ++received;
    return received == sent;
  };
  ASSERT_LT(sent, 100'000);
  loop.post([&] {
    EXPECT_TRUE(loop.run_until(take_all, Deadline::after(20'000'000'000u)));
    loop.stop();
  });
  loop.run();
  EXPECT_EQ(received, sent);
  left_->detach();
}

TEST_F(ConnectionTest, TellsWhenTheOtherEndIsGone) {
  ASSERT_EQ(left_->send(message(4, 1)), RIPC_OK);
  left_.reset();
  EXPECT_EQ(right_->receive(received_), Event::message) << "what it had sent comes first";
  EXPECT_EQ(right_->receive(received_), Event::closed);
  EXPECT_EQ(right_->send(message(4, 1)), RIPC_PEER_DEAD);
}

TEST_F(ConnectionTest, ShutDownEndsBothDirections) {
  left_->shut_down();
  EXPECT_EQ(left_->receive(received_), Event::closed);
  EXPECT_EQ(right_->receive(received_), Event::closed);
  EXPECT_EQ(left_->send(message(4, 1)), RIPC_PEER_DEAD);
}

TEST_F(ConnectionTest, AnnouncesAnArenaOnceAndRetractsWhatWasAnnounced) {
  Result<SharedMemory> memory = create_shared_memory("ripc-test", 8192, PeerAccess::read_only);
  ASSERT_TRUE(memory.ok());
  const memory::Arena arena{7, memory->fd.get(), memory->mapping.data(), 8192, false};
  left_->retract(7);
  EXPECT_EQ(left_->announce(arena), RIPC_OK);
  EXPECT_EQ(left_->announce(arena), RIPC_OK);
  ASSERT_EQ(right_->receive(received_), Event::message);
  ASSERT_TRUE(received_.descriptors[0]);
  EXPECT_TRUE(right_->add_foreign_arena(7, 8192, false, received_.descriptors[0].get()).ok());
  EXPECT_EQ(right_->receive(received_), Event::nothing) << "once per connection, and nothing was known to retract";
  left_->retract(7);
  EXPECT_EQ(right_->receive(received_), Event::message);
  EXPECT_EQ(left_->announce(arena), RIPC_OK);
  EXPECT_EQ(right_->receive(received_), Event::message) << "it can be announced again";
}

// RIPC_AGAIN would make the sender wait for room. There is room, so the sender would retry without end and without
// sleep.
TEST_F(ConnectionTest, SaysSoWhenThereIsNoDescriptorForWhatHasToWait) {
  Result<SharedMemory> memory = create_shared_memory("ripc-test", 8192, PeerAccess::read_only);
  ASSERT_TRUE(memory.ok());
  const memory::Arena arena{7, memory->fd.get(), memory->mapping.data(), 8192, false};
  // Far fewer messages than the outbox holds, and more than the socket holds.
  for (int index = 0; index < 600; ++index) ASSERT_EQ(left_->send(message(1000, index)), RIPC_OK);
  ASSERT_TRUE(left_->has_room());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const ripc_status status = left_->announce(arena);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(status, RIPC_NO_DESCRIPTORS);
  EXPECT_EQ(left_->announce(arena), RIPC_OK) << "it was not taken for announced";
}

TEST_F(ConnectionTest, MapsForeignArenasUntilTheyAreRemovedAndNoOneUsesThem) {
  Result<SharedMemory> memory = create_shared_memory("ripc-test", 8192, PeerAccess::read_only);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(find(3), nullptr);
  ASSERT_TRUE(left_->add_foreign_arena(3, 8192, false, memory->fd.get()).ok());
  const auto mapping = find(3);
  ASSERT_NE(mapping, nullptr);
  memory->mapping.data()[100] = std::byte{0x42};
  left_->remove_foreign_arena(3);
  left_->remove_foreign_arena(3);
  EXPECT_EQ(find(3), nullptr);
  EXPECT_EQ(mapping->data()[100], std::byte{0x42}) << "whoever uses it keeps it mapped";
}

TEST_F(ConnectionTest, RefusesArenasThatAreNotSealedOrTooSmall) {
  Result<SharedMemory> memory = create_shared_memory("ripc-test", 8192, PeerAccess::read_only);
  ASSERT_TRUE(memory.ok());
  EXPECT_FALSE(left_->add_foreign_arena(3, 16384, false, memory->fd.get()).ok());
  EXPECT_FALSE(left_->add_foreign_arena(3, 8192, false, left_->fd()).ok());
  EXPECT_EQ(find(3), nullptr);
}

TEST_F(ConnectionTest, KnowsAnArenaWhoseDescriptorWasLostButCannotMapIt) {
  std::shared_ptr<const Mapping> mapping;
  EXPECT_EQ(left_->foreign_arena(3, mapping), RIPC_PENDING) << "not announced yet";
  EXPECT_TRUE(left_->add_foreign_arena(3, 8192, false, -1).ok());
  EXPECT_EQ(left_->foreign_arena(3, mapping), RIPC_UNSUPPORTED);
  EXPECT_EQ(mapping, nullptr);
}

}  // namespace
}  // namespace ripc::internal::shm
