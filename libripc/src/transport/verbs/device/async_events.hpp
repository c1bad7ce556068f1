// SPDX-License-Identifier: Apache-2.0
// What a device says unasked, of itself, its ports and the queues that were made on it: its asynchronous events.
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
  nothing,       // it tells of what is not used, or of nothing bad
  look_at_port,  // the port may work again, or have another address or partition
  lose_port,     // the port does not work
  join_again,    // the subnet manager has forgotten who is in which group
  lose_pair,     // the queue pair has stopped
  lose_queue,    // the completion queue takes nothing any more, for good, nor do the queue pairs that complete in it
  lose_device,   // nothing of it works any more, for good
};
Reaction reaction_to(ibv_event_type type) noexcept;

// Of one opened device, which is used by nobody else. Any thread.
class AsyncEvents {
 public:
  // What concerns the device or a port; number 0: all of them. And lose_queue, after the owners of the queue.
  using Listener = std::function<void(Reaction reaction, std::uint8_t port)>;
  using ListenerId = std::uint64_t;

  // Listeners are called by the thread that reads, with the lock of this object held: they must not wait, nor call it.
  ListenerId listen(Listener listener);
  void listen_no_more(ListenerId id) noexcept;
  // `stopped` is called when this queue pair (lose_pair) or completion queue (lose_queue) has stopped. Until forget()
  // has returned, which comes before the end of the queue.
  void watch(const void* queue, std::function<void()> stopped);
  void forget(const void* queue) noexcept;

  // Takes what the device has said and calls the listeners that it concerns. False: it is gone, which all listeners
  // were told.
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
