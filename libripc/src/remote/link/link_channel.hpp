// SPDX-License-Identifier: Apache-2.0
// The sending end of a link: spi::Channel with credits over a session. Derived classes decide how a datagram travels:
// udp_channel.hpp, and those that transports add.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/backoff.hpp"
#include "base/event_loop.hpp"
#include "base/standing_timer.hpp"
#include "remote/link/credit.hpp"
#include "remote/session/session.hpp"
#include "spi/shortage.hpp"
#include "spi/transport.hpp"
#include "wire/datagram.hpp"
#include "wire/session_control.hpp"

namespace ripc::internal::remote {

class LinkChannel : public spi::Channel, public std::enable_shared_from_this<LinkChannel> {
 public:
  struct Parts {
    SessionPointer session;
    EventLoop* loop = nullptr;
    spi::Host* host = nullptr;
    ripc_service_id service = 0;
    std::uint32_t link = 0;
    std::uint64_t token = 0;
    std::uint64_t incarnation = 0;
    std::uint32_t credit = 0;
    std::function<void(LinkChannel&)> failed;  // responder: the other end of the link is gone
  };
  // Makes a channel of the derived class, ready to be used. Throws std::bad_alloc.
  template <typename Derived, typename... Arguments>
  static std::shared_ptr<Derived> make(Arguments&&... arguments) {
    auto channel = std::make_shared<Derived>(std::forward<Arguments>(arguments)...);
    LinkChannel& base = *channel;
    base.start();
    return channel;
  }
  ~LinkChannel() override;

  // All sizes that can go by datagrams alone are ready.
  ripc_status widen(std::size_t) noexcept override { return RIPC_TOO_LARGE; }
  ripc_status send(const spi::Outgoing& outgoing) noexcept override;
  bool has_room(bool notify) noexcept override;
  ripc_status expose(std::span<const spi::Exposure> items, std::span<wire::Descriptor> descriptors,
                     std::uint64_t& transfer) noexcept override;
  ripc_status poll_transfer(std::uint64_t transfer, bool notify) noexcept override;
  ripc_status revoke(std::uint64_t transfer, bool& is_read) noexcept override;
  ripc_status grant(std::span<std::byte> memory, wire::Grant& grant) noexcept override;
  ripc_status end_grant(const wire::Grant& grant) noexcept override;
  Description describe(Deadline deadline) final;

  // ---- For the transport and for sources ----
  std::uint32_t link() const noexcept { return parts_.link; }
  const SessionPointer& session() const noexcept { return parts_.session; }
  // Responder. No more can be sent: RIPC_PEER_DEAD or RIPC_CLOSED. True the first time.
  bool end(ripc_status reason) noexcept;
  // Responder. One of its watched transfers has finished.
  void transfer_finished(std::uint64_t transfer, ripc_status status) noexcept;
  // Any. The number of the last packet sent.
  std::uint32_t last_sequence() noexcept;
  // Any. The receiver grants room.
  void credit_arrived(std::uint32_t credit) noexcept;

  // Any. Finds out whether datagrams get through. Called when the session has the channel, and then from time to time.
  virtual void check_path() noexcept = 0;
  // Responder. The session is about to end: sends by the control connection what may not have arrived by datagrams, and
  // waits until nothing is left to send by another connection.
  virtual void leave(Deadline deadline) noexcept = 0;
  // Responder. A frame of the session that is about this link.
  virtual void handle(const wire::session_control::Frame& frame) noexcept = 0;

  // The number of questions for room; for tests.
  std::uint64_t probes() const noexcept { return probes_.load(std::memory_order_relaxed); }

 protected:
  // Once, before any other call. Throws std::bad_alloc.
  virtual void start();
  // Responder. No more can be sent, or be waited for.
  virtual void on_end() noexcept = 0;
  // `holds_back`: transmit() holds a packet back if more follow.
  LinkChannel(Parts parts, std::size_t packet_limit, bool holds_back, spi::Multicast* multicast = nullptr);

  // ---- What carries the datagrams; with mutex_ held ----
  // What the receiver counts for a packet of this size; 0 if no credit is needed.
  virtual std::uint32_t cost_of(std::size_t packet) const noexcept = 0;
  // Sends one packet, gathered during the call, in header.after + 1 datagrams; it may wait if `more` follow. RIPC_OK,
  // RIPC_AGAIN (no room on this machine), RIPC_TOO_LARGE (then the ready limit is set), RIPC_PEER_DEAD (the other end
  // of the link is gone).
  virtual ripc_status transmit(const wire::datagram::Header& header, spi::Gather packet, bool more) noexcept = 0;
  // Reads what the receiver has granted, and passes it to credit_arrived(). False: the other end of the link is gone.
  virtual bool read_grants() noexcept = 0;
  // Whether there is room again on this machine, after RIPC_AGAIN.
  virtual bool can_transmit() noexcept = 0;
  // Responder, without the mutex. Calls `look` in the loop whenever read_grants() or can_transmit() may have news.
  // Throws std::bad_alloc.
  virtual Status watch_grants(std::function<void()> look) = 0;
  virtual void unwatch_grants() noexcept = 0;
  // Without the mutex. The line of describe(). Throws std::bad_alloc.
  virtual std::string path_text(Deadline deadline) = 0;
  // Many questions for room were not answered, and another one goes out. The receiver may be busy or no longer
  // reachable.
  virtual void probes_unanswered() noexcept = 0;

