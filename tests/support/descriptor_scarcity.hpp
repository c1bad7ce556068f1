// SPDX-License-Identifier: Apache-2.0
// A process that has run out of descriptors.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <vector>

namespace support {

// Takes all descriptors but `left`; gives them back on destruction.
class DescriptorScarcity {
 public:
  explicit DescriptorScarcity(std::size_t left) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit values = before_;
    values.rlim_cur = 256;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &values), 0);
    while (take()) continue;
    for (; left > 0 && !taken_.empty(); --left) {
      close(taken_.back());
      taken_.pop_back();
    }
  }
  DescriptorScarcity(const DescriptorScarcity&) = delete;
  DescriptorScarcity& operator=(const DescriptorScarcity&) = delete;
  ~DescriptorScarcity() {
    for (const int fd : taken_) close(fd);
    setrlimit(RLIMIT_NOFILE, &before_);
  }

  // Takes one more, if one is free.
  bool take() {
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) taken_.push_back(fd);
    return fd >= 0;
  }

 private:
  rlimit before_{};
  std::vector<int> taken_;
};

}  // namespace support
