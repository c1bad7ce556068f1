// SPDX-License-Identifier: Apache-2.0
#include "relay.hpp"

#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <span>

namespace fault {

namespace {

constexpr std::size_t kLargestPacket = 65536;
// How many packets of one end are taken before the other end has its turn.
constexpr int kBurst = 64;
// A reordered packet is late by at least kDetour, and by up to kLongestDetour more.
constexpr std::uint64_t kDetour = 2 * kMillisecond;
constexpr std::uint64_t kLongestDetour = 4 * kMillisecond;

// The protocol number of an IP packet.
int protocol_of(std::span<const std::byte> packet) {
  const bool v4 = (packet[0] >> 4) == std::byte{4};
  return std::to_integer<int>(packet[v4 ? 9 : 6]);
}

// Whether it is an IPv4 packet that asks for a TCP connection.
bool is_dial(std::span<const std::byte> packet) {
  const std::size_t header = std::to_integer<std::size_t>(packet[0] & std::byte{15}) * 4;
  constexpr std::size_t kFlags = 13;
  constexpr std::byte kSyn{2}, kAck{16};
  return (packet[0] >> 4) == std::byte{4} && protocol_of(packet) == IPPROTO_TCP && packet.size() > header + kFlags &&
         (packet[header + kFlags] & (kSyn | kAck)) == kSyn;
}

}  // namespace

Relay::Relay(int one, int other, std::uint64_t seed)
    : ends_{one, other}, wake_(eventfd(0, EFD_CLOEXEC)), random_(seed), thread_([this] { run(); }) {}

Relay::~Relay() {
  stopping_ = true;
  const std::uint64_t once = 1;
  (void)!::write(wake_, &once, sizeof once);
  thread_.join();
  for (const int fd : {ends_[0], ends_[1], wake_}) close(fd);
}

void Relay::set(const Weather& weather) {
  const std::lock_guard lock(mutex_);
  weather_ = weather;
}

void Relay::filter(int from_one, int from_other) {
  const std::lock_guard lock(mutex_);
  filtered_[0] = from_one;
  filtered_[1] = from_other;
}

void Relay::run() {
  std::array<pollfd, 3> descriptors{{{ends_[0], POLLIN, 0}, {ends_[1], POLLIN, 0}, {wake_, POLLIN, 0}}};
  while (!stopping_) {
    timespec pause{};
    if (!packets_.empty()) {
      const std::uint64_t at = now();
      const std::uint64_t left = packets_.top().due > at ? packets_.top().due - at : 0;
      pause = {static_cast<time_t>(left / kSecond), static_cast<long>(left % kSecond)};
    }
    if (ppoll(descriptors.data(), descriptors.size(), packets_.empty() ? nullptr : &pause, nullptr) > 0) {
      if (descriptors[0].revents != 0) take(0);
      if (descriptors[1].revents != 0) take(1);
    }
    deliver_due();
  }
}

void Relay::take(std::size_t from) {
  const int to = ends_[1 - from];
  Weather weather;
  int filtered = 0;
  {
    const std::lock_guard lock(mutex_);
    weather = weather_;
    filtered = filtered_[from];
  }
  const auto happens = [&](std::uint64_t permille) { return permille != 0 && random_.below(1000) < permille; };
  std::array<std::byte, kLargestPacket> buffer;
  for (int count = 0; count < kBurst; ++count) {
    const ssize_t size = ::read(ends_[from], buffer.data(), buffer.size());
    if (size <= 0) return;
    if (filtered != 0 && protocol_of(buffer) == filtered) continue;
    const std::span packet(buffer.data(), static_cast<std::size_t>(size));
    const bool is_lost_dial = loses_dial_ && is_dial(packet) && loses_dial_.exchange(false);
    if (packet.size() > weather.longest || is_lost_dial || happens(weather.lost)) {
      ++lost_;
      continue;
    }
    std::uint64_t due = now() + weather.delay;
    if (happens(weather.reordered)) {
      ++reordered_;
      due += kDetour + random_.below(kLongestDetour);
    }
    const std::vector<std::byte> bytes(packet.begin(), packet.end());
    if (happens(weather.duplicated)) {
      ++duplicated_;
      packets_.push({due, next_number_++, to, bytes});
    }
    packets_.push({due, next_number_++, to, bytes});
  }
}

void Relay::deliver_due() {
  for (const std::uint64_t at = now(); !packets_.empty() && packets_.top().due <= at; packets_.pop()) {
    const Packet& packet = packets_.top();
    // An interface that is down takes no packets: they are lost, as on any cable.
    (void)!::write(packet.to, packet.bytes.data(), packet.bytes.size());
  }
}

}  // namespace fault
