// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/device_events.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>

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

bool DeviceEvents::is_up(std::uint8_t port) const noexcept {
  ibv_port_attr attributes{};
  return context_ != nullptr && device_->library->read_port(context_, port, attributes) &&
         attributes.state == IBV_PORT_ACTIVE;
}

void DeviceEvents::on_events() {
  ibv_async_event event{};
  bool gone = false;
  while (!gone && device_->library->get_async_event(context_, &event) == 0) {
    device_->library->ack_async_event(&event);
    switch (event.event_type) {
      case IBV_EVENT_PORT_ACTIVE:
      case IBV_EVENT_PORT_ERR:
        handler_(static_cast<std::uint8_t>(event.element.port_num), event.event_type == IBV_EVENT_PORT_ACTIVE);
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
  handler_(0, false);
}

}  // namespace ripc::verbs
