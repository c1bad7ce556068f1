// SPDX-License-Identifier: Apache-2.0
// Keeps track of which packets of a link have come: finds duplicates, packets that others have overtaken, and gaps.
#pragma once

#include <array>
#include <cstdint>

namespace ripc::internal::remote {

// One thread at a time. Numbers count from 1, modulo 2^32.
class ReplayWindow {
 public:
  static constexpr std::uint32_t kSize = 1024;
  // No credit pays for more packets than this: a number that is farther ahead is made up.
  static constexpr std::uint32_t kMaxJump = 1u << 20;

  enum class Verdict {
    fresh,      // newer than all before; `missing` says how many were skipped
    late,       // was counted as missing, and was not
    duplicate,  // has come before, or is too old to tell
    absurd,     // no honest sender uses this number
  };

  Verdict note(std::uint32_t sequence, std::uint32_t& missing) noexcept {
    missing = 0;
    const std::uint32_t ahead = sequence - highest_;
    if (ahead == 1) [[likely]] {
      highest_ = sequence;
      set(sequence);
      return Verdict::fresh;
    }
    if (ahead != 0 && ahead <= kMaxJump) {
      missing = ahead - 1;
      for (std::uint32_t skipped = missing < kSize ? missing : kSize; skipped > 0; --skipped) clear(sequence - skipped);
      highest_ = sequence;
      set(sequence);
      return Verdict::fresh;
    }
    const std::uint32_t behind = highest_ - sequence;
    if (behind < kSize) {
      if (is_set(sequence)) return Verdict::duplicate;
      set(sequence);
      return Verdict::late;
    }
    return behind <= kMaxJump ? Verdict::duplicate : Verdict::absurd;
  }

  std::uint32_t highest() const noexcept { return highest_; }

 private:
  static std::uint32_t word(std::uint32_t sequence) noexcept { return sequence % kSize / 64; }
  static std::uint64_t bit(std::uint32_t sequence) noexcept { return std::uint64_t{1} << (sequence % 64); }
  void set(std::uint32_t sequence) noexcept { seen_[word(sequence)] |= bit(sequence); }
  void clear(std::uint32_t sequence) noexcept { seen_[word(sequence)] &= ~bit(sequence); }
  bool is_set(std::uint32_t sequence) const noexcept { return (seen_[word(sequence)] & bit(sequence)) != 0; }

  std::uint32_t highest_ = 0;
  // Nothing before the first packet is ever missing.
  std::array<std::uint64_t, kSize / 64> seen_ = filled();
  static constexpr std::array<std::uint64_t, kSize / 64> filled() noexcept {
    std::array<std::uint64_t, kSize / 64> all{};
    for (std::uint64_t& one : all) one = UINT64_MAX;
    return all;
  }
};

}  // namespace ripc::internal::remote
