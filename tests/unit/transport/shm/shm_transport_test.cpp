// SPDX-License-Identifier: Apache-2.0
// The transport against a peer that the test plays: which answers the transport believes.
#include "transport/shm/shm_transport.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <barrier>
#include <future>
#include <optional>
#include <thread>
#include <vector>

#include "../../base/process_helpers.hpp"
#include "../quiet_host.hpp"
#include "../spi_calls.hpp"
#include "support/descriptor_scarcity.hpp"
#include "support/waiting.hpp"

namespace ripc::internal::shm {
namespace {

namespace control = wire::shm_control;

constexpr std::uint64_t kOwn = 0x1111;
constexpr std::uint64_t kPeer = 0x2222;
constexpr int kPatienceMilliseconds = 20'000;

// A context that consists only of its control connection. For the test's thread.
class PlayedPeer {
 public:
  explicit PlayedPeer(RuntimeDirectory& directory, std::uint64_t context = kPeer) : context_(context) {
    Result<UniqueFd> listener = directory.listen(context);
    EXPECT_TRUE(listener.ok()) << listener.status().text();
    if (listener.ok()) listener_ = std::move(*listener);
  }
  // Waits for the transport to connect, and to say Hello before anything else. Threads that connect at once may each
  // open a connection first. The transport gives up all but one of them without sending anything.
  bool meet() {
    do {
      if (!readable(listener_.get())) return false;
      connection_ =
          std::make_unique<ControlConnection>(UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
      if (!readable(connection_->fd())) return false;
    } while (connection_->receive(received_) == ControlConnection::Event::closed);
    return received<control::Hello>().has_value();
  }
  // Waits for the transport to connect, and greets it.
  bool accept() {
    return meet() &&
           send_message(*connection_,
                        control::HelloReply{.context = context_, .pid = 1, .flags = 0, .status = RIPC_OK}) == RIPC_OK;
  }
  // The next message, if it is one of this type.
  template <typename T>
  std::optional<T> next() {
    if (!readable(connection_->fd()) || connection_->receive(received_) != ControlConnection::Event::message) return {};
    return received<T>();
  }
  ControlConnection& connection() { return *connection_; }

 private:
  template <typename T>
  std::optional<T> received() const {
    auto decoded = control::decode(std::span(received_.bytes).first(received_.size));
    if (!decoded.ok() || !std::holds_alternative<T>(*decoded)) return {};
    return std::get<T>(*decoded);
  }
  static bool readable(int fd) {
    pollfd descriptor{fd, POLLIN, 0};
    return ::poll(&descriptor, 1, kPatienceMilliseconds) == 1;
  }

  std::uint64_t context_;
  UniqueFd listener_;
  std::unique_ptr<ControlConnection> connection_;
  Received received_;
};

class ShmTransportTest : public testing::Test {
 protected:
  void SetUp() override {
    auto directory = RuntimeDirectory::open((temporary_ / "run").c_str(), policy());
    ASSERT_TRUE(directory.ok()) << directory.status().text();
    directory_ = std::move(*directory);
    auto loop = EventLoop::create();
    ASSERT_TRUE(loop.ok()) << loop.status().text();
    loop_ = std::move(*loop);
    TransportOptions options;
    options.context = kOwn;
    options.peer_policy = admitted();
    options.credentials = credentials_;
    transport_ = std::make_unique<ShmTransport>(directory_, options, pool_);
    ASSERT_TRUE(transport_->start(host_, *loop_).ok());
    responder_ = std::thread([this] { loop_->run(); });
    peer_ = std::make_unique<PlayedPeer>(*directory_);
  }
  void TearDown() override {
    if (!responder_.joinable()) return;
    loop_->post([this] {
      transport_->stop();
      loop_->stop();
    });
    responder_.join();
  }
  // The policy of the directory, and the policy of the transport.
  virtual std::uint32_t policy() const { return RIPC_PEERS_SAME_USER; }
  virtual std::uint32_t admitted() const { return policy(); }
  spi::Address peer_address() const { return {"shm", context_locator(kPeer)}; }

