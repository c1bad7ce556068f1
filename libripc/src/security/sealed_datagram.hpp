// SPDX-License-Identifier: Apache-2.0
// Datagrams that may be lost, come twice or overtake each other. Each is sealed with its number. docs/wire.md, "Sealed
// datagrams", is the specification.
//
//   datagram   u8 version | u8 epoch of the key, modulo 256 | u48 number, from 1 on | text | tag (16 bytes)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/clock.hpp"
#include "security/record.hpp"

namespace ripc::internal::security {

inline constexpr std::uint8_t kSealedVersion = 2;
inline constexpr std::size_t kSealedHead = 8;  // bytes
inline constexpr std::size_t kSealedOverhead = kSealedHead + Cipher::kTagSize;

// Remembers which numbers have come. One thread at a time.
class NumberWindow {
 public:
  static constexpr std::uint64_t kSize = 1024;
  // True: the number has not come before, and is not too old to tell. It then counts as come.
  bool note(std::uint64_t number) noexcept;

 private:
  std::uint64_t highest_ = 0;
  std::array<std::uint64_t, kSize / 64> seen_{};
};

// The keys of the epochs of one direction of a link.
class EpochKeys {
 public:
  EpochKeys(Protection protection, const Secret& root) noexcept : protection_(protection), root_(root) {}
  void make(std::optional<Cipher>& cipher, std::uint64_t epoch) const noexcept;

 private:
  const Protection protection_;
  const Secret root_;
};

// One thread at a time.
class DatagramSealer {
 public:
  DatagramSealer(Protection protection, const Secret& root, KeyLife life = {}) noexcept;
  // `datagram`: kSealedHead bytes to be filled in, `text` bytes, and room for a tag. `now`: the caller's clock; 0: the
  // caller has not read it, and the sealer reads it for every 32nd datagram. False: there are no numbers left.
  bool seal(std::byte* datagram, std::size_t text, Nanoseconds now = 0) noexcept;

 private:
  const EpochKeys keys_;
  const KeyLife life_;
  std::optional<Cipher> cipher_;
  std::uint64_t epoch_ = 0;
  std::uint64_t number_ = 0;
  std::uint64_t bytes_ = 0;
  Nanoseconds since_;
};

// One thread at a time.
class DatagramOpener {
 public:
  DatagramOpener(Protection protection, const Secret& root) noexcept : keys_(protection, root) {
    keys_.make(cipher_, 0);
  }
  enum class Verdict : std::uint8_t { fresh, replayed, forged };
  // `text`: the text inside `datagram`, which is a whole datagram; set only if it is fresh.
  Verdict open(std::span<std::byte> datagram, std::span<std::byte>& text) noexcept;

 private:
  const EpochKeys keys_;
  std::optional<Cipher> cipher_, former_;  // of epoch_ and of the one before
  std::uint64_t epoch_ = 0;
  NumberWindow window_;
};

}  // namespace ripc::internal::security
