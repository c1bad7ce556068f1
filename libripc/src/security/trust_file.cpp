// SPDX-License-Identifier: Apache-2.0
#include "security/trust_file.hpp"

#include <cerrno>
#include <limits>
#include <new>
#include <utility>

namespace ripc::internal::security {
namespace {

// Other failures of reading a file, such as too few descriptors, may pass while the file stays as it is.
bool is_of_content(ripc_status status) noexcept {
  return status == RIPC_OK || status == RIPC_INVALID_ARGUMENT || status == RIPC_REFUSED || status == RIPC_PERMISSION;
}

}  // namespace

TrustFile::TrustFile(std::string path, Trust::Reading reading) : path_(std::move(path)), reading_(std::move(reading)) {}

TrustFile::TrustFile(std::shared_ptr<const Trust> trust) : trust_(std::move(trust)) {
  look_at_.store(std::numeric_limits<Nanoseconds>::max(), std::memory_order_relaxed);
}

Result<std::shared_ptr<TrustFile>> TrustFile::open(const std::string& path, Trust::Reading reading) {
  // The constructor is private.
  const std::shared_ptr<TrustFile> file(new TrustFile(path, std::move(reading)));
  // Take the stamp first: if the file changes meanwhile, it is read once more.
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) file->stamp_ = stamp_of(info);
  if (Status status = Trust::load(path, file->reading_).move_to(file->trust_); !status.ok()) return status;
  file->look_at_.store(monotonic_now() + kInterval, std::memory_order_relaxed);
  return file;
}

TrustFile::Stamp TrustFile::stamp_of(const struct stat& info) noexcept {
  return {static_cast<std::int64_t>(info.st_dev),
          static_cast<std::int64_t>(info.st_ino),
          static_cast<std::int64_t>(info.st_size),
          info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec,
          info.st_ctim.tv_sec * 1'000'000'000 + info.st_ctim.tv_nsec,
          static_cast<std::int64_t>(info.st_mode),
          static_cast<std::int64_t>(info.st_uid)};
}

std::shared_ptr<const Trust> TrustFile::current() noexcept {
  const Nanoseconds now = monotonic_now();
  Nanoseconds due = look_at_.load(std::memory_order_relaxed);
  // One thread looks at the file; the others use what is known.
  if (now >= due && look_at_.compare_exchange_strong(due, now + kInterval, std::memory_order_relaxed)) (void)look();
  const std::lock_guard lock(mutex_);
  return trust_;
}

Status TrustFile::look() noexcept {
  if (path_.empty()) return {};
  try {
    const std::lock_guard lock(looking_);
    look_now();
    return trouble();
  } catch (const std::bad_alloc&) {
    // The trust in force stays; the next look tries again.
    return RIPC_NO_MEMORY;
  }
}

void TrustFile::look_now() {
  struct stat info {};
  Stamp stamp{};
  if (::stat(path_.c_str(), &info) == 0) {
    stamp = stamp_of(info);
  } else {
    stamp[0] = -errno;
  }
  if (stamp == stamp_) return;
  Result<std::shared_ptr<const Trust>> trust = Trust::load(path_, reading_);
  if (stamp[0] < 0 || is_of_content(trust.status().code())) stamp_ = stamp;
  const bool is_reported = stamp == std::exchange(tried_, stamp);
  const std::lock_guard lock(mutex_);
  if (trust.ok()) {
    trust_ = std::move(*trust);
    trouble_ = {};
    reloads_.fetch_add(1, std::memory_order_relaxed);
  } else {
    trouble_ = trust.status();
    if (!is_reported) failures_.fetch_add(1, std::memory_order_relaxed);
  }
}

Status TrustFile::trouble() const {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

}  // namespace ripc::internal::security
