// SPDX-License-Identifier: Apache-2.0
// The monotonic clock, deadlines and a pause for spin loops.
#pragma once

#include <time.h>

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ripc::internal {

using Nanoseconds = std::uint64_t;

inline Nanoseconds now_of(clockid_t clock) noexcept {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<Nanoseconds>(now.tv_sec) * 1'000'000'000u + static_cast<Nanoseconds>(now.tv_nsec);
}

inline Nanoseconds monotonic_now() noexcept { return now_of(CLOCK_MONOTONIC); }

// The same clock as of the kernel's last tick: at most 10 ms behind. Reading it costs an eighth of monotonic_now().
inline Nanoseconds rough_now() noexcept { return now_of(CLOCK_MONOTONIC_COARSE); }

// 0 if `since` is later: another thread may have looked at the clock after this one did.
constexpr Nanoseconds elapsed(Nanoseconds since, Nanoseconds now) noexcept { return now > since ? now - since : 0; }

// Wall clock; used only where times of different processes or hosts must be comparable (incarnations).
inline Nanoseconds realtime_now() noexcept { return now_of(CLOCK_REALTIME); }

constexpr timespec to_timespec(Nanoseconds time) noexcept {
  return {static_cast<time_t>(time / 1'000'000'000), static_cast<long>(time % 1'000'000'000)};
}

// Ends early if a signal handler runs in this thread.
inline void pause_for(Nanoseconds time) noexcept {
  const timespec pause = to_timespec(time);
  (void)nanosleep(&pause, nullptr);
}

// A point in time after which waiting stops. UINT64_MAX nanoseconds from now means never.
class Deadline {
 public:
  explicit Deadline(Nanoseconds at) noexcept : at_(at) {}
  static Deadline after(Nanoseconds timeout) noexcept {
    return after(timeout, timeout == 0 || timeout == UINT64_MAX ? 0 : monotonic_now());
  }
  static Deadline after(Nanoseconds timeout, Nanoseconds now) noexcept {
    return Deadline(timeout > UINT64_MAX - now ? UINT64_MAX : now + timeout);
  }
  static Deadline never() noexcept { return Deadline(UINT64_MAX); }

  bool is_never() const noexcept { return at_ == UINT64_MAX; }
  bool expired() const noexcept { return !is_never() && monotonic_now() >= at_; }
  Nanoseconds at() const noexcept { return at_; }
  Nanoseconds remaining() const noexcept { return is_never() ? UINT64_MAX : remaining(monotonic_now()); }
  Nanoseconds remaining(Nanoseconds now) const noexcept {
    if (is_never()) return UINT64_MAX;
    return now >= at_ ? 0 : at_ - now;
  }
  // For poll() and epoll_wait(): rounded up, -1 for never.
  int remaining_milliseconds() const noexcept { return is_never() ? -1 : remaining_milliseconds(monotonic_now()); }
  int remaining_milliseconds(Nanoseconds now) const noexcept {
    if (is_never()) return -1;
    const Nanoseconds milliseconds = (remaining(now) + 999'999) / 1'000'000;
    return milliseconds > 0x7fffffff ? 0x7fffffff : static_cast<int>(milliseconds);
  }

 private:
  Nanoseconds at_;
};

// Tells the processor that this is a spin loop.
inline void cpu_pause() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace ripc::internal
