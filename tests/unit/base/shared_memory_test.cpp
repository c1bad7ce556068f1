// SPDX-License-Identifier: Apache-2.0
#include "base/shared_memory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace ripc::internal {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

bool is_mapped(const void* address) {
  unsigned char resident = 0;
  return mincore(const_cast<void*>(address), 1, &resident) == 0;
}

// A memfd as some other program would make it.
UniqueFd plain_memfd(std::size_t size, int seals) {
  UniqueFd fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_TRUE(fd);
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(size)), 0);
  EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

// ---- Mapping -------------------------------------------------------------------------------------------------

Mapping anonymous_mapping(std::size_t size) {
  void* const base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(base, MAP_FAILED);
  return Mapping(base, size);
}

TEST(Mapping, DefaultIsEmpty) {
  const Mapping mapping;
  EXPECT_FALSE(mapping);
  EXPECT_EQ(mapping.data(), nullptr);
  EXPECT_EQ(mapping.size(), 0u);
  EXPECT_TRUE(mapping.bytes().empty());
}

TEST(Mapping, IsUnmappedOnDestruction) {
  const void* address = nullptr;
  {
    const Mapping mapping = anonymous_mapping(kPage);
    address = mapping.data();
    EXPECT_TRUE(mapping);
    EXPECT_EQ(mapping.bytes().size(), kPage);
    EXPECT_TRUE(is_mapped(address));
  }
  EXPECT_FALSE(is_mapped(address));
}

TEST(Mapping, MoveLeavesTheSourceEmptyAndUnmapsTheTarget) {
  Mapping first = anonymous_mapping(kPage);
  Mapping second = anonymous_mapping(kPage);
  const std::byte* const first_address = first.data();
  const std::byte* const second_address = second.data();
  second = std::move(first);
  EXPECT_EQ(second.data(), first_address);
  EXPECT_FALSE(is_mapped(second_address));
  const Mapping third(std::move(second));
  EXPECT_EQ(third.data(), first_address);
  EXPECT_TRUE(is_mapped(first_address));
  EXPECT_FALSE(first);   // NOLINT: a moved-from mapping is empty, that is the promise
  EXPECT_FALSE(second);  // NOLINT
}

// ---- create_shared_memory ------------------------------------------------------------------------------------

TEST(CreateSharedMemory, IsZeroedWritableAndRoundedUpToWholePages) {
  Result<SharedMemory> memory = create_shared_memory("ripc-test", kPage + 1, PeerAccess::read_write);
  ASSERT_TRUE(memory.ok()) << memory.status().text();
  EXPECT_EQ(memory->mapping.size(), 2 * kPage);
  EXPECT_FALSE(memory->huge_pages);
  const auto bytes = memory->mapping.bytes();
  EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; }));
  std::memset(bytes.data(), 0x5a, bytes.size());
}

TEST(CreateSharedMemory, PreferHugePagesRoundsAndAlignsToTwoMebibytes) {
  for (const PeerAccess access : {PeerAccess::read_only, PeerAccess::read_write}) {
    Result<SharedMemory> memory = create_shared_memory("ripc-test", kHugePage + 1, access, true);
    ASSERT_TRUE(memory.ok()) << memory.status().text();
    EXPECT_EQ(memory->mapping.size(), 2 * kHugePage);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->mapping.data()) % kHugePage, 0u);
    memory->mapping.data()[0] = std::byte{1};
    memory->mapping.data()[2 * kHugePage - 1] = std::byte{1};
  }
}

// How many bytes of this process's address space have no access rights: reserved, for example to find an aligned
// address.
std::size_t inaccessible_bytes() {
  std::ifstream maps("/proc/self/maps");
  EXPECT_TRUE(maps);
  std::size_t bytes = 0;
  std::string line;
  while (std::getline(maps, line)) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char permissions[5] = {};
    EXPECT_EQ(std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, permissions), 3) << line;
    if (std::string(permissions).rfind("---", 0) == 0) bytes += end - begin;
  }
  return bytes;
}

