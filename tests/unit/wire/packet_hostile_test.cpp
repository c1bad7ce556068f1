// SPDX-License-Identifier: Apache-2.0
// What the packet decoder refuses, and that no bytes at all make it read or return anything outside them.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <functional>
#include <string>
#include <vector>

#include "wire/packet.hpp"
#include "wire_helpers.hpp"

namespace ripc::internal::wire {
namespace {

using testing::Bytes;
using testing::ExactBytes;
using testing::flatten;
using testing::kSource;
using testing::text;

struct NamedPacket {
  std::string name;
  Bytes bytes;
};

// Valid packets that together contain every item type.
std::vector<NamedPacket> samples() {
  std::vector<NamedPacket> packets;
  const auto sample = [&](const char* name, PacketKind kind, const std::function<void(Encoder&)>& fill) {
    Encoder encoder(kind, 5, kSource);
    fill(encoder);
    packets.push_back({name, flatten(encoder)});
  };
  sample("empty", PacketKind::message, [](Encoder&) {});
  sample("one item", PacketKind::message, [](Encoder& e) { e.add_payload(text("hello")); });
  sample("three items", PacketKind::message, [](Encoder& e) {
    e.add_payload(text("one"));
    e.add_payload({});
    e.add_payload(text("three"));
  });
  sample("long", PacketKind::message, [](Encoder& e) {
    e.add_payload(text("a"));
    e.add(Descriptor{1, 2, 3});
  });
  sample("request", PacketKind::message, [](Encoder& e) {
    e.add_request(9);
    e.add(Grant{1, 2, 3});
    e.add_payload(text("b"));
  });
  sample("reply", PacketKind::message, [](Encoder& e) {
    e.add_reply(9);
    e.add(Returned{0, 4});
    e.add(Directed{1, {2, 3, 4}});
  });
  sample("notification", PacketKind::notification, [](Encoder& e) {
    e.add_handle(9);
    e.add_payload(text("c"));
  });
  return packets;
}

// Decodes a copy of exact size and checks that the items tile the body; returns the status.
ripc_status decode_and_check(std::span<const std::byte> bytes) {
  const ExactBytes copy(bytes);
  Packet packet;
  const Status status = packet.decode(copy.span());
  if (!status.ok()) {
    EXPECT_TRUE(packet.items().empty());
    return status.code();
  }
  std::size_t end = packet_size(packet.items().size(), 0);
  for (const DecodedItem& item : packet.items()) {
    EXPECT_EQ(item.offset, end);
    end += item.length;
    if (end > copy.span().size()) {
      ADD_FAILURE() << "an item ends outside of the packet";
      return RIPC_OK;
    }
    EXPECT_EQ(packet.body(item).size(), item.length);
    unsigned sum = 0;  // touches every byte
    for (const std::byte byte : packet.body(item)) sum += std::to_integer<unsigned>(byte);
    EXPECT_LE(sum, 255u * item.length);
  }
  EXPECT_EQ(end, copy.span().size());
  return RIPC_OK;
}

// A packet put together by hand, so that it can be wrong in any way.
struct Entry {
  unsigned type;
  std::uint32_t length;
};

struct Raw {
  std::uint8_t version = kVersion;
  std::uint8_t kind = 1;
  std::uint8_t flags = 0;
  std::vector<Entry> table = {};
  std::uint64_t source = kSource;
  int items = -1;       // -1: as many as the table has
  long body_extra = 0;  // bytes more, or fewer, than the table says

