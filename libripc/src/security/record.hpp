// SPDX-License-Identifier: Apache-2.0
// Records of a stream: texts that arrive in order or not at all. docs/wire.md, "Records", is the specification.
//
//   record   u32 size of the text; bit 31: sealed with the next key | text | tag (16 bytes)
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/clock.hpp"
#include "base/status.hpp"
#include "security/cipher.hpp"

namespace ripc::internal::security {

// How the texts of one connection or link are protected.
struct Protection {
  Suite suite = Suite::chacha20_poly1305;
  bool hides = true;  // false: readable, but authentic
};

// How much a key may be used before the next one replaces it.
struct KeyLife {
  std::uint64_t bytes = std::uint64_t{1} << 30;
  Nanoseconds time = 600'000'000'000;
};

inline constexpr std::size_t kRecordHead = 4;                         // bytes
inline constexpr std::size_t kMaxRecordText = std::size_t{16} << 10;  // bytes
inline constexpr std::size_t kRecordOverhead = kRecordHead + Cipher::kTagSize;
inline constexpr std::size_t kMaxSealedRecord = kMaxRecordText + kRecordOverhead;

// The current key of a record stream; both ends change it in step. One thread at a time.
class RecordKey {
 public:
  RecordKey(Protection protection, const Secret& root) noexcept : protection_(protection), root_(root) { make(); }
  // Moves to the next key, from which nobody can compute the keys before it.
  void advance() noexcept {
    root_ = root_.derive("ripc next");
    make();
  }
  Cipher& cipher() noexcept { return *cipher_; }
  std::uint64_t take_number() noexcept { return number_++; }

 private:
  void make() noexcept {
    cipher_.emplace(protection_.suite, root_.derive("ripc key"), protection_.hides);
    number_ = 0;
  }
  const Protection protection_;
  Secret root_;
  std::optional<Cipher> cipher_;
  std::uint64_t number_ = 0;
};

// One thread at a time.
class RecordSealer {
 public:
  RecordSealer(Protection protection, const Secret& root, KeyLife life = {}) noexcept
      : key_(protection, root), life_(life), since_(monotonic_now()) {}
  // `record`: kRecordHead bytes to be filled in, room for `text` bytes (1 to kMaxRecordText), and for a tag. `from`:
  // where the text is; null: in `record`.
  void seal(std::byte* record, std::size_t text, const std::byte* from = nullptr) noexcept;

 private:
  RecordKey key_;
  const KeyLife life_;
  Nanoseconds since_;
  std::uint64_t bytes_ = 0;
};

// One thread at a time.
class RecordOpener {
 public:
  RecordOpener(Protection protection, const Secret& root) noexcept : key_(protection, root) {}
  // The size of the text of the record that begins with these kRecordHead bytes. RIPC_CORRUPT: no record begins like
  // this.
  static Result<std::size_t> text_size(std::span<const std::byte, kRecordHead> head) noexcept;
  // Opens a whole record. `to`: where its text goes; null: it stays where it was. False: it is forged, or not the next
  // record. Then no further record can be opened, and the text must not be used.
  bool open(std::byte* record, std::byte* to = nullptr) noexcept;

 private:
  RecordKey key_;
};

}  // namespace ripc::internal::security
