// SPDX-License-Identifier: Apache-2.0
// The self-check of the RDMA transport: which devices, ports and addresses can be used, and what is wrong with the
// others.
#ifdef RIPC_WITH_VERBS

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "capi/diagnose.hpp"
#include "memory/mapping_watch.hpp"
#include "transport/verbs/fabric.hpp"
#include "transport/verbs/inventory.hpp"

namespace ripc::capi {

namespace {

using verbs::DeviceInfo;
using verbs::GidInfo;
using verbs::PortInfo;

constexpr rlim_t kEnoughLocked = rlim_t{256} << 20;  // bytes: some arenas of the pool

// The network interface of a port, if the kernel says.
std::string interface_of(const PortInfo& port) {
  for (const GidInfo& gid : port.gids) {
    if (!gid.netdev.empty()) return gid.netdev;
  }
  return {};
}

std::string addresses_of(const verbs::Fabric* fabric, const DeviceInfo& device, const PortInfo& port) {
  std::string text;
  if (fabric == nullptr) return text;
  for (const verbs::FabricPort& found : fabric->ports()) {
    if (found.device->name != device.name || found.number != port.number) continue;
    text += (text.empty() ? "" : ", ") + found.ip;
  }
  return text;
}

void check_port(Report& report, const verbs::Fabric* fabric, const DeviceInfo& device, const PortInfo& port) {
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
  const std::string addresses = addresses_of(fabric, device, port);
  if (addresses.empty()) {
    report.add(Level::limited, subject,
               kind + ", active, but no IP address leads to it (" + std::to_string(port.gids.size()) + " GIDs)",
               kind == "InfiniBand" ? "load ib_ipoib and give the interface an address: connections are set up by IP"
                                    : "give " + shown + " an address: ip address add ADDRESS/PREFIX dev " + shown);
    return;
  }
  std::string text = kind + ", active, " + addresses;
  for (const verbs::DevicePointer& opened : fabric->devices()) {
    if (opened->name == device.name)
      text += opened->windows ? "; memory windows" : "; no memory windows: each transfer is registered by itself";
  }
  report.add(Level::good, subject, text);
}

void check_permissions(Report& report, const DeviceInfo& device) {
  const std::string subject = "rdma " + device.name;
  if (device.node.empty()) {
    report.add(Level::limited, subject, "the kernel offers it to no program", "load the kernel module ib_uverbs");
  } else if (access(device.node.c_str(), R_OK | W_OK) != 0) {
    const std::string reason = std::strerror(errno);
    report.add(Level::limited, subject, device.node + " cannot be opened: " + reason,
               "make it readable and writable for this user; in a container, pass it in: --device " + device.node);
  }
}

void check_locked_memory(Report& report) {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  if (limit.rlim_cur >= kEnoughLocked || geteuid() == 0) return;
  report.add(Level::limited, "rdma memory",
             "this process may lock " + std::to_string(limit.rlim_cur >> 10) +
                 " KiB of memory; one arena of the pool has 65536",
             "raise it: ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit");
}

void check_registration_cache(Report& report) {
  const Status status = memory::MappingWatch::available();
  if (status.ok()) {
    report.add(Level::good, "rdma cache", "registrations of memory outside of the pool are kept for the next use");
  } else {
    report.add(Level::limited, "rdma cache",
               "memory outside of the pool is registered for each use: nobody tells when it is unmapped",
               std::string(status.text()));
  }
}

}  // namespace

void check_verbs(Report& report) {
  const std::vector<DeviceInfo> devices = verbs::read_inventory();
  if (devices.empty()) {
    report.add(Level::good, "rdma", "this machine has no RDMA device; messages between hosts go over sockets");
    return;
  }
  const Result<std::shared_ptr<const verbs::Fabric>> fabric = verbs::Fabric::open();
  if (!fabric.ok())
    report.add(Level::limited, "rdma", fabric.status().text(), "until then the socket transport is used; docs/rdma.md");
  for (const DeviceInfo& device : devices) {
    check_permissions(report, device);
    for (const PortInfo& port : device.ports) check_port(report, fabric.ok() ? fabric->get() : nullptr, device, port);
  }
  check_locked_memory(report);
  check_registration_cache(report);
}

}  // namespace ripc::capi

#endif
