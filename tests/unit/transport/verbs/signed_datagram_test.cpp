// SPDX-License-Identifier: Apache-2.0
// Datagrams of a device in a session with a secret. All are signed, which costs nothing but their size. Datagrams that
// someone on the path forges, repeats or cuts are dropped and counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nodes.hpp"
#include "support/waiting.hpp"
#include "transport/verbs/datagram/datagram_channel.hpp"
#include "unit/security/trust_helpers.hpp"

namespace ripc::internal::verbs {
namespace {

using security::kSealedOverhead;
using wire::datagram::Header;
using wire::datagram::kHeaderSize;
using wire::datagram::Kind;

// Records all datagrams that queue pairs of this device send, and can send other bytes in the same way.
class Path {
 public:
  struct Seen {
    ibv_qp* pair = nullptr;
    ibv_send_wr request{};
    Header header;
    std::vector<std::byte> bytes;
  };
  explicit Path(ibv_context* context) : context_(context) {
    post_of_device_ = std::exchange(context_->ops.post_send, post);
  }
  ~Path() {
    context_->ops.post_send = post_of_device_;
    take();
  }
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;

  // All datagrams since the last call.
  static std::vector<Seen> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(seen_, {});
  }
  // Sends other bytes in the same way as `like`.
  static void bring(const Seen& like, std::span<const std::byte> bytes) {
    ibv_sge range{.addr = reinterpret_cast<std::uint64_t>(bytes.data()),
                  .length = static_cast<std::uint32_t>(bytes.size()),
                  .lkey = 0};
    ibv_send_wr request = like.request;
    request.sg_list = &range;
    request.num_sge = bytes.empty() ? 0 : 1;
    request.next = nullptr;
    // No completion, because no one would look at it. Solicited, because a sleeping thread must wake.
    request.send_flags = IBV_SEND_INLINE | IBV_SEND_SOLICITED;
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(post_of_device_(like.pair, &request, &bad), 0);
  }

 private:
  static int post(ibv_qp* pair, ibv_send_wr* first, ibv_send_wr** bad) {
    for (const ibv_send_wr* request = first; pair->qp_type == IBV_QPT_UD && request != nullptr;
         request = request->next) {
      Seen one{.pair = pair, .request = *request, .header = {}, .bytes = {}};
      for (const ibv_sge& range : std::span(request->sg_list, static_cast<std::size_t>(request->num_sge))) {
        const auto* const data = reinterpret_cast<const std::byte*>(range.addr);
        one.bytes.insert(one.bytes.end(), data, data + range.length);
      }
      (void)wire::datagram::decode(unverified(one.bytes), one.header);
      const std::lock_guard lock(mutex_);
      seen_.push_back(std::move(one));
    }
    return post_of_device_(pair, first, bad);
  }
  static inline decltype(ibv_context_ops::post_send) post_of_device_ = nullptr;
  static inline std::mutex mutex_;
  static inline std::vector<Seen> seen_;
  ibv_context* const context_;
};

TransportOptions with_key() {
  TransportOptions options;
  options.credentials.keys = security::keys_of("a");
  return options;
}

class PlainDatagrams : public Nodes {
 protected:
  explicit PlainDatagrams(TransportOptions options = {}) : Nodes(std::move(options)) {}
  void SetUp() override {
    Nodes::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!has_datagrams()) GTEST_SKIP() << "this device has no datagrams";
    path_.emplace(devices_->ports().front().device->context);
    // Connects now, so that the greetings are recorded, too.
    ASSERT_TRUE(connect());
  }
  void TearDown() override {
    Nodes::TearDown();
    client_.reset();
    server_.reset();
    path_.reset();
  }
  // The last datagram of this kind that was sent, or none; `back`: to the opener of the link.
  static std::optional<Path::Seen> last(const std::vector<Path::Seen>& seen, Kind kind, bool back) {
    const auto found = std::find_if(seen.rbegin(), seen.rend(), [&](const Path::Seen& one) {
      return one.header.kind == kind && (kind != Kind::greeting || (one.header.credit_link != 0) == back);
    });
    return found == seen.rend() ? std::nullopt : std::optional(*found);
  }
  // Sends packets until the receiver grants room in a datagram of its own, and returns that datagram.
  std::optional<Path::Seen> credit() {
    for (std::size_t count = 0; count < 4096; ++count) {
      if (send(8, 'c') != RIPC_OK) return std::nullopt;
      receive(sink_.packets.size() + 1);
      if (auto seen = last(Path::take(), Kind::credit, true)) return seen;
    }
    return std::nullopt;
  }
  std::uint64_t strange() const { return sender_of(*server_)->counters().rejected + counters().rejected; }
  // Both ends have the same counters.
  std::uint64_t forged() const { return server_->transport().counters().packets_forged; }
  std::uint64_t replayed() const { return server_->transport().counters().packets_replayed; }
  // Waits until the condition holds. Meanwhile it polls, also the queue pairs of the senders.
  bool comes_true(const std::function<bool()>& condition) {
    return support::eventually([&] {
      (void)channel_->has_room(true);
      (void)port_->poll(sink_, 64);
      return condition();
    });
  }
  // Sends more messages than there is credit for at once. All of them arrive, in order.
  void all_is_well() {
    sink_.packets.clear();
    const std::uint64_t lost = port_->statistics().lost;
    constexpr std::size_t kCount = 6000;
    for (std::size_t count = 0; count < kCount; ++count) {
      ASSERT_TRUE(comes_true([&] { return channel_->has_room(false); })) << count;
      ASSERT_EQ(send(8, static_cast<char>('a' + count % 26)), RIPC_OK) << count;
    }
    ASSERT_NO_FATAL_FAILURE(receive(kCount));
    for (std::size_t count = 0; count < kCount; ++count)
      ASSERT_EQ(sink_.packets[count], std::string(8, static_cast<char>('a' + count % 26))) << count;
    EXPECT_EQ(port_->statistics().lost, lost);
  }

