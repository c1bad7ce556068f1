// SPDX-License-Identifier: Apache-2.0
// Resolvers that run out of memory: the call says so or succeeds, the resolver's thread survives, and nothing is left
// that a later call would find.
#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <functional>
#include <optional>
#include <utility>

#include "directory_helpers.hpp"
#include "multicast_helpers.hpp"
#include "resolver/static/static_resolver.hpp"
#include "support/failing_new.hpp"
#include "trust_options.hpp"

namespace ripc::internal::test {
namespace {

using support::FailingAllocation;

constexpr std::uint64_t kMostAllocations = 2000;  // of one operation
constexpr ripc_service_id kId = 4711;
constexpr ripc_service_id kGroup = RIPC_GROUP_ID(7);

// Runs the operation again and again. First its first allocation fails, then its second and so on, until it has no
// more.
void fail_each(FailingAllocation::Where where, const std::function<void()>& operation,
               const std::function<void(bool failed)>& check) {
  std::uint64_t nth = 1;
  for (bool failed = true; failed; ++nth) {
    SCOPED_TRACE(testing::Message() << "allocation " << nth);
    ASSERT_LT(nth, kMostAllocations);
    {
      const FailingAllocation failing(nth, where);
      try {
        operation();
      } catch (const std::bad_alloc&) {
        // The C interface reports this.
      }
      failed = failing.failed();
    }
    check(failed);
    if (testing::Test::HasFatalFailure() || testing::Test::HasNonfatalFailure()) return;
  }
}

class MulticastMemoryTest : public testing::Test {
 protected:
  MulticastMemoryTest() : options_(loopback_options()), asker_(options_), holder_(options_) {}

  bool finds(ripc_service_id id) { return asker_->resolve(id, Deadline::after(kMulticastPatience)).ok(); }
  void publish(MulticastContext& at, ripc_service_id id) {
    spi::ServiceRecord record = at.record(id);
    record.groups = {kGroup};
    ASSERT_TRUE(at->publish(record, true, nullptr).ok());
    published_ = record;
  }

