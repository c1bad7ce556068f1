// SPDX-License-Identifier: Apache-2.0
// What resolvers know of a service after changes that failed.
#include "core/publication.hpp"

#include <gtest/gtest.h>

#include <new>
#include <vector>

#include "core/context.hpp"
#include "core/service.hpp"
#include "fake_source.hpp"

namespace ripc::internal::core {
namespace {

// Like two resolvers, of which only the first has memory for the next change.
class HalfDoneResolver final : public FakeResolver {
 public:
  bool no_memory = false;
  std::vector<ripc_service_id> groups;  // what the first one knows
  Status update(const spi::ServiceRecord& record) override {
    groups = record.groups;
    if (std::exchange(no_memory, false)) throw std::bad_alloc();
    return {};
  }
};

TEST(Publication, TakesAChangeBackThatOnlySomeResolversHadMemoryFor) {
  FakeSources sources;
  auto made = std::make_unique<HalfDoneResolver>();
  HalfDoneResolver& resolver = *made;
  const Result<std::unique_ptr<Context>> context =
      Context::create(fake_parts(std::make_unique<FakeTransport>(sources), std::move(made)));
  ASSERT_TRUE(context.ok());
  const Result<Service*> service = (*context)->services().add({});
  ASSERT_TRUE(service.ok());
  Publication& publication = (*service)->publication();
  constexpr ripc_service_id kJoined = RIPC_GROUP_ID(7);
  const auto change = [&](Status (Publication::*how)(ripc_service_id)) {
    try {
      return (publication.*how)(kJoined).code();
    } catch (const std::bad_alloc&) {
      return RIPC_NO_MEMORY;
    }
  };
  resolver.no_memory = true;
  EXPECT_EQ(change(&Publication::join), RIPC_NO_MEMORY);
  EXPECT_TRUE(resolver.groups.empty());
  EXPECT_EQ(change(&Publication::join), RIPC_OK);
  resolver.no_memory = true;
  EXPECT_EQ(change(&Publication::leave), RIPC_NO_MEMORY);
  EXPECT_EQ(resolver.groups, std::vector{kJoined});
}

}  // namespace
}  // namespace ripc::internal::core
