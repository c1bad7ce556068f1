// SPDX-License-Identifier: Apache-2.0
// The local resolver among files that it did not write, and locks that their holders do not release.
#include <sys/socket.h>
#include <sys/un.h>

#include <random>

#include "resolver/local/local_resolver.hpp"
#include "resolver/local/service_record.hpp"
#include "resolver_helpers.hpp"

namespace ripc::internal::resolver {
namespace {

constexpr ripc_service_id kTargetService = 1000;

class LocalResolverHostile : public ::testing::Test {
 protected:
  // Every call finds the garbage and works all the same.
  void expect_replaced(const std::string& garbage) {
    test::write_file(record_, garbage);
    EXPECT_EQ(one_.resolve(kTargetService).status().code(), RIPC_NO_SERVICE);
    EXPECT_EQ(names_in(services_), Names{});
    test::write_file(record_, garbage);
    EXPECT_EQ(listed(*one_).size(), 0u);
    EXPECT_EQ(names_in(services_), Names{});
    test::write_file(record_, garbage);
    one_->withdraw(one_.record(kTargetService));
    EXPECT_EQ(one_->sweep(), 1u);
    test::write_file(record_, garbage);
    EXPECT_TRUE(one_.publish(kTargetService, "server").ok());
    EXPECT_TRUE(one_.displaced.empty());
    EXPECT_EQ(*two_.resolve(kTargetService), one_.last);
    one_->withdraw(one_.last);
  }
  // Something that cannot be a record is never followed, waited for or removed.
  void expect_left_alone() {
    const Status resolved = one_.resolve(kTargetService).status();
    EXPECT_EQ(resolved.code(), RIPC_NO_SERVICE);
    EXPECT_TRUE(mentions(resolved, record_)) << resolved.text();
    for (const bool takeover : {false, true}) {
      const Status published = one_.publish(kTargetService, "", takeover);
      EXPECT_EQ(published.code(), RIPC_CORRUPT);
      EXPECT_TRUE(mentions(published, record_) && mentions(published, "Remove it")) << published.text();
    }
    one_->withdraw(one_.record(kTargetService));
    EXPECT_EQ(one_->sweep(), 0u);
    EXPECT_EQ(listed(*one_).size(), 0u);
    EXPECT_EQ(names_in(services_), Names{RuntimeDirectory::file_name(kTargetService).data()});
    EXPECT_TRUE(one_.publish(kTargetService + 1).ok());  // other IDs are not affected
    one_->withdraw(one_.last);
  }

