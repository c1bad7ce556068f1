// SPDX-License-Identifier: Apache-2.0
// Connections that a peer asks for and does not complete, and connections that find their ports taken. They run over a
// real device, with both ends in this process.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "connected_ends.hpp"
#include "strangers.hpp"

namespace ripc::internal::verbs {
namespace {

class HalfMade : public ConnectedEnds {
 protected:
  // Treats all requests as requests of one peer.
  Result<ConnectionManager::Acceptance> acceptance() {
    auto made = std::make_shared<std::shared_ptr<QueuePairConnection>>();
    return ConnectionManager::Acceptance{
        .private_data = {},
        .read_depth = 1,
        .from = this,
        .hooks = {.prepare = [this, made](const IdPointer& id) -> Result<ibv_qp*> {
                    Result<std::shared_ptr<QueuePairConnection>> connection =
                        QueuePairConnection::create(registrar_, id, *loop_, tally_);
                    if (!connection.ok()) return connection.status();
                    *made = std::move(*connection);
                    const std::lock_guard lock(mutex_);
                    ++prepared_;
                    most_ = std::max(most_, ++alive_);
                    changed_.notify_all();
                    return (*made)->pair();
                  },
                  .accepted = [](const IdPointer&, const PrivateData&) { return Status(RIPC_REFUSED); },
                  .ended =
                      [this, made](Status) {
                        if (*made) (*made)->close();
                        made->reset();
                        const std::lock_guard lock(mutex_);
                        --alive_;
                      }}};
  }
  bool prepared(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::nanoseconds(kConnectionLimit), [&] { return prepared_ >= count; });
  }

  int prepared_ = 0, alive_ = 0, most_ = 0;
};

// Asks for a connection, and never reads the answer.
class Silent {
 public:
  Silent(const std::shared_ptr<Registrar>& registrar, const remote::Endpoint& from, const remote::Endpoint& to) {
    manager_ =
        ConnectionManager::start(registrar->device()->library, *loop_, {}, [](const IdPointer&, const PrivateData&) {
          return Result<ConnectionManager::Acceptance>(RIPC_REFUSED);
        }).value();
    const auto stop = [this] { loop_->stop(); };
    (void)manager_->dial(
        from, to, {}, 1, kConnectionLimit,
        {.prepare =
             [this, stop, registrar](const IdPointer& id) {
               connection_ = QueuePairConnection::create(registrar, id, *loop_, std::make_shared<Tally>()).value();
               stop();
               return Result<ibv_qp*>(connection_->pair());
             },
         .accepted = [](const IdPointer&, const PrivateData&) { return Status(); },
         .ended = [stop](Status) { stop(); }});
    loop_->run();
  }

 private:
  std::unique_ptr<EventLoop> loop_ = EventLoop::create().value();
  std::unique_ptr<ConnectionManager> manager_;
  std::shared_ptr<QueuePairConnection> connection_;
};

TEST_F(HalfMade, ConnectionsOfOnePeerAreOneAtATime) {
  bool any = false;
  for (const DevicePort& port : devices_->ports()) {
    if (port.device->iwarp) continue;  // the accepting side completes it
    any = true;
    SCOPED_TRACE(port.device->name);
    registrar_ = std::make_shared<Registrar>(port.device, pool_);
    remote::Endpoint here;
    ASSERT_TRUE(remote::Endpoint::parse(port.ip, 0, here));
    on_loop([&] {
      Result<std::unique_ptr<ConnectionManager>> manager =
          ConnectionManager::start(devices_->library(), *loop_, {port.ip},
                                   [this](const IdPointer&, const PrivateData&) { return acceptance(); });
      ASSERT_TRUE(manager.ok()) << manager.status().text();
      manager_ = std::move(*manager);
    });
    ASSERT_NE(manager_, nullptr);
    std::vector<std::unique_ptr<Silent>> peers;
    const int before = prepared_;
    for (int request = 1; request <= 4; ++request) {
      peers.push_back(std::make_unique<Silent>(registrar_, here, here.with_port(manager_->port_at(here))));
      ASSERT_TRUE(prepared(before + request));
    }
    on_loop([this] { manager_.reset(); });
    EXPECT_EQ(most_, 1);
    most_ = alive_ = 0;
  }
  if (!any) GTEST_SKIP() << "no device here leaves it to the peer to complete one";
}

// TCP has taken four of the eight ports that this host may choose from. So the host must be one of the RDMA lab.
class TakenPorts : public ConnectedEnds {
 protected:
  void SetUp() override {
    if (std::getenv("RIPC_TEST_MAY_CUT") == nullptr) GTEST_SKIP() << "narrows the ports of the host: for the RDMA lab";
    ConnectedEnds::SetUp();
    std::getline(std::ifstream(kRange), before_);
  }
  void TearDown() override {
    if (!before_.empty()) std::ofstream(kRange) << before_;
    ConnectedEnds::TearDown();
  }
  static constexpr const char* kRange = "/proc/sys/net/ipv4/ip_local_port_range";
  static constexpr std::uint16_t kFirst = 61'000;
  static constexpr std::uint16_t kCount = 8;
  std::string before_;
};

TEST_F(TakenPorts, AreGivenUpForOthers) {
  const DevicePort port = devices_->ports().front();
  remote::Endpoint here;
  ASSERT_TRUE(remote::Endpoint::parse(port.ip, 0, here));
  on_loop([&] {
    manager_ =
        ConnectionManager::start(devices_->library(), *loop_, {port.ip}, [](const IdPointer&, const PrivateData&) {
          return Result<ConnectionManager::Acceptance>(RIPC_REFUSED);
        }).value();
  });
  ASSERT_TRUE(std::ofstream(kRange) << kFirst << ' ' << kFirst + kCount - 1 << std::flush);
  std::vector<remote::GuardedSocket> taken;
  for (std::uint16_t offset = 0; offset < kCount; offset += 2) {
    taken.push_back(remote::open_socket(here.family(), SOCK_STREAM).value());
    const remote::Endpoint own = here.with_port(static_cast<std::uint16_t>(kFirst + offset));
    ASSERT_EQ(bind(taken.back().fd.get(), own.address(), own.size()), 0) << own.text();
    ASSERT_EQ(listen(taken.back().fd.get(), 1), 0);
  }
  for (int request = 0; request < 16; ++request) {
    const Status outcome = ask_for_connection(port, manager_->port_at(here), {});
    EXPECT_EQ(outcome.code(), RIPC_REFUSED) << outcome.text();
  }
  on_loop([this] { manager_.reset(); });
}

}  // namespace
}  // namespace ripc::internal::verbs
