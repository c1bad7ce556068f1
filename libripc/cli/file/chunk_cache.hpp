// SPDX-License-Identifier: Apache-2.0
// A bounded cache of pieces of files in leased pool memory, from which the service sends without copying. The least
// recently used piece is dropped first. The library keeps a piece alive while it is being sent.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>

#include "file/served_directory.hpp"

namespace cli::file {

// One thread at a time.
class ChunkCache {
 public:
  struct Chunk {
    ripc::Buffer buffer;
    std::optional<std::array<std::byte, 16>> digest;
  };

  // limit: the most bytes that are kept; a piece larger than that is read, sent and dropped. The context must outlive
  // the cache.
  ChunkCache(ripc::Context& context, std::uint64_t limit) noexcept : context_(context), limit_(limit) {}

  // Gets `length` bytes (not 0) from `offset` of the file; the range must lie inside the file. `chunk` is valid until
  // the next call.
  FileStatus get(OpenFile& file, std::uint64_t offset, std::uint64_t length, bool with_digest, const Chunk*& chunk);

  std::uint64_t hits() const noexcept { return hits_; }
  std::uint64_t misses() const noexcept { return misses_; }

 private:
  struct Key {
    std::uint64_t version;
    std::uint64_t offset;
    std::uint64_t length;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const noexcept {
      return static_cast<std::size_t>(key.version ^ (key.offset * 0x9e3779b97f4a7c15U) ^ (key.length << 1));
    }
  };
  struct Entry {
    Key key;
    Chunk chunk;
  };

  void shrink_to(std::uint64_t bytes);
  FileStatus read(OpenFile& file, const Key& key, ripc::Buffer& buffer);

  ripc::Context& context_;
  std::uint64_t limit_;
  std::uint64_t used_ = 0;
  std::uint64_t hits_ = 0;
  std::uint64_t misses_ = 0;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<Key, std::list<Entry>::iterator, Hash> index_;
  Chunk passing_;  // a piece that is not kept
};

// Reads exactly `bytes.size()` bytes. Returns io_error, or changed if the file ends before that.
FileStatus read_exactly(int fd, ripc::WritableBytes bytes, std::uint64_t offset) noexcept;

}  // namespace cli::file
