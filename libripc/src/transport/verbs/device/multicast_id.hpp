// SPDX-License-Identifier: Apache-2.0
// An id of librdmacm that is in one group of the network.
#pragma once

#include <optional>

#include "remote/session/endpoint.hpp"
#include "transport/verbs/device/connection_manager.hpp"

namespace ripc::internal::verbs {

// One thread at a time. The destructor leaves the group. The kernel would do so anyway, but librdmacm frees its data
// about a group only when told to leave it.
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
  // Waits until all events of the id have been given back.
  void leave() noexcept {
    if (group_) (void)library().leave_multicast(get(), const_cast<sockaddr*>(group_->address()));
    group_.reset();
  }

 private:
  std::optional<remote::Endpoint> group_;
};

}  // namespace ripc::internal::verbs
