// SPDX-License-Identifier: Apache-2.0
// A queue, and packets for it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shm_helpers.hpp"
#include "transport/shm/queue.hpp"

namespace ripc::internal::shm {

using Bytes = std::span<const std::byte>;

inline constexpr Geometry kSmall{16, 4096};

// The content of the packet of this size and number.
inline std::vector<std::byte> pattern(std::size_t size, std::uint32_t number) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(number * 31 + i * 7 + i / 256);
  return bytes;
}

inline ripc_status write(QueueWriter& writer, Bytes bytes) {
  const std::array<Bytes, 1> ranges{bytes};
  return writer.write(ranges);
}

inline bool peek_equals(QueueReader& reader, const std::vector<std::byte>& expected) {
  Bytes packet;
  return reader.peek(packet) && packet.size() == expected.size() &&
         std::equal(packet.begin(), packet.end(), expected.begin());
}

// Both ends of a queue, each with its own mapping.
struct Link {
  explicit Link(Geometry geometry = kSmall)
      : memory(geometry.total()), writer(memory.peer(), geometry), reader(memory.owner(), geometry) {}
  LinkMemory memory;
  QueueWriter writer;
  QueueReader reader;
};

}  // namespace ripc::internal::shm
