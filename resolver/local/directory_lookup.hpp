// SPDX-License-Identifier: Apache-2.0
// Addresses of the form shm:DIRECTORY name a service by the place where it registers, not by its present process. The
// lookup finds the service in that runtime directory. The address becomes shm:DIRECTORY#CONTEXT, which the
// shared-memory transport understands.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "resolver/local/local_resolver.hpp"
#include "spi/resolver.hpp"

namespace ripc::internal::resolver {

// Thread-safe.
class DirectoryLookup {
 public:
  // peer_policy: the policy with which the directories are opened.
  explicit DirectoryLookup(std::uint32_t peer_policy) noexcept : peer_policy_(peer_policy) {}

  // The record without addresses of directories that have no living holder of its ID. Incarnation, context and pid are
  // those of the first holder that was found. RIPC_NO_SERVICE: no address is left. RIPC_PERMISSION, RIPC_SYSTEM ...: no
  // address is left, and a directory could not be opened.
  Result<spi::ServiceRecord> find(spi::ServiceRecord record, Deadline deadline);

 private:
  Result<LocalResolver*> directory(const std::string& path);

  const std::uint32_t peer_policy_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::unique_ptr<LocalResolver>> directories_;  // by path; few, and never removed
};

}  // namespace ripc::internal::resolver
