// SPDX-License-Identifier: Apache-2.0
#include "base/fork_guard.hpp"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

#include <mutex>
#include <unordered_map>

#include "base/thread_epoch.hpp"

namespace ripc::internal {
namespace {

struct Registry {
  std::mutex mutex;
  std::unordered_map<std::uint64_t, int> descriptors;  // by token
  std::uint64_t next_token = 1;
};

Registry& registry() {
  // Never destroyed, because destructors of other static objects may still close contexts, and a fork may come later.
  static Registry* const instance = new Registry;
  return *instance;
}

void before_fork() { registry().mutex.lock(); }

void after_fork_in_parent() { registry().mutex.unlock(); }

// A descriptor on which every operation but close fails. Makes room for itself if the table is full.
int open_placeholder(int victim) {
  int placeholder = ::open("/", O_PATH | O_CLOEXEC);
  if (placeholder < 0) {
    ::close(victim);
    placeholder = ::open("/", O_PATH | O_CLOEXEC);
  }
  return placeholder;
}

}  // namespace

// Frees no memory: another thread of the parent may have held a lock of the allocator. In the child that lock is then
// held for ever, unless the allocator handles forks. Entries that stay in the table go with their owners.
void ForkGuard::after_fork_in_child() {
  Registry& all = registry();
  generation_.fetch_add(1, std::memory_order_relaxed);
  ThreadEpoch::forget_other_threads();
  if (!all.descriptors.empty()) {
    const int placeholder = open_placeholder(all.descriptors.begin()->second);
    bool placeholder_is_in_place = false;
    for (auto& [token, fd] : all.descriptors) {
      if (fd == placeholder) {
        placeholder_is_in_place = true;
      } else if (fd >= 0 && (placeholder < 0 || ::dup3(placeholder, fd, O_CLOEXEC) < 0)) {
        ::close(std::exchange(fd, -1));
      }
    }
    if (placeholder >= 0 && !placeholder_is_in_place) ::close(placeholder);
  }
  all.mutex.unlock();
}

void ForkGuard::install_handlers() noexcept {
  [[maybe_unused]] static const bool installed = [] {
    registry();
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    return true;
  }();
}

ForkGuard::ForkGuard(int fd) {
  const Pause pause;
  token_ = add_locked(fd);
}

void ForkGuard::reset() noexcept {
  if (token_ == 0) return;
  const std::lock_guard lock(registry().mutex);
  forget_locked(std::exchange(token_, 0));
}

void ForkGuard::close(UniqueFd& fd) noexcept {
  if (token_ == 0) return fd.reset();
  const std::lock_guard lock(registry().mutex);
  forget_locked(std::exchange(token_, 0));
  fd.reset();
}

std::uint64_t ForkGuard::generation() noexcept {
  install_handlers();
  return generation_.load(std::memory_order_relaxed);
}

ForkGuard::Pause::Pause() {
  install_handlers();
  registry().mutex.lock();
}

ForkGuard::Pause::~Pause() {
  const int error = errno;  // the caller is about to check the errno of open()
  registry().mutex.unlock();
  errno = error;
}

std::uint64_t ForkGuard::add_locked(int fd) {
  Registry& all = registry();
  const std::uint64_t token = all.next_token++;
  all.descriptors.emplace(token, fd);
  return token;
}

void ForkGuard::forget_locked(std::uint64_t token) noexcept { registry().descriptors.erase(token); }

}  // namespace ripc::internal
