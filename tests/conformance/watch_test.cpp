// SPDX-License-Identifier: Apache-2.0
// Waiting for a service to appear, and being told when one appears and ends.
#include <signal.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "puppet.hpp"

namespace conformance {
namespace {

constexpr ripc_service_id kWatchedId = 4711;

struct Event {
  ripc_status status = RIPC_PENDING;
  ripc_service_info info{};
};

// A watch, and what it has reported.
class Watch {
 public:
  Watch(const Context& context, ripc_service_id id) {
    EXPECT_EQ(ripc_service_watch(context.get(), id, &Watch::told, this, &handle_), RIPC_OK);
  }
  ~Watch() { end(); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void end() { ripc_service_unwatch(std::exchange(handle_, nullptr)); }
  // Returns its next report; RIPC_PENDING and a failure if there is none.
  Event next() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::nanoseconds(kLimit), [&] { return !events_.empty(); })) {
      ADD_FAILURE() << "the watch tells nothing";
      return {};
    }
    const Event event = events_.front();
    events_.pop_front();
    return event;
  }
  std::size_t waiting() {
    const std::lock_guard lock(mutex_);
    return events_.size();
  }

 private:
  static void told(void* user, ripc_status status, const ripc_service_info* info) {
    auto* const self = static_cast<Watch*>(user);
    const std::lock_guard lock(self->mutex_);
    self->events_.push_back({status, *info});
    self->changed_.notify_all();
  }

  ripc_watch* handle_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;
};

class Watching : public TransportTest {
 protected:
  void SetUp() override {
    watcher_ = make_context();
    holder_ = make_context();
  }
  static ripc_service_info blank() {
    ripc_service_info info = initialized(ripc_service_info_init);
    return info;
  }

  Context watcher_;
  Context holder_;
};
CONFORMANCE_SUITE(Watching);

// ---- Waiting -----------------------------------------------------------------------------------------------------

TEST_P(Watching, AWaitEndsAtOnceIfTheServiceIsThere) {
  const Service service = make_service(holder_, kWatchedId);
  ripc_service_info info = blank();
  ASSERT_EQ(ripc_wait_service(watcher_.get(), kWatchedId, RIPC_FOREVER, &info), RIPC_OK);
  EXPECT_EQ(info.id, kWatchedId);
  EXPECT_EQ(info.incarnation, ripc_service_get_incarnation(service.get()));
  EXPECT_EQ(info.transport, GetParam());
  EXPECT_STRNE(info.reason, "");
  // A look reports its finding and its end as separate events, and the caller may see the end first.
  for (int look = 0; look < 100; ++look)
    ASSERT_EQ(ripc_wait_service(watcher_.get(), kWatchedId, 0, nullptr), RIPC_OK) << "looks once; info may be NULL";
  EXPECT_EQ(ripc_wait_service(holder_.get(), kWatchedId, RIPC_FOREVER, nullptr), RIPC_OK) << "also in its own context";
}

TEST_P(Watching, AWaitEndsWhenTheServiceAppearsAndTheNextSendFindsIt) {
  const Service sender = make_service(watcher_);
  for (ripc_service_id id = kWatchedId; id < kWatchedId + 5; ++id) {
    std::atomic<bool> waits{false};
    std::jthread waiter([&] {
      waits = true;
      ASSERT_EQ(ripc_wait_service(watcher_.get(), id, kLimit, nullptr), RIPC_OK);
      EXPECT_EQ(send(sender, id, {}), RIPC_OK);
    });
    ASSERT_TRUE(eventually([&] { return waits.load(); }));
    const Service service = make_service(holder_, id);
    waiter.join();
    EXPECT_NE(receive(service), nullptr);
  }
}

TEST_P(Watching, AWaitByNameEndsWhenTheNameAppears) {
  std::jthread waiter([&] {
    ripc_service_info info = blank();
    ASSERT_EQ(ripc_wait_service_name(watcher_.get(), "late", kLimit, &info), RIPC_OK);
    EXPECT_STREQ(info.name, "late");
  });
  const Service service = make_service(holder_, [](ripc_service_options& options) { options.name = "late"; });
  waiter.join();
  EXPECT_EQ(ripc_wait_service_name(watcher_.get(), "late", 0, nullptr), RIPC_OK);
  EXPECT_EQ(ripc_wait_service_name(watcher_.get(), "with/slash", 0, nullptr), RIPC_INVALID_ARGUMENT);
}

