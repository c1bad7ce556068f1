// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/device_events.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>

#include <cstring>
#include <utility>

namespace ripc::verbs {

Result<std::unique_ptr<DeviceEvents>> DeviceEvents::open(DevicePointer device, EventLoop& loop, Handler handler) {
  std::unique_ptr<DeviceEvents> events(new DeviceEvents(std::move(device), loop, std::move(handler)));
  ibv_context* const context = events->device_->library->open_device(events->device_->context->device);
  if (context == nullptr) return system_error(errno, "ibv_open_device", "see `ripc doctor`");
  events->context_ = context;
  events->command_guard_ = ForkGuard(context->cmd_fd);
  events->event_guard_ = ForkGuard(context->async_fd);
  (void)fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK);
  Status status = loop.add(context->async_fd, EPOLLIN, [raw = events.get()](std::uint32_t) { raw->on_events(); });
  if (!status.ok()) return status;
  return events;
}

DeviceEvents::~DeviceEvents() { close(); }

void DeviceEvents::close() noexcept {
  if (context_ == nullptr) return;
  loop_.remove(context_->async_fd);
  command_guard_.reset();
  event_guard_.reset();
  (void)device_->library->close_device(std::exchange(context_, nullptr));
}

bool DeviceEvents::is_up(const FabricPort& port) const noexcept {
  ibv_port_attr attributes{};
  if (context_ == nullptr || !device_->library->read_port(context_, port.number, attributes) ||
      attributes.state != IBV_PORT_ACTIVE)
    return false;
  if (port.mtu == 0) return true;
  ibv_gid gid{};
  return attributes.lid == port.lid && device_->library->query_gid(context_, port.number, port.gid_index, &gid) == 0 &&
         std::memcmp(gid.raw, port.gid.raw, sizeof gid.raw) == 0;
}

void DeviceEvents::on_events() {
  ibv_async_event event{};
  bool gone = false;
  while (!gone && device_->library->get_async_event(context_, &event) == 0) {
    device_->library->ack_async_event(&event);
    switch (event.event_type) {
      case IBV_EVENT_PORT_ACTIVE:
        handler_(static_cast<std::uint8_t>(event.element.port_num), Change::up);
        break;
      case IBV_EVENT_PORT_ERR:
        handler_(static_cast<std::uint8_t>(event.element.port_num), Change::down);
        break;
      case IBV_EVENT_LID_CHANGE:
      case IBV_EVENT_GID_CHANGE:
        handler_(static_cast<std::uint8_t>(event.element.port_num), Change::address);
        break;
      case IBV_EVENT_DEVICE_FATAL:
        gone = true;
        break;
      default:
        break;
    }
  }
  // A descriptor that is at its end, as one is after the removal of the device, would be readable for ever.
  if (!gone && errno != EAGAIN && errno != EINTR) gone = true;
  if (!gone) return;
  close();
  handler_(0, Change::down);
}

}  // namespace ripc::verbs
