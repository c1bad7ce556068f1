// SPDX-License-Identifier: Apache-2.0
// What a peer may reach by RDMA, and that it ends: over a real device, both ends in this process.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "transport/verbs/connection.hpp"
#include "transport/verbs/connection_manager.hpp"
#include "transport/verbs/fabric.hpp"

namespace ripc::verbs {
namespace {

constexpr Nanoseconds kLimit = 20'000'000'000;

// Remembers how operations end.
class Ends final : public Connection::Handler {
 public:
  bool frame(Connection&, const wire::bulk::Frame&) noexcept override {
    const std::lock_guard lock(mutex_);
    ++frames_;
    changed_.notify_all();
    return true;
  }
  // Whether so many frames have come.
  bool heard(int frames) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::nanoseconds(kLimit), [&] { return frames_ >= frames; });
  }
  void operation_done(Connection&, std::uint64_t id, ripc_status status) noexcept override {
    const std::lock_guard lock(mutex_);
    ends_[id] = status;
    changed_.notify_all();
  }
  void room(Connection&) noexcept override {}
  void lost(Connection&, bool) noexcept override {}
  ripc_status of(std::uint64_t id) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::nanoseconds(kLimit), [&] { return ends_.contains(id); }))
      return RIPC_TIMEOUT;
    return ends_[id];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, ripc_status> ends_;
  int frames_ = 0;
};

// Two connected ends on one device, for each device that there is.
class Rights : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::shared_ptr<const Fabric>> fabric = Fabric::open();
    if (!fabric.ok()) GTEST_SKIP() << fabric.status().text();
    fabric_ = *fabric;
    loop_ = EventLoop::create().value();
    thread_ = std::thread([this] { loop_->run(); });
  }
  void TearDown() override {
    if (!thread_.joinable()) return;
    on_loop([this] {
      for (auto* end : {&owner_, &peer_}) {
        if (*end) (*end)->close();
        end->reset();
      }
      manager_.reset();
    });
    loop_->stop();
    thread_.join();
  }

  void on_loop(const std::function<void()>& task) {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    loop_->post([&] {
      task();
      const std::lock_guard lock(mutex);
      done = true;
      changed.notify_all();
    });
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done; });
  }

  // Connects both ends over this port.
  void connect(const FabricPort& port) {
    registrar_ = std::make_shared<Registrar>(port.device, pool_, cache_);
    network::Endpoint here;
    ASSERT_TRUE(network::Endpoint::parse(port.ip, 0, here));
    const auto make = [this](std::shared_ptr<Connection>& end, const IdPointer& id) -> Status {
      Result<std::shared_ptr<Connection>> made = Connection::create(registrar_, id, *loop_, tally_);
      if (!made.ok()) return made.status();
      end = *made;
      return {};
    };
    const auto established = [this](std::shared_ptr<Connection>& end, const std::shared_ptr<Ends>& ends,
                                    bool dialed) -> Status {
      Status status = end->start(ends, dialed);
      const std::lock_guard lock(mutex_);
      ++established_;
      changed_.notify_all();
      return status;
    };
    on_loop([&] {
      Result<std::unique_ptr<ConnectionManager>> manager = ConnectionManager::start(
          fabric_->library(), *loop_, {port.ip}, [=, this](const IdPointer&, const PrivateData&) {
            return Result<ConnectionManager::Welcome>(ConnectionManager::Welcome{
                .words = {},
                .read_depth = registrar_->device()->read_depth,
                .hooks = {.prepare = [=, this](const IdPointer& id) { return make(owner_, id); },
                          .accepted = [=, this](const IdPointer&,
                                                const PrivateData&) { return established(owner_, owner_ends_, false); },
                          .ended = [](Status) {}}});
          });
      ASSERT_TRUE(manager.ok()) << manager.status().text();
      manager_ = std::move(*manager);
      manager_->dial(
          here, here.with_port(manager_->port_at(here)), {}, registrar_->device()->read_depth, kLimit,
          {.prepare = [=, this](const IdPointer& id) { return make(peer_, id); },
           .accepted = [=, this](const IdPointer&, const PrivateData&) { return established(peer_, peer_ends_, true); },
           .ended = [](Status) {}});
    });
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::nanoseconds(kLimit), [&] { return established_ == 2; }))
        << "no connection over " << port.ip;
  }
  void disconnect() {
    on_loop([this] {
      owner_->close();
      peer_->close();
      owner_.reset();
      peer_.reset();
      manager_.reset();
      established_ = 0;
    });
    owner_ends_ = std::make_shared<Ends>();
    peer_ends_ = std::make_shared<Ends>();
  }

  // One operation of the peer on the owner's memory.
  ripc_status operate(bool write, std::byte* local, const Region& region, const std::byte* remote, std::uint32_t key,
                      std::uint32_t length) {
    const std::uint64_t id = ++last_id_;
    if (!peer_->post({.write = write,
                      .local = local,
                      .local_key = region.local_key(),
                      .remote = reinterpret_cast<std::uint64_t>(remote),
                      .remote_key = key,
                      .length = length,
                      .id = id}))
      return RIPC_PEER_DEAD;
    peer_->flush();
    return peer_ends_->of(id);
  }
  // Opens memory of the owner to the peer.
  Result<std::shared_ptr<Right>> open(const std::byte* data, std::size_t size, const memory::Arena* arena,
                                      bool writable) {
    return owner_->open(std::span(data, size), arena, writable, [](std::uint32_t key) {
      return wire::bulk::Frame{.type = wire::bulk::Type::right, .id = 1, .key = key};
    });
  }
  // Only then the peer may use it.
  void let_the_peer_hear_of_it() { ASSERT_TRUE(peer_ends_->heard(1)); }

  // A lease with its hold, which knows the arena.
  struct Lease {
    std::byte* data;
    std::size_t size;
    memory::Hold hold;
  };
  Lease lease(std::size_t size, std::byte fill) {
    std::byte* const data = pool_.lease(size).value();
    std::fill_n(data, size, fill);
    return {data, size, pool_.hold(data, size).value()};
  }

  memory::Pool pool_{std::uint64_t{256} << 20};
  std::shared_ptr<const Fabric> fabric_;
  std::unique_ptr<EventLoop> loop_;
  std::thread thread_;
  std::shared_ptr<RegistrationCache> cache_ = std::make_shared<RegistrationCache>(RegistrationCache::Limits{});
  std::shared_ptr<Registrar> registrar_;
  std::shared_ptr<Tally> tally_ = std::make_shared<Tally>();
  std::unique_ptr<ConnectionManager> manager_;
  std::shared_ptr<Connection> owner_, peer_;
  std::shared_ptr<Ends> owner_ends_ = std::make_shared<Ends>();
  std::shared_ptr<Ends> peer_ends_ = std::make_shared<Ends>();
  std::mutex mutex_;
  std::condition_variable changed_;
  int established_ = 0;
  std::uint64_t last_id_ = 0;
};

