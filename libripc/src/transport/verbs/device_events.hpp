// SPDX-License-Identifier: Apache-2.0
// What a device says unasked of itself and its ports: reading its queue of asynchronous events.
//
// It has a device context of its own. librdmacm's is shared by all that use librdmacm in this process, and each event
// is given to one reader; what concerns the whole device is told to every context. What concerns a single queue pair
// shows in its completions, too, and is acted on there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/event_loop.hpp"
#include "base/fork_guard.hpp"
#include "base/status.hpp"
#include "transport/verbs/fabric.hpp"

namespace ripc::verbs {

// Responder only, but for the creation.
class DeviceEvents {
 public:
  // What has become of a port: it works, it works no more, or its addresses are others. 0: none of the device's works,
  // for good; nothing comes after that.
  enum class Change : std::uint8_t { up, down, address };
  using Handler = std::function<void(std::uint8_t port, Change change)>;

  // The handler is called from the loop only. The errors of the system: the device cannot be opened once more.
  static Result<std::unique_ptr<DeviceEvents>> open(DevicePointer device, EventLoop& loop, Handler handler);
  ~DeviceEvents();
  DeviceEvents(const DeviceEvents&) = delete;
  DeviceEvents& operator=(const DeviceEvents&) = delete;

  // Whether a port works, and has the address that it had when the fabric was opened, as the device says now.
  bool is_up(const FabricPort& port) const noexcept;

 private:
  DeviceEvents(DevicePointer device, EventLoop& loop, Handler handler)
      : device_(std::move(device)), loop_(loop), handler_(std::move(handler)) {}
  void on_events();
  void close() noexcept;

  const DevicePointer device_;
  EventLoop& loop_;
  const Handler handler_;
  ibv_context* context_ = nullptr;
  ForkGuard command_guard_, event_guard_;
};

}  // namespace ripc::verbs
