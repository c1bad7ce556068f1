// SPDX-License-Identifier: Apache-2.0
#include "base/cluster_key.hpp"

#include <sys/stat.h>

#include <cstring>
#include <fstream>

#include "base/hexadecimal.hpp"
#include "process_helpers.hpp"

namespace ripc::internal {
namespace {

using test::mentions;
using test::TemporaryDirectory;
using Keys = std::shared_ptr<const ClusterKeys>;

const std::string kOld = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const std::string kNew = "f0e0d0c0b0a090807060504030201000ffeeddccbbaa99887766554433221100";
const std::string kOther = "8899aabbccddeeff00112233445566778899aabbccddeeff0011223344556677";

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

Keys parse(const std::string& text) {
  Result<Keys> keys = ClusterKeys::parse(text, "test");
  EXPECT_TRUE(keys.ok()) << keys.status().text();
  return keys.ok() ? *keys : nullptr;
}

std::string refusal(const std::string& text) {
  const Result<Keys> keys = ClusterKeys::parse(text, "KEYFILE");
  EXPECT_EQ(keys.status().code(), RIPC_INVALID_ARGUMENT);
  return std::string(keys.status().text());
}

std::string write_file(const TemporaryDirectory& directory, const std::string& text, mode_t mode) {
  const std::string path = directory.path() + "/key";
  std::ofstream(path) << text;
  EXPECT_EQ(::chmod(path.c_str(), mode), 0);
  return path;
}

TEST(ClusterKeys, TheMacIsThatOfBlake2b) {
  // BLAKE2b-256 with the key 00..1f over u64(4) "test" u64(3) "abc", from an independent implementation (hashlib).
  const ClusterKeys::Mac mac = parse(kOld)->mac("test", {bytes("abc")});
  std::string hex;
  for (const std::byte byte : mac) {
    hex += "0123456789abcdef"[std::to_integer<unsigned>(byte) >> 4];
    hex += "0123456789abcdef"[std::to_integer<unsigned>(byte) & 15];
  }
  EXPECT_EQ(hex, "12f7a48f14df3e11fd5f78a12f5e491a2152bfd5e3afed5c354ba85b51329803");
}

TEST(ClusterKeys, EveryBitOfPurposePartsAndMacCounts) {
  const Keys keys = parse(kOld);
  const ClusterKeys::Mac mac = keys->mac("use", {bytes("ab"), bytes("c")});
  EXPECT_TRUE(keys->verify("use", {bytes("ab"), bytes("c")}, mac));
  EXPECT_FALSE(keys->verify("use", {bytes("a"), bytes("bc")}, mac));
  EXPECT_FALSE(keys->verify("use", {bytes("abc")}, mac));
  EXPECT_FALSE(keys->verify("use", {bytes("ab"), bytes("c"), bytes("")}, mac));
  EXPECT_FALSE(keys->verify("usf", {bytes("ab"), bytes("c")}, mac));
  EXPECT_FALSE(keys->verify("use", {bytes("ab"), bytes("d")}, mac));
  for (std::size_t bit = 0; bit < mac.size() * 8; ++bit) {
    ClusterKeys::Mac changed = mac;
    changed[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(keys->verify("use", {bytes("ab"), bytes("c")}, changed)) << bit;
  }
  EXPECT_FALSE(keys->verify("use", {bytes("ab"), bytes("c")}, std::span(mac).first(31)));
  EXPECT_FALSE(keys->verify("use", {bytes("ab"), bytes("c")}, {}));
}

TEST(ClusterKeys, RotationHasNoGap) {
  // The states that a cluster passes through in order; hosts in neighbouring states must understand each other.
  const std::array<Keys, 4> states{parse(kOld), parse(kOld + "\n" + kNew), parse(kNew + "\n" + kOld), parse(kNew)};
  EXPECT_EQ(states[0]->size(), 1U);
  EXPECT_EQ(states[1]->size(), 2U);
  const auto understands = [](const Keys& to, const Keys& from) {
    return to->verify("use", {bytes("x")}, from->mac("use", {bytes("x")}));
  };
  for (std::size_t i = 0; i + 1 < states.size(); ++i) {
    EXPECT_TRUE(understands(states[i], states[i + 1])) << i;
    EXPECT_TRUE(understands(states[i + 1], states[i])) << i;
  }
  EXPECT_FALSE(understands(states[0], states[3]));
  EXPECT_FALSE(understands(states[1], parse(kOther)));
}

TEST(ClusterKeys, CommentsBlankLinesAndLineEndsDoNotCount) {
  const Keys keys = parse("# cluster\r\n\r\n  " + kOld + " \r\n# next\n" + kNew + "\n\n");
  EXPECT_EQ(keys->size(), 2U);
  EXPECT_EQ(keys->mac("use", {}), parse(kOld)->mac("use", {}));
}

TEST(ClusterKeys, ASignerOfTheTrustFileMayBeNamed) {
  EXPECT_FALSE(parse(kOld)->signer().has_value());
  const Keys keys = parse("signer ed25519:" + kNew + "\n" + kOld);
  ASSERT_TRUE(keys->signer().has_value());
  EXPECT_EQ(hexadecimal(*keys->signer()), kNew);
  EXPECT_EQ(keys->size(), 1U);
  EXPECT_NE(refusal(kOld + "\nsigner " + kNew).find("KEYFILE, line 2"), std::string::npos);
  const std::string signer = "signer ed25519:" + kNew + "\n";
  EXPECT_NE(refusal(kOld + "\n" + signer + signer).find("line 3: this is a second signer"), std::string::npos);
}

TEST(ClusterKeys, BadTextIsRefusedWithFileLineAndRemedyAndWithoutTheSecret) {
  EXPECT_NE(refusal("").find("no key"), std::string::npos);
  EXPECT_NE(refusal("").find("ripc key new"), std::string::npos);
  EXPECT_NE(refusal("#\n" + kOld.substr(1)).find("KEYFILE, line 2"), std::string::npos);
  EXPECT_NE(refusal(kOld + "0").find("65 characters"), std::string::npos);
  const std::string typo = refusal(kOld.substr(0, 63) + "g");
  EXPECT_NE(typo.find("not a hexadecimal digit"), std::string::npos);
  EXPECT_EQ(typo.find(kOld.substr(0, 8)), std::string::npos);
  EXPECT_NE(refusal(kOld + "\n" + kNew + "\n" + kOther).find("third key"), std::string::npos);
  EXPECT_NE(refusal(std::string(64, '0')).find("guessed"), std::string::npos);
  EXPECT_NE(refusal(std::string(1, '\0')).find("1 characters"), std::string::npos);
}

TEST(ClusterKeys, AFileOfThisUserAloneIsRead) {
  const TemporaryDirectory directory;
  for (const mode_t mode : {mode_t{0600}, mode_t{0400}}) {
    const Result<Keys> keys = ClusterKeys::load(write_file(directory, kOld + "\n", mode));
    ASSERT_TRUE(keys.ok()) << keys.status().text();
    EXPECT_EQ((*keys)->mac("use", {}), parse(kOld)->mac("use", {}));
    ::unlink((directory.path() + "/key").c_str());
  }
}

TEST(ClusterKeys, AFileThatOthersMayUseIsRefused) {
  const TemporaryDirectory directory;
  for (const mode_t mode : {mode_t{0640}, mode_t{0620}, mode_t{0604}, mode_t{0601}}) {
    const Result<Keys> keys = ClusterKeys::load(write_file(directory, kOld, mode));
    EXPECT_EQ(keys.status().code(), RIPC_PERMISSION) << mode;
    EXPECT_TRUE(mentions(keys.status(), "chmod 600"));
  }
}

TEST(ClusterKeys, AFileOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const TemporaryDirectory directory;
  const std::string path = write_file(directory, kOld, 0600);
  ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
  const Result<Keys> keys = ClusterKeys::load(path);
  EXPECT_EQ(keys.status().code(), RIPC_PERMISSION);
  EXPECT_TRUE(mentions(keys.status(), "12345"));
}

TEST(ClusterKeys, OnlyASmallPlainFileIsReadAndAMissingOneIsExplained) {
  const TemporaryDirectory directory;
  EXPECT_EQ(ClusterKeys::load(directory.path()).status().code(), RIPC_PERMISSION);
  const std::string pipe = directory.path() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(ClusterKeys::load(pipe).status().code(), RIPC_PERMISSION);
  const Result<Keys> missing = ClusterKeys::load(directory.path() + "/gone");
  EXPECT_EQ(missing.status().code(), RIPC_SYSTEM);
  EXPECT_TRUE(mentions(missing.status(), "RIPC_CLUSTER_KEY_FILE"));
  const Result<Keys> huge = ClusterKeys::load(write_file(directory, std::string(5000, '#'), 0600));
  EXPECT_EQ(huge.status().code(), RIPC_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace ripc::internal