constexpr std::size_t kSize = 64 << 10;

TEST_F(Rights, ALateReadFailsAndBringsNothing) {
  for (const FabricPort& port : fabric_->ports()) {
    for (const bool pooled : {true, false}) {
      SCOPED_TRACE(port.device->name + (pooled ? ", pool memory" : ", memory of the application"));
      connect(port);
      if (HasFatalFailure()) return;
      Lease exposed = lease(kSize, std::byte{0x11});
      Lease destination = lease(kSize, std::byte{0x22});
      const RegionPointer local = registrar_->local(destination.data, kSize, true)->region;
      Result<std::shared_ptr<Right>> right = open(exposed.data, kSize, pooled ? exposed.hold.arena() : nullptr, false);
      ASSERT_TRUE(right.ok()) << right.status().text();
      let_the_peer_hear_of_it();
      const std::uint32_t key = (*right)->key();
      EXPECT_EQ(operate(false, destination.data, *local, exposed.data, key, kSize), RIPC_OK);
      EXPECT_TRUE(std::all_of(destination.data, destination.data + kSize,
                              [](std::byte byte) { return byte == std::byte{0x11}; }));
      (*right)->end();
      std::fill_n(destination.data, kSize, std::byte{0x22});
      EXPECT_NE(operate(false, destination.data, *local, exposed.data, key, kSize), RIPC_OK);
      EXPECT_TRUE(std::all_of(destination.data, destination.data + kSize,
                              [](std::byte byte) { return byte == std::byte{0x22}; }));
      disconnect();
    }
  }
}

