// SPDX-License-Identifier: Apache-2.0
// Sends the messages of calls for a service.
#pragma once

#include "core/service.hpp"
#include "rpc/messenger.hpp"

namespace ripc::internal::rpc {

class ServiceMessenger final : public Messenger {
 public:
  explicit ServiceMessenger(core::Service& service) noexcept : service_(service) {}

  std::uint64_t incarnation() const noexcept override { return service_.incarnation(); }
  Nanoseconds now() const noexcept override { return monotonic_now(); }
  Nanoseconds rough_now() const noexcept override { return internal::rough_now(); }
  Nanoseconds resolve_timeout() const noexcept override { return service_.context().resolve_timeout(); }
  Path path(ripc_service_id to) noexcept override;
  ripc_status send_short(ripc_service_id to, std::span<const ripc_item> items, bool& loses) noexcept override {
    return service_.sender().send_short(to, 0, items, &loses, kMostRepeated);
  }
  Status send(const core::SendArguments& arguments, std::shared_ptr<core::Ticket>* ticket) override {
    return service_.sender().send(arguments, ticket);
  }
  Status check_given(std::span<const ripc_item> items) override;
  void release_given(std::span<const ripc_item> items) noexcept override;
  void ask_for_room(ripc_service_id to) noexcept override { (void)service_.request_room_event(to); }
  void end_request(std::uint64_t request, Deadline deadline) noexcept override {
    (void)service_.cancel_request(request, deadline);
  }
  std::shared_ptr<const core::GroupList> members(ripc_service_id group) override {
    return service_.context().groups().known(group);
  }
  Search find_path(ripc_service_id to, std::function<void(ripc_status)> report) override;
  void wake() noexcept override { service_.end_wait(); }

 private:
  core::Service& service_;
};

}  // namespace ripc::internal::rpc
