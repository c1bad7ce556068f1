// SPDX-License-Identifier: Apache-2.0
#include "memory/mappings.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>

#include "base/unique_fd.hpp"

namespace ripc::memory {

namespace {

// From Linux 5.14; not in all headers.
constexpr int kPopulateWrite = 23;

std::string_view next_word(std::string_view& line) noexcept {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

// "55d0c9a4f000-55d0c9a70000 rw-p 00000000 00:00 0    [heap]"
Mapping parse(std::string_view line) noexcept {
  Mapping mapping;
  const std::string_view addresses = next_word(line);
  const std::size_t dash = addresses.find('-');
  if (dash == std::string_view::npos) return {};
  const char* const text = addresses.data();
  std::from_chars(text, text + dash, mapping.range.start, 16);
  std::from_chars(text + dash + 1, text + addresses.size(), mapping.range.end, 16);
  const std::string_view permissions = next_word(line);
  next_word(line);  // offset
  next_word(line);  // device
  const std::string_view inode = next_word(line);
  const std::string_view name = next_word(line);
  mapping.plain = permissions.starts_with("rw") && permissions.ends_with('p') && inode == "0" &&
                  (name.empty() || name == "[heap]" || name.starts_with("[anon:"));
  return mapping;
}

// Calls visit(mapping) for all mappings in their order, until it returns false.
template <typename Visit>
void visit_mappings(Visit&& visit) noexcept {
  const UniqueFd file(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  if (!file) return;
  // Longer than any line: a path has 4096 bytes at most, but up to four times as many when it is escaped. What does not
  // fit is told apart by its beginning all the same.
  std::array<char, 8192> buffer;
  std::size_t filled = 0;
  bool is_rest = false;  // of a line whose beginning was visited
  for (;;) {
    const ssize_t count = ::read(file.get(), buffer.data() + filled, buffer.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    filled += static_cast<std::size_t>(count);
    std::string_view text(buffer.data(), filled);
    for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
      if (!is_rest && !visit(parse(text.substr(0, end)))) return;
      is_rest = false;
      text.remove_prefix(end + 1);
    }
    if (text.size() == buffer.size()) {
      if (!is_rest && !visit(parse(text))) return;
      is_rest = true;
      text = {};
    }
    std::copy(text.begin(), text.end(), buffer.begin());
    filled = text.size();
  }
}

}  // namespace

std::size_t page_size() noexcept {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

AddressRange pages_of(const void* data, std::size_t size) noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(data);
  const std::size_t mask = page_size() - 1;
  if (size == 0 || size > UINTPTR_MAX - mask - first) return {};
  return {first & ~mask, (first + size + mask) & ~mask};
}

Mapping find_mapping(std::uintptr_t address) noexcept {
  Mapping found;
  visit_mappings([&](const Mapping& mapping) {
    if (mapping.range.end <= address) return true;
    if (mapping.range.start <= address) found = mapping;
    return false;
  });
  return found;
}

bool is_plain_memory(const AddressRange& range) noexcept {
  std::uintptr_t reached = range.start;
  visit_mappings([&](const Mapping& mapping) {
    if (mapping.range.end <= reached) return true;
    if (mapping.range.start > reached || !mapping.plain) return false;
    reached = mapping.range.end;
    return reached < range.end;
  });
  return !range.empty() && reached >= range.end;
}

bool is_resident(const AddressRange& range) noexcept {
  std::array<unsigned char, 4096> pages;
  const std::size_t step = pages.size() * page_size();
  for (std::uintptr_t start = range.start; start < range.end; start += step) {
    const std::size_t size = std::min<std::size_t>(step, range.end - start);
    if (::mincore(reinterpret_cast<void*>(start), size, pages.data()) != 0) return false;
    const auto* const end = pages.data() + (size + page_size() - 1) / page_size();
    if (!std::all_of(pages.cbegin(), end, [](unsigned char page) { return (page & 1) != 0; })) return false;
  }
  return true;
}

bool make_resident(const AddressRange& range) noexcept {
  return ::madvise(reinterpret_cast<void*>(range.start), range.size(), kPopulateWrite) == 0;
}

}  // namespace ripc::memory
