// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/datagram/datagram_queue.hpp"

#include <errno.h>
#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/random.hpp"

namespace ripc::internal::verbs {

AddressHandle create_handle(const DevicePointer& device, ibv_ah_attr address) {
  ibv_ah* const handle = device->library->create_ah(device->pd, &address);
  if (handle == nullptr) return nullptr;
  return AddressHandle(handle, [device](ibv_ah* gone) { (void)device->library->destroy_ah(gone); });
}

Result<std::unique_ptr<DatagramQueue>> DatagramQueue::create(const DevicePort& port, const DevicePointer& device,
                                                             const Sizes& sizes) {
  std::unique_ptr<DatagramQueue> queue(new DatagramQueue(device));
  if (Status status = queue->make(port, sizes); !status.ok()) return status;
  return queue;
}

Status DatagramQueue::make(const DevicePort& port, const Sizes& sizes) {
  const VerbsLibrary& library = *device_->library;
  shares_receives_ = sizes.receives_of != nullptr;
  if (shares_receives_) {
    channel_ = sizes.receives_of->channel_;
    receives_ = sizes.receives_of->receives_;
  } else {
    channel_ = library.create_comp_channel(device_->context);
    if (channel_ == nullptr) return system_error(errno, "ibv_create_comp_channel", "raise `ulimit -n`");
    guard_ = ForkGuard(channel_->fd);
    (void)fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
    receives_ = library.create_cq(device_->context, static_cast<int>(sizes.receives), nullptr, channel_, 0);
  }
  sends_ = library.create_cq(device_->context, static_cast<int>(sizes.sends), nullptr, nullptr, 0);
  if (sends_ == nullptr || receives_ == nullptr) return system_error(errno, "ibv_create_cq");
  // Devices refuse more than they support, and do not say how much that is.
  for (std::uint32_t inlined = sizes.inlined;; inlined /= 2) {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = sends_;
    attributes.recv_cq = receives_;
    attributes.qp_type = IBV_QPT_UD;
    attributes.cap = {.max_send_wr = sizes.sends,
                      .max_recv_wr = sizes.receives,
                      .max_send_sge = sizes.ranges,
                      .max_recv_sge = sizes.receive_ranges,
                      .max_inline_data = inlined};
    pair_ = library.create_qp(device_->pd, &attributes);
    if (pair_ != nullptr) {
      inlined_ = std::min(attributes.cap.max_inline_data, sizes.inlined);
      break;
    }
    if (inlined == 0) return system_error(errno, "ibv_create_qp", "see the device's limits in `ripc doctor`");
  }
  // The kernel reserves the upper half of the keys.
  key_ = sizes.key != 0 ? sizes.key : static_cast<std::uint32_t>(random_u64()) & 0x7fffffff;
  port_number_ = port.number;
  watch_for_errors();
  return bring_up();
}

void DatagramQueue::watch_for_errors() {
  device_->events.watch(pair_, [this] { stopped_.store(true, std::memory_order_relaxed); });
  const auto broken = [this] { broken_.store(true, std::memory_order_relaxed); };
  device_->events.watch(sends_, broken);
  if (!shares_receives_) device_->events.watch(receives_, broken);
}

// The device's event may come late, after the completions have already caused a restart of the queue pair.
bool DatagramQueue::is_stopped() const noexcept {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr made{};
  const int error = device_->library->query_qp(pair_, &attributes, IBV_QP_STATE, &made);
  return error != 0 || attributes.qp_state == IBV_QPS_ERR || attributes.qp_state == IBV_QPS_SQE;
}

Status DatagramQueue::bring_up() {
  const VerbsLibrary& library = *device_->library;
  ibv_qp_attr change{};
  change.qp_state = IBV_QPS_INIT;
  change.port_num = port_number_;
  change.qkey = key_;
  int error = library.modify_qp(pair_, &change, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
  change.qp_state = IBV_QPS_RTR;
  if (error == 0) error = library.modify_qp(pair_, &change, IBV_QP_STATE);
  change.qp_state = IBV_QPS_RTS;
  if (error == 0) error = library.modify_qp(pair_, &change, IBV_QP_STATE | IBV_QP_SQ_PSN);
  if (error != 0) return system_error(error, "ibv_modify_qp", "see `ripc doctor`");
  return {};
}

Status DatagramQueue::restart() {
  stopped_.store(false, std::memory_order_relaxed);
  ibv_qp_attr change{};
  change.qp_state = IBV_QPS_RESET;
  if (const int error = device_->library->modify_qp(pair_, &change, IBV_QP_STATE); error != 0)
    return system_error(error, "ibv_modify_qp", "see `ripc doctor`");
  taken_ = true;
  // Completions left from before would be taken for those of new requests.
  std::array<ibv_wc, 16> completions;
  for (ibv_cq* queue : {sends_, receives_}) {
    while (ibv_poll_cq(queue, static_cast<int>(completions.size()), completions.data()) > 0) {
    }
  }
  return bring_up();
}

DatagramQueue::~DatagramQueue() {
  const VerbsLibrary& library = *device_->library;
  for (const void* queue : {static_cast<const void*>(pair_), static_cast<const void*>(sends_),
                            static_cast<const void*>(shares_receives_ ? nullptr : receives_)})
    device_->events.forget(queue);
  if (pair_ != nullptr) (void)library.destroy_qp(pair_);
  if (sends_ != nullptr) (void)library.destroy_cq(sends_);
  if (shares_receives_) return;
  if (receives_ != nullptr) (void)library.destroy_cq(receives_);
  guard_.reset();
  if (channel_ != nullptr) (void)library.destroy_comp_channel(channel_);
}

void DatagramQueue::arm(bool solicited_only) noexcept {
  // Each call makes at most one event, and the next call reads one that comes late.
  ibv_cq* which = nullptr;
  void* context = nullptr;
  if (device_->library->get_cq_event(channel_, &which, &context) == 0) device_->library->ack_cq_events(receives_, 1);
  (void)ibv_req_notify_cq(receives_, solicited_only ? 1 : 0);
  armed_ = true;
  taken_ = false;
}

std::size_t DatagramQueue::take(std::span<ibv_wc> completions) noexcept {
  const int count = ibv_poll_cq(receives_, static_cast<int>(completions.size()), completions.data());
  if (count <= 0) return 0;
  taken_ = true;
  return static_cast<std::size_t>(count);
}

void DatagramQueue::arm_if_taken() noexcept {
  if (!armed_ || taken_) arm();
}

DatagramAddress DatagramQueue::address(const DevicePort& port) const noexcept {
  DatagramAddress address{.gid = {}, .lid = port.lid, .queue_pair = pair_->qp_num, .queue_key = key_};
  std::memcpy(address.gid.data(), port.gid.raw, address.gid.size());
  return address;
}

}  // namespace ripc::internal::verbs
