// SPDX-License-Identifier: Apache-2.0
#include "base/other_directories.hpp"

#include <algorithm>

#include "base/runtime_directory.hpp"
#include "process_helpers.hpp"
#include "support/waiting.hpp"

namespace ripc::internal {
namespace {

using test::Environment;
using test::TemporaryDirectory;

std::size_t contexts_in(const std::string& path, const std::string& own) {
  const std::vector<OtherDirectory> others = other_runtime_directories(own);
  const auto found = std::find_if(others.begin(), others.end(), [&](const auto& other) { return other.path == path; });
  return found == others.end() ? 0 : found->contexts;
}

TEST(OtherDirectories, AreThoseOfThisUserWithLivingContexts) {
  const TemporaryDirectory own;
  const TemporaryDirectory xdg;
  const Environment variable("XDG_RUNTIME_DIR", xdg.path().c_str());
  const std::string path = xdg / "ripc";
  EXPECT_EQ(contexts_in(path, own.path()), 0u) << "there is none";
  {
    const auto directory = RuntimeDirectory::open(path.c_str(), 0);
    ASSERT_TRUE(directory.ok());
    EXPECT_EQ(contexts_in(path, own.path()), 0u) << "nobody lives there";
    const auto first = (*directory)->listen(1);
    const auto second = (*directory)->listen(2);
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_EQ(contexts_in(path, own.path()), 2u);
    EXPECT_EQ(contexts_in(path, path), 0u) << "it is the own one";
  }
  EXPECT_EQ(contexts_in(path, own.path()), 0u) << "the dead are not counted";
}

TEST(OtherDirectories, AreLookedForOnceInAPeriodForThoseWhoFindNothing) {
  const TemporaryDirectory own;
  const TemporaryDirectory xdg;
  const Environment variable("XDG_RUNTIME_DIR", xdg.path().c_str());
  const std::string path = xdg / "ripc";
  const auto directory = RuntimeDirectory::open(path.c_str(), 0);
  ASSERT_TRUE(directory.ok());
  const auto names_it = [&](const std::string& text) { return text.find(path + ", and not in") != std::string::npos; };
  const Nanoseconds started = monotonic_now();
  OtherDirectoriesHint early(own.path());
  EXPECT_FALSE(names_it(early.text())) << "nobody lives there";
  const auto socket = (*directory)->listen(1);
  ASSERT_TRUE(socket.ok());
  OtherDirectoriesHint late(own.path());
  EXPECT_TRUE(names_it(late.text()));
  const bool is_old = !names_it(early.text());
  EXPECT_TRUE(is_old || monotonic_now() - started >= OtherDirectoriesHint::kPeriod) << "it has looked again";
  EXPECT_TRUE(support::eventually([&] { return names_it(early.text()); }));
}

TEST(OtherDirectories, NothingIsMade) {
  const TemporaryDirectory own;
  const TemporaryDirectory xdg;
  const Environment variable("XDG_RUNTIME_DIR", xdg.path().c_str());
  const std::string path = xdg.make("ripc", 0700);
  (void)other_runtime_directories(own.path());
  EXPECT_FALSE(std::filesystem::exists(path + "/contexts"));
}

}  // namespace
}  // namespace ripc::internal
