// SPDX-License-Identifier: Apache-2.0
#include "wire/bytes.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "wire_helpers.hpp"

namespace ripc::internal::wire {
namespace {

using testing::Bytes;
using testing::text;
using testing::to_bytes;
using testing::to_string;

TEST(WireBytes, StoresTheLeastSignificantByteFirst) {
  std::array<std::byte, 8> bytes{};
  store_le<std::uint8_t>(bytes.data(), 0x12);
  EXPECT_EQ(bytes[0], std::byte{0x12});
  store_le<std::uint16_t>(bytes.data(), 0x1234);
  EXPECT_EQ(Bytes(bytes.begin(), bytes.begin() + 2), to_bytes({0x34, 0x12}));
  store_le<std::uint32_t>(bytes.data(), 0x12345678);
  EXPECT_EQ(Bytes(bytes.begin(), bytes.begin() + 4), to_bytes({0x78, 0x56, 0x34, 0x12}));
  store_le<std::uint64_t>(bytes.data(), 0x0123456789abcdef);
  EXPECT_EQ(Bytes(bytes.begin(), bytes.end()), to_bytes({0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01}));
}

TEST(WireBytes, StoreWritesNoByteBesidesItsOwn) {
  Bytes bytes(6, std::byte{0xaa});
  store_le<std::uint32_t>(bytes.data() + 1, 0);
  EXPECT_EQ(bytes, to_bytes({0xaa, 0, 0, 0, 0, 0xaa}));
}

TEST(WireBytes, LoadReadsTheLeastSignificantByteFirst) {
  const Bytes bytes = to_bytes({0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01});
  EXPECT_EQ(load_le<std::uint8_t>(bytes.data()), 0xefu);
  EXPECT_EQ(load_le<std::uint16_t>(bytes.data()), 0xcdefu);
  EXPECT_EQ(load_le<std::uint32_t>(bytes.data()), 0x89abcdefu);
  EXPECT_EQ(load_le<std::uint64_t>(bytes.data()), 0x0123456789abcdefu);
}

TEST(WireBytes, LoadAndStoreWorkAtAnyAlignment) {
  std::mt19937_64 random = testing::fixed_random(7);
  std::array<std::byte, 24> bytes{};
  for (std::size_t offset = 0; offset < 16; ++offset) {
    const std::uint64_t value = random();
    store_le<std::uint64_t>(bytes.data() + offset, value);
    EXPECT_EQ(load_le<std::uint64_t>(bytes.data() + offset), value);
    store_le<std::uint32_t>(bytes.data() + offset, static_cast<std::uint32_t>(value));
    EXPECT_EQ(load_le<std::uint32_t>(bytes.data() + offset), static_cast<std::uint32_t>(value));
    store_le<std::uint16_t>(bytes.data() + offset, static_cast<std::uint16_t>(value));
    EXPECT_EQ(load_le<std::uint16_t>(bytes.data() + offset), static_cast<std::uint16_t>(value));
  }
}

TEST(WireBytes, ReverseBytesTurnsEveryWidthAround) {
  EXPECT_EQ(reverse_bytes<std::uint8_t>(0x12), 0x12u);
  EXPECT_EQ(reverse_bytes<std::uint16_t>(0x1234), 0x3412u);
  EXPECT_EQ(reverse_bytes<std::uint32_t>(0x12345678), 0x78563412u);
  EXPECT_EQ(reverse_bytes<std::uint64_t>(0x0123456789abcdef), 0xefcdab8967452301u);
}

TEST(WireReader, ReadsFieldsOneAfterTheOther) {
  const Bytes bytes = to_bytes({1, 2, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 'a', 'b', 'c'});
  Reader reader(bytes);
  EXPECT_EQ(reader.read<std::uint8_t>(), 1u);
  EXPECT_EQ(reader.read<std::uint16_t>(), 2u);
  EXPECT_EQ(reader.read<std::uint32_t>(), 3u);
  EXPECT_EQ(reader.read<std::uint64_t>(), 4u);
  EXPECT_EQ(to_string(reader.take(2)), "ab");
  EXPECT_EQ(reader.remaining(), 1u);
  EXPECT_FALSE(reader.finished());
  EXPECT_EQ(to_string(reader.take_rest()), "c");
  EXPECT_TRUE(reader.finished());
}

TEST(WireReader, TheRestMayBeEmpty) {
  Reader reader({});
  EXPECT_TRUE(reader.take_rest().empty());
  EXPECT_TRUE(reader.take(0).empty());
  EXPECT_TRUE(reader.finished());
}

TEST(WireReader, AReadPastTheEndGivesZeroAndFails) {
  const testing::ExactBytes bytes(to_bytes({0xff, 0xff, 0xff}));
  Reader reader(bytes.span());
  EXPECT_EQ(reader.read<std::uint32_t>(), 0u);
  EXPECT_FALSE(reader.ok());
  EXPECT_FALSE(reader.finished());
}

TEST(WireReader, AfterAFailureEverythingFailsEvenWhatWouldFit) {
  const Bytes bytes = to_bytes({0xff, 0xff, 0xff});
  Reader reader(bytes);
  EXPECT_TRUE(reader.take(4).empty());
  EXPECT_EQ(reader.read<std::uint8_t>(), 0u);
  EXPECT_TRUE(reader.take(1).empty());
  EXPECT_TRUE(reader.take_rest().empty());
  EXPECT_EQ(reader.remaining(), 0u);
  EXPECT_FALSE(reader.ok());
}

TEST(WireReader, AHugeSizeCannotWrapAround) {
  const Bytes bytes = to_bytes({1, 2, 3});
  Reader reader(bytes);
  reader.read<std::uint8_t>();
  EXPECT_TRUE(reader.take(SIZE_MAX).empty());
  EXPECT_FALSE(reader.ok());
}

TEST(WireWriter, WritesFieldsOneAfterTheOther) {
  Bytes bytes(18);
  Writer writer(bytes);
  writer.write<std::uint8_t>(1);
  writer.write<std::uint16_t>(2);
  writer.write<std::uint32_t>(3);
  writer.write<std::uint64_t>(4);
  writer.write_bytes(text("abc"));
  writer.write_bytes({});
  EXPECT_TRUE(writer.ok());
  EXPECT_EQ(writer.size(), 18u);
  EXPECT_EQ(writer.remaining(), 0u);
  EXPECT_EQ(bytes, to_bytes({1, 2, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 'a', 'b', 'c'}));
}

TEST(WireWriter, AWriteThatDoesNotFitChangesNothingAndFailsForGood) {
  Bytes bytes(3, std::byte{0xaa});
  Writer writer(bytes);
  writer.write<std::uint32_t>(1);
  EXPECT_FALSE(writer.ok());
  writer.write<std::uint8_t>(1);
  writer.write_bytes(text("a"));
  EXPECT_FALSE(writer.ok());
  EXPECT_EQ(writer.size(), 0u);
  EXPECT_EQ(bytes, Bytes(3, std::byte{0xaa}));
}

TEST(WireWriter, BytesThatDoNotFitAreNotWrittenInPart) {
  Bytes bytes(3, std::byte{0xaa});
  Writer writer(bytes);
  writer.write<std::uint8_t>(1);
  writer.write_bytes(text("abc"));
  EXPECT_FALSE(writer.ok());
  EXPECT_EQ(bytes, to_bytes({1, 0xaa, 0xaa}));
}

TEST(WireWriter, TheReaderReadsWhatItWrites) {
  std::mt19937_64 random = testing::fixed_random(11);
  for (int round = 0; round < 200; ++round) {
    const std::uint64_t numbers[] = {random(), random(), random(), random()};
    Bytes bytes(15);
    Writer writer(bytes);
    writer.write(static_cast<std::uint8_t>(numbers[0]));
    writer.write(static_cast<std::uint16_t>(numbers[1]));
    writer.write(static_cast<std::uint32_t>(numbers[2]));
    writer.write(numbers[3]);
    ASSERT_TRUE(writer.ok());
    Reader reader(bytes);
    EXPECT_EQ(reader.read<std::uint8_t>(), static_cast<std::uint8_t>(numbers[0]));
    EXPECT_EQ(reader.read<std::uint16_t>(), static_cast<std::uint16_t>(numbers[1]));
    EXPECT_EQ(reader.read<std::uint32_t>(), static_cast<std::uint32_t>(numbers[2]));
    EXPECT_EQ(reader.read<std::uint64_t>(), numbers[3]);
    EXPECT_TRUE(reader.finished());
  }
}

}  // namespace
}  // namespace ripc::internal::wire
