// SPDX-License-Identifier: Apache-2.0
// Reports which RDMA devices come and go, from the kernel's broadcasts. A driver that cannot release a device in use
// does not tell its users, but waits for them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/event_loop.hpp"
#include "base/fork_guard.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace ripc::internal::verbs {

// A device file for programs, with the name that ibv_device has for it, such as "uverbs0".
struct Uevent {
  bool has_come = false;  // else it is going
  std::string name;
};
// The contents of a kernel message (a kobject's uevent). Empty name: the message is about something else.
Uevent parse_uevent(std::string_view message);

// Responder only, except for the creation.
class UeventMonitor {
 public:
  // `on_uevent` is called from the loop. RIPC_NO_DESCRIPTORS, RIPC_SYSTEM: uevents are not available here.
  static Result<std::unique_ptr<UeventMonitor>> start(EventLoop& loop, std::function<void(const Uevent&)> on_uevent);
  ~UeventMonitor();
  UeventMonitor(const UeventMonitor&) = delete;
  UeventMonitor& operator=(const UeventMonitor&) = delete;

 private:
  UeventMonitor(EventLoop& loop, std::function<void(const Uevent&)> on_uevent)
      : loop_(loop), on_uevent_(std::move(on_uevent)) {}
  void read();

  EventLoop& loop_;
  const std::function<void(const Uevent&)> on_uevent_;
  UniqueFd socket_;
  ForkGuard guard_;
};

}  // namespace ripc::internal::verbs
