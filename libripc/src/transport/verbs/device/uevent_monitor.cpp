// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/device/uevent_monitor.hpp"

#include <errno.h>
#include <linux/netlink.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

namespace ripc::internal::verbs {

namespace {

constexpr unsigned kFromKernel = 1;  // the group of the kernel's own messages; udev sends to another
constexpr std::size_t kMostText = 8192;

}  // namespace

// "ACTION@PATH", then "KEY=VALUE", each with a zero at its end.
Uevent parse_uevent(std::string_view message) {
  Uevent uevent;
  std::string_view action, subsystem, path;
  using Key = std::pair<std::string_view, std::string_view&>;
  const std::array<Key, 3> keys{Key{"ACTION=", action}, Key{"SUBSYSTEM=", subsystem}, Key{"DEVPATH=", path}};
  while (!message.empty()) {
    const std::string_view line = message.substr(0, message.find('\0'));
    message.remove_prefix(std::min(line.size() + 1, message.size()));
    for (const auto& [key, value] : keys) {
      if (line.starts_with(key)) value = line.substr(key.size());
    }
  }
  if (subsystem != "infiniband_verbs" || (action != "add" && action != "remove")) return uevent;
  uevent.has_come = action == "add";
  uevent.name = path.substr(path.rfind('/') + 1);
  return uevent;
}

Result<std::unique_ptr<UeventMonitor>> UeventMonitor::start(EventLoop& loop,
                                                            std::function<void(const Uevent&)> on_uevent) {
  std::unique_ptr<UeventMonitor> watch(new UeventMonitor(loop, std::move(on_uevent)));
  watch->socket_ = ForkGuard::open(watch->guard_, [] {
    return ::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
  });
  if (!watch->socket_) return system_error(errno, "socket(NETLINK_KOBJECT_UEVENT)", "raise `ulimit -n`");
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = kFromKernel;
  if (::bind(watch->socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return system_error(errno, "bind(NETLINK_KOBJECT_UEVENT)");
  Status status = loop.add(watch->socket_.get(), EPOLLIN, [raw = watch.get()](std::uint32_t) { raw->read(); });
  if (!status.ok()) return status;
  return watch;
}

UeventMonitor::~UeventMonitor() {
  if (!socket_) return;
  loop_.remove(socket_.get());
  guard_.close(socket_);
}

void UeventMonitor::read() {
  std::array<char, kMostText> text;
  for (;;) {
    sockaddr_nl from{};
    socklen_t size = sizeof from;
    const ssize_t length =
        ::recvfrom(socket_.get(), text.data(), text.size(), 0, reinterpret_cast<sockaddr*>(&from), &size);
    if (length < 0 && errno == EAGAIN) return;
    // Some messages were lost, as when very many devices of all kinds come at once. A removed device gets noticed
    // anyway.
    if (length < 0) continue;
    if (from.nl_pid != 0) continue;  // not from the kernel
    const Uevent uevent = parse_uevent({text.data(), static_cast<std::size_t>(length)});
    if (!uevent.name.empty()) on_uevent_(uevent);
  }
}

}  // namespace ripc::internal::verbs
