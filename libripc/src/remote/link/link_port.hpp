// SPDX-License-Identifier: Apache-2.0
// The receive side of one service: what it does with its links, whatever carries their datagrams.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "base/event_loop.hpp"
#include "remote/link/link_source.hpp"
#include "spi/transport.hpp"

namespace ripc::internal::remote {

class UdpReceiver;

class LinkPort : public spi::Port {
 public:
  // Waits a moment until the senders know that the port is closed, but not for those that did not answer before.
  void close() noexcept override;

  // ---- For the transport, in the responder ----
  EventSet& events() const noexcept { return events_; }
  bool closed() const noexcept { return closing_.load(std::memory_order_acquire); }
  // A source has died or been closed: makes the receiver look.
  void wake() noexcept;

  // The part that takes links over UDP.
  virtual UdpReceiver& udp() noexcept = 0;

  // ---- For what reads the datagrams of some of the sources ----
  PortCounters& counters() noexcept { return counters_; }
  // Changes when the set of sources changes, and when a source dies.
  std::uint64_t version() const noexcept { return version_.load(std::memory_order_acquire); }
  // Responder. Allocates what the next insert() needs. Throws std::bad_alloc.
  void make_place();
  void insert(std::shared_ptr<LinkSource> source) noexcept;
  // Receiver.
  void erase(LinkSource& source) noexcept;

 protected:
  // `loop`: the responder's. `closed` runs in leave(): the transport forgets the port there.
  LinkPort(const spi::PortOptions& options, std::size_t packet_limit, EventSet& events, EventLoop& loop,
           std::function<void(LinkPort&)> closed);
  // Closes the port and releases the sources. Destructors of derived classes call it first; once.
  void leave() noexcept;
  // With mutex_ held.
  void insert_locked(std::shared_ptr<LinkSource> source) noexcept;
  // With mutex_ held. As make_place().
  void make_place_locked();
  // Receiver, without the mutex. A message of the source may end later, and the session may then wake the events:
  // leave() makes it forget them.
  void remember_session_of(LinkSource& source) noexcept;
  // Receiver, with mutex_ held.
  void erase_locked(const LinkSource& source) noexcept;

  EventSet& events_;
  EventLoop& loop_;
  PortCounters counters_;

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<LinkSource>> sources_;  // the authoritative list
  std::atomic<std::uint64_t> version_{0};             // of sources_, and of their deaths

 private:
  std::function<void(LinkPort&)> closed_;
  std::atomic<bool> closing_{false};
  std::condition_variable changed_;
  std::list<std::weak_ptr<Session>> former_sessions_;  // the receiver's; of sources that are gone
};

}  // namespace ripc::internal::remote
