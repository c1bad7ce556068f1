// SPDX-License-Identifier: Apache-2.0
// The receiving side of a transport: what comes from one remote sender to one local service.
//
// Threads: the *receiver* is the one thread that receives from the service at that time; "any" means any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/clock.hpp"
#include "memory/residence.hpp"
#include "spi/address.hpp"
#include "spi/channel.hpp"
#include "spi/peer.hpp"

namespace ripc::internal::spi {

// In bytes of one item: a receiver does not wait longer for larger ones.
inline constexpr std::uint64_t kLongestPatience = std::uint64_t{1} << 40;

// One long item on its way into local memory. Core owns it until it is done.
struct Pull {
  wire::Descriptor descriptor;
  std::byte* destination = nullptr;
  memory::Residence residence{};         // of the destination, until the pull has ended
  bool lend = false;                     // no copy is wanted, but a view
  bool finishes = false;                 // when it succeeds, its transfer may end as if by finish() with RIPC_OK
  ripc_status status = RIPC_PENDING;     // set by the transport
  std::uint64_t progress = 0;            // the transport's
  std::uint32_t copies = 0;              // how many times the bytes were copied on this side
  std::shared_ptr<const void> memory{};  // the transport's: what the sender's bytes lie in, if it is mapped here
};

class Source : public std::enable_shared_from_this<Source> {
 public:
  struct Facts {
    std::uint64_t context = 0;  // of the sender
    Address reply_address;      // where that context can be reached, without a resolver
    // How many messages core may begin before the first of them is complete. More than one where a pull takes time, but
    // not time of the receiving thread.
    std::size_t messages_at_once = 1;
    // How long a receiver waits for bytes before it takes the windows back from a sender that does not deliver. It is
    // no shorter than an honest sender needs on this path.
    Nanoseconds patience = 0;
    std::uint64_t slowest_rate = 1;    // extra patience: one second for this many bytes
    bool wants_residence = false;      // pulls are faster where Pull::residence is known: core looks
    const PeerTable* peers = nullptr;  // the table that has `peer`; null: the peer is unknown
    const Peer* peer = nullptr;        // who the sender is; lives as long as the transport
  };
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  // Any.
  const Facts& facts() const noexcept { return facts_; }
  // Whether the sender may claim to have this ID.
  bool may_claim(ripc_service_id id) const {
    return facts_.peer == nullptr || facts_.peers->may_claim(*facts_.peer, id);
  }
  Nanoseconds patience(std::uint64_t bytes) const noexcept {
    constexpr Nanoseconds kSecond = 1'000'000'000;
    const std::uint64_t rate = facts_.slowest_rate;
    return facts_.patience + bytes / rate * kSecond + bytes % rate * kSecond / rate;
  }

  // Receiver. Claims the transfer that `items`, those of one message and at least one, belong to. RIPC_OK,
  // RIPC_REVOKED, RIPC_CORRUPT (also if they belong to several), RIPC_NO_MEMORY (nothing has happened). Any of the
  // descriptors names the transfer from then on.
  virtual ripc_status begin(std::span<const wire::Descriptor> items) noexcept = 0;

  // Receiver, before the first pull(). RIPC_OK: the sender has done what it must before this item can be pulled or
  // lent. RIPC_PENDING: call again when the port's events tell. So core need not hold anything ready for a sender that
  // does not deliver. RIPC_PEER_DEAD, RIPC_CORRUPT.
  virtual ripc_status prepare(Pull& pull) noexcept = 0;

  // Receiver. Starts or continues copying to the destination. RIPC_PENDING: call again when the port's events tell. The
  // status is also in pull.status. Between calls the pull must stay where it is; abandon() forgets a pending one.
  // With pull.lend, the destination becomes a read-only view of the sender's memory. It is unchanged until finish(),
  // and readable as long as pull.memory is kept, whatever the sender does. RIPC_UNSUPPORTED: copy instead.
  // RIPC_REVOKED.
  virtual ripc_status pull(Pull& pull) noexcept = 0;
  virtual void abandon(Pull& pull) noexcept = 0;

  // Any. Ends a transfer that was begun and tells the sender. RIPC_REVOKED: the sender had withdrawn it; what was
  // pulled must not be used, and no part of the message may be delivered. RIPC_PENDING, but not if
  // drops_message(status): the sender was notified, but it is not known yet whether it had withdrawn the transfer. A
  // receiver that wants to know calls again with the same arguments when the port's events tell.
  virtual ripc_status finish(const wire::Descriptor& descriptor, ripc_status status) noexcept = 0;

  // Any. Writes `bytes` to the start of a return buffer. RIPC_OK, RIPC_TOO_LARGE, RIPC_REVOKED (ended),
  // RIPC_UNSUPPORTED (this pair of processes cannot: let the requester pull), RIPC_PEER_DEAD.
  virtual ripc_status push(const wire::Grant& grant, Bytes bytes) noexcept = 0;

  // For the sink, in the receiver: what the sink remembers about this source. A transport neither reads nor writes it.
  // A table in the sink would cost a look-up and a cache line for each packet when several sources take turns.
  std::uint64_t sink_data = 0;

 protected:
  explicit Source(Facts facts) noexcept : facts_(std::move(facts)) {}

 private:
  const Facts facts_;
};

}  // namespace ripc::internal::spi
