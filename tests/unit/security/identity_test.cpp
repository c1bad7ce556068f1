// SPDX-License-Identifier: Apache-2.0
#include "security/identity.hpp"

#include <gtest/gtest.h>
#include <sodium.h>
#include <sys/stat.h>

#include "base/hexadecimal.hpp"
#include "support/temporary_directory.hpp"
#include "unit/security/trust_helpers.hpp"

namespace ripc::internal::security {
namespace {

using support::TemporaryDirectory;

std::span<const std::byte> bytes_of_text(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string identity_refusal(const std::string& text) {
  const auto identity = Identity::parse(text, "FILE");
  EXPECT_EQ(identity.status().code(), RIPC_INVALID_ARGUMENT);
  return std::string(identity.status().text());
}

TEST(Identity, ThePublicKeyIsThatOfRfc8032) {
  // RFC 8032, section 7.1, test 1.
  const auto identity =
      Identity::parse("secret ed25519:9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60\n", "test");
  ASSERT_TRUE(identity.ok());
  EXPECT_EQ(public_key_text((*identity)->public_key()),
            "ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
}

TEST(Identity, EveryBitOfKeyPurposePartsAndSignatureCounts) {
  const auto identity = identity_of(1);
  const PublicKey& key = identity->public_key();
  const Signature signature = identity->sign("use", {bytes_of_text("ab"), bytes_of_text("c")});
  EXPECT_TRUE(Identity::verify(key, "use", {bytes_of_text("ab"), bytes_of_text("c")}, signature));
  EXPECT_FALSE(
      Identity::verify(identity_of(2)->public_key(), "use", {bytes_of_text("ab"), bytes_of_text("c")}, signature));
  EXPECT_FALSE(Identity::verify(key, "usf", {bytes_of_text("ab"), bytes_of_text("c")}, signature));
  EXPECT_FALSE(Identity::verify(key, "use", {bytes_of_text("a"), bytes_of_text("bc")}, signature));
  EXPECT_FALSE(Identity::verify(key, "use", {bytes_of_text("abc")}, signature));
  EXPECT_FALSE(Identity::verify(key, "use", {bytes_of_text("ab"), bytes_of_text("c")}, std::span(signature).first(63)));
  for (std::size_t bit = 0; bit < signature.size() * 8; ++bit) {
    Signature changed = signature;
    changed[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(Identity::verify(key, "use", {bytes_of_text("ab"), bytes_of_text("c")}, changed)) << bit;
  }
}

TEST(Identity, BothEndsAgreeOnASharedSecretByTheirExchangeKeys) {
  const auto alice = identity_of(1);
  const auto bob = identity_of(2);
  ExchangeKey of_alice;
  ExchangeKey of_bob;
  ASSERT_TRUE(Identity::exchange_key(alice->public_key(), of_alice));
  ASSERT_TRUE(Identity::exchange_key(bob->public_key(), of_bob));
  const auto raw = [](const auto& key) { return reinterpret_cast<const unsigned char*>(key.data()); };
  std::array<unsigned char, 32> first;
  std::array<unsigned char, 32> second;
  ASSERT_EQ(crypto_scalarmult_curve25519(first.data(), raw(alice->exchange_secret()), raw(of_bob)), 0);
  ASSERT_EQ(crypto_scalarmult_curve25519(second.data(), raw(bob->exchange_secret()), raw(of_alice)), 0);
  EXPECT_EQ(first, second);
}

TEST(Identity, AKeyThatIsNoGoodPointHasNoExchangeKey) {
  ExchangeKey exchange;
  EXPECT_FALSE(Identity::exchange_key(PublicKey{}, exchange));
}

TEST(Identity, ANewOneDiffersAndItsTextIsReadAgain) {
  const auto made = Identity::generate();
  ASSERT_TRUE(made.ok());
  EXPECT_NE((*made)->public_key(), (*Identity::generate())->public_key());
  const auto text = (*made)->secret_text();
  const auto read = Identity::parse({text.data(), text.size()}, "test");
  ASSERT_TRUE(read.ok()) << read.status().text();
  EXPECT_EQ((*read)->public_key(), (*made)->public_key());
}

TEST(Identity, BadTextIsRefusedWithFileLineAndRemedyAndWithoutTheSecret) {
  const std::string secret(62, '7');
  EXPECT_NE(identity_refusal("# nothing\n").find("no secret"), std::string::npos);
  EXPECT_NE(identity_refusal("").find("ripc key new --identity"), std::string::npos);
  EXPECT_NE(identity_refusal("#\nsecret ed25519:" + secret + "x1\n").find("FILE, line 2"), std::string::npos);
  EXPECT_EQ(identity_refusal("secret ed25519:" + secret + "x1\n").find("777"), std::string::npos);
  EXPECT_NE(identity_refusal("secret ed25519:" + std::string(64, '0')).find("guessed"), std::string::npos);
  const std::string good = "secret ed25519:01" + secret + "\n";
  EXPECT_NE(identity_refusal(good + good).find("line 2"), std::string::npos);
}

TEST(Identity, AFileThatOthersMayReadIsRefused) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/identity";
  write_file(path, "secret ed25519:01" + std::string(62, '7') + "\n", 0600);
  EXPECT_TRUE(Identity::load(path).ok());
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  EXPECT_EQ(Identity::load(path).status().code(), RIPC_PERMISSION);
  EXPECT_EQ(Identity::load(directory.path()).status().code(), RIPC_PERMISSION);
  const auto missing = Identity::load(directory.path() + "/gone");
  EXPECT_EQ(missing.status().code(), RIPC_SYSTEM);
  EXPECT_NE(missing.status().text().find("RIPC_IDENTITY_FILE"), std::string_view::npos);
}

}  // namespace
}  // namespace ripc::internal::security
