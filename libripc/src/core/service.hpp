// SPDX-License-Identifier: Apache-2.0
// A registered service: the common interface of the parts that send, receive and publish for it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "core/context.hpp"
#include "core/publication.hpp"
#include "core/receive/receiver.hpp"
#include "core/send/room.hpp"
#include "core/send/sender.hpp"
#include "core/state/notification.hpp"
#include "core/state/requests.hpp"
#include "core/state/service_life.hpp"
#include "core/state/window_queue.hpp"

namespace ripc::internal::core {

class Service final {
 public:
  Service(Context& context, const ServiceOptions& options, EventSet events);

  // Opens a port on each transport, then makes the service findable.
  Status open(std::vector<std::unique_ptr<spi::Transport>>& transports);
  // Withdraws the service and ends its messages in progress.
  void close() noexcept;
  // Called when its ID has another holder.
  void fence() noexcept;

  Context& context() noexcept { return context_; }
  Publication& publication() noexcept { return publication_; }
  ripc_service_id id() const noexcept { return publication_.id(); }
  const std::string& name() const noexcept { return publication_.name(); }
  std::uint64_t incarnation() const noexcept { return publication_.incarnation(); }

  // ---- Any thread ----
  Sender& sender() noexcept { return sender_; }
  Status cancel_request(std::uint64_t id, Deadline deadline = Deadline::after(RequestTable::kWritePatience));
  Status wait_room(ripc_service_id to, Deadline deadline) { return room_.wait(to, deadline); }
  Status request_room_event(ripc_service_id to) { return room_.request_event(to); }
  // Called by the responder when paths were lost, or when there may be room.
  void changed() noexcept;
  // Sets the function that runs with every change from now on; null: none. False: another one is set already.
  bool observe(std::shared_ptr<const std::function<void()>> observer) noexcept;

  WindowQueue& windows() noexcept { return windows_; }
  NotificationTable& notifications() noexcept { return *notifications_; }
  void interrupt() noexcept;
  // Ends the waiting receive, or the next one that would wait, with RIPC_TIMEOUT.
  void end_wait() noexcept { life_.end_wait(); }
  int event_fd() noexcept { return life_.use_fd(); }
  void fill_statistics(ripc_service_statistics& statistics) const noexcept;

  // ---- One thread at a time ----
  // RIPC_INVALID_ARGUMENT: another thread receives.
  [[gnu::always_inline]] ripc_status receive(std::uint32_t flags, Nanoseconds timeout, std::span<Message*> messages,
                                             std::size_t& count) noexcept {
    return receiver_.receive(flags, timeout, messages, count);
  }
  // Receiver::came_after().
  Nanoseconds came_after() const noexcept { return receiver_.came_after(); }
  // Whether there are messages whose long items are still on their way.
  bool has_incomplete() const noexcept { return receiver_.has_incomplete(); }
  // Drops them; their senders get RIPC_REFUSED. False: there are none.
  bool refuse_incomplete() noexcept { return receiver_.refuse_incomplete(); }

 private:
  Context& context_;
  const ServiceOptions options_;
  ServiceLife life_;
  WindowQueue windows_;
  RequestTable requests_;
  std::shared_ptr<NotificationTable> notifications_;
  Publication publication_;
  Sender sender_;
  Room room_;
  Receiver receiver_;
  std::mutex observer_mutex_;
  std::shared_ptr<const std::function<void()>> observer_;
};

}  // namespace ripc::internal::core
