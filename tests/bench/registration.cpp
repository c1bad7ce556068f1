// SPDX-License-Identifier: Apache-2.0
// Compares registering memory for one use with memory that stays registered, on the first RDMA device.
//
//   bench_registration [ROUNDS]      default: 200
//
// Prints one JSON object per size: medians, in nanoseconds.
//   register              a registration made and ended for one use
//   registered            a use of memory that the application has registered, after the first
//   pool                  a use of leased memory
//   saved_per_mebibyte    what it saves to register one byte less, times 2^20
#include <cstdio>

#if __has_include(<infiniband/verbs.h>) && __has_include(<rdma/rdma_cma.h>)

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "base/clock.hpp"
#include "transport/verbs/device/device_list.hpp"
#include "transport/verbs/device/registrar.hpp"

namespace {

using ripc::internal::Nanoseconds;

Nanoseconds time_of(const std::function<void()>& task) {
  const Nanoseconds start = ripc::internal::monotonic_now();
  task();
  return ripc::internal::monotonic_now() - start;
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

[[noreturn]] void fail(const ripc::internal::Status& status) {
  std::fprintf(stderr, "bench_registration: %s\n", std::string(status.text()).c_str());
  std::exit(77);
}

void measure(ripc::internal::verbs::Registrar& registrar, ripc::internal::memory::Pool& pool, std::size_t size,
             int rounds) {
  std::vector<Nanoseconds> once, registered, pooled;
  void* const memory = map(size);
  const auto lease = pool.lease(size);
  if (!lease.ok()) fail(lease.status());
  const auto use = [&](const void* data) {
    const auto local = registrar.local(data, size, false);
    if (!local.ok()) fail(local.status());
    return local->region;
  };
  for (int round = 0; round < rounds; ++round) once.push_back(time_of([&] { use(memory); }));
  if (const ripc::internal::Status status = pool.register_memory(memory, size); !status.ok()) fail(status);
  // The first use of each buffer registers it.
  const auto own = use(memory), of_pool = use(*lease);
  for (int round = 0; round < rounds; ++round) {
    registered.push_back(time_of([&] { use(memory); }));
    pooled.push_back(time_of([&] { use(*lease); }));
  }
  if (use(memory) != own || use(*lease) != of_pool) fail(RIPC_UNSUPPORTED);
  if (const ripc::internal::Status status = pool.release(*lease); !status.ok()) fail(status);
  if (const ripc::internal::Status status = pool.unregister_memory(memory); !status.ok()) fail(status);
  ::munmap(memory, size);
  const double saved = static_cast<double>(median(once) - median(pooled)) / (static_cast<double>(size) / (1 << 20));
  std::printf(
      "{\"size\":%zu,\"rounds\":%d,\"register_ns\":%lld,\"registered_ns\":%lld,\"pool_ns\":%lld,"
      "\"saved_per_mebibyte_ns\":%.0f}\n",
      size, rounds, median(once), median(registered), median(pooled), saved);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 200;
  const auto devices = ripc::internal::verbs::DeviceList::open();
  if (!devices.ok()) fail(devices.status());
  ripc::internal::memory::Pool pool(std::uint64_t{256} << 20);
  ripc::internal::verbs::Registrar registrar((*devices)->devices().front(), pool);
  for (const std::size_t size :
       {std::size_t{4} << 10, std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{64} << 20})
    measure(registrar, pool, size, rounds);
  return 0;
}

#else

int main() {
  std::puts("bench_registration: this libripc was built without RDMA");
  return 77;
}

#endif
