// SPDX-License-Identifier: Apache-2.0
// Queues whose peer writes nonsense into its part.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <iterator>
#include <thread>

#include "queue_helpers.hpp"

namespace ripc::internal::shm {
namespace {

struct ForgedCell {
  const char* what;
  std::uint32_t length, offset, end;
};

class QueueForgery : public testing::TestWithParam<ForgedCell> {};

TEST_P(QueueForgery, MakesTheReaderBrokenForGood) {
  Link link;
  Cell& cell = link.memory.cell(0);
  cell.length.store(GetParam().length);
  cell.outside.data_offset = GetParam().offset;
  cell.outside.data_end = GetParam().end;
  cell.sequence.store(1);
  Bytes packet;
  EXPECT_FALSE(link.reader.peek(packet));
  EXPECT_TRUE(link.reader.broken());
  cell.length.store(4);
  (void)link.reader.peek(packet);
  EXPECT_TRUE(link.reader.broken()) << "it stays so";
}

INSTANTIATE_TEST_SUITE_P(Queue, QueueForgery,
                         testing::Values(ForgedCell{"LongerThanTheLimit", 2049, 0, 64},
                                         ForgedCell{"LongestNumber", UINT32_MAX, 0, 64},
                                         ForgedCell{"OffsetBehindTheEnd", 200, 8192, 64},
                                         ForgedCell{"OffsetWraps", 200, UINT32_MAX - 63, 64},
                                         ForgedCell{"RunsPastTheEnd", 200, 4096 - 128, 64},
                                         ForgedCell{"OffsetNotAligned", 200, 65, 64}),
                         [](const auto& value) { return value.param.what; });

TEST(QueueHostile, WithOldOrFutureSequenceNumbersIsEmpty) {
  Link link;
  for (const std::uint32_t sequence : {2u, 17u, UINT32_MAX, 0x8000'0001u}) {
    link.memory.cell(0).sequence.store(sequence);
    Bytes packet;
    EXPECT_FALSE(link.reader.peek(packet)) << sequence;
    EXPECT_FALSE(link.reader.broken());
  }
}

bool inside(const LinkMemory& memory, Bytes packet) {
  return packet.data() >= memory.owner() + kControlSize &&
         packet.size() <= static_cast<std::size_t>(memory.owner() + memory.size() - packet.data());
}

// The peer changes cells all the time, also between the check of a value and its use.
TEST(QueueHostile, NeverGivesAPacketOutsideOfItsMemoryWhateverThePeerWrites) {
  constexpr Geometry kGeometry{16, 4096};
  const LinkMemory memory(kGeometry.total());
  std::atomic<bool> stop{false};
  std::thread peer([&] {
    Sequence random(3);
    auto* words = reinterpret_cast<std::atomic<std::uint32_t>*>(memory.peer());
    const auto interesting = [&]() -> std::uint32_t {
      constexpr std::uint32_t kEdges[] = {0, 1, 64, 120, 121, 128, 2048, 2049, 4032, 4096, UINT32_MAX, 0xffff'ffc0};
      return random.below(2) == 0 ? kEdges[random.below(std::size(kEdges))] : random.below(4096);
    };
    while (!stop) {
      const std::uint32_t cell = random.below(kGeometry.cells);
      const std::size_t first = (kControlSize + cell * kCellSize) / sizeof(std::uint32_t);
      words[first].store(random.below(200), std::memory_order_relaxed);
      for (std::size_t word = 1; word < 4; ++word) words[first + word].store(interesting(), std::memory_order_relaxed);
    }
  });
  std::uint64_t packets = 0, broken = 0;
  for (int round = 0; round < 400; ++round) {
    QueueReader reader(memory.owner(), kGeometry);
    for (int poll = 0; poll < 500 && !reader.broken(); ++poll) {
      Bytes packet;
      if (!reader.peek(packet)) continue;
      ASSERT_TRUE(inside(memory, packet));
      ASSERT_LE(packet.size(), kGeometry.packet_limit());
      ++packets;
      reader.pop();
      reader.publish();
    }
    if (reader.broken()) ++broken;
    std::this_thread::yield();
  }
  stop = true;
  peer.join();
  RecordProperty("packets", static_cast<int>(packets));
  RecordProperty("broken", static_cast<int>(broken));
}

// Memory behind what the geometry describes must stay as it is, whatever the receiver claims to have read.
TEST(QueueHostile, WriterStaysInsideItsMemoryWhateverTheReceiverClaims) {
  constexpr std::size_t kGuard = 8192;
  const LinkMemory memory(kSmall.total() + kGuard);
  std::memset(memory.owner() + kSmall.total(), 0x5a, kGuard);
  QueueWriter writer(memory.peer(), kSmall);
  Sequence random(11);
  for (int step = 0; step < 20'000; ++step) {
    memory.control().receiver.head_cells.store(random.next());
    memory.control().receiver.head_data.store(random.next() << random.below(8));
    const ripc_status status = write(writer, pattern(random.below(2049), 1));
    ASSERT_TRUE(status == RIPC_OK || status == RIPC_AGAIN);
    (void)writer.has_room();
  }
  for (std::size_t i = 0; i < kGuard; ++i) ASSERT_EQ(memory.owner()[kSmall.total() + i], std::byte{0x5a}) << i;
}

TEST(QueueHostile, WriterStaysInsideItsMemoryWhileTheReceiverWritesIntoTheCells) {
  constexpr std::size_t kSize = 1000;
  const LinkMemory memory(kSmall.total());
  std::jthread scribbler([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      for (std::uint32_t index = 0; index < kSmall.cells; ++index)
        *const_cast<volatile std::uint32_t*>(&memory.cell(index).outside.data_offset) = 0x40000000u + index;
    }
  });
  QueueWriter writer(memory.peer(), kSmall);
  const std::byte* const begin = memory.peer() + kSmall.data_offset();
  std::uint32_t written = 0;
  while (written < 200'000) {
    const ripc_status status = writer.write_with(kSize, [&](std::byte* to) {
      ASSERT_GE(to, begin);
      ASSERT_LE(to + kSize, begin + kSmall.data_bytes);
    });
    if (HasFatalFailure()) return;
    if (status == RIPC_OK) ++written;
    // The receiver claims to have read the packet at once.
    memory.control().receiver.head_cells.store(written);
    memory.control().receiver.head_data.store(memory.cell((written - 1) % kSmall.cells).outside.data_end);
  }
}

}  // namespace
}  // namespace ripc::internal::shm
