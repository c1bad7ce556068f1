// SPDX-License-Identifier: Apache-2.0
// memfd-backed memory that can be handed to another process, and mappings of memory that another process handed over.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <span>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace ripc::internal {

struct Unmap {
  std::size_t size = 0;
  void operator()(std::byte* base) const noexcept { ::munmap(base, size); }
};

// A mapped range; unmapped on destruction.
class Mapping {
 public:
  Mapping() noexcept = default;
  Mapping(void* base, std::size_t size) noexcept : memory_(static_cast<std::byte*>(base), {size}) {}

  std::byte* data() const noexcept { return memory_.get(); }
  std::size_t size() const noexcept { return memory_ ? memory_.get_deleter().size : 0; }
  std::span<std::byte> bytes() const noexcept { return {data(), size()}; }
  explicit operator bool() const noexcept { return memory_ != nullptr; }

 private:
  std::unique_ptr<std::byte, Unmap> memory_;
};

struct SharedMemory {
  UniqueFd fd;
  Mapping mapping;
  bool huge_pages = false;  // explicitly reserved 2 MiB pages (not merely transparent ones)
};

enum class PeerAccess { read_write, read_only };

// Creates `size` bytes of zeroed memory, rounded up to whole pages, or to 2 MiB with `prefer_huge_pages`. The memory
// can neither shrink nor grow, so a mapping of it never faults for lack of a file page. With read_only, a process that
// gets the descriptor can map it for reading only; the mapping returned here stays writable. `name` shows in
// /proc/PID/maps. RIPC_NO_MEMORY, RIPC_NO_DESCRIPTORS, RIPC_SYSTEM.
Result<SharedMemory> create_shared_memory(const char* name, std::size_t size, PeerAccess access,
                                          bool prefer_huge_pages = false);

// Maps a descriptor that came from another process. Refuses with RIPC_CORRUPT unless it is a memfd of at least `size`
// bytes that is sealed against shrinking. Otherwise its owner could make this process fault later.
Result<Mapping> map_foreign_memory(int fd, std::size_t size, bool writable, bool advise_huge_pages = false);

}  // namespace ripc::internal
