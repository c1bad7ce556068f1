// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/device/device_list.hpp"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/unique_fd.hpp"
#include "transport/verbs/device/sysfs_devices.hpp"

namespace ripc::internal::verbs {

namespace {

// More reads under way gain nothing, and cost the peer memory.
constexpr int kMostReads = 16;
// How many descriptors opening a device takes.
constexpr std::size_t kDescriptors = 8;
// The vendor of rdma_rxe. Linux 6.1 only checks that an access stays within the region to which a window is bound.
constexpr std::uint32_t kSoftRoce = 0xffffff;

// Then nothing is known about the devices.
bool lacks_descriptors(int error) noexcept { return error == EMFILE || error == ENFILE || error == ENOMEM; }

Status unusable(const std::string& why) { return Status(RIPC_UNSUPPORTED, why); }

// Opens the device that librdmacm has found for the id, and reads its capabilities.
Result<DevicePointer> open_device(const std::shared_ptr<const VerbsLibrary>& library, const rdma_cm_id& id) {
  auto device = std::make_shared<Device>();
  device->library = library;
  device->context = library->open_device(id.verbs->device);
  if (device->context == nullptr) return system_error(errno, "ibv_open_device", "see `ripc doctor`");
  device->command_guard = ForkGuard(device->context->cmd_fd);
  device->event_guard = ForkGuard(device->context->async_fd);
  (void)fcntl(device->context->async_fd, F_SETFL, fcntl(device->context->async_fd, F_GETFL) | O_NONBLOCK);
  device->name = id.verbs->device->name;
  device->iwarp = id.verbs->device->transport_type == IBV_TRANSPORT_IWARP;
  if (library->query_device(device->context, &device->attributes) != 0)
    return unusable("The device " + device->name + " does not answer (" + std::strerror(errno) + "): see dmesg.");
  const ibv_device_attr& attributes = device->attributes;
  constexpr unsigned kWindows = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  device->windows = (attributes.device_cap_flags & kWindows) != 0 && attributes.max_mw > 0;
  device->narrow_windows = device->windows && attributes.vendor_id != kSoftRoce;
  // It passes on the kernel's number for this flag, which has no other meaning on a connection.
  if (attributes.vendor_id == kSoftRoce) device->invalidated_flags |= IBV_WC_IP_CSUM_OK;
  device->read_depth = static_cast<std::uint8_t>(
      std::clamp(std::min(attributes.max_qp_rd_atom, attributes.max_qp_init_rd_atom), 1, kMostReads));
  ibv_port_attr port{};
  if (!library->read_port(device->context, id.port_num, port) || port.max_msg_sz == 0)
    return unusable("A port of the device " + device->name + " does not answer: see dmesg.");
  device->max_message = port.max_msg_sz;
  device->pd = library->alloc_pd(device->context);
  if (device->pd == nullptr) return system_error(errno, "ibv_alloc_pd", "see `ripc doctor`");
  return DevicePointer(std::move(device));
}

using ChannelPointer = std::unique_ptr<rdma_event_channel, decltype(&rdma_destroy_event_channel)>;

Result<ChannelPointer> open_channel(const VerbsLibrary& library) {
  ChannelPointer channel(library.create_event_channel(), library.destroy_event_channel);
  if (channel) return channel;
  if (lacks_descriptors(errno)) return system_error(errno, "rdma_create_event_channel", "raise `ulimit -n`");
  return unusable("/dev/infiniband/rdma_cm cannot be opened (" + std::string(std::strerror(errno)) +
                  "): load the kernel module rdma_ucm, or allow this user to open it.");
}

// Finds the GID that stands for this IP address; of several, the one that routers forward.
bool find_gid(const DeviceInfo* info, const VerbsLibrary& library, const remote::Endpoint& ip, DevicePort& port) {
  const union ibv_gid wanted = gid_of(ip);
  if (info == nullptr) return false;
  bool found = false;
  for (const PortInfo& known : info->ports) {
    if (known.number != port.number) continue;
    for (const GidInfo& gid : known.gids) {
      union ibv_gid value {};
      const auto index = static_cast<std::uint8_t>(gid.index);
      if (library.query_gid(port.device->context, port.number, index, &value) != 0) continue;
      if (std::memcmp(value.raw, wanted.raw, sizeof value.raw) != 0 || (found && gid.type != "RoCE v2")) continue;
      port.gid_index = index;
      port.gid = value;
      found = true;
    }
  }
  return found;
}

// Reads what datagrams over this port need to know.
void prepare_datagrams(const std::vector<DeviceInfo>& listed, const VerbsLibrary& library, const remote::Endpoint& ip,
                       DevicePort& port) {
  if (port.device->iwarp) return;
  ibv_port_attr attributes{};
  if (!library.read_port(port.device->context, port.number, attributes)) return;
  port.ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
  port.lid = attributes.lid;
  (void)library.query_pkey(port.device->context, port.number, 0, &port.partition);
  const auto info =
      std::ranges::find_if(listed, [&](const DeviceInfo& device) { return device.name == port.device->name; });
  const bool addressed = port.ethernet ? find_gid(info == listed.end() ? nullptr : &*info, library, ip, port)
                                       : library.query_gid(port.device->context, port.number, 0, &port.gid) == 0;
  if (addressed) port.mtu = 128u << attributes.active_mtu;
}

// The device that has this address, or why there is none. Null: no device has it.
Result<DevicePointer> device_of(const std::shared_ptr<const VerbsLibrary>& library,
                                const std::vector<DevicePort>& ports, const rdma_cm_id& id) {
  if (id.verbs == nullptr) return DevicePointer();
  const auto known = std::ranges::find_if(ports, [&](const DevicePort& port) { return port.device->is_of(id); });
  return known == ports.end() ? open_device(library, id) : known->device;
}

// Adds the ports of addresses that are not among them.
Status find_ports(const std::shared_ptr<const VerbsLibrary>& library, std::vector<DevicePort>& ports) {
  const std::vector<DeviceInfo> listed = read_sysfs_devices();
  ChannelPointer channel(nullptr, library->destroy_event_channel);
  std::string why = std::ranges::any_of(listed, may_open)
                        ? "No interface of an RDMA device has an IP address: give it one (`ip address add`; "
                          "InfiniBand: load ib_ipoib first)."
                        : "No RDMA device can be opened: allow this user to read and write /dev/infiniband/uverbs*.";
  for (const std::string& ip : remote::own_addresses({})) {
    remote::Endpoint endpoint;
    if (!remote::Endpoint::parse(ip, 0, endpoint) || endpoint.is_loopback()) continue;
    if (std::ranges::any_of(ports, [&](const DevicePort& port) { return port.ip == ip; })) continue;
    if (!channel) {
      if (Status status = open_channel(*library).move_to(channel); !status.ok()) return status;
    }
    rdma_cm_id* raw = nullptr;
    if (library->create_id(channel.get(), &raw, nullptr, RDMA_PS_TCP) != 0) continue;
    const std::unique_ptr<rdma_cm_id, decltype(library->destroy_id)> id(raw, library->destroy_id);
    if (library->bind_addr(raw, const_cast<sockaddr*>(endpoint.address())) != 0) {
      if (lacks_descriptors(errno)) return system_error(errno, "rdma_bind_addr", "raise `ulimit -n`");
      continue;
    }
    Result<DevicePointer> device = device_of(library, ports, *raw);
    if (!device.ok()) {
      if (device.status().code() == RIPC_NO_DESCRIPTORS) return device.status();
      why = device.status().text();
    } else if (*device) {
      DevicePort port;
      port.device = std::move(*device);
      port.number = raw->port_num;
      port.ip = ip;
      prepare_datagrams(listed, *library, endpoint, port);
      ports.push_back(std::move(port));
    }
  }
  return ports.empty() ? unusable(why) : Status();
}

}  // namespace

union ibv_gid gid_of(const remote::Endpoint& ip) noexcept {
  union ibv_gid gid {};
  if (ip.family() == AF_INET) {
    gid.raw[10] = gid.raw[11] = 0xff;
    std::memcpy(gid.raw + 12, &reinterpret_cast<const sockaddr_in*>(ip.address())->sin_addr, 4);
  } else {
    std::memcpy(gid.raw, &reinterpret_cast<const sockaddr_in6*>(ip.address())->sin6_addr, 16);
  }
  return gid;
}

Device::~Device() {
  if (pd != nullptr) (void)library->dealloc_pd(pd);
  command_guard.reset();
  event_guard.reset();
  if (context != nullptr) (void)library->close_device(context);
  // librdmacm closes its own context when it lists the devices, unless that was the last device.
  if (is_gone.load(std::memory_order_relaxed)) {
    if (ibv_context** const devices = library->get_devices(nullptr); devices != nullptr) library->free_devices(devices);
  }
}

Result<std::shared_ptr<const DeviceList>> DeviceList::open() {
  // The libraries do not say if they find no device because descriptors have run out.
  if (access("/sys/class/infiniband", F_OK) == 0) {
    std::array<UniqueFd, kDescriptors> probes;
    for (UniqueFd& probe : probes) {
      probe.reset(::open("/sys/class", O_PATH | O_CLOEXEC));
      if (!probe && lacks_descriptors(errno)) return system_error(errno, "open", "raise `ulimit -n`");
    }
  }
  if (read_sysfs_devices().empty()) return unusable("This machine has no RDMA device (`ls /sys/class/infiniband`).");
  Result<std::shared_ptr<const VerbsLibrary>> library = VerbsLibrary::load();
  if (!library.ok()) return library.status();
  std::vector<DevicePort> ports;
  if (Status status = find_ports(*library, ports); !status.ok()) return status;
  return std::shared_ptr<const DeviceList>(std::make_shared<DeviceList>(std::move(*library), std::move(ports)));
}

// ---- What there is -------------------------------------------------------------------------------------------

std::vector<DevicePort> DeviceList::ports() const {
  const std::lock_guard lock(mutex_);
  return ports_;
}

std::optional<DevicePort> DeviceList::port_of(const std::string& ip) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(ports_, [&](const DevicePort& port) { return port.ip == ip; });
  return found == ports_.end() ? std::nullopt : std::optional(*found);
}

