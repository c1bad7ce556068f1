// SPDX-License-Identifier: Apache-2.0
// The state lines of this context's services: written here, readable by every peer. So a sender knows without a system
// call whether the receiver sleeps and whether the service still exists.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/shared_memory.hpp"
#include "transport/shm/layout.hpp"

namespace ripc::internal::shm {

class ServiceStateTable {
 public:
  // One service's line. Frees it on destruction; senders then see that the service ended.
  class Slot {
   public:
    Slot() noexcept = default;
    Slot(Slot&& other) noexcept
        : table_(std::exchange(other.table_, nullptr)), page_(other.page_), index_(other.index_) {}
    Slot& operator=(Slot&&) = delete;
    ~Slot();

    ServiceLine& line() const noexcept;
    std::uint32_t index_in_page() const noexcept { return index_; }
    int page_descriptor() const noexcept;

   private:
    friend class ServiceStateTable;
    ServiceStateTable* table_ = nullptr;
    std::size_t page_ = 0;
    std::uint32_t index_ = 0;
  };

  // Any thread. The table outlives its slots.
  Result<Slot> allocate();

 private:
  struct Page {
    SharedMemory memory;
    std::uint64_t used = 0;  // a bit for each line
  };
  static_assert(kServicesPerStatePage == 64);

  std::mutex mutex_;
  std::vector<std::unique_ptr<Page>> pages_;
};

}  // namespace ripc::internal::shm
