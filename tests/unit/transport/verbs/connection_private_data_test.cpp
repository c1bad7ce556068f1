// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/bulk/connection_private_data.hpp"

#include <gtest/gtest.h>

#include <string>

namespace ripc::internal::verbs {
namespace {

const wire::session_control::Nonce kNonce{std::byte{1}, std::byte{2}};

std::shared_ptr<const ClusterKeys> keys(char digit) {
  const std::string text = std::string(63, digit) + '0';
  Result<std::shared_ptr<const ClusterKeys>> parsed = ClusterKeys::parse(text, "test");
  EXPECT_TRUE(parsed.ok()) << parsed.status().text();
  return parsed.ok() ? *parsed : nullptr;
}

TEST(ConnectionPrivateData, SaysWhichSessionAndWhichAttempt) {
  ConnectionPrivateData said;
  ASSERT_TRUE(parse(make_private_data(nullptr, Side::dialing, kNonce, 77, 5), said));
  EXPECT_EQ(said.session, 77u);
  EXPECT_EQ(said.number, 5u);
  EXPECT_TRUE(is_proven(nullptr, Side::dialing, kNonce, said));
}

TEST(ConnectionPrivateData, OfAnotherVersionIsNone) {
  PrivateData words = make_private_data(nullptr, Side::dialing, kNonce, 77, 5);
  words[0] = std::byte{1};
  ConnectionPrivateData said;
  EXPECT_FALSE(parse(words, said));
}

TEST(ConnectionPrivateData, ProvesTheKeyTheSideTheSessionAndTheNonce) {
  const auto key = keys('7');
  ConnectionPrivateData said;
  ASSERT_TRUE(parse(make_private_data(key.get(), Side::dialing, kNonce, 77, 5), said));
  EXPECT_TRUE(is_proven(key.get(), Side::dialing, kNonce, said));
  EXPECT_FALSE(is_proven(key.get(), Side::accepting, kNonce, said)) << "it could be sent back as the answer";
  EXPECT_FALSE(is_proven(key.get(), Side::dialing, {}, said));
  EXPECT_FALSE(is_proven(keys('8').get(), Side::dialing, kNonce, said));
  EXPECT_FALSE(is_proven(nullptr, Side::dialing, kNonce, said)) << "whoever has no key does not take one for nothing";
  ConnectionPrivateData other = said;
  other.session = 78;
  EXPECT_FALSE(is_proven(key.get(), Side::dialing, kNonce, other));
  other = said;
  other.number = 6;
  EXPECT_FALSE(is_proven(key.get(), Side::dialing, kNonce, other));
}

TEST(ConnectionPrivateData, IsProvenWithTheKeyThatTheOtherSideHas) {
  const Result<std::shared_ptr<const ClusterKeys>> both =
      ClusterKeys::parse(std::string(63, '8') + "0\n" + std::string(63, '7') + "0", "test");
  ASSERT_TRUE(both.ok());
  ConnectionPrivateData said;
  ASSERT_TRUE(parse(make_private_data(both->get(), Side::dialing, kNonce, 77, 5, 1), said));
  EXPECT_TRUE(is_proven(keys('7').get(), Side::dialing, kNonce, said));
  EXPECT_FALSE(is_proven(keys('8').get(), Side::dialing, kNonce, said));
}

TEST(ConnectionPrivateData, WithoutKeyShowsTheNonce) {
  ConnectionPrivateData said;
  ASSERT_TRUE(parse(make_private_data(nullptr, Side::dialing, {}, 77, 5), said));
  EXPECT_FALSE(is_proven(nullptr, Side::dialing, kNonce, said)) << "the session's number alone is no proof";
}

TEST(ConnectionPrivateData, WithoutKeyIsRefusedByWhoeverHasOne) {
  ConnectionPrivateData said;
  ASSERT_TRUE(parse(make_private_data(nullptr, Side::dialing, kNonce, 77, 5), said));
  EXPECT_FALSE(is_proven(keys('7').get(), Side::dialing, kNonce, said));
}

}  // namespace
}  // namespace ripc::internal::verbs
