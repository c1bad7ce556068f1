// SPDX-License-Identifier: Apache-2.0
// Where a fetched file goes. The bytes land in memory() directly: windows and return buffers are posted over it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ripc/ripc.hpp"

namespace cli::file {

// One thread at a time.
class Output {
 public:
  virtual ~Output() = default;

  // Before the first byte, when the size is known. Asked again (the file changed at the service): starts over, or fails
  // if bytes left this process already. RIPC_SYSTEM with a sentence.
  virtual ripc::Error prepare(std::uint64_t size, std::uint64_t chunk) = 0;
  // Memory for these bytes, which are one chunk. Two chunks that follow one another may be in use at once.
  virtual ripc::WritableBytes memory(std::uint64_t offset, std::uint64_t length) = 0;
  // The chunk is there. In order of offsets.
  virtual ripc::Error complete(std::uint64_t offset, std::uint64_t length) = 0;
  // The file is whole: from now on it can be seen under its name. Without this call nothing is left behind.
  virtual ripc::Error finish() = 0;
};

inline constexpr unsigned kChunksAtOnce = 2;

// path: a file, which is mapped and appears under its name only when it is whole; "-" or what is no regular file: a
// stream; empty: nowhere.
ripc::Result<std::unique_ptr<Output>> make_output(const std::string& path);

}  // namespace cli::file
