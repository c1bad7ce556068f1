// SPDX-License-Identifier: Apache-2.0
// The transport SPI: how core moves packets and bulk memory, whatever carries them. A transport implements Transport,
// Port, Source and Channel; core implements Host and PacketSink. The picture is in docs/architecture.md.
//
// Words: a *packet* is one encoded message (wire/packet.hpp). A *channel* is the way from this context to one remote
// service; the same way seen from the receiving side is a *source*. A *port* is the receive side of one local service.
// A *transfer* is the exposed memory of one message's long items; a *grant* is one return buffer.
//
// Threads: the *responder* is the context's background thread. "Any" means any thread, also several at once; the
// *receiver* is the one thread that receives from the service at that time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/event_loop.hpp"
#include "base/status.hpp"
#include "memory/pool.hpp"
#include "spi/address.hpp"
#include "wire/packet.hpp"
#include "wire/plain.hpp"

namespace ripc::spi {

using Bytes = std::span<const std::byte>;
using Gather = std::span<const Bytes>;  // ranges that make up one packet, in order

inline constexpr std::size_t kControlAllowance = 12;

// Bytes of one item; for more, a receiver does not wait longer.
inline constexpr std::uint64_t kLongestPatience = std::uint64_t{1} << 40;

// ---- Sending side --------------------------------------------------------------------------------------------

// One long item to expose.
struct Exposure {
  Bytes bytes;
  const memory::Hold* hold;  // tells pooled from foreign memory; stays with core
};

class Channel;

// A network's way to send one packet to several channels at once.
class Multicast {
 public:
  // Any. The message of `group` to these channels, whose multicast() this is: sent[i] becomes 1 for each that has it
  // as if its send_plain() had returned RIPC_OK. The others are sent to one by one, by whoever calls: they have no
  // room, or cannot be reached together, now or ever.
  virtual void send(ripc_service_id group, std::span<Channel* const> channels, const wire::Plain& message,
                    std::span<std::uint8_t> sent) noexcept = 0;

 protected:
  ~Multicast() = default;
};

class Channel {
 public:
  virtual ~Channel() = default;

  // Any. The largest packet. Changes only when the network's path does.
  virtual std::size_t packet_limit() const noexcept = 0;

  // The registration it leads to; 0 if unknown. Constant.
  virtual std::uint64_t incarnation() const noexcept = 0;

  // Any. Sends one packet, gathered from the caller's memory during the call. RIPC_OK, RIPC_AGAIN (no room),
  // RIPC_TOO_LARGE, RIPC_NO_MEMORY, RIPC_PEER_DEAD (nothing was sent; the channel is useless from now on), RIPC_CLOSED
  // (the service was withdrawn or taken over; likewise).
  virtual ripc_status send(Gather packet) noexcept = 0;

  // Any. As send(), for a packet that announces a transfer. A path that loses packets repeats it until the peer asks
  // for the transfer: long messages do not get lost.
  virtual ripc_status announce(std::uint64_t /*transfer*/, Gather packet) noexcept { return send(packet); }

  // Any. From here on until send_collected(), which follows soon, what this thread exposes and sends may wait for what
  // it exposes and sends next, where less work does for all of it. What was sent by then counts as sent. One thread at
  // a time collects; for another one nothing changes.
  virtual void collect() noexcept {}
  virtual void send_collected() noexcept {}

  // Any. As send(), for a plain message, for transports that write it straight to where it travels.
  virtual ripc_status send_plain(const wire::Plain& message) noexcept {
    wire::Encoder encoder(wire::PacketKind::message, message.tag, message.source);
    return wire::add_items(message, encoder) ? send(encoder.finish()) : RIPC_TOO_LARGE;
  }

  // Any. The same for a message whose bytes, where they lie in leases, stay as they are while somebody holds them
  // (memory::Hold): what has to be read after the call is held by the transport. `copied` becomes false if no payload
  // was copied.
  virtual ripc_status send_given(const wire::Plain& message, bool& /*copied*/) noexcept { return send_plain(message); }

  // Any. Several of them, in order. RIPC_OK: the first `sent` (at least one) were sent; call again for the others. Else
  // none was, for the reason that send_plain() gives.
  virtual ripc_status send_many(std::span<const wire::Plain> messages, std::size_t& sent) noexcept {
    ripc_status status = RIPC_OK;
    for (sent = 0; sent < messages.size(); ++sent) {
      status = send_plain(messages[sent]);
      if (status != RIPC_OK) break;
    }
    return sent != 0 ? RIPC_OK : status;
  }

