// SPDX-License-Identifier: Apache-2.0
// Follows addresses of the form shm:DIRECTORY: the service is looked up in that runtime directory, and the address
// becomes shm:DIRECTORY#CONTEXT, which the shared-memory transport understands. Lets a file of known services name a
// service by where it registers, not by what process it is today.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/runtime_directory.hpp"
#include "resolver/local/local_resolver.hpp"
#include "spi/resolver.hpp"

namespace ripc::resolver {

class ReferralResolver final : public spi::Resolver {
 public:
  // inner: where the addresses come from; it answers everything else. peer_policy: for opening the directories.
  ReferralResolver(std::unique_ptr<spi::Resolver> inner, std::uint32_t peer_policy);
  ~ReferralResolver() override;

  std::string_view name() const noexcept override { return inner_->name(); }

  // The inner record. An address that names a directory without a living holder of the ID is left out; if no address is
  // left, RIPC_NO_SERVICE. Incarnation, context and pid are those of the first holder that was found. RIPC_PERMISSION,
  // RIPC_SYSTEM ...: a directory could not be opened and no other address is left.
  Result<spi::ServiceRecord> resolve(ripc_service_id id, Deadline deadline) override;

  Status publish(spi::ServiceRecord& record, bool takeover, std::vector<spi::ServiceRecord>* displaced) override;
  Status update(const spi::ServiceRecord& record) override;
  void withdraw(const spi::ServiceRecord& record) noexcept override;
  void invalidate(const spi::ServiceRecord& record) noexcept override;

  // Visits the inner resolver's members that have a living holder, with the addresses that resolve() gives.
  Status members(ripc_service_id group, Deadline deadline,
                 const std::function<void(const spi::ServiceRecord&)>& visit) override;

  // Visits the services of the inner resolver that have a living holder, with the addresses that resolve() gives.
  Status list(const std::function<void(const spi::ServiceRecord&)>& visit) override;

 private:
  Result<spi::ServiceRecord> follow(spi::ServiceRecord record, Deadline deadline);
  Result<LocalResolver*> directory(const std::string& path);

  const std::unique_ptr<spi::Resolver> inner_;
  const std::uint32_t peer_policy_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::unique_ptr<LocalResolver>> directories_;
};

}  // namespace ripc::resolver
