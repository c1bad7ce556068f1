// SPDX-License-Identifier: Apache-2.0
#include "remote/link/link_channel.hpp"

#include <algorithm>
#include <new>
#include <numeric>

#include "remote/session/session_links.hpp"

namespace ripc::internal::remote {

namespace {

// The pause between two questions for room.
constexpr Nanoseconds kFirstProbe = 1'000'000;
constexpr Nanoseconds kLastProbe = 100'000'000;
// Questions lie in the receiver's buffer like packets, but cost no credit. If this many may still lie there, only one
// more is sent in each kRareProbe.
constexpr unsigned kMostProbes = 12;
constexpr Nanoseconds kRareProbe = 1'000'000'000;
// The pause between two looks whether another channel of the session has freed what this one waits for.
constexpr Nanoseconds kSlotPause = 10'000'000;

std::size_t size_of(spi::Gather packet) noexcept {
  return std::accumulate(packet.begin(), packet.end(), std::size_t{0},
                         [](std::size_t sum, spi::Bytes range) { return sum + range.size(); });
}

// A bit for each resource, and for each number of grants.
constexpr unsigned bit_of(spi::Need need) noexcept {
  constexpr auto kLast = static_cast<unsigned>(spi::Resource::control);
  return 1u << (need.resource == spi::Resource::grants ? kLast + need.count : static_cast<unsigned>(need.resource));
}

}  // namespace

LinkChannel::LinkChannel(Parts parts, std::size_t packet_limit, bool holds_back, spi::Multicast* multicast)
    : Channel({.incarnation = parts.incarnation,
               .packet_limit = packet_limit,
               .reports_ends = true,
               .multicast = multicast}),
      parts_(std::move(parts)),
      holds_back_(holds_back),
      credit_(parts_.credit),
      token_(parts_.token),
      budget_(parts_.credit),
      probe_backoff_(kFirstProbe, kLastProbe) {}

void LinkChannel::start() {
  const auto make = [this](StandingTimer& timer, void (LinkChannel::*task)() noexcept) {
    timer.make(*parts_.loop, [weak = weak_from_this(), task] {
      if (const auto self = weak.lock()) (self.get()->*task)();
    });
  };
  make(work_timer_, &LinkChannel::run_deferred_work);
  make(look_timer_, &LinkChannel::check_credit);
  make(slot_timer_, &LinkChannel::look_for_slots);
}

// Any thread. Allocates no memory.
void LinkChannel::defer(DeferredWork work) noexcept {
  if ((deferred_work_.fetch_or(work, std::memory_order_acq_rel) & work) == 0) work_timer_.set(StandingTimer::kNow);
}

void LinkChannel::run_deferred_work() noexcept {
  const std::uint32_t work = deferred_work_.exchange(0, std::memory_order_acq_rel);
  if ((work & kFailed) != 0) parts_.failed(*this);
  if ((work & kWatch) != 0) watch();
  if ((work & kCheckCredit) != 0) check_credit();
  if ((work & kLookForSlots) != 0 && !std::exchange(looking_for_slots_, true)) look_for_slots();
  if ((work & kTellRoom) != 0) parts_.host->room(*this);
}

LinkChannel::~LinkChannel() {
  (void)parts_.session->remove_channel(parts_.link);
  parts_.session->bulk->end_owner(parts_.link);
  if (ended() != RIPC_OK) return;
  parts_.session->stream.tell(wire::session_control::CloseLink{.link = parts_.link, .sequence = sequence_});
}

ripc_status LinkChannel::send(const spi::Outgoing& outgoing) noexcept {
  using Kind = spi::Outgoing::Kind;
  switch (outgoing.kind) {
    case Kind::plain:
    case Kind::given:
      break;
    case Kind::packet:
      return send_packet(outgoing.packet, outgoing.more);
    case Kind::announcement:
      return send_announcement(outgoing);
    case Kind::control:
      return send_control(outgoing.packet);
  }
  wire::Encoder encoder(wire::PacketKind::message, outgoing.message.tag, outgoing.message.source);
  return wire::add_items(outgoing.message, encoder) ? send_packet(encoder.finish(), false) : RIPC_TOO_LARGE;
}

ripc_status LinkChannel::send_packet(spi::Gather packet, bool more) noexcept {
  return send_one(size_of(packet),
                  [&](const wire::datagram::Header& header) { return transmit(header, packet, more); });
}

ripc_status LinkChannel::send_announcement(const spi::Outgoing& outgoing) noexcept {
  Bulk& bulk = *parts_.session->bulk;
  const bool more = outgoing.more && holds_back_;
  ripc_status status = bulk.prepare_announcement(outgoing.transfer, size_of(outgoing.packet), more);
  if (status == RIPC_OK) status = send_packet(outgoing.packet, more);
  if (status == RIPC_OK) bulk.announced(outgoing.transfer, outgoing.packet);
  return status;
}

void LinkChannel::sent_locked(std::uint32_t datagrams, std::uint32_t cost, ripc_status status) noexcept {
  credit_.spend(cost);
  sequence_ += datagrams;
  interface_full_ = status == RIPC_AGAIN;
  if (interface_full_) (void)shortage_.note(status, spi::Resource::queue);
  if (status == RIPC_PEER_DEAD) fail_locked();
}

// Whether `cost` may be spent now.
ripc_status LinkChannel::room_locked(std::uint32_t cost) noexcept {
  // The thread that ends the channel asks for the last number under the mutex.
  if (const ripc_status reason = ended(); reason != RIPC_OK) [[unlikely]]
    return reason;
  if (credit_.left() < cost && !refresh_locked(cost)) [[unlikely]]
    return failing_ ? RIPC_PEER_DEAD : shortage_.note(RIPC_AGAIN, spi::Resource::queue);
  return RIPC_OK;
}

wire::datagram::Header LinkChannel::header_locked(std::uint32_t sequence, std::uint32_t spent,
                                                  std::uint64_t offer) const noexcept {
  return {.kind = wire::datagram::Kind::data,
          .sequence = sequence,
          .token = token_,
          .spent = spent,
          .credit_link = static_cast<std::uint32_t>(offer >> 32),
          .credit = static_cast<std::uint32_t>(offer)};
}

// Takes credit for the other direction that this packet can carry; 0: none.
std::uint64_t LinkChannel::take_offer() noexcept {
  auto& offered = parts_.session->offered_credit;
  return offered.load(std::memory_order_relaxed) == 0 ? 0 : offered.exchange(0, std::memory_order_acq_rel);
}

void LinkChannel::give_back(std::uint64_t offer) noexcept {
  if (offer == 0) return;
  // The source that offered the credit believes that it was sent, so offer it again unless there is a newer offer.
  std::uint64_t none = 0;
  (void)parts_.session->offered_credit.compare_exchange_strong(none, offer, std::memory_order_acq_rel);
}

// Reads what was granted since the last time. True if there is as much as needed.
bool LinkChannel::refresh_locked(std::uint32_t needed) noexcept {
  if (!read_grants()) {
    fail_locked();
    return false;
  }
  if (credit_.left() >= needed) {
    next_probe_ = 0;
    return true;
  }
  probe_locked();
  return false;
}

// The credit and all that was sent may have been lost: then only a question gets things going again.
void LinkChannel::probe_locked() noexcept {
  const Nanoseconds now = monotonic_now();
  if (next_probe_ == 0) {
    probe_backoff_.reset();
    probe_pause_.store(probe_backoff_.next(), std::memory_order_relaxed);
    next_probe_ = now + kFirstProbe;
    return;
  }
  if (now < next_probe_) return;
  // The limit has grown by two whole buffers since the first of these questions, so they were read.
  if (static_cast<std::int32_t>(credit_.limit() - 2 * budget_ - probes_since_) >= 0) {
    probes_since_ = credit_.spent();
    probes_there_ = 0;
  }
  const Nanoseconds longer = probe_backoff_.next();
  const bool are_many = ++probes_there_ >= kMostProbes;
  const Nanoseconds pause = are_many ? kRareProbe : longer;
  probe_pause_.store(pause, std::memory_order_relaxed);
  next_probe_ = now + pause;
  probes_.fetch_add(1, std::memory_order_relaxed);
  const ripc_status status =
      transmit({.kind = wire::datagram::Kind::probe, .token = token_, .spent = credit_.spent()}, {}, false);
  if (status == RIPC_PEER_DEAD) fail_locked();
  if (are_many) probes_unanswered();
}

void LinkChannel::fail_locked() noexcept {
  if (failing_) return;
  failing_ = true;
  defer(kFailed);
}

ripc_status LinkChannel::send_control(spi::Gather packet) noexcept try {
  if (const ripc_status reason = ended(); reason != RIPC_OK) return reason;
  std::vector<std::byte> whole;
  for (const spi::Bytes range : packet) whole.insert(whole.end(), range.begin(), range.end());
  if (whole.size() > std::min(wire::session_control::kMaxControlPacket, packet_limit() + spi::kControlAllowance))
    return RIPC_TOO_LARGE;
  const wire::session_control::Control frame{.link = parts_.link, .destination = parts_.service, .packet = whole};
  return shortage_.note(parts_.session->stream.send(frame), spi::Resource::control);
} catch (const std::bad_alloc&) {
  return RIPC_NO_MEMORY;
}

// ---- By the session's control connection ---------------------------------------------------------------------

std::vector<std::byte> LinkChannel::whole_of(const wire::datagram::Header& header, spi::Gather packet) {
  wire::datagram::HeaderBytes head;
  wire::datagram::encode(header, head);
  std::vector<std::byte> whole(head.begin(), head.end());
  for (const spi::Bytes range : packet) whole.insert(whole.end(), range.begin(), range.end());
  return whole;
}

ripc_status LinkChannel::transmit_streamed(std::span<const std::byte> datagram) noexcept {
  parts_.session->carries_messages.store(true, std::memory_order_relaxed);
  return parts_.session->stream.send(wire::session_control::Streamed{.link = parts_.link, .datagram = datagram});
}

void LinkChannel::take_streamed(const wire::session_control::Frame& frame) noexcept {
  const auto* const streamed = std::get_if<wire::session_control::Streamed>(&frame);
  wire::datagram::Header header;
  if (streamed != nullptr && wire::datagram::decode(streamed->datagram, header) == RIPC_OK &&
      header.kind == wire::datagram::Kind::credit && header.token == parts_.token && header.credit_link == parts_.link)
    credit_arrived(header.credit);
}

// ---- Room ----------------------------------------------------------------------------------------------------

// How much room makes it worth starting again: a quarter of the budget, but at least the largest packet. Thus senders
// do not wake for each packet.
std::uint32_t LinkChannel::enough() const noexcept {
  const std::uint32_t largest = cost_of(ready_limit());
  return largest == 0 ? 0 : std::max(budget_ / 4, largest);
}

bool LinkChannel::has_room_now() noexcept {
  if (!alive()) return true;
  const spi::Need need = shortage_.need();
  return need.resource == spi::Resource::queue ? has_credit() : has_slot(need);
}

bool LinkChannel::has_credit() noexcept {
  if (!alive()) return true;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;  // another thread is sending: it finds out
  if (failing_) return true;
  if (interface_full_) {
    if (!can_transmit()) return false;
    interface_full_ = false;
  }
  return credit_.left() >= enough() || refresh_locked(enough());
}

bool LinkChannel::has_slot(spi::Need need) const noexcept {
  if (need.resource == spi::Resource::control) return parts_.session->stream.has_room();
  return parts_.session->bulk->has_room(need);
}

bool LinkChannel::has_room(bool notify) noexcept {
  if (has_room_now()) return true;
  if (!notify) return false;
  if (const spi::Need need = shortage_.need(); need.resource != spi::Resource::queue) {
    request_slot(need);
    return has_room_now();
  }
  if (!room_wanted_.exchange(true, std::memory_order_acq_rel)) defer(kWatch);
  return false;
}

void LinkChannel::credit_arrived(std::uint32_t credit) noexcept {
  if (credit_.grant(credit) && room_wanted_.load(std::memory_order_acquire)) defer(kCheckCredit);
}

// Responder. Waits for credit, and asks for it.
void LinkChannel::watch() noexcept {
  if (!watching_ && alive()) {
    try {
      const Status status = watch_grants([weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->check_credit();
      });
      watching_ = status.ok();
    } catch (const std::bad_alloc&) {
      // The timer looks from time to time anyway.
    }
  }
  check_credit();
}

void LinkChannel::check_credit() noexcept {
  if (!room_wanted_.load(std::memory_order_acquire)) return;
  if (has_credit()) {
    stop_watching();
    room_wanted_.store(false, std::memory_order_release);
    parts_.host->room(*this);
    return;
  }
  look_timer_.set(monotonic_now() + std::max(probe_pause_.load(std::memory_order_relaxed), kFirstProbe));
}

void LinkChannel::request_slot(spi::Need need) noexcept {
  slots_wanted_.fetch_or(bit_of(need), std::memory_order_seq_cst);
  defer(kLookForSlots);
}

// Responder.
void LinkChannel::look_for_slots() noexcept {
  const unsigned wanted = slots_wanted_.load(std::memory_order_seq_cst);
  const auto look = [&](spi::Need need) {
    if ((wanted & bit_of(need)) != 0 && has_slot(need)) slot_freed();
  };
  look({spi::Resource::transfers});
  look({spi::Resource::control});
  for (std::uint32_t count = 1; count <= RIPC_MAX_RETURNS; ++count) look({spi::Resource::grants, count});
  looking_for_slots_ = alive() && slots_wanted_.load(std::memory_order_seq_cst) != 0;
  if (!looking_for_slots_) return;
  slot_timer_.set(monotonic_now() + kSlotPause);
}

void LinkChannel::slot_freed() noexcept {
  if (slots_wanted_.load(std::memory_order_seq_cst) == 0 || slots_wanted_.exchange(0, std::memory_order_seq_cst) == 0)
    return;
  defer(kTellRoom);
}

void LinkChannel::stop_watching() noexcept {
  look_timer_.set(StandingTimer::kNever);
  if (watching_) unwatch_grants();
  watching_ = false;
}

// ---- Long items ----------------------------------------------------------------------------------------------

ripc_status LinkChannel::expose(std::span<const spi::Exposure> items, std::span<wire::Descriptor> descriptors,
                                std::uint64_t& transfer) noexcept {
  if (!alive()) return RIPC_PEER_DEAD;
  return shortage_.note(parts_.session->bulk->expose(parts_.link, items, descriptors, transfer),
                        spi::Resource::transfers);
}

ripc_status LinkChannel::poll_transfer(std::uint64_t transfer, bool notify) noexcept {
  Bulk& bulk = *parts_.session->bulk;
  if (notify && bulk.watch(transfer)) return RIPC_PENDING;
  const ripc_status status = bulk.transfer_status(transfer);
  if (status != RIPC_PENDING) slot_freed();
  return status;
}

void LinkChannel::transfer_finished(std::uint64_t transfer, ripc_status status) noexcept {
  if (parts_.host->transfer_finished(*this, transfer, status)) (void)poll_transfer(transfer, false);
}

ripc_status LinkChannel::revoke(std::uint64_t transfer, bool& is_read) noexcept {
  is_read = false;
  const ripc_status status = parts_.session->bulk->revoke(transfer);
  if (status != RIPC_PENDING) slot_freed();
  return status;
}

ripc_status LinkChannel::grant(std::span<std::byte> memory, wire::Grant& grant) noexcept {
  if (!alive()) return RIPC_PEER_DEAD;
  return shortage_.note(parts_.session->bulk->grant(parts_.link, memory, grant), spi::Resource::grants);
}

ripc_status LinkChannel::end_grant(const wire::Grant& grant) noexcept {
  const ripc_status status = parts_.session->bulk->end_grant(grant);
  if (status != RIPC_PENDING) slot_freed();
  return status;
}

spi::Channel::Description LinkChannel::describe(Deadline deadline) {
  std::string text = path_text(deadline);
  const Session& session = *parts_.session;
  std::vector<spi::RailReport> rails = session.bulk->rails();
  const std::size_t open = rails.size();
  // The side that began the session makes the connections.
  for (spi::RailReport& possible :
       session.incoming ? std::vector<spi::RailReport>() : session.links->possible_rails(session)) {
    const auto is_there = [&](const spi::RailReport& rail) { return rail.peer == possible.peer; };
    if (std::none_of(rails.begin(), rails.end(), is_there)) rails.push_back(std::move(possible));
  }
  const std::size_t used = open != 0 ? open : rails.size();
  if (used > 1) text += "; " + std::to_string(used) + " rails";
  return {std::move(text), std::move(rails)};
}

// ---- The end -------------------------------------------------------------------------------------------------

bool LinkChannel::end(ripc_status reason) noexcept {
  if (!set_end(reason)) return false;
  on_end();
  stop_watching();
  // The channel may outlive the loop.
  for (StandingTimer* const timer : {&work_timer_, &look_timer_, &slot_timer_}) timer->cancel();
  parts_.session->bulk->end_owner(parts_.link);
  return true;
}

std::uint32_t LinkChannel::last_sequence() noexcept {
  const std::lock_guard lock(mutex_);
  return sequence_;
}

}  // namespace ripc::internal::remote