  const test::TemporaryDirectory temporary_;
  const security::Credentials credentials_{};
  std::shared_ptr<RuntimeDirectory> directory_;
  test::QuietHost host_;
  std::unique_ptr<EventLoop> loop_;
  memory::Pool pool_{std::uint64_t{1} << 20};
  std::unique_ptr<ShmTransport> transport_;
  std::thread responder_;
  std::unique_ptr<PlayedPeer> peer_;
};

TEST_F(ShmTransportTest, AnAnswerToAFenceIsNotTakenForAStateOfThisProcess) {
  std::thread player([this] {
    ASSERT_TRUE(peer_->accept());
    for (const ripc_status status :
         {RIPC_OK, RIPC_NO_SERVICE, RIPC_PENDING, RIPC_FORKED, RIPC_FENCED, RIPC_PERMISSION}) {
      const auto fence = peer_->next<control::Fence>();
      ASSERT_TRUE(fence);
      ASSERT_EQ(send_message(peer_->connection(), control::Fenced{.request = fence->request, .status = status}),
                RIPC_OK);
    }
  });
  const Deadline deadline = Deadline::after(Nanoseconds{kPatienceMilliseconds} * 1'000'000);
  EXPECT_EQ(transport_->fence(peer_address(), 7, 1, deadline).code(), RIPC_OK);
  EXPECT_EQ(transport_->fence(peer_address(), 7, 1, deadline).code(), RIPC_NO_SERVICE);
  for (int lie = 0; lie < 4; ++lie)
    EXPECT_EQ(transport_->fence(peer_address(), 7, 1, deadline).code(), RIPC_CORRUPT) << lie;
  player.join();
}

TEST_F(ShmTransportTest, APeerThatEndsBeforeItsGreetingIsDead) {
  std::thread player([this] {
    ASSERT_TRUE(peer_->meet());
    ASSERT_EQ(send_message(peer_->connection(), control::Bye{}), RIPC_OK);
  });
  const Deadline deadline = Deadline::after(Nanoseconds{kPatienceMilliseconds} * 1'000'000);
  EXPECT_EQ(test::connect(*transport_, peer_address(), 7, deadline).status().code(), RIPC_PEER_DEAD);
  player.join();
}

// The responder waits for the greeting of each of them.
TEST(ShmTransportWithoutDescriptors, OthersHaveTheirTurnWhileMultiplePeersAreRefused) {
  constexpr std::size_t kCount = 4;
  const test::TemporaryDirectory temporary;
  const auto directory = RuntimeDirectory::open((temporary / "run").c_str(), RIPC_PEERS_SAME_USER).value();
  const auto loop = EventLoop::create().value();
  memory::Pool pool(std::uint64_t{1} << 20);
  test::QuietHost host;
  TransportOptions options;
  options.context = kOwn;
  ShmTransport transport(directory, options, pool);
  ASSERT_TRUE(transport.start(host, *loop).ok());
  std::vector<UniqueFd> peers;
  for (std::size_t count = 0; count < kCount; ++count) peers.push_back(directory->connect(kOwn).value());
  std::size_t turns_between = 0;
  {
    const support::DescriptorScarcity scarcity(0);
    EXPECT_TRUE(loop->run_until(
        [&] {
          std::byte answer{};
          const auto refused =
              static_cast<std::size_t>(std::count_if(peers.begin(), peers.end(), [&](const auto& peer) {
                return ::recv(peer.get(), &answer, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
              }));
          turns_between += refused > 0 && refused < kCount ? 1 : 0;
          return refused == kCount;
        },
        Deadline::after(support::kLimit)));
  }
  EXPECT_GT(turns_between, 0u);
  transport.stop();
}

// Sends a message as a context of another version would.
template <typename T>
void say_in_another_version(ControlConnection& connection, const T& message) {
  std::vector<std::byte> bytes;
  ASSERT_EQ(control::encode(message, bytes), RIPC_OK);
  bytes[0] = std::byte{control::kProtocolVersion + 1};
  ASSERT_EQ(connection.send(bytes), RIPC_OK);
}

TEST_F(ShmTransportTest, APeerOfAnotherVersionIsAVersionMismatchWhicheverSideNoticesIt) {
  const control::HelloReply welcome{.context = kPeer, .pid = 1, .flags = 0, .status = RIPC_OK};
  const control::HelloReply refusal{.context = kPeer, .pid = 1, .flags = 0, .status = RIPC_VERSION_MISMATCH};
  std::thread player([&] {
    ASSERT_TRUE(peer_->meet());
    say_in_another_version(peer_->connection(), welcome);
    ASSERT_TRUE(peer_->meet());
    ASSERT_EQ(send_message(peer_->connection(), refusal), RIPC_OK);
  });
  for (int notice = 0; notice < 2; ++notice) {
    const Deadline deadline = Deadline::after(Nanoseconds{kPatienceMilliseconds} * 1'000'000);
    const Status status = test::connect(*transport_, peer_address(), 7, deadline).status();
    EXPECT_EQ(status.code(), RIPC_VERSION_MISMATCH);
    EXPECT_NE(status.text().find("another version"), std::string_view::npos) << status.text();
  }
  player.join();
}

TEST_F(ShmTransportTest, AGreetingInAnotherVersionIsAnswered) {
  auto socket = directory_->connect(kOwn);
  ASSERT_TRUE(socket.ok()) << socket.status().text();
  ControlConnection connection(std::move(*socket));
  say_in_another_version(connection, control::Hello{.context = kPeer, .pid = 1, .flags = 0});
  pollfd descriptor{connection.fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&descriptor, 1, kPatienceMilliseconds), 1);
  Received received;
  ASSERT_EQ(connection.receive(received), ControlConnection::Event::message);
  const auto decoded = control::decode(std::span(received.bytes).first(received.size));
  ASSERT_TRUE(decoded.ok() && std::holds_alternative<control::HelloReply>(*decoded));
  EXPECT_EQ(std::get<control::HelloReply>(*decoded).status, RIPC_VERSION_MISMATCH);
}

TEST_F(ShmTransportTest, ThreadsThatFenceAtOnceSendNothingBeforeTheGreeting) {
  constexpr int kThreads = 4;
  constexpr std::uint64_t kRounds = 300;
  const Deadline deadline = Deadline::after(Nanoseconds{kPatienceMilliseconds} * 1'000'000);
  for (std::uint64_t context = kPeer + 1; context <= kPeer + kRounds && !HasFailure(); ++context) {
    PlayedPeer peer(*directory_, context);
    std::barrier start(kThreads);
    std::vector<std::thread> threads;
    for (int number = 0; number < kThreads; ++number) {
      threads.emplace_back([&] {
        start.arrive_and_wait();
        EXPECT_EQ(transport_->fence({"shm", context_locator(context)}, 7, 1, deadline).code(), RIPC_OK);
      });
    }
    EXPECT_TRUE(peer.accept()) << "something else came before the greeting";
    for (int number = 0; number < kThreads && !HasFailure(); ++number) {
      const auto fence = peer.next<control::Fence>();
      EXPECT_TRUE(fence);
      if (fence) (void)send_message(peer.connection(), control::Fenced{.request = fence->request, .status = RIPC_OK});
    }
    if (HasFailure()) peer.connection().shut_down();
    for (std::thread& thread : threads) thread.join();
  }
}

TEST_F(ShmTransportTest, ManyThatConnectAtOnceDoNotKeepTheResponderFromItsOtherWork) {
  constexpr std::size_t kConnections = 250;
  constexpr std::size_t kMostAtOnce = 2 * 64;  // each connection may have a descriptor of its process, too
  const Deadline deadline = Deadline::after(Nanoseconds{kPatienceMilliseconds} * 1'000'000);
  std::promise<std::vector<std::size_t>> counts;
  loop_->post([&] {
    std::vector<UniqueFd> sockets;
    while (sockets.size() < kConnections) {
      Result<UniqueFd> socket = directory_->connect(kOwn);
      if (!socket.ok()) break;
      sockets.push_back(std::move(*socket));
    }
    std::vector<std::size_t> steps{test::names_in("/proc/self/fd").size()};
    const std::size_t enough = steps.front() + sockets.size();
    (void)loop_->run_until(
        [&] {
          steps.push_back(test::names_in("/proc/self/fd").size());
          return steps.back() >= enough;
        },
        deadline);
    EXPECT_EQ(sockets.size(), kConnections);
    EXPECT_GE(steps.back(), enough);
    counts.set_value(std::move(steps));
  });
  const std::vector<std::size_t> steps = counts.get_future().get();
  for (std::size_t index = 1; index < steps.size(); ++index)
    EXPECT_LE(steps[index], steps[index - 1] + kMostAtOnce) << "in step " << index;
}

TEST_F(ShmTransportTest, AReturnBufferThatALostPeerStillWritesIsNotGivenBack) {
  constexpr Geometry kSmallest{kMinCells, kMinDataBytes};
  Result<SharedMemory> memory = create_shared_memory("ripc-test", kSmallest.total(), PeerAccess::read_write);
  Result<SharedMemory> state = create_shared_memory("ripc-test", kStatePageSize, PeerAccess::read_only);
  ASSERT_TRUE(memory.ok() && state.ok());
  std::uint64_t link = 0;
  std::thread player([&] {
    ASSERT_TRUE(peer_->accept());
    const auto open = peer_->next<control::Open>();
    ASSERT_TRUE(open);
    link = open->link;
    const control::Opened opened{.request = open->request,
                                 .status = RIPC_OK,
                                 .link = link,
                                 .incarnation = 1,
                                 .cells = kSmallest.cells,
                                 .data_bytes = kSmallest.data_bytes,
                                 .state_slot = 0,
                                 .flags = 0};
    const std::array<int, 3> descriptors{memory->fd.get(), peer_->connection().fd(), state->fd.get()};
    ASSERT_EQ(send_message(peer_->connection(), opened, descriptors), RIPC_OK);
  });
  const Deadline deadline = Deadline::after(Nanoseconds{kPatienceMilliseconds} * 1'000'000);
  const auto channel = test::connect(*transport_, peer_address(), 7, deadline);
  player.join();
  ASSERT_TRUE(channel.ok()) << channel.status().text();
  std::array<std::byte, 16> buffer{};
  wire::Grant grant{};
  ASSERT_EQ((*channel)->grant(buffer, grant), RIPC_OK);
  TransferTaker writer(memory->mapping.data());
  ASSERT_TRUE(writer.begin_write(Key::from(grant.key)));
  ASSERT_EQ(send_message(peer_->connection(), control::LinkClosed{.link = link}), RIPC_OK);
  wire::Grant none{};
  ASSERT_TRUE(support::eventually([&] { return (*channel)->grant(buffer, none) == RIPC_PEER_DEAD; }));
  EXPECT_EQ((*channel)->end_grant(grant), RIPC_PENDING) << "the peer is this process, which lives and writes";
  writer.end_write(Key::from(grant.key), true);
  EXPECT_NE((*channel)->end_grant(grant), RIPC_PENDING);
}

// ---- Other users -------------------------------------------------------------------------------------------------

class ShmTransportOtherUsers : public ShmTransportTest {
 protected:
  void SetUp() override {
    SKIP_UNLESS_ROOT("it has a peer of another user");
    temporary_.make("run", 01777);
    ShmTransportTest::SetUp();
  }
  std::uint32_t policy() const override { return RIPC_PEERS_ANY; }

