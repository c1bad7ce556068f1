// SPDX-License-Identifier: Apache-2.0
#include "core/send/long_send.hpp"

#include <array>
#include <string>

#include "core/send/short_send.hpp"
#include "wire/packet.hpp"

namespace ripc::internal::core {

namespace {

// The channel that had no room for the last copies that this thread made. A sender that tries again and again makes no
// further copies until there is room.
thread_local const spi::Channel* refused_copies = nullptr;

// The right to write into the return buffers of a request, which one reply at a time has. A reply that was not sent may
// be sent again, and written again.
class ReplyTurn {
 public:
  explicit ReplyTurn(Message::Attachments* of) noexcept
      : attachments_(of), is_first_(of != nullptr && !of->replied.exchange(true, std::memory_order_acq_rel)) {}
  ~ReplyTurn() {
    if (is_first_ && !sent) attachments_->replied.store(false, std::memory_order_release);
  }
  ReplyTurn(const ReplyTurn&) = delete;
  ReplyTurn& operator=(const ReplyTurn&) = delete;
  bool is_first() const noexcept { return is_first_; }
  bool sent = false;

 private:
  Message::Attachments* attachments_;
  bool is_first_;
};

}  // namespace

// The state prepared for the items.
struct LongSend::Prepared {
  ItemPlan plan;
  std::vector<memory::Hold> holds;  // one for each item that is pulled, in order
  std::vector<spi::Exposure> exposures;
  std::vector<spi::Bytes> ranges;
  bool has_copies = false;  // some holds are copies of memory that belongs to the caller again after the call
};

Status LongSend::send(const SendArguments& arguments, std::shared_ptr<Ticket>* ticket) {
  ReplyTurn turn(arguments.is_reply() ? arguments.reply_to->attachments.get() : nullptr);
  const bool is_reported = (ticket != nullptr && !arguments.is_loan_secret) || arguments.callback != nullptr;
  Prepared prepared;
  Status status = RIPC_PEER_DEAD;
  for (int attempt = 0; attempt < kAttempts && is_gone(status.code()); ++attempt) {
    Result<std::shared_ptr<spi::Channel>> channel = paths_.known_channel(arguments.to);
    if (*channel == nullptr) {
      if (arguments.never_waits) return RIPC_PENDING;
      channel = paths_.channel_to(arguments.to, counters_.resolutions);
      if (!channel.ok()) return channel.status();
    }
    status = make_ready(arguments, prepared, **channel, turn.is_first(), is_reported);
    if (status.ok()) {
      status = transmit(arguments, prepared, *channel, ticket);
      if (prepared.has_copies) refused_copies = status == RIPC_AGAIN ? channel->get() : nullptr;
    }
    if (is_gone(status.code())) paths_.drop(**channel);
  }
  turn.sent = status.ok();
  return is_gone(status.code()) ? Status(RIPC_PEER_DEAD) : status;
}

// Plans the message for this channel, prepares the path for it, and holds the memory of its items. What was written
// into return buffers already stays as it is.
Status LongSend::make_ready(const SendArguments& arguments, Prepared& prepared, spi::Channel& channel, bool may_write,
                            bool is_reported) {
  const bool is_planned = prepared.plan.has_written();
  if (!is_planned) prepared = {};
  ripc_status wide = RIPC_TOO_LARGE;
  for (int attempt = 0; attempt < kAttempts && wide == RIPC_TOO_LARGE; ++attempt) {
    const std::size_t limit = channel.packet_limit();
    Status planned;
    if (!is_planned)
      planned = prepared.plan.choose(arguments.items, arguments.returns.size(), limit,
                                     std::min(limit, arguments.auto_limit), channel.most_carried());
    if (!planned.ok()) return planned;
    // A path that cannot be prepared has a lower limit from then on.
    const std::size_t size = prepared.plan.packet_size();
    wide = size <= channel.ready_limit() ? RIPC_OK
           : arguments.never_waits       ? channel.begin_to_widen(size)
                                         : channel.widen(size);
  }
  if (wide == RIPC_PENDING || is_gone(wide)) return wide;
  if (is_planned) return {};
  if (arguments.reply_to != nullptr) prepared.plan.choose_returns(arguments.items, *arguments.reply_to, may_write);
  for (std::size_t index = 0; index < arguments.items.size(); ++index) {
    if (prepared.plan.is_pulled(index) && arguments.items[index].kind != RIPC_ITEM_LONG) prepared.has_copies = true;
  }
  if (prepared.has_copies && refused_copies == &channel && !channel.has_room(false))
    return counters_.count_again(RIPC_AGAIN);
  return prepare(arguments, prepared, is_reported);
}

Status LongSend::prepare(const SendArguments& arguments, Prepared& prepared, bool is_reported) {
  for (std::size_t index = 0; index < arguments.items.size(); ++index) {
    if (!prepared.plan.is_pulled(index)) continue;
    const ripc_item& item = arguments.items[index];
    Result<memory::Hold> hold = memory_of(item, is_reported);
    if (!hold.ok()) return hold.status();
    const memory::Arena* arena = hold->arena();
    prepared.ranges.push_back(arena == nullptr ? bytes_of(item) : spi::Bytes(arena->base + hold->offset(), item.size));
    prepared.holds.push_back(std::move(*hold));
  }
  for (std::size_t index = 0; index < prepared.holds.size(); ++index)
    prepared.exposures.push_back({prepared.ranges[index], &prepared.holds[index]});
  return {};
}

// The memory that the peer reads after the call. It is lent by the caller if someone learns of the end of the loan,
// else it is a copy.
Result<memory::Hold> LongSend::memory_of(const ripc_item& item, bool is_reported) {
  if (item.kind != RIPC_ITEM_LONG && item.size != 0) {
    Result<memory::Hold> copied = pool_.copy(bytes_of(item));
    if (copied.status().code() == RIPC_NO_MEMORY)
      return Status(RIPC_NO_MEMORY, std::string(copied.status().text()) +
                                        " What does not fit into a packet travels as a copy: to do without, send it as "
                                        "RIPC_ITEM_LONG.");
    if (copied.ok()) add(counters_.copies);
    return copied;
  }
  return lend(pool_, item, is_reported);
}

Result<memory::Hold> LongSend::lend(memory::Pool& pool, const ripc_item& item, bool is_reported) {
  Result<memory::Hold> lent = pool.hold(item.data, item.size);
  if (lent.ok() && !is_reported && item.size != 0 && lent->arena() == nullptr &&
      pool.registration_of(item.data, item.size).empty())
    return Status(RIPC_INVALID_ARGUMENT,
                  "A RIPC_ITEM_LONG needs a way to report when its memory is free again: ask for the ticket or "
                  "set a callback (of a call: loan_ended), lease or register the memory, or send a copy of it with "
                  "RIPC_ITEM_AUTO.");
  return lent;
}

// The access that one attempt has given to the peer. It is taken back unless the message was sent.
class LongSend::Attempt {
 public:
  Attempt(RequestTable& requests, const std::shared_ptr<spi::Channel>& to_channel, ripc_service_id to)
      : request{.channel = to_channel, .to = to, .grants = {}, .buffers = {}}, requests_(requests) {}
  ~Attempt() {
    if (sent) return;
    if (request_id != 0) (void)requests_.take(request_id);
    for (const wire::Grant& grant : request.grants) (void)request.channel->end_grant(grant);
    bool is_read = false;
    if (is_exposed) (void)request.channel->revoke(transfer, is_read);
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  ripc_status expose(std::span<const spi::Exposure> exposures, std::span<wire::Descriptor> descriptors) {
    if (exposures.empty()) return RIPC_OK;
    const ripc_status status = request.channel->expose(exposures, descriptors, transfer);
    is_exposed = status == RIPC_OK;
    return status;
  }
  // Makes the message a request, if there are return buffers.
  ripc_status ask(std::span<const ripc_return_buffer> returns) {
    request.grants.reserve(returns.size());
    request.buffers.assign(returns.begin(), returns.end());
    for (const ripc_return_buffer& buffer : returns) {
      wire::Grant made{};
      const ripc_status status = request.channel->grant({static_cast<std::byte*>(buffer.data), buffer.size}, made);
      if (status != RIPC_OK) return status;
      request.grants.push_back(made);
    }
    // The reply may come before the send returns: the request must be known by then.
    if (!returns.empty()) request_id = requests_.add(request);
    return RIPC_OK;
  }

  Request request;
  std::uint64_t request_id = 0;
  std::uint64_t transfer = 0;
  bool is_exposed = false;
  bool sent = false;

 private:
  RequestTable& requests_;
};

Status LongSend::transmit(const SendArguments& arguments, Prepared& prepared,
                          const std::shared_ptr<spi::Channel>& channel, std::shared_ptr<Ticket>* ticket) {
  std::array<wire::Descriptor, RIPC_MAX_ITEMS> descriptors;
  const std::size_t exposed = prepared.exposures.size();
  Attempt attempt(requests_, channel, arguments.to);
  ripc_status status = attempt.expose(prepared.exposures, std::span(descriptors).first(exposed));
  if (status == RIPC_OK) status = attempt.ask(arguments.returns);
  TicketKeeper::Prepared to_open;
  if (status == RIPC_OK && exposed != 0) {
    to_open = tickets_.prepare({.channel = channel,
                                .transfer = attempt.transfer,
                                .sender = sender_,
                                .deadline = Deadline::after(arguments.timeout).at(),
                                .callback = arguments.callback,
                                .user = arguments.user});
  }
  if (status == RIPC_OK) status = transmit_packet(arguments, prepared.plan, descriptors, attempt);
  if (status != RIPC_OK) return counters_.count_again(status);
  // The message is sent: nothing fails from here on.
  attempt.sent = true;
  if (arguments.request_id != nullptr) *arguments.request_id = attempt.request_id;
  if (exposed == 0) return {};
  std::shared_ptr<Ticket> opened =
      tickets_.open(std::move(to_open), std::move(prepared.holds), std::move(prepared.ranges));
  if (ticket != nullptr) *ticket = std::move(opened);
  return {};
}

ripc_status LongSend::transmit_packet(const SendArguments& arguments, const ItemPlan& plan,
                                      std::span<const wire::Descriptor> descriptors, const Attempt& attempt) noexcept {
  wire::Encoder encoder(wire::PacketKind::message, arguments.tag, id_, arguments.unordered ? wire::kUnordered : 0);
  const ItemPlan::Encoded encoded = plan.encode(arguments.items, descriptors, encoder);
  if (attempt.request_id != 0) {
    encoder.add_request(attempt.request_id);
    for (const wire::Grant& grant : attempt.request.grants) encoder.add(grant);
  }
  if (arguments.is_reply()) encoder.add_reply(arguments.reply_to->request);
  spi::Channel& channel = *attempt.request.channel;
  if (!encoded.ok || encoder.size() > channel.ready_limit()) return RIPC_TOO_LARGE;
  const ThreadEpoch::Record& thread = ThreadEpoch::current();
  const std::uint64_t wakes = thread.wakes;
  using Kind = spi::Outgoing::Kind;
  const ripc_status status = channel.send({.kind = attempt.is_exposed ? Kind::announcement : Kind::packet,
                                           .more = attempt.is_exposed && arguments.more,
                                           .packet = encoder.finish(),
                                           .transfer = attempt.transfer});
  if (status != RIPC_OK) return status;
  counters_.count_other(encoded.short_bytes, encoded.short_bytes != 0);
  add(counters_.long_items, encoded.pulled);
  add(counters_.items_returned, encoded.returned);
  counters_.count_wakes(thread, wakes);
  return RIPC_OK;
}

}  // namespace ripc::internal::core
