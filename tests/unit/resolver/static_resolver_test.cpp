// SPDX-License-Identifier: Apache-2.0
#include "resolver/static/static_resolver.hpp"

#include <sys/time.h>

#include <atomic>
#include <random>
#include <thread>

#include "resolver_helpers.hpp"

namespace ripc::internal::resolver {
namespace {

using spi::Address;

using Addresses = std::vector<Address>;

constexpr ripc_service_id kNamedHere = ripc_service_id{1} << 63;

// A name's ID here is 2^63 plus its length; "bad..." is no name.
Result<ripc_service_id> hash_name(std::string_view name) {
  if (name.empty() || name.starts_with("bad")) return Status(RIPC_INVALID_ARGUMENT, "a name must be better.");
  return kNamedHere + name.size();
}

// A group's ID here is 3 * 2^61 plus the length of its name.
Result<ripc_service_id> hash_group(std::string_view name) {
  if (name.empty() || name.starts_with("bad")) return Status(RIPC_INVALID_ARGUMENT, "a name must be better.");
  return (ripc_service_id{3} << 61) + name.size();
}

Status check_address(const spi::Address& address) {
  return address.transport == "bad" ? Status(RIPC_INVALID_ARGUMENT, "write another.") : Status();
}

Result<std::vector<ServiceRecord>> parse(std::string_view text) {
  return parse_static_file(text, "/etc/known", hash_name, hash_group, check_address);
}

// The single record of a text.
ServiceRecord record_of(std::string_view text) {
  const Result<std::vector<ServiceRecord>> records = parse(text);
  EXPECT_TRUE(records.ok()) << records.status().text();
  EXPECT_TRUE(records.ok() && records->size() == 1) << text;
  return records.ok() && records->size() == 1 ? records->front() : ServiceRecord();
}

void expect_fault(std::string_view text, std::string_view place, std::string_view fault) {
  const Status status = parse(text).status();
  EXPECT_EQ(status.code(), RIPC_INVALID_ARGUMENT) << text;
  EXPECT_TRUE(mentions(status, "/etc/known, line ") && mentions(status, place) && mentions(status, fault))
      << text << "\n"
      << status.text();
}

// ---- The text ------------------------------------------------------------------------------------------------

TEST(StaticFile, ALineIsANameAndItsAddressesInOrder) {
  const ServiceRecord record = record_of("server socket:10.0.0.7:7000 \t shm:/run/ripc#1\n");
  EXPECT_EQ(record.id, kNamedHere + 6);
  EXPECT_EQ(record.name, "server");
  EXPECT_EQ(record.addresses, (Addresses{{"socket", "10.0.0.7:7000"}, {"shm", "/run/ripc#1"}}));
  EXPECT_EQ(record.incarnation, 0u);
  EXPECT_EQ(record.context, 0u);
  EXPECT_EQ(record.pid, 0u);
}

TEST(StaticFile, AnIdIsDecimalOrHexadecimal) {
  EXPECT_EQ(record_of("1000 a:b").id, 1000u);
  EXPECT_EQ(record_of("0x1F a:b").id, 0x1fu);
  EXPECT_EQ(record_of("0Xff a:b").id, 0xffu);
  EXPECT_EQ(record_of("18446744073709551615 a:b").id, UINT64_MAX);
  EXPECT_EQ(record_of("0xffffffffffffffff a:b").id, UINT64_MAX);
  EXPECT_EQ(record_of("1000 a:b").name, "");
}

TEST(StaticFile, ANameInQuotationMarksMayHaveSpacesOrStartWithADigit) {
  EXPECT_EQ(record_of("\"my own # server\" a:b").name, "my own # server");
  EXPECT_EQ(record_of("\"1000\" a:b").name, "1000");
  EXPECT_EQ(record_of("\"1000\" a:b").id, kNamedHere + 4);
}

TEST(StaticFile, CommentsAndBlankLinesAreSkipped) {
  const Result<std::vector<ServiceRecord>> records =
      parse("# first\n\n   \t\n  # second\nab a:b # third\nabc a:b#c d:e #\n#last");
  ASSERT_TRUE(records.ok()) << records.status().text();
  ASSERT_EQ(records->size(), 2u);
  EXPECT_EQ((*records)[0].addresses, (Addresses{{"a", "b"}}));
  EXPECT_EQ((*records)[1].addresses, (Addresses{{"a", "b#c"}, {"d", "e"}}));
}

TEST(StaticFile, LinesMayEndInAnyWay) {
  EXPECT_EQ(parse("a a:b\r\nbb a:b\r\n")->size(), 2u);
  EXPECT_EQ(parse("a a:b\nbb a:b")->size(), 2u);
  EXPECT_EQ(parse("a a:b\r\n")->front().addresses, (Addresses{{"a", "b"}}));
}

TEST(StaticFile, AnEmptyFileHasNoServices) {
  EXPECT_EQ(parse("")->size(), 0u);
  EXPECT_EQ(parse("\n")->size(), 0u);
}

TEST(StaticFile, MistakesNameFileAndLine) {
  expect_fault("server\n", "line 1:", "no address");
  expect_fault("\n\nserver # socket:x\n", "line 3:", "no address");
  expect_fault("server socket\n", "line 1:", "'socket' is not an address");
  expect_fault("server :x\n", "line 1:", "not an address");
  expect_fault("server socket: x:y\n", "line 1:", "'socket:' is not an address");
  expect_fault("a a:b\n0 a:b\n", "line 2:", "'0' is not a service ID");
  expect_fault("0x a:b\n", "line 1:", "not a service ID");
  expect_fault("12ab a:b\n", "line 1:", "quotation marks");
  expect_fault("18446744073709551616 a:b\n", "line 1:", "not a service ID");
  expect_fault("bad a:b\n", "line 1:", "a name must be better.");
  expect_fault("\"\" a:b\n", "line 1:", "a name must be better.");
  expect_fault("\"abc a:b\n", "line 1:", "quotation marks");
  expect_fault("\"abc\"a:b\n", "line 1:", "quotation marks");
  expect_fault("a a:b\n# x\nb c:d\n", "line 3:", "already in line 1");
  expect_fault(std::string_view("a a:b\n\0\n", 8), "line 2:", "zero byte");
}

TEST(StaticFile, AMistakeIsShownWithoutBytesThatHarmATerminal) {
  const std::string text = "a \x1b[2J" + std::string(300, 'x') + "\xff\n";
  const Status status = parse(text).status();
  EXPECT_EQ(status.code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(status.text().find('\x1b'), std::string::npos);
  EXPECT_LT(status.text().size(), 250u);
}

TEST(StaticFile, TooManyAddressesAreRefused) {
  std::string text = "server";
  for (std::size_t i = 0; i < spi::kMaxAddresses; ++i) text += " a:b";
  EXPECT_EQ(record_of(text).addresses.size(), spi::kMaxAddresses);
  expect_fault(text + " a:b", "line 1:", "more than 64");
}

TEST(StaticFile, AnAddressThatItsTransportCannotReadIsRefused) {
  expect_fault("one a:b\ntwo a:b bad:b", "line 2:", "'bad:b' is not an address: write another.");
}

TEST(StaticFile, AnyBytesAreUnderstoodOrRefused) {
  std::mt19937_64 random(1);
  const std::string_view alphabet("ab1 \t\n\r#\":x0\0\xff", 14);
  for (int round = 0; round < 5000; ++round) {
    std::string text(random() % 60, '\0');
    for (char& byte : text) byte = alphabet[random() % alphabet.size()];
    const Result<std::vector<ServiceRecord>> records = parse(text);
    if (!records.ok()) {
      EXPECT_EQ(records.status().code(), RIPC_INVALID_ARGUMENT);
      continue;
    }
    for (const ServiceRecord& record : *records) {
      EXPECT_NE(record.id, 0u);
      EXPECT_FALSE(record.addresses.empty());
    }
  }
}

// ---- The resolver --------------------------------------------------------------------------------------------

class StaticResolverTest : public ::testing::Test {
 protected:
  Result<ServiceRecord> resolve(ripc_service_id id) { return resolver_.resolve(id, Deadline::after(0)); }
  std::string locator(ripc_service_id id) {
    const Result<ServiceRecord> record = resolve(id);
    EXPECT_TRUE(record.ok()) << record.status().text();
    return record.ok() ? record->addresses.front().locator : "";
  }
  // Makes the file look as if written long ago, so that its time stamp can be trusted.
  void settle(int seconds_ago = 3600) const {
    timeval now{};
    ::gettimeofday(&now, nullptr);
    const timeval times[2] = {{now.tv_sec - seconds_ago, 0}, {now.tv_sec - seconds_ago, 0}};
    ASSERT_EQ(::utimes(file_.c_str(), times), 0);
  }

  const test::TemporaryDirectory temporary_;
  const std::string file_ = temporary_ / "known";
  StaticResolver resolver_{file_, hash_name, hash_group, check_address, test::as_written};
};

TEST_F(StaticResolverTest, AServiceInTheFileIsFoundByIdOrNamesId) {
  test::write_file(file_, "1000 socket:one\nserver socket:two\n");
  EXPECT_EQ(locator(1000), "one");
  EXPECT_EQ(locator(kNamedHere + 6), "two");
  EXPECT_EQ(resolve(kNamedHere + 6)->name, "server");
}

TEST_F(StaticResolverTest, AnUnknownIdIsNoServiceAndNamesTheFile) {
  test::write_file(file_, "1000 socket:one\n");
  const Status status = resolve(1001).status();
  EXPECT_EQ(status.code(), RIPC_NO_SERVICE);
  EXPECT_TRUE(mentions(status, file_)) << status.text();
}

TEST_F(StaticResolverTest, EveryEditIsSeenByTheNextResolve) {
  for (int round = 0; round < 50; ++round) {  // same size, often the same time stamp
    const std::string locator_text = std::to_string(10 + round);
    test::write_file(file_, "1000 socket:" + locator_text + "\n");
    EXPECT_EQ(locator(1000), locator_text);
  }
}

TEST_F(StaticResolverTest, AFileThatReplacesTheOldOneIsSeen) {
  test::write_file(file_, "1000 socket:one\n");
  settle();
  EXPECT_EQ(locator(1000), "one");
  test::write_file(file_ + ".new", "1000 socket:two\n");
  ASSERT_EQ(::rename((file_ + ".new").c_str(), file_.c_str()), 0);
  settle();  // even with the time stamp of the old one
  EXPECT_EQ(locator(1000), "two");
}

TEST_F(StaticResolverTest, AnEditIsSeenEvenIfItsTimeStampGoesBack) {
  test::write_file(file_, "1000 socket:one\n");
  settle(3600);
  EXPECT_EQ(locator(1000), "one");
  test::write_file(file_, "1000 socket:two\n");
  settle(7200);
  EXPECT_EQ(locator(1000), "two");
}

TEST_F(StaticResolverTest, AMissingFileIsAnErrorUntilItIsThere) {
  const Status status = resolve(1000).status();
  EXPECT_EQ(status.code(), RIPC_SYSTEM);
  EXPECT_TRUE(mentions(status, file_) && mentions(status, "RIPC_RESOLVER_FILE")) << status.text();
  EXPECT_EQ(resolver_.list([](const ServiceRecord&) {}).code(), RIPC_SYSTEM);
  test::write_file(file_, "1000 socket:one\n");
  EXPECT_EQ(locator(1000), "one");
  ASSERT_EQ(::unlink(file_.c_str()), 0);
  EXPECT_EQ(resolve(1000).status().code(), RIPC_SYSTEM);
}

TEST_F(StaticResolverTest, AMistakeIsAnErrorUntilItIsCorrected) {
  test::write_file(file_, "1000 socket:one\n");
  settle();
  EXPECT_EQ(locator(1000), "one");
  test::write_file(file_, "1000 socket:one\noops\n");
  settle();
  for (int round = 0; round < 2; ++round) {
    const Status status = resolve(1000).status();
    EXPECT_EQ(status.code(), RIPC_INVALID_ARGUMENT);
    EXPECT_TRUE(mentions(status, file_ + ", line 2:")) << status.text();
  }
  test::write_file(file_, "1000 socket:two\n");
  EXPECT_EQ(locator(1000), "two");
}

TEST_F(StaticResolverTest, SomethingElseThanAPlainFileIsRefusedWithoutWaiting) {
  ASSERT_EQ(::mkdir(file_.c_str(), 0700), 0);
  EXPECT_EQ(resolve(1000).status().code(), RIPC_INVALID_ARGUMENT);
  ASSERT_EQ(::rmdir(file_.c_str()), 0);
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  EXPECT_EQ(resolve(1000).status().code(), RIPC_INVALID_ARGUMENT);
}

TEST_F(StaticResolverTest, AFileThatIsTooLargeIsALimit) {
  const UniqueFd file(::open(file_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(kMaxStaticFileSize + 1)), 0);
  EXPECT_EQ(resolve(1000).status().code(), RIPC_LIMIT);
}

TEST_F(StaticResolverTest, AFileThatMayNotBeReadIsAPermissionError) {
  SKIP_UNLESS_ROOT("becomes another user");
  test::write_file(file_, "1000 socket:one\n");
  ASSERT_EQ(::chmod(file_.c_str(), 0600), 0);
  EXPECT_EQ(test::run_in_child([&] {
              CHILD_CHECK(test::become_nobody());
              return resolve(1000).status() == RIPC_PERMISSION ? 0 : 1;
            }),
            0);
}

TEST_F(StaticResolverTest, WithoutDescriptorsItSaysSo) {
  test::write_file(file_, "1000 socket:one\n");
  EXPECT_EQ(test::run_in_child([&] {
              test::fill_descriptor_table();
              return resolve(1000).status() == RIPC_NO_DESCRIPTORS ? 0 : 1;
            }),
            0);
}

TEST_F(StaticResolverTest, ListVisitsEveryServiceInTheOrderOfTheFile) {
  test::write_file(file_, "3 a:b\n1 a:b\nserver a:b\n");
  std::vector<ripc_service_id> ids;
  EXPECT_TRUE(resolver_.list([&](const ServiceRecord& record) { ids.push_back(record.id); }).ok());
  EXPECT_EQ(ids, (std::vector<ripc_service_id>{3, 1, kNamedHere + 6}));
}

TEST_F(StaticResolverTest, PublishWithdrawAndInvalidateDoNothing) {
  test::write_file(file_, "1000 socket:one\n");
  ServiceRecord record;
  record.id = 1000;
  record.name = "other";
  std::vector<ServiceRecord> displaced;
  EXPECT_TRUE(resolver_.publish(record, true, &displaced).ok());
  EXPECT_TRUE(displaced.empty());
  EXPECT_EQ(record.incarnation, 0u);
  resolver_.withdraw(record);
  resolver_.invalidate(record);
  EXPECT_EQ(locator(1000), "one");
  EXPECT_EQ(test::read_file(file_), "1000 socket:one\n");
}

TEST_F(StaticResolverTest, ThreadsMayResolveWhileTheFileIsReplaced) {
  test::write_file(file_, "1000 socket:one\n");
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        const std::string found = locator(1000);
        EXPECT_TRUE(found == "one" || found == "two") << found;
      }
    });
  }
  for (int round = 0; round < 200; ++round) {
    test::write_file(file_ + ".new", round % 2 == 0 ? "1000 socket:two\n" : "1000 socket:one\n");
    EXPECT_EQ(::rename((file_ + ".new").c_str(), file_.c_str()), 0);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace ripc::internal::resolver
