// SPDX-License-Identifier: Apache-2.0
#include "file/output_file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "file/descriptor.hpp"

namespace cli::file {
namespace {

ripc::Error system_error(const std::string& what, int error) {
  const char* advice = error == ENOSPC || error == EDQUOT ? "Free some space there, or name an output elsewhere."
                       : error == ENOMEM                  ? "Free some memory, or ask for less with --chunk."
                                                          : "Name an output that this user can write.";
  return {RIPC_SYSTEM, what + ": " + std::strerror(error) + ". " + advice};
}

// Memory from mmap that unmaps itself.
class MappedMemory {
 public:
  MappedMemory() noexcept = default;
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;
  ~MappedMemory() { reset(); }
  // fd -1: anonymous. False with errno.
  bool map(std::size_t size, int fd) noexcept {
    reset();
    if (size == 0) return true;
    const int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void* address = mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (address == MAP_FAILED) return false;
    bytes_ = {static_cast<std::byte*>(address), size};
    return true;
  }
  void reset() noexcept {
    if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
    bytes_ = {};
  }
  ripc::WritableBytes part(std::uint64_t offset, std::uint64_t length) const noexcept {
    const ripc::WritableBytes result = bytes_.subspan(offset, length);
    // All pages in one call instead of one fault each. An old kernel does not know this call; then the pages fault.
    constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto begin = reinterpret_cast<std::uintptr_t>(result.data()) & ~(page - 1);
    const auto end = reinterpret_cast<std::uintptr_t>(result.data()) + result.size();
    if (!result.empty()) (void)madvise(reinterpret_cast<void*>(begin), end - begin, kPopulateWrite);
    return result;
  }

 private:
  ripc::WritableBytes bytes_;
};

// Two chunks of memory, used in turn and written out in order.
class StreamOutput final : public Output {
 public:
  // fd -1: the bytes are discarded.
  StreamOutput(Descriptor owned, int fd) noexcept : owned_(std::move(owned)), fd_(fd) {}

  ripc::Error prepare(std::uint64_t size, std::uint64_t chunk) override {
    if (written_ > 0 && fd_ >= 0)
      return {RIPC_SYSTEM, "The file changed at the service after part of it was written out: fetch it again."};
    written_ = 0;
    chunk_ = chunk;
    if (!memory_.map(std::min(size, chunk * kChunksAtOnce), -1)) return system_error("No memory for the chunks", errno);
    return {};
  }
  ripc::WritableBytes memory(std::uint64_t offset, std::uint64_t length) override {
    return memory_.part(place_of(offset), length);
  }
  ripc::Error complete(std::uint64_t offset, std::uint64_t length) override {
    written_ += length;
    if (fd_ < 0) return {};
    ripc::Bytes bytes = memory_.part(place_of(offset), length);
    while (!bytes.empty()) {
      const ssize_t count = write(fd_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) {  // another process has made it so that it does not block
        pollfd room = {fd_, POLLOUT, 0};
        (void)poll(&room, 1, -1);
        continue;
      }
      if (count < 0) return system_error("Cannot write the output", errno);
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
    return {};
  }
  ripc::Error finish() override { return {}; }

 private:
  // Chunks may become smaller by a whole factor, so no chunk crosses the end.
  std::uint64_t place_of(std::uint64_t offset) const noexcept { return offset % (chunk_ * kChunksAtOnce); }

  Descriptor owned_;
  int fd_;
  std::uint64_t chunk_ = 1;
  std::uint64_t written_ = 0;
  MappedMemory memory_;
};

// A mapped file without a name, or with a temporary one, until it is whole.
class FileOutput final : public Output {
 public:
  explicit FileOutput(std::string path) : path_(std::move(path)) {
    const std::size_t slash = path_.rfind('/');
    directory_ = slash == std::string::npos ? "." : slash == 0 ? "/" : path_.substr(0, slash);
    temporary_ = directory_ + "/.ripc-" + std::to_string(getpid()) + "-" +
                 std::to_string(reinterpret_cast<std::uintptr_t>(this)) + ".part";
  }
  ~FileOutput() override { remove_temporary(); }

  ripc::Error prepare(std::uint64_t size, std::uint64_t) override {
    memory_.reset();
    remove_temporary();
    constexpr mode_t kMode = 0666;
    file_.reset(open(directory_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kMode));
    if (!file_) {  // not every file system has nameless files
      file_.reset(open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kMode));
      has_temporary_name_ = static_cast<bool>(file_);
    }
    if (!file_) return system_error("Cannot create a file in '" + directory_ + "'", errno);
    // If all blocks are allocated, writing through the mapping cannot fail for lack of room.
    if (const int error = size == 0 ? 0 : posix_fallocate(file_.get(), 0, static_cast<off_t>(size)); error != 0)
      return system_error("No room for '" + path_ + "'", error);
    if (!memory_.map(size, file_.get())) return system_error("Cannot map '" + path_ + "'", errno);
    return {};
  }
  ripc::WritableBytes memory(std::uint64_t offset, std::uint64_t length) override {
    return memory_.part(offset, length);
  }
  ripc::Error complete(std::uint64_t, std::uint64_t) override { return {}; }
  ripc::Error finish() override {
    memory_.reset();
    if (!has_temporary_name_) {
      const std::string source = "/proc/self/fd/" + std::to_string(file_.get());
      if (linkat(AT_FDCWD, source.c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW) != 0)
        return system_error("Cannot give the file its name '" + path_ + "'", errno);
      has_temporary_name_ = true;
    }
    if (rename(temporary_.c_str(), path_.c_str()) != 0)
      return system_error("Cannot give the file its name '" + path_ + "'", errno);
    has_temporary_name_ = false;
    return {};
  }

 private:
  void remove_temporary() noexcept {
    if (has_temporary_name_) unlink(temporary_.c_str());
    has_temporary_name_ = false;
  }

  std::string path_;
  std::string directory_;
  std::string temporary_;
  bool has_temporary_name_ = false;
  Descriptor file_;
  MappedMemory memory_;
};

}  // namespace

ripc::Result<std::unique_ptr<Output>> make_output(const std::string& path) {
  if (path.empty()) return std::unique_ptr<Output>(std::make_unique<StreamOutput>(Descriptor(), -1));
  if (path == "-") return std::unique_ptr<Output>(std::make_unique<StreamOutput>(Descriptor(), STDOUT_FILENO));
  struct stat status = {};
  const bool exists = stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode))
    return ripc::Error(RIPC_SYSTEM, "'" + path + "' is a directory: name the output file with -o.");
  if (exists && !S_ISREG(status.st_mode)) {
    Descriptor stream(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!stream) return system_error("Cannot write to '" + path + "'", errno);
    const int fd = stream.get();
    return std::unique_ptr<Output>(std::make_unique<StreamOutput>(std::move(stream), fd));
  }
  return std::unique_ptr<Output>(std::make_unique<FileOutput>(path));
}

}  // namespace cli::file
