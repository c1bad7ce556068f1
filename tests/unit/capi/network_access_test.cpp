// SPDX-License-Identifier: Apache-2.0
// Which other hosts a context admits, and what the rest learn.
#include "capi/network_access.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string>

#include "../base/process_helpers.hpp"
#include "base/key_file.hpp"
#include "capi/compose.hpp"
#include "support/handles.hpp"
#include "support/initialized.hpp"

namespace ripc::internal::capi {
namespace {

using support::Context;
using support::initialized;
using support::Service;
using test::Environment;
using test::TemporaryDirectory;

constexpr ripc_service_id kId = 4711;
constexpr const char* kLoopbackGroup = "239.255.82.73:26999%lo,ttl=0";

// How many sockets of the internet families this process has open.
std::size_t network_sockets() {
  std::set<std::string> known;
  for (const char* table : {"tcp", "tcp6", "udp", "udp6"}) {
    std::ifstream file(std::string("/proc/self/net/") + table);
    std::string line;
    for (std::getline(file, line); std::getline(file, line);) {
      std::istringstream words(line);
      std::string inode;
      for (int column = 0; column < 10; ++column) words >> inode;
      known.insert("socket:[" + inode + "]");
    }
  }
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the descriptor that lists the folder
    count += known.count(std::filesystem::read_symlink(entry.path(), gone).string());
  }
  return count;
}

bool mentions(std::string_view text, std::string_view words) { return text.find(words) != std::string_view::npos; }

class NetworkAccessTest : public testing::Test {
 protected:
  std::string default_file() const { return files_.path() + "/ripc/cluster.key"; }
  static std::string make_key(const std::string& path) {
    EXPECT_TRUE(make_key_folders(path, "cluster key", "").ok());
    EXPECT_TRUE(make_key_file(path, true).ok());
    return path;
  }
  ripc_context_options options(const char* transports) const {
    ripc_context_options options = initialized(ripc_context_options_init);
    options.runtime_directory = directory_.path().c_str();
    options.transports = transports;
    return options;
  }
  static Result<NetworkAccess> access(const std::optional<std::string>& key_file = {},
                                      std::uint32_t mode = UINT32_MAX) {
    ripc_context_options options = initialized(ripc_context_options_init);
    options.cluster_key_file = key_file ? key_file->c_str() : nullptr;
    options.network = mode;
    return read_network_access(options);
  }
  static Context make(const ripc_context_options& options) {
    ripc_context* context = nullptr;
    EXPECT_EQ(ripc_context_create(&options, &context), RIPC_OK) << ripc_last_error();
    return Context(context);
  }

