// SPDX-License-Identifier: Apache-2.0
#include "base/status.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <set>
#include <string>

#include "base/status_text.hpp"

namespace ripc::internal {
namespace {

// The first and the last value after RIPC_SYSTEM that the enumeration can hold.
constexpr int kFirstUnknown = RIPC_SYSTEM + 1;
constexpr int kLastRepresentable = 31;

TEST(StatusText, EveryStatusHasItsOwnNameThatStartsWithRipc) {
  std::set<std::string> names;
  for (int code = RIPC_OK; code <= RIPC_SYSTEM; ++code) {
    const std::string name = status_name(static_cast<ripc_status>(code));
    EXPECT_EQ(name.rfind("RIPC_", 0), 0u) << name;
    EXPECT_NE(name, "RIPC_UNKNOWN");
    EXPECT_TRUE(names.insert(name).second) << name << " is used twice";
  }
  EXPECT_STREQ(status_name(RIPC_OK), "RIPC_OK");
  EXPECT_STREQ(status_name(RIPC_AGAIN), "RIPC_AGAIN");
  EXPECT_STREQ(status_name(RIPC_WINDOW_TOO_SMALL), "RIPC_WINDOW_TOO_SMALL");
  EXPECT_STREQ(status_name(RIPC_REVOKED), "RIPC_REVOKED");
  EXPECT_STREQ(status_name(RIPC_SYSTEM), "RIPC_SYSTEM");
}

TEST(StatusText, EveryStatusHasItsOwnSentence) {
  std::set<std::string> texts;
  for (int code = RIPC_OK; code <= RIPC_SYSTEM; ++code) {
    const std::string text = status_text(static_cast<ripc_status>(code));
    ASSERT_FALSE(text.empty());
    EXPECT_EQ(text.back(), '.') << text;
    EXPECT_NE(text.find_first_of(";,"), std::string::npos) << "says only what, not what to do: " << text;
    EXPECT_TRUE(texts.insert(text).second) << "used twice: " << text;
  }
}

TEST(StatusText, UnknownStatusesHaveNames) {
  for (int code = kFirstUnknown; code <= kLastRepresentable; ++code) {
    EXPECT_STREQ(status_name(static_cast<ripc_status>(code)), "RIPC_UNKNOWN");
    EXPECT_GT(std::strlen(status_text(static_cast<ripc_status>(code))), 0u);
  }
}

TEST(Status, DefaultIsOk) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), RIPC_OK);
  EXPECT_TRUE(status == RIPC_OK);
}

TEST(Status, OfACodeHasTheStaticSentence) {
  const Status status = RIPC_AGAIN;
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.text().data(), status_text(RIPC_AGAIN)) << "a code alone needs no copy of the sentence";
}

TEST(Status, OwnTextReplacesTheStaticSentence) {
  const Status status(RIPC_LIMIT, "Ten is the limit; close one.");
  EXPECT_EQ(status.code(), RIPC_LIMIT);
  EXPECT_EQ(status.text(), "Ten is the limit; close one.");
}

TEST(Status, FailureNeverHasAnEmptySentence) {
  EXPECT_FALSE(Status(RIPC_LIMIT, "").text().empty());
  for (int code = RIPC_AGAIN; code <= RIPC_SYSTEM; ++code) {
    EXPECT_FALSE(Status(static_cast<ripc_status>(code)).text().empty());
  }
}

TEST(SystemError, MapsErrnoToTheStatusThatTellsWhatToDo) {
  EXPECT_EQ(system_error(EMFILE, "open").code(), RIPC_NO_DESCRIPTORS);
  EXPECT_EQ(system_error(ENFILE, "open").code(), RIPC_NO_DESCRIPTORS);
  EXPECT_EQ(system_error(ENOMEM, "mmap").code(), RIPC_NO_MEMORY);
  EXPECT_EQ(system_error(ENOSPC, "write").code(), RIPC_NO_MEMORY);
  EXPECT_EQ(system_error(EACCES, "open").code(), RIPC_PERMISSION);
  EXPECT_EQ(system_error(EPERM, "open").code(), RIPC_PERMISSION);
  for (const int error : {EIO, EINVAL, ENOENT, EBADF, 0, -1, 100000}) {
    EXPECT_EQ(system_error(error, "call").code(), RIPC_SYSTEM) << error;
  }
}

TEST(SystemError, NamesTheCallTheMeaningAndTheAdvice) {
  const Status status = system_error(ENOENT, "open(/run/x)", "start the service first");
  const std::string text(status.text());
  EXPECT_EQ(text.rfind("open(/run/x) failed: ", 0), 0u) << text;
  EXPECT_NE(text.find(std::strerror(ENOENT)), std::string::npos) << text;
  const std::string end = "start the service first.";
  ASSERT_GT(text.size(), end.size());
  EXPECT_EQ(text.substr(text.size() - end.size()), end);
}

TEST(SystemError, AdvisesEvenWhenTheCallerDoesNot) {
  EXPECT_NE(system_error(EMFILE, "open").text().find("ulimit -n"), std::string_view::npos);
  for (const int error : {ENOMEM, EPERM, EIO}) {
    EXPECT_NE(system_error(error, "call").text().find("; "), std::string_view::npos);
    EXPECT_EQ(system_error(error, "call").text().back(), '.');
  }
}

TEST(Result, HoldsAValueOrTheStatusThatExplainsWhyThereIsNone) {
  const Result<int> value(7);
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(*value, 7);
  EXPECT_TRUE(value.status().ok());

  const Result<int> code(RIPC_EMPTY);
  EXPECT_FALSE(code.ok());
  EXPECT_EQ(code.status().code(), RIPC_EMPTY);

  const Result<int> status(Status(RIPC_LIMIT, "Full; wait."));
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.status().text(), "Full; wait.");
}

TEST(Result, GivesMoveOnlyValuesAway) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(3));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(**result, 3);
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 3);
}

}  // namespace
}  // namespace ripc::internal
