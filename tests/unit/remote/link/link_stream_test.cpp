// SPDX-License-Identifier: Apache-2.0
// Both ends of a link's connection, without a session.
#include "remote/link/link_stream.hpp"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/waiting.hpp"
#include "unit/base/tcp_pair.hpp"
#include "wire/bytes.hpp"

namespace ripc::internal::remote {
namespace {

using support::eventually;
using wire::datagram::Header;

// Gives memory for large records, and counts it.
class Rooms final : public spi::PacketSink {
 public:
  spi::Delivery deliver(spi::Source&, spi::Bytes, const Memory*) noexcept override { return spi::Delivery::stop; }
  void source_gone(spi::Source&) noexcept override {}
  Memory make_room(std::size_t size) noexcept override {
    if (has_none) return {};
    const auto room = std::make_shared<Room>(*this, size);
    return {room, room->bytes.data()};
  }
  bool has_none = false;
  int held = 0;

 private:
  struct Room {
    Room(Rooms& rooms, std::size_t size) : of(rooms), bytes(size) { ++of.held; }
    ~Room() { --of.held; }
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;
    Rooms& of;
    std::vector<std::byte> bytes;
  };
};

class LinkStream : public ::testing::Test {
 protected:
  LinkStream() : loop_(std::move(EventLoop::create().value())), thread_([this] { loop_->run(); }) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    GuardedSocket to;
    GuardedSocket from;
    to.fd.reset(ends[0]);
    from.fd.reset(ends[1]);
    receiver_ = std::make_unique<StreamReceiver>(std::move(from));
    sender_ = StreamSender::create(std::move(to), *loop_, [this] { ++told_; }).value();
    // The first event of a connection; it flushes, too. Afterwards, only a full socket and the end cause events.
    EXPECT_TRUE(eventually([&] { return told_.load() == 1; }));
    told_ = 0;
  }
  ~LinkStream() override {
    if (sender_) sender_->finish();
    loop_->post([this] { loop_->stop(); });
    thread_.join();
  }

  ripc_status send(std::uint32_t sequence, const std::string& packet, bool more = false) {
    const spi::Bytes bytes = std::as_bytes(std::span(packet));
    return sender_->send({.sequence = sequence, .token = 9}, {&bytes, 1}, more);
  }
  // Takes the packets that have come, and checks their numbers.
  std::size_t receive(std::vector<std::string>& packets) {
    std::size_t count = 0;
    spi::Bytes datagram;
    for (;;) {
      EXPECT_EQ(receiver_->front(datagram), RIPC_OK);
      if (datagram.empty()) {
        if (receiver_->fill(sink_) != StreamReceiver::Outcome::data) return count;
        continue;
      }
      Header header;
      EXPECT_EQ(wire::datagram::decode(datagram, header), RIPC_OK);
      EXPECT_EQ(header.sequence, packets.size() + 1);
      const spi::Bytes packet = datagram.subspan(wire::datagram::kHeaderSize);
      packets.emplace_back(reinterpret_cast<const char*>(packet.data()), packet.size());
      receiver_->pop();
      ++count;
    }
  }
  bool receive_until(std::vector<std::string>& packets, std::size_t count) {
    return eventually([&] {
      (void)receive(packets);
      return packets.size() >= count;
    });
  }

