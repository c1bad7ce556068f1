// SPDX-License-Identifier: Apache-2.0
#include "base/random.hpp"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cstddef>

#include "base/fork_guard.hpp"
#include "base/unique_fd.hpp"

namespace ripc::internal {
namespace {

constexpr int kRetryMilliseconds = 10;

// Numbers not given out yet. As many as getrandom() always returns in one call, even if signals arrive.
struct Block {
  std::array<std::uint64_t, 32> numbers;
  std::size_t left;
  std::uint64_t generation;  // of the process that they were read in
};
static_assert(sizeof Block::numbers <= 256);

bool read_urandom(Block& block) noexcept {
  const UniqueFd device(::open("/dev/urandom", O_RDONLY | O_CLOEXEC));
  return device &&
         ::read(device.get(), block.numbers.data(), sizeof block.numbers) == static_cast<ssize_t>(sizeof block.numbers);
}

void fill(Block& block) noexcept {
  for (;;) {
    // Blocks until the kernel's pool is ready, and never again; a signal can interrupt it only until then.
    if (::getrandom(block.numbers.data(), sizeof block.numbers, 0) == static_cast<ssize_t>(sizeof block.numbers))
      return;
    // A sandbox may forbid the call but leave the device.
    if (read_urandom(block)) return;
    // Anything else would be guessable.
    ::poll(nullptr, 0, kRetryMilliseconds);
  }
}

}  // namespace

std::uint64_t random_u64() noexcept {
  thread_local Block block{};
  // Read it before filling the block: a fork in between must not leave the child with its parent's numbers.
  const std::uint64_t generation = ForkGuard::generation();
  if (block.left == 0 || block.generation != generation) {
    fill(block);
    block.left = block.numbers.size();
    block.generation = generation;
  }
  std::uint64_t& number = block.numbers[--block.left];
  const std::uint64_t value = number;
  explicit_bzero(&number, sizeof number);
  return value;
}

}  // namespace ripc::internal
