// SPDX-License-Identifier: Apache-2.0
// Both ends of one RDMA connection in this process, over a real device: an owner of memory, and its peer.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "transport/verbs/bulk/queue_pair_connection.hpp"
#include "transport/verbs/device/connection_manager.hpp"
#include "transport/verbs/device/device_list.hpp"

namespace ripc::internal::verbs {

inline constexpr Nanoseconds kConnectionLimit = 20'000'000'000;

// Remembers how operations end.
class Ends final : public QueuePairConnection::Handler {
 public:
  bool frame(QueuePairConnection&, const wire::bulk::Frame& frame, QueuePairConnection::Pass&) noexcept override {
    const std::lock_guard lock(mutex_);
    frames_.push_back(frame);
    changed_.notify_all();
    return true;
  }
  // Whether this many frames have come in time.
  bool heard(std::size_t frames) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::nanoseconds(kConnectionLimit),
                             [&] { return frames_.size() >= frames; });
  }
  // The frames that have come.
  std::vector<wire::bulk::Frame> frames() {
    const std::lock_guard lock(mutex_);
    return frames_;
  }
  void operation_done(QueuePairConnection&, std::uint64_t id, ripc_status status) noexcept override {
    const std::lock_guard lock(mutex_);
    ends_[id] = status;
    changed_.notify_all();
  }
  void room(QueuePairConnection&) noexcept override {}
  void handled(QueuePairConnection&, QueuePairConnection::Pass&) noexcept override {}
  void lost(QueuePairConnection&, bool) noexcept override {
    const std::lock_guard lock(mutex_);
    is_lost_ = true;
    changed_.notify_all();
  }
  // Whether the connection is lost in time.
  bool lost() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::nanoseconds(kConnectionLimit), [&] { return is_lost_; });
  }
  ripc_status of(std::uint64_t id) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::nanoseconds(kConnectionLimit), [&] { return ends_.contains(id); }))
      return RIPC_TIMEOUT;
    return ends_[id];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, ripc_status> ends_;
  std::vector<wire::bulk::Frame> frames_;
  bool is_lost_ = false;
};

// Two connected ends on one device.
class ConnectedEnds : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::shared_ptr<const DeviceList>> devices = DeviceList::open();
    if (!devices.ok()) GTEST_SKIP() << devices.status().text();
    devices_ = *devices;
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

  // Starts the owner's end; runs in the loop.
  virtual Status start_owner() { return owner_->start(owner_ends_, false); }

  // Connects both ends over this port, with this registrar or, if it is null, a new one.
  void connect(const DevicePort& port, std::shared_ptr<Registrar> registrar = nullptr) {
    registrar_ = registrar ? std::move(registrar) : std::make_shared<Registrar>(device_ ? device_ : port.device, pool_);
    remote::Endpoint here;
    ASSERT_TRUE(remote::Endpoint::parse(port.ip, 0, here));
    const auto make = [this](std::shared_ptr<QueuePairConnection>& end, const IdPointer& id) -> Result<ibv_qp*> {
      Result<std::shared_ptr<QueuePairConnection>> made =
          QueuePairConnection::create(registrar_, id, *loop_, tally_, most_inline_);
      if (!made.ok()) return made.status();
      end = *made;
      return end->pair();
    };
    const auto established = [this](const std::function<Status()>& start) -> Status {
      Status status = start();
      const std::lock_guard lock(mutex_);
      ++established_;
      changed_.notify_all();
      return status;
    };
    on_loop([&] {
      Result<std::unique_ptr<ConnectionManager>> manager = ConnectionManager::start(
          devices_->library(), *loop_, {port.ip}, [=, this](const IdPointer&, const PrivateData&) {
            return Result<ConnectionManager::Acceptance>(ConnectionManager::Acceptance{
                .private_data = {},
                .read_depth = registrar_->device()->read_depth,
                .hooks = {
                    .prepare = [=, this](const IdPointer& id) { return make(owner_, id); },
                    .accepted = [=, this](const IdPointer&,
                                          const PrivateData&) { return established([this] { return start_owner(); }); },
                    .ended = [](Status) {}}});
          });
      ASSERT_TRUE(manager.ok()) << manager.status().text();
      manager_ = std::move(*manager);
      manager_->dial(here, here.with_port(manager_->port_at(here)), {}, registrar_->device()->read_depth,
                     kConnectionLimit,
                     {.prepare = [=, this](const IdPointer& id) { return make(peer_, id); },
                      .accepted =
                          [=, this](const IdPointer&, const PrivateData&) {
                            return established([this] { return peer_->start(peer_ends_, true); });
                          },
                      .ended = [](Status) {}});
    });
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::nanoseconds(kConnectionLimit), [&] { return established_ == 2; }))
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

  // Performs one operation of the peer on the owner's memory.
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
  Result<std::shared_ptr<RemoteKey>> open(const std::byte* data, std::size_t size, const memory::Arena* arena,
                                          bool writable) {
    Result<std::shared_ptr<RemoteKey>> remote_key =
        owner_->open(std::span(data, size), arena, writable, [](const RemoteKey& opened) {
          return wire::bulk::Frame{.type = wire::bulk::Type::remote_key, .id = 1, .key = opened.key()};
        });
    owner_->flush();
    return remote_key;
  }
  // The peer may use the memory only after this.
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
  std::shared_ptr<const DeviceList> devices_;
  std::unique_ptr<EventLoop> loop_;
  std::thread thread_;
  DevicePointer device_;  // null: that of the port
  std::uint32_t most_inline_ = QueuePairConnection::kMostInline;
  std::shared_ptr<Registrar> registrar_;
  std::shared_ptr<Tally> tally_ = std::make_shared<Tally>();
  std::unique_ptr<ConnectionManager> manager_;
  std::shared_ptr<QueuePairConnection> owner_, peer_;
  std::shared_ptr<Ends> owner_ends_ = std::make_shared<Ends>();
  std::shared_ptr<Ends> peer_ends_ = std::make_shared<Ends>();
  std::mutex mutex_;
  std::condition_variable changed_;
  int established_ = 0;
  std::uint64_t last_id_ = 0;
};

}  // namespace ripc::internal::verbs