  std::unique_ptr<EventLoop> loop_;
  std::thread thread_;
  Rooms sink_;
  std::unique_ptr<StreamReceiver> receiver_;
  std::shared_ptr<StreamSender> sender_;
  std::atomic<int> told_{0};
};

TEST_F(LinkStream, QueuesABoundedNumberOfPacketsAndLosesOrTearsNone) {
  std::vector<std::string> sent;
  for (;;) {
    const auto number = static_cast<std::uint32_t>(sent.size() + 1);
    const std::size_t large = number % 2 == 0 ? wire::datagram::kMaxPacket : wire::datagram::kMaxRecordPacket;
    std::string packet(number % 3 == 0 ? large : number * 7919 % 20'000 + 1, static_cast<char>(number));
    const ripc_status status = send(number, packet);
    if (status == RIPC_AGAIN) break;
    ASSERT_EQ(status, RIPC_OK);
    sent.push_back(std::move(packet));
    ASSERT_LT(sent.size(), 10'000u);
  }
  EXPECT_FALSE(sender_->has_room());
  std::vector<std::string> received;
  ASSERT_TRUE(receive_until(received, sent.size()));
  EXPECT_EQ(received, sent);
  ASSERT_TRUE(eventually([&] { return sender_->has_room(); }));
  EXPECT_GE(told_.load(), 1) << "whoever waits for room is told";
}

TEST_F(LinkStream, ALargeRecordIsReadIntoMemoryThatItsTakerMayKeep) {
  const std::string large(wire::datagram::kMaxRecordPacket, 'l');
  const std::string last(wire::datagram::kMaxPacket + 1, 's');
  std::vector<std::string> received;
  spi::PacketSink::Memory kept;
  ASSERT_EQ(send(1, large), RIPC_OK);
  ASSERT_TRUE(eventually([&] {
    spi::Bytes datagram;
    (void)receiver_->fill(sink_);
    EXPECT_EQ(receiver_->front(datagram), RIPC_OK);
    return !datagram.empty();
  }));
  kept = receiver_->memory();
  ASSERT_NE(kept, nullptr);
  receiver_->pop();
  EXPECT_EQ(receiver_->memory(), nullptr);
  EXPECT_EQ(sink_.held, 1);
  EXPECT_EQ(std::memcmp(kept.get() + wire::datagram::kHeaderSize, large.data(), large.size()), 0);
  kept.reset();
  EXPECT_EQ(sink_.held, 0);
  // Packets that follow a large record come with it, in pieces of any size.
  received.push_back(large);
  for (std::uint32_t number = 2; number <= 9; ++number) {
    ASSERT_TRUE(eventually([&] {
      const ripc_status status = send(number, number % 2 == 0 ? "small" : last);
      (void)receive(received);
      return status == RIPC_OK;
    }));
  }
  ASSERT_TRUE(receive_until(received, 9));
  for (std::size_t index = 1; index < 9; ++index) EXPECT_EQ(received[index], index % 2 == 1 ? "small" : last) << index;
  EXPECT_EQ(sink_.held, 0);
}

TEST_F(LinkStream, ALargeRecordForWhichThereIsNoMemoryWaits) {
  sink_.has_none = true;
  ASSERT_EQ(send(1, std::string(wire::datagram::kMaxPacket + 1, 'l')), RIPC_OK);
  ASSERT_EQ(send(2, "behind"), RIPC_OK);
  ASSERT_TRUE(eventually([&] { return receiver_->fill(sink_) == StreamReceiver::Outcome::no_room; }));
  std::vector<std::string> received;
  EXPECT_EQ(receive(received), 0u);
  sink_.has_none = false;
  ASSERT_TRUE(receive_until(received, 2));
  EXPECT_EQ(received[1], "behind");
}

TEST_F(LinkStream, FlushSendsPacketsThatWaitForMore) {
  ASSERT_EQ(send(1, "one", true), RIPC_OK);
  ASSERT_EQ(send(2, "two", true), RIPC_OK);
  EXPECT_EQ(receiver_->fill(sink_), StreamReceiver::Outcome::nothing);
  sender_->flush();
  std::vector<std::string> received;
  EXPECT_EQ(receive(received), 2u);
  EXPECT_EQ(received, (std::vector<std::string>{"one", "two"}));
}

TEST_F(LinkStream, FinishWritesWaitingPacketsAndClosesTheConnection) {
  std::uint32_t sent = 0;
  while (send(sent + 1, std::string(50'000, 'x')) == RIPC_OK) ++sent;
  std::exchange(sender_, nullptr)->finish();
  std::vector<std::string> received;
  ASSERT_TRUE(receive_until(received, sent));
  EXPECT_TRUE(eventually([&] { return receiver_->fill(sink_) == StreamReceiver::Outcome::ended; }));
}

TEST_F(LinkStream, FinishClosesTheConnectionOfAPeerThatDoesNotRead) {
  for (std::uint32_t sent = 0; send(sent + 1, std::string(50'000, 'x')) == RIPC_OK;) ++sent;
  std::exchange(sender_, nullptr)->finish(1'000'000);
  pollfd end{receiver_->fd(), 0, 0};
  EXPECT_TRUE(eventually([&] { return poll(&end, 1, 0) == 1 && (end.revents & POLLHUP) != 0; }));
}

TEST_F(LinkStream, ALostConnectionIsReportedAndRefusesWhatComesAfter) {
  receiver_.reset();
  ASSERT_TRUE(eventually([&] { return told_.load() >= 1 && sender_->lost(); }));
  EXPECT_EQ(send(1, "late"), RIPC_PEER_DEAD);
}

TEST_F(LinkStream, SizesThatNoRecordHasAreCorrupt) {
  for (const std::uint32_t size : {std::uint32_t{0}, std::uint32_t{wire::datagram::kHeaderSize},
                                   std::uint32_t{kMaxRecord - kRecordPrefix + 1}, UINT32_MAX}) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    const UniqueFd stranger(ends[0]);
    GuardedSocket from;
    from.fd.reset(ends[1]);
    Rooms sink;
    StreamReceiver receiver(std::move(from));
    std::array<std::byte, kRecordPrefix> prefix;
    wire::store_le<std::uint32_t>(prefix.data(), size);
    ASSERT_EQ(write(stranger.get(), prefix.data(), prefix.size()), static_cast<ssize_t>(prefix.size()));
    ASSERT_EQ(receiver.fill(sink), StreamReceiver::Outcome::data);
    spi::Bytes datagram;
    EXPECT_EQ(receiver.front(datagram), RIPC_CORRUPT) << size;
  }
}

// A firewall on the way forgets the connection: the session knows nothing of it.
class LinkStreamOverTcp : public ::testing::Test {
 protected:
  LinkStreamOverTcp() : loop_(std::move(EventLoop::create().value())), thread_([this] { loop_->run(); }) {
    auto [near, far] = tcp_pair();
    near_ = near.get();
    far_ = far.get();
    sender_ = StreamSender::create(SecureSocket(std::move(near)), *loop_, [this] { told_ = true; }).value();
    receiver_ = std::make_unique<StreamReceiver>(SecureSocket(std::move(far)));
  }
  ~LinkStreamOverTcp() override {
    sender_->finish();
    loop_->post([this] { loop_->stop(); });
    thread_.join();
  }

  std::unique_ptr<EventLoop> loop_;
  std::thread thread_;
  std::atomic<bool> told_{false};
  std::shared_ptr<StreamSender> sender_;
  std::unique_ptr<StreamReceiver> receiver_;
  int near_ = -1;
  int far_ = -1;
};

TEST_F(LinkStreamOverTcp, EndsWhenItsPacketsArriveNoMore) {
  EXPECT_TRUE(eventually([&] { return told_.exchange(false); })) << "the first event of a connection";
  sock_filter drop_all = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{1, &drop_all};
  ASSERT_EQ(setsockopt(far_, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
  ASSERT_EQ(sender_->send({.sequence = 1, .token = 9}, {}, false), RIPC_OK);
  EXPECT_TRUE(eventually([&] {
    sender_->look();
    return sender_->lost() && told_;
  }));
}

TEST_F(LinkStreamOverTcp, AsksWhetherAnIdlePeerIsThere) {
  for (const int end : {near_, far_}) {
    int is_asking = 0, idle = 0;
    socklen_t size = sizeof is_asking;
    EXPECT_EQ(getsockopt(end, SOL_SOCKET, SO_KEEPALIVE, &is_asking, &size), 0);
    EXPECT_EQ(getsockopt(end, IPPROTO_TCP, TCP_KEEPIDLE, &idle, &size), 0);
    EXPECT_TRUE(is_asking != 0 && idle <= 5) << idle;
  }
}

}  // namespace
}  // namespace ripc::internal::remote
