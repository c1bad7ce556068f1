// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/fabric.hpp"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/unique_fd.hpp"
#include "transport/verbs/inventory.hpp"

namespace ripc::verbs {

namespace {

// More reads under way gain nothing, and cost the peer memory.
constexpr int kMostReads = 16;
// What opening a device takes.
constexpr std::size_t kDescriptors = 8;
// The vendor of rdma_rxe. Linux 6.1 looks only whether an access stays within what a window is bound to.
constexpr std::uint32_t kSoftRoce = 0xffffff;

// Nothing can be said about devices then.
bool lacks_descriptors(int error) noexcept { return error == EMFILE || error == ENFILE || error == ENOMEM; }

Status unusable(const std::string& why) { return Status(RIPC_UNSUPPORTED, why); }

// Reads what the device can do; takes over the id.
Result<DevicePointer> open_device(const std::shared_ptr<const Library>& library, rdma_cm_id* id) {
  auto device = std::make_shared<Device>();
  device->library = library;
  device->anchor = id;
  device->context = id->verbs;
  device->name = id->verbs->device->name;
  device->iwarp = id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
  if (library->query_device(device->context, &device->attributes) != 0)
    return unusable("The device " + device->name + " does not answer (" + std::strerror(errno) + "): see dmesg.");
  const ibv_device_attr& attributes = device->attributes;
  constexpr unsigned kWindows = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  device->windows = (attributes.device_cap_flags & kWindows) != 0 && attributes.max_mw > 0;
  device->narrow_windows = device->windows && attributes.vendor_id != kSoftRoce;
  device->read_depth = static_cast<std::uint8_t>(
      std::clamp(std::min(attributes.max_qp_rd_atom, attributes.max_qp_init_rd_atom), 1, kMostReads));
  ibv_port_attr port{};
  if (!library->read_port(device->context, id->port_num, port) || port.max_msg_sz == 0)
    return unusable("A port of the device " + device->name + " does not answer: see dmesg.");
  device->max_message = port.max_msg_sz;
  device->pd = library->alloc_pd(device->context);
  if (device->pd == nullptr) return system_error(errno, "ibv_alloc_pd", "see `ripc doctor`");
  device->command_guard = ForkGuard(device->context->cmd_fd);
  device->event_guard = ForkGuard(device->context->async_fd);
  return DevicePointer(std::move(device));
}

// The GID that stands for this IP address; of several the one that routers forward.
bool find_gid(const DeviceInfo* info, const Library& library, const network::Endpoint& ip, FabricPort& port) {
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

// What datagrams over this port need to know.
void prepare_datagrams(const std::vector<DeviceInfo>& inventory, const Library& library, const network::Endpoint& ip,
                       FabricPort& port) {
  if (port.device->iwarp) return;
  ibv_port_attr attributes{};
  if (!library.read_port(port.device->context, port.number, attributes)) return;
  port.ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
  port.lid = attributes.lid;
  const auto info = std::find_if(inventory.begin(), inventory.end(),
                                 [&](const DeviceInfo& device) { return device.name == port.device->name; });
  const bool addressed = port.ethernet ? find_gid(info == inventory.end() ? nullptr : &*info, library, ip, port)
                                       : library.query_gid(port.device->context, port.number, 0, &port.gid) == 0;
  if (addressed) port.mtu = 128u << attributes.active_mtu;
}

}  // namespace

union ibv_gid gid_of(const network::Endpoint& ip) noexcept {
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
  if (anchor != nullptr) {
    rdma_event_channel* const channel = anchor->channel;
    (void)library->destroy_id(anchor);
    library->destroy_event_channel(channel);
  }
}

Result<std::shared_ptr<const Fabric>> Fabric::open() {
  // The libraries do not say when it is for want of descriptors that they find no device.
  if (access("/sys/class/infiniband", F_OK) == 0) {
    std::array<UniqueFd, kDescriptors> probes;
    for (UniqueFd& probe : probes) {
      probe.reset(::open("/sys/class", O_PATH | O_CLOEXEC));
      if (!probe && lacks_descriptors(errno)) return system_error(errno, "open", "raise `ulimit -n`");
    }
  }
  const std::vector<DeviceInfo> inventory = read_inventory();
  if (inventory.empty()) return unusable("This machine has no RDMA device (`ls /sys/class/infiniband`).");
  Result<std::shared_ptr<const Library>> library = Library::load();
  if (!library.ok()) return library.status();
  auto fabric = std::make_shared<Fabric>();
  fabric->library_ = *library;
  std::string why = "No interface of an RDMA device has an IP address: give it one (`ip address add`).";
  for (const std::string& ip : network::own_addresses({})) {
    network::Endpoint endpoint;
    if (!network::Endpoint::parse(ip, 0, endpoint) || endpoint.is_loopback()) continue;
    rdma_event_channel* const channel = (*library)->create_event_channel();
    if (channel == nullptr && lacks_descriptors(errno))
      return system_error(errno, "rdma_create_event_channel", "raise `ulimit -n`");
    if (channel == nullptr)
      return unusable("/dev/infiniband/rdma_cm cannot be opened (" + std::string(std::strerror(errno)) +
                      "): load the kernel module rdma_ucm, or allow this user to open it.");
    rdma_cm_id* id = nullptr;
    if ((*library)->create_id(channel, &id, nullptr, RDMA_PS_TCP) != 0) {
      (*library)->destroy_event_channel(channel);
      continue;
    }
    auto* const address = const_cast<sockaddr*>(endpoint.address());
    const bool answered = (*library)->bind_addr(id, address) == 0;
    const int error = answered ? 0 : errno;
    const bool bound = answered && id->verbs != nullptr;
    const auto known = std::find_if(fabric->ports_.begin(), fabric->ports_.end(),
                                    [&](const FabricPort& port) { return bound && port.device->context == id->verbs; });
    DevicePointer device;
    const std::uint8_t number = bound ? id->port_num : std::uint8_t{0};
    if (bound && known == fabric->ports_.end()) {
      Result<DevicePointer> opened = open_device(*library, id);
      if (opened.ok()) {
        device = std::move(*opened);
      } else {
        why = opened.status().text();
      }
    } else {
      if (bound) device = known->device;
      (void)(*library)->destroy_id(id);
      (*library)->destroy_event_channel(channel);
    }
    if (lacks_descriptors(error)) return system_error(error, "rdma_bind_addr", "raise `ulimit -n`");
    if (!device) continue;
    FabricPort port;
    port.device = std::move(device);
    port.number = number;
    port.ip = ip;
    prepare_datagrams(inventory, **library, endpoint, port);
    fabric->ports_.push_back(std::move(port));
  }
  if (fabric->ports_.empty()) return unusable(why);
  return std::shared_ptr<const Fabric>(std::move(fabric));
}

const FabricPort* Fabric::port_of(const std::string& ip) const noexcept {
  const auto found = std::find_if(ports_.begin(), ports_.end(), [&](const FabricPort& port) { return port.ip == ip; });
  return found == ports_.end() ? nullptr : &*found;
}

std::vector<DevicePointer> Fabric::devices() const {
  std::vector<DevicePointer> devices;
  for (const FabricPort& port : ports_) {
    if (std::find(devices.begin(), devices.end(), port.device) == devices.end()) devices.push_back(port.device);
  }
  return devices;
}

}  // namespace ripc::verbs
