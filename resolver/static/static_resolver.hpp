// SPDX-License-Identifier: Apache-2.0
// The static resolver: services whose addresses somebody wrote into a file (static_file.hpp). It does not know whether
// they are alive.
#pragma once

#include <sys/stat.h>

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "resolver/static/static_file.hpp"
#include "spi/resolver.hpp"

namespace ripc::resolver {

// Thread-safe. The file is read when it is first needed and again when it was changed (one stat() for each resolve()).
// While it is missing or has a mistake, resolve() and list() fail with a sentence that names the file, and the line.
class StaticResolver final : public spi::Resolver {
 public:
  // hash_name, hash_group: see static_file.hpp; called from any thread.
  StaticResolver(std::string file, NameHash hash_name, NameHash hash_group);
  ~StaticResolver() override;

  std::string_view name() const noexcept override { return "static"; }

  // RIPC_NO_SERVICE: not in the file. RIPC_INVALID_ARGUMENT: a mistake in the file, or it is not a plain file.
  // RIPC_LIMIT: it is larger than 16 MiB. RIPC_PERMISSION, RIPC_NO_DESCRIPTORS, RIPC_SYSTEM (such as: it is missing).
  Result<spi::ServiceRecord> resolve(ripc_service_id id, Deadline deadline) override;

  // Does nothing, RIPC_OK: the file is its author's.
  Status publish(spi::ServiceRecord& record, bool takeover, std::vector<spi::ServiceRecord>* displaced) override;
  Status update(const spi::ServiceRecord& record) override;
  void withdraw(const spi::ServiceRecord& record) noexcept override;
  // Does nothing: only an edit makes the file say something else, and that is noticed anyway.
  void invalidate(const spi::ServiceRecord& record) noexcept override;

  // Visits the services of the file that have the group in their line, alive or not. The errors of resolve().
  Status members(ripc_service_id group, Deadline deadline,
                 const std::function<void(const spi::ServiceRecord&)>& visit) override;

  // Visits every service of the file in its order, alive or not. The errors of resolve().
  Status list(const std::function<void(const spi::ServiceRecord&)>& visit) override;

 private:
  struct Table {
    std::vector<spi::ServiceRecord> records;
    std::unordered_map<ripc_service_id, std::size_t> by_id;
  };
  Result<std::shared_ptr<const Table>> table();
  bool is_fresh(const struct stat& info) const noexcept;
  Status read_file(std::string& text);

  const std::string file_;
  const NameHash hash_name_;
  const NameHash hash_group_;
  std::mutex mutex_;
  std::shared_ptr<const Table> table_;  // nullptr: not read, or a mistake in it (error_)
  Status error_;
  bool was_read_ = false;
  struct stat read_info_ {};  // of what table_ or error_ was made from
  Nanoseconds read_at_ = 0;   // wall clock
};

}  // namespace ripc::resolver
