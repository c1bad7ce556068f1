// SPDX-License-Identifier: Apache-2.0
// Payloads that prove themselves. Every byte depends on its position and on the message's sequence number. Large
// payloads are prepared once: there, every byte depends on its position and the buffer, and only both ends carry the
// sequence number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ripc/ripc.hpp"

namespace cli::bench {

// Payloads up to this size are written and checked whole for every message.
inline constexpr std::size_t kSmall = 4096;

inline std::uint64_t pattern_word(std::uint64_t seed, std::uint64_t index) noexcept {
  return (seed + 1) * 0x9e3779b97f4a7c15U + index * 0xc2b2ae3d27d4eb4fU;
}

// Word 0 is the seed itself, so that a receiver can read the sequence number.
inline void fill_pattern(ripc::WritableBytes bytes, std::uint64_t seed) noexcept {
  std::uint64_t word = seed;
  std::size_t offset = 0;
  for (std::uint64_t index = 1; offset + sizeof(word) <= bytes.size(); ++index, offset += sizeof(word)) {
    std::memcpy(bytes.data() + offset, &word, sizeof(word));
    word = pattern_word(seed, index);
  }
  if (offset < bytes.size()) std::memcpy(bytes.data() + offset, &word, bytes.size() - offset);
}

inline bool check_pattern(ripc::Bytes bytes, std::uint64_t seed) noexcept {
  std::uint64_t word = seed;
  std::uint64_t differences = 0;
  std::size_t offset = 0;
  for (std::uint64_t index = 1; offset + sizeof(word) <= bytes.size(); ++index, offset += sizeof(word)) {
    std::uint64_t found;
    std::memcpy(&found, bytes.data() + offset, sizeof(found));
    differences |= found ^ word;
    word = pattern_word(seed, index);
  }
  if (offset < bytes.size() && std::memcmp(bytes.data() + offset, &word, bytes.size() - offset) != 0) return false;
  return differences == 0;
}

// ---- Large payloads ------------------------------------------------------------------------------------------

// The sequence number in the first bytes of a short message; only its low bytes if the message is shorter than 8.
inline std::uint64_t sequence_of(ripc::Bytes bytes) noexcept {
  std::uint64_t sequence = 0;
  std::memcpy(&sequence, bytes.data(), bytes.size() < sizeof(sequence) ? bytes.size() : sizeof(sequence));
  return sequence;
}

// Call it once for each buffer that large messages are sent from.
inline void prepare_large(ripc::WritableBytes bytes, std::uint64_t buffer) noexcept {
  if (bytes.size() > kSmall) fill_pattern(bytes, buffer);
}

// Makes the buffer's content that of message `sequence`.
inline void write_large(ripc::WritableBytes bytes, std::uint64_t sequence) noexcept {
  if (bytes.size() <= kSmall) return fill_pattern(bytes, sequence);
  std::memcpy(bytes.data(), &sequence, sizeof(sequence));
  std::memcpy(bytes.data() + bytes.size() - sizeof(sequence), &sequence, sizeof(sequence));
}

// For every message: checks it whole if it is small, else both ends.
inline bool check_large(ripc::Bytes bytes, std::uint64_t sequence) noexcept {
  if (bytes.size() <= kSmall) return check_pattern(bytes, sequence);
  return std::memcmp(bytes.data(), &sequence, sizeof(sequence)) == 0 &&
         std::memcmp(bytes.data() + bytes.size() - sizeof(sequence), &sequence, sizeof(sequence)) == 0;
}

// For some messages: checks every byte.
inline bool check_large_whole(ripc::Bytes bytes, std::uint64_t sequence, std::uint64_t buffer) noexcept {
  if (!check_large(bytes, sequence)) return false;
  if (bytes.size() <= kSmall) return true;
  std::uint64_t differences = 0;
  std::size_t offset = sizeof(differences);
  const std::size_t end = bytes.size() - sizeof(differences);
  for (std::uint64_t index = 1; offset + sizeof(differences) <= end; ++index, offset += sizeof(differences)) {
    std::uint64_t found;
    std::memcpy(&found, bytes.data() + offset, sizeof(found));
    differences |= found ^ pattern_word(buffer, index);
  }
  return differences == 0;
}

}  // namespace cli::bench
