// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/queue.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "queue_helpers.hpp"

namespace ripc::internal::shm {
namespace {

TEST(QueueGeometry, TakesPowersOfTwoWithinTheLimitsOnly) {
  EXPECT_TRUE((Geometry{kMinCells, kMinDataBytes}.valid()));
  EXPECT_TRUE((Geometry{kMaxCells, kMaxDataBytes}.valid()));
  for (const Geometry bad : {Geometry{}, Geometry{8, 4096}, Geometry{24, 4096}, Geometry{131072, 4096},
                             Geometry{16, 2048}, Geometry{16, 6144}, Geometry{16, 128u << 20}, Geometry{16, 0}})
    EXPECT_FALSE(bad.valid()) << bad.cells << " cells, " << bad.data_bytes << " bytes";
}

TEST(Queue, LookingAheadTellsABacklogAndChangesNothing) {
  Link link(Geometry{64, 4096});
  constexpr std::uint32_t kMany = 40;
  EXPECT_FALSE(link.reader.look_ahead());
  for (std::uint32_t i = 0; i < kMany; ++i) ASSERT_EQ(write(link.writer, pattern(8, i)), RIPC_OK);
  EXPECT_TRUE(link.reader.look_ahead());
  for (std::uint32_t i = 0; i < kMany; ++i) {
    ASSERT_TRUE(peek_equals(link.reader, pattern(8, i))) << i;
    link.reader.pop();
  }
  EXPECT_FALSE(link.reader.look_ahead()) << "the cells of the last round are no backlog";
  Bytes packet;
  EXPECT_FALSE(link.reader.peek(packet));
}

TEST(Queue, IsEmptyAtFirst) {
  Link link;
  Bytes packet;
  EXPECT_FALSE(link.reader.peek(packet));
  EXPECT_FALSE(link.reader.broken());
  EXPECT_TRUE(link.writer.has_room());
}

TEST(Queue, CarriesPacketsOfEverySizeUnchanged) {
  Link link;
  const std::size_t limit = kSmall.packet_limit();
  for (std::size_t size = 0; size <= limit; ++size) {
    const auto bytes = pattern(size, static_cast<std::uint32_t>(size));
    ASSERT_EQ(write(link.writer, bytes), RIPC_OK) << size;
    ASSERT_TRUE(peek_equals(link.reader, bytes)) << size;
    link.reader.pop();
    link.reader.publish();
  }
  Bytes packet;
  EXPECT_FALSE(link.reader.peek(packet));
  EXPECT_FALSE(link.reader.broken());
}

TEST(Queue, JoinsTheRangesInOrder) {
  Link link;
  for (const std::size_t size : {kInlineCapacity, kInlineCapacity + 1, kSmall.packet_limit()}) {
    const auto bytes = pattern(size, 3);
    const Bytes all(bytes);
    const std::array<Bytes, 4> ranges{all.first(5), Bytes{}, all.subspan(5, 60), all.subspan(65)};
    ASSERT_EQ(link.writer.write(ranges), RIPC_OK);
    EXPECT_TRUE(peek_equals(link.reader, bytes)) << size;
    link.reader.pop();
    link.reader.publish();
  }
}

TEST(Queue, RefusesAPacketOverTheLimitAndStaysUsable) {
  Link link;
  EXPECT_EQ(write(link.writer, pattern(kSmall.packet_limit() + 1, 0)), RIPC_TOO_LARGE);
  const auto bytes = pattern(kSmall.packet_limit(), 1);
  EXPECT_EQ(write(link.writer, bytes), RIPC_OK);
  EXPECT_TRUE(peek_equals(link.reader, bytes));
}

TEST(Queue, PeekKeepsThePacketUntilPop) {
  Link link;
  const auto first = pattern(10, 1), second = pattern(500, 2);
  ASSERT_EQ(write(link.writer, first), RIPC_OK);
  ASSERT_EQ(write(link.writer, second), RIPC_OK);
  EXPECT_TRUE(peek_equals(link.reader, first));
  EXPECT_TRUE(peek_equals(link.reader, first));
  link.reader.pop();
  link.reader.publish();
  EXPECT_TRUE(peek_equals(link.reader, second));
  EXPECT_TRUE(peek_equals(link.reader, second));
}

TEST(Queue, SaysAgainWhenEveryCellIsTakenAndGoesOnAfterAPop) {
  Link link;
  for (std::uint32_t i = 0; i < kSmall.cells; ++i) {
    EXPECT_EQ(link.writer.has_room(), i <= kSmall.cells - kSmall.cells / 4) << "a quarter of the cells is free";
    ASSERT_EQ(write(link.writer, pattern(8, i)), RIPC_OK) << i;
  }
  EXPECT_FALSE(link.writer.has_room());
  EXPECT_EQ(write(link.writer, pattern(8, 99)), RIPC_AGAIN);
  ASSERT_TRUE(peek_equals(link.reader, pattern(8, 0)));
  link.reader.pop();
  link.reader.publish();
  EXPECT_EQ(write(link.writer, pattern(8, kSmall.cells)), RIPC_OK);
  EXPECT_EQ(write(link.writer, pattern(8, 99)), RIPC_AGAIN);
  for (std::uint32_t i = 1; i <= kSmall.cells; ++i) {
    ASSERT_TRUE(peek_equals(link.reader, pattern(8, i))) << i;
    link.reader.pop();
    link.reader.publish();
  }
}

TEST(Queue, WritesSeveralPacketsAtOnceInOrderAsFarAsThereIsRoom) {
  Link link;
  ASSERT_EQ(write(link.writer, pattern(8, 0)), RIPC_OK);
  const auto size_of = [](std::size_t index) { return index % 4 == 3 ? kInlineCapacity : index; };
  const auto write_inline = [&](std::size_t count) {
    return link.writer.write_inline(count, size_of, [&](std::size_t index, std::byte* to) {
      const auto bytes = pattern(size_of(index), static_cast<std::uint32_t>(index));
      std::copy(bytes.begin(), bytes.end(), to);
    });
  };
  EXPECT_EQ(write_inline(3), 3u);
  EXPECT_EQ(write_inline(64), kSmall.cells - 4u);
  EXPECT_EQ(write_inline(64), 0u) << "full";
  EXPECT_EQ(write_inline(0), 0u);
  ASSERT_TRUE(peek_equals(link.reader, pattern(8, 0)));
  link.reader.pop();
  for (const std::size_t count : {std::size_t{3}, std::size_t{kSmall.cells - 4}}) {
    for (std::size_t index = 0; index < count; ++index) {
      ASSERT_TRUE(peek_equals(link.reader, pattern(size_of(index), static_cast<std::uint32_t>(index)))) << index;
      link.reader.pop();
    }
  }
  link.reader.publish();
  EXPECT_EQ(write_inline(1), 1u) << "there is room again";
}

TEST(Queue, GivesRoomBackOnlyWhenItIsPublished) {
  Link link;
  for (std::uint32_t i = 0; i < kSmall.cells; ++i) ASSERT_EQ(write(link.writer, pattern(8, i)), RIPC_OK);
  for (std::uint32_t i = 0; i < kSmall.cells; ++i) {
    ASSERT_TRUE(peek_equals(link.reader, pattern(8, i)));
    link.reader.pop();
    EXPECT_EQ(write(link.writer, pattern(8, 99)), RIPC_AGAIN);
  }
  link.reader.publish();
  for (std::uint32_t i = 0; i < kSmall.cells; ++i) EXPECT_EQ(write(link.writer, pattern(8, i)), RIPC_OK);
}

TEST(Queue, SaysAgainWhenTheDataAreaIsFullWhileSmallPacketsStillFit) {
  Link link;
  ASSERT_EQ(write(link.writer, pattern(kSmall.packet_limit(), 0)), RIPC_OK);
  ASSERT_EQ(write(link.writer, pattern(kSmall.packet_limit(), 1)), RIPC_OK) << "two of the largest fit an empty queue";
  EXPECT_FALSE(link.writer.has_room());
  EXPECT_EQ(write(link.writer, pattern(kInlineCapacity + 1, 2)), RIPC_AGAIN);
  EXPECT_EQ(write(link.writer, pattern(kInlineCapacity, 3)), RIPC_OK);
  ASSERT_TRUE(peek_equals(link.reader, pattern(kSmall.packet_limit(), 0)));
  link.reader.pop();
  link.reader.publish();
  EXPECT_TRUE(link.writer.has_room());
  EXPECT_EQ(write(link.writer, pattern(kSmall.packet_limit(), 4)), RIPC_OK);
}

// A packet never wraps, so some of the data area's end may stay unused; the largest packet must still fit.
TEST(Queue, TakesTheLargestPacketWheneverItIsEmptyAndPromisesRoomOnlyIfThereIs) {
  Link link;
  Sequence random(1);
  for (std::uint32_t i = 0; i < 2000; ++i) {
    ASSERT_TRUE(link.writer.has_room()) << i;
    const auto largest = pattern(kSmall.packet_limit(), i);
    ASSERT_EQ(write(link.writer, largest), RIPC_OK) << i;
    ASSERT_TRUE(peek_equals(link.reader, largest)) << i;
    link.reader.pop();
    link.reader.publish();
    std::uint32_t written = 0;
    for (std::uint32_t count = random.below(12); count > 0; --count) {
      const bool promised = link.writer.has_room();
      const std::size_t size = promised ? kSmall.packet_limit() : random.below(900);
      const ripc_status status = write(link.writer, pattern(random.below(2) == 0 ? size : size / 9, written));
      if (promised) {
        ASSERT_EQ(status, RIPC_OK);
      }
      if (status == RIPC_OK) ++written;
    }
    for (; written > 0; --written) {
      Bytes packet;
      ASSERT_TRUE(link.reader.peek(packet));
      link.reader.pop();
      link.reader.publish();
    }
  }
}

// Compares packets of random sizes with a plain list: order, content, and RIPC_AGAIN only while something is waiting.
TEST(Queue, BehavesLikeAListForManyRandomPackets) {
  Link link(Geometry{32, 8192});
  Sequence random(7);
  std::uint32_t written = 0, read = 0;
  std::vector<std::size_t> sizes;
  for (int step = 0; step < 60'000; ++step) {
    if (random.below(2) == 0) {
      const std::size_t size = random.below(4) == 0 ? random.below(4097) : random.below(200);
      const ripc_status status = write(link.writer, pattern(size, written));
      if (status == RIPC_OK) {
        sizes.push_back(size);
        ++written;
      } else {
        ASSERT_EQ(status, RIPC_AGAIN);
        ASSERT_LT(read, written);
      }
    } else {
      Bytes packet;
      ASSERT_EQ(link.reader.peek(packet), read < written);
      if (read == written) continue;
      ASSERT_TRUE(peek_equals(link.reader, pattern(sizes[read], read))) << "packet " << read;
      link.reader.pop();
      link.reader.publish();
      ++read;
    }
  }
  EXPECT_GT(written, 10'000u);
  EXPECT_FALSE(link.reader.broken());
}

// The running end of the data area is a 32-bit number. Packets of half the area move it by up to 64 MiB each. A small
// packet in front puts them out of step.
TEST(Queue, GoesOnWhenTheDataPositionPassesFourGibibytes) {
  const Geometry geometry{16, kMaxDataBytes};
  Link link(geometry);
  auto bytes = pattern(geometry.packet_limit(), 1);
  ASSERT_EQ(write(link.writer, pattern(200, 0)), RIPC_OK);
  ASSERT_TRUE(peek_equals(link.reader, pattern(200, 0)));
  link.reader.pop();
  link.reader.publish();
  std::uint32_t former = 0;
  bool wrapped = false;
  for (std::uint32_t i = 0; i < 140; ++i) {
    bytes[0] = bytes[bytes.size() / 2] = bytes[bytes.size() - 1] = static_cast<std::byte>(i);
    ASSERT_EQ(write(link.writer, bytes), RIPC_OK) << i;
    Bytes packet;
    ASSERT_TRUE(link.reader.peek(packet)) << i;
    ASSERT_EQ(packet.size(), bytes.size());
    ASSERT_EQ(std::memcmp(packet.data(), bytes.data(), 4096), 0) << i;
    ASSERT_EQ(packet[packet.size() / 2], static_cast<std::byte>(i));
    ASSERT_EQ(packet.back(), static_cast<std::byte>(i));
    link.reader.pop();
    link.reader.publish();
    const std::uint32_t now = link.memory.control().receiver.head_data.load();
    if (now < former) wrapped = true;
    former = now;
    if (wrapped && i > 100) break;
  }
  EXPECT_TRUE(wrapped);
}

TEST(Queue, AnswersARoomRequestOnceWhenHalfOfItIsFree) {
  Link link;
  for (std::uint32_t i = 0; i < kSmall.cells; ++i) ASSERT_EQ(write(link.writer, pattern(8, i)), RIPC_OK);
  EXPECT_FALSE(link.reader.take_room_request()) << "nobody waits";
  link.memory.control().sender.room_wanted.store(1);
  for (std::uint32_t popped = 0; popped < kSmall.cells / 2; ++popped) {
    EXPECT_FALSE(link.reader.take_room_request()) << popped;
    Bytes packet;
    ASSERT_TRUE(link.reader.peek(packet));
    link.reader.pop();
    link.reader.publish();
  }
  EXPECT_TRUE(link.reader.take_room_request());
  EXPECT_FALSE(link.reader.take_room_request());
}

// ---- Several threads -------------------------------------------------------------------------------------------

struct Head {
  std::uint32_t sender;
  std::uint32_t number;
};

// With one mapping, a race detector sees both ends; with two, the ends lie where they do in real use.
class QueueThreads : public testing::TestWithParam<bool> {};

TEST_P(QueueThreads, KeepTheOrderOfEachSenderAndLoseNothing) {
  constexpr std::uint32_t kSenders = 4, kPackets = 4000;
  constexpr Geometry kGeometry{32, 8192};
  const LinkMemory memory(kGeometry.total());
  QueueWriter writer(GetParam() ? memory.owner() : memory.peer(), kGeometry);
  QueueReader reader(memory.owner(), kGeometry);
  std::atomic<bool> failed{false};

  std::vector<std::thread> senders;
  for (std::uint32_t sender = 0; sender < kSenders; ++sender) {
    senders.emplace_back([&, sender] {
      Sequence random(sender);
      for (std::uint32_t number = 0; number < kPackets && !failed; ++number) {
        if (random.below(4) == 0) {
          // Several at once, without a body.
          const std::size_t left = kPackets - number;
          number += static_cast<std::uint32_t>(writer.write_inline(
              std::min<std::size_t>(left, 1 + random.below(6)), [](std::size_t) { return sizeof(Head); },
              [&](std::size_t index, std::byte* to) {
                const Head head{sender, number + static_cast<std::uint32_t>(index)};
                std::memcpy(to, &head, sizeof head);
              }));
          if (number == kPackets) break;
        }
        const Head head{sender, number};
        const auto body = pattern(random.below(3) == 0 ? random.below(1500) : random.below(150), number + sender);
        const std::array<Bytes, 2> ranges{std::as_bytes(std::span(&head, 1)), Bytes(body)};
        ripc_status status;
        while ((status = writer.write(ranges)) == RIPC_AGAIN && !failed) std::this_thread::yield();
        if (status != RIPC_OK) failed = true;
      }
    });
  }

  std::array<std::uint32_t, kSenders> next{};
  std::uint32_t received = 0;
  std::vector<std::byte> copy;
  const Deadline deadline = Deadline::after(120'000'000'000u);
  while (received < kSenders * kPackets && !failed) {
    Bytes packet;
    if (!reader.peek(packet)) {
      if (reader.broken() || deadline.expired()) failed = true;
      std::this_thread::yield();
      continue;
    }
    copy.assign(packet.begin(), packet.end());
    reader.pop();
    reader.publish();
    Head head{};
    if (copy.size() >= sizeof head) std::memcpy(&head, copy.data(), sizeof head);
    const bool good = copy.size() >= sizeof head && head.sender < kSenders && head.number == next[head.sender]++;
    const auto body = pattern(copy.size() - sizeof head, head.number + head.sender);
    if (!good || !std::equal(body.begin(), body.end(), copy.begin() + sizeof head)) failed = true;
    ++received;
  }
  for (std::thread& sender : senders) sender.join();
  EXPECT_FALSE(failed);
  EXPECT_EQ(received, kSenders * kPackets);
  Bytes packet;
  EXPECT_FALSE(reader.peek(packet));
  EXPECT_FALSE(reader.broken());
}

INSTANTIATE_TEST_SUITE_P(Queue, QueueThreads, testing::Values(true, false),
                         [](const auto& value) { return value.param ? "OneMapping" : "TwoMappings"; });

}  // namespace
}  // namespace ripc::internal::shm
