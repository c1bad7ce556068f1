// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

namespace support {

// A new directory, mode 0711, which the destructor removes with all its contents.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "ripc-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      ADD_FAILURE() << "no temporary directory: " << std::strerror(errno);
      return;
    }
    path_ = name;
    EXPECT_EQ(::chmod(path_.c_str(), 0711), 0);
  }
  ~TemporaryDirectory() {
    if (path_.empty()) return;
    std::error_code error;
    std::filesystem::remove_all(path_, error);
    EXPECT_FALSE(error) << path_ << ": " << error.message();
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  // Makes a directory in it with exactly these permission bits.
  std::string make(const std::string& name, mode_t mode) const {
    const std::string full = path_ + "/" + name;
    EXPECT_EQ(::mkdir(full.c_str(), 0700), 0);
    EXPECT_EQ(::chmod(full.c_str(), mode), 0);
    return full;
  }

 private:
  std::string path_;
};

}  // namespace support
