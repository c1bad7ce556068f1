// SPDX-License-Identifier: Apache-2.0
#include "resolver/static/static_resolver.hpp"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "base/file_time.hpp"
#include "base/plain_text.hpp"
#include "base/unique_fd.hpp"

namespace ripc::internal::resolver {
namespace {

constexpr int kReadAttempts = 8;

bool same_version(const struct stat& one, const struct stat& other) noexcept {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino && one.st_size == other.st_size &&
         same_time(one.st_mtim, other.st_mtim) && same_time(one.st_ctim, other.st_ctim);
}

constexpr const char* kAdvice =
    "check RIPC_RESOLVER_FILE or the option static_resolver, and that this user may read it";

}  // namespace

StaticResolver::StaticResolver(std::string file, NameHash hash_name, NameHash hash_group, AddressCheck check_address,
                               Lookup lookup)
    : file_(std::move(file)),
      hash_name_(std::move(hash_name)),
      hash_group_(std::move(hash_group)),
      check_address_(std::move(check_address)),
      lookup_(std::move(lookup)) {}

Result<spi::ServiceRecord> StaticResolver::resolve(ripc_service_id id, Deadline deadline) {
  const Result<std::shared_ptr<const Table>> current = table();
  if (!current.ok()) return current.status();
  const auto found = (*current)->by_id.find(id);
  if (found == (*current)->by_id.end())
    return Status(RIPC_NO_SERVICE,
                  "The service ID " + id_text(id) + " is not in " + file_ + ": add a line for it, or check the ID.");
  return lookup_((*current)->records[found->second], deadline);
}

Status StaticResolver::members(ripc_service_id group, Deadline deadline, const spi::Visit& visit) {
  const Result<std::shared_ptr<const Table>> current = table();
  if (!current.ok()) return current.status();
  for (const spi::ServiceRecord& record : (*current)->records) {
    if (group != 0 && !record.is_in(group)) continue;
    if (const Result<spi::ServiceRecord> found = lookup_(record, deadline); found.ok()) visit(*found);
  }
  return {};
}

Status StaticResolver::list(const spi::Visit& visit) { return members(0, Deadline::after(0), visit); }

bool StaticResolver::is_fresh(const struct stat& info) const noexcept {
  return was_read_ && same_version(info, read_info_) && is_settled(info.st_mtim, read_at_);
}

Result<std::shared_ptr<const StaticResolver::Table>> StaticResolver::table() {
  const std::lock_guard lock(mutex_);
  struct stat info {};
  if (::stat(file_.c_str(), &info) != 0)
    return system_error(errno, "Reading the file of known services " + file_, kAdvice);
  if (!is_fresh(info)) {
    // Without memory for all of this, the next call reads again.
    was_read_ = false;
    std::string text;
    bool is_whole = false;
    if (Status status = read_file(text, is_whole); !status.ok()) return status;
    Result<std::vector<spi::ServiceRecord>> records =
        parse_static_file(text, file_, hash_name_, hash_group_, check_address_);
    std::shared_ptr<Table> fresh;
    if (records.ok()) {
      fresh = std::make_shared<Table>();
      fresh->records = std::move(*records);
      for (std::size_t i = 0; i < fresh->records.size(); ++i) fresh->by_id.emplace(fresh->records[i].id, i);
    }
    table_ = std::move(fresh);
    error_ = records.status();
    was_read_ = is_whole;
  }
  if (table_ == nullptr) return error_;
  return table_;
}

// Also notes which version was read. Reads again if the file was changed meanwhile. is_whole: it was not changed.
Status StaticResolver::read_file(std::string& text, bool& is_whole) {
  for (int attempt = 0; attempt < kReadAttempts; ++attempt) {
    const UniqueFd fd(::open(file_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!fd) return system_error(errno, "Reading the file of known services " + file_, kAdvice);
    const Nanoseconds started = realtime_now();
    struct stat before {
    }, after{};
    if (::fstat(fd.get(), &before) != 0) return system_error(errno, "Looking at " + file_);
    if (!S_ISREG(before.st_mode))
      return Status(RIPC_INVALID_ARGUMENT,
                    "The file of known services " + file_ + " is not a plain file: " + kAdvice + ".");
    if (static_cast<std::uint64_t>(before.st_size) > kMaxStaticFileSize)
      return Status(RIPC_LIMIT, "The file of known services " + file_ +
                                    " is larger than 16 MiB: split it, or use another "
                                    "resolver.");
    text.resize(static_cast<std::size_t>(before.st_size));
    std::size_t size = 0;
    while (size < text.size()) {
      const ssize_t count = ::read(fd.get(), text.data() + size, text.size() - size);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return system_error(errno, "Reading the file of known services " + file_);
      if (count == 0) break;
      size += static_cast<std::size_t>(count);
    }
    text.resize(size);
    if (::fstat(fd.get(), &after) != 0) return system_error(errno, "Looking at " + file_);
    read_info_ = after;
    read_at_ = started;
    is_whole = same_version(before, after);
    if (is_whole) return {};
  }
  // The file keeps changing: take this text, and look again next time.
  return {};
}

}  // namespace ripc::internal::resolver
