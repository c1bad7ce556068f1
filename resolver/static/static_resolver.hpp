// SPDX-License-Identifier: Apache-2.0
// The static resolver: services whose addresses someone wrote into a file (static_file.hpp).
#pragma once

#include <sys/stat.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "resolver/static/static_file.hpp"
#include "spi/resolver.hpp"

namespace ripc::internal::resolver {

// Thread-safe. The file is read when it is first needed, and again after a change (one stat() for each resolve()).
// While the file is missing or has a mistake, calls fail with a sentence that names the file, and the line.
class StaticResolver final : public spi::Resolver {
 public:
  // Completes a record of the file, or returns why it names no living service.
  using Lookup = std::function<Result<spi::ServiceRecord>(spi::ServiceRecord, Deadline)>;

  // hash_name, hash_group, check_address: see static_file.hpp. All functions are called from any thread.
  StaticResolver(std::string file, NameHash hash_name, NameHash hash_group, AddressCheck check_address, Lookup lookup);

  std::string_view name() const noexcept override { return "static"; }

  // What is wrong with the file. RIPC_INVALID_ARGUMENT: a mistake in it, or it is not a plain file. RIPC_LIMIT: it is
  // larger than 16 MiB. RIPC_PERMISSION, RIPC_NO_DESCRIPTORS, RIPC_SYSTEM (such as: it is missing).
  Status check() { return table().status(); }

  // RIPC_NO_SERVICE: not in the file. Else the errors of check() and of the lookup.
  Result<spi::ServiceRecord> resolve(ripc_service_id id, Deadline deadline) override;

  // These do nothing: only its author changes the file, and resolve() notices edits anyway.
  Status publish(spi::ServiceRecord&, bool, std::vector<spi::ServiceRecord>*) override { return {}; }
  Status update(const spi::ServiceRecord&) override { return {}; }
  void withdraw(const spi::ServiceRecord&) noexcept override {}
  void invalidate(const spi::ServiceRecord&) noexcept override {}
  Status observe(EventLoop&, spi::Observer, spi::Observe) override { return {}; }

  // Both visit the services that the lookup finds, in the order of the file. Errors as check().
  Status members(ripc_service_id group, Deadline deadline, const spi::Visit& visit) override;
  Status list(const spi::Visit& visit) override;

 private:
  struct Table {
    std::vector<spi::ServiceRecord> records;
    std::unordered_map<ripc_service_id, std::size_t> by_id;
  };
  Result<std::shared_ptr<const Table>> table();
  bool is_fresh(const struct stat& info) const noexcept;
  Status read_file(std::string& text, bool& is_whole);

  const std::string file_;
  const NameHash hash_name_;
  const NameHash hash_group_;
  const AddressCheck check_address_;
  const Lookup lookup_;
  std::mutex mutex_;
  std::shared_ptr<const Table> table_;  // nullptr: not read, or a mistake in it (error_)
  Status error_;
  bool was_read_ = false;
  struct stat read_info_ {};  // of the file that table_ or error_ was made from
  Nanoseconds read_at_ = 0;   // wall clock
};

}  // namespace ripc::internal::resolver
