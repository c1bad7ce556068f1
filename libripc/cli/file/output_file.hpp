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

  // Called before the first byte, when the size is known. Called again (because the file changed at the service), it
  // starts over, or fails if bytes have left this process already. RIPC_SYSTEM with a sentence.
  virtual ripc::Error prepare(std::uint64_t size, std::uint64_t chunk) = 0;
  // Memory for these bytes, which are one chunk. Two consecutive chunks may be in use at once.
  virtual ripc::WritableBytes memory(std::uint64_t offset, std::uint64_t length) = 0;
  // Called when the chunk has arrived, in the order of offsets.
  virtual ripc::Error complete(std::uint64_t offset, std::uint64_t length) = 0;
  // Called when the file is complete; it then appears under its name. Without this call nothing is left behind.
  virtual ripc::Error finish() = 0;
};

inline constexpr unsigned kChunksAtOnce = 2;

// path: a file, which is mapped and appears under its name only when it is complete; "-" or anything but a regular
// file: a stream; empty: nowhere.
ripc::Result<std::unique_ptr<Output>> make_output(const std::string& path);

}  // namespace cli::file
