// SPDX-License-Identifier: Apache-2.0
// An attacker on the path between two contexts with the same cluster key reads, records, changes and repeats.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <list>

#include "socket_helpers.hpp"
#include "unit/security/trust_helpers.hpp"
#include "wire/session_control.hpp"

namespace ripc::internal::socket {
namespace {

using Bytes = std::vector<std::byte>;
namespace control = wire::session_control;

TransportOptions keyed() {
  TransportOptions options;
  options.credentials.keys = security::keys_of("7");
  options.streams = false;
  return options;
}

UniqueFd connect_to(std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  return fd;
}

// Connects to a port again and again, in its own thread, and says nothing.
class Flood {
 public:
  explicit Flood(std::uint16_t to) : thread_([this, to] { run(to); }) {}
  ~Flood() {
    stopped_ = true;
    thread_.join();
  }
  std::uint64_t knocks() const { return knocks_; }
  static constexpr std::size_t kOpen = 400;

 private:
  void run(std::uint16_t to) {
    std::list<UniqueFd> open;
    while (!stopped_) {
      open.push_back(connect_to(to));
      // So that no port is kept afterwards.
      const linger at_once{1, 0};
      (void)::setsockopt(open.back().get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
      ++knocks_;
      if (open.size() <= kOpen) continue;
      // More connections than may be under way, so the server has closed the first of them.
      std::byte none;
      (void)::recv(open.front().get(), &none, 1, 0);
      open.pop_front();
    }
  }

  std::atomic<std::uint64_t> knocks_{0};
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

// Forwards TCP connections in its own thread. Keeps the first frame of each, and can withhold it, or change what the
// client says after it.
class OnThePath {
 public:
  explicit OnThePath(std::uint16_t to) : to_(to), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in local{};
    local.sin_family = AF_INET;
    local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof local;
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&local), size), 0);
    EXPECT_EQ(::listen(listener_.get(), 16), 0);
    EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&local), &size), 0);
    port_ = ntohs(local.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~OnThePath() {
    stopped_ = true;
    thread_.join();
  }

  std::uint16_t port() const { return port_; }
  // The first frames of the connections so far.
  std::vector<Bytes> greetings() const {
    const std::lock_guard lock(mutex_);
    return greetings_;
  }
  void cut() { cuts_ = true; }
  // Withholds the next greeting, and ends its connection.
  void withhold() { withholds_ = true; }
  // Changes the version of the next greeting, or of what a server says next.
  void change_version_of_hello() { changes_hello_ = true; }
  void change_version_of_reply() { changes_reply_ = true; }
  // Makes it look as if the sender of the next greeting, or of the next answer, did not encrypt.
  void downgrade_hello() { downgrades_hello_ = true; }
  void downgrade_reply() { downgrades_reply_ = true; }
  // Cuts the connection before what the client says next arrives.
  void cut_before_next() { cuts_before_next_ = true; }
  // Changes a bit in what the client says next.
  void forge() { forges_ = true; }
  // Repeats what the client says next.
  void repeat() { repeats_ = true; }
  // Holds the next answer to a greeting until `wait` returns.
  void hold(std::function<void()> wait) {
    const std::lock_guard lock(mutex_);
    wait_ = std::move(wait);
  }

 private:
  struct Pair {
    UniqueFd client, server;
    bool is_greeted = false, is_answered = false;
  };

  void run() {
    while (!stopped_) {
      if (cuts_.exchange(false)) pairs_.clear();
      std::vector<pollfd> events{{listener_.get(), POLLIN, 0}};
      for (const Pair& pair : pairs_) {
        events.push_back({pair.client.get(), POLLIN, 0});
        events.push_back({pair.server.get(), POLLIN, 0});
      }
      if (::poll(events.data(), events.size(), 5) <= 0) continue;
      std::size_t index = 1;
      for (auto pair = pairs_.begin(); pair != pairs_.end(); index += 2) {
        const bool is_over = (events[index].revents != 0 && !forward(*pair, true)) ||
                             (events[index + 1].revents != 0 && !forward(*pair, false));
        pair = is_over ? pairs_.erase(pair) : std::next(pair);
      }
      if (events[0].revents != 0)
        pairs_.push_back({UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)), connect_to(to_)});
    }
  }
  bool forward(Pair& pair, bool is_from_client) {
    Bytes bytes(65536);
    const int from = is_from_client ? pair.client.get() : pair.server.get();
    const int to = is_from_client ? pair.server.get() : pair.client.get();
    const ssize_t got = ::recv(from, bytes.data(), bytes.size(), 0);
    if (got <= 0) return false;
    bytes.resize(static_cast<std::size_t>(got));
    if (is_from_client && !std::exchange(pair.is_greeted, true)) {
      const std::lock_guard lock(mutex_);
      greetings_.push_back(bytes);
      if (changes_hello_.exchange(false)) ++version_of(bytes);
      if (downgrades_hello_.exchange(false)) bytes = without_encryption<control::Hello>(bytes);
      if (withholds_.exchange(false)) return false;
    } else if (is_from_client && bytes.size() > 8 && bytes[4] != std::byte{control::kProtocolVersion}) {
      if (cuts_before_next_.exchange(false)) return false;
      if (forges_.exchange(false)) bytes[6] ^= std::byte{1};
      if (repeats_.exchange(false) && !send(to, bytes)) return false;
    }
    if (!is_from_client && changes_reply_.exchange(false)) ++version_of(bytes);
    if (!is_from_client && downgrades_reply_.exchange(false)) bytes = without_encryption<control::HelloReply>(bytes);
    if (!is_from_client && !std::exchange(pair.is_answered, true)) {
      std::unique_lock lock(mutex_);
      if (const std::function<void()> wait = std::exchange(wait_, {})) {
        lock.unlock();
        wait();
      }
    }
    return send(to, bytes);
  }
  static std::uint8_t& version_of(Bytes& frame) { return reinterpret_cast<std::uint8_t*>(frame.data())[4]; }
  template <typename T>
  static Bytes without_encryption(const Bytes& frame) {
    T said = std::get<T>(control::decode(frame).value());
    EXPECT_NE(said.abilities & control::kEncrypts, 0U);
    said.abilities &= ~std::uint32_t{control::kEncrypts};
    Bytes changed;
    EXPECT_EQ(control::encode(said, changed), RIPC_OK);
    return changed;
  }
  static bool send(int to, const Bytes& bytes) {
    return ::send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }

  const std::uint16_t to_;
  UniqueFd listener_;
  std::uint16_t port_ = 0;
  std::list<Pair> pairs_;
  mutable std::mutex mutex_;
  std::vector<Bytes> greetings_;
  std::function<void()> wait_;
  std::atomic<bool> cuts_{false}, withholds_{false}, changes_hello_{false}, changes_reply_{false},
      downgrades_hello_{false}, downgrades_reply_{false}, cuts_before_next_{false}, forges_{false}, repeats_{false},
      stopped_{false};
  std::thread thread_;
};

