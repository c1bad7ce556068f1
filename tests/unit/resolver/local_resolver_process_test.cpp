// SPDX-License-Identifier: Apache-2.0
// The local resolver between processes and threads. They compete for an ID, die at any moment, belong to other users,
// or run out of resources.
#include <sys/mount.h>

#include <atomic>
#include <thread>

#include "resolver/local/local_resolver.hpp"
#include "resolver/local/service_record.hpp"
#include "resolver_helpers.hpp"

namespace ripc::internal::resolver {
namespace {

constexpr ripc_service_id kSharedService = 1000;

class LocalResolverProcess : public ::testing::Test {
 protected:
  // Runs `body` with a context in a child, which then lives until finish().
  template <typename Body>
  Child holding_child(Body body, std::uint32_t policy = RIPC_PEERS_SAME_USER) {
    return Child([&] {
      hold_.close_write();
      LocalContext context(path_, policy);
      CHILD_CHECK(context);
      const int result = body(context);
      done_.put();
      hold_.get();
      return result;
    });
  }

  const test::TemporaryDirectory temporary_;
  const std::string path_ = temporary_ / "run";
  const std::string services_ = path_ + "/services";
  const std::string record_ = services_ + "/" + RuntimeDirectory::file_name(kSharedService).data();
  Pipe done_, hold_;
};

// ---- Races ---------------------------------------------------------------------------------------------------

TEST_F(LocalResolverProcess, ExactlyOneOfManyProcessesThatClaimAnIdAtOnceWins) {
  constexpr int kClaimants = 5;
  for (int round = 0; round < 20; ++round) {
    if (round % 2 == 1) {  // leaves the record of a dead process
      LocalContext dead(path_);
      ASSERT_TRUE(dead.publish(kSharedService, "server").ok());
    }
    Pipe ready, start, done, hold;
    std::vector<Child> children;
    for (int i = 0; i < kClaimants; ++i) {
      children.emplace_back([&] {
        start.close_write();
        hold.close_write();
        LocalContext context(path_);
        CHILD_CHECK(context);
        ready.put();
        start.get();
        const Status status = context.publish_patiently(kSharedService, "server");
        CHILD_CHECK(status.ok() || status == RIPC_ID_IN_USE);
        done.put();
        hold.get();
        return status.ok() ? 100 : 0;
      });
    }
    for (int i = 0; i < kClaimants; ++i) ASSERT_TRUE(ready.get());
    start.close_write();
    for (int i = 0; i < kClaimants; ++i) ASSERT_TRUE(done.get());
    hold.close_write();
    int winners = 0;
    for (Child& child : children) {
      const int result = child.wait();
      EXPECT_TRUE(result == 0 || result == 100) << result;
      if (result == 100) ++winners;
    }
    EXPECT_EQ(winners, 1);
  }
}

TEST_F(LocalResolverProcess, TakeoversAtOnceFormOneChainInWhichEveryHolderIsDisplacedOnce) {
  constexpr int kThreads = 3;
  constexpr int kRounds = 60;
  LocalContext first(path_);
  ASSERT_TRUE(first.publish(kSharedService).ok());
  std::vector<std::unique_ptr<LocalContext>> contexts;
  for (int i = 0; i < kThreads; ++i) contexts.push_back(std::make_unique<LocalContext>(path_));
  std::vector<std::vector<std::uint64_t>> held(kThreads), displaced(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < kRounds; ++round) {
        const Status status = contexts[i]->publish_patiently(kSharedService, "", true);
        EXPECT_TRUE(status.ok()) << status.text();
        held[i].push_back(contexts[i]->last.incarnation);
        for (const ServiceRecord& record : contexts[i]->displaced) displaced[i].push_back(record.incarnation);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::uint64_t> all_held{first.last.incarnation}, all_displaced;
  for (std::size_t i = 0; i < kThreads; ++i) {
    all_held.insert(all_held.end(), held[i].begin(), held[i].end());
    all_displaced.insert(all_displaced.end(), displaced[i].begin(), displaced[i].end());
  }
  std::sort(all_held.begin(), all_held.end());
  std::sort(all_displaced.begin(), all_displaced.end());
  ASSERT_EQ(std::adjacent_find(all_held.begin(), all_held.end()), all_held.end());  // no incarnation occurs twice
  EXPECT_EQ(first.resolve(kSharedService)->incarnation, all_held.back());
  all_held.pop_back();
  EXPECT_EQ(all_displaced, all_held);
}

TEST_F(LocalResolverProcess, APublisherIsFoundUntilItWithdrawsWhateverOthersDo) {
  constexpr int kThreads = 3;
  std::atomic<int> published{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<LocalContext>> contexts;
  for (int i = 0; i < kThreads; ++i) contexts.push_back(std::make_unique<LocalContext>(path_));
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      LocalContext& own = *contexts[i];
      LocalContext& other = *contexts[(i + 1) % kThreads];
      while (published < 300) {
        const Status status = own.publish_patiently(kSharedService);
        if (!status.ok()) {
          EXPECT_EQ(status.code(), RIPC_ID_IN_USE) << status.text();
          continue;
        }
        ++published;
        const Result<ServiceRecord> found = other.resolve(kSharedService);
        EXPECT_TRUE(found.ok() && *found == own.last) << found.status().text();
        own->withdraw(own.last);
      }
    });
  }
  std::thread sweeper([&] {
    LocalContext context(path_);
    while (!stop) context->sweep();
  });
  for (std::thread& thread : threads) thread.join();
  stop = true;
  sweeper.join();
  // The next call completes a withdrawal that timed out.
  for (const auto& context : contexts) EXPECT_EQ(context->resolve(kSharedService).status().code(), RIPC_NO_SERVICE);
  EXPECT_EQ(names_in(services_), Names{});
}

TEST_F(LocalResolverProcess, AServiceThatMovesIsFoundAtEveryMoment) {
  LocalContext reader(path_), one(path_), two(path_);
  ASSERT_TRUE(one.publish(kSharedService).ok());
  std::atomic<bool> stop{false};
  std::thread mover([&] {
    for (int round = 0; round < 500; ++round)
      EXPECT_TRUE((round % 2 == 0 ? two : one).publish_patiently(kSharedService, "", true).ok());
    stop = true;
  });
  std::uint64_t last = 0;
  while (!stop) {
    const Result<ServiceRecord> found = reader.resolve(kSharedService);
    EXPECT_TRUE(found.ok()) << found.status().text();
    if (!found.ok()) break;
    EXPECT_GE(found->incarnation, last);
    last = found->incarnation;
  }
  mover.join();
}

// ---- Death ---------------------------------------------------------------------------------------------------

TEST_F(LocalResolverProcess, AfterSigkillAtAnyMomentTheDirectoryIsUsableAndASweepLeavesNothing) {
  LocalContext survivor(path_);
  ASSERT_TRUE(survivor.publish(1, "survivor").ok());
  const std::string survivors_socket = RuntimeDirectory::file_name(survivor.id()).data();
  const std::string survivors_record = RuntimeDirectory::file_name(1).data();
  for (int round = 0; round < 200; ++round) {
    Pipe started;
    Child child([&] {
      LocalContext context(path_);
      CHILD_CHECK(context);
      started.put();
      for (ripc_service_id id = kSharedService;; id = kSharedService + (id + 1) % 3) {
        if (!context.publish(id, "server", true).ok()) return 1;
        if (random_u64() % 2 == 0) context->withdraw(context.last);
      }
    });
    ASSERT_TRUE(started.get());
    ::usleep(static_cast<useconds_t>(random_u64() % 1500));  // the random moment
    child.kill(SIGKILL);
    ASSERT_EQ(child.wait(), 1000 + SIGKILL);
    if (round % 2 == 0) {  // the ID is usable without a sweep
      LocalContext next(path_);
      for (ripc_service_id id = kSharedService; id < kSharedService + 3; ++id) {
        const Status status = next.publish(id, "other");
        ASSERT_TRUE(status.ok()) << status.text();
        ASSERT_EQ(*survivor.resolve(id), next.last);
        next->withdraw(next.last);
      }
      next.directory().remove_context(next.id());
    }
    survivor.directory().sweep();
    survivor->sweep();
    ASSERT_EQ(names_in(path_ + "/contexts"), Names{survivors_socket}) << round;
    ASSERT_EQ(names_in(services_), Names{survivors_record}) << round;
    ASSERT_EQ(*survivor.resolve(1), survivor.last);
  }
}

TEST_F(LocalResolverProcess, AStoppedProcessKeepsItsServices) {
  Child child = holding_child([](LocalContext& context) { return context.publish(kSharedService).ok() ? 0 : 1; });
  ASSERT_TRUE(done_.get());
  child.kill(SIGSTOP);
  int status = 0;
  ASSERT_EQ(::waitpid(child.pid(), &status, WUNTRACED), child.pid());
  LocalContext own(path_);
  EXPECT_TRUE(own.resolve(kSharedService).ok());
  EXPECT_EQ(own.publish(kSharedService).code(), RIPC_ID_IN_USE);
  child.kill(SIGKILL);
  EXPECT_EQ(child.wait(), 1000 + SIGKILL);
  EXPECT_TRUE(own.publish(kSharedService).ok());
}

// ---- Running out ---------------------------------------------------------------------------------------------

TEST_F(LocalResolverProcess, WithoutDescriptorsEveryCallSaysSoAndAWithdrawIsDoneLater) {
  EXPECT_EQ(run_in_child([&] {
              LocalContext context(path_);
              CHILD_CHECK(context && context.publish(kSharedService).ok());
              const ServiceRecord record = context.last;
              test::fill_descriptor_table();
              const Status published = context.publish(kSharedService + 1);
              CHILD_CHECK(published == RIPC_NO_DESCRIPTORS && mentions(published, "ulimit"));
              CHILD_CHECK(context.resolve(kSharedService).status() == RIPC_NO_DESCRIPTORS);
              CHILD_CHECK(context->list([](const ServiceRecord&) {}) == RIPC_NO_DESCRIPTORS);
              CHILD_CHECK(context->sweep() == 0);
              context->withdraw(record);
              ::close(63);
              CHILD_CHECK(context.resolve(kSharedService).status() == RIPC_NO_SERVICE);
              CHILD_CHECK(context.publish(kSharedService).ok());
              CHILD_CHECK(context.resolve(kSharedService).ok());
              ::close(62);  // a list needs two descriptors
              CHILD_CHECK(listed(*context).size() == 1);
              context->withdraw(context.last);
              return 0;
            }),
            0);
  EXPECT_EQ(names_in(services_), Names{});
}

TEST_F(LocalResolverProcess, AFullDiskIsNamedAsTheCauseAndHarmsNoRecord) {
  SKIP_UNLESS_ROOT("mounts a small file system");
  temporary_.make("run", 0700);
  const int result = run_in_child([&] {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 77;
    // Room for the root, the two directories, two sockets and one record.
    if (::mount("none", path_.c_str(), "tmpfs", 0, "size=64k,nr_inodes=6,mode=0700") != 0) return 77;
    LocalContext one(path_), two(path_);
    CHILD_CHECK(one && two && one.publish(kSharedService).ok());
    const Status full = two.publish(kSharedService + 1);
    CHILD_CHECK(full == RIPC_NO_MEMORY && mentions(full, path_) && mentions(full, "used up"));
    CHILD_CHECK(two.publish(kSharedService, "", true) == RIPC_NO_MEMORY);
    CHILD_CHECK(*two.resolve(kSharedService) == one.last);
    one->withdraw(one.last);
    CHILD_CHECK(two.publish(kSharedService + 1).ok());
    CHILD_CHECK(names_in(services_).size() == 1);
    return 0;
  });
  if (result == 77) GTEST_SKIP() << "this sandbox forbids mount namespaces";
  EXPECT_EQ(result, 0);
}

TEST_F(LocalResolverProcess, ADiskWithoutRoomForTheTextHarmsNoRecord) {
  SKIP_UNLESS_ROOT("mounts a small file system");
  temporary_.make("run", 0700);
  const int result = run_in_child([&] {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 77;
    if (::mount("none", path_.c_str(), "tmpfs", 0, "size=16k,mode=0700") != 0) return 77;
    LocalContext one(path_), two(path_);
    CHILD_CHECK(one && two && one.publish(kSharedService).ok());
    const UniqueFd filler(::open((path_ + "/filler").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const std::string page(4096, 'x');
    while (::write(filler.get(), page.data(), page.size()) > 0) {
    }
    CHILD_CHECK(two.publish(kSharedService + 1) == RIPC_NO_MEMORY);
    CHILD_CHECK(two.publish(kSharedService, "", true) == RIPC_NO_MEMORY);
    CHILD_CHECK(*two.resolve(kSharedService) == one.last);
    CHILD_CHECK(names_in(services_).size() == 1);
    return 0;
  });
  if (result == 77) GTEST_SKIP() << "this sandbox forbids mount namespaces";
  EXPECT_EQ(result, 0);
}

// ---- Namespaces ----------------------------------------------------------------------------------------------

TEST_F(LocalResolverProcess, ServicesAreFoundAcrossMountAndPidNamespaces) {
  SKIP_UNLESS_ROOT("makes namespaces");
  const std::string elsewhere = temporary_.make("elsewhere", 0700);
  LocalContext own(path_);
  ASSERT_TRUE(own.publish(kSharedService).ok());
  Child child([&] {
    hold_.close_write();
    if (::unshare(CLONE_NEWNS | CLONE_NEWPID) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount(path_.c_str(), elsewhere.c_str(), nullptr, MS_BIND, nullptr) != 0) {
      done_.put();
      return 77;
    }
    return run_in_child([&] {
      LocalContext context(elsewhere);
      CHILD_CHECK(context);
      CHILD_CHECK(*context.resolve(kSharedService) == own.last);
      CHILD_CHECK(context.publish(kSharedService) == RIPC_ID_IN_USE);
      CHILD_CHECK(context.publish(kSharedService + 1, "inside").ok());
      done_.put();
      hold_.get();
      return 0;
    });
  });
  ASSERT_TRUE(done_.get());
  const Result<ServiceRecord> found = own.resolve(kSharedService + 1);
  hold_.close_write();
  const int result = child.wait();
  if (result == 77) GTEST_SKIP() << "this sandbox forbids namespaces";
  EXPECT_EQ(result, 0);
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(found->name, "inside");
  EXPECT_EQ(own.resolve(kSharedService + 1).status().code(), RIPC_NO_SERVICE);
}

}  // namespace
}  // namespace ripc::internal::resolver
