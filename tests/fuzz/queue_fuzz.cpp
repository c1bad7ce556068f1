// SPDX-License-Identifier: Apache-2.0
// Fuzzes the receiving end of a shared-memory queue: a peer may have written anything anywhere in it. Even then, each
// packet lies inside the queue's memory, and no more packets come out than a full queue holds.
//
// The input begins with a byte that picks the geometry. The next byte says how many cells are marked as committed in
// advance, so that the input need not guess sequence numbers. Then come 16 bytes for the head of each cell, in order.
// The rest is written over the memory from its start on.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "require.hpp"
#include "transport/shm/queue.hpp"

namespace {

using fuzz::require;
using ripc::internal::shm::Cell;
using ripc::internal::shm::Geometry;
using ripc::internal::shm::kCellSize;
using ripc::internal::shm::kControlSize;
using ripc::internal::shm::QueueReader;

constexpr Geometry kGeometries[] = {{16, 4096}, {32, 4096}, {16, 8192}};
constexpr std::size_t kCellHead = 16;

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const Geometry geometry = kGeometries[data[0] % std::size(kGeometries)];
  const std::uint32_t committed = data[1] % (2 * geometry.cells);
  std::span<const std::uint8_t> input(data + 2, size - 2);

  // A block of exactly this size, so that AddressSanitizer sees a read of one byte too many.
  const std::size_t total = geometry.total();
  void* block = nullptr;
  require(posix_memalign(&block, kControlSize, total) == 0);
  const std::unique_ptr<std::byte, Free> memory(static_cast<std::byte*>(block));
  std::byte* base = memory.get();
  std::memset(base, 0, total);
  for (std::uint32_t index = 0; index < geometry.cells && !input.empty(); ++index) {
    const auto head = input.first(std::min(input.size(), kCellHead));
    std::memcpy(base + kControlSize + index * kCellSize, head.data(), head.size());
    input = input.subspan(head.size());
  }
  std::memcpy(base, input.data(), std::min(input.size(), kControlSize));
  auto* cells = reinterpret_cast<Cell*>(base + kControlSize);
  for (std::uint32_t index = 0; index < committed; ++index) cells[index % geometry.cells].sequence.store(index + 1);

  QueueReader reader(base, geometry);
  std::uint32_t packets = 0;
  std::span<const std::byte> packet;
  while (reader.peek(packet)) {
    require(!packet.data() || (packet.data() >= base + kControlSize && packet.data() <= base + total));
    require(packet.size() <= static_cast<std::size_t>(base + total - packet.data()));
    require(packet.size() <= geometry.packet_limit());
    unsigned sum = 0;
    for (const std::byte byte : packet) sum += static_cast<unsigned>(byte);
    *const_cast<volatile unsigned*>(&sum) = sum;  // so that the bytes are read
    std::span<const std::byte> again;
    require(reader.peek(again) && again.data() == packet.data() && again.size() == packet.size());
    reader.pop();
    reader.publish();
    (void)reader.take_room_request();
    require(++packets <= 2 * geometry.cells);
  }
  // A queue that its reader calls broken stays broken.
  const bool broken = reader.broken();
  require(!reader.peek(packet) && reader.broken() == broken);
  return 0;
}
