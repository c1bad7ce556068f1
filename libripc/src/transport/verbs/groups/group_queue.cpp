// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/groups/group_queue.hpp"

#include <arpa/inet.h>
#include <errno.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

namespace ripc::internal::verbs {

namespace {

constexpr std::uint8_t kSingleHops = 64;  // for what goes to a single queue pair
// How many datagrams receive() may drop in a row before others get a turn.
constexpr int kReceiveAttempts = 64;

std::uint16_t lid_of(const DevicePort& port, const ibv_wc& completion) noexcept {
  return port.ethernet ? std::uint16_t{0} : completion.slid;
}

}  // namespace

Result<std::shared_ptr<GroupQueue>> GroupQueue::create(const DevicePort& port, const JoinedGroup& group,
                                                       bool receives_own_packets) {
  std::shared_ptr<GroupQueue> queue(new GroupQueue(port, group, receives_own_packets));
  if (Status status = queue->make(); !status.ok()) return status;
  return queue;
}

Status GroupQueue::make() {
  const Device& device = *port_.device;
  const VerbsLibrary& library = *device.library;
  union ibv_gid own {};
  if (library.query_gid(device.context, port_.number, group_.address.grh.sgid_index, &own) != 0)
    return system_error(errno, "ibv_query_gid", "see `ripc doctor`");
  std::memcpy(own_gid_.data(), own.raw, own_gid_.size());
  std::memcpy(group_gid_.data(), group_.address.grh.dgid.raw, group_gid_.size());
  Result<std::unique_ptr<DatagramQueue>> queue =
      DatagramQueue::create(port_, port_.device, {.sends = kSends, .receives = kReceives, .key = group_.queue_key});
  if (!queue.ok()) return queue.status();
  queue_ = std::move(*queue);
  const std::size_t size = kReceives * (kGrhSize + mtu()) + kSends * mtu();
  memory_ = std::make_unique<std::byte[]>(size);
  ibv_mr* const mr = library.reg_mr(device.pd, memory_.get(), size, IBV_ACCESS_LOCAL_WRITE);
  if (mr == nullptr)
    return system_error(errno, "ibv_reg_mr", "raise the limit of locked memory: `ulimit -l unlimited`");
  region_ = std::make_shared<const Region>(port_.device, mr);
  group_handle_ = create_handle(port_.device, group_.address);
  if (!group_handle_) return system_error(errno, "ibv_create_ah", "see `ripc doctor`");
  std::array<std::uint32_t, kReceives> slots{};
  std::iota(slots.begin(), slots.end(), 0U);
  post_receives_locked(slots);
  if (const int error = library.attach_mcast(queue_->pair(), &group_.address.grh.dgid, group_.address.dlid); error != 0)
    return system_error(error, "ibv_attach_mcast", "see the limits of the device's groups: ibv_devinfo -v");
  is_attached_ = true;
  return {};
}

GroupQueue::~GroupQueue() {
  const VerbsLibrary& library = *port_.device->library;
  if (is_attached_) (void)library.detach_mcast(queue_->pair(), &group_.address.grh.dgid, group_.address.dlid);
  // Destroy the queue before the handles that its sends may use and the memory that the device writes to.
  queue_.reset();
}

// ---- Sending -------------------------------------------------------------------------------------------------

// With the lock held, as for all functions that end in _locked.
void GroupQueue::reap_locked() noexcept {
  std::array<ibv_wc, 16> completions;
  for (;;) {
    const int count = ibv_poll_cq(queue_->sends(), static_cast<int>(completions.size()), completions.data());
    if (count <= 0) break;
    completed_ += static_cast<std::uint64_t>(count);
    for (int index = 0; index < count; ++index)
      has_failed_ = has_failed_ || completions[static_cast<std::size_t>(index)].status != IBV_WC_SUCCESS;
  }
  if (has_failed_ || queue_->take_stopped()) restart_locked();
}

bool GroupQueue::post_send_locked(const AddressHandle& handle, std::uint32_t queue_pair,
                                  std::span<const std::byte> bytes) noexcept {
  if (bytes.empty() || bytes.size() > mtu()) return false;
  reap_locked();
  if (posted_ - completed_ == kSends) return false;
  std::byte* const slot = send_slot(posted_);
  std::ranges::copy(bytes, slot);
  ibv_sge range = range_of(slot, bytes.size(), region_->local_key());
  ibv_send_wr request{};
  request.wr_id = posted_;
  request.sg_list = &range;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.send_flags = IBV_SEND_SIGNALED;
  request.imm_data = htonl(group_.world);
  request.wr.ud = {.ah = handle.get(), .remote_qpn = queue_pair, .remote_qkey = group_.queue_key};
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(queue_->pair(), &request, &bad) != 0) return false;
  in_use_[posted_ % kSends] = handle;
  ++posted_;
  return true;
}

bool GroupQueue::send_to_group(std::span<const std::byte> bytes) noexcept {
  const std::lock_guard lock(mutex_);
  return post_send_locked(group_handle_, group_.queue_pair, bytes);
}

