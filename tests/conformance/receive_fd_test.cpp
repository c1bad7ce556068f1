// SPDX-License-Identifier: Apache-2.0
// Receiving through a file descriptor: poll, epoll, no missed event.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "puppet.hpp"

namespace conformance {
namespace {

class ReceiveFd : public PairTest {
 protected:
  void SetUp() override {
    PairTest::SetUp();
    ASSERT_EQ(ripc_service_get_fd(server_.get(), &fd_), RIPC_OK);
    ASSERT_GE(fd_, 0);
  }

  static bool readable(int fd, int milliseconds) {
    pollfd waited{fd, POLLIN, 0};
    int ready = 0;
    while ((ready = ::poll(&waited, 1, milliseconds)) < 0 && errno == EINTR) {
    }
    return ready == 1;
  }
  // Receives until no message is left, as the descriptor's contract asks; returns how many there were.
  std::uint32_t drain(const Service& service) {
    std::uint32_t count = 0;
    for (;;) {
      ripc_message* message = nullptr;
      const ripc_status status = ripc_receive(service.get(), 0, 0, &message);
      if (status == RIPC_INTERRUPTED) continue;
      if (status != RIPC_OK) {
        EXPECT_EQ(status, RIPC_EMPTY);
        return count;
      }
      EXPECT_EQ(ripc_message_get_tag(message), next_++);
      ripc_message_release(message);
      ++count;
    }
  }