  Bytes build() const {
    Bytes bytes(kHeaderSize + table.size() * kTableEntrySize);
    bytes[0] = std::byte{version};
    bytes[1] = std::byte{kind};
    bytes[2] = std::byte{flags};
    bytes[3] = static_cast<std::byte>(items < 0 ? static_cast<int>(table.size()) : items);
    store_le<std::uint64_t>(bytes.data() + 8, source);
    long body = body_extra;
    for (std::size_t index = 0; index < table.size(); ++index) {
      store_le<std::uint32_t>(bytes.data() + kHeaderSize + index * kTableEntrySize,
                              table[index].type << 28 | table[index].length);
      body += table[index].length;
    }
    if (body > 0) bytes.resize(bytes.size() + static_cast<std::size_t>(body));
    return bytes;
  }
};

std::vector<Entry> many(std::size_t count, Entry entry, std::vector<Entry> table = {}) {
  table.insert(table.end(), count, entry);
  return table;
}

TEST(PacketHostile, EachRejectionReasonIsRecognised) {
  const Entry payload{0, 3}, descriptor{1, 24}, returned{2, 12}, directed{3, 28}, grant{4, 24}, request{5, 8},
      reply{6, 8}, handle{7, 8};
  struct Case {
    const char* reason;
    Raw packet;
    ripc_status status;
  };
  const Case cases[] = {
      {"nothing wrong: short", {.table = {payload, payload}}, RIPC_OK},
      {"nothing wrong: all types of a message",
       {.table = {reply, request, grant, payload, descriptor, returned, directed}},
       RIPC_OK},
      {"nothing wrong: notification", {.kind = 2, .table = {handle, payload}}, RIPC_OK},
      {"older version", {.version = kVersion - 1}, RIPC_VERSION_MISMATCH},
      {"newer version", {.version = kVersion + 1}, RIPC_VERSION_MISMATCH},
      {"newer version, else corrupt", {.version = 255, .kind = 9, .flags = 9, .source = 0}, RIPC_VERSION_MISMATCH},
      {"kind 0", {.kind = 0}, RIPC_CORRUPT},
      {"kind 3", {.kind = 3}, RIPC_CORRUPT},
      {"kind 255", {.kind = 255}, RIPC_CORRUPT},
      {"nothing wrong: out of order", {.flags = kUnordered}, RIPC_OK},
      {"a notification out of order", {.kind = 2, .flags = kUnordered, .table = {handle}}, RIPC_CORRUPT},
      {"another flag", {.flags = 2}, RIPC_CORRUPT},
      {"highest flag", {.flags = 0x80}, RIPC_CORRUPT},
      {"source 0", {.source = 0}, RIPC_CORRUPT},
      {"type 8", {.table = {{8, 8}}}, RIPC_CORRUPT},
      {"type 15", {.table = {{15, 0}}}, RIPC_CORRUPT},
      {"more items than a packet holds", {.table = many(kMaxPacketItems + 1, {0, 0})}, RIPC_CORRUPT},
      {"255 items", {.table = many(255, {0, 0})}, RIPC_CORRUPT},
      {"most payload items", {.table = many(64, {0, 1})}, RIPC_OK},
      {"one payload item too many", {.table = many(65, {0, 1})}, RIPC_CORRUPT},
      {"one application item too many beside a reply", {.table = many(65, descriptor, {reply})}, RIPC_CORRUPT},
      {"most grants", {.table = many(16, grant, {request})}, RIPC_OK},
      {"one grant too many", {.table = many(17, grant, {request})}, RIPC_CORRUPT},
      {"descriptor one byte short", {.table = {{1, 23}}}, RIPC_CORRUPT},
      {"descriptor one byte long", {.table = {{1, 25}}}, RIPC_CORRUPT},
      {"empty descriptor", {.table = {{1, 0}}}, RIPC_CORRUPT},
      {"returned of another size", {.table = {reply, {2, 11}}}, RIPC_CORRUPT},
      {"returned with more bytes than it says", {.table = {reply, {2, 13}}}, RIPC_CORRUPT},
      {"directed of another size", {.table = {reply, {3, 24}}}, RIPC_CORRUPT},
      {"grant of another size", {.table = {request, {4, 28}}}, RIPC_CORRUPT},
      {"request of another size", {.table = {{5, 4}}}, RIPC_CORRUPT},
      {"reply of another size", {.table = {{6, 12}}}, RIPC_CORRUPT},
      {"handle of another size", {.kind = 2, .table = {{7, 7}}}, RIPC_CORRUPT},
      {"table past the end", {.items = 1}, RIPC_CORRUPT},
      {"table past the end by one entry", {.table = {{0, 0}, {0, 0}}, .items = 3}, RIPC_CORRUPT},
      {"body one byte past the end", {.table = {payload, payload}, .body_extra = -1}, RIPC_CORRUPT},
      {"fixed-size body past the end", {.table = {descriptor}, .body_extra = -1}, RIPC_CORRUPT},
      {"largest length without a body",
       {.table = {{0, kMaxItemBody}}, .body_extra = -long{kMaxItemBody}},
       RIPC_CORRUPT},
      {"lengths whose 32-bit sum is what the packet has",
       {.table = many(16, {0, kMaxItemBody}, {{0, 16}}), .body_extra = -16 * long{kMaxItemBody} - 16},
       RIPC_CORRUPT},
      {"one byte left over", {.table = {payload}, .body_extra = 1}, RIPC_CORRUPT},
      {"bytes after an empty message", {.body_extra = 4}, RIPC_CORRUPT},
      {"grants without request", {.table = {grant, payload}}, RIPC_CORRUPT},
      {"grants with a reply but no request", {.table = {reply, grant}}, RIPC_CORRUPT},
      {"two request items", {.table = {request, request}}, RIPC_CORRUPT},
      {"two reply items", {.table = {reply, payload, reply}}, RIPC_CORRUPT},
      {"one of each", {.table = {reply, request}}, RIPC_OK},
      {"message with a handle", {.table = {handle, payload}}, RIPC_CORRUPT},
      {"notification without items", {.kind = 2}, RIPC_CORRUPT},
      {"notification without handle", {.kind = 2, .table = {payload}}, RIPC_CORRUPT},
      {"notification whose handle comes second", {.kind = 2, .table = {payload, handle}}, RIPC_CORRUPT},
      {"notification with two handles", {.kind = 2, .table = {handle, handle}}, RIPC_CORRUPT},
      {"notification with a descriptor", {.kind = 2, .table = {handle, descriptor}}, RIPC_CORRUPT},
      {"notification with returned", {.kind = 2, .table = {handle, returned}}, RIPC_CORRUPT},
      {"notification with directed", {.kind = 2, .table = {handle, directed}}, RIPC_CORRUPT},
      {"notification with request and grant", {.kind = 2, .table = {handle, request, grant}}, RIPC_CORRUPT},
      {"notification with reply", {.kind = 2, .table = {handle, payload, reply}}, RIPC_CORRUPT},
      {"notification with one item too many", {.kind = 2, .table = many(65, {0, 0}, {handle})}, RIPC_CORRUPT},
  };
  for (const Case& test : cases) {
    EXPECT_EQ(decode_and_check(test.packet.build()), test.status) << test.reason;
  }
}

TEST(PacketHostile, NoMoreItemsCarryBytesThanThereAreReturnBuffers) {
  for (const std::size_t count : {16u, 17u}) {
    Bytes bytes = Raw{.table = many(count, {2, kReturnedSize + 1})}.build();
    for (std::size_t index = 0; index < count; ++index)
      bytes[packet_size(count, index * (kReturnedSize + 1)) + 4] = std::byte{1};
    EXPECT_EQ(decode_and_check(bytes), count > RIPC_MAX_RETURNS ? RIPC_CORRUPT : RIPC_OK);
  }
}

TEST(PacketHostile, AHeaderThatIsCutOffIsCorrupt) {
  EXPECT_EQ(decode_and_check({}), RIPC_CORRUPT);
  const Bytes header = Raw{}.build();
  for (std::size_t size = 1; size < kHeaderSize; ++size) {
    EXPECT_EQ(decode_and_check(std::span(header).first(size)), RIPC_CORRUPT) << size;
  }
}

TEST(PacketHostile, AnotherVersionIsNamedEvenIfItsHeaderIsShorter) {
  EXPECT_EQ(decode_and_check(testing::to_bytes({kVersion + 1})), RIPC_VERSION_MISMATCH);
}

TEST(PacketHostile, APacketOfFourGibibytesIsRefusedInsteadOfWrappingItsOffsets) {
  constexpr std::size_t kSize = (std::size_t{1} << 32) + packet_size(17, 0);
  void* memory = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no 4 GiB of address space";
  // 16 full items and one of 16 bytes: together exactly 4 GiB.
  const Bytes front =
      Raw{.table = many(16, {0, kMaxItemBody}, {{0, 16}}), .body_extra = -16 * long{kMaxItemBody} - 16}.build();
  std::copy(front.begin(), front.end(), static_cast<std::byte*>(memory));
  Packet packet;
  EXPECT_EQ(packet.decode({static_cast<const std::byte*>(memory), kSize}).code(), RIPC_CORRUPT);
  EXPECT_TRUE(packet.items().empty());
  ::munmap(memory, kSize);
}

TEST(PacketHostile, AFailedDecodeForgetsTheItemsOfTheOneBefore) {
  const Bytes good = Raw{.table = {{0, 3}}}.build();
  const Bytes bad = Raw{.table = {{0, 3}}, .body_extra = 1}.build();
  Packet packet;
  ASSERT_TRUE(packet.decode(good).ok());
  ASSERT_EQ(packet.items().size(), 1u);
  EXPECT_FALSE(packet.decode(bad).ok());
  EXPECT_TRUE(packet.items().empty());
}

TEST(PacketHostile, AFailureHasASentence) { EXPECT_FALSE(Packet().decode({}).text().empty()); }

TEST(PacketHostile, EveryTruncationIsCorrupt) {
  for (const NamedPacket& sample : samples()) {
    SCOPED_TRACE(sample.name);
    ASSERT_EQ(decode_and_check(sample.bytes), RIPC_OK);
    for (std::size_t size = 0; size < sample.bytes.size(); ++size) {
      EXPECT_EQ(decode_and_check(std::span(sample.bytes).first(size)), RIPC_CORRUPT) << size;
    }
  }
}

TEST(PacketHostile, EverySingleByteChangeIsRefusedOrStaysInside) {
  for (const NamedPacket& sample : samples()) {
    SCOPED_TRACE(sample.name);
    for (std::size_t at = 0; at < sample.bytes.size(); ++at) {
      for (unsigned value = 0; value < 256; ++value) {
        Bytes bytes = sample.bytes;
        bytes[at] = static_cast<std::byte>(value);
        const ripc_status status = decode_and_check(bytes);
        if (at == 0 && value != kVersion) {
          ASSERT_EQ(status, RIPC_VERSION_MISMATCH);
        } else {
          ASSERT_TRUE(status == RIPC_OK || status == RIPC_CORRUPT) << at << " " << value;
        }
      }
    }
  }
}

// The fields in which a sender has no choice: any other value is refused.
TEST(PacketHostile, NoChangeOfFlagsItemCountOrTableLengthPasses) {
  for (const NamedPacket& sample : samples()) {
    SCOPED_TRACE(sample.name);
    const std::size_t table_end = packet_size(std::to_integer<std::size_t>(sample.bytes[3]), 0);
    for (std::size_t at = 2; at < table_end; ++at) {
      const bool is_choice = at >= 4 && at < kHeaderSize;  // tag and source
      if (is_choice) continue;
      for (unsigned value = 0; value < 256; ++value) {
        Bytes bytes = sample.bytes;
        if (bytes[at] == static_cast<std::byte>(value)) continue;
        const bool is_type = at >= kHeaderSize && (at - kHeaderSize) % kTableEntrySize == 3;
        if (is_type && (static_cast<std::byte>(value) & std::byte{0x0f}) == std::byte{0}) continue;
        if (at == 2 && value == kUnordered && sample.bytes[1] == std::byte{1}) continue;
        bytes[at] = static_cast<std::byte>(value);
        ASSERT_EQ(decode_and_check(bytes), RIPC_CORRUPT) << at << " " << value;
      }
    }
  }
}

}  // namespace
}  // namespace ripc::internal::wire
