// SPDX-License-Identifier: Apache-2.0
#include "file/chunk_cache.hpp"

#include <unistd.h>

#include <cerrno>

namespace cli::file {

FileStatus read_exactly(int fd, ripc::WritableBytes bytes, std::uint64_t offset) noexcept {
  while (!bytes.empty()) {
    const ssize_t count = pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileStatus::io_error;
    if (count == 0) return FileStatus::changed;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return FileStatus::ok;
}

FileStatus ChunkCache::get(OpenFile& file, std::uint64_t offset, std::uint64_t length, bool with_digest,
                           const Chunk*& chunk) {
  const Key key{file.version, offset, length};
  Chunk* found = nullptr;
  if (const auto position = index_.find(key); position != index_.end()) {
    ++hits_;
    entries_.splice(entries_.begin(), entries_, position->second);
    found = &entries_.front().chunk;
  } else {
    ++misses_;
    passing_ = {};
    const bool keep = file.is_settled && length <= limit_;
    if (keep) shrink_to(limit_ - length);
    ripc::Buffer buffer;
    if (const FileStatus status = read(file, key, buffer); status != FileStatus::ok) return status;
    if (keep) {
      entries_.push_front({key, {std::move(buffer), std::nullopt}});
      index_[key] = entries_.begin();
      used_ += length;
      found = &entries_.front().chunk;
    } else {
      passing_ = {std::move(buffer), std::nullopt};
      found = &passing_;
    }
  }
  if (with_digest && !found->digest) found->digest = digest_of(found->buffer.bytes());
  chunk = found;
  return FileStatus::ok;
}

void ChunkCache::shrink_to(std::uint64_t bytes) {
  while (used_ > bytes && !entries_.empty()) {
    used_ -= entries_.back().key.length;
    index_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

FileStatus ChunkCache::read(OpenFile& file, const Key& key, ripc::Buffer& buffer) {
  auto lease = context_.lease(key.length);
  if (!lease.ok()) {
    shrink_to(0);
    lease = context_.lease(key.length);
    if (!lease.ok()) return FileStatus::no_memory;
  }
  if (const FileStatus status = read_exactly(file.descriptor.get(), lease->bytes(), key.offset);
      status != FileStatus::ok)
    return status;
  // If the file was written while it was read, the bytes may be of two versions.
  if (const FileStatus status = ServedDirectory::refresh(file); status != FileStatus::ok) return status;
  if (file.version != key.version) return FileStatus::changed;
  buffer = *std::move(lease);
  return FileStatus::ok;
}

}  // namespace cli::file
