// SPDX-License-Identifier: Apache-2.0
#include "security/trust_file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "support/temporary_directory.hpp"
#include "unit/security/trust_helpers.hpp"

namespace ripc::internal::security {
namespace {

class TrustFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_file(path_, first_);
    auto file = TrustFile::open(path_, reading());
    ASSERT_TRUE(file.ok()) << file.status().text();
    file_ = *file;
  }
  void expect_refused(std::string_view why) {
    const std::uint64_t failures = file_->failures();
    const auto before = file_->current();
    (void)file_->look();
    EXPECT_EQ(file_->failures(), failures + 1);
    EXPECT_EQ(file_->current(), before);
    EXPECT_NE(file_->trouble().text().find(why), std::string_view::npos) << file_->trouble().text();
    // A failure is reported only once.
    (void)file_->look();
    EXPECT_EQ(file_->failures(), failures + 1);
  }

  const support::TemporaryDirectory directory_;
  const std::string path_ = directory_.path() + "/trust";
  const std::string first_ = "alice " + key_of(1) + "\n";
  const std::string second_ = "bob " + key_of(2) + "\n";
  std::shared_ptr<TrustFile> file_;
};

TEST_F(TrustFileTest, AChangedFileIsInForceWithoutARestart) {
  EXPECT_NE(file_->current()->member_named("alice"), nullptr);
  write_file(path_, second_);
  (void)file_->look();
  EXPECT_EQ(file_->current()->member_named("alice"), nullptr);
  EXPECT_NE(file_->current()->member_named("bob"), nullptr);
  EXPECT_EQ(file_->reloads(), 1U);
  EXPECT_TRUE(file_->trouble().ok());
}

TEST_F(TrustFileTest, AFileThatDidNotChangeIsNotReadAgain) {
  const auto before = file_->current();
  (void)file_->look();
  EXPECT_EQ(file_->current(), before);
  EXPECT_EQ(file_->reloads(), 0U);
}

TEST_F(TrustFileTest, ABadNewFileLeavesTheOldInForceAndAGoodOneEndsThat) {
  write_file(path_, second_ + "nonsense\n");
  expect_refused("line 2");
  EXPECT_NE(file_->current()->member_named("alice"), nullptr);
  write_file(path_, second_);
  (void)file_->look();
  EXPECT_NE(file_->current()->member_named("bob"), nullptr);
  EXPECT_TRUE(file_->trouble().ok());
}

TEST_F(TrustFileTest, OneThatOthersMayWriteIsNotTaken) {
  write_file(path_, second_, 0664);
  expect_refused("chmod 644");
}

TEST_F(TrustFileTest, OneThatIsTooLargeIsNotTaken) {
  write_file(path_, second_ + std::string(Trust::kMaxFileSize, '#') + "\n");
  expect_refused("larger than 1048576");
}

TEST_F(TrustFileTest, OneThatIsGoneOrNoFileIsNotTaken) {
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  expect_refused("RIPC_TRUST_FILE");
  ASSERT_EQ(::mkdir(path_.c_str(), 0700), 0);
  expect_refused("not a plain file");
}

TEST_F(TrustFileTest, OneOfAnotherOwnerIsNotTaken) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  write_file(path_, second_);
  ASSERT_EQ(::chown(path_.c_str(), 12345, 12345), 0);
  expect_refused("12345");
}

TEST_F(TrustFileTest, OneThatIsCutOffIsNotTaken) {
  write_file(path_, second_.substr(0, second_.size() - 1));
  expect_refused("cut off");
}

TEST_F(TrustFileTest, OneOfAnotherSignerIsNotTaken) {
  write_file(path_, Trust::signed_text(first_, *identity_of(9)));
  const auto opened = TrustFile::open(path_, reading(identity_of(9)->public_key()));
  ASSERT_TRUE(opened.ok()) << opened.status().text();
  file_ = *opened;
  write_file(path_, Trust::signed_text(second_, *identity_of(8)));
  expect_refused("another identity signed it");
}

// A failure to read the file says nothing about the file, and passes.
TEST_F(TrustFileTest, AFileThatCouldNotBeReadForAWhileIsReadLater) {
  write_file(path_, second_);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const Status first = file_->look();
  const Status second = file_->look();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(first.code(), RIPC_NO_DESCRIPTORS) << first.text();
  EXPECT_EQ(second.code(), RIPC_NO_DESCRIPTORS) << second.text();
  EXPECT_EQ(file_->failures(), 1U) << "one file, reported once";
  EXPECT_NE(file_->current()->member_named("alice"), nullptr);
  EXPECT_TRUE(file_->look().ok());
  EXPECT_NE(file_->current()->member_named("bob"), nullptr);
}

TEST_F(TrustFileTest, ManyThreadsAskWhileItChanges) {
  std::atomic<bool> is_over{false};
  std::vector<std::thread> asking;
  for (int number = 0; number < 4; ++number)
    asking.emplace_back([&, looks = number % 2 == 0] {
      while (!is_over) {
        if (looks) {
          EXPECT_TRUE(file_->look().ok());
        }
        const auto trust = file_->current();
        EXPECT_EQ(trust->members().size(), 1U);
        EXPECT_TRUE(file_->trouble().ok());
      }
    });
  for (int round = 0; round < 50; ++round) {
    write_file(path_, round % 2 == 0 ? second_ : first_);
    EXPECT_TRUE(file_->look().ok());
    EXPECT_NE(file_->current()->member_named(round % 2 == 0 ? "bob" : "alice"), nullptr);
  }
  is_over = true;
  for (std::thread& thread : asking) thread.join();
  EXPECT_GE(file_->reloads(), 50U) << "what changes while it is read is read again";
  EXPECT_EQ(file_->failures(), 0U);
}

TEST(TrustFile, ABadFileIsAnErrorAtTheStart) {
  const support::TemporaryDirectory directory;
  EXPECT_EQ(TrustFile::open(directory.path() + "/gone", reading()).status().code(), RIPC_SYSTEM);
  write_file(directory.path() + "/trust", "nonsense\n");
  EXPECT_EQ(TrustFile::open(directory.path() + "/trust", reading()).status().code(), RIPC_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace ripc::internal::security
