// SPDX-License-Identifier: Apache-2.0
// Keeps a forked child from holding its parent's sockets and file locks open.
//
// A listening socket counts as alive, and a file lock counts as held, while any process has the descriptor. A program
// that forks without exec would therefore keep a dead context "alive" in its child. In the child, an inert placeholder
// takes the place of each descriptor registered here, so that socket and lock end with the parent. The descriptor
// number stays taken, so an object that still owns it can close it without hitting another file.
//
// This registry is the library's only process-wide state. It has to be: fork handlers (pthread_atfork) are per process
// and cannot be removed, and a fork concerns every context of the process at once. It holds descriptor numbers and a
// counter; contexts do not interact through it.
//
// Covered: fork(). Not needed: posix_spawn() and vfork() followed by exec (every descriptor is close-on-exec). Not
// covered: a raw clone() system call, which runs no fork handlers.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/unique_fd.hpp"

namespace ripc::internal {

// The registration of one descriptor; move-only. It does not own the descriptor. Any thread.
class ForkGuard {
 public:
  ForkGuard() noexcept = default;
  // Registers an open descriptor. It must stay open as long as the guard exists: destroy the guard first, or better,
  // use close().
  explicit ForkGuard(int fd);
  ForkGuard(ForkGuard&& other) noexcept : token_(std::exchange(other.token_, 0)) {}
  ForkGuard& operator=(ForkGuard&& other) noexcept {
    if (this != &other) {
      reset();
      token_ = std::exchange(other.token_, 0);
    }
    return *this;
  }
  ~ForkGuard() { reset(); }

  explicit operator bool() const noexcept { return token_ != 0; }

  // Ends the registration; the descriptor stays open.
  void reset() noexcept;

  // Ends the registration and closes the descriptor so that no fork can happen in between.
  void close(UniqueFd& fd) noexcept;

  // Runs `open`, which returns a new descriptor or -1 with errno, and registers the descriptor. No fork can happen in
  // between. errno is what `open` has set. `open` must be short: a fork in another thread waits for it.
  template <typename Open>
  static UniqueFd open(ForkGuard& guard, Open&& open) {
    guard.reset();
    const Pause pause;
    UniqueFd fd(open());
    if (fd) guard.token_ = add_locked(fd.get());
    return fd;
  }

  // For a descriptor that another library owns, and reopens and closes as it likes. Runs `work`, which returns the
  // descriptor that is open afterwards, or -1, and registers it in place of the previous one. No fork can happen
  // meanwhile. `work` must be short, and must not use this class.
  template <typename Work>
  void follow(Work&& work) {
    const Pause pause;
    const int fd = work();
    forget_locked(std::exchange(token_, 0));
    if (fd >= 0) token_ = add_locked(fd);
  }

  // Grows by one with every fork on the way from the first process to this one. So a value saved before a fork differs
  // from what the child sees, while the parent still sees the same value. One atomic load.
  static std::uint64_t generation() noexcept;
  // The same for a process in which generation() or a ForkGuard was used before: one inlined load.
  static std::uint64_t known_generation() noexcept { return generation_.load(std::memory_order_relaxed); }

 private:
  // Keeps forks of other threads waiting while it lives.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
  };
  static std::uint64_t add_locked(int fd);
  static void forget_locked(std::uint64_t token) noexcept;
  static void after_fork_in_child();
  static void install_handlers() noexcept;

  static inline std::atomic<std::uint64_t> generation_{1};

  std::uint64_t token_ = 0;  // 0: none. Never re-used, so a guard copied by fork cannot remove a newer registration
};

}  // namespace ripc::internal