  int fd_ = -1;
  std::uint32_t next_ = 0;
};
CONFORMANCE_SUITE(ReceiveFd);

TEST_P(ReceiveFd, IsAlwaysTheSameDescriptor) {
  int again = -1;
  ASSERT_EQ(ripc_service_get_fd(server_.get(), &again), RIPC_OK);
  EXPECT_EQ(again, fd_);
}

TEST_P(ReceiveFd, IsQuietUntilAMessageComes) {
  EXPECT_EQ(drain(server_), 0u);
  EXPECT_FALSE(readable(fd_, 0));
  ASSERT_EQ(send(client_, server_id(), {}, 0), RIPC_OK);
  ASSERT_TRUE(readable(fd_, 10'000));
  EXPECT_TRUE(readable(fd_, 0)) << "level-triggered";
  EXPECT_EQ(drain(server_), 1u);
  // An event may be reported once too often, but not forever.
  EXPECT_TRUE(eventually([&] { return drain(server_) == 0 && !readable(fd_, 0); }));
}

TEST_P(ReceiveFd, NoEventIsMissedOneMessageAtATime) {
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN;
  ASSERT_EQ(::epoll_ctl(epoll, EPOLL_CTL_ADD, fd_, &event), 0);
  drain(server_);
  for (std::uint32_t index = 0; index < 5000; ++index) {
    ASSERT_EQ(send(client_, server_id(), {}, index), RIPC_OK);
    std::uint32_t got = 0;
    while (got == 0) {
      ASSERT_EQ(::epoll_wait(epoll, &event, 1, 10'000), 1) << "missed message " << index;
      got = drain(server_);
    }
    ASSERT_EQ(got, 1u);
  }
  ::close(epoll);
}

TEST_P(ReceiveFd, NoEventIsMissedWhileASenderStreams) {
  constexpr std::uint32_t kCount = 20'000;
  Puppet puppet(peer_setup());
  ASSERT_EQ(puppet.register_id(77), "RIPC_OK");
  drain(server_);
  puppet.tell("stream " + std::to_string(server_id()) + " " + std::to_string(kCount));
  std::uint32_t received = 0;
  while (received < kCount) {
    ASSERT_TRUE(readable(fd_, 10'000)) << "after " << received;
    received += drain(server_);
  }
  EXPECT_EQ(puppet.answer(), "RIPC_OK");
}

TEST_P(ReceiveFd, NoEventIsMissedWithSeveralThreadsSending) {
  constexpr std::uint32_t kCount = 4000;
  drain(server_);
  std::vector<std::jthread> senders;
  for (int thread = 0; thread < 3; ++thread) {
    senders.emplace_back([&] {
      for (std::uint32_t index = 0; index < kCount; ++index) {
        ripc_status status = RIPC_OK;
        while ((status = send(client_, server_id(), {})) == RIPC_AGAIN) {
          ASSERT_EQ(ripc_wait_room(client_.get(), server_id(), kLimit), RIPC_OK);
        }
        ASSERT_EQ(status, RIPC_OK);
      }
    });
  }
  std::uint32_t received = 0;
  while (received < 3 * kCount) {
    ASSERT_TRUE(readable(fd_, 10'000)) << "after " << received;
    ripc_message* messages[16] = {};
    std::size_t count = 0;
    while (ripc_receive_many(server_.get(), 0, 0, messages, 16, &count) == RIPC_OK) {
      received += static_cast<std::uint32_t>(count);
      for (std::size_t index = 0; index < count; ++index) ripc_message_release(messages[index]);
    }
  }
}

TEST_P(ReceiveFd, ALongMessageIsReported) {
  const Bytes data = pattern(std::size_t{4} << 20, 1);
  Bytes window(data.size());
  ASSERT_EQ(ripc_window_post(server_.get(), window.data(), window.size(), 1), RIPC_OK);
  drain(server_);
  const Ticket ticket = send_long(client_, server_id(), {item(data, RIPC_ITEM_LONG)});
  std::uint32_t received = 0;
  while (received == 0) {
    ASSERT_TRUE(readable(fd_, 10'000));
    received = drain(server_);
  }
  EXPECT_EQ(window, data);
  EXPECT_EQ(final_status(ticket), RIPC_OK);
}

TEST_P(ReceiveFd, AnInterruptIsReported) {
  drain(server_);
  ASSERT_EQ(ripc_interrupt(server_.get()), RIPC_OK);
  ASSERT_TRUE(readable(fd_, 10'000));
  ripc_message* message = nullptr;
  EXPECT_EQ(ripc_receive(server_.get(), 0, 0, &message), RIPC_INTERRUPTED);
}

TEST_P(ReceiveFd, RequestedRoomIsReported) {
  const Service small =
      make_service(server_context_, [](ripc_service_options& options) { options.queue_messages = 16; });
  int client_fd = -1;
  ASSERT_EQ(ripc_service_get_fd(client_.get(), &client_fd), RIPC_OK);
  std::uint32_t tag = 0;
  for (int round = 0; round < 50; ++round) {
    EXPECT_GE(send_until_full([&] { return send(client_, id_of(small), {}, tag++); }), 1u);
    --tag;  // the tag of the message for which there was no room
    ASSERT_TRUE(eventually([&] { return drain(client_) == 0 && !readable(client_fd, 0); }));
    ASSERT_EQ(ripc_request_room_event(client_.get(), id_of(small)), RIPC_OK);
    // Messages may still be under way when the receiver finds none.
    ASSERT_TRUE(eventually([&] {
      drain(small);
      return readable(client_fd, 0);
    }));
    EXPECT_EQ(send(client_, id_of(small), {}, tag++), RIPC_OK);
    drain(small);
    drain(client_);
  }
}

TEST_P(ReceiveFd, RoomThatIsThereAlreadyIsReported) {
  drain(client_);
  int client_fd = -1;
  ASSERT_EQ(ripc_service_get_fd(client_.get(), &client_fd), RIPC_OK);
  ASSERT_EQ(ripc_request_room_event(client_.get(), server_id()), RIPC_OK);
  EXPECT_TRUE(readable(client_fd, 10'000));
}

TEST_P(ReceiveFd, AnInterruptInAForkedChildIsNone) {
  drain(server_);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(ripc_interrupt(server_.get()) == RIPC_OK ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_FALSE(readable(fd_, 0)) << "the parent's descriptor";
}

TEST_P(ReceiveFd, ATakeoverIsReported) {
  const Service old_holder = make_service(server_context_, 4711);
  int fd = -1;
  ASSERT_EQ(ripc_service_get_fd(old_holder.get(), &fd), RIPC_OK);
  drain(old_holder);
  const Service new_holder = make_service(client_context_, [](ripc_service_options& options) {
    options.id = 4711;
    options.takeover = 1;
  });
  ASSERT_TRUE(readable(fd, 10'000));
  ripc_message* message = nullptr;
  EXPECT_EQ(ripc_receive(old_holder.get(), 0, 0, &message), RIPC_FENCED);
}

TEST_P(ReceiveFd, ATakeoverIsReportedAlsoIfItComesDuringALook) {
  const auto take = [&](int round) {
    return make_service(round % 2 == 0 ? server_context_ : client_context_, [](ripc_service_options& options) {
      options.id = 4711;
      options.takeover = 1;
    });
  };
  Service holder = take(0);
  for (int round = 1; round <= 100; ++round) {
    int fd = -1;
    ASSERT_EQ(ripc_service_get_fd(holder.get(), &fd), RIPC_OK);
    std::atomic<bool> is_taken{false};
    std::jthread looking([&] {
      ripc_message* message = nullptr;
      while (ripc_receive(holder.get(), 0, 0, &message) != RIPC_FENCED) {
        const bool was_taken = is_taken.load();
        ASSERT_TRUE(readable(fd, was_taken ? 10'000 : 0) || !was_taken) << "no event in round " << round;
      }
    });
    Service next = take(round);
    is_taken = true;
    looking.join();
    holder = std::move(next);
  }
}

}  // namespace
}  // namespace conformance
