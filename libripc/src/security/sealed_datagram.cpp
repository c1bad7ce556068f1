// SPDX-License-Identifier: Apache-2.0
#include "security/sealed_datagram.hpp"

#include "base/little_endian.hpp"

namespace ripc::internal::security {

namespace {

constexpr unsigned kNumberBits = 48;
constexpr std::uint64_t kLastNumber = (std::uint64_t{1} << kNumberBits) - 1;
// How many datagrams share one reading of the clock when the caller has none, as with RDMA. On some machines reading
// the clock is a system call; with one for each datagram, a signed round trip takes 1.25 times as long there.
constexpr std::uint64_t kLookEvery = 32;

}  // namespace

bool NumberWindow::note(std::uint64_t number) noexcept {
  if (number > highest_) {
    const std::uint64_t skipped = number - highest_ - 1;
    if (skipped >= kSize) {
      seen_ = {};
    } else {
      for (std::uint64_t next = highest_ + 1; next < number; ++next)
        seen_[next % kSize / 64] &= ~(std::uint64_t{1} << (next % 64));
    }
    highest_ = number;
  } else if (highest_ - number >= kSize || (seen_[number % kSize / 64] >> (number % 64) & 1) != 0) {
    return false;
  }
  seen_[number % kSize / 64] |= std::uint64_t{1} << (number % 64);
  return true;
}

void EpochKeys::make(std::optional<Cipher>& cipher, std::uint64_t epoch) const noexcept {
  std::array<std::byte, kSealedHead> bytes;
  store_le<std::uint64_t>(bytes.data(), epoch);
  cipher.emplace(protection_.suite, root_.derive("ripc epoch", {bytes}), protection_.hides);
}

DatagramSealer::DatagramSealer(Protection protection, const Secret& root, KeyLife life) noexcept
    : keys_(protection, root), life_(life), since_(monotonic_now()) {
  keys_.make(cipher_, 0);
}

bool DatagramSealer::seal(std::byte* datagram, std::size_t text, Nanoseconds now) noexcept {
  if (number_ == kLastNumber) return false;
  bytes_ += text;
  if (now == 0 && number_ % kLookEvery == 0) now = monotonic_now();
  const bool is_old = now > since_ && now - since_ > life_.time;
  if (is_old || bytes_ > life_.bytes) {
    keys_.make(cipher_, ++epoch_);
    bytes_ = text;
    since_ = now != 0 ? now : monotonic_now();
  }
  ++number_;
  store_le<std::uint64_t>(datagram, number_ << 16 | (epoch_ & 0xff) << 8 | kSealedVersion);
  cipher_->seal(number_, datagram, kSealedHead, text);
  return true;
}

DatagramOpener::Verdict DatagramOpener::open(std::span<std::byte> datagram, std::span<std::byte>& text) noexcept {
  if (datagram.size() < kSealedOverhead || datagram[0] != std::byte{kSealedVersion}) return Verdict::forged;
  const std::uint64_t head = load_le<std::uint64_t>(datagram.data());
  const std::uint64_t number = head >> 16;
  const std::size_t size = datagram.size() - kSealedOverhead;
  const auto ahead = static_cast<std::int8_t>(static_cast<std::uint8_t>(head >> 8) - static_cast<std::uint8_t>(epoch_));
  if (ahead == 0) [[likely]] {
    if (!cipher_->open(number, datagram.data(), kSealedHead, size)) return Verdict::forged;
  } else if (ahead == -1) {
    if (!former_ || !former_->open(number, datagram.data(), kSealedHead, size)) return Verdict::forged;
  } else if (ahead > 0) {
    std::optional<Cipher> newer;
    const std::uint64_t epoch = epoch_ + static_cast<std::uint64_t>(ahead);
    keys_.make(newer, epoch);
    if (!newer->open(number, datagram.data(), kSealedHead, size)) return Verdict::forged;
    // Datagrams of a skipped epoch are lost.
    keys_.make(former_, epoch - 1);
    keys_.make(cipher_, epoch);
    epoch_ = epoch;
  } else {
    return Verdict::forged;
  }
  if (number == 0 || !window_.note(number)) return Verdict::replayed;
  text = datagram.subspan(kSealedHead, size);
  return Verdict::fresh;
}

}  // namespace ripc::internal::security
