// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/device/sysfs_devices.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace ripc::internal::verbs {
namespace {

// A made-up sysfs.
class SysfsDevices : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "ripc-sysfs-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << '\n';
  }

  std::filesystem::path root_;
};

TEST_F(SysfsDevices, AMachineWithoutDevicesHasNone) { EXPECT_TRUE(read_sysfs_devices(root_.string()).empty()); }

TEST_F(SysfsDevices, ADeviceHasItsPortsWithTheGidsThatAreNotZero) {
  const std::string device = "class/infiniband/mlx5_0/";
  write(device + "node_type", "1: CA");
  write(device + "ports/1/state", "4: ACTIVE");
  write(device + "ports/1/link_layer", "Ethernet");
  write(device + "ports/1/gids/0", "fe80:0000:0000:0000:0a00:27ff:fe00:0001");
  write(device + "ports/1/gids/1", "0000:0000:0000:0000:0000:ffff:0a4d:0001");
  write(device + "ports/1/gids/2", "0000:0000:0000:0000:0000:0000:0000:0000");
  write(device + "ports/1/gid_attrs/types/1", "RoCE v2");
  write(device + "ports/1/gid_attrs/ndevs/1", "eth0");
  write("class/infiniband_verbs/uverbs3/ibdev", "mlx5_0");
  const std::vector<DeviceInfo> devices = read_sysfs_devices(root_.string());
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices[0].name, "mlx5_0");
  EXPECT_FALSE(devices[0].iwarp);
  EXPECT_EQ(devices[0].node, "/dev/infiniband/uverbs3");
  ASSERT_EQ(devices[0].ports.size(), 1u);
  const PortInfo& port = devices[0].ports[0];
  EXPECT_TRUE(port.active());
  EXPECT_EQ(kind_of(devices[0], port), "RoCE");
  ASSERT_EQ(port.gids.size(), 2u);
  EXPECT_EQ(port.gids[1].index, 1u);
  EXPECT_EQ(port.gids[1].type, "RoCE v2");
  EXPECT_EQ(port.gids[1].netdev, "eth0");
}

TEST_F(SysfsDevices, APortThatIsDownAndAnIwarpDeviceAreDistinguished) {
  write("class/infiniband/siw0/node_type", "4: RNIC");
  write("class/infiniband/siw0/ports/1/state", "1: DOWN");
  write("class/infiniband/siw0/ports/1/link_layer", "Ethernet");
  write("class/infiniband/ibp1/node_type", "1: CA");
  write("class/infiniband/ibp1/ports/1/state", "2: INIT");
  write("class/infiniband/ibp1/ports/1/link_layer", "InfiniBand");
  const std::vector<DeviceInfo> devices = read_sysfs_devices(root_.string());
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(kind_of(devices[0], devices[0].ports.at(0)), "InfiniBand");
  EXPECT_FALSE(devices[0].ports.at(0).active());
  EXPECT_TRUE(devices[1].iwarp);
  EXPECT_EQ(kind_of(devices[1], devices[1].ports.at(0)), "iWARP");
  EXPECT_TRUE(devices[1].node.empty());
}

}  // namespace
}  // namespace ripc::internal::verbs