  // ---- For sending, with mutex_ held ----
  ripc_status room_locked(std::uint32_t cost) noexcept;
  wire::datagram::Header header_locked(std::uint32_t sequence, std::uint32_t spent, std::uint64_t offer) const noexcept;
  std::uint64_t take_offer() noexcept;
  void give_back(std::uint64_t offer) noexcept;
  // Records what was sent: how many datagrams, what they cost, and why the next one was not sent.
  void sent_locked(std::uint32_t datagrams, std::uint32_t cost, ripc_status status) noexcept;
  // How many datagrams a packet of this size takes.
  std::uint32_t datagrams_of(std::size_t packet) const noexcept {
    return packet <= datagram_limit_ ? 1 : static_cast<std::uint32_t>((packet + datagram_limit_ - 1) / datagram_limit_);
  }
  // The other end of the link is gone. Its process may still live, and then the session does not report it.
  void fail_locked() noexcept;
  // Sends a packet of this size by `transmit`, which is called like the virtual function, with the header of its first
  // datagram. Only header.spent differs: it includes the whole packet. Without mutex_.
  template <typename Transmit>
  ripc_status send_one(std::size_t size, Transmit&& transmit) noexcept {
    if (size > ready_limit()) [[unlikely]]
      return RIPC_TOO_LARGE;
    const std::lock_guard lock(mutex_);
    const std::uint32_t cost = cost_of(size);
    if (const ripc_status status = room_locked(cost); status != RIPC_OK) [[unlikely]]
      return status;
    const std::uint64_t offer = take_offer();
    const std::uint32_t datagrams = datagrams_of(size);
    wire::datagram::Header header = header_locked(sequence_ + 1, credit_.spent() + cost, offer);
    header.after = static_cast<std::uint8_t>(datagrams - 1);
    const ripc_status status = transmit(header);
    const bool is_sent = status == RIPC_OK;
    sent_locked(is_sent ? datagrams : 0, is_sent ? cost : 0, status);
    if (!is_sent) [[unlikely]]
      give_back(offer);
    return shortage_.note(status, spi::Resource::queue);
  }
  // For the session's control connection: header and packet as one datagram.
  static std::vector<std::byte> whole_of(const wire::datagram::Header& header, spi::Gather packet);  // std::bad_alloc
  ripc_status transmit_streamed(std::span<const std::byte> datagram) noexcept;
  // Responder, without mutex_. What came by the control connection for this end of the link.
  void take_streamed(const wire::session_control::Frame& frame) noexcept;
  // There may be room, perhaps by another path: a thread that waits for it is to look.
  void check_room_soon() noexcept {
    if (room_wanted_.load(std::memory_order_acquire)) defer(kWatch);
  }
  // With mutex_ held. Earlier questions went by a path that is no longer used.
  void ask_anew_locked() noexcept {
    next_probe_ = 0;
    probes_there_ = 0;
  }
  // Call before the members of a derived class are destroyed.
  void stop_watching() noexcept;

  const Parts parts_;
  const bool holds_back_;
  mutable SenderCredit credit_;
  spi::Shortage shortage_;
  std::mutex mutex_;     // packets leave in the order of their numbers
  std::uint64_t token_;  // under it: the link's name in its datagrams
  std::uint32_t sequence_ = 0;
  std::size_t datagram_limit_ = SIZE_MAX;  // under it: bytes of a packet that one datagram carries

 private:
  // What the responder is to do, a bit each.
  enum DeferredWork : std::uint32_t { kWatch = 1, kCheckCredit = 2, kLookForSlots = 4, kTellRoom = 8, kFailed = 16 };

  ripc_status send_packet(spi::Gather packet, bool more) noexcept;
  ripc_status send_announcement(const spi::Outgoing& outgoing) noexcept;
  ripc_status send_control(spi::Gather packet) noexcept;
  void defer(DeferredWork work) noexcept;
  void run_deferred_work() noexcept;
  std::uint32_t enough() const noexcept;
  bool has_room_now() noexcept;
  bool has_credit() noexcept;
  bool refresh_locked(std::uint32_t needed) noexcept;
  void probe_locked() noexcept;
  void check_credit() noexcept;
  void watch() noexcept;
  bool has_slot(spi::Need need) const noexcept;
  void request_slot(spi::Need need) noexcept;
  void look_for_slots() noexcept;
  void slot_freed() noexcept;

  const std::uint32_t budget_;
  bool interface_full_ = false;
  bool failing_ = false;
  Backoff probe_backoff_;
  Nanoseconds next_probe_ = 0;               // 0: there was room when last looked at
  std::atomic<Nanoseconds> probe_pause_{0};  // also read by the responder, without the mutex
  std::uint32_t probes_since_ = 0;           // what was spent when the first of probes_there_ was sent
  unsigned probes_there_ = 0;                // that the receiver may not have read yet
  std::atomic<std::uint64_t> probes_{0};

  std::atomic<bool> room_wanted_{false};
  std::atomic<unsigned> slots_wanted_{0};  // a bit for each need but the queue
  std::atomic<std::uint32_t> deferred_work_{0};
  StandingTimer work_timer_;
  StandingTimer look_timer_;
  StandingTimer slot_timer_;
  // The responder's.
  bool watching_ = false;
  bool looking_for_slots_ = false;
};

}  // namespace ripc::internal::remote
