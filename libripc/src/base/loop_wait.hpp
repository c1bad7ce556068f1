// SPDX-License-Identifier: Apache-2.0
// Waiting, in any thread, for something that a mutex guards and that the loop may have to bring about.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/clock.hpp"
#include "base/event_loop.hpp"

namespace ripc {

// Any thread; `lock` is held, when it is called and when it returns. Waits until `done()`, which is called with the
// lock held, or the deadline; true if done. The loop's thread runs the loop meanwhile (run_until), any other sleeps:
// whoever makes `done` true in another thread notifies `changed`, and posts to the loop if its thread may be the one
// that waits.
template <typename Done>
bool wait_in(EventLoop& loop, std::unique_lock<std::mutex>& lock, std::condition_variable& changed, Deadline deadline,
             Done done) {
  // Of a condition variable, whose arithmetic ends before ours.
  constexpr Nanoseconds kLongestWait = 3'600'000'000'000;
  if (loop.in_loop_thread()) {
    std::mutex& mutex = *lock.mutex();
    lock.unlock();
    (void)loop.run_until(
        [&] {
          const std::lock_guard look(mutex);
          return done();
        },
        deadline);
    lock.lock();
  } else {
    while (!done() && !deadline.expired())
      changed.wait_for(lock, std::chrono::nanoseconds(std::min(deadline.remaining(), kLongestWait)));
  }
  return done();
}

}  // namespace ripc
