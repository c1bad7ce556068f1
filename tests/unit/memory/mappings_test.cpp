// SPDX-License-Identifier: Apache-2.0
#include "memory/mappings.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <memory>

namespace ripc::memory {
namespace {

class Mappings : public testing::Test {
 protected:
  void SetUp() override {
    void* const made = ::mmap(nullptr, 4 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(made, MAP_FAILED);
    memory_ = static_cast<char*>(made);
  }
  void TearDown() override { ::munmap(memory_, 4 * page_); }
  AddressRange pages(std::size_t first, std::size_t count) const {
    return pages_of(memory_ + first * page_, count * page_);
  }

  const std::size_t page_ = page_size();
  char* memory_ = nullptr;
};

TEST_F(Mappings, BytesLieInWholePages) {
  const auto start = reinterpret_cast<std::uintptr_t>(memory_);
  EXPECT_EQ(pages_of(memory_ + 1, 1), (AddressRange{start, start + page_}));
  EXPECT_EQ(pages_of(memory_ + page_ - 1, 2), (AddressRange{start, start + 2 * page_}));
  EXPECT_TRUE(pages_of(memory_, 0).empty());
  EXPECT_TRUE(pages_of(memory_, SIZE_MAX).empty());
}

TEST_F(Mappings, OnlyPrivateAnonymousMemoryThatCanBeWrittenIsPlain) {
  static char of_the_programs_file[1] = {1};
  const void* const on_the_stack = __builtin_frame_address(0);  // a variable may be elsewhere, with AddressSanitizer
  const auto on_the_heap = std::make_unique<char>();
  EXPECT_TRUE(is_plain_memory(pages(0, 4)));
  EXPECT_TRUE(is_plain_memory(pages_of(on_the_heap.get(), 1)));
  EXPECT_FALSE(is_plain_memory(pages_of(of_the_programs_file, 1)));
  EXPECT_FALSE(is_plain_memory(pages_of(on_the_stack, 1)));
  EXPECT_FALSE(is_plain_memory({}));
  ASSERT_EQ(::mprotect(memory_ + page_, page_, PROT_READ), 0);
  EXPECT_FALSE(is_plain_memory(pages(0, 4)));
  EXPECT_TRUE(is_plain_memory(pages(2, 2)));
  ASSERT_EQ(::mprotect(memory_ + page_, page_, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
  EXPECT_TRUE(is_plain_memory(pages(0, 4))) << "of several mappings";
  ASSERT_EQ(::mmap(memory_ + page_, page_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            memory_ + page_);
  EXPECT_FALSE(is_plain_memory(pages(0, 4)));
}

TEST_F(Mappings, TheMappingOfAnAddressIsFound) {
  ASSERT_EQ(::mprotect(memory_ + page_, 2 * page_, PROT_NONE), 0);
  const auto start = reinterpret_cast<std::uintptr_t>(memory_);
  EXPECT_EQ(find_mapping(start + page_ + 5).range, (AddressRange{start + page_, start + 3 * page_}));
  EXPECT_TRUE(find_mapping(0).range.empty());
}

TEST_F(Mappings, PagesAreThereFromTheirFirstUseUntilTheyAreGivenBack) {
  EXPECT_FALSE(is_resident(pages(0, 4)));
  memory_[page_] = 1;
  EXPECT_TRUE(is_resident(pages(1, 1)));
  EXPECT_FALSE(is_resident(pages(1, 2)));
  ASSERT_TRUE(make_resident(pages(0, 4)));
  EXPECT_TRUE(is_resident(pages(0, 4)));
  EXPECT_EQ(memory_[page_], 1);
  ASSERT_EQ(::madvise(memory_ + 3 * page_, page_, MADV_DONTNEED), 0);
  EXPECT_FALSE(is_resident(pages(0, 4)));
  ASSERT_EQ(::mprotect(memory_, page_, PROT_READ), 0);
  EXPECT_FALSE(make_resident(pages(0, 4)));
}

}  // namespace
}  // namespace ripc::memory
