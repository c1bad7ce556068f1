// SPDX-License-Identifier: Apache-2.0
// Sends messages that have more than short items: long items, return buffers, and replies to requests with return
// buffers.
#pragma once

#include <memory>
#include <span>

#include "core/path/paths.hpp"
#include "core/protocol/outgoing.hpp"
#include "core/send/send_counters.hpp"
#include "core/state/requests.hpp"
#include "core/state/ticket.hpp"
#include "memory/pool.hpp"

namespace ripc::internal::core {

// Any thread.
class LongSend {
 public:
  LongSend(ripc_service_id id, Paths& paths, memory::Pool& pool, TicketKeeper& tickets, RequestTable& requests,
           SendCounters& counters)
      : id_(id), paths_(paths), pool_(pool), tickets_(tickets), requests_(requests), counters_(counters) {}

  // `ticket`: null if nobody wants it.
  Status send(const SendArguments& arguments, std::shared_ptr<Ticket>* ticket);
  // Ends the messages in progress.
  void end() noexcept { tickets_.end_sender(*sender_); }
  const TicketSender& tickets() const noexcept { return *sender_; }

  // Memory that the peer reads after the call. RIPC_INVALID_ARGUMENT: nobody would learn when the loan ends, and the
  // memory is neither leased nor registered.
  static Result<memory::Hold> lend(memory::Pool& pool, const ripc_item& item, bool is_reported);

 private:
  struct Prepared;
  class Attempt;
  Status make_ready(const SendArguments& arguments, Prepared& prepared, spi::Channel& channel, bool may_write,
                    bool is_reported);
  Status prepare(const SendArguments& arguments, Prepared& prepared, bool is_reported);
  Result<memory::Hold> memory_of(const ripc_item& item, bool is_reported);
  Status transmit(const SendArguments& arguments, Prepared& prepared, const std::shared_ptr<spi::Channel>& channel,
                  std::shared_ptr<Ticket>* ticket);
  ripc_status transmit_packet(const SendArguments& arguments, const ItemPlan& plan,
                              std::span<const wire::Descriptor> descriptors, const Attempt& attempt) noexcept;

  const ripc_service_id id_;
  Paths& paths_;
  memory::Pool& pool_;
  TicketKeeper& tickets_;
  RequestTable& requests_;
  SendCounters& counters_;
  const std::shared_ptr<TicketSender> sender_ = std::make_shared<TicketSender>();
};

}  // namespace ripc::internal::core
