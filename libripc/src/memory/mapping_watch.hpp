// SPDX-License-Identifier: Apache-2.0
// Tells when memory of this process stops being what it was: unmapped, mapped over, moved, or its pages given back. It
// asks the kernel (userfaultfd(2)), so it does not matter who does it and how.
//
// The kernel lets munmap(), mmap(), mremap(), brk() and madvise() in a watched range return when their event was read.
// Events are read and handled under one lock, which unchanged() is called under too. So who holds the lock and is told
// `same` knows that whatever changed the range before was handled, and that nobody was given the address since.
//
// Who holds the lock must not allocate, free or unmap memory, nor touch memory for the first time: that could wait for
// an event, which nobody else can read meanwhile.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "base/fork_guard.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"
#include "memory/mappings.hpp"

namespace ripc::memory {

class MappingWatch {
 public:
  class Listener {
   public:
    // With the lock held, in the watch's thread or in whoever calls unchanged(). These pages are not what they were any
    // more, or will not be in a moment; they need not be watched any longer. Returns the largest range that holds them
    // and in which the listener wants nothing to be watched.
    virtual AddressRange changed(const AddressRange& pages) noexcept = 0;

   protected:
    ~Listener() = default;
  };

  // `listener` outlives the watch. RIPC_UNSUPPORTED, RIPC_PERMISSION, RIPC_SYSTEM: not on this machine, with what can
  // be done about it. Others: RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY.
  static Result<std::unique_ptr<MappingWatch>> create(Listener& listener);
  // Without the lock. What is still watched is not watched any more.
  ~MappingWatch();
  MappingWatch(const MappingWatch&) = delete;
  MappingWatch& operator=(const MappingWatch&) = delete;

  // Any thread. Whether create() would work here; if not, why.
  static Status available();

  std::mutex& mutex() noexcept { return mutex_; }

  // ---- With the lock held, and whole pages ----

  // False: this memory cannot be watched: not mapped, of a file, or watched by somebody else.
  bool add(const AddressRange& pages) noexcept;
  // Pages that are not watched, or not mapped, do not matter.
  void remove(const AddressRange& pages) noexcept;

  enum class State {
    same,     // since they were added, all the pages have been there and the same
    changed,  // some are not there
    unknown,  // something is just being unmapped, not necessarily this
  };
  // Of pages that were added when all were there. What happened to the watched ranges was told to the listener before
  // this returns: look at what it said before believing `same`.
  State unchanged(const AddressRange& pages) noexcept;

 private:
  MappingWatch(Listener& listener, UniqueFd fd, ForkGuard guard) noexcept;
  Status start();
  void run() noexcept;
  void handle_events() noexcept;
  void handle_fault(std::uintptr_t page) noexcept;
  bool is_changing() const noexcept;

  Listener& listener_;
  std::mutex mutex_;
  ForkGuard guard_;
  UniqueFd fd_;
  UniqueFd stop_;
  void* probe_ = nullptr;  // a page of our own, watched and there
  std::thread thread_;
};

}  // namespace ripc::memory
