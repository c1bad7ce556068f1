// SPDX-License-Identifier: Apache-2.0
#include "base/shared_memory.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

namespace ripc::internal {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kLargest = static_cast<std::size_t>(PTRDIFF_MAX) - 2 * kHugePage;
// Since Linux 6.3. Where vm.memfd_noexec demands this flag, memfd_create fails without it.
constexpr unsigned kNoExecSeal = 0x0008u;

std::size_t page_size() noexcept {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

std::size_t round_up(std::size_t value, std::size_t unit) noexcept { return (value + unit - 1) / unit * unit; }

// Zero if the file cannot be read, because then there are no huge pages to use.
std::size_t read_number(const char* path) noexcept {
  const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
  if (!file) return 0;
  char text[32] = {};
  const ssize_t length = ::read(file.get(), text, sizeof text - 1);
  return length <= 0 ? 0 : static_cast<std::size_t>(std::strtoull(text, nullptr, 10));
}

bool huge_pages_suffice(std::size_t size) noexcept {
  const std::size_t free = read_number("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
  const std::size_t promised = read_number("/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages");
  return free > promised && free - promised >= size / kHugePage;
}

// Maps the range shared; at a 2 MiB boundary if `aligned`.
Result<Mapping> map_shared(int fd, std::size_t size, int protection, bool aligned) {
  constexpr const char* kAdvice = "free memory, or raise the address space limit (`ulimit -v`) and vm.max_map_count";
  if (!aligned) {
    void* const base = ::mmap(nullptr, size, protection, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) return system_error(errno, "mmap", errno == ENOMEM ? kAdvice : "");
    return Mapping(base, size);
  }
  const std::size_t mapped = round_up(size, page_size());
  const std::size_t reserved_size = mapped + kHugePage;
  void* const reserved = ::mmap(nullptr, reserved_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return system_error(errno, "mmap", errno == ENOMEM ? kAdvice : "");
  auto* const begin = static_cast<std::byte*>(reserved);
  const std::size_t head = (kHugePage - reinterpret_cast<std::uintptr_t>(begin) % kHugePage) % kHugePage;
  std::byte* const base = begin + head;
  if (::mmap(base, size, protection, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
    const int error = errno;
    ::munmap(reserved, reserved_size);
    return system_error(error, "mmap", error == ENOMEM ? kAdvice : "");
  }
  if (head > 0) ::munmap(begin, head);
  if (head < kHugePage) ::munmap(base + mapped, kHugePage - head);
  return Mapping(base, size);
}

Result<UniqueFd> create_memfd(const char* name, unsigned flags) {
  UniqueFd fd(::memfd_create(name, flags | kNoExecSeal));
  if (!fd && errno == EINVAL) fd.reset(::memfd_create(name, flags));
  if (!fd) return system_error(errno, "memfd_create");
  return fd;
}

// One attempt, with or without reserved huge pages. `size` is rounded already.
Result<SharedMemory> create(const char* name, std::size_t size, PeerAccess access, bool reserved_pages, bool aligned) {
  unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  if (reserved_pages) flags |= MFD_HUGETLB | MFD_HUGE_2MB;
  Result<UniqueFd> fd = create_memfd(name, flags);
  if (!fd.ok()) return fd.status();
  if (::ftruncate(fd->get(), static_cast<off_t>(size)) != 0) return system_error(errno, "ftruncate of a memfd");
  // Reserved pages come from a pool that can run dry; a page fault would then kill the process that reads.
  if (reserved_pages && ::fallocate(fd->get(), 0, 0, static_cast<off_t>(size)) != 0) {
    return system_error(errno, "fallocate of huge pages");
  }
  Result<Mapping> mapping = map_shared(fd->get(), size, PROT_READ | PROT_WRITE, aligned);
  if (!mapping.ok()) return mapping.status();
  // This fails where transparent huge pages are not available; ordinary pages will do.
  if (aligned && !reserved_pages) ::madvise(mapping->data(), size, MADV_HUGEPAGE);

  // Seal only now: the seal forbids later writable mappings, and ours must remain the only one.
  int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (access == PeerAccess::read_only) seals |= F_SEAL_FUTURE_WRITE;
  if (::fcntl(fd->get(), F_ADD_SEALS, seals) != 0) {
    return system_error(errno, "fcntl(F_ADD_SEALS)", "libripc needs Linux 5.1 or newer");
  }
  return SharedMemory{std::move(fd.value()), std::move(mapping.value()), reserved_pages};
}

}  // namespace

Result<SharedMemory> create_shared_memory(const char* name, std::size_t size, PeerAccess access,
                                          bool prefer_huge_pages) {
  if (size == 0) return Status(RIPC_INVALID_ARGUMENT, "Shared memory of 0 bytes cannot be made; ask for at least one.");
  if (size > kLargest) return Status(RIPC_NO_MEMORY, "No process has room for that much shared memory; ask for less.");
  size = round_up(size, prefer_huge_pages ? kHugePage : page_size());

  // Growing a file past this limit would not just fail: the kernel would end the process with SIGXFSZ.
  rlimit file_size{};
  if (::getrlimit(RLIMIT_FSIZE, &file_size) == 0 && file_size.rlim_cur != RLIM_INFINITY && file_size.rlim_cur < size) {
    return Status(RIPC_NO_MEMORY, "Shared memory of " + std::to_string(size) +
                                      " bytes exceeds the file size limit of this process; raise it with `ulimit -f`.");
  }
  // Memory that a peer may write must not use reserved pages, because the peer could punch holes into it. A process
  // that touches a hole when the machine has no reserved page left is killed. For that reason map_foreign_memory()
  // refuses such memory.
  if (prefer_huge_pages && access == PeerAccess::read_only && huge_pages_suffice(size)) {
    Result<SharedMemory> memory = create(name, size, access, true, true);
    if (memory.ok()) return memory;
  }
  return create(name, size, access, false, prefer_huge_pages);
}

Result<Mapping> map_foreign_memory(int fd, std::size_t size, bool writable, bool advise_huge_pages) {
  const auto refuse = [](const char* what) {
    return Status(RIPC_CORRUPT, std::string("The memory offered by a peer ") + what +
                                    "; it was not mapped. Check which program runs there and its version.");
  };
  if (size == 0 || size > kLargest) return refuse("has an impossible size");
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) return refuse("is not a memfd");
  if ((seals & F_SEAL_SHRINK) == 0) return refuse("can shrink, and reading it could then end this process");
  struct stat file {};
  struct statfs system {};
  if (::fstat(fd, &file) != 0) return system_error(errno, "fstat of a peer's memfd");
  if (::fstatfs(fd, &system) != 0) return system_error(errno, "fstatfs of a peer's memfd");
  if (file.st_size < 0 || static_cast<std::uint64_t>(file.st_size) < size) return refuse("is smaller than announced");

  const bool reserved_pages = static_cast<std::uint64_t>(system.f_type) == HUGETLBFS_MAGIC;
  if (reserved_pages) {
    // A missing page is fatal here (see create_shared_memory): all must exist, and none may be removable.
    const bool pages_stay = (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) != 0;
    const bool complete = file.st_blocks >= 0 &&
                          static_cast<std::uint64_t>(file.st_blocks) >= static_cast<std::uint64_t>(file.st_size) / 512;
    if (!pages_stay || !complete) return refuse("has huge pages that are missing or can be removed");
    size = round_up(size, static_cast<std::size_t>(system.f_bsize));  // munmap demands whole huge pages
  }
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  Result<Mapping> mapping = map_shared(fd, size, protection, advise_huge_pages && !reserved_pages);
  if (!mapping.ok()) return mapping;
  if (advise_huge_pages && !reserved_pages) ::madvise(mapping->data(), size, MADV_HUGEPAGE);
  return mapping;
}

}  // namespace ripc::internal
