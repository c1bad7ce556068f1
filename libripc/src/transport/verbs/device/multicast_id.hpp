// SPDX-License-Identifier: Apache-2.0
// An id of librdmacm that is in one group of the network.
#pragma once

#include <optional>

#include "remote/session/endpoint.hpp"
#include "transport/verbs/device/connection_manager.hpp"

namespace ripc::internal::verbs {

// One thread at a time. The end of the id leaves the group. The kernel would do so, but librdmacm frees what it keeps
// of a group only when it is told to leave it.
class MulticastId final : public Id {
 public:
  using Id::Id;
  ~MulticastId() { leave(); }

  // Once. False: see errno.
  bool join(const remote::Endpoint& group) noexcept {
    if (library().join_multicast(get(), const_cast<sockaddr*>(group.address()), nullptr) != 0) return false;
    group_ = group;
    return true;
  }
  // Waits until no event of the id is held that was not given back.
  void leave() noexcept {
    if (group_) (void)library().leave_multicast(get(), const_cast<sockaddr*>(group_->address()));
    group_.reset();
  }

 private:
  std::optional<remote::Endpoint> group_;
};

}  // namespace ripc::internal::verbs