  // Any. The same to the peer's responder: for notifications. Such a packet may be larger by kControlAllowance, for the
  // handle, up to some 60 KiB.
  virtual ripc_status send_control(Gather packet) noexcept = 0;

  // Any. True if there is room enough to start sending again. Cheap enough to spin on.
  virtual bool has_room() const noexcept = 0;

  // Any. The same; if not, Host::room() will be called, once, when that changes.
  virtual bool request_room() noexcept = 0;

  // Any. Exposes the items of one message for the peer to pull; fills one descriptor for each. `transfer` names it from
  // then on. RIPC_AGAIN if too many are under way, RIPC_NO_MEMORY, RIPC_PEER_DEAD.
  virtual ripc_status expose(std::span<const Exposure> items, std::span<wire::Descriptor> descriptors,
                             std::uint64_t& transfer) noexcept = 0;

  // Any. RIPC_PENDING, or how the peer finished it. Once it was not RIPC_PENDING, or revoke() was called, the transfer
  // is gone and its name means nothing. Cheap enough to spin on.
  virtual ripc_status transfer_status(std::uint64_t transfer) noexcept = 0;

  // Any. Asks that Host::transfer_finished() be called when the transfer finishes (it may be called without).
  // Returns false if it has finished already.
  virtual bool watch_transfer(std::uint64_t transfer) noexcept = 0;

  // Constant. True if watch_transfer() asks nothing of the peer, who tells of each end as it is: then all are watched.
  virtual bool watches_for_free() const noexcept { return false; }

  // Any. Ends the right to pull. RIPC_REVOKED: the peer has not taken the data and cannot deliver it any more; whoever
  // still reads finds out that it was revoked. Else the status it had finished with. RIPC_PENDING: the peer holds a
  // lent view; the memory must stay until the transfer finishes.
  virtual ripc_status revoke(std::uint64_t transfer) noexcept = 0;

  // Any. True while the peer may still be reading a transfer that was revoked; its memory must stay mapped until then.
  // Asking again after false is not allowed.
  virtual bool is_draining(std::uint64_t transfer) noexcept = 0;

  // Any. Lets the peer write into `memory` for one reply. RIPC_AGAIN if too many are under way, RIPC_NO_MEMORY.
  virtual ripc_status grant(std::span<std::byte> memory, wire::Grant& grant) noexcept = 0;

  // Any. Ends a grant. RIPC_OK: it had been written; RIPC_EMPTY: it had not; RIPC_PENDING: a write is going on, ask
  // again (it runs at memory speed, and ends at once when the peer dies).
  virtual ripc_status end_grant(const wire::Grant& grant) noexcept = 0;

  // Any. False once the peer is known to be gone.
  virtual bool alive() const noexcept = 0;

  // Any. What can send to this channel and to others at once, those that have the same; null: nothing.
  virtual Multicast* multicast() noexcept { return nullptr; }

  // Any, also the responder. Waits until it is known by which way packets get through, where that is not known yet, or
  // the deadline.
  virtual void prove(Deadline) noexcept {}

  // Any. One line for people: which path and why.
  virtual std::string describe() const = 0;
};

// ---- Receiving side ------------------------------------------------------------------------------------------

// One long item on its way into local memory. Core owns it until it is done.
struct Pull {
  wire::Descriptor descriptor;
  std::byte* destination = nullptr;
  bool finishes = false;                 // with these bytes its transfer may end as if finish() were told RIPC_OK
  ripc_status status = RIPC_PENDING;     // set by the transport
  std::uint64_t progress = 0;            // the transport's
  std::uint32_t copies = 0;              // how many times the bytes were copied on this side
  std::shared_ptr<const void> memory{};  // the transport's: what the sender's bytes lie in, if it is mapped here
};

class Source : public std::enable_shared_from_this<Source> {
 public:
  virtual ~Source() = default;

  // Any. Where the sending context can be reached, without a resolver.
  virtual Address reply_address() const = 0;
  virtual std::uint64_t context() const noexcept = 0;

  // Constant. How many messages core may begin before the first of them is complete. More than one where a pull takes
  // its time, and not that of the receiver.
  virtual std::size_t messages_at_once() const noexcept { return 1; }