class SessionAttack : public ::testing::Test {
 protected:
  explicit SessionAttack(std::uint32_t max_peers = 4096) : server_(with_limit(max_peers)) {}
  void SetUp() override {
    port_ = server_.open_port(events_);
    auto made = connect_by_path(client_);
    ASSERT_TRUE(made.ok()) << made.status().text();
    channel_ = *made;
  }
  static TransportOptions with_limit(std::uint32_t max_peers) {
    TransportOptions options = keyed();
    options.max_peers = max_peers;
    return options;
  }
  Result<std::shared_ptr<spi::Channel>> connect_by_path(Node& client) {
    remote::Locator locator;
    locator.context = server_.context();
    locator.port = path_.port();
    locator.ips = {"127.0.0.1"};
    return test::connect(client.transport(), {"socket", locator.text()}, 7, Deadline::after(kLimit));
  }
  std::uint16_t server_port() { return remote::Locator::parse(server_.transport().address().locator).value().port; }
  // Sends the greeting and returns the answer; empty: the connection was closed.
  Bytes ask(const Bytes& greeting) {
    const UniqueFd fd = connect_to(server_port());
    EXPECT_EQ(::send(fd.get(), greeting.data(), greeting.size(), 0), static_cast<ssize_t>(greeting.size()));
    Bytes answer(4096);
    const ssize_t got = ::recv(fd.get(), answer.data(), answer.size(), 0);
    answer.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return answer;
  }
  static ripc_status status_of(const Bytes& answer) {
    const auto frame = control::decode(answer);
    return frame.ok() ? std::get<control::HelloReply>(*frame).status : RIPC_CORRUPT;
  }
  // Sends control packets. They reach the server, each once and in order.
  void say(int count) {
    for (int index = 0; index < count; ++index, ++said_) {
      const std::string text = std::to_string(said_);
      const spi::Bytes bytes = std::as_bytes(std::span(text.data(), text.size()));
      ASSERT_EQ(channel_->send({.kind = spi::Outgoing::Kind::control, .packet = std::span(&bytes, 1)}), RIPC_OK);
    }
    ASSERT_TRUE(eventually([&] { return server_.host().control_packets().size() >= said_; }));
    const auto heard = server_.host().control_packets();
    ASSERT_EQ(heard.size(), said_);
    for (std::size_t index = 0; index < said_; ++index) EXPECT_EQ(heard[index].second, std::to_string(index));
  }
  std::uint64_t forged() { return server_.transport().counters().packets_forged; }

