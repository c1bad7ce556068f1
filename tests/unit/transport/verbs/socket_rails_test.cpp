// SPDX-License-Identifier: Apache-2.0
// A rail of sockets next to RDMA over a real device: what it brings, and what a silent or hostile peer does there.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <vector>

#include "nodes.hpp"
#include "unit/transport/socket/bulk_helpers.hpp"

namespace ripc::internal::verbs {
namespace {

using socket::testing::RawEnd;
namespace bulk = wire::bulk;

class SocketRail : public Nodes {
 protected:
  // Owed bytes are due after half a second.
  SocketRail() : Nodes(patience_of(2'000'000'000)) {}
  void SetUp() override {
    Nodes::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(send(8, 'a'), RIPC_OK);
    ASSERT_NO_FATAL_FAILURE(receive(1));
    bytes_ = socket::testing::pattern(std::size_t{32} << 20);
    window_.resize(bytes_.size());
  }

  static RdmaBulk& bulk_of(const Node& node) { return *node.transport().bulks().front(); }
  static void adopt(Node& node, UniqueFd socket) {
    node.in_responder([&] { bulk_of(node).adopt_socket(remote::SecureSocket(std::move(socket))); });
  }
  // A connection to the server's side.
  RawEnd raw_end() {
    auto [near, far] = tcp_pair();
    adopt(*server_, std::move(near));
    return RawEnd(std::move(far));
  }
  bool has_rail(const Node& node) const { return !bulk_of(node).sockets().empty(); }
  bool await(const std::function<bool()>& condition) {
    const Deadline deadline = Deadline::after(kLimit);
    while (!condition()) {
      if (deadline.expired()) return false;
      std::this_thread::yield();
    }
    return true;
  }
  void begin() { item_.begin(*client_, *channel_, *sink_.source, bytes_, window_.data()); }
  void pull() { (void)sink_.source->pull(item_.pull); }
  void pull_all() {
    ASSERT_TRUE(await([&] {
      pull();
      return item_.pull.status != RIPC_PENDING;
    }));
    EXPECT_EQ(item_.pull.status, RIPC_OK);
    EXPECT_TRUE(window_ == bytes_);
  }

  std::vector<std::byte> bytes_;
  std::vector<std::byte> window_;
  LongItem item_;
};

TEST_F(SocketRail, BringsPartOfALargeItemAndIsListed) {
  auto [near, far] = tcp_pair();
  adopt(*client_, std::move(far));
  adopt(*server_, std::move(near));
  ASSERT_NO_FATAL_FAILURE(begin());
  const Nanoseconds started = monotonic_now();
  ASSERT_NO_FATAL_FAILURE(pull_all());
  const Nanoseconds elapsed = monotonic_now() - started;
  const std::vector<spi::RailReport> rails = bulk_of(*server_).rails();
  ASSERT_EQ(rails.size(), 2u);
  EXPECT_EQ(rails[0].device, devices_->ports().front().device->name);
  EXPECT_EQ(rails[1].device, "lo");
  EXPECT_EQ(rails[1].peer, "127.0.0.1");
  EXPECT_GE(rails[1].bytes_received, remote::RailPace::kLeastSegment);
  EXPECT_GT(rails[1].rate, 0u);
  // The rate must not come from the short time between reads that are reported together.
  EXPECT_LT(static_cast<double>(rails[0].rate),
            100e9 * static_cast<double>(bytes_.size()) / static_cast<double>(elapsed));
  EXPECT_LT(rails[1].bytes_received, bytes_.size());
}

TEST_F(SocketRail, ASilentOneEndsAndRdmaBringsWhatItOwes) {
  RawEnd silent = raw_end();
  ASSERT_NO_FATAL_FAILURE(begin());
  ASSERT_NO_FATAL_FAILURE(pull_all());
  const std::optional<bulk::Frame> request = silent.receive();
  ASSERT_TRUE(request);
  EXPECT_EQ(request->type, bulk::Type::pull_request);
  EXPECT_TRUE(silent.is_closed());
  EXPECT_TRUE(await([&] { return !has_rail(*server_); }));
  EXPECT_TRUE(channel_->alive());
}

TEST_F(SocketRail, AnAbandonedItemIsNotWrittenByWhatStillComes) {
  RawEnd late = raw_end();
  ASSERT_NO_FATAL_FAILURE(begin());
  pull();
  std::optional<bulk::Frame> request;
  ASSERT_TRUE(await([&] {
    pull();  // it is open to RDMA
    return item_.pull.status != RIPC_PENDING || !bulk_of(*server_).idle();
  }));
  request = late.receive();
  ASSERT_TRUE(request);
  sink_.source->abandon(item_.pull);
  window_.assign(window_.size(), std::byte{0});
  const std::vector<std::byte> strange(request->length, std::byte{1});
  ASSERT_TRUE(late.send(
      {.type = bulk::Type::data, .length = request->length, .id = request->id, .offset = request->offset}, strange));
  // The server handles this frame after the data.
  ASSERT_TRUE(late.send({.type = bulk::Type::ask_read}));
  EXPECT_TRUE(late.is_closed());
  EXPECT_TRUE(socket::testing::all_are(window_, std::byte{0}));
}

// Each of these frames ends the connection, and nothing else.
TEST_F(SocketRail, UnexpectedFramesEndIt) {
  const std::vector<std::byte> strange(64, std::byte{1});
  const std::vector<std::function<bool(RawEnd&)>> attacks = {
      [&](RawEnd& end) { return end.send({.type = bulk::Type::data, .length = 64, .id = 2}, strange); },
      [&](RawEnd& end) { return end.send({.type = bulk::Type::push, .length = 64, .id = 1, .value = 64}, strange); },
      [&](RawEnd& end) { return end.send({.type = bulk::Type::ask_read}); },
      [&](RawEnd& end) { return end.send({.type = bulk::Type::offer}); },
      [&](RawEnd& end) { return end.write(strange); },
  };
  for (std::size_t index = 0; index < attacks.size(); ++index) {
    SCOPED_TRACE(index);
    RawEnd hostile = raw_end();
    (void)attacks[index](hostile);  // it may end before all is sent
    EXPECT_TRUE(hostile.is_closed());
    EXPECT_TRUE(await([&] { return !has_rail(*server_); }));
  }
  ASSERT_NO_FATAL_FAILURE(begin());
  ASSERT_NO_FATAL_FAILURE(pull_all());
}

TEST_F(SocketRail, TransfersThatAreNotExposedAreNotFinished) {
  RawEnd curious = raw_end();
  ASSERT_TRUE(curious.send({.type = bulk::Type::finished, .key = 1, .location = 1}));
  ASSERT_TRUE(curious.send({.type = bulk::Type::finish, .key = 1, .location = 1}));
  const std::optional<bulk::Frame> answer = curious.receive();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->type, bulk::Type::finished);
  EXPECT_EQ(static_cast<ripc_status>(answer->value), RIPC_REVOKED);
}

TEST_F(SocketRail, MemoryThatIsNotExposedIsNotSent) {
  RawEnd curious = raw_end();
  ASSERT_TRUE(curious.send({.type = bulk::Type::pull_request, .length = 4096, .id = 2, .key = 1, .location = 1}));
  const std::optional<bulk::Frame> answer = curious.receive();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->type, bulk::Type::data);
  std::vector<std::byte> payload;
  EXPECT_EQ(curious.receive_payload(*answer, payload), RIPC_REVOKED);
  EXPECT_TRUE(payload.empty());
  EXPECT_TRUE(has_rail(*server_));
}

}  // namespace
}  // namespace ripc::internal::verbs