TEST(CreateSharedMemory, AlignedMappingsLeaveNothingElseReserved) {
  const std::size_t before = inaccessible_bytes();
  std::vector<SharedMemory> memories;
  for (const std::size_t size : {kHugePage, 3 * kHugePage, kHugePage}) {
    Result<SharedMemory> memory = create_shared_memory("ripc-test", size, PeerAccess::read_only, true);
    ASSERT_TRUE(memory.ok());
    memories.push_back(std::move(memory).value());
  }
  Result<Mapping> odd_size = map_foreign_memory(memories[1].fd.get(), kPage + 1, false, true);
  ASSERT_TRUE(odd_size.ok());
  EXPECT_LE(inaccessible_bytes(), before);
}

TEST(CreateSharedMemory, NameShowsInTheMapsOfTheProcess) {
  Result<SharedMemory> memory = create_shared_memory("ripc-name-test", kPage, PeerAccess::read_write);
  ASSERT_TRUE(memory.ok());
  std::ifstream maps("/proc/self/maps");
  const std::string text((std::istreambuf_iterator<char>(maps)), std::istreambuf_iterator<char>());
  EXPECT_NE(text.find("memfd:ripc-name-test"), std::string::npos);
}

TEST(CreateSharedMemory, DescriptorIsClosedOnExec) {
  Result<SharedMemory> memory = create_shared_memory("ripc-test", kPage, PeerAccess::read_write);
  ASSERT_TRUE(memory.ok());
  EXPECT_NE(fcntl(memory->fd.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(CreateSharedMemory, CanNeitherShrinkNorGrowNorBeUnsealed) {
  for (const PeerAccess access : {PeerAccess::read_write, PeerAccess::read_only}) {
    Result<SharedMemory> memory = create_shared_memory("ripc-test", 4 * kPage, access);
    ASSERT_TRUE(memory.ok());
    const int fd = memory->fd.get();
    EXPECT_EQ(ftruncate(fd, kPage), -1);
    EXPECT_EQ(errno, EPERM);
    EXPECT_EQ(ftruncate(fd, 8 * kPage), -1);
    EXPECT_EQ(errno, EPERM);
    EXPECT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    const int seals = fcntl(fd, F_GET_SEALS);
    EXPECT_EQ(seals & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    EXPECT_EQ((seals & F_SEAL_FUTURE_WRITE) != 0, access == PeerAccess::read_only);
  }
}

TEST(CreateSharedMemory, ReadWriteIsSharedBothWays) {
  Result<SharedMemory> memory = create_shared_memory("ripc-test", kPage, PeerAccess::read_write);
  ASSERT_TRUE(memory.ok());
  Result<Mapping> peer = map_foreign_memory(memory->fd.get(), kPage, true);
  ASSERT_TRUE(peer.ok()) << peer.status().text();
  memory->mapping.data()[0] = std::byte{1};
  peer->data()[1] = std::byte{2};
  EXPECT_EQ(peer->data()[0], std::byte{1});
  EXPECT_EQ(memory->mapping.data()[1], std::byte{2});
}

TEST(CreateSharedMemory, ReadOnlyStaysWritableForItsCreatorAndVisibleToReaders) {
  Result<SharedMemory> memory = create_shared_memory("ripc-test", kPage, PeerAccess::read_only);
  ASSERT_TRUE(memory.ok());
  Result<Mapping> peer = map_foreign_memory(memory->fd.get(), kPage, false);
  ASSERT_TRUE(peer.ok()) << peer.status().text();
  memory->mapping.data()[7] = std::byte{9};
  EXPECT_EQ(peer->data()[7], std::byte{9});
}

// What a peer process managed to do with the descriptor, as bits.
enum Breach {
  kMapped = 1,
  kProtected = 2,
  kWrote = 4,
  kReopened = 8,
  kTruncated = 16,
  kPunched = 32,
  kCannotRead = 64
};

int attack(int fd, std::size_t size) {
  int breaches = 0;
  if (mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED) breaches |= kMapped;
  void* const view = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (view == MAP_FAILED) {
    breaches |= kCannotRead;
  } else if (mprotect(view, size, PROT_READ | PROT_WRITE) == 0) {
    breaches |= kProtected;
  }
  if (pwrite(fd, "x", 1, 0) >= 0) breaches |= kWrote;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  const int again = open(path, O_RDWR | O_CLOEXEC);
  if (again >= 0) {
    if (mmap(nullptr, size, PROT_WRITE, MAP_SHARED, again, 0) != MAP_FAILED) breaches |= kReopened;
    if (ftruncate(again, 0) == 0) breaches |= kTruncated;
  }
  if (ftruncate(fd, 0) == 0) breaches |= kTruncated;
  if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size)) == 0) breaches |= kPunched;
  return breaches;
}

TEST(CreateSharedMemory, PeerProcessCannotWriteOrTruncateReadOnlyMemory) {
  for (const bool huge : {false, true}) {
    Result<SharedMemory> memory = create_shared_memory("ripc-test", kHugePage, PeerAccess::read_only, huge);
    ASSERT_TRUE(memory.ok());
    memory->mapping.data()[0] = std::byte{0x11};
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(attack(memory->fd.get(), kHugePage));
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0) << "the peer's breaches, see enum Breach";
    EXPECT_EQ(memory->mapping.data()[0], std::byte{0x11});
  }
}