GroupQueue::Sending GroupQueue::send_to(const GroupPeer& peer, std::span<const std::byte> bytes,
                                        Nanoseconds now) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find({peer.gid, peer.lid, peer.service_level});
  if (found == handles_.end() || now - found->second.found >= kHandleAge) return Sending::no_handle;
  found->second.last_use = ++uses_;
  return post_send_locked(found->second.handle, peer.queue_pair, bytes) ? Sending::sent : Sending::failed;
}

Status GroupQueue::find_handle(const GroupPeer& peer, Nanoseconds now) {
  ibv_ah_attr attributes{};
  attributes.port_num = port_.number;
  attributes.dlid = peer.lid;
  attributes.sl = peer.service_level;
  attributes.is_global = 1;
  std::memcpy(attributes.grh.dgid.raw, peer.gid.data(), peer.gid.size());
  attributes.grh.sgid_index = group_.address.grh.sgid_index;
  attributes.grh.hop_limit = kSingleHops;
  // Without the lock: the device may have to ask the network for the peer's address.
  AddressHandle handle = create_handle(port_.device, attributes);
  if (!handle) return system_error(errno, "ibv_create_ah", "check the addresses with `ripc doctor`");
  const std::lock_guard lock(mutex_);
  handles_[{peer.gid, peer.lid, peer.service_level}] = {.handle = std::move(handle), .found = now, .last_use = ++uses_};
  if (handles_.size() <= kMostHandles) return {};
  handles_.erase(std::ranges::min_element(
      handles_, [](const auto& one, const auto& other) { return one.second.last_use < other.second.last_use; }));
  return {};
}

// ---- Receiving -----------------------------------------------------------------------------------------------

void GroupQueue::post_receives_locked(std::span<const std::uint32_t> slots) noexcept {
  // This fails only if the device is gone.
  (void)post_receives(queue_->pair(), slots.size(), [&](std::size_t index, ibv_sge& range) {
    std::byte* const slot = receive_slot(slots[index]);
    *slot = std::byte{0};  // read_grh()
    range = range_of(slot, kGrhSize + mtu(), region_->local_key());
    return std::uint64_t{slots[index]};
  });
}

// Datagrams under way are lost, as they may be.
void GroupQueue::restart_locked() noexcept {
  has_failed_ = false;
  used_count_ = 0;
  // Only a device that is gone stays broken.
  if (!queue_->restart().ok()) return;
  completed_ = posted_;
  std::array<std::uint32_t, kReceives> slots{};
  std::iota(slots.begin(), slots.end(), 0U);
  post_receives_locked(slots);
}

bool GroupQueue::receive(std::span<std::byte> buffer, GroupPacket& packet) noexcept {
  const std::lock_guard lock(mutex_);
  for (int attempt = 0; attempt < kReceiveAttempts; ++attempt) {
    ibv_wc completion{};
    if (ibv_poll_cq(queue_->receives(), 1, &completion) <= 0) break;
    if (completion.status != IBV_WC_SUCCESS) {
      has_failed_ = true;
      continue;
    }
    const bool is_accepted = accept(completion, buffer, packet);
    used_[used_count_++] = static_cast<std::uint32_t>(completion.wr_id);
    if (used_count_ == used_.size()) post_receives_locked(std::span(used_).first(std::exchange(used_count_, 0)));
    if (is_accepted) return true;
  }
  if (used_count_ != 0) post_receives_locked(std::span(used_).first(std::exchange(used_count_, 0)));
  if (has_failed_ || queue_->take_stopped()) restart_locked();
  return false;
}

bool GroupQueue::accept(const ibv_wc& completion, std::span<std::byte> buffer, GroupPacket& packet) noexcept {
  constexpr unsigned kFlags = IBV_WC_GRH | IBV_WC_WITH_IMM;
  if ((completion.wc_flags & kFlags) != kFlags || ntohl(completion.imm_data) != group_.world) return false;
  if (completion.byte_len <= kGrhSize || completion.byte_len - kGrhSize > buffer.size()) return false;
  const std::byte* const slot = receive_slot(static_cast<std::uint32_t>(completion.wr_id));
  const std::optional<DatagramEnds> ends = read_grh(std::span<const std::byte, kGrhSize>(slot, kGrhSize));
  if (!ends) return false;
  const bool is_own = completion.src_qp == queue_->pair()->qp_num && ends->source == own_gid_;
  if (is_own && !receives_own_packets_) return false;
  const std::span<const std::byte> text(slot + kGrhSize, completion.byte_len - kGrhSize);
  std::ranges::copy(text, buffer.begin());
  packet.bytes = buffer.first(text.size());
  packet.to_group = ends->destination == group_gid_;
  packet.from = {.gid = ends->source,
                 .lid = lid_of(port_, completion),
                 .service_level = port_.ethernet ? std::uint8_t{0} : completion.sl,
                 .queue_pair = completion.src_qp};
  return true;
}

void GroupQueue::arm() noexcept {
  const std::lock_guard lock(mutex_);
  queue_->arm();
}

}  // namespace ripc::internal::verbs
