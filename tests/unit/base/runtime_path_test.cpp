// SPDX-License-Identifier: Apache-2.0
#include "base/runtime_path.hpp"

#include "process_helpers.hpp"

namespace ripc::internal::test {
namespace {

using ::testing::Test;

std::string default_path() { return "/tmp/ripc-" + std::to_string(::geteuid()); }

std::string chosen(const char* argument) {
  const Result<RuntimePath> path = choose_runtime_path(argument);
  EXPECT_TRUE(path.ok());
  return path.ok() ? path->path : "";
}

Status open_default(const std::string& path, std::uint32_t policy) {
  struct stat info {};
  return open_runtime_path({path, true}, policy, info).status();
}

Status open_named(const std::string& path, std::uint32_t policy) {
  struct stat info {};
  return open_runtime_path({path, false}, policy, info).status();
}

TEST(RuntimePath, TheArgumentWinsOverTheEnvironment) {
  const Environment named("RIPC_RUNTIME_DIR", "/from/environment");
  EXPECT_EQ(chosen("/from/argument"), "/from/argument");
  EXPECT_FALSE(choose_runtime_path("/from/argument")->is_default);
}

TEST(RuntimePath, RipcRuntimeDirWinsOverXdgRuntimeDir) {
  const TemporaryDirectory xdg;
  const Environment named("RIPC_RUNTIME_DIR", "/from/environment");
  const Environment other("XDG_RUNTIME_DIR", xdg.path().c_str());
  EXPECT_EQ(chosen(nullptr), "/from/environment");
  EXPECT_FALSE(choose_runtime_path(nullptr)->is_default);
}

TEST(RuntimePath, WithoutANameItIsRipcInXdgRuntimeDir) {
  const TemporaryDirectory xdg;
  const Environment named("RIPC_RUNTIME_DIR", nullptr);
  const Environment other("XDG_RUNTIME_DIR", xdg.path().c_str());
  EXPECT_EQ(chosen(nullptr), xdg / "ripc");
  EXPECT_TRUE(choose_runtime_path(nullptr)->is_default);
}

TEST(RuntimePath, WithoutAnythingItIsInTmpByUserNumber) {
  const Environment named("RIPC_RUNTIME_DIR", nullptr);
  const Environment other("XDG_RUNTIME_DIR", nullptr);
  EXPECT_EQ(chosen(nullptr), default_path());
  EXPECT_TRUE(choose_runtime_path(nullptr)->is_default);
}

TEST(RuntimePath, EmptyNamesCountAsNone) {
  const Environment named("RIPC_RUNTIME_DIR", "");
  const Environment other("XDG_RUNTIME_DIR", "");
  EXPECT_EQ(chosen(""), default_path());
}

TEST(RuntimePath, AnXdgRuntimeDirThatIsMissingOrRelativeIsIgnored) {
  const TemporaryDirectory xdg;
  const Environment named("RIPC_RUNTIME_DIR", nullptr);
  {
    const Environment other("XDG_RUNTIME_DIR", (xdg / "missing").c_str());
    EXPECT_EQ(chosen(nullptr), default_path());
  }
  const Environment other("XDG_RUNTIME_DIR", ".");
  EXPECT_EQ(chosen(nullptr), default_path());
}

TEST(RuntimePath, AnXdgRuntimeDirOfAnotherUserIsIgnored) {
  SKIP_UNLESS_ROOT("gives a directory to another user");
  const TemporaryDirectory xdg;
  ASSERT_EQ(::chown(xdg.path().c_str(), test::kNobody, test::kNobody), 0);
  const Environment named("RIPC_RUNTIME_DIR", nullptr);
  const Environment other("XDG_RUNTIME_DIR", xdg.path().c_str());
  EXPECT_EQ(chosen(nullptr), default_path());
}

TEST(RuntimePath, ARelativeNameBecomesAbsoluteAtOnce) {
  const TemporaryDirectory directory;
  EXPECT_EQ(run_in_child([&] {
              CHILD_CHECK(::chdir(directory.path().c_str()) == 0);
              return chosen("run//") == directory / "run" ? 0 : 1;
            }),
            0);
}

TEST(RuntimePath, AMissingDirectoryIsMadeForItsUserAlone) {
  const TemporaryDirectory directory;
  EXPECT_TRUE(open_default(directory / "default", RIPC_PEERS_SAME_USER).ok());
  EXPECT_EQ(mode_of(directory / "default"), 0700u);
  EXPECT_TRUE(open_named(directory / "named", RIPC_PEERS_ANY).ok());
  EXPECT_EQ(mode_of(directory / "named"), 0700u);
}

TEST(RuntimePath, AMissingParentIsNamedInTheAdvice) {
  const TemporaryDirectory directory;
  const Status status = open_named(directory / "missing/run", RIPC_PEERS_SAME_USER);
  EXPECT_EQ(status.code(), RIPC_SYSTEM);
  EXPECT_TRUE(mentions(status, "parent")) << status.text();
}

TEST(RuntimePath, ADefaultDirectoryMustNotBeALink) {
  const TemporaryDirectory directory;
  directory.make("target", 0700);
  ASSERT_EQ(::symlink("target", (directory / "link").c_str()), 0);
  const Status status = open_default(directory / "link", RIPC_PEERS_ANY);
  EXPECT_EQ(status.code(), RIPC_PERMISSION);
  EXPECT_TRUE(mentions(status, "symbolic link") && mentions(status, "RIPC_RUNTIME_DIR")) << status.text();
  EXPECT_TRUE(open_named(directory / "link", RIPC_PEERS_SAME_USER).ok());
}

TEST(RuntimePath, ADefaultDirectoryMustBelongToThisUser) {
  SKIP_UNLESS_ROOT("gives a directory to another user");
  const TemporaryDirectory directory;
  const std::string path = directory.make("run", 0700);
  ASSERT_EQ(::chown(path.c_str(), test::kNobody, test::kNobody), 0);
  const Status status = open_default(path, RIPC_PEERS_ANY);
  EXPECT_EQ(status.code(), RIPC_PERMISSION);
  EXPECT_TRUE(mentions(status, "belongs to user 65534") && mentions(status, "RIPC_RUNTIME_DIR")) << status.text();
  EXPECT_TRUE(open_named(path, RIPC_PEERS_SAME_USER).ok());
}

TEST(RuntimePath, AForeignDefaultDirectoryIsRefusedEvenIfItCannotBeRead) {
  SKIP_UNLESS_ROOT("becomes another user");
  const TemporaryDirectory directory;
  const std::string path = directory.make("run", 0700);
  EXPECT_EQ(run_in_child([&] {
              CHILD_CHECK(test::become_nobody());
              const Status status = open_default(path, RIPC_PEERS_ANY);
              return status == RIPC_PERMISSION && mentions(status, "belongs to user 0") ? 0 : 1;
            }),
            0);
}

TEST(RuntimePath, OthersMayWriteToADefaultDirectoryOnlyIfThePolicyAdmitsThem) {
  const TemporaryDirectory directory;
  const std::string group = directory.make("group", 0770);
  const std::string any = directory.make("any", 01777);
  const Status for_user = open_default(group, RIPC_PEERS_SAME_USER);
  EXPECT_EQ(for_user.code(), RIPC_PERMISSION);
  EXPECT_TRUE(mentions(for_user, "chmod go-w")) << for_user.text();
  EXPECT_TRUE(open_default(group, RIPC_PEERS_SAME_GROUP).ok());
  EXPECT_TRUE(open_default(group, RIPC_PEERS_ANY).ok());
  EXPECT_EQ(open_default(any, RIPC_PEERS_SAME_USER).code(), RIPC_PERMISSION);
  const Status for_group = open_default(any, RIPC_PEERS_SAME_GROUP);
  EXPECT_EQ(for_group.code(), RIPC_PERMISSION);
  EXPECT_TRUE(mentions(for_group, "chmod o-w")) << for_group.text();
  EXPECT_TRUE(open_default(any, RIPC_PEERS_ANY).ok());
}

TEST(RuntimePath, ANamedDirectoryIsUsedAsItIs) {
  const TemporaryDirectory directory;
  for (const mode_t mode : {01777u, 02770u, 0755u}) {
    const std::string path = directory.make("mode" + std::to_string(mode), mode);
    EXPECT_TRUE(open_named(path, RIPC_PEERS_SAME_USER).ok());
    EXPECT_EQ(mode_of(path), mode);
  }
}

TEST(RuntimePath, SomethingElseThanADirectoryIsRefused) {
  const TemporaryDirectory directory;
  const std::string path = directory / "file";
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_TRUE(file);
  EXPECT_EQ(open_default(path, RIPC_PEERS_SAME_USER).code(), RIPC_PERMISSION);
  const Status status = open_named(path, RIPC_PEERS_SAME_USER);
  EXPECT_EQ(status.code(), RIPC_INVALID_ARGUMENT);
  EXPECT_TRUE(mentions(status, path) && mentions(status, "not a directory")) << status.text();
}

TEST(RuntimePath, ADirectoryThatCannotBeMadeSaysWhatToDo) {
  SKIP_UNLESS_ROOT("becomes another user");
  const TemporaryDirectory directory;
  EXPECT_EQ(run_in_child([&] {
              CHILD_CHECK(test::become_nobody());
              const Status status = open_named(directory / "run", RIPC_PEERS_SAME_USER);
              return status == RIPC_PERMISSION && mentions(status, "RIPC_RUNTIME_DIR") ? 0 : 1;
            }),
            0);
}

}  // namespace
}  // namespace ripc::internal::test
