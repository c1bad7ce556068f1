// SPDX-License-Identifier: Apache-2.0
// Messages as structures, for the codecs of control messages. The fields of a message are the members of its structure,
// in order. Its type is its position in a variant of all messages, counted from 1. Fields are numbers of 32 and 64
// bits, statuses, arrays of bytes, and, last in a message, all the bytes that are left. Little-endian, no padding.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.hpp"
#include "ripc/ripc.h"
#include "wire/bytes.hpp"

namespace ripc::internal::wire::fields {

// ---- Single fields -------------------------------------------------------------------------------------------

template <typename T>
bool is_known(const T&) noexcept {
  return true;
}
inline bool is_known(ripc_status status) noexcept { return static_cast<std::uint32_t>(status) <= RIPC_SYSTEM; }

template <typename T>
std::size_t size_of(const T&) noexcept {
  return sizeof(T);
}
inline std::size_t size_of(ripc_status) noexcept { return 4; }
inline std::size_t size_of(std::span<const std::byte> bytes) noexcept { return bytes.size(); }

inline void write(Writer& writer, std::uint32_t value) noexcept { writer.write<std::uint32_t>(value); }
inline void write(Writer& writer, std::uint64_t value) noexcept { writer.write<std::uint64_t>(value); }
inline void write(Writer& writer, ripc_status status) noexcept {
  writer.write<std::uint32_t>(static_cast<std::uint32_t>(status));
}
inline void write(Writer& writer, std::span<const std::byte> bytes) noexcept { writer.write_bytes(bytes); }

// Each returns false for a value that the type of the field cannot hold. A missing field fails the reader.
template <WireInteger T>
bool read(Reader& reader, T& value) noexcept {
  value = reader.read<T>();
  return true;
}
inline bool read(Reader& reader, ripc_status& status) noexcept {
  const auto value = reader.read<std::uint32_t>();
  if (value > RIPC_SYSTEM) return false;
  status = static_cast<ripc_status>(value);
  return true;
}
template <std::size_t Size>
bool read(Reader& reader, std::array<std::byte, Size>& bytes) noexcept {
  const std::span<const std::byte> taken = reader.take(Size);
  if (taken.size() == Size) std::memcpy(bytes.data(), taken.data(), Size);
  return true;
}
inline bool read(Reader& reader, std::span<const std::byte>& bytes) noexcept {
  bytes = reader.take_rest();
  return true;
}

template <typename T>
bool are_same(const T& left, const T& right) noexcept {
  if constexpr (std::is_same_v<T, std::span<const std::byte>>) {
    return std::ranges::equal(left, right);
  } else {
    return left == right;
  }
}

// ---- All fields of a message ---------------------------------------------------------------------------------

// Stands for a value of any type, to count the members of a structure. Never constructed.
struct AnyField {
  template <typename T>
  operator T() const noexcept;  // NOLINT(google-explicit-constructor): only an implicit conversion initializes members
};

template <typename T, typename... Fields>
constexpr std::size_t field_count() noexcept {
  if constexpr (requires { T{Fields{}..., AnyField{}}; }) {
    return field_count<T, Fields..., AnyField>();
  } else {
    return sizeof...(Fields);
  }
}

// Calls visit(field ...) with all fields.
template <typename T, typename Visit>
auto apply(T& message, const Visit& visit) noexcept {
  constexpr std::size_t kCount = field_count<std::remove_const_t<T>>();
  if constexpr (kCount == 0) {
    return visit();
  } else if constexpr (kCount == 1) {
    auto& [a] = message;
    return visit(a);
  } else if constexpr (kCount == 2) {
    auto& [a, b] = message;
    return visit(a, b);
  } else if constexpr (kCount == 3) {
    auto& [a, b, c] = message;
    return visit(a, b, c);
  } else if constexpr (kCount == 4) {
    auto& [a, b, c, d] = message;
    return visit(a, b, c, d);
  } else if constexpr (kCount == 5) {
    auto& [a, b, c, d, e] = message;
    return visit(a, b, c, d, e);
  } else if constexpr (kCount == 6) {
    auto& [a, b, c, d, e, f] = message;
    return visit(a, b, c, d, e, f);
  } else if constexpr (kCount == 7) {
    auto& [a, b, c, d, e, f, g] = message;
    return visit(a, b, c, d, e, f, g);
  } else if constexpr (kCount == 8) {
    auto& [a, b, c, d, e, f, g, h] = message;
    return visit(a, b, c, d, e, f, g, h);
  } else if constexpr (kCount == 9) {
    auto& [a, b, c, d, e, f, g, h, i] = message;
    return visit(a, b, c, d, e, f, g, h, i);
  } else {
    static_assert(kCount == 12, "no message had so many fields yet: add a branch");
    auto& [a, b, c, d, e, f, g, h, i, j, k, l] = message;
    return visit(a, b, c, d, e, f, g, h, i, j, k, l);
  }
}

template <typename T>
bool are_equal(const T& left, const T& right) noexcept {
  return apply(left, [&](const auto&... one) {
    return apply(right, [&](const auto&... other) { return (are_same(one, other) && ...); });
  });
}

// ---- Messages of a variant -----------------------------------------------------------------------------------

template <typename T, typename Variant>
inline constexpr bool kIsAlternative = false;
template <typename T, typename... Messages>
inline constexpr bool kIsAlternative<T, std::variant<Messages...>> = (std::is_same_v<T, Messages> || ...);
template <typename T, typename Variant>
concept IsAlternativeOf = kIsAlternative<T, Variant>;

// Makes `out` exactly the message, after the prefix that write_prefix(writer, type, total size) writes.
// RIPC_INVALID_ARGUMENT: is_valid(message) is false, or a status is unknown. RIPC_TOO_LARGE: more than `max_size`.
// `out` is then empty.
template <typename Variant, typename IsValid, typename WritePrefix>
ripc_status encode(const Variant& variant, std::size_t prefix_size, std::size_t max_size, const IsValid& is_valid,
                   const WritePrefix& write_prefix, std::vector<std::byte>& out) {
  out.clear();
  const auto type = static_cast<std::uint8_t>(variant.index() + 1);
  return std::visit(
      [&](const auto& message) {
        const bool known = apply(message, [](const auto&... field) { return (is_known(field) && ...); });
        if (!known || !is_valid(message)) return RIPC_INVALID_ARGUMENT;
        const std::size_t size =
            prefix_size + apply(message, [](const auto&... field) { return (std::size_t{0} + ... + size_of(field)); });
        if (size > max_size) return RIPC_TOO_LARGE;
        out.resize(size);
        Writer writer(out);
        write_prefix(writer, type, static_cast<std::uint32_t>(size));
        apply(message, [&](const auto&... field) { (write(writer, field), ...); });
        return RIPC_OK;
      },
      variant);
}

// Reads the message of this type. RIPC_CORRUPT: there is none, a field is missing or cannot hold its value, bytes are
// left over, or is_valid(message) is false.
template <typename Variant, typename IsValid>
Result<Variant> decode(std::uint8_t type, Reader reader, const IsValid& is_valid) noexcept {
  Result<Variant> result = RIPC_CORRUPT;
  const auto read_as = [&]<typename T>(T message) {
    const bool is_readable = apply(message, [&](auto&... field) { return (read(reader, field) && ...); });
    if (is_readable && reader.finished() && is_valid(message)) result = Variant(message);
    return true;
  };
  [&]<std::size_t... Index>(std::index_sequence<Index...>) {
    (void)((type == Index + 1 && read_as(std::variant_alternative_t<Index, Variant>{})) || ...);
  }
  (std::make_index_sequence<std::variant_size_v<Variant>>());
  return result;
}

// The verdict of a message's handler: whether the peer may send the message. A handler that returns nothing accepts it.
template <typename Handler>
bool accepts(const Handler& handler) {
  if constexpr (std::is_void_v<decltype(handler())>) {
    handler();
    return true;
  } else {
    return handler();
  }
}

// ---- Messages of more than one variant -----------------------------------------------------------------------

// Tells the receiver that its registration of this service has ended, if it has this incarnation or an older one.
struct Fence {
  std::uint64_t request = 0;
  std::uint64_t service = 0;
  std::uint64_t incarnation = 0;
  friend bool operator==(const Fence&, const Fence&) = default;
};

// Its answer.
struct Fenced {
  std::uint64_t request = 0;
  ripc_status status = RIPC_OK;
  friend bool operator==(const Fenced&, const Fenced&) = default;
};

}  // namespace ripc::internal::wire::fields
