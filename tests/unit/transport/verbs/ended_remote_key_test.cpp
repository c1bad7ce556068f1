// SPDX-License-Identifier: Apache-2.0
// When a ticket or a return buffer has ended, the peer's old key opens nothing. This runs over each device. The owner's
// side is real; the test plays the peer.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "connected_ends.hpp"
#include "core/state/ticket.hpp"
#include "transport/verbs/bulk/rdma_bulk.hpp"

namespace ripc::internal::verbs {
namespace {

namespace bulk = wire::bulk;

constexpr std::size_t kItemBytes = 64 << 10;
constexpr std::uint64_t kOwner = 1;

// The part of a channel that a ticket needs.
class BulkChannel final : public spi::Channel {
 public:
  explicit BulkChannel(RdmaBulk& bulk) : Channel({.reports_ends = true}), bulk_(bulk) {}
  ripc_status widen(std::size_t) noexcept override { return RIPC_OK; }
  ripc_status send(const spi::Outgoing&) noexcept override { return RIPC_UNSUPPORTED; }
  ripc_status send_many(std::span<const wire::Plain>, std::size_t&) noexcept override { return RIPC_UNSUPPORTED; }
  bool has_room(bool) noexcept override { return true; }
  ripc_status expose(std::span<const spi::Exposure> items, std::span<wire::Descriptor> descriptors,
                     std::uint64_t& transfer) noexcept override {
    const ripc_status status = bulk_.expose(kOwner, items, descriptors, transfer);
    bulk_.send_offers();
    return status;
  }
  ripc_status poll_transfer(std::uint64_t transfer, bool notify) noexcept override {
    return notify && bulk_.watch(transfer) ? RIPC_PENDING : bulk_.transfer_status(transfer);
  }
  ripc_status revoke(std::uint64_t transfer, bool& is_read) noexcept override {
    is_read = false;
    return bulk_.revoke(transfer);
  }
  ripc_status grant(std::span<std::byte> memory, wire::Grant& grant) noexcept override {
    return bulk_.grant(kOwner, memory, grant);
  }
  ripc_status end_grant(const wire::Grant& grant) noexcept override { return bulk_.end_grant(grant); }
  Description describe(Deadline) override { return {}; }

 private:
  RdmaBulk& bulk_;
};

class EndedRemoteKeys : public ConnectedEnds {
 protected:
  Status start_owner() override {
    remote::BulkHooks hooks{.finished =
                                [this](std::uint64_t, std::uint64_t transfer, ripc_status status) {
                                  if (keeper_->transfer_finished(*channel_, transfer, status))
                                    (void)channel_->poll_transfer(transfer, false);
                                },
                            .dial = [] {},
                            .repeat = [](std::uint64_t, spi::Bytes) {}};
    bulk_ =
        std::make_shared<RdmaBulk>(remote::Endpoint(), registrar_, pool_, *loop_, std::move(hooks), kConnectionLimit);
    bulk_->start();
    channel_ = std::make_shared<BulkChannel>(*bulk_);
    keeper_ = std::make_unique<core::TicketKeeper>(*loop_);
    bulk_->adopt(owner_, false);
    return {};
  }
  void TearDown() override {
    end();
    ConnectedEnds::TearDown();
  }
  void end() {
    if (!bulk_) return;
    keeper_->shut_down();
    bulk_->died();
    disconnect();
    keeper_.reset();
    channel_.reset();
    bulk_.reset();
  }

