// SPDX-License-Identifier: Apache-2.0
// The sending half of a service. Decides for each message whether it goes as one packet, with long items, or to a
// group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/send/group_send.hpp"
#include "core/send/long_send.hpp"
#include "core/send/short_send.hpp"
#include "core/state/requests.hpp"
#include "core/state/service_life.hpp"

namespace ripc::internal::core {

// Any thread.
class Sender {
 public:
  // All of them outlive the Sender. resolve_timeout: how long it looks for members of groups.
  struct Parts {
    ServiceLife& life;
    Paths& paths;
    memory::Pool& pool;
    TicketKeeper& tickets;
    RequestTable& requests;
    GroupTable& groups;
    spi::Resolver& resolver;
    Nanoseconds resolve_timeout;
  };
  Sender(ripc_service_id id, const Parts& parts)
      : life_(parts.life),
        paths_(parts.paths),
        pool_(parts.pool),
        short_(id, parts.paths),
        long_(id, parts.paths, parts.pool, parts.tickets, parts.requests, short_.counters()),
        group_(short_, parts.paths, parts.groups, parts.resolver, parts.resolve_timeout) {}
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  // A message of short items with no option but a tag, of at most `most` bytes. No allocation, no lock. RIPC_PENDING:
  // the channel is not known, so send() has to handle the message. `loses` (may be null): whether the path may lose it.
  [[gnu::always_inline]] ripc_status send_short(ripc_service_id to, std::uint32_t tag, std::span<const ripc_item> items,
                                                bool* loses = nullptr, std::size_t most = SIZE_MAX) noexcept {
    return life_.status() == RIPC_OK ? short_.send_known(to, tag, items, loses, most) : RIPC_PENDING;
  }
  Status send(const SendArguments& arguments, std::shared_ptr<Ticket>* ticket);
  // Adds the number of messages sent to `sent`. A failure says why the next one was not sent. `each`: the arguments
  // that all messages share. `tickets`: empty, or one for each message.
  Status send_many(const SendArguments& each, std::span<const ripc_outgoing> messages,
                   std::span<std::shared_ptr<Ticket>> tickets, std::size_t& sent);
  Status notify(ripc_service_id to, std::uint64_t handle, std::span<const ripc_item> items);
  Result<std::size_t> short_limit(ripc_service_id to, std::size_t items);
  // Holds the lease of a GIVEN item. RIPC_INVALID_ARGUMENT: it does not lie in one.
  static Result<memory::Hold> hold_given(memory::Pool& pool, const ripc_item& item);
  // Ends the messages in progress.
  void end() noexcept { long_.end(); }
  const TicketSender& tickets() const noexcept { return long_.tickets(); }

  GroupSend& groups() noexcept { return group_; }
  SendCounters& counters() noexcept { return short_.counters(); }
  const SendCounters& counters() const noexcept { return short_.counters(); }

 private:
  Status send_given(const SendArguments& arguments, std::shared_ptr<Ticket>* ticket);
  Status send_held(const SendArguments& arguments, std::shared_ptr<Ticket>* ticket);

  ServiceLife& life_;
  Paths& paths_;
  memory::Pool& pool_;
  ShortSend short_;
  LongSend long_;
  GroupSend group_;
};

}  // namespace ripc::internal::core