  std::optional<Path> path_;
};

class SignedDatagrams : public PlainDatagrams {
 protected:
  SignedDatagrams() : PlainDatagrams(with_key()) {}
};

TEST_F(PlainDatagrams, AreHeaderAndPacketAndNothingElse) {
  const auto greeting = last(Path::take(), Kind::greeting, false);
  ASSERT_TRUE(greeting);
  EXPECT_EQ(greeting->bytes.size(), kHeaderSize);
  ASSERT_EQ(send(64, 'p'), RIPC_OK);
  ASSERT_NO_FATAL_FAILURE(receive(1));
  const auto packet = last(Path::take(), Kind::data, false);
  ASSERT_TRUE(packet);
  wire::datagram::HeaderBytes head;
  wire::datagram::encode(packet->header, head);
  std::vector<std::byte> expected(head.begin(), head.end());
  expected.resize(kHeaderSize + 64, static_cast<std::byte>('p'));
  EXPECT_EQ(packet->bytes, expected);
  const auto granted = credit();
  ASSERT_TRUE(granted);
  EXPECT_EQ(granted->bytes.size(), kHeaderSize);
  ASSERT_EQ(send(datagram_limit(), 'p'), RIPC_OK);
  ASSERT_NO_FATAL_FAILURE(receive(sink_.packets.size() + 1));
  const auto largest = last(Path::take(), Kind::data, false);
  ASSERT_TRUE(largest);
  EXPECT_EQ(largest->bytes.size(), devices_->ports().front().mtu);
  EXPECT_EQ(channel_->describe(Deadline::after(0)).text.find("signed"), std::string::npos);
}

TEST_F(PlainDatagrams, AreNotTakenWhenTheyLookSigned) {
  ASSERT_EQ(send(64, 'p'), RIPC_OK);
  ASSERT_NO_FATAL_FAILURE(receive(1));
  const auto packet = last(Path::take(), Kind::data, false);
  ASSERT_TRUE(packet);
  std::vector<std::byte> wrapped(packet->bytes.size() + kSealedOverhead);
  wrapped.front() = static_cast<std::byte>(security::kSealedVersion);
  std::copy(packet->bytes.begin(), packet->bytes.end(), wrapped.begin() + security::kSealedHead);
  const std::uint64_t corrupt = port_->statistics().corrupt;
  Path::bring(*packet, wrapped);
  EXPECT_TRUE(comes_true([&] { return port_->statistics().corrupt == corrupt + 1; }));
  EXPECT_EQ(sink_.packets.size(), 1u);
}

TEST_F(PlainDatagrams, OfAPacketThatIsNotWholeAreDroppedAndTheNextPacketIsNot) {
  ASSERT_EQ(send(64, 'p'), RIPC_OK);
  ASSERT_NO_FATAL_FAILURE(receive(1));
  const auto packet = last(Path::take(), Kind::data, false);
  ASSERT_TRUE(packet);
  std::uint32_t number = packet->header.sequence;
  const auto bring = [&](std::uint8_t before, std::uint8_t after) {
    Header header = packet->header;
    header.before = before;
    header.after = after;
    header.sequence = number;
    wire::datagram::HeaderBytes head;
    wire::datagram::encode(header, head);
    std::vector<std::byte> bytes(head.begin(), head.end());
    bytes.resize(kHeaderSize + 10, static_cast<std::byte>('0' + before));
    Path::bring(*packet, bytes);
  };
  ++number;
  bring(0, 2);
  number += 2;
  bring(2, 0);
  ++number;
  bring(0, 1);
  ++number;
  bring(1, 0);
  ASSERT_NO_FATAL_FAILURE(receive(2));
  EXPECT_EQ(sink_.packets.back(), std::string(10, '0') + std::string(10, '1'));
  EXPECT_EQ(port_->statistics().lost, 1u);
}