  // Prepares the memory of the peer, and fills it.
  void prepare(std::byte fill) {
    own_ = std::make_unique<Lease>(lease(kItemBytes, fill));
    local_ = registrar_->local(own_->data, kItemBytes, true)->region;
  }
  // An item that the peer may read, and that was offered to it.
  struct Offered {
    wire::Descriptor descriptor{};
    std::uint64_t transfer = 0;
    std::uint32_t key = 0;
    // The peer's report that it has finished the item, and has ended the key `ended`.
    bulk::Frame finish(std::uint32_t ended) const {
      return {.type = bulk::Type::finish, .id = ended, .key = descriptor.key, .location = descriptor.location};
    }
  };
  // `frames`: how many frames have come to the peer, including the offer.
  Offered expose(const Lease& item, std::size_t frames) {
    Offered offered;
    const spi::Exposure exposure{.bytes = {item.data, kItemBytes}, .hold = &item.hold};
    EXPECT_EQ(channel_->expose(std::span(&exposure, 1), std::span(&offered.descriptor, 1), offered.transfer), RIPC_OK);
    const Deadline hears = Deadline::after(kConnectionLimit);
    while (peer_ends_->frames().size() < frames && !hears.expired()) peer_->poll();
    EXPECT_TRUE(peer_ends_->heard(frames));
    const bulk::Frame offer = peer_ends_->frames().back();
    EXPECT_EQ(offer.type, bulk::Type::offer);
    EXPECT_EQ(offer.offset, registrar_->device()->windows ? 1u : 0u);
    offered.key = static_cast<std::uint32_t>(offer.id);
    return offered;
  }
  static bool is_full_of(const Lease& lease, std::byte fill) {
    return std::all_of(lease.data, lease.data + lease.size, [&](std::byte byte) { return byte == fill; });
  }