TEST(CreateSharedMemory, ImpossibleSizesAreRefused) {
  EXPECT_EQ(create_shared_memory("ripc-test", 0, PeerAccess::read_write).status().code(), RIPC_INVALID_ARGUMENT);
  for (const std::size_t size : {SIZE_MAX, SIZE_MAX - kHugePage, static_cast<std::size_t>(PTRDIFF_MAX)}) {
    EXPECT_EQ(create_shared_memory("ripc-test", size, PeerAccess::read_write, true).status().code(), RIPC_NO_MEMORY);
    EXPECT_EQ(create_shared_memory("ripc-test", size, PeerAccess::read_write).status().code(), RIPC_NO_MEMORY);
  }
  // More than the address space of a process, less than a file can have.
  EXPECT_EQ(create_shared_memory("ripc-test", std::size_t{1} << 60, PeerAccess::read_only).status().code(),
            RIPC_NO_MEMORY);
}

TEST(CreateSharedMemory, WithoutDescriptorsItSaysSo) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const Result<SharedMemory> memory = create_shared_memory("ripc-test", kPage, PeerAccess::read_write);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(memory.status().code(), RIPC_NO_DESCRIPTORS);
}

TEST(CreateSharedMemory, FileSizeLimitGivesAStatusInsteadOfASignal) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit small{kPage, kPage};
    if (setrlimit(RLIMIT_FSIZE, &small) != 0) _exit(100);
    _exit(create_shared_memory("ripc-test", 2 * kPage, PeerAccess::read_write).status().code());
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), RIPC_NO_MEMORY);
}

TEST(CreateSharedMemory, ReservedHugePagesAreUsedOnlyForMemoryThatPeersCannotPunch) {
  Result<SharedMemory> memory = create_shared_memory("ripc-test", kHugePage, PeerAccess::read_write, true);
  ASSERT_TRUE(memory.ok());
  EXPECT_FALSE(memory->huge_pages);
}

TEST(CreateSharedMemory, ReservedHugePagesThatSufficeAreUsed) {
  std::size_t free = 0;
  std::ifstream("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages") >> free;
  if (free < 4) GTEST_SKIP() << "this machine has no free 2 MiB pages reserved (vm.nr_hugepages)";
  Result<SharedMemory> memory = create_shared_memory("ripc-test", kHugePage + 1, PeerAccess::read_only, true);
  ASSERT_TRUE(memory.ok()) << memory.status().text();
  EXPECT_TRUE(memory->huge_pages);
  std::memset(memory->mapping.data(), 0x33, memory->mapping.size());
  Result<Mapping> peer = map_foreign_memory(memory->fd.get(), memory->mapping.size(), false, true);
  ASSERT_TRUE(peer.ok()) << peer.status().text();
  EXPECT_EQ(peer->data()[kHugePage], std::byte{0x33});
}

// ---- map_foreign_memory --------------------------------------------------------------------------------------