TEST_F(SignedDatagrams, CostOneWorkRequestEach) { expect_one_work_request_each(); }

TEST_F(SignedDatagrams, AreAllOfThemAndStayReadable) {
  const std::vector<Path::Seen> opening = Path::take();
  for (const bool back : {false, true}) {
    const auto greeting = last(opening, Kind::greeting, back);
    ASSERT_TRUE(greeting) << back;
    EXPECT_EQ(greeting->bytes.size(), kHeaderSize + kSealedOverhead);
  }
  ASSERT_EQ(send(64, 'p'), RIPC_OK);
  ASSERT_NO_FATAL_FAILURE(receive(1));
  const auto packet = last(Path::take(), Kind::data, false);
  ASSERT_TRUE(packet);
  ASSERT_EQ(packet->bytes.size(), kHeaderSize + 64 + kSealedOverhead);
  EXPECT_EQ(packet->bytes.front(), static_cast<std::byte>(security::kSealedVersion));
  const auto readable = std::search_n(packet->bytes.begin(), packet->bytes.end(), 64, static_cast<std::byte>('p'));
  EXPECT_NE(readable, packet->bytes.end());
  const auto granted = credit();
  ASSERT_TRUE(granted);
  EXPECT_EQ(granted->bytes.size(), kHeaderSize + kSealedOverhead);
  EXPECT_NE(channel_->describe(Deadline::after(0)).text.find("signed datagrams"), std::string::npos);
}

TEST_F(SignedDatagrams, TheLargestOnesArriveWholeByEveryWayOfSending) {
  const std::size_t limit = datagram_limit() - kSealedOverhead;
  ASSERT_EQ(send(limit, 'b'), RIPC_OK);
  ASSERT_EQ(send(limit, 'd', true), RIPC_OK);
  ASSERT_EQ(send(8, 'e', true), RIPC_OK);
  test::flush(*channel_);
  ASSERT_NO_FATAL_FAILURE(receive(3));
  EXPECT_EQ(sink_.packets, (std::vector{std::string(limit, 'b'), std::string(limit, 'd'), std::string(8, 'e')}));
  const std::size_t size = limit - wire::packet_size(1, 0);
  std::byte* const data = client_->pool().lease(size).value();
  std::fill_n(data, size, std::byte{'g'});
  const ripc_item item{data, size, RIPC_ITEM_SHORT, 0};
  const wire::Plain message{.source = 1, .tag = 0, .items = std::span(&item, 1), .bytes = size};
  bool copied = true;
  ASSERT_EQ(channel_->send({.kind = spi::Outgoing::Kind::given, .message = message, .copied = &copied}), RIPC_OK);
  EXPECT_TRUE(copied) << "the device must read what was signed";
  std::array<wire::Plain, 4> messages;
  messages.fill(message);
  std::size_t sent = 0;
  const std::uint64_t doorbells = counters().doorbells;
  ASSERT_EQ(channel_->send_many(messages, sent), RIPC_OK);
  EXPECT_EQ(sent, messages.size());
  EXPECT_EQ(counters().doorbells, doorbells + 1);
  ASSERT_NO_FATAL_FAILURE(receive(8));
  for (std::size_t index = 3; index < 8; ++index)
    EXPECT_EQ(sink_.packets[index].substr(wire::packet_size(1, 0)), std::string(size, 'g')) << index;
  EXPECT_TRUE(client_->pool().release(data).ok());
  ASSERT_EQ(send(5 * limit, 'h'), RIPC_OK) << "in several";
  ASSERT_NO_FATAL_FAILURE(receive(9));
  EXPECT_EQ(sink_.packets.back(), std::string(5 * limit, 'h'));
}