  // A process of another user that has connected, claims to be `context`, and refuses fences.
  test::Child stranger(std::uint64_t context) {
    test::Pipe greeted;
    test::Child child([&] {
      CHILD_CHECK(test::become_nobody());
      auto directory = RuntimeDirectory::open((temporary_ / "run").c_str(), RIPC_PEERS_ANY);
      CHILD_CHECK(directory.ok());
      auto socket = (*directory)->connect(kOwn);
      CHILD_CHECK(socket.ok());
      ControlConnection connection(std::move(*socket));
      CHILD_CHECK(send_message(connection, control::Hello{.context = context, .pid = 1, .flags = 0}) == RIPC_OK);
      Received received;
      for (;;) {
        pollfd descriptor{connection.fd(), POLLIN, 0};
        CHILD_CHECK(::poll(&descriptor, 1, -1) == 1);
        if (connection.receive(received) != ControlConnection::Event::message) return 0;
        auto decoded = control::decode(std::span(received.bytes).first(received.size));
        CHILD_CHECK(decoded.ok());
        if (std::holds_alternative<control::HelloReply>(*decoded)) greeted.put();
        if (const auto* fence = std::get_if<control::Fence>(&*decoded))
          (void)send_message(connection, control::Fenced{.request = fence->request, .status = RIPC_REFUSED});
      }
    });
    EXPECT_TRUE(greeted.get());
    return child;
  }
};

TEST_F(ShmTransportOtherUsers, AnImpostorGetsNothingThatIsMeantForTheContext) {
  const test::Child impostor = stranger(kPeer);
  std::thread player([this] {
    ASSERT_TRUE(peer_->accept()) << "the impostor was believed";
    const auto fence = peer_->next<control::Fence>();
    ASSERT_TRUE(fence);
    ASSERT_EQ(send_message(peer_->connection(), control::Fenced{.request = fence->request, .status = RIPC_OK}),
              RIPC_OK);
  });
  const Deadline deadline = Deadline::after(Nanoseconds{kPatienceMilliseconds} * 1'000'000);
  EXPECT_EQ(transport_->fence(peer_address(), 7, 1, deadline).code(), RIPC_OK);
  player.join();
}

TEST_F(ShmTransportOtherUsers, AContextThatIsNowhereElseIsReachedOverItsOwnConnection) {
  constexpr std::uint64_t kElsewhere = 0x3333;
  const test::Child peer = stranger(kElsewhere);
  const Deadline deadline = Deadline::after(Nanoseconds{kPatienceMilliseconds} * 1'000'000);
  EXPECT_EQ(transport_->fence({"shm", context_locator(kElsewhere)}, 7, 1, deadline).code(), RIPC_REFUSED);
}

class ShmTransportRefusedUsers : public ShmTransportOtherUsers {
 protected:
  std::uint32_t admitted() const override { return RIPC_PEERS_SAME_USER; }
};

TEST_F(ShmTransportRefusedUsers, AHolderThatThisSideRefusesIsCounted) {
  constexpr std::uint64_t kStranger = 0x3333;
  test::Pipe listening;
  const test::Child holder([&] {
    CHILD_CHECK(test::become_nobody());
    auto directory = RuntimeDirectory::open((temporary_ / "run").c_str(), RIPC_PEERS_ANY);
    CHILD_CHECK(directory.ok());
    PlayedPeer peer(**directory, kStranger);
    listening.put();
    CHILD_CHECK(peer.accept());
    // Waits until the other side hangs up.
    pollfd descriptor{peer.connection().fd(), POLLIN, 0};
    CHILD_CHECK(::poll(&descriptor, 1, kPatienceMilliseconds) == 1);
    return 0;
  });
  ASSERT_TRUE(listening.get());
  const Deadline deadline = Deadline::after(Nanoseconds{kPatienceMilliseconds} * 1'000'000);
  const Status refused = test::connect(*transport_, {"shm", context_locator(kStranger)}, 7, deadline).status();
  EXPECT_EQ(refused.code(), RIPC_REFUSED) << refused.text();
  EXPECT_NE(refused.text().find("RIPC_PEERS"), std::string_view::npos) << refused.text();
  EXPECT_EQ(security::Counters::read(credentials_.counters->handshakes_refused), 1U);
}

}  // namespace
}  // namespace ripc::internal::shm
