// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/service_state.hpp"

#include <bit>
#include <utility>

namespace ripc::internal::shm {

Result<ServiceStateTable::Slot> ServiceStateTable::allocate() {
  const std::lock_guard lock(mutex_);
  std::size_t page = 0;
  while (page < pages_.size() && pages_[page]->used == UINT64_MAX) ++page;
  if (page == pages_.size()) {
    Result<SharedMemory> memory = create_shared_memory("ripc-state", kStatePageSize, PeerAccess::read_only);
    if (!memory.ok()) return memory.status();
    pages_.push_back(std::make_unique<Page>());
    pages_.back()->memory = std::move(*memory);
  }
  Slot slot;
  slot.table_ = this;
  slot.page_ = page;
  slot.index_ = static_cast<std::uint32_t>(std::countr_one(pages_[page]->used));
  pages_[page]->used |= std::uint64_t{1} << slot.index_;
  return slot;
}

ServiceLine& ServiceStateTable::Slot::line() const noexcept {
  const std::lock_guard lock(table_->mutex_);
  return reinterpret_cast<ServiceLine*>(table_->pages_[page_]->memory.mapping.data())[index_];
}

int ServiceStateTable::Slot::page_descriptor() const noexcept {
  const std::lock_guard lock(table_->mutex_);
  return table_->pages_[page_]->memory.fd.get();
}

ServiceStateTable::Slot::~Slot() {
  if (table_ == nullptr) return;
  line().registration.fetch_add(1, std::memory_order_seq_cst);
  const std::lock_guard lock(table_->mutex_);
  table_->pages_[page_]->used &= ~(std::uint64_t{1} << index_);
}

}  // namespace ripc::internal::shm
