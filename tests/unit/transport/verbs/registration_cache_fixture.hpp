// SPDX-License-Identifier: Apache-2.0
// A cache of registrations without a device: what is registered are the pages that the memory has now, as a device
// does it, so that the bytes that a device would see can be compared with those of the memory.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "base/unique_fd.hpp"
#include "transport/verbs/device/registration_cache.hpp"

namespace ripc::verbs {

inline const std::size_t kPage = memory::page_size();

// A pipe that holds references to pages of the process.
class Pipe {
 public:
  Pipe() {
    std::array<int, 2> ends;
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) std::abort();
    out_ = UniqueFd(ends[0]);
    in_ = UniqueFd(ends[1]);
  }
  int out() const { return out_.get(); }
  int in() const { return in_.get(); }

 private:
  UniqueFd out_, in_;
};

// Holds the pages that lie at an address when it is made. At most 16 pages are held; of more, the first ones.
class HeldPages {
 public:
  HeldPages(const void* data, std::size_t size, std::atomic<int>& alive) : alive_(alive) {
    ++alive_;
    // A device that may write takes pages that are the process's own: not the one of zeros that a read maps.
    (void)memory::make_resident(memory::pages_of(data, size));
    const std::size_t held = std::min(size, 16 * kPage - reinterpret_cast<std::uintptr_t>(data) % kPage);
    const iovec range{const_cast<void*>(data), held};
    size_ = ::vmsplice(pipe_.in(), &range, 1, 0);
  }
  ~HeldPages() { --alive_; }
  HeldPages(const HeldPages&) = delete;
  HeldPages& operator=(const HeldPages&) = delete;

  // What a device would read now, of the first page.
  char byte() const {
    const Pipe copy;
    char value = 0;
    EXPECT_EQ(::tee(pipe_.out(), copy.in(), 1, 0), 1);
    EXPECT_EQ(::read(copy.out(), &value, 1), 1);
    return value;
  }
  ssize_t size() const { return size_; }

 private:
  Pipe pipe_;
  std::atomic<int>& alive_;
  ssize_t size_ = 0;
};
using Held = std::shared_ptr<const HeldPages>;

// Private anonymous memory of some pages, unmapped at the end. `at`: where, unless something is there.
class Memory {
 public:
  explicit Memory(std::size_t pages, char fill = 'a', void* at = nullptr) : size_(pages * kPage) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (at != nullptr ? MAP_FIXED_NOREPLACE : 0);
    void* const made = ::mmap(at, size_, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (made == MAP_FAILED) return;
    data_ = static_cast<char*>(made);
    std::fill_n(data_, size_, fill);
  }
  // Where nobody maps anything who does not ask for the place: what was unmapped there stays so. The system begins at
  // the top, and AddressSanitizer or ThreadSanitizer have memory of their own at one of the places.
  static Memory apart(std::size_t pages, char fill = 'a') {
    for (const std::uintptr_t place : {std::uintptr_t{1} << 45, std::uintptr_t{1} << 38}) {
      Memory memory(pages, fill, reinterpret_cast<void*>(place + next_place_));
      if (memory.data() == nullptr) continue;
      next_place_ += memory.size() + kPage;
      return memory;
    }
    return Memory(pages, fill);
  }
  Memory(Memory&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Memory() { unmap(); }
  void unmap() {
    if (data_ != nullptr) ::munmap(std::exchange(data_, nullptr), size_);
  }
  char* data() const { return data_; }
  char* page(std::size_t index) const { return data_ + index * kPage; }
  std::size_t size() const { return size_; }
  // Somebody else unmaps it.
  void release() { data_ = nullptr; }

 private:
  static inline std::uintptr_t next_place_ = 0;

  char* data_ = nullptr;
  std::size_t size_;
};

class CacheTest : public testing::Test {
 protected:
  using Limits = RegistrationCache::Limits;

  void SetUp() override {
    const Status status = memory::MappingWatch::available();
    if (!status.ok()) GTEST_SKIP() << status.text();
    make_cache({});
  }
  void make_cache(Limits limits) {
    cache_.reset();
    cache_ = std::make_unique<RegistrationCache>(limits);
  }

  Held find(const void* data, std::size_t size, bool exact = false) {
    return std::static_pointer_cast<const HeldPages>(cache_->find(&alive_, data, size, exact));
  }
  // What the registrar does: kept if that is possible.
  Held use(const void* data, std::size_t size, bool exact = false) {
    if (Held found = find(data, size, exact)) return found;
    const RegistrationCache::Making making = cache_->begin(&alive_, data, size);
    Held held = hold(data, size);
    if (making) cache_->commit(making, held);
    return held;
  }
  Held use(const Memory& memory) { return use(memory.data(), memory.size()); }
  Held hold(const void* data, std::size_t size) {
    ++made_;
    return std::make_shared<const HeldPages>(data, size, alive_);
  }
  RegistrationCache::Counters counters() const { return cache_->counters(); }

  std::atomic<int> made_{0}, alive_{0};  // registrations
  std::unique_ptr<RegistrationCache> cache_;
};

}  // namespace ripc::verbs