  // Receiver. Claims the transfer that `items`, those of one message and at least one, belong to. RIPC_OK,
  // RIPC_REVOKED, RIPC_CORRUPT (also if they belong to several), RIPC_NO_MEMORY (nothing has happened). Any of them
  // names the transfer from then on.
  virtual ripc_status begin(std::span<const wire::Descriptor> items) noexcept = 0;

  // Receiver, first of all. RIPC_OK: the sender has done what it must before this item can be pulled or lent.
  // RIPC_PENDING: call again, the port's events tell when. So nothing need be held ready for a sender that does not
  // deliver. RIPC_PEER_DEAD, RIPC_CORRUPT.
  virtual ripc_status prepare(Pull& pull) noexcept = 0;

  // Any. How long a receiver waits for so many bytes (up to 64 times kLongestPatience) before it takes the windows back
  // from a sender that does not deliver: no shorter than an honest sender needs on this path.
  virtual Nanoseconds patience(std::uint64_t bytes) const noexcept = 0;

  // Receiver. True while this process has not looked at all that the sender has said: a silence is not the sender's.
  virtual bool is_behind() const noexcept = 0;

  // Receiver. Starts or goes on copying; RIPC_PENDING: call again, the port's events tell when. The status is also in
  // pull.status. Between calls the pull must stay where it is; abandon() forgets a pending one.
  virtual ripc_status pull(Pull& pull) noexcept = 0;
  virtual void abandon(Pull& pull) noexcept = 0;

  // Receiver. A read-only view of the sender's memory: unchanged until finish(), readable as long as pull.memory is
  // kept, whatever the sender does. RIPC_UNSUPPORTED: pull instead. RIPC_REVOKED.
  virtual ripc_status lend(Pull& pull, Bytes& bytes) noexcept = 0;

  // Any. Ends a transfer that was begun and tells the sender. RIPC_REVOKED: the sender had withdrawn it; what was
  // pulled must not be used, and nothing of the message be delivered. RIPC_PENDING, but not if drops_message(status):
  // the sender has been told; whether it had withdrawn the transfer is not known yet.
  // The receiver calls again with the same arguments when the port's events tell, if it wants to know.
  virtual ripc_status finish(const wire::Descriptor& descriptor, ripc_status status) noexcept = 0;

  // Any. Writes `bytes` to the start of a return buffer. RIPC_OK, RIPC_TOO_LARGE, RIPC_REVOKED (ended),
  // RIPC_UNSUPPORTED (this pair of processes cannot: let the requester pull), RIPC_PEER_DEAD.
  virtual ripc_status push(const wire::Grant& grant, Bytes bytes) noexcept = 0;

  // Core's, in the receiver: the service whose address was last learned from this source.
  ripc_service_id learned_service = 0;
};

// What core does with a packet.
enum class Delivery {
  taken,    // go on
  blocked,  // keep this packet, offer it again; go on with other sources
  stop,     // keep this packet and stop polling: there is no room for messages, or no memory
};

class PacketSink {
 public:
  // Receiver, from inside Port::poll(). The bytes may be writable by the peer and are valid during the call.
  virtual Delivery deliver(Source& source, Bytes packet) noexcept = 0;
  // Receiver, from inside Port::poll(). No packet will come from this source any more. Core drops what it waits for.
  virtual void source_gone(Source& source) noexcept = 0;

 protected:
  ~PacketSink() = default;
};

// What a port has seen of its sources' packets, since it was opened.
struct PortStatistics {
  std::uint64_t lost = 0;        // missing: sent, and neither here nor refused by the sender's side
  std::uint64_t late = 0;        // dropped, because later ones had come before; not among the lost
  std::uint64_t duplicates = 0;  // dropped
  std::uint64_t corrupt = 0;     // dropped: not what this transport sends
};

class Port {
 public:
  virtual ~Port() = default;

  // Receiver. Offers up to `budget` packets to the sink, fairly over the sources; returns how many were taken.
  virtual std::size_t poll(PacketSink& sink, std::size_t budget) noexcept = 0;

  // Receiver. After prepare_sleep(), whatever poll() could find makes the service's EventSet readable; the caller polls
  // once more before it sleeps. cancel_sleep() ends that.
  virtual void prepare_sleep() noexcept = 0;
  virtual void cancel_sleep() noexcept = 0;

