// SPDX-License-Identifier: Apache-2.0
// A queue pair for datagrams, and its address.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/fork_guard.hpp"
#include "base/status.hpp"
#include "transport/verbs/device/device_list.hpp"
#include "wire/session_control.hpp"

namespace ripc::internal::verbs {

// The address of a queue pair for datagrams.
struct DatagramAddress {
  wire::session_control::Gid gid{};
  std::uint32_t lid = 0;
  std::uint32_t queue_pair = 0;
  std::uint32_t queue_key = 0;
};

// The address handle of a port; it is destroyed when nobody uses it any more. The work requests that use it share it.
using AddressHandle = std::shared_ptr<ibv_ah>;
// May wait for the network (ARP), for a second if nobody has that address. Null: errno says why.
AddressHandle create_handle(const DevicePointer& device, ibv_ah_attr address);

// A queue pair for datagrams with its completion queues; both directions. Any thread, except for the queues themselves.
class DatagramQueue {
 public:
  struct Sizes {
    std::uint32_t sends = 1;
    std::uint32_t receives = 1;
    std::uint32_t ranges = 1;  // memory ranges of one send
    std::uint32_t receive_ranges = 1;
    std::uint32_t inlined = 0;  // bytes wanted; the device may give less
    std::uint32_t key = 0;      // the queue key; 0: a random one
    // The queue that gets this one's receive completions among its own, in order of arrival; it must live longer. Null:
    // they have a separate queue.
    DatagramQueue* receives_of = nullptr;
  };
  static Result<std::unique_ptr<DatagramQueue>> create(const DevicePort& port, const DevicePointer& device,
                                                       const Sizes& sizes);
  ~DatagramQueue();

  ibv_qp* pair() const noexcept { return pair_; }
  ibv_cq* sends() const noexcept { return sends_; }
  ibv_cq* receives() const noexcept { return receives_; }
  int fd() const noexcept { return channel_->fd; }  // readable when arm() was called and something has come
  // Makes the descriptor unreadable, perhaps only after several calls, and readable again when something comes; with
  // `solicited_only`, only for what its sender wants noticed.
  void arm(bool solicited_only = false) noexcept;
  // For the one thread that takes everything that comes and waits for edges of the descriptor: takes completions of
  // receives. The second arms the queue unless it is still armed.
  std::size_t take(std::span<ibv_wc> completions) noexcept;
  void arm_if_taken() noexcept;
  std::uint32_t inlined() const noexcept { return inlined_; }
  DatagramAddress address(const DevicePort& port) const noexcept;
  // After an error: forgets what was posted and what has completed, and restarts the queue pair under the same number.
  // Nothing else may use the queue meanwhile.
  Status restart();
  // Any thread. Whether to restart the queue: since the last call the device has reported that it stopped with an
  // error, and it is still stopped. Completions report that too, but only those that were asked for.
  bool take_stopped() noexcept {
    return stopped_.load(std::memory_order_relaxed) && stopped_.exchange(false, std::memory_order_relaxed) &&
           is_stopped();
  }
  // Any thread. Whether the device has lost one of its completion queues: it will never work again.
  bool is_broken() const noexcept { return broken_.load(std::memory_order_relaxed); }

 private:
  explicit DatagramQueue(DevicePointer device) noexcept : device_(std::move(device)) {}
  Status make(const DevicePort& port, const Sizes& sizes);
  Status bring_up();
  void watch_for_errors();
  bool is_stopped() const noexcept;

  const DevicePointer device_;
  std::atomic<bool> stopped_{false};
  std::atomic<bool> broken_{false};
  bool shares_receives_ = false;
  ibv_comp_channel* channel_ = nullptr;
  ForkGuard guard_;
  ibv_cq* sends_ = nullptr;
  ibv_cq* receives_ = nullptr;
  ibv_qp* pair_ = nullptr;
  std::uint32_t key_ = 0;
  std::uint32_t inlined_ = 0;
  std::uint8_t port_number_ = 0;
  bool armed_ = false;
  bool taken_ = false;  // something was taken since it was armed
};

}  // namespace ripc::internal::verbs
