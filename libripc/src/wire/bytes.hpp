// SPDX-License-Identifier: Apache-2.0
// Little-endian numbers (base/little_endian.hpp), and a bounds-checked Reader and Writer of them for the codecs whose
// speed does not matter. Header-only. Nothing here allocates, throws or keeps memory alive.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

#include "base/little_endian.hpp"

namespace ripc::internal::wire {

using internal::load_le;
using internal::load_once_le;
using internal::store_le;
using internal::WireInteger;

// Reads fields one after the other. The first read past the end fails the reader for good. That read and all later ones
// give zero or an empty range, and ok() is false. So a decoder may read everything first and check once.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) noexcept : rest_(bytes) {}

  template <WireInteger T>
  T read() noexcept {
    const std::span<const std::byte> field = take(sizeof(T));
    return field.empty() ? T{0} : load_le<T>(field.data());
  }

  // The next `size` bytes, borrowed from the range that is read.
  std::span<const std::byte> take(std::size_t size) noexcept {
    if (!ok_ || size > rest_.size()) {
      ok_ = false;
      rest_ = {};
      return {};
    }
    const std::span<const std::byte> taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }

  // All bytes that are left, borrowed in the same way; may be empty.
  std::span<const std::byte> take_rest() noexcept { return take(rest_.size()); }

  std::size_t remaining() const noexcept { return rest_.size(); }
  bool ok() const noexcept { return ok_; }
  // Nothing failed and nothing is left.
  bool finished() const noexcept { return ok_ && rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

// Writes fields one after the other. The first write that does not fit fails the writer for good: that write and all
// later ones change nothing, and ok() is false.
class Writer {
 public:
  explicit Writer(std::span<std::byte> bytes) noexcept : bytes_(bytes) {}

  template <WireInteger T>
  void write(T value) noexcept {
    if (std::byte* field = take(sizeof(T)); field != nullptr) store_le<T>(field, value);
  }

  void write_bytes(std::span<const std::byte> bytes) noexcept {
    if (bytes.empty()) return;
    if (std::byte* field = take(bytes.size()); field != nullptr) std::memcpy(field, bytes.data(), bytes.size());
  }

  std::size_t size() const noexcept { return used_; }  // bytes written
  std::size_t remaining() const noexcept { return bytes_.size() - used_; }
  bool ok() const noexcept { return ok_; }

 private:
  std::byte* take(std::size_t size) noexcept {
    if (!ok_ || size > remaining()) {
      ok_ = false;
      return nullptr;
    }
    std::byte* field = bytes_.data() + used_;
    used_ += size;
    return field;
  }

  std::span<std::byte> bytes_;
  std::size_t used_ = 0;
  bool ok_ = true;
};

}  // namespace ripc::internal::wire
