// SPDX-License-Identifier: Apache-2.0
#include "base/thread_epoch.hpp"

#include <cxxabi.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <new>
#include <thread>

#include "base/spin_wait.hpp"

// The compiler's name of this library or program.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): the compiler chose it
extern "C" [[gnu::visibility("hidden")]] void* __dso_handle;

namespace ripc::internal {

namespace {

std::atomic<ThreadEpoch::Record*> first_record{nullptr};

bool register_barrier() noexcept {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

ThreadEpoch::Record* free_record() noexcept {
  for (auto* record = first_record.load(std::memory_order_acquire); record != nullptr; record = record->next) {
    bool free = false;
    if (record->in_use.compare_exchange_strong(free, true, std::memory_order_acq_rel)) return record;
  }
  return nullptr;
}

ThreadEpoch::Record& take_record() noexcept {
  for (;; std::this_thread::yield()) {
    if (auto* record = free_record()) return *record;
    // This happens once per thread, in the middle of whatever it calls first. If 64 bytes are not available, it waits
    // for them, or for the record of a thread that ends.
    auto* record = new (std::nothrow) ThreadEpoch::Record;
    if (record == nullptr) continue;
    record->next = first_record.load(std::memory_order_relaxed);
    while (!first_record.compare_exchange_weak(record->next, record, std::memory_order_acq_rel)) {
    }
    return *record;
  }
}

// Waits until the section that the record's thread may be in is over.
void await(const ThreadEpoch::Record& record) noexcept {
  const std::uint64_t seen = record.counter.load(std::memory_order_acquire);
  if ((seen & 1) == 0) return;
  for (unsigned round = 0; record.counter.load(std::memory_order_acquire) == seen; ++round) spin_wait(round);
}

}  // namespace

constinit thread_local ThreadEpoch::Record* ThreadEpoch::current_ = nullptr;
bool ThreadEpoch::needs_fence_ = !register_barrier();
std::atomic<std::uint64_t> ThreadEpoch::barriers_{0};

// Each record is given back when the thread ends. Unlike a thread_local object, this also holds for a record that a
// later destructor of the thread takes.
ThreadEpoch::Record& ThreadEpoch::attach() noexcept {
  (void)abi::__cxa_thread_atexit(&detach, nullptr, &__dso_handle);
  current_ = &take_record();
  return *current_;
}

void ThreadEpoch::detach(void*) noexcept {
  current_->held.clear();
  current_->in_use.store(false, std::memory_order_release);
  current_ = nullptr;
}

void ThreadEpoch::forget_other_threads() noexcept {
  for (auto* record = first_record.load(std::memory_order_relaxed); record != nullptr; record = record->next) {
    // Frees no memory, and does not look at what its thread may just have been changing.
    std::construct_at(&record->held);
    if (record == current_) continue;
    record->counter.store((record->counter.load(std::memory_order_relaxed) + 1) & ~std::uint64_t{1},
                          std::memory_order_relaxed);
    record->in_use.store(false, std::memory_order_relaxed);
  }
}

void ThreadEpoch::barrier() noexcept {
  barriers_.fetch_add(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!needs_fence_) syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

void ThreadEpoch::synchronize(const Record& record) noexcept {
  barrier();
  await(record);
}

void ThreadEpoch::synchronize_all() noexcept {
  barrier();
  for (const auto* record = first_record.load(std::memory_order_acquire); record != nullptr; record = record->next)
    await(*record);
}

ThreadEpoch::Waiting ThreadEpoch::Waiting::for_all() {
  barrier();
  Waiting waiting;
  for (const auto* record = first_record.load(std::memory_order_acquire); record != nullptr; record = record->next) {
    const std::uint64_t counter = record->counter.load(std::memory_order_acquire);
    if ((counter & 1) != 0) waiting.sections_.emplace_back(record, counter);
  }
  return waiting;
}

bool ThreadEpoch::Waiting::over() noexcept {
  std::erase_if(sections_, [](const auto& section) {
    return section.first->counter.load(std::memory_order_acquire) != section.second;
  });
  return sections_.empty();
}

// ---- EpochDomain ---------------------------------------------------------------------------------------------

void EpochDomain::retire(Retirement&& retirement) noexcept {
  const std::lock_guard lock(mutex_);
  retired_.splice(retired_.end(), retirement);
}

void EpochDomain::run(Retirement& retirements) noexcept {
  for (auto& destroy : retirements) destroy();
}

bool EpochDomain::reclaim() noexcept {
  Retirement ready;
  bool done = false;
  {
    const std::lock_guard lock(mutex_);
    if (batch_.empty() && !retired_.empty()) {
      try {
        waiting_ = ThreadEpoch::Waiting::for_all();
      } catch (const std::bad_alloc&) {
        return false;
      }
      batch_.swap(retired_);
    }
    if (!batch_.empty() && waiting_.over()) ready.swap(batch_);
    done = batch_.empty() && retired_.empty();
  }
  run(ready);
  return done;
}

void EpochDomain::reclaim_all() noexcept {
  for (;;) {
    Retirement ready;
    {
      const std::lock_guard lock(mutex_);
      ready.splice(ready.end(), batch_);
      ready.splice(ready.end(), retired_);
    }
    if (ready.empty()) return;
    ThreadEpoch::synchronize_all();
    run(ready);
  }
}

}  // namespace ripc::internal
