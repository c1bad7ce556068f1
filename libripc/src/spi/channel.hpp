// SPDX-License-Identifier: Apache-2.0
// The sending side of a transport: the way from this context to one remote service.
//
// Words: a *packet* is one encoded message (wire/packet.hpp). A *transfer* is the exposed memory of one message's long
// items; a *grant* is one return buffer. "Any" means any thread, also several at once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "memory/pool.hpp"
#include "ripc/ripc.h"
#include "wire/packet.hpp"
#include "wire/plain.hpp"

namespace ripc::internal::spi {

using Bytes = std::span<const std::byte>;
using Gather = std::span<const Bytes>;  // ranges that make up one packet, in order

// A control packet may exceed packet_limit() by this many bytes, for its handle, up to about 60 KiB.
inline constexpr std::size_t kControlAllowance = 12;

// One of the paths that long items take, or could take, to another host.
struct RailReport {
  std::string device = {};  // of this host: a network interface, or an RDMA device
  std::string local = {};   // addresses
  std::string peer = {};
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t rate = 0;         // bytes per second, when last measured; 0: not yet
  bool is_spare = false;          // much slower than the others
  std::uint32_t connections = 0;  // open over it now
};

// One packet to be sent.
struct Outgoing {
  enum class Kind : std::uint8_t {
    plain,         // `message`, written straight to where it travels
    given,         // the same; where its bytes lie in leases, they stay as they are while someone holds those
                   // (memory::Hold): what has to be read after the call is held by the transport
    packet,        // `packet`
    announcement,  // `packet`, which tells of `transfer`: a path that loses packets repeats it until the peer asks for
                   // the transfer
    control,       // `packet`, to the peer's responder
  };
  Kind kind = Kind::plain;
  // This thread is about to send more announcements on this channel, or to call send_many() with no messages. The
  // transport may hold this packet and what it exposes until then, if it can send all of them with less work. A held
  // packet counts as sent.
  bool more = false;
  wire::Plain message{};  // has no items if there is a packet
  Gather packet{};        // gathered from the caller's memory during the call
  std::uint64_t transfer = 0;
  bool* copied = nullptr;  // of what is given: becomes false if no payload was copied
};

// One long item to expose.
struct Exposure {
  Bytes bytes;
  const memory::Hold* hold;  // tells how long the memory stays valid; owned by core
};

// The largest item that a packet carries for a return buffer, on any path. Over sockets, carrying an item takes 0.2 to
// 0.6 times as long as writing it into the buffer (docs/performance/long-messages.md).
inline constexpr std::size_t kMostCarried = std::size_t{64} << 10;

class Channel;

// A network's way to send one packet to several channels at once.
class Multicast {
 public:
  // Any. Sends the message of `group` to these channels, all of which have this multicast(). Sets sent[i] to 1 for each
  // channel that the message reached as if its send() had returned RIPC_OK. The caller sends to the others one by one:
  // they have no room, or cannot be reached together, now or ever.
  virtual void send(ripc_service_id group, std::span<Channel* const> channels, const wire::Plain& message,
                    std::span<std::uint8_t> sent) noexcept = 0;

 protected:
  ~Multicast() = default;
};

class Channel {
 public:
  struct Facts {
    std::uint64_t incarnation = 0;  // the registration that the channel leads to; 0: unknown
    std::size_t packet_limit = 0;
    std::size_t most_carried = kMostCarried;  // on this path
    // A packet may be lost on the way while the peer is alive.
    bool loses = true;
    // The peer reports the end of every transfer by itself. Host::transfer_finished() then follows each poll_transfer()
    // with `notify`, at no cost to the peer. False: polling is better.
    bool reports_ends = false;
    // Sends one packet to several channels at once: all those with the same pointer. Null: there is no such way.
    Multicast* multicast = nullptr;
    // Where the peer shows which registration it serves, and the registration that this channel leads to. Null: the
    // peer sends a message instead.
    const std::atomic<std::uint32_t>* registration_line = nullptr;
    std::uint32_t registration = 0;
  };
  virtual ~Channel() = default;

  // Any. The largest packet. Changes only when the network's path does.
  std::size_t packet_limit() const noexcept { return packet_limit_.load(std::memory_order_relaxed); }
  // Any. Packets up to this size can be sent at once; larger ones, up to packet_limit(), need widen() first.
  std::size_t ready_limit() const noexcept { return ready_limit_.load(std::memory_order_relaxed); }
  std::size_t most_carried() const noexcept { return facts_.most_carried; }
  std::uint64_t incarnation() const noexcept { return facts_.incarnation; }
  bool loses() const noexcept { return facts_.loses; }
  bool reports_ends() const noexcept { return facts_.reports_ends; }
  Multicast* multicast() const noexcept { return facts_.multicast; }
  // Any. False once the peer is known to be gone.
  bool alive() const noexcept {
    return end_.load(std::memory_order_acquire) == RIPC_OK &&
           (facts_.registration_line == nullptr ||
            facts_.registration_line->load(std::memory_order_acquire) == facts_.registration);
  }

