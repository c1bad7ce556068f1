// SPDX-License-Identifier: Apache-2.0
// Read sections that cost two plain stores, for data that is read on every message and changed rarely.
//
// Each thread has a record with a counter that is odd while the thread is in a section. A writer changes what sections
// read, and runs a barrier in all threads of the process (membarrier). Then it waits for the sections that began
// before, or checks later whether they are over. Where the kernel has no membarrier, each section executes a fence.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace ripc::internal {

class HeldSends;

class ThreadEpoch {
 public:
  // The record of one thread. It is never freed; a later thread reuses it.
  struct alignas(64) Record {
    std::atomic<std::uint64_t> counter{0};
    std::atomic<bool> in_use{true};
    Record* next = nullptr;
    // System calls that the thread has made to wake receivers. Senders use it to count the wakes of a send.
    std::uint64_t wakes = 0;
    // What the thread lets go before it waits.
    std::vector<std::weak_ptr<HeldSends>> held;
  };

  // The calling thread's record.
  static Record& current() noexcept {
    Record* record = current_;
    return record != nullptr ? *record : attach();
  }

  // Whether the thread already has a record; then current() costs two loads.
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

  // Runs a fence in every thread: what they have stored is visible here, and what was changed here is visible to them.
  // Where has_barrier() is false, they need fences of their own.
  static void barrier() noexcept;
  static bool has_barrier() noexcept { return !needs_fence_; }
  // For a forked child: ends the sections of the parent's other threads, which do not exist here, and frees their
  // records. What transports hold for the parent's threads is not the child's to send.
  static void forget_other_threads() noexcept;

  // How often a barrier ran in all threads. Each barrier interrupts the processors that run them.
  static std::uint64_t barriers() noexcept { return barriers_.load(std::memory_order_relaxed); }

  // The sections that had begun when this object was made and are not over yet.
  class Waiting {
   public:
    static Waiting for_all();
    bool over() noexcept;

   private:
    std::vector<std::pair<const Record*, std::uint64_t>> sections_;
  };

 private:
  static Record& attach() noexcept;
  static void detach(void*) noexcept;
  // Read on every message, so it is at a fixed offset from the thread pointer, which avoids a call.
  static constinit thread_local Record* current_ __attribute__((tls_model("initial-exec")));
  static bool needs_fence_;
  static std::atomic<std::uint64_t> barriers_;
};

// Defers the destruction of objects that read sections may still see.
class EpochDomain {
 public:
  ~EpochDomain() { reclaim_all(); }  // no section that reads from the domain may be going on

  // A function that destroys one object. It is made together with the object, so that retiring the object takes no
  // memory.
  using Retirement = std::list<std::function<void()>>;
  static Retirement prepare(std::function<void()> destroy) {
    Retirement retirement;
    retirement.push_back(std::move(destroy));
    return retirement;
  }

  // Any thread. reclaim() runs the function later, when no section that could see the object is left. New sections must
  // not be able to reach the object.
  void retire(Retirement&& retirement) noexcept;

  // Destroys the objects that no section can see any more; true if nothing is left to destroy. Does not wait. Destroys
  // nothing if there is no memory to record who is reading.
  bool reclaim() noexcept;
  // Waits for the sections that are going on, and destroys everything. Takes no memory.
  void reclaim_all() noexcept;

 private:
  static void run(Retirement& retirements) noexcept;

  std::mutex mutex_;
  Retirement retired_;
  Retirement batch_;  // waits for waiting_
  ThreadEpoch::Waiting waiting_;
};

}  // namespace ripc::internal
