// SPDX-License-Identifier: Apache-2.0
// Where each item of a received message goes.
#include "core/protocol/incoming.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "fake_transport.hpp"

namespace ripc::internal::core {
namespace {

constexpr ripc_service_id kPeer = 9;

class Incoming : public testing::Test {
 protected:
  // Places the items of a message from the peer, without a source.
  Placed place_packet(wire::Encoder& encoder, bool lend = false) {
    storage_.clear();
    for (const spi::Bytes range : encoder.finish()) storage_.insert(storage_.end(), range.begin(), range.end());
    wire::Packet packet;
    EXPECT_TRUE(packet.decode(storage_).ok());
    message_.items = views_.data();
    message_.storage = storage_.data();
    const PacketContents contents(packet);
    for (const wire::Descriptor& descriptor : contents.pulled()) items_.emplace_back().pull.descriptor = descriptor;
    return place(packet, nullptr, lend, {windows_, shared_, requests_}, message_, items_);
  }
  std::uint64_t ask(std::span<std::byte> buffer) {
    Request request;
    request.channel = std::make_shared<FakeChannel>();
    request.to = kPeer;
    request.grants = {{.key = 1, .location = 0, .length = buffer.size()}};
    request.buffers = {{buffer.data(), buffer.size()}};
    return requests_.add(std::move(request));
  }
  void post(WindowQueue& windows, std::span<std::byte> memory) {
    ASSERT_TRUE(windows.post(memory.data(), memory.size(), 1).ok());
  }

