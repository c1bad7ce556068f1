// SPDX-License-Identifier: Apache-2.0
// How services are waited for.
#include "core/watch.hpp"

#include <gtest/gtest.h>

#include "core/context.hpp"
#include "fake_source.hpp"

namespace ripc::internal::core {
namespace {

// Like that of ZooKeeper, if no server answers.
class SilentResolver final : public FakeResolver {
 public:
  Result<spi::ServiceRecord> resolve(ripc_service_id, Deadline) override { return RIPC_TIMEOUT; }
};

TEST(Watches, FindTheWayBackToASenderWhileNoResolverAnswers) {
  constexpr ripc_service_id kPeer = 7;
  FakeSources sources;
  const Result<std::unique_ptr<Context>> context =
      Context::create(fake_parts(std::make_unique<FakeTransport>(sources), std::make_unique<SilentResolver>()));
  ASSERT_TRUE(context.ok()) << context.status().text();
  const auto look = [&] { return (*context)->watches().wait(kPeer, Deadline::after(0)).status().code(); };
  EXPECT_EQ(look(), RIPC_TIMEOUT);
  (*context)->paths().routes().learn(kPeer, {"fake", "said"});
  EXPECT_EQ(look(), RIPC_OK);
}

}  // namespace
}  // namespace ripc::internal::core
