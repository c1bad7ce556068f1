// SPDX-License-Identifier: Apache-2.0
// The local resolver in a runtime directory that several users share. The other user is "nobody".
#include <sched.h>
#include <sys/mount.h>

#include <atomic>
#include <thread>

#include "resolver/local/local_resolver.hpp"
#include "resolver/local/record_file.hpp"
#include "resolver/local/service_record.hpp"
#include "resolver_helpers.hpp"

namespace ripc::internal::resolver {
namespace {

constexpr ripc_service_id kOwnedService = ripc_service_id{1} << 63 | 1000;  // as if made from a name

class LocalResolverUsers : public ::testing::Test {
 protected:
  void SetUp() override { SKIP_UNLESS_ROOT("becomes another user"); }

  // Makes the directory as an administrator does.
  void make_directory(mode_t mode) {
    temporary_.make("run", mode);
    temporary_.make("run/contexts", mode);
    temporary_.make("run/services", mode);
  }
  template <typename Body>
  int run_as_nobody(std::uint32_t policy, Body body) {
    return run_in_child([&] {
      CHILD_CHECK(test::become_nobody());
      LocalContext context(path_, policy);
      CHILD_CHECK(context);
      return body(context);
    });
  }
  ServiceRecord leave_dead_record(std::uint32_t policy) {
    LocalContext dead(path_, policy);
    EXPECT_TRUE(dead.publish(kOwnedService, "server").ok());
    return dead.last;
  }