TEST_F(Rights, ALateWriteFailsAndTouchesNothing) {
  for (const FabricPort& port : fabric_->ports()) {
    for (const bool pooled : {true, false}) {
      SCOPED_TRACE(port.device->name + (pooled ? ", pool memory" : ", memory of the application"));
      connect(port);
      if (HasFatalFailure()) return;
      Lease granted = lease(kSize, std::byte{0x11});
      Lease bytes = lease(kSize, std::byte{0x33});
      const RegionPointer local = registrar_->local(bytes.data, kSize, false)->region;
      Result<std::shared_ptr<Right>> right = open(granted.data, kSize, pooled ? granted.hold.arena() : nullptr, true);
      ASSERT_TRUE(right.ok()) << right.status().text();
      let_the_peer_hear_of_it();
      const std::uint32_t key = (*right)->key();
      EXPECT_EQ(operate(true, bytes.data, *local, granted.data, key, kSize / 2), RIPC_OK);
      EXPECT_TRUE(
          std::all_of(granted.data, granted.data + kSize / 2, [](std::byte byte) { return byte == std::byte{0x33}; }));
      (*right)->end();
      std::fill_n(granted.data, kSize, std::byte{0x11});
      (void)operate(true, bytes.data, *local, granted.data, key, kSize);
      // A device may report a write as done before it is refused; it is refused all the same.
      EXPECT_TRUE(
          std::all_of(granted.data, granted.data + kSize, [](std::byte byte) { return byte == std::byte{0x11}; }));
      disconnect();
    }
  }
}

TEST_F(Rights, ReachNoFurtherThanTheirRangeAndTheirDirection) {
  for (const FabricPort& port : fabric_->ports()) {
    for (const int attempt : {0, 1, 2}) {
      SCOPED_TRACE(port.device->name + ", attempt " + std::to_string(attempt));
      connect(port);
      if (HasFatalFailure()) return;
      Lease memory = lease(3 * kSize, std::byte{0x11});
      Lease own = lease(kSize, std::byte{0x22});
      const RegionPointer local = registrar_->local(own.data, kSize, true)->region;
      std::byte* const middle = memory.data + kSize;
      Result<std::shared_ptr<Right>> right = open(middle, kSize, memory.hold.arena(), false);
      ASSERT_TRUE(right.ok()) << right.status().text();
      let_the_peer_hear_of_it();
      const std::uint32_t key = (*right)->key();
      if (attempt == 0) {
        EXPECT_NE(operate(false, own.data, *local, middle - 64, key, 128), RIPC_OK);
      }
      if (attempt == 1) {
        EXPECT_NE(operate(false, own.data, *local, middle + kSize - 64, key, 128), RIPC_OK);
      }
      if (attempt == 2) (void)operate(true, own.data, *local, middle, key, 128);
      EXPECT_TRUE(std::all_of(own.data, own.data + kSize, [](std::byte byte) { return byte == std::byte{0x22}; }));
      EXPECT_TRUE(
          std::all_of(memory.data, memory.data + 3 * kSize, [](std::byte byte) { return byte == std::byte{0x11}; }));
      disconnect();
    }
  }
}

// What a naive cache would do, for comparison: the device keeps to the pages that were registered.
TEST_F(Rights, ARegistrationThatOutlivesItsMappingShowsTheOldBytes) {
  const FabricPort& port = fabric_->ports().front();
  connect(port);
  if (HasFatalFailure()) return;
  const auto map = [](void* at) {
    return ::mmap(at, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (at != nullptr ? MAP_FIXED : 0), -1,
                  0);
  };
  auto* const exposed = static_cast<std::byte*>(map(nullptr));
  std::fill_n(exposed, kSize, std::byte{0x11});
  Lease destination = lease(kSize, std::byte{0});
  const RegionPointer local = registrar_->local(destination.data, kSize, true)->region;
  const Result<RegionPointer> naive = registrar_->range(exposed, kSize, IBV_ACCESS_REMOTE_READ);
  ASSERT_TRUE(naive.ok()) << naive.status().text();
  ASSERT_TRUE(owner_->send({.type = wire::bulk::Type::right, .id = 1, .key = 1}));
  let_the_peer_hear_of_it();
  ASSERT_EQ(map(exposed), exposed);
  std::fill_n(exposed, kSize, std::byte{0x22});
  EXPECT_EQ(operate(false, destination.data, *local, exposed, (*naive)->remote_key(), kSize), RIPC_OK);
  EXPECT_EQ(destination.data[0], std::byte{0x11});
  ::munmap(exposed, kSize);
  disconnect();
}