  Node server_;
  EventSet events_ = make_events();
  std::unique_ptr<remote::UdpPort> port_;
  OnThePath path_{server_port()};
  Node client_{keyed()};
  std::shared_ptr<spi::Channel> channel_;
  std::size_t said_ = 0;
};

TEST_F(SessionAttack, AForgedRecordIsCountedAndWhatItSaidComesWhole) {
  say(3);
  path_.forge();
  say(20);
  EXPECT_TRUE(eventually([&] { return forged() == 1; }));
  say(3);
  EXPECT_TRUE(channel_->alive());
  EXPECT_EQ(client_.host().losses(), 0);
}

TEST_F(SessionAttack, ARepeatedRecordIsCountedAndNotHeardTwice) {
  say(3);
  path_.repeat();
  say(20);
  EXPECT_TRUE(eventually([&] { return forged() == 1; }));
  say(3);
  EXPECT_EQ(client_.host().losses(), 0);
}

TEST_F(SessionAttack, ARecordedGreetingNeitherBeginsNorCutsASession) {
  say(3);
  EXPECT_EQ(status_of(ask(path_.greetings().front())), RIPC_REFUSED) << "the session is there";
  const std::size_t before = path_.greetings().size();
  path_.withhold();
  path_.cut();
  ASSERT_TRUE(eventually([&] { return path_.greetings().size() > before + 1; }));
  say(3);
  const std::vector<Bytes> greetings = path_.greetings();
  const auto resumed = std::find_if(greetings.begin(), greetings.end(), [](const Bytes& bytes) {
    const auto frame = control::decode(bytes);
    return frame.ok() && std::get<control::Hello>(*frame).role == static_cast<std::uint32_t>(control::Role::resume);
  });
  ASSERT_NE(resumed, greetings.end());
  EXPECT_EQ(status_of(ask(*resumed)), RIPC_PEER_DEAD) << "it never came, and a later one has";
  for (int count = 0; count < 8; ++count) EXPECT_EQ(status_of(ask(*resumed)), RIPC_REFUSED);
  say(20);
  EXPECT_EQ(path_.greetings().size(), greetings.size()) << "the connection was not made again";
  EXPECT_EQ(client_.host().losses(), 0);
}

TEST_F(SessionAttack, AChangedGreetingIsRefusedAndCounted) {
  const std::uint64_t before = server_.transport().counters().handshakes_refused;
  Bytes greeting = path_.greetings().front();
  greeting[16] ^= std::byte{1};  // another session
  EXPECT_EQ(status_of(ask(greeting)), RIPC_REFUSED);
  EXPECT_EQ(server_.transport().counters().handshakes_refused, before + 1);
}

TEST_F(SessionAttack, ADowngradeOfTheEncryptionIsRefusedAndCounted) {
  const auto refused = [](Node& node) -> std::uint64_t { return node.transport().counters().handshakes_refused; };
  for (const bool is_hello : {true, false}) {
    is_hello ? path_.downgrade_hello() : path_.downgrade_reply();
    Node another(keyed());
    const std::uint64_t before = refused(server_);
    EXPECT_EQ(connect_by_path(another).status().code(), RIPC_REFUSED);
    EXPECT_EQ(refused(is_hello ? server_ : another), is_hello ? before + 1 : 1U);
  }
  say(3);
}