  const TemporaryDirectory files_;
  const TemporaryDirectory directory_;
  const Environment config_{"XDG_CONFIG_HOME", files_.path().c_str()};
  const Environment key_{"RIPC_CLUSTER_KEY_FILE", nullptr};
  const Environment network_{"RIPC_NETWORK", nullptr};
  const Environment transports_{"RIPC_TRANSPORTS", nullptr};
  const Environment multicast_{"RIPC_MULTICAST", nullptr};
};

// ---- By default --------------------------------------------------------------------------------------------------

TEST_F(NetworkAccessTest, WithoutAKeyNoSocketOfTheNetworkIsOpened) {
  const std::size_t before = network_sockets();
  const Context context = make(options(nullptr));
  ripc_service* service = nullptr;
  ASSERT_EQ(ripc_service_register(context.get(), nullptr, &service), RIPC_OK) << ripc_last_error();
  EXPECT_EQ(network_sockets(), before);
  // The same check does find sockets where there are some.
  const Environment group("RIPC_MULTICAST", kLoopbackGroup);
  make_key(default_file());
  const Context keyed = make(options(nullptr));
  EXPECT_GT(network_sockets(), before + 1);
}

TEST_F(NetworkAccessTest, WithoutAKeyWhatWasAskedForByNameIsRefusedWithTheRemedy) {
  for (const char* transports : {"socket", "shm,socket", "socket,shm"}) {
    ripc_context* context = nullptr;
    const ripc_context_options wanted = options(transports);
    EXPECT_EQ(ripc_context_create(&wanted, &context), RIPC_PERMISSION) << transports;
    EXPECT_TRUE(mentions(ripc_last_error(), "ripc key new")) << ripc_last_error();
    EXPECT_TRUE(mentions(ripc_last_error(), "RIPC_NETWORK=open")) << ripc_last_error();
  }
  const Environment group("RIPC_MULTICAST", kLoopbackGroup);
  EXPECT_EQ(read_settings(options("shm")).status().code(), RIPC_PERMISSION);
}

// RDMA devices do not encrypt.
TEST_F(NetworkAccessTest, RequiredEncryptionLeavesOutRdmaAndRefusesItByName) {
  make_key(default_file());
  const Environment group("RIPC_MULTICAST", "off");
  ripc_context_options automatic = options(nullptr);
  automatic.encrypt = RIPC_ENCRYPT_REQUIRED;
  const Result<Settings> settings = read_settings(automatic);
  ASSERT_TRUE(settings.ok()) << settings.status().text();
  EXPECT_EQ(settings->transports, (std::vector<std::string>{"shm", "socket"}));
#ifdef RIPC_WITH_VERBS
  ripc_context_options by_name = options("shm,verbs,socket");
  by_name.encrypt = RIPC_ENCRYPT_REQUIRED;
  const Status refused = read_settings(by_name).status();
  EXPECT_EQ(refused.code(), RIPC_PERMISSION);
  EXPECT_TRUE(mentions(refused.text(), "RDMA devices do not encrypt")) << refused.text();
  EXPECT_TRUE(mentions(refused.text(), "RIPC_ENCRYPT=auto")) << refused.text();
  by_name.encrypt = RIPC_ENCRYPT_AUTO;
  EXPECT_TRUE(read_settings(by_name).ok());
#endif
}

TEST_F(NetworkAccessTest, TheKeyInTheDefaultPlaceIsUsedWithoutASetting) {
  EXPECT_TRUE(access()->is_closed);
  make_key(default_file());
  const Result<NetworkAccess> keyed = access();
  ASSERT_TRUE(keyed.ok()) << keyed.status().text();
  EXPECT_FALSE(keyed->is_closed);
  EXPECT_NE(keyed->keys, nullptr);
  EXPECT_EQ(keyed->key_file, default_file());
}

TEST_F(NetworkAccessTest, TheOptionComesBeforeTheVariableAndThatBeforeTheDefaultPlace) {
  make_key(default_file());
  const std::string named = make_key(files_.path() + "/named");
  const std::string optional = make_key(files_.path() + "/optional");
  const Environment variable("RIPC_CLUSTER_KEY_FILE", named.c_str());
  EXPECT_EQ(access()->key_file, named);
  EXPECT_EQ(access(optional)->key_file, optional);
}

// ---- Words -------------------------------------------------------------------------------------------------------

TEST_F(NetworkAccessTest, OpenNeedsNoKeyAndLeavesTheOneInTheDefaultPlaceAlone) {
  make_key(default_file());
  const Environment open("RIPC_NETWORK", "open");
  const Result<NetworkAccess> found = access();
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_FALSE(found->is_closed);
  EXPECT_EQ(found->keys, nullptr);
  EXPECT_NE(access({}, RIPC_NETWORK_KEY)->keys, nullptr) << "the option comes before the variable";
}

TEST_F(NetworkAccessTest, OffLeavesOutWhatLeavesTheHostWhateverElseIsSet) {
  make_key(default_file());
  const Environment off("RIPC_NETWORK", "off");
  const Environment group("RIPC_MULTICAST", kLoopbackGroup);
  const Result<Settings> settings = read_settings(options("shm,socket"));
  ASSERT_TRUE(settings.ok()) << settings.status().text();
  EXPECT_EQ(settings->transports, std::vector<std::string>{"shm"});
  EXPECT_FALSE(settings->multicast);
  EXPECT_EQ(read_settings(options("socket")).status().code(), RIPC_PERMISSION);
}

TEST_F(NetworkAccessTest, OtherWordsAndContradictionsAreErrors) {
  const std::string named = make_key(files_.path() + "/named");
  EXPECT_EQ(access({}, 3).status().code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(access("").status().code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(access(named, RIPC_NETWORK_OPEN).status().code(), RIPC_INVALID_ARGUMENT);
  for (const char* word : {"yes", "Open", " key"}) {
    const Environment variable("RIPC_NETWORK", word);
    const Result<NetworkAccess> refused = access();
    EXPECT_EQ(refused.status().code(), RIPC_INVALID_ARGUMENT) << word;
    for (const char* value : {"key", "open", "off"}) EXPECT_TRUE(mentions(refused.status().text(), value)) << value;
  }
}

// A variable that is set but empty comes from a script that has lost the value.
TEST_F(NetworkAccessTest, NoSettingMayBeEmpty) {
  for (const char* name : {"RIPC_CLUSTER_KEY_FILE", "RIPC_NETWORK", "RIPC_TRANSPORTS", "RIPC_PEERS", "RIPC_MULTICAST",
                           "RIPC_SOCKET_ADDRESS", "RIPC_SOCKET_INTERFACE", "RIPC_SOCKET_PORTS", "RIPC_RESOLVER_FILE"}) {
    const Environment empty(name, "");
    const Result<Settings> refused = read_settings(options("shm"));
    EXPECT_EQ(refused.status().code(), RIPC_INVALID_ARGUMENT) << name;
    EXPECT_TRUE(mentions(refused.status().text(), name)) << refused.status().text();
  }
}

TEST_F(NetworkAccessTest, AKeyFileThatCannotBeUsedIsNeverNoKey) {
  const auto expect_error = [&](const std::string& path) {
    EXPECT_FALSE(access(path).ok()) << path;
    const Environment variable("RIPC_CLUSTER_KEY_FILE", path.c_str());
    EXPECT_FALSE(access().ok()) << path;
  };
  expect_error(files_.path() + "/missing");
  make_key(default_file());
  ASSERT_EQ(::chmod(default_file().c_str(), 0640), 0);
  expect_error(default_file());
  EXPECT_EQ(access().status().code(), RIPC_PERMISSION) << "in the default place";
  std::ofstream(default_file(), std::ios::trunc).close();
  ASSERT_EQ(::chmod(default_file().c_str(), 0600), 0);
  EXPECT_EQ(access().status().code(), RIPC_INVALID_ARGUMENT) << "empty";
  ASSERT_EQ(::unlink(default_file().c_str()), 0);
  ASSERT_EQ(::symlink("nowhere", default_file().c_str()), 0);
  EXPECT_FALSE(access().ok()) << "a link to nothing";
  ASSERT_EQ(::unlink(default_file().c_str()), 0);
  ASSERT_EQ(::mkdir(default_file().c_str(), 0700), 0);
  EXPECT_EQ(access().status().code(), RIPC_PERMISSION) << "a folder";
}

// ---- What the others learn ---------------------------------------------------------------------------------------

// A service on a socket of the loopback interface, and a file that names its address to clients.
class OtherKeys : public NetworkAccessTest {
 protected:
  void serve(const std::optional<std::string>& key_file) {
    const Environment off("RIPC_MULTICAST", "off");
    const Environment address("RIPC_SOCKET_ADDRESS", "127.0.0.1");
    ripc_context_options chosen = options("socket");
    if (key_file) chosen.cluster_key_file = key_file->c_str();
    chosen.network = key_file ? UINT32_MAX : std::uint32_t{RIPC_NETWORK_OPEN};
    server_context_ = make(chosen);
    ripc_service_options wanted = initialized(ripc_service_options_init);
    wanted.id = kId;
    ripc_service* service = nullptr;
    ASSERT_EQ(ripc_service_register(server_context_.get(), &wanted, &service), RIPC_OK) << ripc_last_error();
    server_.reset(service);
    ripc_service_info info = initialized(ripc_service_info_init);
    ASSERT_EQ(ripc_resolve(server_context_.get(), kId, &info), RIPC_OK) << ripc_last_error();
    const std::string text = info.address;
    const std::size_t port = text.find("port=") + 5;
    std::ofstream(known_) << kId << " socket:127.0.0.1:" << text.substr(port, text.find(';', port) - port) << "\n";
  }

  // Expects that a client with these settings is refused with these words, when it sends and when it looks for the
  // path.
  void expect_told(const char* transports, const std::optional<std::string>& key_file, std::uint32_t mode,
                   std::string_view words) {
    const Environment off("RIPC_MULTICAST", "off");
    ripc_context_options chosen = options(transports);
    const TemporaryDirectory elsewhere;
    chosen.runtime_directory = elsewhere.path().c_str();
    chosen.static_resolver = known_.c_str();
    if (key_file) chosen.cluster_key_file = key_file->c_str();
    chosen.network = mode;
    const Context context = make(chosen);
    ripc_service* handle = nullptr;
    ASSERT_EQ(ripc_service_register(context.get(), nullptr, &handle), RIPC_OK) << ripc_last_error();
    const Service client(handle);
    const ripc_item item{"hello", 5, RIPC_ITEM_SHORT, 0};
    EXPECT_EQ(ripc_send(client.get(), kId, &item, 1, nullptr, nullptr), RIPC_REFUSED) << ripc_last_error();
    EXPECT_TRUE(mentions(ripc_last_error(), words)) << ripc_last_error();
    ripc_service_info info = initialized(ripc_service_info_init);
    EXPECT_EQ(ripc_find_path(context.get(), kId, &info), RIPC_REFUSED) << ripc_last_error();
    EXPECT_TRUE(mentions(ripc_last_error(), words)) << ripc_last_error();
  }

  const std::string known_ = files_.path() + "/known";
  const std::string one_ = make_key(files_.path() + "/one");
  const std::string other_ = make_key(files_.path() + "/other");
  Context server_context_;
  Service server_;
};

TEST_F(OtherKeys, WithoutAKeyTheErrorSaysThatTheServiceIsThereAndTheKeyMissing) {
  ASSERT_NO_FATAL_FAILURE(serve(one_));
  expect_told(nullptr, {}, UINT32_MAX, default_file());
}

TEST_F(OtherKeys, WithAnotherKeyTheErrorSaysSo) {
  ASSERT_NO_FATAL_FAILURE(serve(one_));
  expect_told("socket", other_, UINT32_MAX, "another cluster key");
  expect_told("socket,shm", other_, UINT32_MAX, "another cluster key");
}

TEST_F(OtherKeys, AnOpenContextLearnsThatTheServiceHasAKey) {
  ASSERT_NO_FATAL_FAILURE(serve(one_));
  expect_told("socket", {}, RIPC_NETWORK_OPEN, "this context runs without one");
}

TEST_F(OtherKeys, AContextWithAKeyLearnsThatTheServiceRunsOpen) {
  ASSERT_NO_FATAL_FAILURE(serve({}));
  expect_told("socket", one_, UINT32_MAX, "RIPC_NETWORK=open");
}

}  // namespace
}  // namespace ripc::internal::capi
