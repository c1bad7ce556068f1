// SPDX-License-Identifier: Apache-2.0
// The receive side of one local service on one transport.
//
// Threads: the *receiver* is the one thread that receives from the service at that time; "any" means any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "spi/source.hpp"

namespace ripc::internal::spi {

// What core does with a packet.
enum class Delivery {
  taken,    // go on
  blocked,  // keep this packet, offer it again; go on with other sources
  stop,     // keep this packet and stop polling: there is no room for messages, or no memory
};

class PacketSink {
 public:
  using Memory = std::shared_ptr<std::byte>;
  // Receiver, from inside Port::poll(). The bytes may be writable by the peer and are valid during the call. `room`:
  // the memory from make_room() if the bytes lie in it, else null. A message made of them keeps that memory.
  virtual Delivery deliver(Source& source, Bytes packet, const Memory* room) noexcept = 0;
  // Receiver, from inside Port::poll(). Memory for a packet that is too large to be copied. Empty: there is none now,
  // and polling stops.
  virtual Memory make_room(std::size_t size) noexcept = 0;
  // Receiver, from inside Port::poll(). No packet will come from this source any more. Core drops what it waits for.
  virtual void source_gone(Source& source) noexcept = 0;

 protected:
  ~PacketSink() = default;
};

struct PortOptions {
  ripc_service_id id = 0;
  std::uint32_t queue_messages = 0;
  std::uint32_t queue_bytes = 0;
  std::uint32_t max_senders = 0;
  std::string name = {};  // of the service; empty: none
};

// The state of a port now, and counts of its sources' packets since it was opened. A path that neither loses nor
// reorders packets counts none.
struct PortStatistics {
  std::size_t sources = 0;       // open now
  std::uint64_t lost = 0;        // missing: sent, and neither here nor refused by the sender's side
  std::uint64_t late = 0;        // dropped, because later ones had come before; not among the lost
  std::uint64_t duplicates = 0;  // dropped
  std::uint64_t corrupt = 0;     // dropped: not what this transport sends
};

// What a transport counts for the statistics. Each counter has one writer at a time.
struct PortCounters {
  std::atomic<std::size_t> sources{0};
  std::atomic<std::uint64_t> lost{0}, late{0}, duplicates{0}, corrupt{0};
};

class Port {
 public:
  virtual ~Port() = default;

  const PortOptions& options() const noexcept { return options_; }
  // The largest packet that can arrive.
  std::size_t packet_limit() const noexcept { return packet_limit_; }

  // Any. The service was published as this registration; peers that connect from now on learn it.
  void published(std::uint64_t incarnation) noexcept { incarnation_.store(incarnation); }
  std::uint64_t incarnation() const noexcept { return incarnation_.load(); }

  // Receiver. Offers up to `budget` packets to the sink, fairly over the sources; returns how many were taken.
  virtual std::size_t poll(PacketSink& sink, std::size_t budget) noexcept = 0;

  // Receiver. From arm(true) on, whatever poll() could find makes the service's EventSet readable; arm(false) ends
  // that. True: what came between the last poll() and now made no event, so the caller polls once more before it
  // sleeps.
  virtual bool arm(bool on) noexcept = 0;

  // Any.
  PortStatistics statistics() const noexcept {
    constexpr auto kOrder = std::memory_order_relaxed;
    return {.sources = counters_.sources.load(kOrder),
            .lost = counters_.lost.load(kOrder),
            .late = counters_.late.load(kOrder),
            .duplicates = counters_.duplicates.load(kOrder),
            .corrupt = counters_.corrupt.load(kOrder)};
  }

  // Any. The service has ended: sends of its peers fail from now on. What they had sent can still be polled.
  virtual void close() noexcept = 0;

 protected:
  // `counters`: of the derived class.
  Port(PortOptions options, std::size_t packet_limit, const PortCounters& counters) noexcept
      : options_(std::move(options)), packet_limit_(packet_limit), counters_(counters) {}

 private:
  const PortOptions options_;
  const std::size_t packet_limit_;
  const PortCounters& counters_;
  std::atomic<std::uint64_t> incarnation_{0};
};

}  // namespace ripc::internal::spi
