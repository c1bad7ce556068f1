// SPDX-License-Identifier: Apache-2.0
// Read sections that cost two plain stores, for data that is read on every message and changed rarely.
//
// Each thread has a record with a counter that is odd while the thread is in a section. A writer changes
// what sections read, and runs a barrier in all threads of the process (membarrier). Then it waits, or looks again
// later, until the sections that had begun before are over. Where the kernel has no membarrier, each section executes a
// fence.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <utility>
#include <vector>

namespace ripc::internal {

class ThreadEpoch {
 public:
  // One thread's. Never freed, used again by a later thread.
  struct alignas(64) Record {
    std::atomic<std::uint64_t> counter{0};
    std::atomic<bool> in_use{true};
    Record* next = nullptr;
    // System calls that the thread has made to wake receivers: senders tell from it what a send took.
    std::uint64_t wakes = 0;
  };

  // The calling thread's record.
  static Record& current() noexcept {
    Record* record = current_;
    return record != nullptr ? *record : attach();
  }

  // Whether it has one already: current() is then two loads.
  static bool has_current() noexcept { return current_ != nullptr; }

  // A read section; may nest.
  class Section {
   public:
    explicit Section(Record& record) noexcept
        : record_(record), before_(record.counter.load(std::memory_order_relaxed)) {
      record_.counter.store(before_ | 1, std::memory_order_relaxed);
      if (needs_fence_) [[unlikely]] {
        std::atomic_thread_fence(std::memory_order_seq_cst);
      } else {
        std::atomic_signal_fence(std::memory_order_seq_cst);
      }
    }
    ~Section() {
      if ((before_ & 1) == 0) [[likely]]  // else another section of the thread goes on
        record_.counter.store(before_ + 2, std::memory_order_release);
    }
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;

   private:
    Record& record_;
    std::uint64_t before_;
  };

  // Waits until the record's thread is in no section that began before the call.
  static void synchronize(const Record& record) noexcept;
  // The same for all threads.
  static void synchronize_all() noexcept;

  // Makes sure that what every thread has stored is visible here, and what was changed here is visible to them: a fence
  // in each. Needs one of their own where has_barrier() is false.
  static void barrier() noexcept;
  static bool has_barrier() noexcept { return !needs_fence_; }

  // How often a barrier ran in all threads: each interrupts the processors that run them.
  static std::uint64_t barriers() noexcept { return barriers_.load(std::memory_order_relaxed); }

  // Sections that had begun when it was made, and are not over yet.
  class Waiting {
   public:
    static Waiting for_all();
    bool over() noexcept;

   private:
    std::vector<std::pair<const Record*, std::uint64_t>> sections_;
  };

 private:
  static Record& attach() noexcept;
  // Reached on every message: a fixed offset from the thread pointer instead of a call.
  static constinit thread_local Record* current_ __attribute__((tls_model("initial-exec")));
  static bool needs_fence_;
  static std::atomic<std::uint64_t> barriers_;
};

// Deferred destruction of what read sections may still see.
class EpochDomain {
 public:
  ~EpochDomain() { reclaim_all(); }  // no section that reads from the domain may be going on

  // What destroys one object. Made together with the object, so that retiring it later takes no memory.
  using Retirement = std::list<std::function<void()>>;
  static Retirement prepare(std::function<void()> destroy) {
    Retirement retirement;
    retirement.push_back(std::move(destroy));
    return retirement;
  }

  // Any thread. Runs it later, from reclaim(), when no section that could see the object is left. The object must be
  // out of reach for new sections.
  void retire(Retirement&& retirement) noexcept;
  void retire(std::function<void()> destroy) { retire(prepare(std::move(destroy))); }

  // Destroys what no one sees any more; true if nothing is left to destroy. Does not wait. Without the memory to know
  // who is reading, nothing is destroyed.
  bool reclaim() noexcept;
  // Waits for the sections that are going on. Takes no memory.
  void reclaim_all() noexcept;

 private:
  static void run(Retirement& retirements) noexcept;

  std::mutex mutex_;
  Retirement retired_;
  Retirement batch_;  // waits for waiting_
  ThreadEpoch::Waiting waiting_;
};

}  // namespace ripc::internal