// The registration below the window stays; the right does not.
TEST_F(Rights, AKeptRegistrationOpensNothingWhenTheRightHasEnded) {
  for (const FabricPort& port : fabric_->ports()) {
    if (!port.device->windows || !memory::MappingWatch::available().ok()) continue;
    SCOPED_TRACE(port.device->name);
    auto* const exposed =
        static_cast<std::byte*>(::mmap(nullptr, 2 * kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::fill_n(exposed, 2 * kSize, std::byte{0x11});
    const std::uint64_t before = cache_->counters().hits;
    for (const int attempt : {0, 1, 2}) {
      connect(port);
      if (HasFatalFailure()) return;
      Lease destination = lease(kSize, std::byte{0x22});
      const RegionPointer local = registrar_->local(destination.data, kSize, true)->region;
      Result<std::shared_ptr<Right>> right = open(exposed, kSize, nullptr, false);
      ASSERT_TRUE(right.ok()) << right.status().text();
      let_the_peer_hear_of_it();
      EXPECT_EQ(operate(false, destination.data, *local, exposed, (*right)->key(), kSize), RIPC_OK);
      EXPECT_EQ(destination.data[0], std::byte{0x11});
      std::fill_n(destination.data, kSize, std::byte{0x22});
      const RegionPointer kept = *registrar_->for_window(exposed, kSize, nullptr);
      // By the ended right, by the registration itself, and past the end of the right that there is.
      if (attempt == 0) {
        const std::uint32_t key = (*right)->key();
        (*right)->end();
        EXPECT_NE(operate(false, destination.data, *local, exposed, key, kSize), RIPC_OK);
      } else if (attempt == 1) {
        EXPECT_NE(operate(false, destination.data, *local, exposed, kept->remote_key(), kSize), RIPC_OK);
      } else {
        EXPECT_NE(operate(false, destination.data, *local, exposed + kSize - 64, (*right)->key(), 128), RIPC_OK);
      }
      EXPECT_TRUE(std::all_of(destination.data, destination.data + kSize,
                              [](std::byte byte) { return byte == std::byte{0x22}; }));
      disconnect();
    }
    EXPECT_GE(cache_->counters().hits, before + 3) << "nothing was kept";
    ::munmap(exposed, 2 * kSize);
  }
}

// Or with its arena, where a window reaches no further than its range.
TEST_F(Rights, APartOfAnArenaThatIsOpenedAgainAndAgainIsRegisteredOnce) {
  for (const FabricPort& port : fabric_->ports()) {
    if (!port.device->windows) continue;
    SCOPED_TRACE(port.device->name);
    connect(port);
    if (HasFatalFailure()) return;
    std::uint64_t made = 0;
    {
      Lease exposed = lease(kSize, std::byte{0x11});
      const std::uint64_t before = registrar_->arena_count() + registrar_->range_count();
      for (int round = 0; round < 10; ++round) EXPECT_TRUE(open(exposed.data, kSize, exposed.hold.arena(), false).ok());
      made = registrar_->arena_count() + registrar_->range_count();
      EXPECT_EQ(made, before + 1);
      // The pool has freed it: nothing may be left that stands for other memory at the same place.
      registrar_->arena_gone(exposed.hold.arena()->id);
      EXPECT_TRUE(open(exposed.data, kSize, exposed.hold.arena(), false).ok());
      EXPECT_EQ(registrar_->arena_count() + registrar_->range_count(), made + 1);
    }
    disconnect();
  }
}

TEST_F(Rights, AnArenaIsRegisteredOnce) {
  connect(fabric_->ports().front());
  if (HasFatalFailure()) return;
  Lease first = lease(kSize, std::byte{1});
  Lease second = lease(kSize, std::byte{2});
  ASSERT_EQ(first.hold.arena(), second.hold.arena());
  const std::uint64_t before = registrar_->arena_count();
  for (int round = 0; round < 10; ++round) {
    EXPECT_TRUE(registrar_->local(first.data, kSize, false).ok());
    EXPECT_TRUE(registrar_->local(second.data, kSize, false).ok());
  }
  EXPECT_EQ(registrar_->arena_count(), before + 1);
}

}  // namespace
}  // namespace ripc::verbs
