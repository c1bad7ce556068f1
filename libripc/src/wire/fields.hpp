// SPDX-License-Identifier: Apache-2.0
// Messages as lists of fields, for the codecs of control messages: one layout (a tuple of pointers to members, in wire
// order) serves both directions. A codec has a Layout<T> for each message T, with the tuple as kFields; T says its
// kType. Fields are numbers of 32 and 64 bits, statuses, fixed-size arrays of bytes, and, last in a message, all the
// bytes that are left. Little-endian, no padding.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <tuple>
#include <variant>
#include <vector>

#include "base/status.hpp"
#include "ripc/ripc.h"
#include "wire/bytes.hpp"

namespace ripc::wire::fields {

inline constexpr std::uint32_t kLastStatus = RIPC_SYSTEM;

inline bool is_known(ripc_status status) noexcept { return static_cast<std::uint32_t>(status) <= kLastStatus; }

inline std::size_t size_of(std::uint32_t) noexcept { return 4; }
inline std::size_t size_of(std::uint64_t) noexcept { return 8; }
inline std::size_t size_of(ripc_status) noexcept { return 4; }
template <std::size_t Size>
std::size_t size_of(const std::array<std::byte, Size>&) noexcept {
  return Size;
}
inline std::size_t size_of(std::span<const std::byte> bytes) noexcept { return bytes.size(); }

inline void write(Writer& writer, std::uint32_t value) noexcept { writer.write<std::uint32_t>(value); }
inline void write(Writer& writer, std::uint64_t value) noexcept { writer.write<std::uint64_t>(value); }
inline void write(Writer& writer, ripc_status status) noexcept {
  writer.write<std::uint32_t>(static_cast<std::uint32_t>(status));
}
template <std::size_t Size>
void write(Writer& writer, const std::array<std::byte, Size>& bytes) noexcept {
  writer.write_bytes(bytes);
}
inline void write(Writer& writer, std::span<const std::byte> bytes) noexcept { writer.write_bytes(bytes); }

// Each returns false for a value that the type of the field cannot hold; a field that is not there fails the reader.
inline bool read(Reader& reader, std::uint32_t& value) noexcept {
  value = reader.read<std::uint32_t>();
  return true;
}
inline bool read(Reader& reader, std::uint64_t& value) noexcept {
  value = reader.read<std::uint64_t>();
  return true;
}
inline bool read(Reader& reader, ripc_status& status) noexcept {
  const auto value = reader.read<std::uint32_t>();
  if (value > kLastStatus) return false;
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

// Bytes that the fields of `message` take.
template <typename Layout, typename T>
std::size_t size_all(const Layout& layout, const T& message) noexcept {
  std::size_t size = 0;
  std::apply([&](auto... field) { ((size += size_of(message.*field)), ...); }, layout);
  return size;
}

template <typename Layout, typename T>
void write_all(const Layout& layout, const T& message, Writer& writer) noexcept {
  std::apply([&](auto... field) { (write(writer, message.*field), ...); }, layout);
}

// False unless every field is there and can hold its value, and no bytes are left over.
template <typename Layout, typename T>
bool read_all(const Layout& layout, T& message, Reader& reader) noexcept {
  bool readable = true;
  std::apply([&](auto... field) { ((readable = readable && read(reader, message.*field)), ...); }, layout);
  return readable && reader.finished();
}

// Makes `out` exactly the message, after `prefix_size` bytes that write_prefix(writer, size of it all) writes.
// RIPC_TOO_LARGE: more than `max_size`; `out` is then as it was.
template <typename Layout, typename T, typename WritePrefix>
ripc_status encode(const Layout& layout, const T& message, std::size_t prefix_size, std::size_t max_size,
                   WritePrefix&& write_prefix, std::vector<std::byte>& out) {
  const std::size_t size = prefix_size + size_all(layout, message);
  if (size > max_size) return RIPC_TOO_LARGE;
  out.resize(size);
  Writer writer(out);
  write_prefix(writer, static_cast<std::uint32_t>(size));
  write_all(layout, message, writer);
  return RIPC_OK;
}

// Reads the alternative of `Variant` whose type this is. RIPC_CORRUPT: none has it, read_all() says false, or
// is_valid(message) does.
template <template <typename> typename Layout, typename Variant, typename Type, typename IsValid>
Result<Variant> decode(Type type, const Reader& reader, const IsValid& is_valid) noexcept {
  Result<Variant> result = RIPC_CORRUPT;
  const auto try_one = [&]<typename T>(const T*) {
    if (T::kType != type) return false;
    T message;
    Reader own = reader;
    if (read_all(Layout<T>::kFields, message, own) && is_valid(message)) result = Variant(message);
    return true;
  };
  [&]<typename... T>(const std::variant<T...>*) {
    (void)(try_one(static_cast<const T*>(nullptr)) || ...);
  }(static_cast<const Variant*>(nullptr));
  return result;
}

}  // namespace ripc::wire::fields
