// SPDX-License-Identifier: Apache-2.0
// Registrations of memory of the application that are kept for the next use. One is used again only if all its pages
// are still those that were registered (memory/mapping_watch). What cannot be watched is not kept: then the caller
// registers for one use.
//
// Bounded in number and in bytes. What is kept longest without use goes first; what is in use stays, and counts. What
// is dropped while it is in use ends with the use. Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.hpp"
#include "base/unique_fd.hpp"
#include "memory/mapping_watch.hpp"

namespace ripc::verbs {

class RegistrationCache final : private memory::MappingWatch::Listener {
 public:
  // A registration ends with the last of its pointers.
  using Registration = std::shared_ptr<const void>;

  struct Limits {
    std::size_t count = 256;
    std::uint64_t bytes = std::uint64_t{1} << 30;  // of whole pages; 0: nothing is kept
  };
  struct Counters {
    std::uint64_t hits = 0, misses = 0;
    std::uint64_t evictions = 0;      // for want of room
    std::uint64_t invalidations = 0;  // because the memory changed
    std::uint64_t refusals = 0;       // misses that were not kept: the memory cannot be watched, or there is no room
    std::size_t kept = 0;
    std::uint64_t bytes = 0;
  };

  explicit RegistrationCache(Limits limits);
  ~RegistrationCache();
  RegistrationCache(const RegistrationCache&) = delete;
  RegistrationCache& operator=(const RegistrationCache&) = delete;

  // A registration that was kept for `owner` (what it belongs to, and keeps alive) and that holds these bytes; of
  // exactly these if `exact`. Null: none.
  Registration find(const void* owner, const void* data, std::size_t size, bool exact);

  // A registration that is being made: between begin() and commit() or abandon(), exactly one of them.
  struct Making {
    std::size_t slot = 0;
    std::uint64_t number = 0;  // 0: it cannot be kept
    explicit operator bool() const noexcept { return number != 0; }
  };
  // Before the memory is registered: from now on it is watched. It is to be registered for writing, so that a page that
  // is there but not the process's own yet (of zeros, or shared with a child) is exchanged before the device has it,
  // not when somebody writes to it.
  Making begin(const void* owner, const void* data, std::size_t size);
  // It is registered. Kept, if the memory has not changed since begin().
  void commit(const Making& making, const Registration& registration) noexcept;
  void abandon(const Making& making) noexcept;

  // Gives up whatever is not in use. True if there was something.
  bool drop_idle();
  // Readable when the memory of something kept has changed; then call reap(), or its pages stay locked until the next
  // miss. -1: descriptors have run out.
  int changed_fd() const noexcept { return changed_fd_.get(); }
  void reap();

  Counters counters() const;

 private:
  using Range = memory::AddressRange;
  enum class Use : std::uint8_t {
    free,
    making,
    kept,
    dropped,  // the memory has changed; the registration waits for somebody who may end it
  };
  struct Slot {
    Use use = Use::free;
    const void* owner = nullptr;
    Range bytes;
    Range pages;
    std::uint64_t number = 0;    // of the making
    std::uint64_t last_use = 0;  // in units of uses
    Registration registration;
  };
  using Registrations = std::vector<Registration>;

  Range changed(const Range& pages) noexcept override;
  bool start();
  bool is_watched(const Slot& slot) const noexcept { return slot.use == Use::making || slot.use == Use::kept; }
  void drop(Slot& slot, const Range& changed) noexcept;
  void unwatch(const Range& pages) noexcept;
  bool evict_one(Registrations& ended) noexcept;
  Slot* make_room(std::uint64_t bytes, Registrations& ended) noexcept;
  void take_dropped(Registrations& ended) noexcept;
  void clear(Slot& slot) noexcept;

  const Limits limits_;
  std::once_flag started_;
  std::atomic<bool> works_{false};
  UniqueFd changed_fd_;
  std::unique_ptr<memory::MappingWatch> watch_;
  // The rest with the watch's lock, under which nothing is allocated, freed or unmapped.
  std::vector<Slot> slots_;  // its size is constant
  std::uint64_t uses_ = 0;
  std::uint64_t last_number_ = 0;
  Counters counters_;
};

}  // namespace ripc::verbs