  std::shared_ptr<RdmaBulk> bulk_;
  std::shared_ptr<BulkChannel> channel_;
  std::unique_ptr<core::TicketKeeper> keeper_;
  std::unique_ptr<Lease> own_;
  RegionPointer local_;
};

TEST_F(EndedRemoteKeys, ReadNothingWhenTheTicketIsComplete) {
  for (const DevicePort& port : devices_->ports()) {
    for (const ripc_status ending : {RIPC_OK, RIPC_TIMEOUT, RIPC_CANCELLED}) {
      SCOPED_TRACE(port.device->name + ", status " + std::to_string(ending));
      ASSERT_NO_FATAL_FAILURE(connect(port));
      prepare(std::byte{0x22});
      Lease item = lease(kItemBytes, std::byte{0x11});
      const Offered offered = expose(item, 1);
      ASSERT_EQ(operate(false, own_->data, *local_, item.data, offered.key, kItemBytes), RIPC_OK);
      ASSERT_TRUE(is_full_of(*own_, std::byte{0x11}));

      core::Ticket::Parts parts;
      parts.channel = channel_;
      parts.transfer = offered.transfer;
      parts.sender = std::make_shared<core::TicketSender>();
      if (ending == RIPC_TIMEOUT) parts.deadline = monotonic_now();
      const std::shared_ptr<core::Ticket> ticket = keeper_->open(keeper_->prepare(std::move(parts)), {}, {});
      if (ending == RIPC_CANCELLED) (void)ticket->cancel();
      if (ending == RIPC_OK) {
        ASSERT_TRUE(peer_->send(offered.finish(0)));
      }
      ASSERT_EQ(ticket->wait(Deadline::after(kConnectionLimit), 0), ending);

      std::fill_n(item.data, kItemBytes, std::byte{0x44});
      EXPECT_NE(operate(false, own_->data, *local_, item.data, offered.key, kItemBytes), RIPC_OK);
      EXPECT_TRUE(is_full_of(*own_, std::byte{0x11})) << "what the memory was used for next was read";
      end();
    }
  }
}

// The peer ends the keys itself, and the window is bound again for the next transfer.
TEST_F(EndedRemoteKeys, ReadNothingByAKeyThatThePeerHasEnded) {
  for (const DevicePort& port : devices_->ports()) {
    if (!port.device->windows) continue;
    SCOPED_TRACE(port.device->name);
    ASSERT_NO_FATAL_FAILURE(connect(port));
    prepare(std::byte{0x22});
    Lease first = lease(kItemBytes, std::byte{0x11});
    Lease second = lease(kItemBytes, std::byte{0x33});
    const Offered one = expose(first, 1);
    ASSERT_EQ(operate(false, own_->data, *local_, first.data, one.key, kItemBytes), RIPC_OK);
    ASSERT_TRUE(is_full_of(*own_, std::byte{0x11}));
    ASSERT_TRUE(peer_->send(one.finish(one.key)));
    ASSERT_TRUE(peer_ends_->heard(2)) << "the answer";
    EXPECT_EQ(channel_->poll_transfer(one.transfer, false), RIPC_OK);

    const Offered two = expose(second, 3);
    EXPECT_EQ(tally_->windows, 1u);
    EXPECT_NE(two.key, one.key);
    ASSERT_EQ(operate(false, own_->data, *local_, second.data, two.key, kItemBytes), RIPC_OK);
    ASSERT_TRUE(is_full_of(*own_, std::byte{0x33}));
    EXPECT_NE(operate(false, own_->data, *local_, second.data, one.key, kItemBytes), RIPC_OK);
    EXPECT_TRUE(is_full_of(*own_, std::byte{0x33}));
    end();
  }
}

// This side ends a key that the peer has not ended. A key that the peer has ended too early is not open.
TEST_F(EndedRemoteKeys, DoNotDependOnWhatThePeerSaysThatItHasEnded) {
  for (const DevicePort& port : devices_->ports()) {
    if (!port.device->windows) continue;
    for (const bool reads_the_first : {true, false}) {
      SCOPED_TRACE(port.device->name);
      ASSERT_NO_FATAL_FAILURE(connect(port));
      prepare(std::byte{0x22});
      Lease first = lease(kItemBytes, std::byte{0x11});
      Lease second = lease(kItemBytes, std::byte{0x33});
      const Offered one = expose(first, 1);
      const Offered two = expose(second, 2);
      ASSERT_TRUE(peer_->send(one.finish(two.key)));
      ASSERT_TRUE(peer_ends_->heard(3));
      EXPECT_EQ(channel_->poll_transfer(one.transfer, false), RIPC_OK);
      EXPECT_EQ(channel_->poll_transfer(two.transfer, false), RIPC_PENDING);
      const Lease& memory = reads_the_first ? first : second;
      EXPECT_NE(operate(false, own_->data, *local_, memory.data, reads_the_first ? one.key : two.key, kItemBytes),
                RIPC_OK);
      EXPECT_TRUE(is_full_of(*own_, std::byte{0x22}));
      end();
    }
  }
}

// Cancelling a request does this to each of its return buffers.
TEST_F(EndedRemoteKeys, WriteNothingWhenTheReturnBufferIsTakenBack) {
  for (const DevicePort& port : devices_->ports()) {
    SCOPED_TRACE(port.device->name);
    ASSERT_NO_FATAL_FAILURE(connect(port));
    prepare(std::byte{0x33});
    Lease buffer = lease(kItemBytes, std::byte{0x11});
    wire::Grant grant{};
    ASSERT_EQ(channel_->grant({buffer.data, kItemBytes}, grant), RIPC_OK);
    ASSERT_TRUE(peer_->send(
        {.type = bulk::Type::ask_write, .id = 1, .key = grant.key, .location = grant.location, .value = kItemBytes}));
    ASSERT_TRUE(peer_ends_->heard(1));
    const bulk::Frame remote_key = peer_ends_->frames().front();
    ASSERT_EQ(remote_key.type, bulk::Type::remote_key);
    ASSERT_EQ(remote_key.value, std::uint64_t{RIPC_OK});
    const auto key = static_cast<std::uint32_t>(remote_key.key);
    ASSERT_EQ(operate(true, own_->data, *local_, buffer.data, key, kItemBytes / 2), RIPC_OK);

    ASSERT_EQ(channel_->end_grant(grant), RIPC_EMPTY);
    std::fill_n(buffer.data, kItemBytes, std::byte{0x44});
    // A device may report a write as done before the refusal; the write is refused all the same.
    (void)operate(true, own_->data, *local_, buffer.data, key, kItemBytes);
    EXPECT_TRUE(is_full_of(buffer, std::byte{0x44}));
    end();
  }
}

}  // namespace
}  // namespace ripc::internal::verbs
