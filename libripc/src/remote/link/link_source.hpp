// SPDX-License-Identifier: Apache-2.0
// The receiving end of a link: spi::Source over a session. Derived classes decide where its datagrams come from.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/event_loop.hpp"
#include "remote/link/credit.hpp"
#include "remote/link/packet_assembly.hpp"
#include "remote/link/replay_window.hpp"
#include "remote/session/session.hpp"
#include "spi/transport.hpp"
#include "wire/datagram.hpp"

namespace ripc::internal::remote {

// Counted by the receiving thread, read by any.
struct PortCounters : spi::PortCounters {
  std::atomic<std::uint64_t> receive_calls{0};  // system calls made to receive packets
  std::atomic<std::uint64_t> credit_calls{0};   // likewise to send credits
};

// One writer: no need for a locked instruction.
inline void increase(std::atomic<std::uint64_t>& counter, std::uint64_t by = 1) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

class LinkSource : public spi::Source {
 public:
  struct Parts {
    SessionPointer session;
    std::uint32_t link = 0;  // the peer's name for it
    std::uint64_t token = 0;
    std::uint32_t budget = 0;  // of credits
    EventSet* events = nullptr;
    Nanoseconds peer_timeout = 0;
  };

  ripc_status begin(std::span<const wire::Descriptor> items) noexcept override;
  ripc_status prepare(spi::Pull&) noexcept override { return RIPC_OK; }
  ripc_status pull(spi::Pull& pull) noexcept override;
  void abandon(spi::Pull& pull) noexcept override;
  ripc_status finish(const wire::Descriptor& descriptor, ripc_status status) noexcept override;
  ripc_status push(const wire::Grant& grant, spi::Bytes bytes) noexcept override;

  // ---- For the port, in the receiving thread ----

  // Looks at one datagram that has just been read and must have this token. Returns the packet to deliver; empty if
  // there is none, or not all of it. The packet is valid as long as the datagram, and until the next one of the link is
  // looked at.
  spi::Bytes accept(spi::Bytes datagram, std::uint64_t token, PortCounters& counters) noexcept;
  // The packet that accept() gave for this datagram, which is the last one of the link that was looked at.
  spi::Bytes accepted(spi::Bytes datagram) const noexcept;
  // As accept(), for a datagram that the sender has sent to several receivers at once: its number belongs to `window`.
  // On such links every datagram costs 1. Empty also for a greeting, which is answered.
  spi::Bytes accept_multicast(spi::Bytes datagram, ReplayWindow& window, PortCounters& counters) noexcept;
  // After each batch of datagrams: grants the sender room, if it is time to.
  void settle(PortCounters& counters) noexcept;
  // Whether no packet is missing before the one of this number.
  bool is_next(std::uint32_t sequence) const noexcept { return window_.highest() + 1 == sequence; }
  // Whether keep() has kept datagrams. take_kept() moves their packets to the backlog, in order of arrival.
  bool has_kept() const noexcept { return has_kept_.load(std::memory_order_acquire); }
  void take_kept(PortCounters& counters) noexcept;
  // Packets that were read and cannot be delivered yet, in order of arrival.
  std::list<std::vector<std::byte>> backlog;
  // Delivers up to `budget` of them; returns how many. `stop` becomes true if the sink takes no more of any source.
  std::size_t deliver_backlog(spi::PacketSink& sink, std::size_t budget, bool& stop) noexcept;
  // Whether the peer is gone or has closed the link, and all that it sent before is here or will not come any more.
  bool is_over() const noexcept;

  // ---- For the transport ----
  // Responder, while the port is there. A frame of the session that is about this link.
  virtual void handle(const wire::session_control::Frame& frame) = 0;
  // Responder. A datagram of the link that came by the control connection. False: the sender has no credit for it; it
  // is dropped. Throws std::bad_alloc.
  bool keep(spi::Bytes datagram);
  std::uint32_t link() const noexcept { return parts_.link; }
  std::uint64_t token() const noexcept { return parts_.token; }
  const SessionPointer& session() const noexcept { return parts_.session; }
  // Any. The peer is gone, or has closed the link after the packet of this number (it may still be on its way).
  void mark_dead() noexcept { dead_.store(true, std::memory_order_release); }
  void mark_closed(std::uint32_t last_sequence, Nanoseconds patience_until) noexcept;
  // Any. Whether a datagram of the link was read since the last call.
  bool take_arrived() noexcept { return arrived_.exchange(false, std::memory_order_acq_rel); }
  bool dead() const noexcept { return dead_.load(std::memory_order_acquire); }
  // Receiver; once. A place in a list of sessions, with its own.
  std::list<std::weak_ptr<Session>> take_place() noexcept { return std::move(place_); }

 protected:
  explicit LinkSource(Parts parts);

  // Sends the sender a datagram that has only a header.
  virtual ripc_status transmit(const wire::datagram::Header& header) noexcept = 0;
  // The same by the control connection.
  ripc_status transmit_streamed(const wire::datagram::Header& header) noexcept;
  // What a datagram of this size, its header included, costs in credits.
  virtual std::uint32_t cost_of(std::size_t datagram) const noexcept = 0;
  // Datagrams that this machine had to drop for want of room, modulo 2^32. Always 0 where credit pays for whole
  // buffers.
  virtual std::uint32_t dropped() noexcept { return 0; }

  const Parts parts_;

 private:
  bool is_fresh(ReplayWindow& window, std::uint32_t sequence, std::uint32_t& missing, PortCounters& counters) noexcept;
  void count_lost(std::uint32_t missing, PortCounters& counters) noexcept;
  void multicast_reported(std::uint32_t sent, PortCounters& counters) noexcept;
  void pass_credit(std::uint32_t link, std::uint32_t credit) noexcept;
  void send_credit(PortCounters& counters) noexcept;

  std::list<std::weak_ptr<Session>> place_{parts_.session};
  ReceiverCredit credit_;
  ReplayWindow window_;
  std::uint64_t offered_ = 0;          // what this source has left in Session::offered_credit
  bool asked_ = false;                 // the sender wants to know
  bool missed_ = false;                // packets are missing since the last look at why
  bool receives_multicast_ = false;    // multicast, too
  std::uint32_t multicast_ = 0;        // that have come or are known to be lost, modulo 2^32
  std::uint32_t multicast_early_ = 0;  // of those, lost ones whose numbers are not known to be missing yet
  std::uint32_t dropped_ = 0;
  PacketAssembly assembly_;
  std::weak_ptr<LinkChannel> credited_;  // the last channel that this source brought credit for
  std::uint32_t credited_link_ = 0;

  std::atomic<bool> arrived_{false};
  std::atomic<bool> dead_{false};
  std::atomic<std::uint32_t> last_sequence_{0};
  std::atomic<Nanoseconds> patience_until_{0};

  std::atomic<bool> has_kept_{false};
  std::mutex kept_mutex_;
  std::list<std::vector<std::byte>> kept_;
  std::uint32_t kept_cost_ = 0;
};

}  // namespace ripc::internal::remote