  // The largest packet that can arrive. Constant.
  virtual std::size_t packet_limit() const noexcept = 0;

  // Any. Sources open now.
  virtual std::size_t source_count() const noexcept = 0;

  // Any. All zero where the path neither loses nor reorders.
  virtual PortStatistics statistics() const noexcept { return {}; }

  // Any. The service was published as this registration; peers that connect from now on are told.
  virtual void published(std::uint64_t incarnation) noexcept = 0;

  // Any. The service has ended: sends of its peers fail from now on. What they had sent can still be polled.
  virtual void close() noexcept = 0;
};

struct PortOptions {
  ripc_service_id id = 0;
  std::uint32_t queue_messages = 0;
  std::uint32_t queue_bytes = 0;
  std::uint32_t max_senders = 0;
};

// ---- Both ----------------------------------------------------------------------------------------------------

// Core, as transports see it. Called in the responder without locks held, unless a line says otherwise.
class Host {
 public:
  // A control packet for one of our services (checked for existence by core).
  virtual void control_packet(Source& source, ripc_service_id destination, Bytes packet) noexcept = 0;
  virtual void transfer_finished(Channel& channel, std::uint64_t transfer) noexcept = 0;
  virtual void room(Channel& channel) noexcept = 0;
  // The channel is dead: its transfers and grants have ended. RIPC_CLOSED: the service was withdrawn or taken over;
  // RIPC_PEER_DEAD: its process has gone, or cannot be reached any more.
  virtual void channel_lost(Channel& channel, ripc_status why) noexcept = 0;
  // Another context took this ID over. RIPC_NO_MEMORY: that could not be found out; tell it again.
  virtual ripc_status fenced(ripc_service_id id, std::uint64_t incarnation) noexcept = 0;
  // A transport's address() says something else than before.
  virtual void address_changed() noexcept = 0;

 protected:
  ~Host() = default;
};

// What every transport says of a process that is there and silent.
inline Status not_answering() {
  return Status(RIPC_TIMEOUT, "The process that holds the service does not answer; is it stopped?");
}

class Transport {
 public:
  virtual ~Transport() = default;

  virtual std::string_view name() const noexcept = 0;

  // Before any other call. The loop is the responder's.
  virtual Status start(Host& host, EventLoop& loop) = 0;

  // In the responder, when core is done with all channels and ports. Ends every connection.
  virtual void stop() noexcept = 0;

  // Any. Where this context can be reached now; without a locator: nowhere.
  virtual Address address() const = 0;

  // Any. Whether whoever has this address runs on this host, as far as the address tells.
  virtual bool is_on_this_host(const Address&) const { return false; }

  // Any. The directory that both processes must use to meet by this transport; "": they meet anywhere.
  virtual std::string meeting_place() const { return {}; }

  // Any. Opens the receive side of a service; its events go to `events`, which outlives the port.
  virtual Result<std::unique_ptr<Port>> open_port(const PortOptions& options, EventSet& events) = 0;

  // Any, also the responder. Opens the way to a service, or returns the one that is open. RIPC_NO_SERVICE (no such
  // service there), RIPC_PEER_DEAD (nobody there), RIPC_REFUSED, RIPC_VERSION_MISMATCH, RIPC_TIMEOUT,
  // RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY.
  virtual Result<std::shared_ptr<Channel>> connect(const Address& address, ripc_service_id id, Deadline deadline) = 0;

  // The same for a service that has one or more addresses, best first; `answered`: the index of the one that works. A
  // transport whose addresses may be silent tries them side by side.
  virtual Result<std::shared_ptr<Channel>> connect_any(std::span<const Address> addresses, ripc_service_id id,
                                                       Deadline deadline, std::size_t& answered) {
    Result<std::shared_ptr<Channel>> channel = RIPC_NO_SERVICE;
    for (answered = 0; answered < addresses.size(); ++answered) {
      channel = connect(addresses[answered], id, deadline);
      if (channel.ok()) break;
    }
    return channel;
  }

  // Any. Tells the context at `address` that its registration of `id` has ended, and waits for its answer.
  virtual Status fence(const Address& address, ripc_service_id id, std::uint64_t incarnation, Deadline deadline) = 0;

  // Any. The pool freed this arena: peers need not keep it mapped.
  virtual void arena_gone(std::uint32_t arena) noexcept = 0;
};

}  // namespace ripc::spi