std::vector<DevicePointer> DeviceList::devices() const {
  std::vector<DevicePointer> devices;
  for (const DevicePort& port : ports()) {
    if (std::ranges::find(devices, port.device) == devices.end()) devices.push_back(port.device);
  }
  return devices;
}

void DeviceList::set_ports(std::vector<DevicePort> ports) const {
  {
    const std::lock_guard lock(mutex_);
    ports_.swap(ports);
  }
  const std::lock_guard lock(listeners_mutex_);
  for (const auto& [id, changed] : listeners_) changed();
}

void DeviceList::forget(const Device& device) const {
  device.is_gone.store(true, std::memory_order_relaxed);
  std::vector<DevicePort> left = ports();
  std::erase_if(left, [&](const DevicePort& port) { return port.device.get() == &device; });
  set_ports(std::move(left));
}

bool DeviceList::look_again() const {
  std::vector<DevicePort> found = ports();
  const std::size_t before = found.size();
  (void)find_ports(library_, found);
  if (found.size() == before) return false;
  set_ports(std::move(found));
  return true;
}

DeviceList::ListenerId DeviceList::listen(std::function<void()> changed) const {
  const std::lock_guard lock(listeners_mutex_);
  listeners_[++last_id_] = std::move(changed);
  return last_id_;
}

void DeviceList::ignore(ListenerId id) const noexcept {
  const std::lock_guard lock(listeners_mutex_);
  listeners_.erase(id);
}

}  // namespace ripc::internal::verbs
