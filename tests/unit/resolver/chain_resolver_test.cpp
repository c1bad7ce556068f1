// SPDX-License-Identifier: Apache-2.0
#include "resolver/chain/chain_resolver.hpp"

#include <functional>
#include <map>
#include <utility>

#include "resolver/static/static_resolver.hpp"
#include "resolver_helpers.hpp"
#include "spi/holder_rules.hpp"

namespace ripc::internal::resolver {
namespace {

constexpr ripc_service_id kService = 1000;
constexpr std::uint64_t kContext = 7;

// A resolver with its own records, the semantics of the SPI, and failures on demand. It logs the calls that it gets.
class FakeResolver final : public spi::Resolver {
 public:
  std::string_view name() const noexcept override { return "fake"; }
  Result<ServiceRecord> resolve(ripc_service_id id, Deadline deadline) override {
    calls.emplace_back("resolve");
    last_deadline = deadline;
    if (!failure.ok()) return failure;
    const auto found = records.find(id);
    if (found == records.end()) return Status(RIPC_NO_SERVICE);
    return found->second;
  }
  Status publish(ServiceRecord& record, bool takeover, std::vector<ServiceRecord>* displaced) override {
    calls.emplace_back("publish");
    if (!failure.ok()) return failure;
    const auto found = records.find(record.id);
    if (found != records.end()) {
      if (Status status = spi::check_holder(record, found->second, takeover); !status.ok()) return status;
      if (displaced != nullptr) displaced->push_back(found->second);
      previous = std::max(previous, found->second.incarnation);
    }
    if (always_raises) previous = std::max(previous, record.incarnation);
    if (record.incarnation <= previous) record.incarnation = previous + 1;
    previous = record.incarnation;
    records[record.id] = record;
    if (once_published) std::exchange(once_published, {})();
    return {};
  }
  Status update(const ServiceRecord& record) override {
    calls.emplace_back("update");
    if (!failure.ok()) return failure;
    const auto found = records.find(record.id);
    if (found == records.end() || found->second.incarnation != record.incarnation) return Status(RIPC_FENCED);
    found->second = record;
    return {};
  }
  Status members(ripc_service_id group, Deadline deadline,
                 const std::function<void(const ServiceRecord&)>& visit) override {
    calls.emplace_back("members");
    last_deadline = deadline;
    for (const auto& [id, record] : records) {
      if (record.is_in(group)) visit(record);
    }
    return failure;
  }
  void withdraw(const ServiceRecord& record) noexcept override {
    calls.emplace_back("withdraw");
    const auto found = records.find(record.id);
    if (found != records.end() && found->second == record) records.erase(found);
  }
  void invalidate(const ServiceRecord&) noexcept override { calls.emplace_back("invalidate"); }
  Status observe(EventLoop&, spi::Observer observer, spi::Observe what) override {
    observers.emplace_back(what, std::move(observer));
    return {};
  }
  std::vector<std::pair<spi::Observe, spi::Observer>> observers;
  Status list(const std::function<void(const ServiceRecord&)>& visit) override {
    calls.emplace_back("list");
    for (const auto& [id, record] : records) visit(record);
    return failure;
  }

  std::map<ripc_service_id, ServiceRecord> records;
  Status failure;
  std::uint64_t previous = 100;  // incarnation
  bool always_raises = false;
  std::function<void()> once_published;  // runs when the next record has been published here
  Deadline last_deadline = Deadline::never();
  std::vector<std::string> calls;
};

ServiceRecord record_of(ripc_service_id id, std::uint64_t context = kContext, std::uint64_t incarnation = 0) {
  ServiceRecord record;
  record.id = id;
  record.context = context;
  record.incarnation = incarnation;
  record.addresses = {{"shm", "#" + std::to_string(context)}};
  return record;
}

class ChainResolverTest : public ::testing::Test {
 protected:
  ChainResolverTest() {
    std::vector<std::unique_ptr<spi::Resolver>> resolvers;
    for (FakeResolver*& fake : fakes_) {
      auto resolver = std::make_unique<FakeResolver>();
      fake = resolver.get();
      resolvers.push_back(std::move(resolver));
    }
    chain_ = std::make_unique<ChainResolver>(std::move(resolvers));
  }
  Result<ServiceRecord> resolve(ripc_service_id id) { return chain_->resolve(id, Deadline::never()); }

