// SPDX-License-Identifier: Apache-2.0
// The directory that is served. Opens regular files below it and nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "file/descriptor.hpp"
#include "file/file_protocol.hpp"

namespace cli::file {

struct OpenFile {
  Descriptor descriptor;
  std::uint64_t size = 0;
  std::uint64_t version = 0;  // of device, inode, size and times: changes when the file does; never 0
  bool is_settled = false;    // not modified in the last second: equal versions then mean equal contents
};

// One thread at a time.
class ServedDirectory {
 public:
  // Fails with a sentence if it cannot be opened as a directory.
  static ripc::Result<ServedDirectory> open(const std::string& path);

  // Opens the regular file at `path`, relative to the directory. The path cannot leave it: not by "..", not by an
  // absolute path, not by a symbolic link. Links that stay inside are followed where the kernel has openat2
  // (Linux 5.6), and refused elsewhere.
  FileStatus open_file(std::string_view path, OpenFile& file) const;

  // Reads size, version and is_settled anew, from the descriptor.
  static FileStatus refresh(OpenFile& file);

 private:
  explicit ServedDirectory(Descriptor root) noexcept : root_(std::move(root)) {}
  int open_beneath(const std::string& path) const;
  int open_step_by_step(const std::string& path) const;

  Descriptor root_;
};

}  // namespace cli::file
