// SPDX-License-Identifier: Apache-2.0
// Credits: how a receiver keeps its socket buffer from overflowing.
//
// A sender pays for each datagram what it will cost in the receiver's socket buffer, in units of 64 bytes. Each
// datagram tells what the sender has spent so far. The receiver grants: "you may spend up to so much". Both numbers
// only grow, modulo 2^32, so the next datagram or grant makes up for a lost one.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace ripc::internal::remote {

inline constexpr std::size_t kCreditUnit = 64;  // bytes

// The most that a datagram with this many bytes of UDP payload costs, in bytes of the socket buffer. The kernel counts
// a descriptor of 256 bytes, and the payload with some 400 bytes around it. It rounds the latter up to a power of two
// below 16 KiB, and to pages above. Measured with SO_MEMINFO on Linux 6.1 to 6.18, IPv4 and IPv6, loopback and veth; a
// network card whose driver takes whole pages costs more (see UdpSource::settle()).
constexpr std::size_t datagram_bytes(std::size_t payload) noexcept {
  constexpr std::size_t kDescriptor = 256;
  constexpr std::size_t kBufferOverhead = 448;
  constexpr std::size_t kLargestBlock = std::size_t{16} << 10;
  if (payload + kBufferOverhead <= 576) return kDescriptor + 576;
  if (payload + kBufferOverhead <= kLargestBlock) return kDescriptor + std::bit_ceil(payload + kBufferOverhead);
  return kDescriptor + payload + 2 * kBufferOverhead;
}

constexpr std::uint32_t datagram_cost(std::size_t payload) noexcept {
  return static_cast<std::uint32_t>((datagram_bytes(payload) + kCreditUnit - 1) / kCreditUnit);
}

// The sender's side: one thread spends, any may grant.
class SenderCredit {
 public:
  explicit SenderCredit(std::uint32_t limit) noexcept : limit_(limit) {}

  std::uint32_t spent() const noexcept { return spent_.load(std::memory_order_relaxed); }
  // How much is left; 0 also if the receiver took something back.
  std::uint32_t left() const noexcept {
    const auto left = static_cast<std::int32_t>(limit_.load(std::memory_order_acquire) - spent());
    return left > 0 ? static_cast<std::uint32_t>(left) : 0;
  }
  // The total that may be spent.
  std::uint32_t limit() const noexcept { return limit_.load(std::memory_order_acquire); }
  void spend(std::uint32_t cost) noexcept { spent_.store(spent() + cost, std::memory_order_relaxed); }
  // False if it was known already.
  bool grant(std::uint32_t limit) noexcept {
    std::uint32_t known = limit_.load(std::memory_order_relaxed);
    while (static_cast<std::int32_t>(limit - known) > 0) {
      if (limit_.compare_exchange_weak(known, limit, std::memory_order_release, std::memory_order_relaxed)) return true;
    }
    return false;
  }

 private:
  std::atomic<std::uint32_t> spent_{0};
  std::atomic<std::uint32_t> limit_;
};

// The receiver's side. One thread at a time.
class ReceiverCredit {
 public:
  // Credit is granted in portions of budget / kPortions.
  static constexpr std::uint32_t kPortions = 4;

  explicit ReceiverCredit(std::uint32_t budget) noexcept
      : budget_(budget), granted_(first_credit(budget)), largest_(budget) {}

  // What the sender has before the first grant: the least that it has whenever everything was consumed.
  static constexpr std::uint32_t first_credit(std::uint32_t budget) noexcept { return budget - budget / kPortions; }

  // The sender says what it has spent, and all of that has arrived or is lost. An amount that it cannot have spent is
  // ignored.
  void consumed(std::uint32_t spent) noexcept {
    if (granted_ - spent > largest_) return;
    if (static_cast<std::int32_t>(spent - consumed_) > 0) consumed_ = spent;
  }
  // This much more has arrived or is lost, in datagrams that do not tell what was spent.
  void consumed_more(std::uint32_t spent) noexcept { consumed(consumed_ + spent); }
  // What can be granted now, whether or not it was.
  std::uint32_t credit() const noexcept { return consumed_ + budget_; }
  // How much of credit() was not granted to the sender yet.
  std::uint32_t due() const noexcept {
    const auto due = static_cast<std::int32_t>(credit() - granted_);
    return due > 0 ? static_cast<std::uint32_t>(due) : 0;
  }
  void granted(std::uint32_t credit) noexcept {
    if (static_cast<std::int32_t>(credit - granted_) > 0) granted_ = credit;
  }
  std::uint32_t budget() const noexcept { return budget_; }
  void set_budget(std::uint32_t budget) noexcept { budget_ = budget < largest_ ? budget : largest_; }

 private:
  std::uint32_t budget_;
  std::uint32_t consumed_ = 0;
  std::uint32_t granted_;
  std::uint32_t largest_;
};

}  // namespace ripc::internal::remote
