// SPDX-License-Identifier: Apache-2.0
#include "core/service_id.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/group_id.hpp"

namespace ripc::internal::core {
namespace {

TEST(ServiceName, HasOneToTwoHundredBytes) {
  EXPECT_EQ(check_service_name(""), RIPC_INVALID_ARGUMENT);
  EXPECT_TRUE(check_service_name("a").ok());
  EXPECT_TRUE(check_service_name(std::string(200, 'a')).ok());
  EXPECT_EQ(check_service_name(std::string(201, 'a')), RIPC_INVALID_ARGUMENT);
}

TEST(ServiceName, IsAnyUtf8Text) {
  for (const char* name :
       {"a b", "sensors.front-left", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x8c\x8d", "\xed\x9f\xbf", "\xee\x80\x80",
        "\xf4\x8f\xbf\xbf", "\xe0\xa0\x80", "\xf0\x90\x80\x80", "\xc2\xa0", "..", "~"})
    EXPECT_TRUE(check_service_name(name).ok()) << name;
}

TEST(ServiceName, HasNoSlashesAndControlCharacters) {
  for (const std::string& name :
       {std::string("/"), std::string("a/b"), std::string("a\n"), std::string("\x1f"), std::string("\x7f"),
        std::string("a\0b", 3), std::string("\xc2\x80"), std::string("\xc2\x9f")})
    EXPECT_EQ(check_service_name(name), RIPC_INVALID_ARGUMENT);
}

TEST(ServiceName, IsNotBrokenUtf8) {
  for (const char* name : {"\x80", "\xff", "\xc3", "\xc3(", "a\xe2\x82", "\xc0\xaf", "\xc1\x81", "\xe0\x9f\xbf",
                           "\xf0\x8f\xbf\xbf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x28\xa1"})
    EXPECT_EQ(check_service_name(name), RIPC_INVALID_ARGUMENT);
}

TEST(ServiceId, OfANameIsAlwaysTheSameAndHasTheTopBitsTen) {
  EXPECT_EQ(service_id_from_name("camera"), service_id_from_name(std::string("camera")));
  EXPECT_NE(service_id_from_name("camera"), service_id_from_name("camera2"));
  for (const char* name : {"a", "camera", "\xc3\xa4"}) {
    EXPECT_EQ(service_id_from_name(name) >> 62, 2u);
    EXPECT_TRUE(is_named(service_id_from_name(name)));
  }
}

TEST(ServiceId, ThatIsRandomHasTheTopBitsElevenAndNeverComesTwice) {
  std::set<ripc_service_id> ids;
  for (int i = 0; i < 1000; ++i) {
    const ripc_service_id id = random_service_id();
    EXPECT_EQ(id >> 62, 3u);
    EXPECT_FALSE(is_named(id));
    EXPECT_TRUE(ids.insert(id).second);
  }
}

TEST(ServiceId, ThatIsWellKnownIsNeitherNamedNorRandom) {
  EXPECT_FALSE(is_named(1));
  EXPECT_FALSE(is_named(RIPC_WELL_KNOWN_MAX));
}

}  // namespace
}  // namespace ripc::internal::core
