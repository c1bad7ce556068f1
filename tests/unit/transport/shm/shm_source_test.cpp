// SPDX-License-Identifier: Apache-2.0
// The receiving end of a link against a sender that the test plays, and the sending end against a receiver that the
// test plays. The subjects are the bounce buffer, and memory outside of what was announced or exposed.
#include "transport/shm/shm_source.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "../spi_calls.hpp"
#include "shm_helpers.hpp"
#include "transport/shm/location.hpp"
#include "transport/shm/shm_channel.hpp"

namespace ripc::internal::shm {
namespace {

namespace control = wire::shm_control;

constexpr Geometry kGeometry{16, 4096};
constexpr std::uint64_t kLink = 7;

Mapping some_memory(std::size_t size) {
  Result<SharedMemory> memory = create_shared_memory("ripc-test", size, PeerAccess::read_write);
  EXPECT_TRUE(memory.ok()) << memory.status().text();
  return std::move(memory->mapping);
}

class Bounce : public testing::Test {
 protected:
  void SetUp() override {
    int sockets[2] = {-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets), 0);
    sender_ = std::make_shared<ControlConnection>(UniqueFd(sockets[1]));
    ShmSource::Parts parts;
    parts.connection = receiver_ = std::make_shared<ControlConnection>(UniqueFd(sockets[0]));
    parts.link = kLink;
    parts.geometry = kGeometry;
    parts.memory = some_memory(kGeometry.total());
    source_ = std::make_shared<ShmSource>(std::move(parts));
  }
  std::optional<control::BounceRequest> asked() {
    if (sender_->receive(received_) != ControlConnection::Event::message) return {};
    auto decoded = control::decode(std::span(received_.bytes).first(received_.size));
    if (!decoded.ok() || !std::holds_alternative<control::BounceRequest>(*decoded)) return {};
    return std::get<control::BounceRequest>(*decoded);
  }
  static spi::Pull pull_into(std::span<std::byte> window) {
    spi::Pull pull;
    pull.descriptor = {.key = 1, .location = kUndisclosed, .length = window.size()};
    pull.destination = window.data();
    return pull;
  }

  // `page`: set to where the receiver's side of the channel writes.
  std::shared_ptr<ShmChannel> make_channel(std::byte** page = nullptr) const {
    ShmChannel::Parts parts;
    parts.connection = sender_;
    parts.link = kLink;
    parts.geometry = kGeometry;
    parts.memory = some_memory(kGeometry.total());
    if (page != nullptr) *page = parts.memory.data();
    parts.state_page = some_memory(kStatePageSize);
    return std::make_shared<ShmChannel>(std::move(parts));
  }

