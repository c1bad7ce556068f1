// SPDX-License-Identifier: Apache-2.0
// A trust file as programs use it: it may change while they run.
#pragma once

#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.hpp"
#include "base/status.hpp"
#include "security/trust.hpp"

namespace ripc::internal::security {

// Any thread.
class TrustFile {
 public:
  // The errors of Trust::load().
  static Result<std::shared_ptr<TrustFile>> open(const std::string& path, Trust::Reading reading);
  // A trust that does not change, for tests.
  explicit TrustFile(std::shared_ptr<const Trust> trust);

  // The trust in force; never null. Looks at the file at most twice a second, and reads it if it was replaced or
  // changed. A file that cannot be used changes nothing; it is counted, and trouble() reports it.
  std::shared_ptr<const Trust> current() noexcept;

  // Looks at the file now. RIPC_OK: the present file is in force. RIPC_NO_MEMORY, and what trouble() reports.
  Status look() noexcept;

  const std::string& path() const noexcept { return path_; }
  // Why the present file is not in force; RIPC_OK: it is.
  Status trouble() const;
  // How many files were accepted and refused since open().
  std::uint64_t reloads() const noexcept { return reloads_.load(std::memory_order_relaxed); }
  std::uint64_t failures() const noexcept { return failures_.load(std::memory_order_relaxed); }

  static constexpr Nanoseconds kInterval = 500'000'000;

 private:
  // Identifies a file's state, to tell whether it is the one that was read.
  using Stamp = std::array<std::int64_t, 7>;
  TrustFile(std::string path, Trust::Reading reading);
  static Stamp stamp_of(const struct stat& info) noexcept;
  void look_now();

  const std::string path_;
  const Trust::Reading reading_;
  std::atomic<Nanoseconds> look_at_{0};
  std::atomic<std::uint64_t> reloads_{0};
  std::atomic<std::uint64_t> failures_{0};
  std::mutex looking_;        // held while the file is read
  Stamp stamp_{};             // of the file that was read last and need not be read again
  mutable std::mutex mutex_;  // all below
  std::shared_ptr<const Trust> trust_;
  Status trouble_;
  Stamp tried_{};  // under looking_: of the last file that the object tried to read
};

}  // namespace ripc::internal::security