  WindowQueue windows_, shared_;
  RequestTable requests_;
  Message message_;
  IncomingItems items_;
  std::array<ripc_item_view, RIPC_MAX_ITEMS> views_{};
  std::vector<std::byte> storage_;
  std::array<std::byte, 100> near_{}, far_{};
  wire::Encoder encoder_{wire::PacketKind::message, 3, kPeer};
};

TEST_F(Incoming, PayloadIsThereAlready) {
  encoder_.add_payload(std::span(near_).first(4));
  EXPECT_EQ(place_packet(encoder_).short_bytes, 4u);
  ASSERT_EQ(message_.item_count, 1u);
  EXPECT_EQ(views_[0].kind, RIPC_VIEW_SHORT);
  EXPECT_EQ(views_[0].size, 4u);
}

TEST_F(Incoming, TheServicesWindowsComeBeforeThoseOfTheContext) {
  post(windows_, near_);
  post(shared_, far_);
  for (const std::uint64_t key : {1u, 2u, 3u}) encoder_.add(wire::Descriptor{key, 0, 100});
  place_packet(encoder_);
  auto item = items_.begin();
  EXPECT_EQ(item->pull.destination, near_.data());
  EXPECT_EQ((++item)->pull.destination, far_.data());
  EXPECT_TRUE((++item)->done);
  EXPECT_EQ(item->shown().status, static_cast<std::uint32_t>(RIPC_NO_WINDOW));
}

TEST_F(Incoming, AWindowThatIsTooSmallFailsTheItemAndComesBack) {
  post(windows_, std::span(near_).first(10));
  encoder_.add(wire::Descriptor{1, 0, 100});
  place_packet(encoder_);
  EXPECT_EQ(items_.front().pull.status, RIPC_WINDOW_TOO_SMALL);
  items_.front().return_window();
  EXPECT_FALSE(windows_.take().empty());
}

TEST_F(Incoming, LentItemsTakeNoWindow) {
  post(windows_, near_);
  encoder_.add(wire::Descriptor{1, 0, 100});
  place_packet(encoder_, true);
  EXPECT_EQ(items_.front().target, IncomingItem::Target::lent);
  EXPECT_FALSE(windows_.take().empty());
}

TEST_F(Incoming, AReplyGoesIntoTheReturnBufferOnce) {
  const std::uint64_t request = ask(far_);
  post(windows_, near_);
  encoder_.add(wire::Directed{0, {1, 0, 100}});
  encoder_.add(wire::Directed{0, {2, 0, 100}});
  encoder_.add_reply(request);
  place_packet(encoder_);
  EXPECT_EQ(message_.in_reply_to, request);
  EXPECT_EQ(items_.front().target, IncomingItem::Target::return_buffer);
  EXPECT_EQ(items_.front().pull.destination, far_.data());
  EXPECT_EQ(items_.back().pull.destination, near_.data()) << "the second one finds a window";
  EXPECT_EQ(requests_.next(0), 0u) << "the request is answered";
}

TEST_F(Incoming, NoBufferOfARequestThatIsBeingCancelledIsWritten) {
  const std::uint64_t request = ask(far_);
  RequestTable::Taken taken = requests_.take(request);
  taken.mapped().cancelling = true;
  requests_.put_back(std::move(taken));
  post(windows_, near_);
  encoder_.add(wire::Directed{0, {1, 0, 100}});
  encoder_.add_reply(request);
  place_packet(encoder_);
  EXPECT_EQ(items_.front().pull.destination, near_.data()) << "a window, not the caller's buffer";
}

TEST_F(Incoming, AnotherServiceCannotAnswer) {
  Request request;
  request.channel = std::make_shared<FakeChannel>();
  request.to = kPeer + 1;
  request.buffers = {{far_.data(), far_.size()}};
  const std::uint64_t id = requests_.add(std::move(request));
  encoder_.add(wire::Directed{0, {1, 0, 100}});
  encoder_.add_reply(id);
  place_packet(encoder_);
  EXPECT_EQ(items_.front().pull.status, RIPC_NO_WINDOW);
  EXPECT_EQ(requests_.next(0), id);
}

TEST_F(Incoming, CarriedBytesAreCopiedIntoTheReturnBufferOnce) {
  const std::uint64_t request = ask(far_);
  const std::array bytes{std::byte{1}, std::byte{2}};
  const std::array others{std::byte{3}, std::byte{4}};
  encoder_.add_carried(0, bytes);
  encoder_.add_carried(0, others);
  encoder_.add_reply(request);
  const Placed placed = place_packet(encoder_);
  EXPECT_EQ(views_[0].kind, RIPC_VIEW_RETURNED);
  EXPECT_EQ(views_[0].data, far_.data());
  EXPECT_EQ(views_[0].size, bytes.size());
  EXPECT_EQ(views_[0].copied, 2u);
  EXPECT_TRUE(std::ranges::equal(bytes, std::span(far_).first(bytes.size())));
  EXPECT_EQ(views_[1].kind, RIPC_VIEW_SHORT) << "the second one stays where it is";
  EXPECT_TRUE(std::ranges::equal(others, std::span(static_cast<const std::byte*>(views_[1].data), views_[1].size)));
  EXPECT_EQ(placed.short_bytes, others.size());
  EXPECT_EQ(placed.copies, 2u) << "out of the queue, and into the buffer";
  EXPECT_EQ(placed.discarded, 0u);
}

TEST_F(Incoming, CarriedBytesWithoutARequestAreShort) {
  const std::array bytes{std::byte{1}, std::byte{2}};
  encoder_.add_carried(0, bytes);
  encoder_.add_reply(77);
  EXPECT_EQ(place_packet(encoder_).short_bytes, bytes.size());
  EXPECT_EQ(views_[0].kind, RIPC_VIEW_SHORT);
  EXPECT_EQ(views_[0].size, bytes.size());
}

TEST_F(Incoming, AFalseClaimOfAWriteFails) {
  const std::uint64_t request = ask(far_);  // its channel says that no one wrote
  encoder_.add(wire::Returned{0, 100});
  encoder_.add_reply(request);
  EXPECT_EQ(place_packet(encoder_).discarded, 1u);
  EXPECT_EQ(views_[0].kind, RIPC_VIEW_FAILED);
  EXPECT_EQ(views_[0].status, static_cast<std::uint32_t>(RIPC_CORRUPT));
}

}  // namespace
}  // namespace ripc::internal::core