TEST(MapForeignMemory, MapsTheSizeAskedFor) {
  const UniqueFd fd = plain_memfd(3 * kPage, F_SEAL_SHRINK);
  for (const bool advise : {false, true}) {
    for (const std::size_t size : {std::size_t{1}, kPage, 2 * kPage + 5, 3 * kPage}) {
      Result<Mapping> mapping = map_foreign_memory(fd.get(), size, true, advise);
      ASSERT_TRUE(mapping.ok()) << mapping.status().text();
      EXPECT_EQ(mapping->size(), size);
      mapping->data()[size - 1] = std::byte{1};
      const bool aligned = reinterpret_cast<std::uintptr_t>(mapping->data()) % kHugePage == 0;
      EXPECT_TRUE(aligned || !advise);
    }
  }
}

TEST(MapForeignMemory, MappingOutlivesTheDescriptor) {
  UniqueFd fd = plain_memfd(kPage, F_SEAL_SHRINK);
  Result<Mapping> mapping = map_foreign_memory(fd.get(), kPage, true);
  ASSERT_TRUE(mapping.ok());
  fd.reset();
  mapping->data()[0] = std::byte{4};
  EXPECT_EQ(mapping->data()[0], std::byte{4});
}

TEST(MapForeignMemory, RefusesMemoryThatCanShrink) {
  EXPECT_EQ(map_foreign_memory(plain_memfd(kPage, 0).get(), kPage, false).status().code(), RIPC_CORRUPT);
  EXPECT_EQ(map_foreign_memory(plain_memfd(kPage, F_SEAL_GROW).get(), kPage, false).status().code(), RIPC_CORRUPT);

  const UniqueFd unsealable(memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(unsealable.get(), kPage), 0);
  EXPECT_EQ(map_foreign_memory(unsealable.get(), kPage, false).status().code(), RIPC_CORRUPT);
}

TEST(MapForeignMemory, RefusesMemoryThatIsSmallerThanAnnounced) {
  const UniqueFd fd = plain_memfd(kPage, F_SEAL_SHRINK);
  for (const std::size_t size : {kPage + 1, 2 * kPage, std::size_t{1} << 40, SIZE_MAX}) {
    EXPECT_EQ(map_foreign_memory(fd.get(), size, false).status().code(), RIPC_CORRUPT) << size;
  }
  EXPECT_EQ(map_foreign_memory(fd.get(), 0, false).status().code(), RIPC_CORRUPT);
}

TEST(MapForeignMemory, RefusesDescriptorsThatAreNoMemfd) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  const UniqueFd zero(open("/dev/zero", O_RDWR | O_CLOEXEC));
  const UniqueFd directory(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  FILE* const file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(ftruncate(fileno(file), kPage), 0);
  for (const int fd : {read_end.get(), write_end.get(), zero.get(), directory.get(), fileno(file), -1}) {
    EXPECT_EQ(map_foreign_memory(fd, kPage, false).status().code(), RIPC_CORRUPT) << fd;
  }
  std::fclose(file);
}

TEST(MapForeignMemory, RefusesFilesOfSharedMemoryFileSystems) {
  const std::string path = "/dev/shm/ripc-shared-memory-test-" + std::to_string(getpid());
  const UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) GTEST_SKIP() << "/dev/shm is not usable here";
  unlink(path.c_str());
  ASSERT_EQ(ftruncate(fd.get(), kPage), 0);
  EXPECT_EQ(map_foreign_memory(fd.get(), kPage, false).status().code(), RIPC_CORRUPT);
}

TEST(MapForeignMemory, RefusesHugePagesThatTheirOwnerCanRemove) {
  UniqueFd fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  if (!fd) GTEST_SKIP() << "this kernel has no huge page memfds";
  ASSERT_EQ(ftruncate(fd.get(), kHugePage), 0);
  ASSERT_EQ(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_EQ(map_foreign_memory(fd.get(), kHugePage, false).status().code(), RIPC_CORRUPT) << "can be punched";
  ASSERT_EQ(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  EXPECT_EQ(map_foreign_memory(fd.get(), kHugePage, false).status().code(), RIPC_CORRUPT) << "has no pages";
}

TEST(MapForeignMemory, ReadOnlyMemoryCannotBeMappedWritable) {
  Result<SharedMemory> memory = create_shared_memory("ripc-test", kPage, PeerAccess::read_only);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(map_foreign_memory(memory->fd.get(), kPage, true).status().code(), RIPC_PERMISSION);
}

}  // namespace
}  // namespace ripc::internal
