// SPDX-License-Identifier: Apache-2.0
#include "core/publication.hpp"

#include <algorithm>
#include <new>

#include "core/service_id.hpp"

namespace ripc::internal::core {

Status Publication::open(bool takeover, std::vector<spi::ServiceRecord>* displaced) {
  // Other threads read the ID and the name meanwhile, so the resolver gets a copy.
  spi::ServiceRecord published = record_;
  published.addresses = paths_.own_addresses();
  Status status = resolver_.publish(published, takeover, displaced);
  const std::lock_guard lock(mutex_);
  record_.incarnation = published.incarnation;
  record_.addresses = std::move(published.addresses);
  incarnation_.store(published.incarnation, std::memory_order_release);
  is_open_ = status.ok();
  return status;
}

Status Publication::publish_addresses() {
  const std::lock_guard lock(mutex_);
  if (!is_open_ || life_.status() != RIPC_OK) return {};
  // Read under the lock: if two threads publish at once, the later one has the newest addresses.
  std::vector<spi::Address> addresses = paths_.own_addresses();
  if (record_.addresses == addresses) return {};
  spi::ServiceRecord changed = record_;
  changed.addresses = std::move(addresses);
  Status status = resolver_.update(changed);
  if (status.ok()) record_.addresses = std::move(changed.addresses);
  return status;
}

Status Publication::change_groups(ripc_service_id group, bool join) {
  if (const ripc_status status = life_.status(); status != RIPC_OK) return status;
  if (Status valid = check_group(group); !valid.ok()) return valid;
  const std::lock_guard lock(mutex_);
  if (record_.is_in(group) == join) return {};
  spi::ServiceRecord changed = record_;
  if (!join) {
    std::erase(changed.groups, group);
  } else if (changed.groups.size() == kMaxGroups) {
    return Status(RIPC_LIMIT, "The service is in 64 groups, which is the most: leave one that is not needed.");
  } else {
    changed.groups.insert(std::upper_bound(changed.groups.begin(), changed.groups.end(), group), group);
  }
  const auto update = [this](const spi::ServiceRecord& record) -> Status {
    try {
      return resolver_.update(record);
    } catch (const std::bad_alloc&) {
      return RIPC_NO_MEMORY;
    }
  };
  Status status = update(changed);
  if (!status.ok()) {
    // Some of the resolvers may have accepted the change.
    (void)update(record_);
    return status;
  }
  record_.groups = std::move(changed.groups);
  groups_.outdate(group);
  return {};
}

void Publication::close(bool withdraws) noexcept {
  const std::lock_guard lock(mutex_);
  if (is_open_ && withdraws) resolver_.withdraw(record_);
  is_open_ = false;
}

}  // namespace ripc::internal::core
