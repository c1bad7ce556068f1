// SPDX-License-Identifier: Apache-2.0
// FlatBuffers in typed calls (ripc/codec.hpp).
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ripc/codec.hpp"

// A FlatBuffer with root T: either built here, or received and still in its message.
template <typename T>
class Flat {
 public:
  // Finishes the builder.
  Flat(flatbuffers::FlatBufferBuilder& builder, flatbuffers::Offset<T> root) {
    builder.Finish(root);
    built_ = builder.Release();
    bytes_ = std::as_bytes(std::span(built_.data(), built_.size()));
  }
  // Returns nothing if the bytes are not a FlatBuffer with root T. The result points to the bytes, or has a copy if
  // they are misaligned.
  static std::optional<Flat> from(ripc::Bytes bytes) {
    Flat result;
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(std::max_align_t) != 0) {
      result.copy_.assign(bytes.begin(), bytes.end());
      bytes = result.copy_;
    }
    result.bytes_ = bytes;
    flatbuffers::Verifier verifier(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    if (!verifier.VerifyBuffer<T>(nullptr)) return std::nullopt;
    return result;
  }

  const T* operator->() const { return flatbuffers::GetRoot<T>(bytes_.data()); }
  ripc::Bytes bytes() const { return bytes_; }

 private:
  Flat() = default;

  flatbuffers::DetachedBuffer built_;
  std::vector<std::byte> copy_;
  ripc::Bytes bytes_;  // in built_, in copy_ or in a message; moving a Flat keeps them in place
};

template <typename T>
struct ripc::Codec<Flat<T>> {
  static auto encode(const Flat<T>& value, auto&& send) {
    const Item one = item(value.bytes());
    return send(std::span<const Item>(&one, 1));
  }
  static std::optional<Flat<T>> decode(const auto& received) {
    if (received.item_count() != 1 || !received.item(0).ok()) return std::nullopt;
    return Flat<T>::from(received.item(0).bytes());
  }
};
