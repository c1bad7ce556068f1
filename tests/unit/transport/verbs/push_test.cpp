// SPDX-License-Identifier: Apache-2.0
// Writes into a peer's return buffer, over a real device. The test plays the peer; both ends are in this process.
#include <gtest/gtest.h>

#include <thread>

#include "connected_ends.hpp"
#include "transport/verbs/bulk/rdma_bulk.hpp"

namespace ripc::internal::verbs {
namespace {

namespace bulk = wire::bulk;

constexpr std::size_t kPushedBytes = std::size_t{16} << 20;

// Here, the owner of the bytes writes them.
class Pushes : public ConnectedEnds {
 protected:
  Status start_owner() override {
    remote::BulkHooks hooks{.finished = [](std::uint64_t, std::uint64_t, ripc_status) {},
                            .dial = [] {},
                            .repeat = [](std::uint64_t, spi::Bytes) {}};
    bulk_ =
        std::make_shared<RdmaBulk>(remote::Endpoint(), registrar_, pool_, *loop_, std::move(hooks), kConnectionLimit);
    bulk_->start();
    bulk_->adopt(owner_, false);
    return {};
  }
  void TearDown() override {
    end();
    ConnectedEnds::TearDown();
  }
  void end() {
    if (!bulk_) return;
    bulk_->died();
    disconnect();
    bulk_.reset();
  }

  std::shared_ptr<RdmaBulk> bulk_;
};

TEST_F(Pushes, AreNotOverBeforeTheDeviceHasReadTheBytesWhateverThePeerSays) {
  for (const DevicePort& port : devices_->ports()) {
    SCOPED_TRACE(port.device->name);
    ASSERT_NO_FATAL_FAILURE(connect(port));
    const Lease bytes = lease(kPushedBytes, std::byte{0x11});
    const Lease buffer = lease(kPushedBytes, std::byte{0x22});
    const std::uint64_t before = tally_->bytes_written;
    ripc_status status = RIPC_PENDING;
    std::uint64_t written = 0;
    // Runs in the responder, so that it sees nothing of the device between the end of the push and the look at the
    // count.
    std::thread replier([&] {
      on_loop([&] {
        status = bulk_->push({.key = 1, .location = 1, .length = kPushedBytes}, {bytes.data, kPushedBytes});
        written = tally_->bytes_written - before;
      });
    });
    std::shared_ptr<RemoteKey> remote_key;
    if (peer_ends_->heard(1)) {
      // The peer answers a write that has not happened yet, together with the remote key for it.
      on_loop([&] {
        const std::uint64_t id = peer_ends_->frames().front().id;
        Result<std::shared_ptr<RemoteKey>> made =
            peer_->open({buffer.data, kPushedBytes}, buffer.hold.arena(), true, [&](const RemoteKey& opened) {
              return bulk::Frame{.type = bulk::Type::remote_key,
                                 .id = id,
                                 .key = opened.key(),
                                 .location = reinterpret_cast<std::uint64_t>(buffer.data),
                                 .value = std::uint64_t{RIPC_OK}};
            });
        if (made.ok()) remote_key = std::move(*made);
        (void)peer_->send({.type = bulk::Type::pushed, .id = id, .value = std::uint64_t{RIPC_OK}});
      });
    }
    replier.join();
    ASSERT_NE(remote_key, nullptr);
    EXPECT_EQ(status, RIPC_OK);
    EXPECT_EQ(written, kPushedBytes);
    remote_key->end();
    end();
  }
}

}  // namespace
}  // namespace ripc::internal::verbs
