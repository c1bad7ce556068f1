// SPDX-License-Identifier: Apache-2.0
// Plain messages are written and read without Encoder and Packet, but their bytes and meaning are the same as with
// those.
#include "wire/plain.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "wire_helpers.hpp"

namespace ripc::internal::wire {
namespace {

using testing::Bytes;
using testing::flatten;
using testing::kSource;

constexpr std::uint32_t kTag = 0xfedcba98;

ripc_item item_of(std::span<const std::byte> bytes) {
  return {.data = bytes.data(), .size = bytes.size(), .kind = RIPC_ITEM_SHORT, .return_index = 0};
}

// Payloads of these sizes, each with different bytes.
struct Payloads {
  explicit Payloads(const std::vector<std::size_t>& sizes) {
    for (const std::size_t size : sizes) {
      Bytes& payload = bytes.emplace_back(size);
      for (std::size_t at = 0; at < size; ++at) payload[at] = static_cast<std::byte>(size * 13 + at * 7 + bytes.size());
    }
    for (const Bytes& payload : bytes) items.push_back(item_of(payload));
  }

  Bytes written() const {
    Plain plain{.source = kSource, .tag = kTag, .items = items};
    for (const ripc_item& item : items) plain.bytes += item.size;
    constexpr std::byte kGuard{0xa5};
    Bytes packet(plain.packet_size() + 1, kGuard);
    write_plain(plain, packet.data());
    EXPECT_EQ(packet.back(), kGuard) << "written past the end";
    packet.pop_back();
    return packet;
  }

  Bytes encoded() const {
    Encoder encoder(PacketKind::message, kTag, kSource);
    for (const Bytes& payload : bytes) EXPECT_TRUE(encoder.add_payload(payload));
    return flatten(encoder);
  }

  std::vector<Bytes> bytes;
  std::vector<ripc_item> items;
};

const std::vector<std::vector<std::size_t>> kShapes = {{},
                                                       {0},
                                                       {1},
                                                       {32},
                                                       {64},
                                                       {100},
                                                       {0, 5, 0},
                                                       {3, 7, 8, 15, 16, 17},
                                                       {255, 256, 257, 4096},
                                                       std::vector<std::size_t>(64, 9)};

TEST(Plain, IsWrittenAsTheEncoderWritesIt) {
  for (const auto& shape : kShapes) {
    const Payloads payloads(shape);
    EXPECT_EQ(payloads.written(), payloads.encoded()) << shape.size() << " items";
  }
}

TEST(Plain, OfOneItemIsTheSameWrittenFromItsEnd) {
  constexpr std::size_t kRoom = 120;
  constexpr std::size_t kFirstLine = 56;
  for (std::size_t size = 0; packet_size(1, size) <= kRoom; ++size) {
    const Payloads payloads({size});
    const Plain plain{.source = kSource, .tag = kTag, .items = payloads.items, .bytes = size};
    constexpr std::byte kGuard{0xa5};
    Bytes packet(plain.packet_size() + 1, kGuard);
    write_single<kRoom, kFirstLine>(plain, packet.data());
    EXPECT_EQ(packet.back(), kGuard) << "written past the end: " << size;
    packet.pop_back();
    EXPECT_EQ(packet, payloads.encoded()) << size;
  }
}

TEST(Plain, IsReadAsItWasWritten) {
  for (const auto& shape : kShapes) {
    const Payloads payloads(shape);
    const Bytes packet = payloads.written();
    PlainReader reader;
    ASSERT_TRUE(reader.read_header(packet, RIPC_MAX_ITEMS)) << shape.size() << " items";
    EXPECT_EQ(reader.count(), shape.size());
    EXPECT_EQ(reader.tag(), kTag);
    EXPECT_EQ(reader.source(), kSource);
    std::size_t index = 0;
    EXPECT_TRUE(reader.visit_items([&](std::size_t offset, std::size_t length) {
      const auto found = reader.body().subspan(offset, length);
      EXPECT_TRUE(std::equal(found.begin(), found.end(), payloads.bytes[index].begin(), payloads.bytes[index].end()));
      ++index;
    }));
    EXPECT_EQ(index, shape.size());
  }
}

bool reads(const Bytes& packet, std::size_t most_items = RIPC_MAX_ITEMS) {
  PlainReader reader;
  return reader.read_header(packet, most_items) && reader.visit_items([](std::size_t, std::size_t) {});
}

TEST(PlainReader, LeavesEverythingElseToThePacketDecoder) {
  Encoder with_request(PacketKind::message, 0, kSource);
  ASSERT_TRUE(with_request.add_request(1));
  EXPECT_FALSE(reads(flatten(with_request))) << "an item that is no payload";
  Encoder notification(PacketKind::notification, 0, kSource);
  ASSERT_TRUE(notification.add_handle(1));
  EXPECT_FALSE(reads(flatten(notification))) << "a notification";
  const Bytes packet = Payloads({3, 4}).written();
  EXPECT_TRUE(reads(packet, 2));
  EXPECT_FALSE(reads(packet, 1)) << "more items than asked for";
}

TEST(PlainReader, ItReadsMessagesOutOfOrder) {
  const Bytes ordered = Payloads({3, 4}).written();
  Bytes unordered = ordered;
  unordered[2] = std::byte{kUnordered};
  EXPECT_TRUE(reads(unordered));
  EXPECT_TRUE(is_unordered(unordered));
  EXPECT_FALSE(is_unordered(ordered));
  EXPECT_FALSE(is_unordered(std::span(unordered).first(kHeaderSize - 1)));
}

TEST(PlainReader, RefusesWhatDoesNotAddUp) {
  const Bytes good = Payloads({3, 4}).written();
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(reads(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size))))
        << size << " bytes of it";
  Bytes longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(reads(longer)) << "a byte left over";
  const auto changed = [&](std::size_t at, std::uint8_t to) {
    Bytes bytes = good;
    bytes[at] = std::byte{to};
    return bytes;
  };
  EXPECT_FALSE(reads(changed(0, 1))) << "another version";
  EXPECT_FALSE(reads(changed(1, 9))) << "an unknown kind";
  EXPECT_FALSE(reads(changed(2, 2))) << "an unknown flag";
  EXPECT_FALSE(reads(changed(3, 255))) << "more items than there are bytes";
  EXPECT_FALSE(reads(changed(16, 200))) << "an item past the end";
  EXPECT_FALSE(reads(changed(19, 0x0f))) << "a length of many MiB";
  Bytes nobody = good;
  std::fill(nobody.begin() + 8, nobody.begin() + 16, std::byte{0});
  EXPECT_FALSE(reads(nobody)) << "a source of 0";
  EXPECT_FALSE(reads(changed(15, 0x40))) << "a group as its source";
}

}  // namespace
}  // namespace ripc::internal::wire
