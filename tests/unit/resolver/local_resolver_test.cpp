// SPDX-License-Identifier: Apache-2.0
#include "resolver/local/local_resolver.hpp"

#include "resolver/local/service_record.hpp"
#include "resolver_helpers.hpp"

namespace ripc::internal::resolver {
namespace {

constexpr ripc_service_id kLocalService = 1000;
constexpr ripc_service_id kNamed = ripc_service_id{1} << 63 | 1000;

class LocalResolverTest : public ::testing::Test {
 protected:
  std::string record_path(ripc_service_id id) const { return services_ + "/" + RuntimeDirectory::file_name(id).data(); }
  // Leaves a record behind, as a killed process does.
  ServiceRecord leave_dead_record(ripc_service_id id, const std::string& name = "") const {
    LocalContext dead(path_);
    EXPECT_TRUE(dead.publish(id, name).ok());
    return dead.last;
  }
  void write_record(const ServiceRecord& record) const {
    const Result<std::string> text = encode_service_record(record);
    ASSERT_TRUE(text.ok());
    test::write_file(record_path(record.id), *text);
  }

  const test::TemporaryDirectory temporary_;
  const std::string path_ = temporary_ / "run";
  const std::string services_ = path_ + "/services";
  LocalContext one_{path_}, two_{path_};
};

// ---- Publish, resolve, withdraw ------------------------------------------------------------------------------

TEST_F(LocalResolverTest, APublishedServiceIsFoundByOthersAsItWasPublished) {
  ASSERT_TRUE(one_.publish(kLocalService, "server").ok());
  const Result<ServiceRecord> found = two_.resolve(kLocalService);
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(*found, one_.last);
  EXPECT_EQ(found->name, "server");
  EXPECT_EQ(found->context, one_.id());
  EXPECT_EQ(found->pid, static_cast<std::uint32_t>(::getpid()));
  EXPECT_EQ(found->addresses.size(), 2u);
  EXPECT_TRUE(one_.displaced.empty());
  EXPECT_EQ(*one_.resolve(kLocalService), one_.last);
}

TEST_F(LocalResolverTest, AnUnknownIdIsNoServiceAndSaysWhatToDo) {
  const Status status = one_.resolve(kLocalService).status();
  EXPECT_EQ(status.code(), RIPC_NO_SERVICE);
  EXPECT_TRUE(mentions(status, "0x00000000000003e8") && mentions(status, "Start the service")) << status.text();
  EXPECT_EQ(one_->resolve(kLocalService, Deadline::after(0)).status().code(), RIPC_NO_SERVICE);
}

TEST_F(LocalResolverTest, WithdrawMakesAServiceUnknownAndLeavesNothing) {
  ASSERT_TRUE(one_.publish(kLocalService).ok());
  one_->withdraw(one_.last);
  EXPECT_EQ(two_.resolve(kLocalService).status().code(), RIPC_NO_SERVICE);
  EXPECT_EQ(names_in(services_), Names{});
  one_->withdraw(one_.last);  // again: nothing happens
}

TEST_F(LocalResolverTest, AnIdThatIsAliveIsRefusedToOthersAndToItsOwnHolder) {
  ASSERT_TRUE(one_.publish(kLocalService, "server").ok());
  const ServiceRecord holder = one_.last;
  for (LocalContext* context : {&two_, &one_}) {
    const Status status = context->publish(kLocalService, "server");
    EXPECT_EQ(status.code(), RIPC_ID_IN_USE);
    EXPECT_TRUE(mentions(status, "'server'") && mentions(status, std::to_string(::getpid())) &&
                mentions(status, "takeover"))
        << status.text();
    EXPECT_TRUE(context->displaced.empty());
    EXPECT_EQ(context->last.incarnation, 0u);
  }
  EXPECT_EQ(*two_.resolve(kLocalService), holder);
}

TEST_F(LocalResolverTest, AnotherNameForTheLivingIdOfANameIsACollisionEvenWithTakeover) {
  const std::pair<const char*, const char*> names[] = {{"server", "other"}, {"server", ""}, {"", "server"}};
  for (const auto& [first, second] : names) {
    ASSERT_TRUE(one_.publish(kNamed, first).ok());
    for (const bool takeover : {false, true}) {
      const Status status = two_.publish(kNamed, second, takeover);
      EXPECT_EQ(status.code(), RIPC_NAME_COLLISION) << first << " and " << second;
      EXPECT_TRUE(mentions(status, "rename one")) << status.text();
    }
    EXPECT_EQ(*two_.resolve(kNamed), one_.last);
    one_->withdraw(one_.last);
  }
}

TEST_F(LocalResolverTest, ALivingNumberIsInUseWhateverTheNames) {
  for (const ripc_service_id id : {kLocalService, ripc_service_id{3} << 62 | 1}) {  // a well-known and a random one
    ASSERT_TRUE(one_.publish(id, "server").ok());
    const ServiceRecord old = one_.last;
    EXPECT_EQ(two_.publish(id, "other").code(), RIPC_ID_IN_USE);
    ASSERT_TRUE(two_.publish(id, "other", true).ok());
    EXPECT_EQ(two_.displaced, std::vector<ServiceRecord>{old});
  }
}

TEST_F(LocalResolverTest, TakeoverReplacesALivingHolderAndReturnsItsRecord) {
  ASSERT_TRUE(one_.publish(kLocalService, "server").ok());
  const ServiceRecord old = one_.last;
  ASSERT_TRUE(two_.publish(kLocalService, "server", true).ok());
  EXPECT_EQ(two_.displaced, std::vector<ServiceRecord>{old});
  EXPECT_GT(two_.last.incarnation, old.incarnation);
  EXPECT_EQ(*one_.resolve(kLocalService), two_.last);
}

TEST_F(LocalResolverTest, AHolderWithoutACommonTransportKeepsTheId) {
  ASSERT_TRUE(one_.publish(kLocalService).ok());
  ServiceRecord record = two_.record(kLocalService);
  record.addresses = {{"verbs", "elsewhere"}};
  const Status refused = two_->publish(record, true, nullptr);
  EXPECT_EQ(refused.code(), RIPC_PERMISSION);
  EXPECT_TRUE(mentions(refused, "RIPC_TRANSPORTS")) << refused.text();
  EXPECT_EQ(*two_.resolve(kLocalService), one_.last);
  record.addresses.push_back(one_.last.addresses.back());
  EXPECT_TRUE(two_->publish(record, true, nullptr).ok()) << "one is enough";
}

TEST_F(LocalResolverTest, TakeoverWithoutAHolderDisplacesNoOne) {
  ASSERT_TRUE(one_.publish(kLocalService, "server", true).ok());
  EXPECT_TRUE(one_.displaced.empty());
  leave_dead_record(kLocalService + 1);
  ASSERT_TRUE(one_.publish(kLocalService + 1, "server", true).ok());
  EXPECT_TRUE(one_.displaced.empty());
}

TEST_F(LocalResolverTest, TheListOfTheDisplacedMayBeLeftOut) {
  ASSERT_TRUE(one_.publish(kLocalService).ok());
  ServiceRecord record = two_.record(kLocalService);
  EXPECT_TRUE(two_->publish(record, true, nullptr).ok());
}

TEST_F(LocalResolverTest, WithdrawOfADisplacedHolderLeavesTheNewOneAlone) {
  ASSERT_TRUE(one_.publish(kLocalService).ok());
  ASSERT_TRUE(two_.publish(kLocalService, "", true).ok());
  one_->withdraw(one_.last);
  EXPECT_EQ(*one_.resolve(kLocalService), two_.last);
}

TEST_F(LocalResolverTest, WithdrawOfAnEarlierRegistrationLeavesALaterOneAlone) {
  ASSERT_TRUE(one_.publish(kLocalService).ok());
  const ServiceRecord earlier = one_.last;
  ASSERT_TRUE(one_.publish(kLocalService, "", true).ok());
  one_->withdraw(earlier);
  EXPECT_EQ(*two_.resolve(kLocalService), one_.last);
}

// ---- Incarnations --------------------------------------------------------------------------------------------

TEST_F(LocalResolverTest, IncarnationsGrowWithEveryRegistrationAndAreWallClockTimes) {
  const Nanoseconds before = realtime_now();
  std::uint64_t last = before - 1;
  for (int round = 0; round < 20; ++round) {
    LocalContext& context = round % 2 == 0 ? one_ : two_;
    ASSERT_TRUE(context.publish(kLocalService, "", true).ok());
    EXPECT_GT(context.last.incarnation, last);
    last = context.last.incarnation;
    if (round % 3 == 0) context->withdraw(context.last);
  }
  EXPECT_LE(last, realtime_now());
}

TEST_F(LocalResolverTest, AnIncarnationFromAClockThatIsAheadIsStillSurpassed) {
  ServiceRecord ahead = one_.record(kLocalService);
  ahead.incarnation = realtime_now() + 3'600'000'000'000;
  write_record(ahead);
  ASSERT_TRUE(two_.publish(kLocalService, "", true).ok());
  EXPECT_EQ(two_.last.incarnation, ahead.incarnation + 1);
  ahead.context = random_u64();  // so is that of a dead holder
  write_record(ahead);
  ASSERT_TRUE(two_.publish(kLocalService).ok());
  EXPECT_EQ(two_.last.incarnation, ahead.incarnation + 1);
}

TEST_F(LocalResolverTest, AnIncarnationThatNoClockGaveDoesNotEndTheCounting) {
  ServiceRecord forged = one_.record(kLocalService);
  forged.context = random_u64();
  forged.incarnation = UINT64_MAX;
  write_record(forged);
  const Nanoseconds before = realtime_now();
  ASSERT_TRUE(two_.publish(kLocalService).ok());
  EXPECT_GE(two_.last.incarnation, before);
  EXPECT_LE(two_.last.incarnation, realtime_now());
}

TEST_F(LocalResolverTest, AWantedIncarnationIsKeptIfItIsLargerThanThatBefore) {
  ServiceRecord record = one_.record(kLocalService);
  record.incarnation = 42;
  ASSERT_TRUE(one_->publish(record, false, nullptr).ok());
  EXPECT_EQ(record.incarnation, 42u);
  record.incarnation = 42;
  ASSERT_TRUE(one_->publish(record, true, nullptr).ok());
  EXPECT_GT(record.incarnation, 42u);
  EXPECT_EQ(*two_.resolve(kLocalService), record);
}

// ---- The dead ------------------------------------------------------------------------------------------------

TEST_F(LocalResolverTest, TheRecordOfADeadHolderIsReplacedSilentlyWhateverItsName) {
  const ServiceRecord dead = leave_dead_record(kNamed, "server");
  ASSERT_TRUE(one_.publish(kNamed, "other").ok());
  EXPECT_TRUE(one_.displaced.empty());
  EXPECT_GT(one_.last.incarnation, dead.incarnation);
  EXPECT_EQ(*two_.resolve(kNamed), one_.last);
}

TEST_F(LocalResolverTest, ResolvingADeadHolderRemovesItsRecord) {
  leave_dead_record(kLocalService);
  ASSERT_EQ(names_in(services_).size(), 1u);
  const Status status = one_.resolve(kLocalService).status();
  EXPECT_EQ(status.code(), RIPC_NO_SERVICE);
  EXPECT_TRUE(mentions(status, "has ended")) << status.text();
  EXPECT_EQ(names_in(services_), Names{});
}

TEST_F(LocalResolverTest, AHolderThatDiesIsFoundOutByTheNextResolve) {
  ASSERT_TRUE(one_.publish(kLocalService).ok());
  EXPECT_TRUE(two_.resolve(kLocalService).ok());
  one_.die();
  EXPECT_EQ(two_.resolve(kLocalService).status().code(), RIPC_NO_SERVICE);
}

TEST_F(LocalResolverTest, AResolverSweepsWhenItIsMade) {
  ASSERT_TRUE(one_.publish(kLocalService).ok());
  leave_dead_record(kLocalService + 1);
  leave_dead_record(kLocalService + 2);
  const LocalContext next(path_);
  EXPECT_EQ(names_in(services_), Names{RuntimeDirectory::file_name(kLocalService).data()});
}

TEST_F(LocalResolverTest, SweepCountsWhatItRemoves) {
  leave_dead_record(kLocalService);
  test::write_file(services_ + "/.new-0123456789abcdef", "half a rec");
  test::write_file(services_ + "/README", "not a record");
  EXPECT_EQ(one_->sweep(), 2u);
  EXPECT_EQ(one_->sweep(), 0u);
  EXPECT_EQ(names_in(services_), Names{"README"});
}

TEST_F(LocalResolverTest, ATemporaryFileThatIsBeingWrittenIsNotSwept) {
  const std::string path = services_ + "/.new-0123456789abcdef";
  const UniqueFd writer(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  struct flock lock {};
  lock.l_type = F_WRLCK;
  ASSERT_EQ(::fcntl(writer.get(), F_OFD_SETLK, &lock), 0);
  EXPECT_EQ(one_->sweep(), 0u);
  EXPECT_EQ(names_in(services_).size(), 1u);
}

// ---- Contexts ------------------------------------------------------------------------------------------------

TEST_F(LocalResolverTest, TheOwnContextIsAliveWithoutAsking) {
  ASSERT_TRUE(one_.publish(kLocalService).ok());
  one_.die();
  EXPECT_EQ(*one_.resolve(kLocalService), one_.last);
  EXPECT_EQ(one_.publish(kLocalService).code(), RIPC_ID_IN_USE);
}

TEST_F(LocalResolverTest, ContextsOfOneProcessAreIndependent) {
  ASSERT_TRUE(one_.publish(kLocalService).ok());
  ASSERT_TRUE(two_.publish(kLocalService + 1).ok());
  one_.die();
  EXPECT_EQ(two_.resolve(kLocalService).status().code(), RIPC_NO_SERVICE);
  EXPECT_TRUE(two_.resolve(kLocalService + 1).ok());
}

TEST_F(LocalResolverTest, AThousandServicesNeedNoDescriptors) {
  constexpr ripc_service_id kCount = 1000;
  const std::size_t before = test::open_descriptors();
  std::vector<ServiceRecord> records;
  for (ripc_service_id id = 1; id <= kCount; ++id) {
    ASSERT_TRUE(one_.publish(id, "service " + std::to_string(id)).ok());
    records.push_back(one_.last);
  }
  EXPECT_EQ(test::open_descriptors(), before);
  EXPECT_EQ(listed(*two_), records);
  for (const ServiceRecord& record : records) {
    ASSERT_EQ(*two_.resolve(record.id), record);
    one_->withdraw(record);
  }
  EXPECT_EQ(test::open_descriptors(), before);
  EXPECT_EQ(names_in(services_), Names{});
}

TEST_F(LocalResolverTest, ListVisitsTheLivingAndRemovesTheDead) {
  ASSERT_TRUE(one_.publish(kLocalService, "first").ok());
  ASSERT_TRUE(two_.publish(kLocalService + 1, "second").ok());
  leave_dead_record(kLocalService + 2);
  EXPECT_EQ(listed(*one_), (std::vector<ServiceRecord>{one_.last, two_.last}));
  EXPECT_EQ(names_in(services_).size(), 2u);
}

TEST_F(LocalResolverTest, AVisitorMayUseTheResolver) {
  ASSERT_TRUE(one_.publish(kLocalService).ok());
  ASSERT_TRUE(one_.publish(kLocalService + 1).ok());
  int visits = 0;
  EXPECT_TRUE(one_->list([&](const ServiceRecord& record) {
                    ++visits;
                    EXPECT_EQ(*one_.resolve(record.id), record);
                    one_->withdraw(record);
                  })
                  .ok());
  EXPECT_EQ(visits, 2);
  EXPECT_EQ(names_in(services_), Names{});
}

TEST_F(LocalResolverTest, ARecordsPermissionsFollowThePolicyWhateverTheUmask) {
  const std::pair<std::uint32_t, mode_t> policies[] = {
      {RIPC_PEERS_SAME_USER, 0600}, {RIPC_PEERS_SAME_GROUP, 0660}, {RIPC_PEERS_ANY, 0666}};
  for (const auto& [policy, mode] : policies) {
    LocalContext context(path_, policy);
    const mode_t mask = ::umask(0077);
    EXPECT_TRUE(context.publish(kLocalService).ok());
    ::umask(mask);
    EXPECT_EQ(test::mode_of(record_path(kLocalService)), mode);
    context->withdraw(context.last);
  }
}

TEST_F(LocalResolverTest, AnInvalidRecordIsRefusedAndLeavesNothing) {
  EXPECT_EQ(one_.publish(0).code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(one_.publish(kLocalService, "a/b").code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(one_.publish(kLocalService, "\xff").code(), RIPC_INVALID_ARGUMENT);
  ServiceRecord record = one_.record(kLocalService);
  record.context = 0;
  EXPECT_EQ(one_->publish(record, false, nullptr).code(), RIPC_INVALID_ARGUMENT);
  record = one_.record(kLocalService);
  record.addresses.assign(20, {"socket", std::string(4096, 'x')});
  EXPECT_EQ(one_->publish(record, false, nullptr).code(), RIPC_LIMIT);
  EXPECT_EQ(names_in(services_), Names{});
}

TEST_F(LocalResolverTest, InvalidateChangesNothing) {
  ASSERT_TRUE(one_.publish(kLocalService).ok());
  two_->invalidate(one_.last);
  EXPECT_EQ(*two_.resolve(kLocalService), one_.last);
}

TEST_F(LocalResolverTest, ADirectoryDeletedWhileInUseIsNamedAsTheCause) {
  std::filesystem::remove_all(path_);
  const Status status = one_.publish(kLocalService);
  EXPECT_EQ(status.code(), RIPC_SYSTEM);
  EXPECT_TRUE(mentions(status, "deleted while in use")) << status.text();
  EXPECT_EQ(one_.resolve(kLocalService).status().code(), RIPC_NO_SERVICE);
  one_->withdraw(one_.record(kLocalService));
}

}  // namespace
}  // namespace ripc::internal::resolver
