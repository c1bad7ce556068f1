// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/bulk/connection_private_data.hpp"

#include <gtest/gtest.h>

namespace ripc::internal::verbs {
namespace {

const wire::session_control::Nonce kNonce{std::byte{1}, std::byte{2}};

const security::Secret kSecret({std::byte{7}});
const security::Secret kOther({std::byte{8}});

TEST(ConnectionPrivateData, SaysWhichSessionAndWhichAttempt) {
  ConnectionPrivateData said;
  ASSERT_TRUE(parse(make_private_data(nullptr, Side::dialing, kNonce, 77, 5), said));
  EXPECT_EQ(said.session, 77u);
  EXPECT_EQ(said.number, 5u);
  EXPECT_TRUE(is_proven(nullptr, Side::dialing, kNonce, said));
}

TEST(ConnectionPrivateData, OfAnotherVersionIsNone) {
  PrivateData private_data = make_private_data(nullptr, Side::dialing, kNonce, 77, 5);
  private_data[0] = std::byte{1};
  ConnectionPrivateData said;
  EXPECT_FALSE(parse(private_data, said));
}

TEST(ConnectionPrivateData, ProvesTheSecretTheSideTheSessionAndTheNonce) {
  ConnectionPrivateData said;
  ASSERT_TRUE(parse(make_private_data(&kSecret, Side::dialing, kNonce, 77, 5), said));
  EXPECT_TRUE(is_proven(&kSecret, Side::dialing, kNonce, said));
  EXPECT_FALSE(is_proven(&kSecret, Side::accepting, kNonce, said)) << "it could be sent back as the answer";
  EXPECT_FALSE(is_proven(&kSecret, Side::dialing, {}, said));
  EXPECT_FALSE(is_proven(&kOther, Side::dialing, kNonce, said));
  EXPECT_FALSE(is_proven(nullptr, Side::dialing, kNonce, said))
      << "whoever has no secret does not take one for nothing";
  ConnectionPrivateData other = said;
  other.session = 78;
  EXPECT_FALSE(is_proven(&kSecret, Side::dialing, kNonce, other));
  other = said;
  other.number = 6;
  EXPECT_FALSE(is_proven(&kSecret, Side::dialing, kNonce, other));
}

TEST(ConnectionPrivateData, WithoutSecretShowsTheNonce) {
  ConnectionPrivateData said;
  ASSERT_TRUE(parse(make_private_data(nullptr, Side::dialing, {}, 77, 5), said));
  EXPECT_FALSE(is_proven(nullptr, Side::dialing, kNonce, said)) << "the session's number alone is no proof";
}

TEST(ConnectionPrivateData, WithoutSecretIsRefusedByASideThatHasOne) {
  ConnectionPrivateData said;
  ASSERT_TRUE(parse(make_private_data(nullptr, Side::dialing, kNonce, 77, 5), said));
  EXPECT_FALSE(is_proven(&kSecret, Side::dialing, kNonce, said));
}

}  // namespace
}  // namespace ripc::internal::verbs
