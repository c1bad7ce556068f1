// SPDX-License-Identifier: Apache-2.0
// Files that decide who is trusted: keys, which no one else may read, and lists, which no one else may write.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace ripc::internal {

// How messages describe a file, and what it may be.
struct GuardedFile {
  std::string_view what;     // "cluster key file"
  std::string_view setting;  // the variable that can name another file
  std::string_view remedy;   // what else to do: "`ripc key new` makes one"
  std::size_t most = 0;      // bytes
  bool is_secret = true;     // false: others may read it
};

// The text of a file; it is overwritten on destruction.
class GuardedText {
 public:
  GuardedText() noexcept = default;
  GuardedText(GuardedText&& other) noexcept = default;
  GuardedText& operator=(GuardedText&& other) = delete;
  ~GuardedText();

  std::string_view view() const noexcept { return {bytes_.data(), size_}; }

 private:
  friend Result<GuardedText> read_guarded_file(const std::string& path, const GuardedFile& rules);
  std::vector<char> bytes_;
  std::size_t size_ = 0;
};

// Reads a plain file that this user or root owns. Its group and others may not write it, nor read it if it is secret.
// RIPC_PERMISSION: the file breaks these rules, or this user may not read it. RIPC_INVALID_ARGUMENT: it is too large,
// or grows meanwhile. RIPC_NO_DESCRIPTORS, RIPC_SYSTEM (for example, the file is missing).
Result<GuardedText> read_guarded_file(const std::string& path, const GuardedFile& rules);

// Removes the next line from the text and returns it without its line end.
std::string_view take_line(std::string_view& text) noexcept;
// Removes the next word from the line and returns it; empty: there is none.
std::string_view take_word(std::string_view& line) noexcept;
// The text without blanks at both ends.
std::string_view trimmed(std::string_view text) noexcept;

}  // namespace ripc::internal
