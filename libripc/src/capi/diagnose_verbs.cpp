// SPDX-License-Identifier: Apache-2.0
// The self-check of the RDMA transport: which devices, ports and addresses can be used, and what is wrong with the
// others.
#include "capi/diagnose_verbs.hpp"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "remote/session/endpoint.hpp"

namespace ripc::internal::capi {

namespace {

using verbs::DeviceInfo;
using verbs::GidInfo;
using verbs::PortInfo;

constexpr rlim_t kEnoughLocked = rlim_t{256} << 20;  // bytes: enough for a few arenas of the pool

// The network interface of a port, if the kernel says.
std::string interface_of(const PortInfo& port) {
  for (const GidInfo& gid : port.gids) {
    if (!gid.netdev.empty()) return gid.netdev;
  }
  return {};
}

// Whether an address may lead to the port, according to its interface.
bool may_have_address(const PortInfo& port) {
  const std::string interface = interface_of(port);
  return interface.empty() || !remote::own_addresses(interface).empty();
}

// Whether this process may open the device.
bool check_permissions(Report& report, const DeviceInfo& device) {
  const std::string subject = "rdma " + device.name;
  if (verbs::may_open(device)) return true;
  if (device.node.empty()) {
    report.add(Level::limited, subject, "the kernel offers it to no program", "load the kernel module ib_uverbs");
  } else {
    const std::string reason = std::strerror(errno);
    report.add(Level::limited, subject, device.node + " cannot be opened: " + reason,
               "make it readable and writable for this user; in a container, pass it in: --device " + device.node);
  }
  return false;
}

// Whether the limit does not apply to this process. Root does not always have that right, for example in a container.
bool may_lock_anything() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
  return syscall(SYS_capget, &header, sets.data()) == 0 && (sets[0].effective >> CAP_IPC_LOCK & 1) != 0;
}

}  // namespace

void check_port(Report& report, std::span<const verbs::DevicePort> paths, const DeviceInfo& device,
                const PortInfo& port) {
  const std::string subject = "rdma " + device.name + ":" + std::to_string(port.number);
  const std::string kind = verbs::kind_of(device, port);
  const std::string interface = interface_of(port);
  const std::string shown = interface.empty() ? "its network interface" : interface;
  if (!port.active()) {
    report.add(Level::limited, subject, kind + ", the port is " + (port.state.empty() ? "not there" : port.state),
               kind == "InfiniBand" ? "check the cable and that a subnet manager (opensm) runs"
                                    : "bring the interface up: ip link set " + shown + " up");
    return;
  }
  std::string addresses;
  std::string without_gid;
  bool windows = false;
  for (const verbs::DevicePort& path : paths) {
    if (path.device->name != device.name || path.number != port.number) continue;
    addresses += (addresses.empty() ? "" : ", ") + path.ip;
    if (!device.iwarp && path.mtu == 0) without_gid += (without_gid.empty() ? "" : ", ") + path.ip;
    windows = path.device->windows;
  }
  if (addresses.empty()) {
    report.add(Level::limited, subject,
               kind + ", active, but no IP address leads to it (" + std::to_string(port.gids.size()) + " GIDs)",
               kind == "InfiniBand" ? "load ib_ipoib and give the interface an address: connections are set up by IP"
                                    : "give " + shown + " an address: ip address add ADDRESS/PREFIX dev " + shown);
    return;
  }
  if (!without_gid.empty()) {
    report.add(
        Level::limited, subject,
        kind + ", active, " + addresses + "; no GID for " + without_gid + ": no datagrams from there",
        "take " + shown + " down and up, so that the kernel makes the GID (rdma-core's ibv_devinfo -v lists them)");
    return;
  }
  report.add(Level::good, subject,
             kind + ", active, " + addresses +
                 (windows ? "; memory windows" : "; no memory windows: each transfer is registered by itself"));
}

void check_locked_memory(Report& report) {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  if (limit.rlim_cur >= kEnoughLocked || may_lock_anything()) return;
  report.add(
      Level::limited, "rdma memory",
      "this process may lock " + std::to_string(limit.rlim_cur >> 10) +
          " KiB of memory; one arena of the pool has 65536",
      "raise it: ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit; root in a container needs it too, or "
      "CAP_IPC_LOCK");
}

void check_verbs(Report& report) {
  const std::vector<DeviceInfo> devices = verbs::read_sysfs_devices();
  if (devices.empty()) {
    report.add(Level::good, "rdma", "this machine has no RDMA device; messages between hosts go over sockets");
    return;
  }
  const Result<std::shared_ptr<const verbs::DeviceList>> opened = verbs::DeviceList::open();
  if (!opened.ok())
    report.add(Level::limited, "rdma", opened.status().text(), "until then the socket transport is used; docs/rdma.md");
  const std::vector<verbs::DevicePort> paths = opened.ok() ? (*opened)->ports() : std::vector<verbs::DevicePort>();
  for (const DeviceInfo& device : devices) {
    const bool is_listed = check_permissions(report, device) && opened.ok();
    for (const PortInfo& port : device.ports) {
      // Otherwise a finding above says why a port that works cannot be used.
      if (is_listed || !port.active() || !may_have_address(port)) check_port(report, paths, device, port);
    }
  }
  check_locked_memory(report);
}

}  // namespace ripc::internal::capi
