// SPDX-License-Identifier: Apache-2.0
// What carries the packets of the multicast resolver: one group that every context has joined, and ways back to single
// contexts. A network may lose packets, bring them twice and change their order; it never changes or joins them.
#pragma once

#include <poll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/peer_authorizer.hpp"

namespace ripc::internal::spi {

// Where a packet came from, in a form that only the network that received it can read.
class PeerAddress {
 public:
  static constexpr std::size_t kCapacity = 144;

  template <typename T>
  static PeerAddress of(const T& value) noexcept {
    static_assert(std::is_class_v<T> && std::is_trivially_copyable_v<T> && sizeof(T) <= kCapacity);
    PeerAddress address;
    std::memcpy(address.bytes_.data(), &value, sizeof(T));
    return address;
  }
  // The value that was passed to of(); T must be the same type.
  template <typename T>
  T as() const noexcept {
    static_assert(std::is_class_v<T> && std::is_trivially_copyable_v<T> && sizeof(T) <= kCapacity);
    T value;
    std::memcpy(&value, bytes_.data(), sizeof(T));
    return value;
  }

 private:
  std::array<std::byte, kCapacity> bytes_{};
};

struct ReceivedPacket {
  std::span<const std::byte> bytes;  // in the receiver's buffer
  PeerAddress from;
  bool to_group = false;       // it came to the group, not to this context alone
  std::string_view interface;  // where it arrived, valid until the next receive(); empty: unknown
};

// What was sent, for the counters.
struct SentPackets {
  std::size_t packets = 0;
  std::size_t bytes = 0;
  std::size_t failures = 0;  // interfaces on which it could not be sent
  SentPackets& operator+=(const SentPackets& other) noexcept {
    packets += other.packets;
    bytes += other.bytes;
    failures += other.failures;
    return *this;
  }
};

enum class Arrival : std::uint8_t {
  nothing,  // no packet is there, or it was the network's own and has been handled
  packet,
  joined,  // from now on more contexts can be asked than before
};

class MulticastNetwork {
 public:
  virtual ~MulticastNetwork() = default;

  // Any thread. The largest packet, in bytes. It may shrink, but does not grow.
  virtual std::size_t packet_limit() const noexcept = 0;

  // Any thread; never blocks. Sends to all contexts that have joined, on each interface; replies arrive on
  // descriptors().
  virtual SentPackets send_to_groups(std::span<const std::byte> bytes) noexcept = 0;
  // Any thread; never blocks. Sends to one context, from which a packet of this network came.
  virtual SentPackets send_to(const PeerAddress& to, std::span<const std::byte> bytes) noexcept = 0;

  // Any thread. Whether the sender of a packet that came from there is admitted, as the peer policy says.
  virtual PeerAuthorizer::Verdict authorize(const PeerAddress& from) = 0;

  // ---- One thread ----
  // The descriptors to poll; constant during the life of the object.
  virtual std::vector<pollfd> descriptors() const = 0;
  // The next packet of a descriptor that poll() said is readable. A packet larger than the buffer is dropped.
  virtual Arrival receive(int fd, std::span<std::byte> buffer, ReceivedPacket& received) = 0;

  // ---- For messages; any thread ----
  // "udp", "fabric".
  virtual std::string_view name() const noexcept = 0;
  // "239.255.82.73:26673 on eth0, lo"; "... on no interface", with the reason if it is known.
  virtual std::string text() const = 0;
  // The interfaces by which the groups can be reached now.
  virtual std::vector<std::string> interfaces() const = 0;
};

}  // namespace ripc::internal::spi