  const test::TemporaryDirectory temporary_;
  const std::string path_ = temporary_ / "run";
  const std::string services_ = path_ + "/services";
  const std::string record_ = services_ + "/" + RuntimeDirectory::file_name(kTargetService).data();
  LocalContext one_{path_}, two_{path_};
};

TEST_F(LocalResolverHostile, AnEmptyFileIsReplaced) { expect_replaced(""); }

TEST_F(LocalResolverHostile, RandomBytesAreReplaced) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20; ++round) {
    std::string bytes(random() % 2000, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    expect_replaced(bytes);
  }
}

TEST_F(LocalResolverHostile, ATornRecordIsReplaced) {
  const std::string whole = *encode_service_record(two_.record(kTargetService));
  expect_replaced(whole.substr(0, whole.size() / 2));
  expect_replaced(whole.substr(whole.size() / 2));
}

TEST_F(LocalResolverHostile, TheRecordOfAnotherServiceIsReplaced) {
  expect_replaced(*encode_service_record(two_.record(kTargetService + 1)));
}

TEST_F(LocalResolverHostile, AFileThatIsTooLargeIsReplacedWithoutReadingItAll) {
  expect_replaced(std::string(kMaxRecordSize + 1, ' '));
  const auto make_huge = [&] {
    const UniqueFd file(::open(record_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_EQ(::ftruncate(file.get(), off_t{1} << 40), 0);
  };
  make_huge();
  EXPECT_EQ(one_.resolve(kTargetService).status().code(), RIPC_NO_SERVICE);
  make_huge();
  EXPECT_TRUE(one_.publish(kTargetService).ok());
}

TEST_F(LocalResolverHostile, AWithdrawnRecordThatCouldNotBeRemovedIsReplaced) {
  ServiceRecord vacant = one_.record(kTargetService);
  vacant.context = 0;
  expect_replaced(*encode_service_record(vacant));
}

TEST_F(LocalResolverHostile, ARecordOfAnotherVersionIsLeftAlone) {
  test::write_file(record_, "{\"format\":3,\"something\":\"new\"}");
  EXPECT_EQ(one_.resolve(kTargetService).status().code(), RIPC_VERSION_MISMATCH);
  EXPECT_EQ(one_.publish(kTargetService, "", true).code(), RIPC_VERSION_MISMATCH);
  EXPECT_EQ(one_->sweep(), 0u);
  EXPECT_EQ(listed(*one_).size(), 0u);
  one_->withdraw(one_.record(kTargetService));
  EXPECT_EQ(test::read_file(record_), "{\"format\":3,\"something\":\"new\"}");
}

TEST_F(LocalResolverHostile, ADirectoryInPlaceOfARecordIsLeftAlone) {
  ASSERT_EQ(::mkdir(record_.c_str(), 0700), 0);
  expect_left_alone();
}

TEST_F(LocalResolverHostile, ALinkInPlaceOfARecordIsNotFollowed) {
  const std::string target = temporary_ / "target";
  const std::string text = *encode_service_record(two_.record(kTargetService));
  test::write_file(target, text);
  ASSERT_EQ(::symlink(target.c_str(), record_.c_str()), 0);
  expect_left_alone();
  EXPECT_EQ(test::read_file(target), text);
}

TEST_F(LocalResolverHostile, APipeInPlaceOfARecordDoesNotBlock) {
  ASSERT_EQ(::mkfifo(record_.c_str(), 0600), 0);
  expect_left_alone();
}

TEST_F(LocalResolverHostile, ASocketInPlaceOfARecordIsLeftAlone) {
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  snprintf(address.sun_path, sizeof address.sun_path, "%s", record_.c_str());
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  expect_left_alone();
}

TEST_F(LocalResolverHostile, GarbageUnderTemporaryNamesIsNoDanger) {
  ASSERT_EQ(::mkdir((services_ + "/.new-directory").c_str(), 0700), 0);
  ASSERT_EQ(::mkfifo((services_ + "/.new-pipe").c_str(), 0600), 0);
  ASSERT_EQ(::symlink("/etc/passwd", (services_ + "/.new-link").c_str()), 0);
  EXPECT_EQ(one_->sweep(), 0u);
  EXPECT_TRUE(one_.publish(kTargetService).ok());
  EXPECT_EQ(*two_.resolve(kTargetService), one_.last);
}

// ---- Locks ---------------------------------------------------------------------------------------------------

// A process that has locked the record and does not continue.
class Locker {
 public:
  explicit Locker(const std::string& path) : fd_(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    EXPECT_EQ(::fcntl(fd_.get(), F_OFD_SETLK, &lock), 0);
  }
  void release() { fd_.reset(); }

 private:
  UniqueFd fd_;
};

TEST_F(LocalResolverHostile, ALockThatIsNotGivenBackIsATimeoutThatSaysWhereToLook) {
  ASSERT_TRUE(one_.publish(kTargetService).ok());
  const ServiceRecord holder = one_.last;
  Locker locker(record_);
  const Status status = two_.publish(kTargetService, "", true);
  EXPECT_EQ(status.code(), RIPC_TIMEOUT);
  EXPECT_TRUE(mentions(status, record_) && mentions(status, "lslocks")) << status.text();
  EXPECT_EQ(*two_.resolve(kTargetService), holder);
  locker.release();
  EXPECT_TRUE(two_.publish(kTargetService, "", true).ok());
}

TEST_F(LocalResolverHostile, ALockDoesNotKeepOthersFromResolvingOrListing) {
  ASSERT_TRUE(one_.publish(kTargetService).ok());
  const Locker locker(record_);
  EXPECT_EQ(*two_->resolve(kTargetService, Deadline::after(0)), one_.last);
  EXPECT_EQ(listed(*two_), std::vector<ServiceRecord>{one_.last});
}

TEST_F(LocalResolverHostile, ADeadHolderWhoseRecordIsLockedIsStillNoService) {
  ASSERT_TRUE(one_.publish(kTargetService).ok());
  one_.die();
  Locker locker(record_);
  EXPECT_EQ(two_->resolve(kTargetService, Deadline::after(0)).status().code(), RIPC_NO_SERVICE);
  EXPECT_EQ(two_->sweep(), 0u);
  EXPECT_EQ(names_in(services_).size(), 1u);
  locker.release();
  EXPECT_EQ(two_->sweep(), 1u);
}

TEST_F(LocalResolverHostile, AWithdrawThatMeetsALockIsDoneByTheNextCall) {
  ASSERT_TRUE(one_.publish(kTargetService).ok());
  const ServiceRecord withdrawn = one_.last;
  Locker locker(record_);
  one_->withdraw(withdrawn);
  EXPECT_EQ(names_in(services_).size(), 1u);
  one_->withdraw(one_.record(kTargetService + 1));  // tries again: still locked
  EXPECT_EQ(names_in(services_).size(), 1u);
  locker.release();
  EXPECT_EQ(one_.resolve(kTargetService).status().code(), RIPC_NO_SERVICE);
  EXPECT_EQ(names_in(services_), Names{});
  EXPECT_TRUE(one_.publish(kTargetService).ok());
}

TEST_F(LocalResolverHostile, AWithdrawThatComesLateDoesNotHitTheNextHolder) {
  ASSERT_TRUE(one_.publish(kTargetService).ok());
  Locker locker(record_);
  one_->withdraw(one_.last);
  locker.release();
  ASSERT_TRUE(two_.publish(kTargetService, "", true).ok());
  EXPECT_EQ(*one_.resolve(kTargetService), two_.last);
}

}  // namespace
}  // namespace ripc::internal::resolver
