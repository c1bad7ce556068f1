// SPDX-License-Identifier: Apache-2.0
// libripc's own declarations of ZooKeeper's C client match its headers, where those are installed.
#include "resolver/zookeeper/zookeeper_library.hpp"

#include <gtest/gtest.h>

#include "resolver/zookeeper/zookeeper_options.hpp"

#if __has_include(<zookeeper/zookeeper.h>) && __has_include(<zookeeper/proto.h>)
#include <zookeeper/proto.h>
#include <zookeeper/zookeeper.h>

#include <cstddef>
#endif

namespace ripc::internal::resolver {
namespace {

#ifdef ZOO_CREATE_OP
constexpr bool is_same(int one, int other) { return one == other; }

static_assert(sizeof(zk::Stat) == sizeof(Stat) && offsetof(zk::Stat, czxid) == offsetof(Stat, czxid));
static_assert(offsetof(zk::Stat, ctime) == offsetof(Stat, ctime));
static_assert(offsetof(zk::Stat, version) == offsetof(Stat, version));
static_assert(offsetof(zk::Stat, ephemeral_owner) == offsetof(Stat, ephemeralOwner));
static_assert(sizeof(zk::Strings) == sizeof(String_vector));
static_assert(offsetof(zk::Strings, data) == offsetof(String_vector, data));
static_assert(sizeof(zk::ClientId) == sizeof(clientid_t) && offsetof(clientid_t, client_id) == 0);
static_assert(sizeof(zk::Operation) == sizeof(zoo_op_t) && offsetof(zoo_op_t, type) == 0);
static_assert(sizeof(zk::OperationResult) == sizeof(zoo_op_result_t) && offsetof(zoo_op_result_t, err) == 0);
static_assert(is_same(zk::kCreateOperation, ZOO_CREATE_OP));
static_assert(is_same(zk::kNoNode, ZNONODE) && is_same(zk::kBadVersion, ZBADVERSION) &&
              is_same(zk::kNodeExists, ZNODEEXISTS));
static_assert(is_same(zk::kConnectionLoss, ZCONNECTIONLOSS) && is_same(zk::kSessionExpired, ZSESSIONEXPIRED));
static_assert(is_same(zk::kOperationTimeout, ZOPERATIONTIMEOUT) && is_same(zk::kInvalidState, ZINVALIDSTATE));
static_assert(is_same(zk::kClosing, ZCLOSING) && is_same(zk::kNothing, ZNOTHING) &&
              is_same(zk::kSessionMoved, ZSESSIONMOVED));
static_assert(is_same(zk::kThrottled, ZTHROTTLEDOP) && is_same(zk::kAnyWatch, ZWATCHTYPE_ANY));

TEST(ZooKeeperLibrary, ItsDeclarationsAreThoseOfTheHeaders) {}
#else
TEST(ZooKeeperLibrary, ItsDeclarationsAreThoseOfTheHeaders) {
  GTEST_SKIP() << "zookeeper.h is not installed: scripts/setup zookeeper installs libzookeeper-st-dev";
}
#endif

TEST(ZooKeeperLibrary, ItTakesAnIpv6AddressAsTheOptionsHaveIt) {
  const Result<std::shared_ptr<const zk::Library>> library = zk::Library::load();
  if (!library.ok()) GTEST_SKIP() << library.status().text();
  const Result<ZooKeeperOptions> options = parse_zookeeper_options("[::1]:1");
  ASSERT_TRUE(options.ok());
  const Result<std::string> text = options->connect_text();
  ASSERT_TRUE(text.ok()) << text.status().text();
  const auto watched = [](zk::Handle*, int, int, const char*, void*) {};
  zk::Handle* const handle = (*library)->init(text->c_str(), watched, 1000, nullptr, nullptr, 0, [](const char*) {});
  ASSERT_NE(handle, nullptr);
  (*library)->close(handle);
}

}  // namespace
}  // namespace ripc::internal::resolver
