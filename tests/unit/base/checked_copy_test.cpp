// SPDX-License-Identifier: Apache-2.0
#include "base/checked_copy.hpp"

#include <errno.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "process_helpers.hpp"
#include "support/forbidden_calls.hpp"

namespace ripc::internal {
namespace {

constexpr std::size_t kSize = 16384;
constexpr auto kFile = {SYS_pwrite64, SYS_pread64};
constexpr auto kProcess = {SYS_process_vm_readv, SYS_process_vm_writev};

// kSize bytes of the program's memory, with an inaccessible page after them.
class Foreign {
 public:
  Foreign() : page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))) {
    void* const base = ::mmap(nullptr, kSize + page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(base, MAP_FAILED);
    bytes_ = static_cast<std::byte*>(base);
    EXPECT_EQ(::mprotect(end(), page_, PROT_NONE), 0);
    for (std::size_t i = 0; i < kSize; ++i) bytes_[i] = static_cast<std::byte>(i % 251);
  }
  ~Foreign() { ::munmap(bytes_, kSize + page_); }
  Foreign(const Foreign&) = delete;
  Foreign& operator=(const Foreign&) = delete;
  std::byte* data() const { return bytes_; }
  std::byte* end() const { return bytes_ + kSize; }

 private:
  const std::size_t page_;
  std::byte* bytes_ = nullptr;
};

// Copies in both directions, first the whole range, then ranges of which only a part is accessible.
bool copies(const CheckedCopy& copy, std::byte* own) {
  const Foreign source, target;
  std::fill_n(target.data(), kSize, std::byte{0});
  std::fill_n(own, kSize, std::byte{0});
  const auto all = [&] {
    return copy.read(own, source.data(), kSize) == kSize && std::equal(own, own + kSize, source.data()) &&
           copy.write(target.data(), own, kSize) == kSize && std::equal(own, own + kSize, target.data());
  };
  const auto some = [&](std::size_t there) {
    return copy.read(own + 1, source.end() - there, kSize - 1) == there &&
           std::equal(source.end() - there, source.end(), own + 1) &&
           copy.write(target.end() - there, own + 1, kSize - 1) == there &&
           std::equal(target.end() - there, target.end(), own + 1);
  };
  return all() && some(5000) && some(1) && some(0);
}

// Runs `body` in a child in which these system calls fail with `error`.
template <typename Calls, typename Body>
void expect_without(const Calls& calls, int error, const Body& body) {
  EXPECT_EQ(test::run_in_child([&] {
              for (const long call : calls) CHILD_CHECK(support::forbid({static_cast<unsigned>(call)}, error));
              body();
              return 0;
            }),
            0);
}

TEST(CheckedCopy, SaysHowMuchMemoryThereIs) {
  CheckedCopy copy;
  std::byte* const scratch = copy.scratch(kSize);
  ASSERT_NE(scratch, nullptr);
  EXPECT_EQ(copy.scratch(kSize), scratch);
  EXPECT_TRUE(copies(copy, scratch));
  std::vector<std::byte> elsewhere(kSize);
  EXPECT_TRUE(copies(copy, elsewhere.data()));
}

TEST(CheckedCopy, CopiesOfTheScratchAreThoseOfAFileAndOthersAreNot) {
  const auto take = [](bool to_scratch) {
    CheckedCopy copy;
    const Foreign source;
    std::vector<std::byte> elsewhere(kSize);
    std::byte* const scratch = copy.scratch(kSize);
    CHILD_CHECK(scratch != nullptr);
    std::byte* const own = to_scratch ? scratch : elsewhere.data();
    const std::size_t taken = copy.read(own, source.data(), kSize);
    CHILD_CHECK(copy.write(source.data(), own, kSize) == taken);
    return taken;
  };
  expect_without(kFile, EFAULT, [&] { CHILD_CHECK(take(true) == 0 && take(false) == kSize); });
  expect_without(kProcess, EFAULT, [&] { CHILD_CHECK(take(true) == kSize && take(false) == 0); });
}

TEST(CheckedCopy, ChecksWhereTheScratchIsNoUseOrCannotBeMade) {
  expect_without(kFile, EPERM, [] {
    CheckedCopy copy;
    std::byte* const scratch = copy.scratch(kSize);
    CHILD_CHECK(scratch != nullptr && copies(copy, scratch));
  });
  for (const int error : {EPERM, EMFILE}) {
    expect_without(std::vector<long>{SYS_memfd_create}, error, [] {
      CheckedCopy copy;
      std::vector<std::byte> elsewhere(kSize);
      CHILD_CHECK(copy.scratch(kSize) == nullptr && copies(copy, elsewhere.data()));
    });
  }
}

TEST(CheckedCopy, CopiesWithoutACheckWhereTheKernelDoesNotCopy) {
  expect_without(kProcess, EPERM, [] {
    for (const long call : kFile) CHILD_CHECK(support::forbid({static_cast<unsigned>(call)}, EPERM));
    CheckedCopy copy;
    const Foreign source, target;
    std::byte* const scratch = copy.scratch(kSize);
    CHILD_CHECK(scratch != nullptr && copy.read(scratch, source.data(), kSize) == kSize);
    CHILD_CHECK(copy.write(target.data(), scratch, kSize) == kSize);
    CHILD_CHECK(std::equal(source.data(), source.end(), target.data()));
  });
}

// If SIGXFSZ came, it would end the child.
TEST(CheckedCopy, HasNoScratchWhereNoFileMayBeThatLarge) {
  EXPECT_EQ(test::run_in_child([] {
              CheckedCopy before, after;
              CHILD_CHECK(before.scratch(kSize) != nullptr);
              const rlimit small{0, RLIM_INFINITY}, large{kSize, RLIM_INFINITY};
              CHILD_CHECK(::setrlimit(RLIMIT_FSIZE, &small) == 0);
              CHILD_CHECK(before.scratch(kSize) == nullptr && after.scratch(kSize) == nullptr);
              CHILD_CHECK(::setrlimit(RLIMIT_FSIZE, &large) == 0);
              CHILD_CHECK(copies(before, before.scratch(kSize)));
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace ripc::internal
