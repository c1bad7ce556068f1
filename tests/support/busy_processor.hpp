// SPDX-License-Identifier: Apache-2.0
// A processor that two threads compete for: the thread that makes the object, and one that computes.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <cstddef>
#include <thread>

namespace support {

// While the object lives, this thread and those that it starts stay on one processor.
class BusyProcessor {
 public:
  BusyProcessor() {
    EXPECT_EQ(sched_getaffinity(0, sizeof(before_), &before_), 0);
    const int processor = sched_getcpu();
    EXPECT_GE(processor, 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(processor), &one);
    EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    neighbour_ = std::jthread([](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
      }
    });
  }
  ~BusyProcessor() { EXPECT_EQ(sched_setaffinity(0, sizeof(before_), &before_), 0); }
  BusyProcessor(const BusyProcessor&) = delete;
  BusyProcessor& operator=(const BusyProcessor&) = delete;

 private:
  cpu_set_t before_;
  std::jthread neighbour_;
};

}  // namespace support
