// SPDX-License-Identifier: Apache-2.0
// Identities and trust files of the tests.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <memory>
#include <string>

#include "core/service_id.hpp"
#include "security/credentials.hpp"

namespace ripc::internal::security {

inline Trust::Reading reading(std::optional<PublicKey> signer = {}) {
  return {core::id_of_name, core::id_of_group, signer};
}

inline std::shared_ptr<const ClusterKeys> make_keys(const std::string& text) {
  const auto keys = ClusterKeys::parse(text, "test");
  EXPECT_TRUE(keys.ok()) << keys.status().text();
  return keys.ok() ? *keys : nullptr;
}

// One cluster key for each digit; the first one signs.
inline std::shared_ptr<const ClusterKeys> keys_of(std::string_view digits) {
  std::string text;
  // 64 hexadecimal digits that are not all the same.
  for (const char digit : digits) text.append(63, digit).append(digit == '1' ? "2\n" : "1\n");
  return make_keys(text);
}

// The same number always gives the same identity.
inline std::shared_ptr<const Identity> identity_of(unsigned number) {
  std::string digits(64, '1');
  digits[1] = static_cast<char>('0' + number % 10);
  digits[2] = 'f';
  const auto made = Identity::parse("secret ed25519:" + digits + "\n", "test");
  EXPECT_TRUE(made.ok()) << made.status().text();
  return *made;
}

inline std::string key_of(unsigned number) { return public_key_text(identity_of(number)->public_key()); }

inline std::shared_ptr<const Trust> trust_of(const std::string& text) {
  const auto trust = Trust::parse(text, "TRUST", reading());
  EXPECT_TRUE(trust.ok()) << trust.status().text();
  return trust.ok() ? *trust : nullptr;
}

inline void write_file(const std::string& path, const std::string& text, mode_t mode = 0644) {
  // As `ripc trust` does it: a reader sees either the old file or the new one.
  std::ofstream(path + ".new") << text;
  EXPECT_EQ(::chmod((path + ".new").c_str(), mode), 0);
  EXPECT_EQ(::rename((path + ".new").c_str(), path.c_str()), 0);
}

}  // namespace ripc::internal::security
