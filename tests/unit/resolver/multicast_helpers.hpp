// SPDX-License-Identifier: Apache-2.0
// For tests of the multicast resolver: contexts on the loopback interface, each test on its own port. An outsider can
// send any bytes.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <time.h>

#include <memory>
#include <string>
#include <utility>

#include "core/service_id.hpp"
#include "resolver/multicast/multicast_resolver.hpp"
#include "resolver/multicast/udp_network.hpp"
#include "resolver_helpers.hpp"
#include "support/waiting.hpp"
#include "unit/security/trust_helpers.hpp"

namespace ripc::internal::test {

using resolver::MulticastCounters;
using resolver::MulticastOptions;
using resolver::MulticastResolver;
using resolver::UdpNetwork;
using spi::PacketBuilder;
using spi::PacketHeader;
using spi::PacketType;

inline constexpr Nanoseconds kMulticastPatience = 20'000'000'000;  // for events that must come
inline const std::string kKeyText = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
inline const std::string kOtherKeyText = "f0e0d0c0b0a090807060504030201000ffeeddccbbaa99887766554433221100";

using security::make_keys;

// A random port, with IPv4 over the loopback interface, so that no one else's packets arrive.
inline MulticastOptions loopback_options(const std::string& keys = "") {
  const auto port = static_cast<unsigned>(20000 + random_u64() % 12000);
  Result<MulticastOptions> options =
      resolver::parse_multicast_options("239.255.82.73:" + std::to_string(port) + "%lo,ttl=0");
  EXPECT_TRUE(options.ok()) << options.status().text();
  options->hash_name = core::id_of_name;
  if (!keys.empty()) options->credentials.keys = make_keys(keys);
  return *options;
}

using support::eventually;

// How many packets arrived again, over another path or the same one.
inline std::uint64_t came_again(const resolver::MulticastCounters& counters) {
  return counters.copies + counters.replayed;
}

// A context as the multicast resolver sees one.
class MulticastContext {
 public:
  explicit MulticastContext(const MulticastOptions& options, MulticastResolver::Networks networks = {})
      : id_(random_u64() | 1) {
    Result<std::unique_ptr<MulticastResolver>> made = MulticastResolver::create(options, id_, std::move(networks));
    EXPECT_TRUE(made.ok()) << made.status().text();
    if (made.ok()) resolver_ = std::move(*made);
  }
  MulticastResolver* operator->() { return resolver_.get(); }
  MulticastResolver& operator*() { return *resolver_; }
  std::uint64_t id() const { return id_; }
  void end() { resolver_.reset(); }

  spi::ServiceRecord record(ripc_service_id id, const std::string& name = "") const {
    spi::ServiceRecord record;
    record.id = id;
    record.name = name;
    record.context = id_;
    record.pid = static_cast<std::uint32_t>(::getpid());
    record.addresses = {{"socket", "ctx=" + std::to_string(id_) + ";port=7000;ip=127.0.0.1"}};
    return record;
  }
  spi::ServiceRecord publish(ripc_service_id id, const std::string& name = "") {
    spi::ServiceRecord record = this->record(id, name);
    const Status status = resolver_->publish(record, false, nullptr);
    EXPECT_TRUE(status.ok()) << status.text();
    return record;
  }
  Result<spi::ServiceRecord> resolve(ripc_service_id id) {
    return resolver_->resolve(id, Deadline::after(kMulticastPatience));
  }
  // What the cache says, without asking other contexts.
  Result<spi::ServiceRecord> look(ripc_service_id id) { return resolver_->resolve(id, Deadline::after(0)); }
  // Whether the cache has the record, or gets it within a while.
  bool learns(const spi::ServiceRecord& record) {
    return eventually([&] {
      const Result<spi::ServiceRecord> known = look(record.id);
      return known.ok() && *known == record;
    });
  }

 private:
  const std::uint64_t id_;
  std::unique_ptr<MulticastResolver> resolver_;
};

// A host in the network without a resolver: it sends any packet and hears everything.
class Outsider {
 public:
  explicit Outsider(const MulticastOptions& options) : options_(options) {
    Result<std::unique_ptr<UdpNetwork>> network = UdpNetwork::open(options, 0);
    EXPECT_TRUE(network.ok()) << network.status().text();
    if (network.ok()) network_ = std::move(*network);
  }

  void send(const std::vector<std::byte>& bytes) { EXPECT_EQ(network_->send_to_groups(bytes).packets, 1U); }
  void send_to(const spi::PeerAddress& to, const std::vector<std::byte>& bytes) {
    EXPECT_EQ(network_->send_to(to, bytes).packets, 1U);
  }

  // Returns the bytes of the next packet for which `wanted(header)` is true, and sets `*from` to its sender. Empty:
  // none came in time.
  template <typename Wanted>
  std::vector<std::byte> hear(const Wanted& wanted, spi::PeerAddress* from = nullptr,
                              Nanoseconds patience = kMulticastPatience) {
    const Deadline deadline = Deadline::after(patience);
    std::vector<std::byte> buffer(spi::kMaxPacket);
    std::vector<pollfd> descriptors = network_->descriptors();
    while (::poll(descriptors.data(), descriptors.size(), deadline.remaining_milliseconds()) > 0) {
      for (const pollfd& descriptor : descriptors) {
        spi::ReceivedPacket received;
        if (descriptor.revents == 0 || network_->receive(descriptor.fd, buffer, received) != spi::Arrival::packet)
          continue;
        PacketHeader header;
        if (spi::decode_header(received.bytes, header) != spi::DecodeStatus::ok || !wanted(header)) continue;
        if (from != nullptr) *from = received.from;
        return {received.bytes.begin(), received.bytes.end()};
      }
      if (deadline.expired()) break;
    }
    return {};
  }

  PacketHeader header(PacketType type) const {
    PacketHeader header;
    header.type = type;
    header.context = 4711;
    header.timestamp = realtime_now();
    if (type != PacketType::announcement) header.nonce = random_u64() | 1;
    return header;
  }
  std::vector<std::byte> packet(const PacketHeader& header, const std::vector<spi::ServiceRecord>& records,
                                const ClusterKeys* keys = nullptr) const {
    return packet(header, records, spi::Seal(keys));
  }
  std::vector<std::byte> packet(const PacketHeader& header, const std::vector<spi::ServiceRecord>& records,
                                const spi::Seal& seal) const {
    PacketBuilder builder(header, seal);
    for (const spi::ServiceRecord& record : records) EXPECT_TRUE(builder.add(record, false));
    return builder.finish();
  }

 private:
  const MulticastOptions options_;
  std::unique_ptr<UdpNetwork> network_;
};

// The reason why multicast cannot be tested here; empty: it can.
inline std::string why_no_multicast() {
  static const std::string reason = [] {
    const MulticastOptions options = loopback_options();
    Result<std::unique_ptr<UdpNetwork>> network = UdpNetwork::open(options, 0);
    if (!network.ok()) return std::string(network.status().text());
    if ((*network)->interfaces().empty()) return std::string("the loopback interface is down");
    std::vector<pollfd> descriptors = (*network)->descriptors();
    const std::vector<std::byte> bytes(8);
    if ((*network)->send_to_groups(bytes).packets != 1) return std::string("multicast cannot be sent over loopback");
    if (::poll(descriptors.data(), descriptors.size(), 2000) <= 0) return std::string("multicast does not come back");
    return std::string();
  }();
  return reason;
}

class MulticastTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_multicast(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

}  // namespace ripc::internal::test