// Only a sealed Bye is an orderly end.
TEST_F(SessionAttack, AConnectionCutBetweenTwoRecordsEndsNothing) {
  say(3);
  const std::size_t before = path_.greetings().size();
  path_.cut_before_next();
  say(3);
  EXPECT_GT(path_.greetings().size(), before) << "the connection was made again";
  EXPECT_TRUE(channel_->alive());
  EXPECT_EQ(client_.host().losses() + server_.host().losses(), 0);
  EXPECT_EQ(forged(), 0U);
}

TEST_F(SessionAttack, APeerOfAnotherVersionIsAVersionMismatchWhoeverNoticesIt) {
  for (const bool server_notices : {true, false}) {
    server_notices ? path_.change_version_of_hello() : path_.change_version_of_reply();
    Node another(keyed());
    const Status status = connect_by_path(another).status();
    EXPECT_EQ(status.code(), RIPC_VERSION_MISMATCH);
    EXPECT_NE(status.text().find("another version"), std::string_view::npos) << status.text();
  }
  say(3);
}

// Strangers are counted, and can use nothing up. A greeting that was good once is worth no more than theirs.
TEST_F(SessionAttack, AFloodOfHandshakesKeepsNobodyOut) {
  const Bytes recorded = path_.greetings().front();
  const std::uint64_t before = server_.transport().counters().handshakes_refused;
  for (std::uint64_t count = 1; count <= 100; ++count) {
    EXPECT_EQ(status_of(ask(recorded)), RIPC_REFUSED);
    EXPECT_EQ(server_.transport().counters().handshakes_refused, before + count);
  }
  Bytes greeting = recorded;
  for (std::size_t index = 60; index < greeting.size(); ++index) greeting[index] ^= std::byte{0x55};
  std::vector<UniqueFd> strangers;
  for (int count = 0; count < 400; ++count) {
    strangers.push_back(connect_to(server_port()));
    // Every other one says nothing.
    if (count % 2 == 0) (void)::send(strangers.back().get(), greeting.data(), greeting.size(), MSG_NOSIGNAL);
  }
  Node another(keyed());
  EXPECT_TRUE(another.connect(server_).ok());
  say(3);
}

TEST_F(SessionAttack, AFloodThatGoesOnDoesNotDriveOutAMemberWhoIsSlow) {
  constexpr std::uint64_t kKnocks = 1000;
  const std::uint64_t before = server_.transport().counters().handshakes_refused;
  const std::size_t greeted = path_.greetings().size();
  std::unique_ptr<Flood> flood;
  path_.hold([&] {
    flood = std::make_unique<Flood>(server_port());
    EXPECT_TRUE(eventually([&] { return flood->knocks() >= kKnocks; }));
  });
  Node slow(keyed());
  const auto made = connect_by_path(slow);
  EXPECT_TRUE(made.ok()) << made.status().text();
  EXPECT_EQ(path_.greetings().size(), greeted + 1) << "its first handshake came to its end";
  EXPECT_GE(server_.transport().counters().handshakes_refused, before + kKnocks - Flood::kOpen)
      << "who makes room is counted";
  say(3);
}

class HandshakesTooMany : public SessionAttack {
 protected:
  HandshakesTooMany() : SessionAttack(2) {}
};

TEST_F(HandshakesTooMany, ThatGoOnTogetherDoNotExceedTheLimitOfPeers) {
  Node other(keyed());
  std::shared_ptr<spi::Channel> taken;
  path_.hold([&] {
    auto made = other.connect(server_);
    EXPECT_TRUE(made.ok()) << made.status().text();
    if (made.ok()) taken = *made;
  });
  Node slow(keyed());
  EXPECT_FALSE(connect_by_path(slow).ok()) << "there are two peers";
  say(3);
}

TEST(Handshakes, OneThatComesToNoEndIsCounted) {
  TransportOptions options = keyed();
  options.peer_timeout = 100'000'000;
  Node server(options);
  const UniqueFd silent = connect_to(remote::Locator::parse(server.transport().address().locator).value().port);
  EXPECT_TRUE(eventually([&] { return server.transport().counters().handshakes_refused == 1; }));
  std::byte byte;
  EXPECT_EQ(::recv(silent.get(), &byte, 1, 0), 0) << "and is closed";
}

}  // namespace
}  // namespace ripc::internal::socket
