// SPDX-License-Identifier: Apache-2.0
#include "resolver/zookeeper/zookeeper_options.hpp"

#include <gtest/gtest.h>

#include "resolver/zookeeper/ensemble_check.hpp"

namespace ripc::internal::resolver {
namespace {

std::string text_of(const char* text) {
  const Result<ZooKeeperOptions> options = parse_zookeeper_options(text);
  return options.ok() ? options->text() : "error";
}

TEST(ZooKeeperOptions, ServersAndFolderAreReadWithTheirDefaults) {
  EXPECT_EQ(text_of("zk1"), "zk1:2181/ripc");
  EXPECT_EQ(text_of("zk1:1,zk-2.example:65535/ripc/production"), "zk1:1,zk-2.example:65535/ripc/production");
  EXPECT_EQ(text_of("10.0.0.1:2181/"), "10.0.0.1:2181");
  EXPECT_EQ(text_of("[::1]:2181,[fe80::1%eth0]"), "[::1]:2181,[fe80::1%eth0]:2181/ripc");
}

TEST(ZooKeeperOptions, TheClientGetsEachAddressWithoutBrackets) {
  const Result<std::string> text = parse_zookeeper_options("[::1]:2181,127.0.0.1:1,[::1]")->connect_text();
  ASSERT_TRUE(text.ok()) << text.status().text();
  EXPECT_EQ(*text, "127.0.0.1:1,::1:2181");
}

TEST(ZooKeeperOptions, ANameWithoutAnAddressIsSaidToHaveNone) {
  const Status status = parse_zookeeper_options("no-such-host.invalid")->connect_text().status();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.text().find("no-such-host.invalid"), std::string_view::npos) << status.text();
}

TEST(ZooKeeperOptions, AMistakeIsNamedWithWhatToWrite) {
  for (const char* text : {"", ",", "zk1,", ":2181", "zk1:", "zk1:0", "zk1:65536", "zk1:x", "zk 1", "zk1//a", "zk1/a/",
                           "zk1/..", "zk1/a b", "[::1", "[::1]x", "[]:1", "::1", "a;b"}) {
    const Status status = parse_zookeeper_options(text).status();
    EXPECT_EQ(status.code(), RIPC_INVALID_ARGUMENT) << text;
    EXPECT_NE(status.text().find("HOST:PORT"), std::string_view::npos) << text;
  }
  std::string many = "a";
  for (int i = 0; i < 16; ++i) many += ",a";
  EXPECT_EQ(text_of(many.c_str()), "error");
}

TEST(ServerAnswer, IsReadFromWhatAServerSays) {
  ServerAnswer answer;
  read_answer("Zookeeper version: 3.8.0-5a02, built on 2022-02-25\nZxid: 0x1\nMode: follower\n", answer);
  EXPECT_EQ(answer.version, "3.8.0");
  EXPECT_EQ(answer.mode, "follower");
  EXPECT_FALSE(answer.is_without_quorum);
  read_answer("This ZooKeeper instance is not currently serving requests\n", answer);
  EXPECT_EQ(answer.version + answer.mode, "");
  EXPECT_TRUE(answer.is_without_quorum);
}

TEST(ServerAnswer, HasNothingThatATerminalWouldObey) {
  ServerAnswer answer;
  read_answer("Zookeeper version: \x1b[2J3.8\nMode: leader\n", answer);
  EXPECT_EQ(answer.version, "");
  EXPECT_EQ(answer.mode, "leader");
}

}  // namespace
}  // namespace ripc::internal::resolver