  // Any, outside of a ThreadEpoch::Section: it may wait for the peer. Prepares the path for packets of this size.
  // RIPC_OK; RIPC_TOO_LARGE: it cannot, and packet_limit() may be lower now; RIPC_PEER_DEAD, RIPC_CLOSED.
  virtual ripc_status widen(std::size_t packet) noexcept = 0;
  // Any. Begins that, and never waits. RIPC_PENDING: it is under way.
  virtual ripc_status begin_to_widen(std::size_t packet) noexcept { return widen(packet); }

  // Any. RIPC_OK, RIPC_AGAIN (no room), RIPC_TOO_LARGE (for ready_limit()), RIPC_NO_MEMORY, RIPC_PEER_DEAD (nothing was
  // sent; the channel is useless from now on), RIPC_CLOSED (the service was withdrawn or taken over; the same holds).
  virtual ripc_status send(const Outgoing& outgoing) noexcept = 0;

  // Any. Several plain messages, in order. RIPC_OK: the first `sent` (at least one) were sent; call again for the
  // others. Any other status: none was sent; the reasons are those of send(). Without messages: sends what was held for
  // more.
  virtual ripc_status send_many(std::span<const wire::Plain> messages, std::size_t& sent) noexcept = 0;

  // Any. True if there is room enough to start sending again. Cheap enough to spin on. With `notify`, if there is not,
  // Host::room() will be called once when that changes.
  virtual bool has_room(bool notify) noexcept = 0;

  // Any. Exposes the items of one message for the peer to pull; fills one descriptor for each. `transfer` names it from
  // then on, until its end was reported to Host::transfer_finished(), or by poll_transfer() or revoke(). RIPC_AGAIN if
  // too many are under way, RIPC_NO_MEMORY, RIPC_PEER_DEAD.
  virtual ripc_status expose(std::span<const Exposure> items, std::span<wire::Descriptor> descriptors,
                             std::uint64_t& transfer) noexcept = 0;

  // Any. RIPC_PENDING, or the status with which the peer finished the transfer. Cheap enough to spin on. With `notify`:
  // if it is pending, Host::transfer_finished() will be called when it finishes (it may be called without `notify`,
  // too).
  virtual ripc_status poll_transfer(std::uint64_t transfer, bool notify) noexcept = 0;

  // Any. Ends the right to pull. RIPC_REVOKED: the peer has not taken the data and cannot deliver it any more; a peer
  // that still reads finds out that it was revoked. If the peer had finished it: that status. RIPC_PENDING: the peer
  // holds a lent view. `is_read`: the peer may still be reading. Then the memory must stay mapped, and the transfer
  // keeps its name, as long as poll_transfer() says RIPC_PENDING.
  virtual ripc_status revoke(std::uint64_t transfer, bool& is_read) noexcept = 0;

  // Any. Lets the peer write into `memory` for one reply. RIPC_AGAIN if too many are under way, RIPC_NO_MEMORY.
  virtual ripc_status grant(std::span<std::byte> memory, wire::Grant& grant) noexcept = 0;

  // Any. Ends a grant. RIPC_OK: it had been written; RIPC_EMPTY: it had not; RIPC_PENDING: a write is going on, ask
  // again (it runs at memory speed, and ends at once when the peer dies).
  virtual ripc_status end_grant(const wire::Grant& grant) noexcept = 0;

  struct Description {
    std::string text;               // which path and why, in one line
    std::vector<RailReport> rails;  // of its long items; none within this host
  };
  // Any, also the responder. A description for people. If it is not known yet by which path packets get through, waits
  // until it is or the deadline passes. Throws std::bad_alloc.
  virtual Description describe(Deadline deadline) = 0;

 protected:
  explicit Channel(const Facts& facts) noexcept
      : facts_(facts), packet_limit_(facts.packet_limit), ready_limit_(facts.packet_limit) {}

  // Why no more can be sent; RIPC_OK: it can, as far as is known.
  ripc_status ended() const noexcept { return static_cast<ripc_status>(end_.load(std::memory_order_relaxed)); }
  // No more can be sent: RIPC_PEER_DEAD or RIPC_CLOSED. True the first time.
  bool set_end(ripc_status reason) noexcept {
    int open = RIPC_OK;
    return end_.compare_exchange_strong(open, reason, std::memory_order_acq_rel);
  }
  void set_packet_limit(std::size_t limit) noexcept { packet_limit_.store(limit, std::memory_order_relaxed); }
  void set_ready_limit(std::size_t limit) noexcept { ready_limit_.store(limit, std::memory_order_relaxed); }

 private:
  const Facts facts_;
  std::atomic<std::size_t> packet_limit_;
  std::atomic<std::size_t> ready_limit_;
  std::atomic<int> end_{RIPC_OK};
};

}  // namespace ripc::internal::spi
