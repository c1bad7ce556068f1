// SPDX-License-Identifier: Apache-2.0
// Tests the ZooKeeper resolver on three real servers, which are killed, stopped and cut off.
#include <dlfcn.h>
#include <netdb.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <future>

#include "context.hpp"

namespace zookeeper_tests {
namespace {

constexpr ripc_service_id kService = 42;
constexpr ripc_service_id kGroup = (ripc_service_id{1} << 62) | 7;
// Publishing a random ID does not wait for the servers, so it takes no round trip each.
constexpr ripc_service_id kRandomIds = ripc_service_id{3} << 62;

using ripc::internal::resolver::Directory;
using Answer = Directory::Answer;
using Outcome = Directory::Outcome;

// A client of the servers that has no key.
class Thief final : private Directory::Listener {
 public:
  explicit Thief(const std::string& servers) {
    auto made = ripc::internal::resolver::ZooKeeperDirectory::create(
        *ripc::internal::resolver::parse_zookeeper_options(servers));
    EXPECT_TRUE(made.ok()) << made.status().text();
    directory_ = std::move(*made);
    EXPECT_TRUE(directory_->start(*this).ok());
  }
  ~Thief() override { directory_->stop(); }

  Answer get(const std::string& path) {
    return answer_to([&](Directory::Done done) { directory_->get(path, Directory::Read::plain, std::move(done)); });
  }
  // After get(), which waits for the session.
  Answer create(const std::string& path, const std::string& data) {
    const Directory::Write write{Directory::Write::Kind::create, path, data, {}};
    return answer_to([&](Directory::Done done) { directory_->commit(session_, {write}, std::move(done)); });
  }

 private:
  void link_up(std::uint64_t session, bool) override { session_ = session; }
  void link_down() override {}
  void changed(std::string_view) override {}

  template <typename Ask>
  static Answer answer_to(const Ask& ask) {
    const auto place = std::make_shared<std::promise<Answer>>();
    std::future<Answer> answer = place->get_future();
    ask([place](const Answer& given) { place->set_value(given); });
    EXPECT_EQ(answer.wait_for(std::chrono::nanoseconds(kPatience)), std::future_status::ready);
    return answer.get();
  }

  std::atomic<std::uint64_t> session_{0};
  std::unique_ptr<Directory> directory_;
};
std::atomic<unsigned> look_ups = 0;

class ZooKeeper : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (why_not().empty()) ensemble_ = new Ensemble;
  }
  static void TearDownTestSuite() { delete std::exchange(ensemble_, nullptr); }