  std::shared_ptr<ControlConnection> sender_;
  std::shared_ptr<ControlConnection> receiver_;
  std::shared_ptr<ShmSource> source_;
  Received received_;
};

TEST_F(Bounce, ASenderThatHasLostItsMemoryGetsItAgainWithTheNextItem) {
  std::array<std::byte, 64> window{};
  for (const bool lost : {true, false}) {
    spi::Pull pull = pull_into(window);
    ASSERT_EQ(source_->pull(pull), RIPC_PENDING);
    const auto request = asked();
    ASSERT_TRUE(request);
    EXPECT_TRUE(received_.descriptors[0]);
    control::BounceData data{.link = kLink,
                             .key = request->key,
                             .offset = request->offset,
                             .status = lost ? RIPC_NO_DESCRIPTORS : RIPC_OK,
                             .sequence = request->sequence,
                             .length = lost ? 0 : request->length};
    source_->bounce_arrived(data);
    EXPECT_EQ(source_->pull(pull), data.status);
  }
  spi::Pull pull = pull_into(window);
  ASSERT_EQ(source_->pull(pull), RIPC_PENDING);
  ASSERT_TRUE(asked());
  EXPECT_FALSE(received_.descriptors[0]) << "it has it";
}

TEST_F(Bounce, ASenderWithoutTheMemorySaysWhy) {
  const auto channel = make_channel();
  const control::BounceRequest request{
      .link = kLink, .key = 1, .offset = 0, .length = 64, .sequence = 1, .reserved = 0};
  EXPECT_EQ(channel->serve_bounce(request, UniqueFd()).status, RIPC_NO_DESCRIPTORS);
}

TEST_F(Bounce, AReceiverIsGivenNothingFromBeyondAnItem) {
  std::byte* page = nullptr;
  const auto channel = make_channel(&page);
  const std::vector<std::byte> bytes(kBounceSize + 128, std::byte{0x5a});
  constexpr std::uint64_t kItem = kBounceSize + 64;
  const memory::Hold hold;
  const std::array<spi::Exposure, 1> items = {{{spi::Bytes(bytes).first(kItem), &hold}}};
  std::array<wire::Descriptor, 1> descriptors{};
  std::uint64_t transfer = 0;
  ASSERT_EQ(channel->expose(items, descriptors, transfer), RIPC_OK);
  ASSERT_EQ(TransferTaker(page).begin(Key::from(transfer)), RIPC_OK);
  Result<SharedMemory> buffer = create_shared_memory("ripc-test", kBounceSize, PeerAccess::read_write);
  ASSERT_TRUE(buffer.ok());
  const auto ask = [&](std::uint64_t offset, std::uint64_t length) {
    const control::BounceRequest request{
        .link = kLink, .key = descriptors[0].key, .offset = offset, .length = length, .sequence = 1, .reserved = 0};
    const control::BounceData answer = channel->serve_bounce(request, std::move(buffer->fd));
    EXPECT_EQ(answer.length, answer.status == RIPC_OK ? length : 0);
    return answer.status;
  };
  EXPECT_EQ(ask(0, kBounceSize), RIPC_OK);
  EXPECT_EQ(ask(kItem - 1, 1), RIPC_OK);
  EXPECT_EQ(ask(kItem - 1, 2), RIPC_REVOKED);
  EXPECT_EQ(ask(kItem, 1), RIPC_REVOKED);
  EXPECT_EQ(ask(kItem + 1, 1), RIPC_REVOKED);
  EXPECT_EQ(ask(UINT64_MAX, 2), RIPC_REVOKED) << "behind all memory, and round to its begin";
  EXPECT_EQ(ask(0, kBounceSize + 1), RIPC_REVOKED) << "more than its buffer holds";
  EXPECT_EQ(test::revoke(*channel, transfer), RIPC_REVOKED);
  EXPECT_EQ(ask(0, 1), RIPC_REVOKED);
}

TEST_F(Bounce, ADescriptorThatReachesOutOfItsArenaIsCorrupt) {
  constexpr std::uint64_t kArena = 8192;
  Result<SharedMemory> arena = create_shared_memory("ripc-test", kArena, PeerAccess::read_only);
  ASSERT_TRUE(arena.ok());
  ASSERT_TRUE(receiver_->add_foreign_arena(3, kArena, false, arena->fd.get()).ok());
  const auto prepare = [&](std::uint64_t offset, std::uint64_t length) {
    spi::Pull pull;
    pull.descriptor = {.key = 1, .location = pooled_location(3, offset), .length = length};
    const ripc_status status = source_->prepare(pull);
    EXPECT_EQ(pull.memory != nullptr, status == RIPC_OK);
    return status;
  };
  EXPECT_EQ(prepare(0, kArena), RIPC_OK);
  EXPECT_EQ(prepare(kArena - 1, 1), RIPC_OK);
  EXPECT_EQ(prepare(kArena - 1, 2), RIPC_CORRUPT);
  EXPECT_EQ(prepare(kArena, 1), RIPC_CORRUPT);
  EXPECT_EQ(prepare(kMaxArenaOffset, 1), RIPC_CORRUPT);
  EXPECT_EQ(prepare(1, UINT64_MAX), RIPC_CORRUPT) << "behind all memory, and round to its begin";
}

TEST_F(Bounce, ThePathSaysWhyTheBufferIsUsed) {
  const auto channel = make_channel();
  EXPECT_EQ(channel->describe(Deadline::after(0)).text.find("bounced"), std::string::npos);
  std::set<std::string> reasons;
  for (const Reach reach : {Reach::other_user, Reach::not_visible, Reach::not_traceable, Reach::no_system_call}) {
    sender_->set_reach_of_peer(reach);
    reasons.insert(channel->describe(Deadline::after(0)).text);
    EXPECT_NE(channel->describe(Deadline::after(0)).text.find("bounced"), std::string::npos);
    EXPECT_LT(channel->describe(Deadline::after(0)).text.size(), sizeof(ripc_service_info::reason) - 32)
        << "something is added to it";
  }
  EXPECT_EQ(reasons.size(), 4u);
}

}  // namespace
}  // namespace ripc::internal::shm
