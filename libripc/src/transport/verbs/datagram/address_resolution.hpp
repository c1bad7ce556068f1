// SPDX-License-Identifier: Apache-2.0
// Sends datagrams to peers that the device has no address handle for yet. Finding one may wait for the network (ARP),
// for a second if nobody has that address, so a separate thread does it. The thread also does other work that takes the
// kernel a while.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "transport/verbs/groups/group_queue.hpp"

namespace ripc::internal::verbs {

class AddressResolution {
 public:
  ~AddressResolution() { stop(); }

  // Starts the thread. RIPC_SYSTEM.
  Status start();
  // Drops what has not yet been sent or begun; may wait for the address that is being resolved.
  void stop() noexcept;
  // Any thread; never blocks. The thread calls it when its turn comes.
  void run(std::function<void()> work);
  // Any thread; never blocks. False: too many are waiting.
  bool send(std::shared_ptr<GroupQueue> queue, const GroupPeer& peer, std::span<const std::byte> bytes);
  // Any thread. How many could not be sent since the last call.
  std::size_t take_failures() noexcept;

 private:
  static constexpr std::size_t kMostWaiting = 256;
  struct Job {
    std::shared_ptr<GroupQueue> queue;
    GroupPeer peer;
    std::vector<std::byte> bytes;
    std::function<void()> work;  // if set, instead of the other members
  };
  static GroupQueue::Sending do_job(const Job& job);
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::size_t failures_ = 0;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace ripc::internal::verbs
