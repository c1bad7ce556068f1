// SPDX-License-Identifier: Apache-2.0
// Datagrams of links that an attacker on the path has recorded, changed or made up.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>

#include "remote/link/link_socket.hpp"
#include "support/waiting.hpp"

namespace ripc::internal::remote {
namespace {

using Opened = security::DatagramOpener::Verdict;
using Bytes = std::vector<std::byte>;

// Two ends of a link, and the counters of the second.
struct Link {
  Link() {
    const security::Protection protection{.suite =
                                              security::choose_suite(security::own_suites(), security::own_suites())};
    from.protect(protection, there, back, std::make_shared<security::Counters>());
    to.protect(protection, back, there, counters);
    const Endpoint end = Endpoint::local_of(to.fd());
    EXPECT_TRUE(from.connect(end).ok());
    EXPECT_TRUE(to.connect(Endpoint::local_of(from.fd())).ok());
  }
  static LinkSocket open() {
    Endpoint loopback;
    EXPECT_TRUE(Endpoint::parse("127.0.0.1", 0, loopback));
    return std::move(LinkSocket::open(loopback, {}).value());
  }
  // A datagram as it goes over the network.
  Bytes sealed(std::string_view text, Nanoseconds now = 0) const {
    const spi::Bytes packet = std::as_bytes(std::span(text.data(), text.size()));
    const wire::datagram::Header header{.kind = wire::datagram::Kind::data, .sequence = 1, .token = 2};
    EXPECT_EQ(from.send(header, {&packet, 1}, now), RIPC_OK);
    return received();
  }
  Bytes received() const {
    Bytes bytes(65536);
    ssize_t got = -1;
    EXPECT_TRUE(
        support::eventually([&] { return (got = ::recv(to.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT)) >= 0; }));
    bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return bytes;
  }
  Opened take(Bytes bytes) const {
    spi::Bytes text;
    return to.open_sealed(bytes, text);
  }

  const security::Secret there = security::Secret::random();
  const security::Secret back = security::Secret::random();
  const std::shared_ptr<security::Counters> counters = std::make_shared<security::Counters>();
  LinkSocket from = open();
  LinkSocket to = open();
};

TEST(SealedLink, HidesTheBytesThatItCarries) {
  Link link;
  const Bytes bytes = link.sealed("nobody else reads this");
  const std::string_view seen(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  EXPECT_EQ(seen.find("nobody"), std::string_view::npos);
  EXPECT_EQ(link.take(bytes), Opened::fresh);
}

TEST(SealedLink, HasAnotherKeyAfterTenMinutesHoweverLittleItCarries) {
  Link link;
  EXPECT_EQ(link.sealed("one")[1], std::byte{0});
  const Bytes later = link.sealed("two", monotonic_now() + 601'000'000'000);
  EXPECT_EQ(later[1], std::byte{1});
  EXPECT_EQ(link.take(later), Opened::fresh);
}

TEST(SealedLink, RepeatedDatagramsAreCountedAndDropped) {
  Link link;
  const Bytes first = link.sealed("one");
  const Bytes second = link.sealed("two");
  EXPECT_EQ(link.take(second), Opened::fresh);
  EXPECT_EQ(link.take(first), Opened::fresh) << "it was overtaken";
  EXPECT_EQ(link.take(first), Opened::replayed);
  EXPECT_EQ(link.take(second), Opened::replayed);
  EXPECT_EQ(link.counters->packets_replayed, 2U);
  EXPECT_EQ(link.counters->packets_forged, 0U);
}

TEST(SealedLink, ForgedCutReflectedAndStrangeDatagramsAreCountedAndDropped) {
  Link link;
  Link other;
  const Bytes good = link.sealed("good");
  std::uint64_t count = 0;
  for (std::size_t index = 0; index < good.size(); ++index, ++count) {
    Bytes changed = good;
    changed[index] ^= std::byte{0x10};
    EXPECT_EQ(link.take(changed), Opened::forged) << index;
  }
  for (std::size_t size = 0; size < good.size(); ++size, ++count)
    EXPECT_EQ(link.take(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size))), Opened::forged);
  EXPECT_EQ(link.take(other.sealed("of another link")), Opened::forged);
  spi::Bytes text;
  Bytes reflected = good;
  EXPECT_EQ(link.from.open_sealed(reflected, text), Opened::forged);
  EXPECT_EQ(link.counters->packets_forged, count + 1);
  EXPECT_EQ(link.take(good), Opened::fresh) << "none of them had an effect";
}

}  // namespace
}  // namespace ripc::internal::remote
