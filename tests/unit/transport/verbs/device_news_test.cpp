// SPDX-License-Identifier: Apache-2.0
// What the kernel tells of devices that come and go.
#include <gtest/gtest.h>

#include <string>

#include "transport/verbs/device/device_watch.hpp"

namespace ripc::internal::verbs {
namespace {

std::string message(const std::string& action, const std::string& subsystem) {
  const std::string path = "/devices/virtual/" + subsystem + "/uverbs3";
  std::string text = action + "@" + path;
  for (const std::string& line : {"ACTION=" + action, "DEVPATH=" + path, "SUBSYSTEM=" + subsystem,
                                  std::string("MAJOR=231"), std::string("SEQNUM=42")})
    text += '\0' + line;
  return text + '\0';
}

TEST(News, OfDevicesThatComeAndGoHaveTheirNames) {
  const DeviceNews come = parse_device_news(message("add", "infiniband_verbs"));
  EXPECT_TRUE(come.has_come);
  EXPECT_EQ(come.name, "uverbs3");
  const DeviceNews going = parse_device_news(message("remove", "infiniband_verbs"));
  EXPECT_FALSE(going.has_come);
  EXPECT_EQ(going.name, "uverbs3");
}

TEST(News, OfAnythingElseAreNone) {
  EXPECT_EQ(parse_device_news(message("change", "infiniband_verbs")).name, "");
  EXPECT_EQ(parse_device_news(message("add", "net")).name, "");
  EXPECT_EQ(parse_device_news("").name, "");
  EXPECT_EQ(parse_device_news(std::string("libudev\0garbage", 15)).name, "");
  EXPECT_EQ(parse_device_news(std::string(9000, '\0')).name, "");
  EXPECT_EQ(parse_device_news("ACTION=add").name, "");
}

}  // namespace
}  // namespace ripc::internal::verbs
