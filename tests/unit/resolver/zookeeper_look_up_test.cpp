// SPDX-License-Identifier: Apache-2.0
// How the servers of an ensemble are looked up and reached.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "base/fork_guard.hpp"
#include "resolver/zookeeper/zookeeper_directory.hpp"
#include "support/waiting.hpp"

namespace ripc::internal::resolver {
namespace {

using support::eventually;

constexpr std::string_view kSlowName = "localhost";

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

}  // namespace
}  // namespace ripc::internal::resolver

// Replaces the C library's getaddrinfo(). ZooKeeper's client calls it too.
// NOLINTNEXTLINE(cert-dcl50-cpp,readability-inconsistent-declaration-parameter-name): it is declared so
extern "C" __attribute__((visibility("default"))) int getaddrinfo(const char* host, const char* service,
                                                                  const addrinfo* hints, addrinfo** found) {
  return ripc::internal::resolver::look_up_in_test(host, service, hints, found);
}
