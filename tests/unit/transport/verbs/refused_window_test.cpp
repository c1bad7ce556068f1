// SPDX-License-Identifier: Apache-2.0
// Devices that claim to have memory windows, and refuse them: over a real device, both ends in this process.
#include <gtest/gtest.h>

#include "altered_device.hpp"
#include "connected_ends.hpp"

namespace ripc::internal::verbs {
namespace {

constexpr std::size_t kRefusedBytes = 64 << 10;

class RefusedWindows : public ConnectedEnds {
 protected:
  // The peer can read what the owner opens.
  void expect_that_remote_keys_work(const DevicePort& port) {
    Lease exposed = lease(kRefusedBytes, std::byte{0x11});
    Lease own = lease(kRefusedBytes, std::byte{0x22});
    // The unaltered device: what the peer does by itself needs no windows.
    Registrar registrar(port.device, pool_);
    const RegionPointer local = registrar.local(own.data, kRefusedBytes, true)->region;
    const Result<std::shared_ptr<RemoteKey>> remote_key =
        open(exposed.data, kRefusedBytes, exposed.hold.arena(), false);
    ASSERT_TRUE(remote_key.ok()) << remote_key.status().text();
    EXPECT_EQ((*remote_key)->window(), nullptr);
    let_the_peer_hear_of_it();
    EXPECT_EQ(operate(false, own.data, *local, exposed.data, (*remote_key)->key(), kRefusedBytes), RIPC_OK);
    EXPECT_EQ(own.data[kRefusedBytes - 1], std::byte{0x11});
  }
};

TEST_F(RefusedWindows, WhenTheyCannotBeAllocatedLeaveRegistrations) {
  bool any = false;
  for (const DevicePort& port : devices_->ports()) {
    if (port.device->windows) continue;
    any = true;
    SCOPED_TRACE(port.device->name);
    device_ = with_narrow_windows(port.device);
    ASSERT_NO_FATAL_FAILURE(connect(port));
    expect_that_remote_keys_work(port);
    disconnect();
  }
  if (!any) GTEST_SKIP() << "each device here has windows";
}

TEST_F(RefusedWindows, WhenTheyCannotBeBoundLeaveRegistrationsOnTheNextConnection) {
  bool any = false;
  for (const DevicePort& port : devices_->ports()) {
    if (!port.device->windows) continue;
    any = true;
    SCOPED_TRACE(port.device->name);
    device_ = with_narrow_windows(port.device);
    ASSERT_NO_FATAL_FAILURE(connect(port));
    // The device refuses to bind the window, because the range does not lie in this arena.
    const Lease other = lease(kRefusedBytes, std::byte{0});
    const std::vector<std::byte> outside(kRefusedBytes, std::byte{0x11});
    const Result<std::shared_ptr<RemoteKey>> remote_key =
        open(outside.data(), kRefusedBytes, other.hold.arena(), false);
    ASSERT_TRUE(owner_ends_->lost());
    EXPECT_FALSE(registrar_->has_windows());
    disconnect();
    ASSERT_NO_FATAL_FAILURE(connect(port, registrar_));
    expect_that_remote_keys_work(port);
    disconnect();
  }
  if (!any) GTEST_SKIP() << "no device here has windows";
}

// The device is right to refuse the window of a transfer that was withdrawn at once.
TEST_F(RefusedWindows, ThatHadEndedBeforeAreNotHeldAgainstTheDevice) {
  for (const DevicePort& port : devices_->ports()) {
    if (!port.device->windows) continue;
    SCOPED_TRACE(port.device->name);
    device_ = with_narrow_windows(port.device);
    ASSERT_NO_FATAL_FAILURE(connect(port));
    const Lease other = lease(kRefusedBytes, std::byte{0});
    const std::vector<std::byte> outside(kRefusedBytes, std::byte{0x11});
    // Keeps the responder busy, which would read the completions.
    on_loop([&] {
      const Result<std::shared_ptr<RemoteKey>> remote_key =
          open(outside.data(), kRefusedBytes, other.hold.arena(), false);
      ASSERT_TRUE(remote_key.ok()) << remote_key.status().text();
      (*remote_key)->end();
    });
    ASSERT_TRUE(owner_ends_->lost());
    EXPECT_TRUE(registrar_->has_windows());
    disconnect();
  }
}

}  // namespace
}  // namespace ripc::internal::verbs
