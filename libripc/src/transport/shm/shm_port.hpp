// SPDX-License-Identifier: Apache-2.0
// The receive side of one service: polls the queues of its sources in turn.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/event_loop.hpp"
#include "spi/transport.hpp"
#include "transport/shm/service_state.hpp"
#include "transport/shm/shm_source.hpp"

namespace ripc::internal::shm {

class ShmPort final : public spi::Port {
 public:
  // `closed` runs on destruction, before the sources are dropped: the transport forgets the port there.
  ShmPort(const spi::PortOptions& options, EventSet& events, ServiceStateTable::Slot state,
          std::function<void(ShmPort&)> closed);
  ~ShmPort() override;

  std::size_t poll(spi::PacketSink& sink, std::size_t budget) noexcept override;
  bool arm(bool on) noexcept override;
  void close() noexcept override;

  // ---- For the transport, in the responder ----
  const ServiceStateTable::Slot& state() const noexcept { return state_; }
  // What the state line says as long as the service is open.
  std::uint32_t registration() const noexcept { return registration_; }
  bool closed() const noexcept { return line_->registration.load(std::memory_order_acquire) != registration_; }
  Status add_source(std::shared_ptr<ShmSource> source);
  bool has(const ShmSource& source) const noexcept;
  // Its sources, also those that are dead and not yet emptied by the receiver.
  std::size_t sources_of(const ControlConnection& connection) const noexcept;
  // Data for a pull has arrived: makes the receiver look.
  void wake() noexcept;
  // Call it after a source has died or was cut off. The next poll takes no more from it than it may, and lets go of it.
  void look_at_sources() noexcept;

 private:
  void refresh() noexcept;
  [[gnu::noinline]] std::size_t poll_refreshed(spi::PacketSink& sink, std::size_t budget) noexcept;
  [[gnu::noinline]] std::size_t poll_sources(spi::PacketSink& sink, std::size_t budget) noexcept;
  [[gnu::noinline]] std::size_t take_one(std::span<const std::byte> packet, spi::PacketSink& sink) noexcept;
  std::size_t count(std::size_t taken) noexcept;
  [[gnu::noinline]] std::size_t after_none(spi::PacketSink& sink, std::size_t budget) noexcept;
  std::size_t poll_rested(spi::PacketSink& sink, std::size_t budget) noexcept;
  std::size_t poll_all(spi::PacketSink& sink, std::size_t budget) noexcept;
  std::size_t poll_source(ShmSource& source, std::span<const std::byte> packet, spi::PacketSink& sink,
                          std::size_t budget, bool& stop) const noexcept;
  std::size_t retire_source(std::shared_ptr<ShmSource> source, spi::PacketSink& sink, std::size_t budget,
                            bool& stop) noexcept;
  void remove(const std::shared_ptr<ShmSource>& source) noexcept;
  void prepare_sleep() noexcept;
  void cancel_sleep() noexcept;
  void clear_fence_needed() noexcept;

  EventSet& events_;
  ServiceStateTable::Slot state_;
  ServiceLine* line_;
  const std::uint32_t registration_;
  std::function<void(ShmPort&)> closed_;

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<ShmSource>> sources_;  // the authoritative list
  spi::PortCounters counters_;
  std::vector<std::shared_ptr<ShmSource>> spare_;  // empty
  std::atomic<std::uint64_t> version_{0};          // of sources_

  // The receiving thread's own. Its memory changes under the mutex only: together with spare_ it always has room for
  // all sources.
  std::vector<std::shared_ptr<ShmSource>> polled_;
  ShmSource* single_source_ = nullptr;  // of polled_, if there is one only, and it lives
  std::uint64_t polled_version_ = 0;
  std::size_t next_ = 0;
  bool fence_needed_ = false;    // senders see kFenceNeeded
  std::size_t since_sleep_ = 0;  // packets, while fence_needed_
  std::size_t streak_ = 0;       // packets since the last look that found none
};

}  // namespace ripc::internal::shm