TEST_P(Watching, AWaitForAServiceThatDoesNotAppearEndsWithTheTime) {
  const std::uint64_t start = now();
  EXPECT_EQ(ripc_wait_service(watcher_.get(), kWatchedId, 30 * kMillisecond, nullptr), RIPC_NO_SERVICE);
  EXPECT_GE(now() - start, 30 * kMillisecond) << "not earlier";
  EXPECT_EQ(ripc_wait_service(watcher_.get(), kWatchedId, 0, nullptr), RIPC_NO_SERVICE);
}

TEST_P(Watching, OnlyASingleServiceCanBeWaitedForAndWatched) {
  ripc_watch* watch = nullptr;
  const auto callback = [](void*, ripc_status, const ripc_service_info*) {};
  for (const ripc_service_id id : {ripc_service_id{0}, RIPC_GROUP_ID(7)}) {
    EXPECT_EQ(ripc_wait_service(watcher_.get(), id, 0, nullptr), RIPC_INVALID_ARGUMENT);
    EXPECT_EQ(ripc_service_watch(watcher_.get(), id, callback, nullptr, &watch), RIPC_INVALID_ARGUMENT);
  }
  EXPECT_EQ(ripc_service_watch(watcher_.get(), kWatchedId, nullptr, nullptr, &watch), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_service_watch(watcher_.get(), kWatchedId, callback, nullptr, nullptr), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(watch, nullptr);
  ripc_service_unwatch(nullptr);
}

TEST_P(Watching, ASignalHandlerEndsAWait) {
  expect_signal_ends([&] { return ripc_wait_service(watcher_.get(), kWatchedId, kLimit, nullptr); });
}

TEST_P(Watching, ACallbackMayWait) {
  struct Call {
    ripc_context* context;
    std::atomic<int> status{-1};
  } call{watcher_.get()};
  const Service first = make_service(holder_, kWatchedId);
  const Service second = make_service(holder_, kWatchedId + 1);
  ripc_watch* watch = nullptr;
  const auto waits = [](void* user, ripc_status, const ripc_service_info*) {
    auto* const of = static_cast<Call*>(user);
    of->status = ripc_wait_service(of->context, kWatchedId + 1, kLimit, nullptr);
  };
  ASSERT_EQ(ripc_service_watch(watcher_.get(), kWatchedId, waits, &call, &watch), RIPC_OK);
  EXPECT_TRUE(eventually([&] { return call.status == RIPC_OK; })) << call.status;
  ripc_service_unwatch(watch);
}

// ---- Watching ----------------------------------------------------------------------------------------------------

TEST_P(Watching, AServiceIsReportedWhenItAppearsWhenItIsUnregisteredAndWhenItIsThereAgain) {
  Watch watch(watcher_, kWatchedId);
  for (int round = 0; round < 3; ++round) {
    Service service = make_service(holder_, kWatchedId);
    const std::uint64_t incarnation = ripc_service_get_incarnation(service.get());
    const Event appeared = watch.next();
    EXPECT_EQ(appeared.status, RIPC_OK);
    EXPECT_EQ(appeared.info.id, kWatchedId);
    EXPECT_EQ(appeared.info.incarnation, incarnation);
    EXPECT_EQ(appeared.info.transport, GetParam());
    service.reset();
    const Event ended = watch.next();
    EXPECT_EQ(ended.status, RIPC_CLOSED);
    EXPECT_EQ(ended.info.incarnation, incarnation) << "the one that was";
  }
}

TEST_P(Watching, AServiceThatIsThereAlreadyIsReportedToEachWatch) {
  const Service service = make_service(holder_, kWatchedId);
  Watch one(watcher_, kWatchedId);
  Watch other(watcher_, kWatchedId);
  EXPECT_EQ(one.next().status, RIPC_OK);
  EXPECT_EQ(other.next().status, RIPC_OK);
}

TEST_P(Watching, AKilledProcessIsReportedWithoutAnySend) {
  Watch watch(watcher_, kWatchedId);
  for (int round = 0; round < 2; ++round) {
    Puppet puppet(peer_setup());
    ASSERT_EQ(puppet.register_id(kWatchedId), "RIPC_OK");
    EXPECT_EQ(watch.next().status, RIPC_OK);
    puppet.kill();
    EXPECT_EQ(watch.next().status, RIPC_PEER_DEAD);
  }
}

TEST_P(Watching, ATakeoverIsReportedAsAnEndAndANewBeginning) {
  const Service former = make_service(holder_, kWatchedId);
  Watch watch(watcher_, kWatchedId);
  EXPECT_EQ(watch.next().info.incarnation, ripc_service_get_incarnation(former.get()));
  const Context other = make_context();
  const Service service = make_service(other, [](ripc_service_options& options) {
    options.id = kWatchedId;
    options.takeover = 1;
  });
  const Event ended = watch.next();
  EXPECT_EQ(ended.status, RIPC_FENCED);
  EXPECT_EQ(ended.info.incarnation, ripc_service_get_incarnation(former.get()));
  const Event appeared = watch.next();
  EXPECT_EQ(appeared.status, RIPC_OK);
  EXPECT_EQ(appeared.info.incarnation, ripc_service_get_incarnation(service.get()));
}

TEST_P(Watching, ATakeoverFromAStoppedProcessIsReported) {
  Puppet puppet(peer_setup());
  ASSERT_EQ(puppet.register_id(kWatchedId), "RIPC_OK");
  Watch watch(watcher_, kWatchedId);
  EXPECT_EQ(watch.next().status, RIPC_OK);
  puppet.signal(SIGSTOP);
  const Service service = make_service(holder_, [](ripc_service_options& options) {
    options.id = kWatchedId;
    options.takeover = 1;
  });
  EXPECT_EQ(watch.next().status, RIPC_FENCED);
  const Event appeared = watch.next();
  EXPECT_EQ(appeared.status, RIPC_OK);
  EXPECT_EQ(appeared.info.incarnation, ripc_service_get_incarnation(service.get()));
  puppet.signal(SIGCONT);
}

TEST_P(Watching, AfterItsEndAWatchTellsNothing) {
  Service service = make_service(holder_, kWatchedId);
  Watch ended(watcher_, kWatchedId);
  Watch other(watcher_, kWatchedId);
  EXPECT_EQ(ended.next().status, RIPC_OK);
  EXPECT_EQ(other.next().status, RIPC_OK);
  ended.end();
  service.reset();
  EXPECT_EQ(other.next().status, RIPC_CLOSED);
  EXPECT_EQ(ended.waiting(), 0u);
}

TEST_P(Watching, ACallbackMayEndItsWatch) {
  struct Call {
    std::atomic<ripc_watch*> watch{nullptr};
    std::atomic<int> runs{0};
  } call;
  const Service service = make_service(holder_, kWatchedId);
  ripc_watch* watch = nullptr;
  const auto ends = [](void* user, ripc_status, const ripc_service_info*) {
    auto* const of = static_cast<Call*>(user);
    (void)eventually([&] { return of->watch != nullptr; });
    ripc_service_unwatch(of->watch);
    ++of->runs;
  };
  ASSERT_EQ(ripc_service_watch(watcher_.get(), kWatchedId, ends, &call, &watch), RIPC_OK);
  call.watch = watch;
  EXPECT_TRUE(eventually([&] { return call.runs == 1; }));
}

TEST_P(Watching, AContextMayEndWhileItsServicesAreWatchedByOthers) {
  Service service = make_service(holder_, kWatchedId);
  Watch watch(watcher_, kWatchedId);
  EXPECT_EQ(watch.next().status, RIPC_OK);
  (void)service.release();  // the context ends it
  holder_.reset();
  const ripc_status why = watch.next().status;
  EXPECT_TRUE(why == RIPC_CLOSED || why == RIPC_PEER_DEAD) << ripc_status_name(why);
}

}  // namespace
}  // namespace conformance
