// SPDX-License-Identifier: Apache-2.0
// What a registration of memory of the application costs, and what a kept one does, on the first RDMA device.
//
//   bench_registration [ROUNDS]      default: 200
//
// Prints one JSON object a size: medians, in nanoseconds. register: made and ended for one use. keep: the use from
// which on the memory is watched. hit: each later use. unmap: munmap() of memory that is kept, unmap_plain: of
// other memory. pool: a use of leased memory; saved_per_mebibyte: what one byte less to be registered saves, times
// 2^20.
#include <cstdio>

#if __has_include(<infiniband/verbs.h>) && __has_include(<rdma/rdma_cma.h>)

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.hpp"
#include "transport/verbs/device/fabric.hpp"
#include "transport/verbs/device/registrar.hpp"

namespace {

using ripc::Nanoseconds;

Nanoseconds time_of(const std::function<void()>& task) {
  const Nanoseconds start = ripc::monotonic_now();
  task();
  return ripc::monotonic_now() - start;
}

long long median(std::vector<Nanoseconds>& times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return static_cast<long long>(times[times.size() / 2]);
}

void* map(std::size_t size) {
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  std::memset(memory, 1, size);
  return memory;
}

[[noreturn]] void fail(const ripc::Status& status) {
  std::fprintf(stderr, "bench_registration: %s\n", std::string(status.text()).c_str());
  std::exit(77);
}

void measure(ripc::verbs::Registrar& registrar, ripc::verbs::RegistrationCache& cache, ripc::memory::Pool& pool,
             std::size_t size, int rounds) {
  std::vector<Nanoseconds> once, keep, hit, unmap, unmap_plain, pooled;
  const auto lease = pool.lease(size);
  if (!lease.ok()) fail(lease.status());
  for (int round = 0; round < rounds; ++round) {
    void* const memory = map(size);
    once.push_back(time_of([&] {
      const auto region = registrar.range(memory, size, IBV_ACCESS_LOCAL_WRITE);
      if (!region.ok()) fail(region.status());
    }));
    const auto use_of = [&](const void* data) {
      const auto local = registrar.local(data, size, false);
      if (!local.ok()) fail(local.status());
    };
    const auto use = [&] { use_of(memory); };
    // The first use of all registers the arena, which others pay for with it.
    if (round == 0) use_of(*lease);
    pooled.push_back(time_of([&] { use_of(*lease); }));
    // The second use keeps it, or the first where the same range was used in the round before.
    const std::size_t before = cache.counters().kept;
    Nanoseconds took = 0;
    for (int attempt = 0; attempt < 2 && cache.counters().kept == before; ++attempt) took = time_of(use);
    keep.push_back(took);
    const std::uint64_t made = registrar.range_count();
    hit.push_back(time_of(use));
    if (registrar.range_count() != made) fail(RIPC_UNSUPPORTED);
    unmap.push_back(time_of([&] { ::munmap(memory, size); }));
    cache.reap();
    void* const other = map(size);
    unmap_plain.push_back(time_of([&] { ::munmap(other, size); }));
  }
  if (const ripc::Status status = pool.release(*lease); !status.ok()) fail(status);
  const double saved = static_cast<double>(median(once) - median(pooled)) / (static_cast<double>(size) / (1 << 20));
  std::printf(
      "{\"size\":%zu,\"rounds\":%d,\"register_ns\":%lld,\"keep_ns\":%lld,\"hit_ns\":%lld,\"unmap_ns\":%lld,"
      "\"unmap_plain_ns\":%lld,\"pool_ns\":%lld,\"saved_per_mebibyte_ns\":%.0f}\n",
      size, rounds, median(once), median(keep), median(hit), median(unmap), median(unmap_plain), median(pooled), saved);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 200;
  if (const ripc::Status status = ripc::memory::MappingWatch::available(); !status.ok()) fail(status);
  const auto fabric = ripc::verbs::Fabric::open();
  if (!fabric.ok()) fail(fabric.status());
  ripc::memory::Pool pool(std::uint64_t{256} << 20);
  const auto cache = std::make_shared<ripc::verbs::RegistrationCache>(ripc::verbs::RegistrationCache::Limits{});
  ripc::verbs::Registrar registrar((*fabric)->devices().front(), pool, cache);
  for (const std::size_t size : {std::size_t{4} << 10, std::size_t{1} << 20, std::size_t{64} << 20})
    measure(registrar, *cache, pool, size, rounds);
  return 0;
}

#else

int main() {
  std::puts("bench_registration: this libripc was built without RDMA");
  return 77;
}

#endif