  FakeResolver* fakes_[3] = {};
  std::unique_ptr<ChainResolver> chain_;
};

TEST_F(ChainResolverTest, TheFirstAnswerWinsAndTheRestIsNotAsked) {
  fakes_[1]->records[kService] = record_of(kService, 1);
  fakes_[2]->records[kService] = record_of(kService, 2);
  const Result<ServiceRecord> found = resolve(kService);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->context, 1u);
  EXPECT_EQ(fakes_[0]->calls.size(), 1u);
  EXPECT_TRUE(fakes_[2]->calls.empty());
}

TEST_F(ChainResolverTest, NoServiceOnlyIfAllSaySo) {
  const Status status = resolve(kService).status();
  EXPECT_EQ(status.code(), RIPC_NO_SERVICE);
  EXPECT_FALSE(status.text().empty());
  for (const FakeResolver* fake : fakes_) EXPECT_EQ(fake->calls.size(), 1u);
}

TEST_F(ChainResolverTest, TheErrorNamesTheResolversThatWereNotAsked) {
  std::vector<std::unique_ptr<spi::Resolver>> resolvers;
  resolvers.push_back(std::make_unique<FakeResolver>());
  auto& known = static_cast<FakeResolver&>(*resolvers.back());
  ChainResolver chain(std::move(resolvers), [] { return "Others were not asked."; });
  EXPECT_TRUE(chain.resolve(kService, Deadline::never()).status().text().ends_with(" Others were not asked."));
  known.failure = RIPC_PERMISSION;
  EXPECT_EQ(chain.resolve(kService, Deadline::never()).status().code(), RIPC_PERMISSION);
}

TEST_F(ChainResolverTest, ASuccessorIsFoundThoughAnEarlierResolverKnowsOnlyTheFormer) {
  ServiceRecord former = record_of(kService, 1);
  former.incarnation = 10;
  ServiceRecord newer = record_of(kService, 2);
  newer.incarnation = 11;
  fakes_[0]->records[kService] = former;
  EXPECT_EQ(chain_->successor(former, Deadline::never()).status().code(), RIPC_NO_SERVICE);
  fakes_[2]->records[kService] = newer;
  const Result<ServiceRecord> found = chain_->successor(former, Deadline::never());
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->context, 2u);
  newer.incarnation = 9;
  fakes_[2]->records[kService] = newer;
  EXPECT_EQ(chain_->successor(former, Deadline::never()).status().code(), RIPC_NO_SERVICE) << "an older one is none";
}

TEST_F(ChainResolverTest, AFailureDoesNotKeepOthersFromAnswering) {
  fakes_[0]->failure = Status(RIPC_INVALID_ARGUMENT, "a mistake in line 3");
  fakes_[2]->records[kService] = record_of(kService);
  EXPECT_TRUE(resolve(kService).ok());
}

