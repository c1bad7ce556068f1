// SPDX-License-Identifier: Apache-2.0
// How the servers of an ensemble are looked up and reached.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/fork_guard.hpp"
#include "resolver/zookeeper/ensemble_check.hpp"
#include "resolver/zookeeper/zookeeper_directory.hpp"
#include "support/waiting.hpp"

namespace ripc::internal::resolver {
namespace {

using support::eventually;

constexpr std::string_view kSlowName = "localhost";
constexpr const char* kTwoAddresses = "two-addresses.test";  // 127.0.0.1, which does not answer, then 127.0.0.2

constexpr const char* kNoDescriptor = "no-descriptor.test";  // cannot be looked up for lack of one
constexpr const char* kNoAddress = "no-address.test";        // has none

struct LookUps {
  std::atomic<bool> are_slow = false;
  std::atomic<unsigned> begun = 0;  // of the slow name
  std::atomic<bool> is_let_go = false;
  std::atomic<bool> was_let_go = true;  // before it gave up
};
LookUps look_ups;

int real_look_up(const char* host, const char* service, const addrinfo* hints, addrinfo** found) {
  static const auto kReal = reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  return kReal(host, service, hints, found);
}

int look_up_in_test(const char* host, const char* service, const addrinfo* hints, addrinfo** found) {
  if (host != nullptr && std::string_view(host) == kTwoAddresses) {
    if (const int error = real_look_up("127.0.0.1", service, hints, found); error != 0) return error;
    return real_look_up("127.0.0.2", service, hints, &(*found)->ai_next);
  }
  if (host != nullptr && std::string_view(host) == kNoAddress) return EAI_NONAME;
  if (host != nullptr && std::string_view(host) == kNoDescriptor) {
    errno = EMFILE;
    return EAI_SYSTEM;
  }
  // The first one lets the client begin.
  if (host != nullptr && std::string_view(host) == kSlowName && look_ups.are_slow && ++look_ups.begun > 1 &&
      !eventually([] { return look_ups.is_let_go.load(); }))
    look_ups.was_let_go = false;
  return real_look_up(host, service, hints, found);
}

class NoListener final : public Directory::Listener {
 public:
  void link_up(std::uint64_t, bool) override {}
  void link_down() override {}
  void changed(std::string_view) override {}
};

UniqueFd listen_at(std::uint32_t address, std::uint16_t& port, int backlog) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(address);
  place.sin_port = htons(port);
  socklen_t size = sizeof place;
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&place), size), 0);
  EXPECT_EQ(::listen(fd.get(), backlog), 0);
  EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&place), &size), 0);
  port = ntohs(place.sin_port);
  return fd;
}

TEST(ZooKeeperLookUp, KeepsNoForkWaiting) {
  Result<std::unique_ptr<ZooKeeperDirectory>> directory =
      ZooKeeperDirectory::create({.servers = {{.host = std::string(kSlowName), .port = 1}}});
  if (!directory.ok()) GTEST_SKIP() << directory.status().text();
  look_ups.are_slow = true;
  NoListener listener;
  ASSERT_TRUE((*directory)->start(listener).ok());
  EXPECT_TRUE(eventually([] { return look_ups.begun > 1; }));
  const UniqueFd fd(::open("/", O_PATH | O_CLOEXEC));
  const ForkGuard guard(fd.get());  // waits as a fork does
  look_ups.is_let_go = true;
  (*directory)->stop();
  look_ups.are_slow = false;
  EXPECT_TRUE(look_ups.was_let_go);
}

TEST(ZooKeeperLookUp, ThatLacksADescriptorIsNotReportedAsANameWithoutAnAddress) {
  const ZooKeeperOptions options{.servers = {{.host = kNoDescriptor}}};
  EXPECT_EQ(options.connect_text().status().text(),
            "the host name no-descriptor.test cannot be looked up (Too many open files; raise ulimit -n)");
  EXPECT_EQ(ask_servers(options)[0].failure, options.connect_text().status().text());
}

TEST(ZooKeeperLookUp, ThatFindsNoServerNamesEachOfThem) {
  const ZooKeeperOptions options{.servers = {{.host = kNoAddress}, {.host = kNoDescriptor}}};
  EXPECT_EQ(options.connect_text().status().text(),
            "the host name no-address.test has no address (Name or service not known); the host name "
            "no-descriptor.test cannot be looked up (Too many open files; raise ulimit -n)");
}

TEST(EnsembleCheck, AServerThatNoDescriptorIsLeftForIsNotCalledReached) {
  std::uint16_t port = 0;
  const UniqueFd server = listen_at(INADDR_LOOPBACK, port, 8);
  const UniqueFd lowest(::dup(server.get()));
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit low{static_cast<rlim_t>(lowest.get()), limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  const std::vector<ServerAnswer> answers = ask_servers({.servers = {{.host = "127.0.0.1", .port = port}}});
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_NE(answers[0].failure.find("ulimit -n"), std::string::npos) << answers[0].failure;
}

TEST(EnsembleCheck, AnAddressThatDoesNotAnswerLeavesTimeForTheNextOne) {
  std::uint16_t port = 0;
  const UniqueFd silent = listen_at(INADDR_LOOPBACK, port, 0);
  const UniqueFd good = listen_at(INADDR_LOOPBACK + 1, port, 8);
  sockaddr_in place{};
  socklen_t size = sizeof place;
  ASSERT_EQ(::getsockname(silent.get(), reinterpret_cast<sockaddr*>(&place), &size), 0);
  std::array<UniqueFd, 4> waiting;  // more than it takes
  for (UniqueFd& fd : waiting) {
    fd.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    (void)::connect(fd.get(), reinterpret_cast<sockaddr*>(&place), size);
  }
  const std::jthread server([&] {
    pollfd descriptor{good.get(), POLLIN, 0};
    constexpr int kLimit = 10'000;
    if (::poll(&descriptor, 1, kLimit) <= 0) return;
    const UniqueFd client(::accept4(good.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::array<char, 4> question{};
    EXPECT_EQ(::recv(client.get(), question.data(), question.size(), MSG_WAITALL), 4);
    constexpr std::string_view kAnswer = "Mode: standalone\n";
    EXPECT_EQ(::send(client.get(), kAnswer.data(), kAnswer.size(), MSG_NOSIGNAL), static_cast<int>(kAnswer.size()));
  });
  const std::vector<ServerAnswer> answers = ask_servers({.servers = {{.host = kTwoAddresses, .port = port}}});
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].mode, "standalone") << answers[0].failure;
}

}  // namespace
}  // namespace ripc::internal::resolver

// Replaces the C library's getaddrinfo(). ZooKeeper's client calls it too.
// NOLINTNEXTLINE(cert-dcl50-cpp,readability-inconsistent-declaration-parameter-name): it is declared so
extern "C" __attribute__((visibility("default"))) int getaddrinfo(const char* host, const char* service,
                                                                  const addrinfo* hints, addrinfo** found) {
  return ripc::internal::resolver::look_up_in_test(host, service, hints, found);
}
