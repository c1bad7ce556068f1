// SPDX-License-Identifier: Apache-2.0
// Each figure of ripc_latency is in its own field.
#include "rpc/method_record.hpp"

#include <gtest/gtest.h>

namespace ripc::internal::rpc {
namespace {

TEST(MethodRecord, TellsEachFigureOfTheTimesInItsField) {
  struct Part {
    int count;
    Nanoseconds time;
  };
  MethodRecord record;
  // 1000 times, chosen so that all their figures differ.
  for (const Part& part :
       {Part{1, 2'000}, Part{499, 10'000}, Part{400, 30'000}, Part{90, 70'000}, Part{9, 150'000}, Part{1, 1'000'000}}) {
    for (int each = 0; each < part.count; ++each) record.time.add(part.time);
  }
  const ripc_latency latency = record.latency();
  EXPECT_EQ(latency.count, 1000U);
  EXPECT_EQ(latency.minimum, 2'000U);
  EXPECT_EQ(latency.mean, 25'642U);
  EXPECT_EQ(latency.maximum, 1'000'000U);
  struct Share {
    const char* name;
    Nanoseconds told, exact;
  };
  for (const Share& share : {Share{"50 %", latency.p50, 10'000}, Share{"90 %", latency.p90, 30'000},
                             Share{"99 %", latency.p99, 70'000}, Share{"99.9 %", latency.p999, 150'000}}) {
    EXPECT_GE(share.told, share.exact) << share.name;
    EXPECT_LE(share.told, share.exact + share.exact * 16 / 1000) << share.name;
  }
}

}  // namespace
}  // namespace ripc::internal::rpc
