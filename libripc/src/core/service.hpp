// SPDX-License-Identifier: Apache-2.0
// A registered service: the face of the parts that send, receive and publish for it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/context.hpp"
#include "core/publication.hpp"
#include "core/receive/receiver.hpp"
#include "core/send/room.hpp"
#include "core/send/sends.hpp"
#include "core/state/notification.hpp"
#include "core/state/requests.hpp"
#include "core/state/service_life.hpp"
#include "core/state/window_queue.hpp"

namespace ripc::core {

class Service final {
 public:
  Service(Context& context, const ServiceOptions& options, EventSet events);
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Opens a port on each transport, then makes the service findable.
  Status open(std::vector<std::unique_ptr<spi::Transport>>& transports);
  // Withdraws it and ends what it has under way.
  void close() noexcept;
  // Its ID has another holder.
  void fence() noexcept;

  Context& context() noexcept { return context_; }
  Publication& publication() noexcept { return publication_; }
  const Publication& publication() const noexcept { return publication_; }
  ripc_service_id id() const noexcept { return publication_.id(); }
  const std::string& name() const noexcept { return publication_.name(); }
  std::uint64_t incarnation() const noexcept { return publication_.incarnation(); }

  // ---- Any thread ----
  [[gnu::always_inline]] ripc_status send_short(ripc_service_id to, std::uint32_t tag,
                                                std::span<const ripc_item> items) noexcept {
    return sends_.send_short(to, tag, items);
  }
  Status send(const SendArguments& arguments, std::shared_ptr<Ticket>* ticket) {
    return sends_.send(arguments, ticket);
  }
  Status send_many(const SendArguments& each, std::span<const ripc_outgoing> messages,
                   std::span<std::shared_ptr<Ticket>> tickets, std::size_t& sent) {
    return sends_.send_many(each, messages, tickets, sent);
  }
  Status notify(ripc_service_id to, std::uint64_t handle, std::span<const ripc_item> items) {
    return sends_.notify(to, handle, items);
  }
  Result<std::size_t> short_limit(ripc_service_id to, std::size_t items) { return sends_.short_limit(to, items); }
  Status cancel_request(std::uint64_t id);
  Status wait_room(ripc_service_id to, Deadline deadline) { return room_.wait(to, deadline); }
  Status request_room_event(ripc_service_id to) { return room_.request_event(to); }
  void room_changed() noexcept { room_.changed(); }

  WindowQueue& windows() noexcept { return windows_; }
  NotificationTable& notifications() noexcept { return *notifications_; }
  void interrupt() noexcept;
  int event_fd() noexcept { return life_.use_fd(); }
  void fill_statistics(ripc_service_statistics& statistics) const noexcept;

  // ---- One thread at a time ----
  [[gnu::always_inline]] ripc_status receive(std::uint32_t flags, Nanoseconds timeout, std::span<Message*> messages,
                                             std::size_t& count) noexcept {
    return receiver_.receive(flags, timeout, messages, count);
  }

 private:
  Context& context_;
  const ServiceOptions options_;
  ServiceLife life_;
  WindowQueue windows_;
  RequestTable requests_;
  std::shared_ptr<NotificationTable> notifications_;
  Publication publication_;
  Sends sends_;
  Room room_;
  Receiver receiver_;
};

}  // namespace ripc::core
