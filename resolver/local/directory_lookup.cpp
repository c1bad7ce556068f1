// SPDX-License-Identifier: Apache-2.0
#include "resolver/local/directory_lookup.hpp"

#include <utility>
#include <vector>

#include "base/runtime_directory.hpp"

namespace ripc::internal::resolver {

Result<spi::ServiceRecord> DirectoryLookup::find(spi::ServiceRecord record, Deadline deadline) {
  Status failure = RIPC_NO_SERVICE;
  std::vector<spi::Address> addresses;
  for (spi::Address& address : record.addresses) {
    if (address.transport != "shm" || address.locator.find('#') != std::string::npos) {
      addresses.push_back(std::move(address));
      continue;
    }
    Result<LocalResolver*> local = directory(address.locator);
    if (!local.ok()) {
      failure = local.status();
      continue;
    }
    const Result<spi::ServiceRecord> holder = (*local)->resolve(record.id, deadline);
    if (!holder.ok()) continue;
    for (const spi::Address& found : holder->addresses) {
      if (found.transport == "shm") addresses.push_back({"shm", address.locator + found.locator});
    }
    if (record.context != 0) continue;
    record.context = holder->context;
    record.incarnation = holder->incarnation;
    record.pid = holder->pid;
    if (record.name.empty()) record.name = holder->name;
  }
  if (addresses.empty()) return failure;
  record.addresses = std::move(addresses);
  return record;
}

Result<LocalResolver*> DirectoryLookup::directory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<LocalResolver>& known = directories_[path];
  if (!known) {
    Result<std::shared_ptr<RuntimeDirectory>> opened = RuntimeDirectory::open(path.c_str(), peer_policy_);
    if (!opened.ok()) return opened.status();
    // No context of ours registers there, so every context is probed.
    known = std::make_unique<LocalResolver>(std::move(*opened), 0);
  }
  return known.get();
}

}  // namespace ripc::internal::resolver
