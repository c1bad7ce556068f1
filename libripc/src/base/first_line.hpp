// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

namespace ripc::internal {

// The first line of a file of the kernel, which has at most 255 bytes; "" if it cannot be read. Any thread.
inline std::string first_line(const char* path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path, "re"), &std::fclose);
  std::array<char, 256> line{};
  if (!file || std::fgets(line.data(), line.size(), file.get()) == nullptr) return {};
  return {line.data(), std::strcspn(line.data(), "\n")};
}

}  // namespace ripc::internal
