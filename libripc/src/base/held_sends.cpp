// SPDX-License-Identifier: Apache-2.0
#include "base/held_sends.hpp"

#include <new>

namespace ripc::internal {

void HeldSends::add(std::weak_ptr<HeldSends> held) noexcept try {
  auto& all = ThreadEpoch::current().held;
  // A thread that never waits adds the same ones again and again.
  std::erase_if(all,
                [&](const auto& one) { return one.expired() || (!one.owner_before(held) && !held.owner_before(one)); });
  all.push_back(std::move(held));
} catch (const std::bad_alloc&) {
}

void HeldSends::let_go_of(ThreadEpoch::Record& record) noexcept {
  for (const auto& one : record.held) {
    if (const auto held = one.lock()) held->let_go();
  }
  record.held.clear();
}

}  // namespace ripc::internal