  const MulticastOptions options_;
  MulticastContext asker_;
  MulticastContext holder_;
  spi::ServiceRecord published_;
};

TEST_F(MulticastMemoryTest, AFailedQuestionCanBeAskedAgain) {
  publish(holder_, kId);
  const auto check = [&](bool) {
    EXPECT_TRUE(finds(kId));
    spi::ServiceRecord known = published_;
    asker_->invalidate(known);
  };
  fail_each(
      FailingAllocation::Where::here, [&] { (void)asker_->resolve(kId, Deadline::after(kMulticastPatience)); }, check);
}

TEST_F(MulticastMemoryTest, AServiceIsPublishedOrIsNotAndCanBeWithdrawn) {
  spi::ServiceRecord record;
  fail_each(
      FailingAllocation::Where::here,
      [&] {
        record = {};
        spi::ServiceRecord candidate = asker_.record(kId);
        if (asker_->publish(candidate, false, nullptr).ok()) record = std::move(candidate);
      },
      [&](bool) {
        if (record.id != 0) {
          asker_->withdraw(record);
        }
        EXPECT_FALSE(asker_->resolve(kId, Deadline::after(0)).ok()) << "it was published half";
      });
}

TEST_F(MulticastMemoryTest, MembersAreFoundAgain) {
  publish(holder_, kId);
  ASSERT_TRUE(finds(kId));
  int visited = 0;
  const auto count = [&](const spi::ServiceRecord&) { ++visited; };
  const auto check = [&](bool) {
    visited = 0;
    EXPECT_TRUE(asker_->members(kGroup, Deadline::after(kMulticastPatience), count).ok());
    EXPECT_EQ(visited, 1);
  };
  fail_each(
      FailingAllocation::Where::here,
      [&] { (void)asker_->members(kGroup, Deadline::after(kMulticastPatience), count); }, check);
}

TEST_F(MulticastMemoryTest, TheThreadsSurvive) {
  fail_each(
      FailingAllocation::Where::elsewhere,
      [&] {
        publish(holder_, kId);
        (void)asker_->resolve(kId, Deadline::after(200'000'000));
        holder_->withdraw(published_);
      },
      [&](bool) {
        publish(holder_, kId);
        EXPECT_TRUE(finds(kId));
        holder_->withdraw(published_);
        EXPECT_TRUE(eventually([&] { return !asker_->resolve(kId, Deadline::after(0)).ok(); })) << "told of the end";
      });
}

// Three contexts of a directory. While one of them handles its answers, the nth allocation fails, once.
class DirectoryMemoryTest : public testing::Test {
 protected:
  // Returns whether an allocation failed; false: no answer took so many.
  bool move_without(std::uint64_t nth, bool lacks_new_holder) {
    FakeWorld world;
    DirectoryContext asker(world), former(world), next(world);
    EXPECT_TRUE(former.publish(kId).ok());
    EXPECT_EQ(asker.holder(kId, kMulticastPatience), former.id());
    std::atomic<bool> has_failed = false;
    (lacks_new_holder ? next : asker).directory().tell_by([&](const std::function<void()>& tell) {
      if (has_failed) return tell();
      const FailingAllocation failing(nth);
      try {
        tell();
      } catch (const std::bad_alloc&) {
        has_failed = true;
        throw;
      }
    });
    EXPECT_TRUE(next.publish(kId, true).ok());
    EXPECT_TRUE(asker.sees(kId, next.id()));
    EXPECT_TRUE(asker.was_notified(kId, next.id()));
    EXPECT_TRUE(eventually([&] { return next->state().unsettled == 0; }));
    return has_failed;
  }
};

TEST_F(DirectoryMemoryTest, AServiceIsPublishedOrIsNot) {
  FakeWorld world;
  DirectoryContext one(world);
  spi::ServiceRecord record;
  fail_each(
      FailingAllocation::Where::here,
      [&] {
        record = {};
        spi::ServiceRecord candidate = one.record(kId);
        if (one->publish(candidate, false, nullptr).ok()) record = std::move(candidate);
      },
      [&](bool) {
        if (record.id != 0) one->withdraw(record);
        one.directory().expire();
        EXPECT_TRUE(eventually([&] { return one->state().published + one->state().unsettled == 0; }));
        EXPECT_TRUE(world.nodes.empty()) << "it was published half";
      });
}

// With an identity, which is part of the record and not of what is updated.
TEST_F(DirectoryMemoryTest, AnUpdateIsMadeOrIsNot) {
  FakeWorld world;
  resolver::DirectoryOptions options = directory_options();
  options.credentials = member_credentials(options.credentials.keys, 1);
  DirectoryContext one(world, options);
  constexpr ripc_service_id kUpdatedId = (ripc_service_id{3} << 62) | 5;
  const Result<spi::ServiceRecord> own = one.publish(kUpdatedId, true);
  ASSERT_TRUE(own.ok()) << own.status().text();
  spi::ServiceRecord before = *own;
  spi::ServiceRecord wanted = *own;
  bool is_updated = false;
  const auto check = [&](bool) {
    if (std::exchange(is_updated, false)) before = wanted;
    const Result<spi::ServiceRecord> known = one->resolve(kUpdatedId, Deadline::after(0));
    ASSERT_TRUE(known.ok()) << known.status().text();
    EXPECT_EQ(*known, before);
    EXPECT_EQ(known->member, "alice");
  };
  fail_each(
      FailingAllocation::Where::here,
      [&] {
        wanted.addresses.front().locator += "0";
        is_updated = one->update(wanted).ok();
        EXPECT_TRUE(is_updated);
      },
      check);
}

// Publishing a service anew without memory leaves the former one.
TEST_F(DirectoryMemoryTest, AServiceIsPublishedAnewOrStaysAsItWas) {
  FakeWorld world;
  DirectoryContext one(world);
  const Result<spi::ServiceRecord> own = one.publish(kId);
  ASSERT_TRUE(own.ok()) << own.status().text();
  std::uint64_t incarnation = own->incarnation;
  fail_each(
      FailingAllocation::Where::here,
      [&] {
        spi::ServiceRecord next = one.record(kId);
        next.incarnation = incarnation + 1;
        ASSERT_TRUE(one->publish(next, true, nullptr).ok());
        incarnation = next.incarnation;
      },
      [&](bool) {
        const Result<spi::ServiceRecord> known = one->resolve(kId, Deadline::after(0));
        ASSERT_TRUE(known.ok()) << known.status().text();
        EXPECT_EQ(known->incarnation, incarnation);
      });
  spi::ServiceRecord last = *own;
  last.incarnation = incarnation;
  one->withdraw(last);
  EXPECT_TRUE(eventually([&] { return one->state().published + one->state().unsettled == 0; }));
  const std::lock_guard lock(world.mutex);
  EXPECT_TRUE(world.nodes.empty());
}

TEST_F(DirectoryMemoryTest, AnAnswerToAnAskerIsNotLostNorIsItsNews) {
  std::uint64_t nth = 1;
  while (nth < kMostAllocations && move_without(nth, false) && !HasFailure()) ++nth;
  EXPECT_GT(nth, 3U);
}

TEST_F(DirectoryMemoryTest, AnAnswerToAPublisherIsNotLost) {
  std::uint64_t nth = 1;
  while (nth < kMostAllocations && move_without(nth, true) && !HasFailure()) ++nth;
  EXPECT_GT(nth, 3U);
}

TEST_F(DirectoryMemoryTest, WatchesFromBeforeALackOfMemoryStillCount) {
  constexpr ripc_service_id kMost = 300;  // more than are read at once
  FakeWorld world;
  resolver::DirectoryOptions options = directory_options();
  options.max_cached = kMost;
  DirectoryContext asker(world, options);
  FakeDirectory& directory = asker.directory();
  directory.settle_down();
  for (ripc_service_id id = 1; id <= kMost; ++id) (void)asker.holder(id);
  directory.settle_down();
  ASSERT_EQ(directory.watches(), kMost);
  std::atomic<unsigned> told = 0;
  std::atomic<bool> may_go_on = false;
  directory.tell_by([&](const std::function<void()>& tell) {
    if (++told == 1) throw std::bad_alloc();
    EXPECT_TRUE(eventually([&] { return may_go_on.load(); }));
    tell();
  });
  world.put(resolver::service_path(1), "");
  ASSERT_TRUE(eventually([&] { return told == 2; })) << "all are read again";
  for (ripc_service_id id = kMost + 1; id <= 2 * kMost; ++id) (void)asker.holder(id);
  may_go_on = true;
  directory.settle_down();
  EXPECT_LE(directory.watches(), kMost);
}

TEST_F(DirectoryMemoryTest, WatchesOfOwnServicesFromBeforeALackOfMemoryStillCount) {
  constexpr ripc_service_id kRandom = ripc_service_id{3} << 62;
  FakeWorld world;
  world.most_watches = 24;
  resolver::DirectoryOptions options = directory_options();
  options.max_groups = 4;
  DirectoryContext one(world, options);
  for (ripc_service_id id = 1; id <= 40; ++id) ASSERT_TRUE(one.publish(kRandom | id).ok());
  one.directory().settle_down();
  ASSERT_EQ(one.directory().watches(), 10u);
  std::atomic<unsigned> told = 0;
  one.directory().tell_by([&](const std::function<void()>& tell) {
    if (++told == 1) throw std::bad_alloc();
    tell();
  });
  EXPECT_EQ(one.holder(kId), 0u);
  ASSERT_TRUE(eventually([&] { return told != 0 && one->state().unsettled == 0; }));
  one.directory().settle_down();
  EXPECT_LE(one.directory().watches(), 11u);
}

// A file that was read a while after its last change is not read again.
TEST(StaticMemoryTest, AFileThatCouldNotBeUnderstoodIsReadAgain) {
  const TemporaryDirectory temporary;
  const std::string file = temporary / "known";
  write_file(file, "4711 socket:one socket:two\n");
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const timespec times[2] = {{now.tv_sec - 10, 0}, {now.tv_sec - 10, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
  std::optional<resolver::StaticResolver> resolver;
  const auto start_anew = [&] { resolver.emplace(file, core::id_of_name, core::id_of_name, any_address, as_written); };
  start_anew();
  fail_each(
      FailingAllocation::Where::here, [&] { (void)resolver->resolve(kId, Deadline::after(0)); },
      [&](bool) {
        const Result<spi::ServiceRecord> found = resolver->resolve(kId, Deadline::after(0));
        EXPECT_TRUE(found.ok() && found->id == kId) << found.status().text();
        start_anew();
      });
}

}  // namespace
}  // namespace ripc::internal::test