TEST_F(SignedDatagrams, ForgedRepeatedAndCutPacketsAreDroppedAndTheLinkGoesOn) {
  ASSERT_EQ(send(64, 'p'), RIPC_OK);
  ASSERT_NO_FATAL_FAILURE(receive(1));
  const auto packet = last(Path::take(), Kind::data, false);
  ASSERT_TRUE(packet);
  const spi::PortStatistics before = port_->statistics();
  const std::uint64_t forged_before = forged();
  std::uint64_t corrupt = 0;
  // A datagram with a changed token belongs to no link, so it does not count as forged.
  constexpr std::size_t kToken = security::kSealedHead + 8;
  std::uint64_t of_nobody = 0;
  for (std::size_t byte = 1; byte < packet->bytes.size(); byte += 5, ++corrupt) {
    std::vector<std::byte> other = packet->bytes;
    other[byte] ^= std::byte{1};
    of_nobody += byte >= kToken && byte < kToken + 8 ? 1 : 0;
    Path::bring(*packet, other);
  }
  // Cut within the text, so that it still belongs to the link.
  for (std::size_t size = packet->bytes.size() - 1; size >= kHeaderSize + kSealedOverhead; size -= 7, ++corrupt)
    Path::bring(*packet, std::span(packet->bytes).first(size));
  // Without its signature.
  Path::bring(*packet, unverified(packet->bytes));
  ++corrupt;
  Path::bring(*packet, packet->bytes);
  EXPECT_TRUE(comes_true([&] {
    const spi::PortStatistics now = port_->statistics();
    return now.corrupt == before.corrupt + corrupt && now.duplicates == before.duplicates + 1;
  })) << port_->statistics().corrupt - before.corrupt
      << " of " << corrupt;
  EXPECT_EQ(forged() - forged_before, corrupt - of_nobody);
  EXPECT_EQ(replayed(), 1u);
  // Too short for a header, so it belongs to no link.
  for (std::size_t size = 0; size < kHeaderSize; size += 9, ++corrupt)
    Path::bring(*packet, std::span(packet->bytes).first(size));
  EXPECT_TRUE(comes_true([&] { return port_->statistics().corrupt == before.corrupt + corrupt; }));
  EXPECT_EQ(sink_.packets.size(), 1u);
  ASSERT_NO_FATAL_FAILURE(all_is_well());
}

TEST_F(SignedDatagrams, ForgedAndRepeatedCreditIsNotGranted) {
  const auto granted = credit();
  ASSERT_TRUE(granted);
  ASSERT_TRUE(comes_true([] { return true; }));
  const std::uint64_t before = strange();
  std::vector<std::byte> other = granted->bytes;
  constexpr std::size_t kCredit = security::kSealedHead + 24;
  other[kCredit + 1] ^= std::byte{0x40};  // much more room
  Path::bring(*granted, other);
  Path::bring(*granted, unverified(other));
  Path::bring(*granted, granted->bytes);
  EXPECT_TRUE(comes_true([&] { return strange() == before + 3; })) << strange() - before;
  EXPECT_EQ(forged(), 2u);
  EXPECT_EQ(replayed(), 1u);
  // The receiver does not read, so the sender must have no more room than was granted.
  std::size_t sent = 0;
  while (sent < 10'000 && send(8, 'c') == RIPC_OK) ++sent;
  EXPECT_LT(sent, 4000u);
  sink_.packets.clear();
  ASSERT_NO_FATAL_FAILURE(receive(sent));
  ASSERT_NO_FATAL_FAILURE(all_is_well());
}

TEST_F(SignedDatagrams, ForgedAndRepeatedGreetingsGetNoAnswer) {
  const std::vector<Path::Seen> opening = Path::take();
  const auto greeting = last(opening, Kind::greeting, false);
  const auto answer = last(opening, Kind::greeting, true);
  ASSERT_TRUE(greeting && answer);
  const std::uint64_t before = strange();
  for (const Path::Seen* one : {&*greeting, &*answer}) {
    std::vector<std::byte> other = one->bytes;
    other.back() ^= std::byte{1};
    Path::bring(*one, other);
    Path::bring(*one, unverified(one->bytes));
    Path::bring(*one, one->bytes);
  }
  EXPECT_TRUE(comes_true([&] { return strange() == before + 6; })) << strange() - before;
  EXPECT_EQ(forged(), 4u);
  EXPECT_EQ(replayed(), 2u);
  EXPECT_FALSE(last(Path::take(), Kind::greeting, true)) << "an answer";
  ASSERT_NO_FATAL_FAILURE(all_is_well());
}

// The greeting is signed correctly, but for another place; each place has its own keys.
TEST_F(SignedDatagrams, AreWorthNothingInAnotherPlace) {
  const auto greeting = last(Path::take(), Kind::greeting, false);
  ASSERT_EQ(send(64, 'p'), RIPC_OK);
  ASSERT_NO_FATAL_FAILURE(receive(1));
  const auto packet = last(Path::take(), Kind::data, false);
  ASSERT_TRUE(greeting && packet);
  const std::uint64_t corrupt = port_->statistics().corrupt;
  Path::bring(*packet, greeting->bytes);
  EXPECT_TRUE(comes_true([&] { return port_->statistics().corrupt == corrupt + 1; }));
  EXPECT_EQ(forged(), 1u);
}

}  // namespace
}  // namespace ripc::internal::verbs