  const test::TemporaryDirectory temporary_;
  const std::string path_ = temporary_ / "run";
  const std::string services_ = path_ + "/services";
  const std::string record_ = services_ + "/" + RuntimeDirectory::file_name(kOwnedService).data();
};

TEST_F(LocalResolverUsers, UsersFindEachOthersServicesWithThePolicyAny) {
  make_directory(01777);
  LocalContext own(path_, RIPC_PEERS_ANY);
  ASSERT_TRUE(own.publish(kOwnedService, "server").ok());
  EXPECT_EQ(run_as_nobody(RIPC_PEERS_ANY,
                          [&](LocalContext& context) {
                            CHILD_CHECK(*context.resolve(kOwnedService) == own.last);
                            CHILD_CHECK(listed(*context).size() == 1);
                            CHILD_CHECK(context.publish(kOwnedService, "server") == RIPC_ID_IN_USE);
                            CHILD_CHECK(context.publish(kOwnedService, "other", true) == RIPC_NAME_COLLISION);
                            return 0;
                          }),
            0);
}

TEST_F(LocalResolverUsers, ARecordOfAnotherUserThatMayNotBeReadIsAPermissionErrorThatSaysWhatToDo) {
  make_directory(01777);
  LocalContext own(path_, RIPC_PEERS_SAME_USER);
  ASSERT_TRUE(own.publish(kOwnedService, "server").ok());
  EXPECT_EQ(run_as_nobody(RIPC_PEERS_ANY,
                          [&](LocalContext& context) {
                            const Status resolved = context.resolve(kOwnedService).status();
                            CHILD_CHECK(resolved == RIPC_PERMISSION && mentions(resolved, "RIPC_PEERS"));
                            const Status published = context.publish(kOwnedService, "server", true);
                            CHILD_CHECK(published == RIPC_PERMISSION && mentions(published, "another user"));
                            CHILD_CHECK(listed(*context).empty());
                            CHILD_CHECK(context->sweep() == 0);
                            context->withdraw(own.last);
                            return 0;
                          }),
            0);
  EXPECT_EQ(*own.resolve(kOwnedService), own.last);
}

TEST_F(LocalResolverUsers, ATakeoverFromAUserWhoIsNotAdmittedIsRefusedAndSaysWhatToDo) {
  make_directory(01777);
  Pipe done, hold;
  Child child([&] {
    hold.close_write();
    CHILD_CHECK(test::become_nobody());
    LocalContext context(path_, RIPC_PEERS_ANY);
    CHILD_CHECK(context && context.publish(kOwnedService, "server").ok());
    done.put();
    hold.get();
    return 0;
  });
  ASSERT_TRUE(done.get());
  LocalContext choosy(path_, RIPC_PEERS_SAME_USER);
  const Result<ServiceRecord> before = choosy.resolve(kOwnedService);
  ASSERT_TRUE(before.ok()) << before.status().text();
  const Status refused = choosy.publish(kOwnedService, "server", true);
  EXPECT_EQ(refused.code(), RIPC_PERMISSION);
  EXPECT_TRUE(mentions(refused, "RIPC_PEERS")) << refused.text();
  EXPECT_EQ(*choosy.resolve(kOwnedService), *before) << "the holder keeps the ID";
  LocalContext open(path_, RIPC_PEERS_ANY);
  EXPECT_TRUE(open.publish(kOwnedService, "server", true).ok());
  EXPECT_EQ(open.displaced.size(), 1u);
  hold.close_write();
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(LocalResolverUsers, ARecordThatMayOnlyBeReadStillTellsWhetherItsHolderLives) {
  make_directory(01777);
  LocalContext own(path_, RIPC_PEERS_ANY);
  ASSERT_TRUE(own.publish(kOwnedService, "server").ok());
  ASSERT_EQ(::chmod(record_.c_str(), 0644), 0);
  EXPECT_EQ(run_as_nobody(RIPC_PEERS_ANY,
                          [&](LocalContext& context) {
                            CHILD_CHECK(*context.resolve(kOwnedService) == own.last);
                            CHILD_CHECK(context.publish(kOwnedService, "server") == RIPC_ID_IN_USE);
                            CHILD_CHECK(context.publish(kOwnedService, "other") == RIPC_NAME_COLLISION);
                            CHILD_CHECK(context.publish(kOwnedService, "server", true) == RIPC_PERMISSION);
                            return 0;
                          }),
            0);
  own.die();
  EXPECT_EQ(run_as_nobody(RIPC_PEERS_ANY,
                          [&](LocalContext& context) {
                            CHILD_CHECK(context.publish(kOwnedService, "server") == RIPC_PERMISSION);
                            CHILD_CHECK(context.resolve(kOwnedService).status() == RIPC_NO_SERVICE);
                            return 0;
                          }),
            0);
}

TEST_F(LocalResolverUsers, InAStickyDirectoryTheRecordOfADeadUserIsOverwrittenInPlace) {
  make_directory(01777);
  const ServiceRecord dead = leave_dead_record(RIPC_PEERS_ANY);
  struct stat before {
  }, after{};
  ASSERT_EQ(::stat(record_.c_str(), &before), 0);
  Pipe done, hold;
  Child child([&] {
    hold.close_write();
    CHILD_CHECK(test::become_nobody());
    LocalContext context(path_, RIPC_PEERS_ANY);
    CHILD_CHECK(context && context.publish(kOwnedService, "n").ok());  // shorter than the old record
    CHILD_CHECK(context.displaced.empty() && context.last.incarnation > dead.incarnation);
    CHILD_CHECK(*context.resolve(kOwnedService) == context.last);
    done.put();
    hold.get();
    context->withdraw(context.last);
    CHILD_CHECK(context.resolve(kOwnedService).status() == RIPC_NO_SERVICE);
    CHILD_CHECK(context.publish(kOwnedService, "a longer name than that of the first service").ok());
    context->withdraw(context.last);
    CHILD_CHECK(listed(*context).empty());
    return 0;
  });
  ASSERT_TRUE(done.get());
  LocalContext own(path_, RIPC_PEERS_ANY);
  const Result<ServiceRecord> found = own.resolve(kOwnedService);
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(found->name, "n");
  ASSERT_EQ(::stat(record_.c_str(), &after), 0);
  EXPECT_EQ(after.st_ino, before.st_ino);
  hold.close_write();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(names_in(services_).size(), 1u);  // a vacant record, for its owner or root to remove
  EXPECT_EQ(own->sweep(), 1u);
  EXPECT_EQ(names_in(services_), Names{});
}

TEST_F(LocalResolverUsers, InAStickyDirectoryARecordThatMayNotBeWrittenStaysAndTheErrorSaysWhatToDo) {
  make_directory(01777);
  leave_dead_record(RIPC_PEERS_SAME_USER);
  EXPECT_EQ(run_as_nobody(RIPC_PEERS_ANY,
                          [&](LocalContext& context) {
                            const Status status = context.publish(kOwnedService, "server");
                            CHILD_CHECK(status == RIPC_PERMISSION && mentions(status, record_) &&
                                        mentions(status, "RIPC_PEERS"));
                            return 0;
                          }),
            0);
  EXPECT_EQ(LocalContext(path_, RIPC_PEERS_ANY)->sweep(), 0u);  // root's context swept when it was made
  EXPECT_EQ(names_in(services_), Names{});
}

TEST_F(LocalResolverUsers, WithoutTheStickyBitADeadUsersRecordIsReplacedAndRemoved) {
  make_directory(0777);
  leave_dead_record(RIPC_PEERS_ANY);
  EXPECT_EQ(run_as_nobody(RIPC_PEERS_ANY,
                          [&](LocalContext& context) {
                            CHILD_CHECK(context.publish(kOwnedService, "other").ok());
                            CHILD_CHECK(*context.resolve(kOwnedService) == context.last);
                            context->withdraw(context.last);
                            return names_in(services_).empty() ? 0 : 1;
                          }),
            0);
}

TEST_F(LocalResolverUsers, TakeoverWorksBetweenUsersWithThePolicyAny) {
  make_directory(01777);
  LocalContext own(path_, RIPC_PEERS_ANY);
  ASSERT_TRUE(own.publish(kOwnedService, "server").ok());
  EXPECT_EQ(run_as_nobody(RIPC_PEERS_ANY,
                          [&](LocalContext& context) {
                            CHILD_CHECK(context.publish(kOwnedService, "server", true).ok());
                            CHILD_CHECK(context.displaced == std::vector<ServiceRecord>{own.last});
                            CHILD_CHECK(*context.resolve(kOwnedService) == context.last);
                            return 0;
                          }),
            0);
}

// Readers take no lock, so they can find a half-overwritten file; they must not treat it as stale.
TEST_F(LocalResolverUsers, AServiceThatMovesInPlaceIsFoundAtEveryMoment) {
  make_directory(01777);
  leave_dead_record(RIPC_PEERS_ANY);
  Pipe started, hold;
  Child child([&] {
    hold.close_write();
    CHILD_CHECK(test::become_nobody());
    LocalContext one(path_, RIPC_PEERS_ANY), two(path_, RIPC_PEERS_ANY);
    CHILD_CHECK(one && two && one.publish(kOwnedService).ok());
    started.put();
    for (int round = 0; round < 200; ++round) {
      LocalContext& context = round % 2 == 0 ? two : one;
      ServiceRecord record = context.record(kOwnedService);
      record.addresses.assign(static_cast<std::size_t>(1 + round % 12), {"socket", std::string(1000, 'x')});
      Status status = context->publish(record, true, nullptr);
      if (status == RIPC_TIMEOUT) status = context->publish(record, true, nullptr);  // the machine is busy
      CHILD_CHECK(status.ok());
    }
    started.put();
    hold.get();
    return 0;
  });
  ASSERT_TRUE(started.get());
  std::atomic<bool> stop{false};
  std::thread waiter([&] {
    started.get();
    stop = true;
  });
  LocalContext reader(path_, RIPC_PEERS_ANY);
  std::uint64_t last = 0;
  while (!stop) {
    const Result<ServiceRecord> found = reader.resolve(kOwnedService);
    EXPECT_TRUE(found.ok()) << found.status().text();
    if (!found.ok()) break;
    EXPECT_GE(found->incarnation, last);
    last = found->incarnation;
  }
  waiter.join();
  hold.close_write();
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(LocalResolverUsers, AFullDiskLeavesARecordThatIsOverwrittenInPlaceAsItWas) {
  temporary_.make("run", 01777);
  const int result = run_in_child([&] {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 77;
    if (::mount("none", path_.c_str(), "tmpfs", 0, "size=16k,mode=1777") != 0) return 77;
    temporary_.make("run/contexts", 01777);
    temporary_.make("run/services", 01777);
    leave_dead_record(RIPC_PEERS_ANY);
    const std::string before = test::read_file(record_);
    const UniqueFd filler(::open((path_ + "/filler").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const std::string page(4096, 'x');
    while (::write(filler.get(), page.data(), page.size()) > 0) {
    }
    CHILD_CHECK(test::become_nobody());
    const auto directory = RuntimeDirectory::open(path_.c_str(), RIPC_PEERS_ANY);
    CHILD_CHECK(directory.ok());
    Result<LockedRecord> locked = LockedRecord::lock(**directory, kOwnedService, Deadline::never());
    CHILD_CHECK(locked.ok() && locked->remove(page + page, true) == RIPC_NO_MEMORY);
    CHILD_CHECK(test::read_file(record_) == before);
    return 0;
  });
  if (result == 77) GTEST_SKIP() << "this sandbox forbids mount namespaces";
  EXPECT_EQ(result, 0);
}

TEST_F(LocalResolverUsers, AFileWithASecondNameIsNotOverwritten) {
  make_directory(01777);
  leave_dead_record(RIPC_PEERS_ANY);
  const std::string other = temporary_ / "other-name";
  ASSERT_EQ(::link(record_.c_str(), other.c_str()), 0);
  const std::string before = test::read_file(other);
  EXPECT_EQ(run_as_nobody(RIPC_PEERS_ANY,
                          [&](LocalContext& context) {
                            return context.publish(kOwnedService, "server") == RIPC_PERMISSION ? 0 : 1;
                          }),
            0);
  EXPECT_EQ(test::read_file(other), before);
}

TEST_F(LocalResolverUsers, AFileThatIsNoRecordIsNotOverwritten) {
  make_directory(01777);
  test::write_file(record_, "something of root's");
  ASSERT_EQ(::chmod(record_.c_str(), 0666), 0);
  EXPECT_EQ(run_as_nobody(RIPC_PEERS_ANY,
                          [&](LocalContext& context) {
                            CHILD_CHECK(context.publish(kOwnedService, "server") == RIPC_PERMISSION);
                            CHILD_CHECK(context.resolve(kOwnedService).status() == RIPC_NO_SERVICE);
                            return 0;
                          }),
            0);
  EXPECT_EQ(test::read_file(record_), "something of root's");
}

TEST_F(LocalResolverUsers, ADirectoryThatMayNotBeWrittenRefusesToPublishAndStillResolves) {
  make_directory(0755);
  LocalContext own(path_, RIPC_PEERS_ANY);
  ASSERT_TRUE(own.publish(kOwnedService, "server").ok());
  EXPECT_EQ(run_in_child([&] {
              CHILD_CHECK(test::become_nobody());
              Result<std::shared_ptr<RuntimeDirectory>> directory =
                  RuntimeDirectory::open(path_.c_str(), RIPC_PEERS_ANY);
              CHILD_CHECK(directory.ok());
              LocalResolver resolver(*directory, 1);
              CHILD_CHECK(*resolver.resolve(kOwnedService, Deadline::after(0)) == own.last);
              ServiceRecord record = own.record(kOwnedService + 1);
              const Status status = resolver.publish(record, false, nullptr);
              CHILD_CHECK(status == RIPC_PERMISSION && mentions(status, "RIPC_RUNTIME_DIR"));
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace ripc::internal::resolver
