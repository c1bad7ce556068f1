// SPDX-License-Identifier: Apache-2.0
#include "capi/handles.hpp"

#include <gtest/gtest.h>

#include "support/failing_allocation.hpp"

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

TEST(CopiedText, IsJoinedWithoutMemory) {
  char field[8];
  const support::FailingAllocation failing(1, support::FailingAllocation::Where::here,
                                           support::FailingAllocation::Count::rest);
  copy_text(field, {"123", ":", "456"});
  EXPECT_STREQ(field, "123:456");
  copy_text(field, {"123", ":", "4567", "8"});
  EXPECT_STREQ(field, "123:...");
  EXPECT_FALSE(failing.failed());
}

}  // namespace
}  // namespace ripc::internal::capi
