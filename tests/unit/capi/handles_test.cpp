// SPDX-License-Identifier: Apache-2.0
#include "capi/handles.hpp"

#include <gtest/gtest.h>

namespace ripc::internal::capi {
namespace {

TEST(CopiedText, IsWholeWhereThereIsRoom) {
  char field[8];
  copy_text(field, "1234567");
  EXPECT_STREQ(field, "1234567");
}

TEST(CopiedText, ShowsThatItIsCut) {
  char field[8];
  copy_text(field, "12345678");
  EXPECT_STREQ(field, "1234...");
}

}  // namespace
}  // namespace ripc::internal::capi
