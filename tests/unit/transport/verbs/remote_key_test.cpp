// SPDX-License-Identifier: Apache-2.0
// What a peer may reach by RDMA, and that this right ends: over a real device, both ends in this process.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <memory>

#include "altered_device.hpp"
#include "connected_ends.hpp"

namespace ripc::internal::verbs {
namespace {

class RemoteKeys : public ConnectedEnds {};

constexpr std::size_t kAllowedBytes = 64 << 10;

TEST_F(RemoteKeys, ALateReadFailsAndBringsNothing) {
  for (const DevicePort& port : devices_->ports()) {
    for (const bool pooled : {true, false}) {
      SCOPED_TRACE(port.device->name + (pooled ? ", pool memory" : ", memory of the application"));
      connect(port);
      if (HasFatalFailure()) return;
      Lease exposed = lease(kAllowedBytes, std::byte{0x11});
      Lease destination = lease(kAllowedBytes, std::byte{0x22});
      const RegionPointer local = registrar_->local(destination.data, kAllowedBytes, true)->region;
      Result<std::shared_ptr<RemoteKey>> remote_key =
          open(exposed.data, kAllowedBytes, pooled ? exposed.hold.arena() : nullptr, false);
      ASSERT_TRUE(remote_key.ok()) << remote_key.status().text();
      let_the_peer_hear_of_it();
      const std::uint32_t key = (*remote_key)->key();
      EXPECT_EQ(operate(false, destination.data, *local, exposed.data, key, kAllowedBytes), RIPC_OK);
      EXPECT_TRUE(std::all_of(destination.data, destination.data + kAllowedBytes,
                              [](std::byte byte) { return byte == std::byte{0x11}; }));
      (*remote_key)->end();
      std::fill_n(destination.data, kAllowedBytes, std::byte{0x22});
      EXPECT_NE(operate(false, destination.data, *local, exposed.data, key, kAllowedBytes), RIPC_OK);
      EXPECT_TRUE(std::all_of(destination.data, destination.data + kAllowedBytes,
                              [](std::byte byte) { return byte == std::byte{0x22}; }));
      disconnect();
    }
  }
}

TEST_F(RemoteKeys, ALateWriteFailsAndTouchesNothing) {
  for (const DevicePort& port : devices_->ports()) {
    for (const bool pooled : {true, false}) {
      SCOPED_TRACE(port.device->name + (pooled ? ", pool memory" : ", memory of the application"));
      connect(port);
      if (HasFatalFailure()) return;
      Lease granted = lease(kAllowedBytes, std::byte{0x11});
      Lease bytes = lease(kAllowedBytes, std::byte{0x33});
      const RegionPointer local = registrar_->local(bytes.data, kAllowedBytes, false)->region;
      Result<std::shared_ptr<RemoteKey>> remote_key =
          open(granted.data, kAllowedBytes, pooled ? granted.hold.arena() : nullptr, true);
      ASSERT_TRUE(remote_key.ok()) << remote_key.status().text();
      let_the_peer_hear_of_it();
      const std::uint32_t key = (*remote_key)->key();
      EXPECT_EQ(operate(true, bytes.data, *local, granted.data, key, kAllowedBytes / 2), RIPC_OK);
      EXPECT_TRUE(std::all_of(granted.data, granted.data + kAllowedBytes / 2,
                              [](std::byte byte) { return byte == std::byte{0x33}; }));
      (*remote_key)->end();
      std::fill_n(granted.data, kAllowedBytes, std::byte{0x11});
      (void)operate(true, bytes.data, *local, granted.data, key, kAllowedBytes);
      // A device may report a write as done before the refusal; the write is refused all the same.
      EXPECT_TRUE(std::all_of(granted.data, granted.data + kAllowedBytes,
                              [](std::byte byte) { return byte == std::byte{0x11}; }));
      disconnect();
    }
  }
}

TEST_F(RemoteKeys, ReachNoFurtherThanTheirRangeAndTheirDirection) {
  for (const DevicePort& port : devices_->ports()) {
    for (const int attempt : {0, 1, 2}) {
      SCOPED_TRACE(port.device->name + ", attempt " + std::to_string(attempt));
      connect(port);
      if (HasFatalFailure()) return;
      Lease memory = lease(3 * kAllowedBytes, std::byte{0x11});
      Lease own = lease(kAllowedBytes, std::byte{0x22});
      const RegionPointer local = registrar_->local(own.data, kAllowedBytes, true)->region;
      std::byte* const middle = memory.data + kAllowedBytes;
      Result<std::shared_ptr<RemoteKey>> remote_key = open(middle, kAllowedBytes, memory.hold.arena(), false);
      ASSERT_TRUE(remote_key.ok()) << remote_key.status().text();
      let_the_peer_hear_of_it();
      const std::uint32_t key = (*remote_key)->key();
      if (attempt == 0) {
        EXPECT_NE(operate(false, own.data, *local, middle - 64, key, 128), RIPC_OK);
      }
      if (attempt == 1) {
        EXPECT_NE(operate(false, own.data, *local, middle + kAllowedBytes - 64, key, 128), RIPC_OK);
      }
      if (attempt == 2) (void)operate(true, own.data, *local, middle, key, 128);
      EXPECT_TRUE(
          std::all_of(own.data, own.data + kAllowedBytes, [](std::byte byte) { return byte == std::byte{0x22}; }));
      EXPECT_TRUE(std::all_of(memory.data, memory.data + 3 * kAllowedBytes,
                              [](std::byte byte) { return byte == std::byte{0x11}; }));
      disconnect();
    }
  }
}

// What a naive cache would do, for comparison: the device keeps using the pages that were registered.
TEST_F(RemoteKeys, ARegistrationThatOutlivesItsMappingShowsTheOldBytes) {
  const DevicePort port = devices_->ports().front();
  connect(port);
  if (HasFatalFailure()) return;
  const auto map = [](void* at) {
    return ::mmap(at, kAllowedBytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | (at != nullptr ? MAP_FIXED : 0), -1, 0);
  };
  auto* const exposed = static_cast<std::byte*>(map(nullptr));
  std::fill_n(exposed, kAllowedBytes, std::byte{0x11});
  Lease destination = lease(kAllowedBytes, std::byte{0});
  const RegionPointer local = registrar_->local(destination.data, kAllowedBytes, true)->region;
  const Result<RegionPointer> naive = registrar_->range(exposed, kAllowedBytes, IBV_ACCESS_REMOTE_READ);
  ASSERT_TRUE(naive.ok()) << naive.status().text();
  ASSERT_TRUE(owner_->send({.type = wire::bulk::Type::remote_key, .id = 1, .key = 1}));
  let_the_peer_hear_of_it();
  ASSERT_EQ(map(exposed), exposed);
  std::fill_n(exposed, kAllowedBytes, std::byte{0x22});
  EXPECT_EQ(operate(false, destination.data, *local, exposed, (*naive)->remote_key(), kAllowedBytes), RIPC_OK);
  EXPECT_EQ(destination.data[0], std::byte{0x11});
  ::munmap(exposed, kAllowedBytes);
  disconnect();
}

// The registration below the window stays; the remote key does not.
TEST_F(RemoteKeys, AKeptRegistrationOpensNothingWhenTheRemoteKeyHasEnded) {
  for (const DevicePort& port : devices_->ports()) {
    if (!port.device->windows) continue;
    SCOPED_TRACE(port.device->name);
    auto* const exposed = static_cast<std::byte*>(
        ::mmap(nullptr, 2 * kAllowedBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::fill_n(exposed, 2 * kAllowedBytes, std::byte{0x11});
    ASSERT_TRUE(pool_.register_memory(exposed, 2 * kAllowedBytes).ok());
    for (const int attempt : {0, 1, 2}) {
      connect(port);
      if (HasFatalFailure()) return;
      Lease destination = lease(kAllowedBytes, std::byte{0x22});
      const RegionPointer local = registrar_->local(destination.data, kAllowedBytes, true)->region;
      Result<std::shared_ptr<RemoteKey>> remote_key = open(exposed, kAllowedBytes, nullptr, false);
      ASSERT_TRUE(remote_key.ok()) << remote_key.status().text();
      let_the_peer_hear_of_it();
      EXPECT_EQ(operate(false, destination.data, *local, exposed, (*remote_key)->key(), kAllowedBytes), RIPC_OK);
      EXPECT_EQ(destination.data[0], std::byte{0x11});
      std::fill_n(destination.data, kAllowedBytes, std::byte{0x22});
      const Registrations made(*devices_);
      const RegionPointer kept = *registrar_->for_window(exposed, kAllowedBytes, nullptr);
      EXPECT_EQ(made.count(), 0u) << "nothing was kept";
      // Tries the ended remote key, the key of the registration itself, and a range past the end of the current remote
      // key.
      if (attempt == 0) {
        const std::uint32_t key = (*remote_key)->key();
        (*remote_key)->end();
        EXPECT_NE(operate(false, destination.data, *local, exposed, key, kAllowedBytes), RIPC_OK);
      } else if (attempt == 1) {
        EXPECT_NE(operate(false, destination.data, *local, exposed, kept->remote_key(), kAllowedBytes), RIPC_OK);
      } else {
        EXPECT_NE(operate(false, destination.data, *local, exposed + kAllowedBytes - 64, (*remote_key)->key(), 128),
                  RIPC_OK);
      }
      EXPECT_TRUE(std::all_of(destination.data, destination.data + kAllowedBytes,
                              [](std::byte byte) { return byte == std::byte{0x22}; }));
      disconnect();
    }
    ASSERT_TRUE(pool_.unregister_memory(exposed).ok());
    ::munmap(exposed, 2 * kAllowedBytes);
  }
}

// Where a window reaches no further than its range, the part is registered with its arena.
TEST_F(RemoteKeys, APartOfAnArenaThatIsOpenedAgainAndAgainIsRegisteredOnce) {
  for (const DevicePort& port : devices_->ports()) {
    if (!port.device->windows) continue;
    SCOPED_TRACE(port.device->name);
    connect(port);
    if (HasFatalFailure()) return;
    {
      Lease exposed = lease(kAllowedBytes, std::byte{0x11});
      const Registrations made(*devices_);
      for (int round = 0; round < 10; ++round)
        EXPECT_TRUE(open(exposed.data, kAllowedBytes, exposed.hold.arena(), false).ok());
      EXPECT_EQ(made.count(), 1u);
      // The pool has freed the arena: no registration may be left that stands for other memory at the same place.
      registrar_->arena_gone(exposed.hold.arena()->id);
      EXPECT_TRUE(open(exposed.data, kAllowedBytes, exposed.hold.arena(), false).ok());
      EXPECT_EQ(made.count(), 2u);
    }
    disconnect();
  }
}

TEST_F(RemoteKeys, AnArenaIsRegisteredOnce) {
  connect(devices_->ports().front());
  if (HasFatalFailure()) return;
  Lease first = lease(kAllowedBytes, std::byte{1});
  Lease second = lease(kAllowedBytes, std::byte{2});
  ASSERT_EQ(first.hold.arena(), second.hold.arena());
  const Registrations made(*devices_);
  for (int round = 0; round < 10; ++round) {
    EXPECT_TRUE(registrar_->local(first.data, kAllowedBytes, false).ok());
    EXPECT_TRUE(registrar_->local(second.data, kAllowedBytes, false).ok());
  }
  EXPECT_EQ(made.count(), 1u);
}

}  // namespace
}  // namespace ripc::internal::verbs
