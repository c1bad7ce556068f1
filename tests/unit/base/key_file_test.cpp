// SPDX-License-Identifier: Apache-2.0
// Where a user's key file is, and what `ripc key new` writes there.
#include "base/key_file.hpp"

#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "base/cluster_key.hpp"
#include "process_helpers.hpp"

namespace ripc::internal::test {
namespace {

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(KeyFile, LiesInTheConfigurationOfTheUser) {
  const Environment home("HOME", "/home/u");
  {
    const Environment xdg("XDG_CONFIG_HOME", "/etc/u");
    EXPECT_EQ(default_key_path(), "/etc/u/ripc/cluster.key");
  }
  for (const char* unusable : {static_cast<const char*>(nullptr), "", "relative"}) {
    const Environment xdg("XDG_CONFIG_HOME", unusable);
    EXPECT_EQ(default_key_path(), "/home/u/.config/ripc/cluster.key");
  }
}

TEST(KeyFile, WithoutHomeTheUserDatabaseIsAsked) {
  const passwd* user = ::getpwuid(::geteuid());
  const std::string expected =
      user == nullptr ? std::string() : std::string(user->pw_dir) + "/.config/ripc/cluster.key";
  const Environment xdg("XDG_CONFIG_HOME", nullptr);
  for (const char* unusable : {static_cast<const char*>(nullptr), "", "relative"}) {
    const Environment home("HOME", unusable);
    EXPECT_EQ(default_key_path(), expected);
  }
}

TEST(KeyFile, IsForItsUserAloneAndCanBeLoaded) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/a/b/key";
  ASSERT_TRUE(make_key_folders(path, "cluster key", "").ok());
  EXPECT_EQ(mode_of(directory.path() + "/a"), 0700u);
  EXPECT_EQ(mode_of(directory.path() + "/a/b"), 0700u);
  const mode_t before = ::umask(0);
  const Status made = make_key_file(path, false);
  ::umask(before);
  ASSERT_TRUE(made.ok()) << made.text();
  EXPECT_EQ(mode_of(path), 0600u);
  EXPECT_TRUE(ClusterKeys::load(path).ok());
}

TEST(KeyFile, IsReplacedOnlyIfItIsWanted) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/key";
  ASSERT_TRUE(make_key_file(path, true).ok()) << "also where there is none yet";
  const std::string first = text_of(path);
  EXPECT_EQ(make_key_file(path, false).code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(text_of(path), first);
  ASSERT_TRUE(make_key_file(path, true).ok());
  EXPECT_NE(text_of(path), first);
  EXPECT_TRUE(ClusterKeys::load(path).ok());
}

// A user who starts a program on two terminals must not get two keys.
TEST(KeyFile, OneOfManyThreadsMakesItAndNothingIsLeftBehind) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/key";
  std::atomic<int> made{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { made += make_key_file(path, false).ok() ? 1 : 0; });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 1);
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory.path())) ++files;
  EXPECT_EQ(files, 1u);
}

TEST(KeyFile, AFailedWriteNamesThePathAndTheRemedy) {
  const Status status = make_key_file("/proc/nowhere/key", false);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.text().find("/proc/nowhere/key"), std::string_view::npos) << status.text();
  EXPECT_NE(status.text().find("ripc key new -o FILE"), std::string_view::npos) << status.text();
}

}  // namespace
}  // namespace ripc::internal::test
