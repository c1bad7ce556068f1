// SPDX-License-Identifier: Apache-2.0
#include "resolver/local/referral_resolver.hpp"

namespace ripc::resolver {

ReferralResolver::ReferralResolver(std::unique_ptr<spi::Resolver> inner, std::uint32_t peer_policy)
    : inner_(std::move(inner)), peer_policy_(peer_policy) {}

ReferralResolver::~ReferralResolver() = default;

Result<spi::ServiceRecord> ReferralResolver::resolve(ripc_service_id id, Deadline deadline) {
  Result<spi::ServiceRecord> record = inner_->resolve(id, deadline);
  if (!record.ok()) return record;
  return follow(std::move(*record), deadline);
}

Result<spi::ServiceRecord> ReferralResolver::follow(spi::ServiceRecord record, Deadline deadline) {
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

Result<LocalResolver*> ReferralResolver::directory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<LocalResolver>& known = directories_[path];
  if (!known) {
    Result<std::shared_ptr<RuntimeDirectory>> opened = RuntimeDirectory::open(path.c_str(), peer_policy_);
    if (!opened.ok()) return opened.status();
    // No context of ours registers there, so none is taken for alive unasked.
    known = std::make_unique<LocalResolver>(std::move(*opened), 0);
  }
  return known.get();
}

Status ReferralResolver::publish(spi::ServiceRecord& record, bool takeover,
                                 std::vector<spi::ServiceRecord>* displaced) {
  return inner_->publish(record, takeover, displaced);
}

Status ReferralResolver::update(const spi::ServiceRecord& record) { return inner_->update(record); }

Status ReferralResolver::members(ripc_service_id group, Deadline deadline,
                                 const std::function<void(const spi::ServiceRecord&)>& visit) {
  return inner_->members(group, deadline, [&](const spi::ServiceRecord& record) {
    const Result<spi::ServiceRecord> followed = follow(record, deadline);
    if (followed.ok()) visit(*followed);
  });
}

void ReferralResolver::withdraw(const spi::ServiceRecord& record) noexcept { inner_->withdraw(record); }

void ReferralResolver::invalidate(const spi::ServiceRecord& record) noexcept { inner_->invalidate(record); }

Status ReferralResolver::list(const std::function<void(const spi::ServiceRecord&)>& visit) {
  return inner_->list([&](const spi::ServiceRecord& record) {
    const Result<spi::ServiceRecord> followed = follow(record, Deadline::after(0));
    if (followed.ok()) visit(*followed);
  });
}

}  // namespace ripc::resolver
