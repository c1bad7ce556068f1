// SPDX-License-Identifier: Apache-2.0
// The kernel's messages about devices that come and go.
#include <gtest/gtest.h>

#include <string>

#include "transport/verbs/device/uevent_monitor.hpp"

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

TEST(Uevent, OfDevicesThatComeAndGoHaveTheirNames) {
  const Uevent come = parse_uevent(message("add", "infiniband_verbs"));
  EXPECT_TRUE(come.has_come);
  EXPECT_EQ(come.name, "uverbs3");
  const Uevent going = parse_uevent(message("remove", "infiniband_verbs"));
  EXPECT_FALSE(going.has_come);
  EXPECT_EQ(going.name, "uverbs3");
}

TEST(Uevent, OfAnythingElseAreNone) {
  EXPECT_EQ(parse_uevent(message("change", "infiniband_verbs")).name, "");
  EXPECT_EQ(parse_uevent(message("add", "net")).name, "");
  EXPECT_EQ(parse_uevent("").name, "");
  EXPECT_EQ(parse_uevent(std::string("libudev\0garbage", 15)).name, "");
  EXPECT_EQ(parse_uevent(std::string(9000, '\0')).name, "");
  EXPECT_EQ(parse_uevent("ACTION=add").name, "");
}

}  // namespace
}  // namespace ripc::internal::verbs
