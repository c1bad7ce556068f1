// SPDX-License-Identifier: Apache-2.0
// Measures what the pool saves. A buffer is leased and given back for every message. This is compared with malloc and
// free, malloc and a registration, and fresh memory from the kernel, which malloc returns above 32 MiB. Each buffer is
// touched once in every page. For the saving in a whole message, compare `ripc bench bandwidth --source lease` with
// `malloc`.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "bench/options.hpp"

namespace cli::bench {
namespace {

void touch(std::byte* memory, std::size_t size) noexcept {
  constexpr std::size_t kPage = 4096;
  volatile std::byte* bytes = memory;
  for (std::size_t offset = 0; offset < size; offset += kPage) bytes[offset] = std::byte{1};
}

// Nanoseconds for one call of `use`, from a block of `count`; negative if one failed.
template <typename Use>
double time_block(std::uint64_t count, Use use) {
  const std::uint64_t start = monotonic_now();
  for (std::uint64_t index = 0; index < count; ++index)
    if (!use()) return -1;
  return static_cast<double>(monotonic_now() - start) / static_cast<double>(count);
}

}  // namespace

BenchResult run_pool(const BenchOptions& options) {
  auto context = ripc::Context::create(options.context());
  if (!context.ok()) return context.error();
  const std::size_t size = options.size;
  std::uint64_t iterations = options.iterations;
  if (iterations == 0)
    iterations =
        std::clamp<std::uint64_t>((std::uint64_t{16} << 30) / std::max<std::uint64_t>(size, 1), 1000, 1'000'000);
  constexpr std::uint64_t kBlocks = 10;
  const std::uint64_t per_block = std::max<std::uint64_t>(iterations / kBlocks, 1);

  const auto lease = [&] {
    auto buffer = context->lease(size);
    if (buffer.ok()) touch(buffer->data(), size);
    return buffer.ok();
  };
  const auto allocate = [&] {
    auto* memory = static_cast<std::byte*>(std::malloc(size));
    if (memory != nullptr) touch(memory, size);
    std::free(memory);
    return memory != nullptr;
  };
  const auto map = [&] {
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    touch(static_cast<std::byte*>(memory), size);
    munmap(memory, size);
    return true;
  };
  const auto allocate_and_register = [&] {
    auto* memory = static_cast<std::byte*>(std::malloc(size));
    if (memory == nullptr) return false;
    touch(memory, size);
    const bool registered = context->register_memory({memory, size}).ok();
    std::free(memory);
    return registered;
  };
  std::vector<double> leases;
  std::vector<double> allocations;
  std::vector<double> mappings;
  std::vector<double> registrations;
  for (std::uint64_t block = 0; block <= kBlocks; ++block) {
    const double leased = time_block(per_block, lease);
    const double allocated = time_block(per_block, allocate);
    const double mapped = time_block(std::max<std::uint64_t>(per_block / 10, 1), map);
    const double registered = time_block(std::max<std::uint64_t>(per_block / 10, 1), allocate_and_register);
    if (leased < 0 || allocated < 0 || mapped < 0 || registered < 0)
      return ripc::Error(RIPC_NO_MEMORY, "No memory for a buffer of this size: use a smaller --size.");
    if (block == 0) continue;  // warm-up
    leases.push_back(leased);
    allocations.push_back(allocated);
    mappings.push_back(mapped);
    registrations.push_back(registered);
  }
  Json json;
  json["lease_release_ns"] = median(leases);
  json["malloc_free_ns"] = median(allocations);
  json["mmap_munmap_ns"] = median(mappings);
  json["malloc_register_free_ns"] = median(registrations);
  json["ratio_to_malloc"] = median(leases) / std::max(median(allocations), 0.001);
  json["lost"] = 0;
  json["corrupt"] = 0;
  json["iterations"] = iterations;
  return json;
}

}  // namespace cli::bench
