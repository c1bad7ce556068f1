// SPDX-License-Identifier: Apache-2.0
// Waiting, in any thread, for something that a mutex guards and that the loop may have to bring about.
#pragma once

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <mutex>

#include "base/clock.hpp"
#include "base/event_loop.hpp"
#include "base/futex.hpp"

namespace ripc::internal {

// Any thread. `lock` is held at the call and at the return. Waits for the deadline or until `done()`, which is called
// with the lock held; true if done. Meanwhile the loop's thread runs the loop (run_until), and any other thread sleeps.
// A thread that makes `done` true notifies `changed`. It also posts to the loop if the waiting thread may be the
// loop's.
template <typename Done>
bool wait_in(EventLoop& loop, std::unique_lock<std::mutex>& lock, std::condition_variable& changed, Deadline deadline,
             Done done) {
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
    // A condition variable cannot represent all of our times: one beyond its range means never.
    const bool is_never = deadline.at() > static_cast<Nanoseconds>(std::numeric_limits<std::int64_t>::max());
    const timespec until = to_timespec(deadline.at());
    while (!done()) {
      if (is_never) {
        changed.wait(lock);
      } else if (pthread_cond_clockwait(changed.native_handle(), lock.mutex()->native_handle(), CLOCK_MONOTONIC,
                                        &until) == ETIMEDOUT) {
        // wait_until() would read the clock to find that out.
        break;
      }
    }
  }
  return done();
}

// Any thread. Sleeps while the word is `seen`. RIPC_OK: the word changed, or may have; RIPC_TIMEOUT; RIPC_INTERRUPTED:
// a signal handler ran in this thread. Meanwhile the loop's thread runs the loop. A thread that changes the word calls
// futex_wake() and loop.wake(); a signal handler may call both.
inline ripc_status wait_for_change(EventLoop& loop, const std::atomic<std::uint32_t>& word, std::uint32_t seen,
                                   Deadline deadline) {
  if (!loop.in_loop_thread()) return futex_wait(word, seen, deadline);
  const std::uint64_t signals = loop.signal_count();
  const bool is_over = loop.run_until(
      [&] { return loop.signal_count() != signals || word.load(std::memory_order_seq_cst) != seen; }, deadline);
  if (loop.signal_count() != signals) return RIPC_INTERRUPTED;
  return is_over ? RIPC_OK : RIPC_TIMEOUT;
}

}  // namespace ripc::internal
