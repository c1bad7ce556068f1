// SPDX-License-Identifier: Apache-2.0
#include "security/record.hpp"

#include "base/little_endian.hpp"

namespace ripc::internal::security {

namespace {

constexpr std::uint32_t kNextKey = std::uint32_t{1} << 31;

}  // namespace

void RecordSealer::seal(std::byte* record, std::size_t text, const std::byte* from) noexcept {
  auto head = static_cast<std::uint32_t>(text);
  bytes_ += text;
  const Nanoseconds now = monotonic_now();
  if (bytes_ > life_.bytes || now - since_ > life_.time) {
    key_.advance();
    head |= kNextKey;
    bytes_ = text;
    since_ = now;
  }
  store_le<std::uint32_t>(record, head);
  key_.cipher().seal(key_.take_number(), record, kRecordHead, text, from);
}

Result<std::size_t> RecordOpener::text_size(std::span<const std::byte, kRecordHead> head) noexcept {
  const std::size_t size = load_le<std::uint32_t>(head.data()) & ~kNextKey;
  if (size == 0 || size > kMaxRecordText) return RIPC_CORRUPT;
  return size;
}

bool RecordOpener::open(std::byte* record, std::byte* to) noexcept {
  const std::uint32_t head = load_le<std::uint32_t>(record);
  if ((head & kNextKey) != 0) key_.advance();
  return key_.cipher().open(key_.take_number(), record, kRecordHead, head & ~kNextKey, to);
}

}  // namespace ripc::internal::security
