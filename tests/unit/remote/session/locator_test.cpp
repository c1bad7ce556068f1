// SPDX-License-Identifier: Apache-2.0
#include "remote/session/locator.hpp"

#include <gtest/gtest.h>

namespace ripc::internal::remote {
namespace {

TEST(Locator, IsReadAsItWasWritten) {
  Locator locator;
  locator.context = 0x123;
  locator.host = "abc.4026531840";
  locator.port = 7000;
  locator.ips = {"192.0.2.1", "2001:db8::1"};
  EXPECT_EQ(locator.text(), "ctx=0000000000000123;host=abc.4026531840;port=7000;ip=192.0.2.1;ip=2001:db8::1");
  const Result<Locator> read = Locator::parse(locator.text());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->context, locator.context);
  EXPECT_EQ(read->host, locator.host);
  EXPECT_EQ(read->port, locator.port);
  EXPECT_EQ(read->ips, locator.ips);
}

TEST(Locator, PeopleMayWriteAddressAndPort) {
  const Result<Locator> v4 = Locator::parse("192.0.2.1:7000");
  ASSERT_TRUE(v4.ok());
  EXPECT_EQ(v4->ips, std::vector<std::string>{"192.0.2.1"});
  EXPECT_EQ(v4->port, 7000);
  EXPECT_EQ(v4->context, 0u);
  const Result<Locator> v6 = Locator::parse("[2001:db8::1]:7001");
  ASSERT_TRUE(v6.ok());
  EXPECT_EQ(v6->ips, std::vector<std::string>{"2001:db8::1"});
  EXPECT_EQ(v6->port, 7001);
}

TEST(Locator, InvalidTextIsRefusedWithAdvice) {
  std::string many = "port=1";
  for (std::size_t index = 0; index <= kMaxIps; ++index) many += ";ip=192.0.2.1";
  for (const std::string& text :
       {std::string(), std::string("host"), std::string("host:1"), std::string("192.0.2.1"), std::string("192.0.2.1:0"),
        std::string("192.0.2.1:65536"), std::string("192.0.2.1:1x"), std::string("2001:db8::1:7000"),
        std::string("port=1"), std::string("ip=192.0.2.1"), std::string("port=0;ip=192.0.2.1"),
        std::string("port=1;ip=example.org"), std::string("ctx=0;port=1;ip=::1"), std::string("ctx=g;port=1;ip=::1"),
        std::string("port=1;;ip=::1"), std::string("[::1\0;]:1", 9), std::string("port=1;ip=::1\0x", 15), many}) {
    const Result<Locator> read = Locator::parse(text);
    EXPECT_EQ(read.status().code(), RIPC_INVALID_ARGUMENT) << text;
    EXPECT_NE(read.status().text().find("IP:PORT"), std::string_view::npos);
  }
}

TEST(Locator, LoopbackIsTriedOnlyOnTheSameMachineAndThenFirst) {
  const Result<Locator> locator = Locator::parse("host=a.1;port=1;ip=192.0.2.1;ip=127.0.0.1;ip=::1");
  ASSERT_TRUE(locator.ok());
  const std::vector<Endpoint> there = locator->endpoints("b.1");
  ASSERT_EQ(there.size(), 1u);
  EXPECT_EQ(there[0].text(), "192.0.2.1:1");
  const std::vector<Endpoint> here = locator->endpoints("a.1");
  ASSERT_EQ(here.size(), 3u);
  EXPECT_EQ(here[0].text(), "127.0.0.1:1");
  EXPECT_EQ(here[1].text(), "[::1]:1");
  EXPECT_EQ(Locator::parse("port=1;ip=127.0.0.1")->endpoints("a.1").size(), 1u) << "whoever wrote it knows";
}

TEST(Endpoint, IPv4InIPv6ClothesIsIPv4) {
  Endpoint mapped;
  ASSERT_TRUE(Endpoint::parse("::ffff:192.0.2.1", 7, mapped));
  EXPECT_EQ(mapped.family(), AF_INET);
  EXPECT_EQ(mapped.text(), "192.0.2.1:7");
  Endpoint plain;
  ASSERT_TRUE(Endpoint::parse("192.0.2.1", 8, plain));
  EXPECT_TRUE(mapped.same_ip(plain));
  EXPECT_FALSE(mapped.is_loopback());
}

TEST(HostIdentity, IsTheSameForWhoeverSharesMachineAndNetwork) {
  EXPECT_EQ(host_identity(), host_identity());
  EXPECT_NE(host_identity().find('.'), std::string::npos);
}

}  // namespace
}  // namespace ripc::internal::remote
