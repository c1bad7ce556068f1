// SPDX-License-Identifier: Apache-2.0
#include "base/guarded_file.hpp"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/unique_fd.hpp"

namespace ripc::internal {
namespace {

Status check_permissions(const std::string& path, const GuardedFile& rules, const struct stat& info) {
  const std::string file = "The " + std::string(rules.what) + " " + path;
  if (!S_ISREG(info.st_mode)) return Status(RIPC_PERMISSION, file + " is not a plain file: name the file that has it.");
  if (info.st_uid != 0 && info.st_uid != ::geteuid())
    return Status(RIPC_PERMISSION, file + " belongs to the user " + std::to_string(info.st_uid) +
                                       ", who could change it: chown it to user " + std::to_string(::geteuid()) +
                                       " or to root, or name another file with " + std::string(rules.setting) + ".");
  if (rules.is_secret && (info.st_mode & 077) != 0)
    return Status(RIPC_PERMISSION, file + " is open to its group or to others: chmod 600 it, and make a new " +
                                       "key if somebody may have read it.");
  if ((info.st_mode & 022) != 0)
    return Status(RIPC_PERMISSION, file + " can be changed by its group or by others: chmod 644 it, and check it.");
  return {};
}

}  // namespace

GuardedText::~GuardedText() { sodium_memzero(bytes_.data(), bytes_.size()); }

Result<GuardedText> read_guarded_file(const std::string& path, const GuardedFile& rules) {
  const std::string call = "Reading the " + std::string(rules.what) + " " + path;
  const std::string others = "name another file with " + std::string(rules.setting) + "; " + std::string(rules.remedy);
  const auto failed = [&](int error) {
    if (error == ENOMEM) return system_error(error, call, {});
    return system_error(error, call, error == ENOENT ? others : "let this user read it, or " + others);
  };
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return failed(errno);
  GuardedText text;
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return failed(errno);
  if (Status status = check_permissions(path, rules, info); !status.ok()) return status;
  // One byte more reveals a file that is larger than stated.
  text.bytes_.resize(std::min(static_cast<std::size_t>(info.st_size), rules.most) + 1);
  while (text.size_ < text.bytes_.size()) {
    const ssize_t count = ::read(fd.get(), text.bytes_.data() + text.size_, text.bytes_.size() - text.size_);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed(errno);
    if (count == 0) return text;
    text.size_ += static_cast<std::size_t>(count);
  }
  return Status(
      RIPC_INVALID_ARGUMENT,
      "The " + std::string(rules.what) + " " + path + " is larger than " + std::to_string(text.size_ - 1) + " bytes" +
          (text.size_ > rules.most ? ": name the right file." : " all at once: somebody writes it; try again."));
}

std::string_view take_line(std::string_view& text) noexcept {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

std::string_view take_word(std::string_view& line) noexcept {
  line = trimmed(line);
  const std::string_view word = line.substr(0, line.find_first_of(" \t"));
  line.remove_prefix(word.size());
  return word;
}

std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

}  // namespace ripc::internal