TEST_F(ChainResolverTest, IfNoOneAnswersTheFirstFailureIsReturned) {
  fakes_[1]->failure = Status(RIPC_INVALID_ARGUMENT, "a mistake in line 3");
  fakes_[2]->failure = Status(RIPC_TIMEOUT);
  const Status status = resolve(kService).status();
  EXPECT_EQ(status.code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(status.text(), "a mistake in line 3");
}

TEST_F(ChainResolverTest, AllShareOneDeadline) {
  const Deadline deadline = Deadline::after(12'345'678'900);
  EXPECT_FALSE(chain_->resolve(kService, deadline).ok());
  for (const FakeResolver* fake : fakes_) EXPECT_EQ(fake->last_deadline.at(), deadline.at());
}

TEST_F(ChainResolverTest, PublishReachesAllWithOneIncarnation) {
  ServiceRecord record = record_of(kService);
  std::vector<ServiceRecord> displaced;
  ASSERT_TRUE(chain_->publish(record, false, &displaced).ok());
  EXPECT_EQ(record.incarnation, 101u);
  for (const FakeResolver* fake : fakes_) EXPECT_EQ(fake->records.at(kService), record);
  EXPECT_TRUE(displaced.empty());
}

TEST_F(ChainResolverTest, TheIncarnationIsLargerThanThatOfAnyHolderAnyResolverKnew) {
  for (std::size_t largest = 0; largest < 3; ++largest) {
    fakes_[largest]->previous = 1000 * (largest + 1);
    ServiceRecord record = record_of(kService);
    std::vector<ServiceRecord> displaced;
    ASSERT_TRUE(chain_->publish(record, false, &displaced).ok());
    EXPECT_GT(record.incarnation, 1000 * (largest + 1));
    for (const FakeResolver* fake : fakes_) EXPECT_EQ(fake->records.at(kService), record);
    EXPECT_TRUE(displaced.empty());  // not our own intermediate registrations
    chain_->withdraw(record);
    for (const FakeResolver* fake : fakes_) EXPECT_TRUE(fake->records.empty());
  }
}

TEST_F(ChainResolverTest, AHolderThatComesWhileOthersAreAskedLosesTheIdOnlyToATakeover) {
  for (const bool takeover : {false, true}) {
    const ServiceRecord other = record_of(kService, 99, 500);
    fakes_[0]->previous = 100;
    fakes_[1]->previous = 1000;  // so that the first resolver gets the record again
    fakes_[1]->once_published = [&] { fakes_[0]->records[kService] = other; };
    ServiceRecord record = record_of(kService);
    std::vector<ServiceRecord> displaced;
    const Status status = chain_->publish(record, takeover, &displaced);
    EXPECT_EQ(status.code(), takeover ? RIPC_OK : RIPC_ID_IN_USE);
    EXPECT_EQ(displaced, takeover ? std::vector{other} : std::vector<ServiceRecord>());
    EXPECT_EQ(fakes_[0]->records.at(kService), takeover ? record : other);
    for (const FakeResolver* later : {fakes_[1], fakes_[2]}) EXPECT_EQ(later->records.contains(kService), takeover);
    for (FakeResolver* fake : fakes_) fake->records.clear();
  }
}

TEST_F(ChainResolverTest, ARefusalRollsBackWhatWasPublished) {
  fakes_[2]->records[kService] = record_of(kService, 99, 50);
  ServiceRecord record = record_of(kService);
  EXPECT_EQ(chain_->publish(record, false, nullptr).code(), RIPC_ID_IN_USE);
  EXPECT_TRUE(fakes_[0]->records.empty());
  EXPECT_TRUE(fakes_[1]->records.empty());
  EXPECT_EQ(fakes_[2]->records.at(kService).context, 99u);
  EXPECT_EQ(record, record_of(kService));
}

TEST_F(ChainResolverTest, AFailureRollsBackAndIsReturned) {
  fakes_[1]->failure = Status(RIPC_NO_MEMORY, "disk full");
  ServiceRecord record = record_of(kService);
  const Status status = chain_->publish(record, true, nullptr);
  EXPECT_EQ(status.code(), RIPC_NO_MEMORY);
  EXPECT_EQ(status.text(), "disk full");
  EXPECT_TRUE(fakes_[0]->records.empty());
  EXPECT_TRUE(fakes_[2]->calls.empty());
}

TEST_F(ChainResolverTest, ADisplacedHolderIsNamedOnce) {
  for (FakeResolver* fake : fakes_) fake->records[kService] = record_of(kService, 99, 50);
  fakes_[1]->records[kService].incarnation = 60;  // an older or newer registration counts as a different one
  ServiceRecord record = record_of(kService);
  std::vector<ServiceRecord> displaced;
  ASSERT_TRUE(chain_->publish(record, true, &displaced).ok());
  EXPECT_EQ(displaced, (std::vector<ServiceRecord>{record_of(kService, 99, 50), record_of(kService, 99, 60)}));
}

TEST_F(ChainResolverTest, HoldersDisplacedBeforeAFailureAreStillNamed) {
  fakes_[0]->records[kService] = record_of(kService, 99, 50);
  fakes_[1]->failure = Status(RIPC_SYSTEM);
  ServiceRecord record = record_of(kService);
  std::vector<ServiceRecord> displaced;
  EXPECT_EQ(chain_->publish(record, true, &displaced).code(), RIPC_SYSTEM);
  EXPECT_EQ(displaced, std::vector<ServiceRecord>{record_of(kService, 99, 50)});
}

TEST_F(ChainResolverTest, ResolversThatNeverAgreeAreAnError) {
  fakes_[0]->always_raises = fakes_[1]->always_raises = true;
  ServiceRecord record = record_of(kService);
  EXPECT_EQ(chain_->publish(record, false, nullptr).code(), RIPC_SYSTEM);
  for (const FakeResolver* fake : fakes_) EXPECT_TRUE(fake->records.empty());
}

TEST_F(ChainResolverTest, WithdrawAndInvalidateReachAll) {
  chain_->withdraw(record_of(kService));
  chain_->invalidate(record_of(kService));
  for (const FakeResolver* fake : fakes_) EXPECT_EQ(fake->calls, (std::vector<std::string>{"withdraw", "invalidate"}));
}

TEST_F(ChainResolverTest, ListVisitsEachServiceOnceAsTheFirstResolverKnowsIt) {
  fakes_[0]->records[1] = record_of(1, 10);
  fakes_[1]->records[1] = record_of(1, 11);
  fakes_[1]->records[2] = record_of(2, 12);
  fakes_[2]->records[3] = record_of(3, 13);
  EXPECT_EQ(listed(*chain_), (std::vector<ServiceRecord>{record_of(1, 10), record_of(2, 12), record_of(3, 13)}));
}

TEST_F(ChainResolverTest, AFailureOfOneListDoesNotHideTheOthers) {
  fakes_[0]->failure = Status(RIPC_SYSTEM, "first");
  fakes_[1]->failure = Status(RIPC_PERMISSION, "second");
  fakes_[2]->records[3] = record_of(3);
  int visits = 0;
  const Status status = chain_->list([&](const ServiceRecord&) { ++visits; });
  EXPECT_EQ(status.text(), "first");
  EXPECT_EQ(visits, 1);
}

TEST(ChainResolver, WithoutResolversNothingIsKnownAndPublishingDoesNothing) {
  ChainResolver chain({});
  EXPECT_EQ(chain.resolve(kService, Deadline::never()).status().code(), RIPC_NO_SERVICE);
  ServiceRecord record = record_of(kService);
  EXPECT_TRUE(chain.publish(record, false, nullptr).ok());
  chain.withdraw(record);
  EXPECT_TRUE(listed(chain).empty());
}

// The composition that a context uses.
TEST(ChainResolver, AStaticFileBeforeTheLocalResolver) {
  const test::TemporaryDirectory temporary;
  const std::string file = temporary / "known";
  test::write_file(file, "1000 socket:from-file\n");
  test::LocalContext peer(temporary / "run");
  ASSERT_TRUE(peer.publish(1000).ok());
  ASSERT_TRUE(peer.publish(1001).ok());
  auto directory = RuntimeDirectory::open((temporary / "run").c_str(), RIPC_PEERS_SAME_USER);
  ASSERT_TRUE(directory.ok());
  std::vector<std::unique_ptr<spi::Resolver>> resolvers;
  const auto no_names = [](std::string_view) -> Result<ripc_service_id> { return RIPC_INVALID_ARGUMENT; };
  resolvers.push_back(std::make_unique<StaticResolver>(file, no_names, no_names, test::any_address, test::as_written));
  resolvers.push_back(std::make_unique<LocalResolver>(*directory, kContext));
  ChainResolver chain(std::move(resolvers));
  EXPECT_EQ(chain.resolve(1000, Deadline::never())->addresses.front().locator, "from-file");
  EXPECT_EQ(*chain.resolve(1001, Deadline::never()), peer.last);
  EXPECT_EQ(listed(chain).size(), 2u);
  ServiceRecord record = record_of(1002);
  ASSERT_TRUE(chain.publish(record, false, nullptr).ok());
  EXPECT_EQ(*chain.resolve(1002, Deadline::never()), record);
  EXPECT_GT(record.incarnation, peer.last.incarnation);
  record = record_of(1001);
  EXPECT_EQ(chain.publish(record, false, nullptr).code(), RIPC_ID_IN_USE);
  chain.withdraw(record_of(1002, kContext, chain.resolve(1002, Deadline::never())->incarnation));
  EXPECT_EQ(chain.resolve(1002, Deadline::never()).status().code(), RIPC_NO_SERVICE);
}

TEST(ChainResolver, TheLocalResolverGetsTheIncarnationThatALaterResolverRaised) {
  const test::TemporaryDirectory temporary;
  auto directory = RuntimeDirectory::open((temporary / "run").c_str(), RIPC_PEERS_SAME_USER);
  ASSERT_TRUE(directory.ok());
  std::vector<std::unique_ptr<spi::Resolver>> resolvers;
  resolvers.push_back(std::make_unique<LocalResolver>(*directory, kContext));
  resolvers.push_back(std::make_unique<FakeResolver>());
  spi::Resolver& local = *resolvers[0];
  static_cast<FakeResolver&>(*resolvers[1]).previous = spi::kMaxIncarnation - 9;
  ChainResolver chain(std::move(resolvers));
  ServiceRecord record = record_of(kService);
  ASSERT_TRUE(chain.publish(record, false, nullptr).ok());
  EXPECT_EQ(record.incarnation, spi::kMaxIncarnation - 8);
  EXPECT_EQ(*local.resolve(kService, Deadline::never()), record);
  ServiceRecord second = record_of(kService);
  EXPECT_EQ(chain.publish(second, false, nullptr).code(), RIPC_ID_IN_USE) << "another service of this context";
}

// ---- Groups --------------------------------------------------------------------------------------------------

constexpr ripc_service_id kGroup = RIPC_GROUP_ID(7);

ServiceRecord member_of(ripc_service_id id, std::uint64_t context, std::uint64_t incarnation) {
  ServiceRecord record = record_of(id, context, incarnation);
  record.groups = {kGroup};
  return record;
}

TEST_F(ChainResolverTest, EachMemberIsVisitedOnceWithItsLargestIncarnation) {
  fakes_[0]->records[1] = member_of(1, 1, 5);
  fakes_[0]->records[2] = member_of(2, 1, 0);  // from a file: its incarnation is unknown
  fakes_[1]->records[1] = member_of(1, 2, 6);
  fakes_[1]->records[2] = member_of(2, 2, 1);
  fakes_[1]->records[3] = member_of(3, 2, 7);
  fakes_[2]->records[3] = member_of(3, 3, 7);
  fakes_[2]->records[1] = member_of(1, 3, 4);
  fakes_[2]->records[4] = record_of(4, 3, 4);
  std::map<ripc_service_id, std::uint64_t> contexts;
  const Deadline deadline = Deadline::after(1'000'000'000);
  const Status status = chain_->members(kGroup, deadline, [&](const ServiceRecord& record) {
    EXPECT_TRUE(contexts.emplace(record.id, record.context).second) << "visited twice";
    EXPECT_EQ(record.found_by, "fake");
  });
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(contexts, (std::map<ripc_service_id, std::uint64_t>{{1, 2}, {2, 2}, {3, 2}}));
  for (const FakeResolver* fake : fakes_) EXPECT_EQ(fake->last_deadline.at(), deadline.at());
}

TEST_F(ChainResolverTest, MembersAreVisitedThoughOneFailsAndItsFailureIsReported) {
  fakes_[0]->failure = Status(RIPC_INVALID_ARGUMENT, "a mistake in line 3");
  fakes_[2]->records[1] = member_of(1, 1, 5);
  std::size_t visited = 0;
  const Status status = chain_->members(kGroup, Deadline::never(), [&](const ServiceRecord&) { ++visited; });
  EXPECT_EQ(status.code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(visited, 1u);
}

TEST_F(ChainResolverTest, AllGetTheGroupsThoughOneFails) {
  for (FakeResolver* fake : fakes_) fake->records[1] = record_of(1, kContext, 5);
  fakes_[1]->failure = Status(RIPC_NO_MEMORY, "disk full");
  EXPECT_EQ(chain_->update(member_of(1, kContext, 5)).code(), RIPC_NO_MEMORY);
  EXPECT_TRUE(fakes_[0]->records[1].is_in(kGroup));
  EXPECT_TRUE(fakes_[2]->records[1].is_in(kGroup));
  EXPECT_EQ(chain_->update(member_of(1, kContext, 6)).code(), RIPC_FENCED);
}

}  // namespace
}  // namespace ripc::internal::resolver
