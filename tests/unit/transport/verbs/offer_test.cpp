// SPDX-License-Identifier: Apache-2.0
// Long items that their owner opens to the peer before the peer asks, over a real device; and what one such item costs.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "../spi_calls.hpp"
#include "altered_device.hpp"
#include "long_items.hpp"

namespace ripc::internal::verbs {
namespace {

class Offers : public LongItems {
 protected:
  // Exposes an item of the client; the server takes its message.
  Item expose(std::byte fill) {
    std::fill_n(bytes_, kSize, fill);
    const Item item = LongItems::expose();
    EXPECT_EQ(begin(item), RIPC_OK);
    return item;
  }
  // An owner opens nothing before there is a connection, so a first transfer makes one.
  void make_connection() {
    const Item item = expose(std::byte{1});
    ASSERT_EQ(pull(item), RIPC_OK);
    ASSERT_EQ(finish(item), RIPC_OK);
    ASSERT_EQ(outcome_of(item.transfer), RIPC_OK);
  }
  bool becomes(const std::function<bool()>& state) const {
    const Deadline deadline = Deadline::after(kLimit);
    while (!state() && !deadline.expired()) std::this_thread::yield();
    return state();
  }
  // Offers wake no one, so this polls.
  static std::size_t offers_to(const RdmaBulk& server) {
    server.connection()->poll();
    return server.offers();
  }
  // Waits until everything that this side has sent is there: a write of zero bytes, posted after it, has completed.
  void pass_all_of(const RdmaBulk& side) const {
    const std::uint64_t completions = side.tally()->completions;
    ASSERT_TRUE(side.connection()->post({.write = true, .id = 1}));
    side.connection()->flush();
    ASSERT_TRUE(becomes([&] {
      side.connection()->poll();
      return side.tally()->completions != completions;
    }));
  }
};

TEST_F(Offers, AreReadWithoutAskingAndALongMessageCostsThisMuch) {
  ASSERT_NO_FATAL_FAILURE(make_connection());
  RdmaBulk& server = bulk_of(*server_);
  RdmaBulk& client = bulk_of(*client_);
  const std::uint64_t reader = server.tally()->work_requests;
  const std::uint64_t owner = client.tally()->work_requests;
  const std::uint64_t doorbells = server.tally()->doorbells + client.tally()->doorbells;
  const Item item = expose(std::byte{2});
  ASSERT_TRUE(becomes([&] { return offers_to(server) == 1; }));
  EXPECT_EQ(pull(item, true), RIPC_OK);
  EXPECT_EQ(server.offers(), 0u);
  EXPECT_EQ(window_[0], std::byte{2});
  EXPECT_EQ(window_[kSize - 1], std::byte{2});
  // The end was reported with the last byte; this call only asks for the answer.
  EXPECT_EQ(finish(item), RIPC_OK);
  EXPECT_EQ(outcome_of(item.transfer), RIPC_OK);
  EXPECT_EQ(server.tally()->work_requests - reader, 2u) << "a read and the end";
  // The window (if the device has windows), the offer, and the answer to the end.
  const std::uint64_t windows = devices_->devices().front()->windows ? 1 : 0;
  EXPECT_EQ(client.tally()->work_requests - owner, windows + 2);
  // One each for the read, for the end, for the window with the offer, and for the answer.
  EXPECT_EQ(server.tally()->doorbells + client.tally()->doorbells - doorbells, 4u);
  EXPECT_EQ(server.connections_made(), 1u);
}

// Each item is read by a new key of that window. The end of the transfer ends the key.
TEST_F(Offers, OneAfterTheOtherAreByOneWindow) {
  const bool has_windows = devices_->devices().front()->windows;
  ASSERT_NO_FATAL_FAILURE(make_connection());
  RdmaBulk& client = bulk_of(*client_);
  const std::uint64_t windows = client.tally()->windows;
  const std::uint64_t remote_keys = client.tally()->remote_keys;
  constexpr std::size_t kItems = MemoryWindowPool::kKeys + 10;
  for (std::size_t index = 0; index < kItems; ++index) {
    const Item item = expose(static_cast<std::byte>(index));
    ASSERT_TRUE(becomes([&] { return offers_to(bulk_of(*server_)) == 1; }));
    ASSERT_EQ(pull(item, true), RIPC_OK);
    EXPECT_EQ(window_[kSize - 1], static_cast<std::byte>(index));
    ASSERT_EQ(finish(item), RIPC_OK);
    ASSERT_EQ(outcome_of(item.transfer), RIPC_OK);
  }
  EXPECT_EQ(client.tally()->remote_keys - remote_keys, kItems);
  EXPECT_EQ(client.tally()->windows - windows, has_windows ? 2u : 0u)
      << "the second one when the first had no more keys";
  EXPECT_EQ(client.connections_made(), 1u);
}

// The first two reads have a completion each; all that are requested while those are under way share one. Transfers
// that end together are reported together, and answered together.
TEST_F(Offers, ManyUnderWayCostFewCompletionsAndDoorbells) {
  ASSERT_NO_FATAL_FAILURE(make_connection());
  RdmaBulk& server = bulk_of(*server_);
  RdmaBulk& client = bulk_of(*client_);
  constexpr std::size_t kItems = 10;
  std::vector<Item> items;
  for (std::size_t index = 0; index < kItems; ++index) items.push_back(expose(static_cast<std::byte>(index)));
  ASSERT_TRUE(becomes([&] { return offers_to(server) == kItems; }));
  std::vector<spi::Pull> pulls;
  for (const Item& item : items) pulls.push_back({.descriptor = item.descriptor, .destination = window_});
  const std::uint64_t completions = server.tally()->completions;
  const std::uint64_t doorbells = server.tally()->doorbells;
  {
    const Node::Pause pause = server_->pause();
    for (spi::Pull& pull : pulls) ASSERT_EQ(sink_.source->pull(pull), RIPC_PENDING);
    EXPECT_EQ(server.tally()->doorbells - doorbells, 2u);
  }
  const Deadline deadline = Deadline::after(kLimit);
  for (spi::Pull& pull : pulls) {
    while (sink_.source->pull(pull) == RIPC_PENDING && !deadline.expired()) {
    }
    EXPECT_EQ(pull.status, RIPC_OK);
  }
  EXPECT_EQ(window_[kSize - 1], static_cast<std::byte>(kItems - 1)) << "they are read in their order";
  EXPECT_EQ(server.tally()->completions - completions, 3u);
  EXPECT_EQ(server.tally()->doorbells - doorbells, 3u);
  const std::uint64_t answers = client.tally()->doorbells;
  {
    const Node::Pause pause = client_->pause();
    for (const Item& item : items) EXPECT_EQ(sink_.source->finish(item.descriptor, RIPC_OK), RIPC_PENDING);
    ASSERT_NO_FATAL_FAILURE(pass_all_of(server));
  }
  for (const Item& item : items) {
    EXPECT_EQ(finish(item), RIPC_OK);
    EXPECT_EQ(outcome_of(item.transfer), RIPC_OK);
  }
  EXPECT_EQ(client.tally()->doorbells - answers, 1u);
}

// Takes messages as a service does, and starts to pull the item of each.
class PullingSink final : public spi::PacketSink {
 public:
  explicit PullingSink(std::span<spi::Pull> pulls) : pulls_(pulls) {}
  spi::Delivery deliver(spi::Source& from, spi::Bytes, const Memory*) noexcept override {
    EXPECT_EQ(from.pull(pulls_[taken++]), RIPC_PENDING);
    return spi::Delivery::taken;
  }
  Memory make_room(std::size_t) noexcept override { return {}; }
  void source_gone(spi::Source&) noexcept override {}
  std::size_t taken = 0;