  void SetUp() override {
    if (ensemble_ == nullptr) GTEST_SKIP() << why_not();
    folder_ = std::string("/test/") + ::testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  void TearDown() override {
    if (ensemble_ != nullptr) ensemble_->heal();
  }
  static Ensemble& ensemble() { return *ensemble_; }
  std::string servers() const { return ensemble_->text(folder_); }

  static inline Ensemble* ensemble_ = nullptr;
  std::string folder_;
};

TEST_F(ZooKeeper, AServiceIsPublishedFoundTakenOverAndWithdrawn) {
  Context one(servers());
  Context two(servers());
  Context client(servers());
  const Result<ServiceRecord> former = one.publish(kService);
  ASSERT_TRUE(former.ok()) << former.status().text();
  EXPECT_EQ(client.holder(kService, kPatience), one.id());
  EXPECT_EQ(two.publish(kService).status().code(), RIPC_ID_IN_USE);
  std::vector<ServiceRecord> displaced;
  const Result<ServiceRecord> now = two.publish(kService, true, &displaced);
  ASSERT_TRUE(now.ok()) << now.status().text();
  EXPECT_GT(now->incarnation, former->incarnation);
  ASSERT_EQ(displaced.size(), 1u);
  EXPECT_EQ(displaced[0].context, one.id());
  EXPECT_TRUE(client.was_notified(kService, two.id()));
  EXPECT_TRUE(one.was_notified(kService, two.id()));
  EXPECT_EQ(one->update(*former).code(), RIPC_FENCED);
  two->withdraw(*now);
  EXPECT_TRUE(client.was_notified(kService, 0));
  EXPECT_EQ(client.holder(kService), 0u);
  EXPECT_TRUE(one.publish(kService).ok());
  EXPECT_TRUE(client.sees(kService, one.id()));
  one.end();
  EXPECT_TRUE(client.sees(kService, 0)) << "the end of a context is told at once";
}

TEST_F(ZooKeeper, AThreadThatWaitsForAServiceIsNotifiedWhenItComes) {
  Context client(servers());
  Context late(servers());
  const std::jthread later([&] {
    EXPECT_TRUE(eventually([&] { return client->state().counters.reads != 0; }, kPatience));
    EXPECT_TRUE(late.publish(kService).ok());
  });
  EXPECT_EQ(client.holder(kService, kPatience), late.id());
}

TEST_F(ZooKeeper, MembersOfAGroupComeAndGo) {
  Context one(servers());
  Context client(servers());
  const auto members = [&] {
    std::size_t count = 0;
    (void)client->members(kGroup, Deadline::after(kPatience), [&](const ServiceRecord&) { ++count; });
    return count;
  };
  EXPECT_EQ(members(), 0u);
  for (ripc_service_id id = 1; id <= 10; ++id) {
    ServiceRecord record = one.record(id);
    record.groups = {kGroup};
    ASSERT_TRUE(one->publish(record, false, nullptr).ok());
  }
  EXPECT_TRUE(eventually([&] { return members() == 10; }, kPatience));
  one.end();
  EXPECT_TRUE(eventually([&] { return members() == 0; }, kPatience));
}

TEST_F(ZooKeeper, TheLeaderIsKilledAndNothingIsLost) {
  Context one(servers());
  Context client(servers());
  ASSERT_TRUE(one.publish(kService).ok());
  EXPECT_EQ(client.holder(kService, kPatience), one.id());
  const std::size_t leader = ensemble().leader();
  ASSERT_LT(leader, Ensemble::kServers);
  ensemble().kill(leader);
  EXPECT_EQ(client.holder(kService), one.id());
  // When something new is found, there is a new leader.
  Context two(servers(), kPatience);
  ASSERT_TRUE(two.publish(kService + 1).ok());
  EXPECT_TRUE(eventually([&] { return client.holder(kService + 1, kSession) == two.id(); }, kPatience));
  EXPECT_TRUE(eventually([&] { return one.holder(kService + 1, kSession) == two.id(); }, kPatience));
  EXPECT_EQ(client.holder(kService), one.id());
  EXPECT_EQ(one->state().counters.fenced, 0u);
}

TEST_F(ZooKeeper, WithoutAMajorityWhatIsKnownGoesOnAndTheRestIsThereAfterwards) {
  Context one(servers(), 500'000'000);
  Context client(servers(), 500'000'000);
  ASSERT_TRUE(one.publish(kService).ok());
  EXPECT_EQ(client.holder(kService, kPatience), one.id());
  ensemble().kill(0);
  ensemble().kill(1);
  ASSERT_TRUE(eventually([&] { return !client->state().is_linked && !one->state().is_linked; }, kPatience));
  EXPECT_EQ(client.holder(kService), one.id());
  const Status status = client->resolve(kService + 1, Deadline::after(300'000'000)).status();
  EXPECT_EQ(status.code(), RIPC_TIMEOUT) << status.text();
  ASSERT_TRUE(one.publish(kService + 1).ok());
  EXPECT_EQ(one.holder(kService + 1), one.id());
  ensemble().heal();
  EXPECT_TRUE(eventually([&] { return client.holder(kService + 1, kSession) == one.id(); }, kPatience));
  EXPECT_TRUE(client.sees(kService, one.id()));
  EXPECT_TRUE(one.is_settled());
}

TEST_F(ZooKeeper, AServerThatStopsIsLeftForAnotherOne) {
  Context one(servers());
  ASSERT_TRUE(one.publish(kService).ok());
  const std::size_t leader = ensemble().leader();
  const std::size_t follower = (leader + 1) % Ensemble::kServers;
  ensemble().pause(follower);
  std::vector<std::unique_ptr<Context>> contexts;
  for (int i = 0; i < 6; ++i) {
    contexts.push_back(std::make_unique<Context>(servers(), kPatience));
    EXPECT_TRUE(eventually([&] { return contexts.back()->holder(kService, kSession) == one.id(); }, kPatience));
  }
  ensemble().go_on(follower);
}

TEST_F(ZooKeeper, AllServersRestartAndEverythingIsPublishedAgain) {
  Context one(servers(), kPatience);
  Context client(servers(), kPatience);
  for (ripc_service_id id = 1; id <= 100; ++id) ASSERT_TRUE(one.publish(id).ok());
  EXPECT_EQ(client.listed(), 100u);
  for (std::size_t i = 0; i < Ensemble::kServers; ++i) ensemble().kill(i);
  ensemble().heal();
  EXPECT_TRUE(eventually([&] { return client.holder(50, kSession) == one.id(); }, kPatience));
  EXPECT_TRUE(eventually([&] { return client->state().is_linked && client.listed() == 100; }, kPatience));
}

TEST_F(ZooKeeper, AllServersLoseTheirDisksAndEverythingIsPublishedAgain) {
  Context one(servers(), kPatience);
  Context client(servers(), kPatience);
  for (ripc_service_id id = 1; id <= 100; ++id) ASSERT_TRUE(one.publish(id).ok());
  for (ripc_service_id id = 1; id <= 100; ++id) ASSERT_EQ(client.holder(id, kPatience), one.id());
  ensemble().lose_disks();
  ensemble().heal();
  EXPECT_TRUE(eventually([&] { return client->state().is_linked && client.listed() == 100; }, kPatience));
  EXPECT_TRUE(client.sees(50, one.id()));
  Context two(servers(), kPatience);
  ASSERT_TRUE(two.publish(50, true).ok());
  EXPECT_TRUE(client.sees(50, two.id()));
}

TEST_F(ZooKeeper, NoHostNameIsLookedUpWhileThereIsALink) {
  std::string names;
  for (std::size_t i = 0; i < Ensemble::kServers; ++i)
    names += (i == 0 ? "localhost:" : ",localhost:") + std::to_string(ensemble().port(i));
  Context one(names + folder_, kPatience);
  ASSERT_TRUE(one.publish(kService).ok());
  const unsigned before = look_ups;
  EXPECT_GT(before, 0u);
  for (ripc_service_id id = 1; id <= 100; ++id) ASSERT_TRUE(one.publish(kService + id).ok());
  EXPECT_EQ(look_ups, before);
}

TEST_F(ZooKeeper, ASessionThatExpiresIsReplacedWithAllThatItHad) {
  Relay relay(ensemble().port(0));
  Context one("127.0.0.1:" + std::to_string(relay.port()) + folder_);
  Context client(servers());
  ServiceRecord own = one.record(kService);
  own.groups = {kGroup};
  ASSERT_TRUE(one->publish(own, false, nullptr).ok());
  ASSERT_TRUE(one.publish(kService + 1).ok());
  EXPECT_EQ(client.holder(kService, kPatience), one.id());
  EXPECT_EQ(client.holder(kService + 1, kPatience), one.id());
  EXPECT_EQ(one.holder(kService + 2), 0u);
  relay.cut();
  EXPECT_TRUE(client.sees(kService, 0)) << "the servers end the session";
  EXPECT_EQ(one.holder(kService), one.id()) << "who is cut off goes on";
  // Another context takes one of the two IDs meanwhile.
  Context two(servers());
  ASSERT_TRUE(client.sees(kService + 1, 0));
  ASSERT_TRUE(two.publish(kService + 1).ok());
  relay.restore();
  EXPECT_TRUE(client.sees(kService, one.id()));
  EXPECT_EQ(client->resolve(kService, Deadline::after(kPatience))->incarnation, own.incarnation);
  EXPECT_TRUE(one.was_notified(kService + 1, two.id())) << "the other one has the larger incarnation";
  EXPECT_EQ(client.holder(kService + 1), two.id());
  EXPECT_EQ(one->state().counters.sessions_lost, 1u);
}

TEST_F(ZooKeeper, AShortCutChangesNothing) {
  Relay relay(ensemble().port(1));
  Context one("127.0.0.1:" + std::to_string(relay.port()) + folder_);
  Context client(servers());
  ASSERT_TRUE(one.publish(kService).ok());
  EXPECT_EQ(client.holder(kService, kPatience), one.id());
  for (int i = 0; i < 3; ++i) {
    relay.cut();
    ASSERT_TRUE(eventually([&] { return !one->state().is_linked; }, kPatience));
    relay.restore();
    ASSERT_TRUE(eventually([&] { return one->state().is_linked; }, kPatience));
  }
  EXPECT_EQ(one->state().counters.sessions_lost, 0u);
  EXPECT_EQ(client.holder(kService), one.id());
}

TEST_F(ZooKeeper, AChildOfAForkDoesNotEndItsParentsSession) {
  Context one(servers());
  Context client(servers());
  ASSERT_TRUE(one.publish(kService).ok());
  EXPECT_EQ(client.holder(kService, kPatience), one.id());
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ASSERT_TRUE(one.publish(kService + 1).ok());
  EXPECT_EQ(client.holder(kService + 1, kPatience), one.id());
  EXPECT_EQ(one->state().counters.sessions_lost, 0u);
}

TEST_F(ZooKeeper, MoreNamesThanMayBeWatchedAreStillFound) {
  Context one(servers());
  Context client(servers(), kPatience, 50);
  for (ripc_service_id id = 1; id <= 500; ++id) ASSERT_TRUE(one.publish(kRandomIds | id).ok());
  for (int round = 0; round < 2; ++round) {
    for (ripc_service_id id = 1; id <= 500; ++id) ASSERT_EQ(client.holder(kRandomIds | id, kPatience), one.id());
  }
}

TEST_F(ZooKeeper, AContextWithManyWatchesOfLongPathsReconnects) {
  folder_.append(200 - folder_.size(), 'x');
  Relay relay(ensemble().port(0));
  Context client("127.0.0.1:" + std::to_string(relay.port()) + folder_);
  Context one(servers());
  for (ripc_service_id id = 1; id <= 10'000; ++id) EXPECT_EQ(client.holder(kRandomIds | id), 0u);
  for (ripc_service_id id = 1; id <= 5'000; ++id) ASSERT_TRUE(client.publish(kRandomIds + 20'000 + id).ok());
  ASSERT_TRUE(client.is_settled());
  ASSERT_TRUE(one.publish(kService).ok());
  EXPECT_EQ(client.holder(kService, kPatience), one.id());
  relay.cut();
  ASSERT_TRUE(eventually([&] { return !client->state().is_linked; }, kPatience));
  relay.restore();
  ASSERT_TRUE(one.publish(kService + 1).ok());
  EXPECT_EQ(client.holder(kService + 1, kPatience), one.id());
}

TEST_F(ZooKeeper, AStolenRecordKeepsNoOneFromPublishing) {
  Context one(servers());
  ASSERT_TRUE(one.publish(kService).ok());
  Thief thief(servers());
  const std::string path = ripc::internal::resolver::service_path(kService);
  const Answer record = thief.get(path);
  ASSERT_FALSE(record.node.data.empty());
  one.end();
  ASSERT_TRUE(eventually([&] { return thief.get(path).outcome == Outcome::absent; }, kPatience));
  ASSERT_EQ(thief.create(path, record.node.data).outcome, Outcome::done);
  Context client(servers());
  EXPECT_EQ(client.listed(), 0u);
  EXPECT_EQ(client->state().counters.refusals.not_permitted, 1u);
  Context two(servers());
  const Result<ServiceRecord> own = two.publish(kService);
  ASSERT_TRUE(own.ok()) << own.status().text();
  EXPECT_EQ(client.holder(kService, kPatience), two.id());
}

TEST_F(ZooKeeper, TenThousandServicesAreListedAndWatched) {
  constexpr ripc_service_id kCount = 10'000;
  Context one(servers(), kPatience);
  Context client(servers(), kPatience);
  for (ripc_service_id id = 1; id <= kCount; ++id) ASSERT_TRUE(one.publish(kRandomIds | id).ok());
  ASSERT_TRUE(one.is_settled());
  EXPECT_EQ(client.listed(), kCount);
  for (ripc_service_id id = 1; id <= kCount; ++id) (void)client.holder(kRandomIds | id);
  EXPECT_TRUE(eventually([&] { return client->state().services == kCount; }, kPatience));
  one.end();
  EXPECT_TRUE(eventually([&] { return client->state().services == 0; }, kPatience));
}

TEST_F(ZooKeeper, AHundredContextsFindEachOther) {
  std::vector<std::unique_ptr<Context>> contexts;
  for (int i = 0; i < 100; ++i) contexts.push_back(std::make_unique<Context>(servers(), kPatience));
  for (std::size_t i = 0; i < contexts.size(); ++i) ASSERT_TRUE(contexts[i]->publish(i + 1).ok());
  for (std::size_t i = 0; i < contexts.size(); ++i) {
    const std::size_t other = (i * 37 + 11) % contexts.size();
    EXPECT_EQ(contexts[i]->holder(other + 1, kPatience), contexts[other]->id());
  }
}

TEST_F(ZooKeeper, AStormOfMovesEndsWithEveryoneOfOneMind) {
  Context one(servers());
  Context two(servers());
  Context client(servers());
  std::uint64_t last = 0;
  for (int i = 0; i < 1000; ++i) {
    Context& mover = i % 2 == 0 ? one : two;
    const Result<ServiceRecord> own = mover.publish(kService, true);
    ASSERT_TRUE(own.ok()) << own.status().text();
    ASSERT_GT(own->incarnation, last);
    last = own->incarnation;
    if (i == 0) {
      ASSERT_TRUE(client.sees(kService, one.id()));
    }
  }
  EXPECT_TRUE(one.sees(kService, two.id()));
  // The client may see an earlier move to the same holder first.
  EXPECT_TRUE(eventually([&] {
    const Result<ServiceRecord> seen = client->resolve(kService, Deadline::after(0));
    return seen.ok() && seen->context == two.id() && seen->incarnation == last;
  }));
}

TEST_F(ZooKeeper, ManyWhoWantOneIdAtOnceLeaveOneHolder) {
  std::vector<std::unique_ptr<Context>> contexts;
  for (int i = 0; i < 8; ++i) contexts.push_back(std::make_unique<Context>(servers(), kPatience));
  std::atomic<int> holders{0};
  {
    std::vector<std::jthread> threads;
    for (auto& context : contexts) {
      threads.emplace_back([&] {
        if (context->publish(kService).ok()) ++holders;
        for (int i = 0; i < 20; ++i) EXPECT_TRUE(context->publish(kService + 1, true).ok());
      });
    }
  }
  EXPECT_EQ(holders, 1);
  Context client(servers());
  const std::uint64_t last = client.holder(kService + 1, kPatience);
  for (auto& context : contexts) EXPECT_TRUE(context->sees(kService + 1, last));
}

}  // namespace
}  // namespace zookeeper_tests

// Replaces the C library's getaddrinfo(), to count the look-ups. ZooKeeper's client calls it too.
// NOLINTNEXTLINE(cert-dcl50-cpp,readability-inconsistent-declaration-parameter-name): it is declared so
extern "C" __attribute__((visibility("default"))) int getaddrinfo(const char* host, const char* service,
                                                                  const addrinfo* hints, addrinfo** found) {
  static const auto kReal = reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  ++zookeeper_tests::look_ups;
  return kReal(host, service, hints, found);
}
