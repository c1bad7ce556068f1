// SPDX-License-Identifier: Apache-2.0
// The asynchronous events of a device: what it reports about itself, its ports and the queues that were made on it.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <unordered_map>

namespace ripc::internal::verbs {

struct VerbsLibrary;

// What is to be done about an event.
enum class Reaction : std::uint8_t {
  nothing,       // it concerns something unused, or reports nothing bad
  look_at_port,  // the port may work again, or have a new address or partition
  lose_port,     // the port does not work
  join_again,    // the subnet manager has forgotten who is in which group
  lose_pair,     // the queue pair has stopped
  lose_queue,    // the completion queue and the queue pairs that complete in it have stopped for good
  lose_device,   // the device has stopped working for good
};
Reaction reaction_to(ibv_event_type type) noexcept;

// The events of one opened device, which nobody else uses. Any thread.
class AsyncEvents {
 public:
  // Gets reactions that concern the device or a port; port 0: all ports. Also gets lose_queue, after the queue's
  // owners.
  using Listener = std::function<void(Reaction reaction, std::uint8_t port)>;
  using ListenerId = std::uint64_t;

  // The thread that reads calls the listeners with this object's lock held, so they must neither wait nor call the
  // object.
  ListenerId listen(Listener listener);
  void listen_no_more(ListenerId id) noexcept;
  // `stopped` is called when this queue pair (lose_pair) or completion queue (lose_queue) has stopped, until forget()
  // has returned. Call forget() before the queue ends.
  void watch(const void* queue, std::function<void()> stopped);
  void forget(const void* queue) noexcept;

  // Takes the device's events and calls the listeners that they concern. False: the device is gone, and all listeners
  // were told so.
  bool read(const VerbsLibrary& library, ibv_context* context);
  // The same for one event; for read(), and tests.
  void tell(const ibv_async_event& event);

 private:
  void tell_listeners_locked(Reaction reaction, std::uint8_t port);

  std::mutex mutex_;
  ListenerId last_id_ = 0;
  std::map<ListenerId, Listener> listeners_;
  std::unordered_map<const void*, std::function<void()>> queues_;
};

}  // namespace ripc::internal::verbs
