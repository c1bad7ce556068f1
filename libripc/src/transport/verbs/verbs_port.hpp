// SPDX-License-Identifier: Apache-2.0
// The receive side of one service: a queue pair for datagrams on each port of a device that peers reach it by, made
// when the first of them comes; and the UDP links of peers whose devices have no datagrams.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "network/udp_port.hpp"
#include "transport/verbs/datagram_channel.hpp"
#include "transport/verbs/datagram_sender.hpp"

namespace ripc::verbs {

class VerbsPort final : public network::UdpPort {
 public:
  VerbsPort(const spi::PortOptions& options, EventSet& events, EventLoop& loop, std::size_t receive_buffer,
            std::function<void(LinkPort&)> closed)
      : UdpPort(options, events, loop, receive_buffer, std::move(closed)) {}
  ~VerbsPort() override;

  std::size_t poll(spi::PacketSink& sink, std::size_t budget) noexcept override;
  void prepare_sleep() noexcept override;

  // ---- For the transport, in the responder ----
  struct Accepted {
    std::shared_ptr<DatagramSource> source;
    DatagramAddress address;
    std::uint32_t packet_limit = 0;
  };
  // Takes a link whose datagrams come from `back`. RIPC_LIMIT: the device's queue has no room for one more sender.
  Result<Accepted> accept(network::LinkSource::Parts parts, std::shared_ptr<DatagramSender> sender,
                          std::shared_ptr<Registrar> registrar, const DatagramRoute& back);
  // The queue pairs for datagrams; for tests.
  std::vector<ibv_qp*> pairs();

 private:
  static constexpr std::size_t kBatch = 16;

  // A receive buffer; its address is the number of its work request.
  struct Slot {
    std::byte* memory;
    std::uint32_t local_key;
  };
  // Some of them.
  struct Chunk {
    std::unique_ptr<std::byte[]> memory;
    RegionPointer region;
    std::vector<Slot> slots;
  };
  // One queue pair.
  struct Receiver {
    FabricPort port;
    std::shared_ptr<Registrar> registrar;
    std::unique_ptr<DatagramQueue> queue;
    std::uint32_t depth = 0;
    std::size_t stride = 0;
    // Under mutex_.
    std::deque<Chunk> chunks;
    std::uint32_t slots = 0;      // posted or with the receiver
    std::uint32_t committed = 0;  // to the sources
    // The receiver's.
    std::array<ibv_wc, kBatch> batch{};
    std::size_t next = 0, count = 0;
    bool offered = false;     // the next one was looked at already
    std::vector<Slot*> used;  // to be posted again
    bool failed = false;      // the queue pair has stopped with an error
  };

  Result<Receiver*> receiver_for(const FabricPort& port, const std::shared_ptr<Registrar>& registrar);
  static Status add_slots(Receiver& receiver, std::uint32_t count);
  static void post(Receiver& receiver, std::vector<Slot*>& slots) noexcept;
  std::uint32_t budget_locked(const Receiver& receiver) const noexcept;
  void refresh() noexcept;
  std::size_t poll_receiver(Receiver& receiver, spi::PacketSink& sink, std::size_t budget, bool& stop) noexcept;
  std::size_t poll_backlogs(spi::PacketSink& sink, std::size_t budget, bool& stop) noexcept;
  void settle(DatagramSource* source) noexcept;
  void restart(Receiver& receiver) noexcept;
  void bury(spi::PacketSink& sink) noexcept;

  std::deque<std::unique_ptr<Receiver>> receivers_;                                         // under mutex_
  std::unordered_map<const network::LinkSource*, std::pair<Receiver*, std::uint32_t>> at_;  // likewise: with budget

  // The receiving thread's own.
  std::uint64_t seen_version_ = 0;
  std::vector<Receiver*> polled_receivers_;
  std::unordered_map<std::uint64_t, std::shared_ptr<DatagramSource>> by_token_;
  std::vector<std::shared_ptr<DatagramSource>> dying_;
  std::vector<std::shared_ptr<DatagramSource>> blocked_;  // have a backlog
};

}  // namespace ripc::verbs