 private:
  const std::span<spi::Pull> pulls_;
};

// Eight items under way cost the reader one doorbell and one completion for all reads that a poll finds, and one
// doorbell for all ends. They cost the owner one doorbell for all answers. Links over UDP (iWARP) hand out each message
// by itself, however many a poll finds. There, the first two reads have a completion each, and all others share one.
TEST_F(Offers, ThatComeTogetherAreReadEndedAndAnsweredTogether) {
  ASSERT_NO_FATAL_FAILURE(make_connection());
  RdmaBulk& server = bulk_of(*server_);
  RdmaBulk& client = bulk_of(*client_);
  const bool is_by_udp = devices_->devices().front()->iwarp;
  constexpr std::size_t kItems = 8;
  std::vector<Item> items;
  std::vector<spi::Pull> pulls;
  for (std::size_t index = 0; index < kItems; ++index) items.push_back(expose(static_cast<std::byte>(index)));
  for (const Item& item : items)
    pulls.push_back({.descriptor = item.descriptor, .destination = window_, .finishes = true});
  ASSERT_TRUE(becomes([&] { return offers_to(server) == kItems; }));
  for (std::size_t index = 0; index < kItems; ++index) ASSERT_EQ(send(8, 'b'), RIPC_OK);
  const std::uint64_t requests = server.tally()->work_requests;
  const std::uint64_t doorbells = server.tally()->doorbells;
  const std::uint64_t completions = server.tally()->completions;
  const std::uint64_t answers = client.tally()->doorbells;
  const Deadline deadline = Deadline::after(kLimit);
  PullingSink sink(pulls);
  std::uint64_t looks = 0;
  {
    const Node::Pause pause = client_->pause();
    {
      const Node::Pause reading = server_->pause();
      while (sink.taken < kItems && !deadline.expired()) looks += port_->poll(sink, 64) != 0 ? 1u : 0u;
      ASSERT_EQ(sink.taken, kItems);
      EXPECT_LE(server.tally()->doorbells - doorbells, is_by_udp ? 2 : looks);
    }
    for (spi::Pull& pull : pulls) {
      while (sink_.source->pull(pull) == RIPC_PENDING && !deadline.expired()) {
      }
      EXPECT_EQ(pull.status, RIPC_OK);
    }
    ASSERT_TRUE(becomes([&] { return server.tally()->work_requests - requests == 2 * kItems; }));
    const std::uint64_t lots = is_by_udp ? 3 : looks;
    EXPECT_LE(server.tally()->completions - completions, lots);
    EXPECT_LE(server.tally()->doorbells - doorbells, 2 * lots);
    ASSERT_NO_FATAL_FAILURE(pass_all_of(server));
  }
  for (const Item& item : items) {
    EXPECT_EQ(finish(item), RIPC_OK);
    EXPECT_EQ(outcome_of(item.transfer), RIPC_OK);
  }
  EXPECT_EQ(client.tally()->doorbells - answers, 1u);
}

TEST_F(Offers, WakeNoOne) {
  ASSERT_NO_FATAL_FAILURE(make_connection());
  RdmaBulk& server = bulk_of(*server_);
  const std::uint64_t activity = server.connection()->activity();
  std::vector<Item> items;
  for (std::byte fill : {std::byte{1}, std::byte{2}, std::byte{3}}) items.push_back(expose(fill));
  ASSERT_NO_FATAL_FAILURE(pass_all_of(bulk_of(*client_)));
  // The responder has looked twice at everything there was.
  for (int times = 0; times < 2; ++times) (void)server_->pause();
  if (devices_->devices().front()->context->device->transport_type == IBV_TRANSPORT_IB) {
    EXPECT_EQ(server.connection()->activity(), activity);
  }
  for (const Item& item : items) {
    EXPECT_EQ(pull(item), RIPC_OK);
    EXPECT_EQ(finish(item), RIPC_OK);
  }
}

// This happens when the owner's device is removed: its memory goes before its connections. The reader asks the owner
// again.
TEST_F(Offers, ThatTheDeviceDoesNotKnowAnyMoreCostTheConnectionAndNotTheItem) {
  ASSERT_NO_FATAL_FAILURE(make_connection());
  RdmaBulk& server = bulk_of(*server_);
  const Item item = expose(std::byte{2});
  ASSERT_TRUE(becomes([&] { return offers_to(server) == 1; }));
  wire::bulk::Frame offer{
      .type = wire::bulk::Type::offer, .key = item.descriptor.key, .location = item.descriptor.location};
  ASSERT_TRUE(bulk_of(*client_).connection()->send(offer));
  ASSERT_TRUE(becomes([&] { return offers_to(server) == 0; })) << "it was taken back";
  offer.id = 1;  // no remote key of the client's
  offer.value = reinterpret_cast<std::uint64_t>(bytes_);
  ASSERT_TRUE(bulk_of(*client_).connection()->send(offer));
  ASSERT_TRUE(becomes([&] { return offers_to(server) == 1; }));
  EXPECT_EQ(pull(item), RIPC_OK);
  EXPECT_EQ(window_[kSize - 1], std::byte{2});
  EXPECT_EQ(finish(item), RIPC_OK);
  EXPECT_EQ(outcome_of(item.transfer), RIPC_OK);
  EXPECT_EQ(server.connections_made(), 2u);
}

// Offers use up receive buffers of the peer, which posts new ones only when it looks.
TEST_F(Offers, WakeThePeerWhenThereAreMany) {
  ASSERT_NO_FATAL_FAILURE(make_connection());
  RdmaBulk& server = bulk_of(*server_);
  const std::uint64_t activity = server.connection()->activity();
  for (std::uint32_t count = 0; count < QueuePairConnection::kReceives; ++count) {
    const Item item = expose(std::byte{1});
    EXPECT_EQ(test::revoke(*channel_, item.transfer), RIPC_REVOKED);
  }
  EXPECT_TRUE(becomes([&] { return server.connection()->activity() - activity > QueuePairConnection::kReceives; }));
  EXPECT_EQ(server.connections_made(), 1u);
}

// A receiver that looks for an offer may find a frame that only the responder may handle. It leaves that frame to the
// responder.
TEST_F(Offers, AReceiverThatLooksForThemLeavesToTheResponderWhatIsThatOnes) {
  ASSERT_NO_FATAL_FAILURE(make_connection());
  RdmaBulk& server = bulk_of(*server_);
  RdmaBulk& client = bulk_of(*client_);
  Item item;
  // The client asks the server for a read, as it would for a long item of the server that was not offered.
  {
    const Node::Pause pause = server_->pause();
    const std::uint64_t polled = server.tally()->polled;
    ASSERT_TRUE(client.connection()->send({.type = wire::bulk::Type::ask_read, .id = 2, .key = 1, .location = 1}));
    item = expose(std::byte{2});
    ASSERT_TRUE(becomes([&] {
      server.connection()->poll();
      return server.tally()->polled - polled >= 2;
    }));
    EXPECT_EQ(server.offers(), 1u);
  }
  EXPECT_EQ(pull(item), RIPC_OK);
  EXPECT_EQ(finish(item), RIPC_OK);
  EXPECT_EQ(outcome_of(item.transfer), RIPC_OK);
  ASSERT_NO_FATAL_FAILURE(make_connection());
  EXPECT_EQ(server.connections_made(), 1u);
}

// A read by a key that has ended would break the connection.
TEST_F(Offers, AreTakenBackWithTheTransfer) {
  ASSERT_NO_FATAL_FAILURE(make_connection());
  RdmaBulk& server = bulk_of(*server_);
  const Item item = expose(std::byte{2});
  ASSERT_TRUE(becomes([&] { return offers_to(server) == 1; }));
  EXPECT_EQ(test::revoke(*channel_, item.transfer), RIPC_REVOKED);
  ASSERT_TRUE(becomes([&] { return offers_to(server) == 0; }));
  EXPECT_EQ(pull(item), RIPC_REVOKED);
  (void)finish(item, RIPC_REFUSED);
  ASSERT_NO_FATAL_FAILURE(make_connection());
  EXPECT_EQ(server.connections_made(), 1u);
}

// A sender that is far ahead opens only a limited number of items. It opens the rest when the receiver asks for them.
TEST_F(Offers, AreLimitedAndWhatIsNotOfferedCanBePulled) {
  ASSERT_NO_FATAL_FAILURE(make_connection());
  RdmaBulk& server = bulk_of(*server_);
  std::vector<Item> items;
  constexpr std::size_t kItems = 100;
  for (std::size_t index = 0; index < kItems; ++index) items.push_back(expose(std::byte{3}));
  ASSERT_TRUE(becomes([&] { return offers_to(server) != 0; }));
  for (const Item& item : items) {
    ASSERT_EQ(pull(item), RIPC_OK);
    ASSERT_EQ(finish(item), RIPC_OK);
    EXPECT_LE(server.offers(), kItems / 2);
  }
  for (const Item& item : items) EXPECT_EQ(outcome_of(item.transfer), RIPC_OK);
  EXPECT_EQ(server.connections_made(), 1u);
}

// The writes of many answers fill a queue in this way.
TEST_F(Offers, AreReadAsSoonAsAFullQueueHasRoom) {
  ASSERT_NO_FATAL_FAILURE(make_connection());
  RdmaBulk& server = bulk_of(*server_);
  const Item item = expose(std::byte{2});
  ASSERT_TRUE(becomes([&] { return offers_to(server) == 1; }));
  // Writes of zero bytes; the device gets them together with what pull() enqueues.
  while (server.connection()->post({.write = true, .id = 1})) {
  }
  EXPECT_EQ(pull(item), RIPC_OK);
  EXPECT_EQ(window_[kSize - 1], std::byte{2});
  EXPECT_EQ(finish(item), RIPC_OK);
  EXPECT_EQ(outcome_of(item.transfer), RIPC_OK);
  EXPECT_EQ(server.connections_made(), 1u);
}

// The device no longer knows the window, so that a peer of iWARP cannot write there.
TEST_F(Offers, LeaveAWindowThatIsTakenAwayDuringTheReadUnregistered) {
  ASSERT_NO_FATAL_FAILURE(make_connection());
  const Item item = expose(std::byte{2});
  ASSERT_TRUE(becomes([&] { return offers_to(bulk_of(*server_)) == 1; }));
  std::vector<std::byte> window(kSize);
  spi::Pull pull{.descriptor = item.descriptor, .destination = window.data()};
  const Registrations made(*devices_);
  // Nobody learns that the read has ended.
  const auto pause = server_->pause();
  ASSERT_EQ(sink_.source->pull(pull), RIPC_PENDING);
  ASSERT_EQ(made.open(), 1u);
  sink_.source->abandon(pull);
  EXPECT_EQ(made.open(), 0u);
}

}  // namespace
}  // namespace ripc::internal::verbs
