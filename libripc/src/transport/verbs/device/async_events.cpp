// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/device/async_events.hpp"

#include <errno.h>

#include <utility>

#include "transport/verbs/device/verbs_library.hpp"

namespace ripc::internal::verbs {

Reaction reaction_to(ibv_event_type type) noexcept {
  switch (type) {
    case IBV_EVENT_CQ_ERR:
      return Reaction::lose_queue;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      return Reaction::lose_pair;
    case IBV_EVENT_DEVICE_FATAL:
      return Reaction::lose_device;
    case IBV_EVENT_PORT_ERR:
      return Reaction::lose_port;
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_GID_CHANGE:
      return Reaction::look_at_port;
    case IBV_EVENT_CLIENT_REREGISTER:
      return Reaction::join_again;
    // A new subnet manager asks for what it needs (above). The others concern features that are not used (shared
    // receive queues, alternate paths, work queues, the draining of a queue pair), or show in the connection's
    // handshake.
    default:
      return Reaction::nothing;
  }
}

AsyncEvents::ListenerId AsyncEvents::listen(Listener listener) {
  const std::lock_guard lock(mutex_);
  listeners_[++last_id_] = std::move(listener);
  return last_id_;
}

void AsyncEvents::listen_no_more(ListenerId id) noexcept {
  const std::lock_guard lock(mutex_);
  listeners_.erase(id);
}

void AsyncEvents::watch(const void* queue, std::function<void()> stopped) {
  const std::lock_guard lock(mutex_);
  queues_[queue] = std::move(stopped);
}

void AsyncEvents::forget(const void* queue) noexcept {
  const std::lock_guard lock(mutex_);
  queues_.erase(queue);
}

void AsyncEvents::tell_listeners_locked(Reaction reaction, std::uint8_t port) {
  for (const auto& [id, listener] : listeners_) listener(reaction, port);
}

void AsyncEvents::tell(const ibv_async_event& event) {
  const std::lock_guard lock(mutex_);
  const Reaction reaction = reaction_to(event.event_type);
  switch (reaction) {
    case Reaction::nothing:
      break;
    case Reaction::look_at_port:
    case Reaction::lose_port:
    case Reaction::join_again:
      tell_listeners_locked(reaction, static_cast<std::uint8_t>(event.element.port_num));
      break;
    case Reaction::lose_pair:
    case Reaction::lose_queue: {
      const void* const queue = reaction == Reaction::lose_pair ? static_cast<const void*>(event.element.qp)
                                                                : static_cast<const void*>(event.element.cq);
      // If it is missing, the queue is about to end.
      if (const auto found = queues_.find(queue); found != queues_.end()) found->second();
      if (reaction == Reaction::lose_queue) tell_listeners_locked(reaction, 0);
      break;
    }
    case Reaction::lose_device:
      tell_listeners_locked(reaction, 0);
      break;
  }
}

bool AsyncEvents::read(const VerbsLibrary& library, ibv_context* context) {
  ibv_async_event event{};
  while (library.get_async_event(context, &event) == 0) {
    // Tell the listeners before giving the event back, because a queue cannot end while one of its events is held.
    tell(event);
    library.ack_async_event(&event);
    if (reaction_to(event.event_type) == Reaction::lose_device) return false;
  }
  if (errno == EAGAIN || errno == EINTR) return true;
  // The event queue has ended, as it does after the removal of the device, and would stay readable for ever.
  const std::lock_guard lock(mutex_);
  tell_listeners_locked(Reaction::lose_device, 0);
  return false;
}

}  // namespace ripc::internal::verbs
