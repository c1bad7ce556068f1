// SPDX-License-Identifier: Apache-2.0
#include "remote/link/link_source.hpp"

#include <algorithm>
#include <new>

#include "remote/link/link_channel.hpp"
#include "remote/link/link_socket.hpp"

namespace ripc::internal::remote {

namespace {

using wire::datagram::Header;
using wire::datagram::Kind;

// Parts of the budget: from this much on, a packet that goes to the peer anyway may carry the credit ...
constexpr std::uint32_t kOfferPart = 16;
// ... and from this much on, the credit gets a datagram of its own.
constexpr std::uint32_t kSendPart = ReceiverCredit::kPortions;
// Bytes per second that a path shared by many transfers must still give to each.
constexpr std::uint64_t kSlowestRate = 64 << 10;
// Questions for room that a sender without credit may have under way, as in a socket's buffer.
constexpr std::uint32_t kProbes = 48;
// Enough to hide the round trip of one message behind the bytes of the others.
constexpr std::size_t kMessagesAtOnce = 8;

}  // namespace

LinkSource::LinkSource(Parts parts)
    : Source({.context = parts.session->context,
              .reply_address = {std::string(parts.session->transport), parts.session->locator},
              .messages_at_once = kMessagesAtOnce,
              .patience = 2 * parts.peer_timeout,
              .slowest_rate = kSlowestRate,
              // Sealed records are opened by this process, which then writes the bytes.
              .wants_residence = static_cast<bool>(parts.session->secret),
              .peers = parts.session->peers,
              .peer = parts.session->peer_entry}),
      parts_(std::move(parts)),
      credit_(parts_.budget) {}

ripc_status LinkSource::begin(std::span<const wire::Descriptor> items) noexcept {
  const bool one_transfer = std::ranges::all_of(items, [&](const auto& item) { return item.key == items.front().key; });
  return one_transfer ? parts_.session->bulk->begin(items, *parts_.events) : RIPC_CORRUPT;
}

ripc_status LinkSource::pull(spi::Pull& pull) noexcept {
  return pull.lend ? RIPC_UNSUPPORTED : parts_.session->bulk->pull(pull, *parts_.events);
}

void LinkSource::abandon(spi::Pull& pull) noexcept { parts_.session->bulk->abandon(pull); }

ripc_status LinkSource::finish(const wire::Descriptor& descriptor, ripc_status status) noexcept {
  return parts_.session->bulk->finish(descriptor, status, *parts_.events);
}

ripc_status LinkSource::push(const wire::Grant& grant, spi::Bytes bytes) noexcept {
  return parts_.session->bulk->push(grant, bytes);
}

spi::Bytes LinkSource::accept(spi::Bytes datagram, std::uint64_t token, PortCounters& counters) noexcept {
  Header header;
  if (wire::datagram::decode(datagram, header) != RIPC_OK || header.token != token || header.kind == Kind::credit ||
      header.kind == Kind::multicast) [[unlikely]] {
    increase(counters.corrupt);
    return {};
  }
  if (!arrived_.load(std::memory_order_relaxed)) arrived_.store(true, std::memory_order_release);
  if (header.kind == Kind::greeting) [[unlikely]]
    return {};
  if (header.credit_link != 0) [[unlikely]]
    pass_credit(header.credit_link, header.credit);
  if (header.kind == Kind::probe) [[unlikely]] {
    credit_.consumed(header.spent);
    asked_ = true;
    return {};
  }
  std::uint32_t missing = 0;
  if (!is_fresh(window_, header.sequence, missing, counters)) [[unlikely]]
    return {};
  if (missing != 0) [[unlikely]]
    count_lost(missing, counters);
  if (receives_multicast_) multicast_reported(header.spent - header.sequence, counters);
  credit_.consumed(header.spent);
  const spi::Bytes packet = datagram.subspan(wire::datagram::kHeaderSize);
  if ((header.before | header.after) == 0) [[likely]]
    return packet;
  const ripc_status status = assembly_.add(header, packet);
  if (status == RIPC_CORRUPT) increase(counters.corrupt);
  if (status == RIPC_NO_MEMORY) increase(counters.lost);
  return status == RIPC_OK ? assembly_.packet() : spi::Bytes();
}

spi::Bytes LinkSource::accepted(spi::Bytes datagram) const noexcept {
  Header header;
  const bool is_last_of_some = wire::datagram::decode(datagram, header) == RIPC_OK && header.before != 0;
  return is_last_of_some ? assembly_.packet() : datagram.subspan(wire::datagram::kHeaderSize);
}

spi::Bytes LinkSource::accept_multicast(spi::Bytes datagram, ReplayWindow& window, PortCounters& counters) noexcept {
  Header header;
  if (wire::datagram::decode(datagram, header) != RIPC_OK || header.kind != Kind::multicast) [[unlikely]] {
    increase(counters.corrupt);
    return {};
  }
  const spi::Bytes packet = datagram.subspan(wire::datagram::kHeaderSize);
  receives_multicast_ = true;
  if (packet.empty()) [[unlikely]] {
    parts_.session->stream.tell(wire::session_control::GroupJoined{.link = parts_.link, .token = header.token});
    return {};
  }
  const bool is_first = window.highest() == 0;
  std::uint32_t missing = 0;
  if (!is_fresh(window, header.sequence, missing, counters)) [[unlikely]]
    return {};
  // Packets lost at the end of an earlier round have no number in this one.
  if (is_first) multicast_early_ = 0;
  const std::uint32_t known = std::min(missing, multicast_early_);
  multicast_early_ -= known;
  missing -= known;
  if (missing != 0) [[unlikely]]
    count_lost(missing, counters);
  multicast_ += missing + 1;
  credit_.consumed_more(missing + 1);
  return packet;
}

// A datagram of the link says how many multicasts the sender has sent before it. Each of these costs 1 credit, as a
// datagram of the link does, and has no number in the link.
void LinkSource::multicast_reported(std::uint32_t sent, PortCounters& counters) noexcept {
  const std::uint32_t missing = sent - multicast_;
  if (missing == 0 || missing > ReplayWindow::kMaxJump) return;
  multicast_ = sent;
  multicast_early_ += missing;
  count_lost(missing, counters);
}

void LinkSource::count_lost(std::uint32_t missing, PortCounters& counters) noexcept {
  increase(counters.lost, missing);
  missed_ = true;
}

// Whether to accept a packet of this number; if so, sets `missing` to how many are missing before it.
bool LinkSource::is_fresh(ReplayWindow& window, std::uint32_t sequence, std::uint32_t& missing,
                          PortCounters& counters) noexcept {
  switch (window.note(sequence, missing)) {
    case ReplayWindow::Verdict::fresh:
      break;
    case ReplayWindow::Verdict::late: {
      increase(counters.late);
      const std::uint64_t lost = counters.lost.load(std::memory_order_relaxed);
      if (lost != 0) counters.lost.store(lost - 1, std::memory_order_relaxed);
      return false;
    }
    case ReplayWindow::Verdict::duplicate:
      increase(counters.duplicates);
      return false;
    case ReplayWindow::Verdict::absurd:
      increase(counters.corrupt);
      return false;
  }
  return true;
}

void LinkSource::pass_credit(std::uint32_t link, std::uint32_t credit) noexcept {
  std::shared_ptr<LinkChannel> channel = link == credited_link_ ? credited_.lock() : nullptr;
  if (!channel) {
    channel = parts_.session->channel(link);
    credited_ = channel;
    credited_link_ = link;
  }
  if (channel) channel->credit_arrived(credit);
}

void LinkSource::settle(PortCounters& counters) noexcept {
  if (missed_) [[unlikely]] {
    missed_ = false;
    // The network may lose packets. But if this socket dropped them, packets cost more than was estimated: the driver
    // takes whole pages for small packets. Then fewer packets may be under way.
    if (const std::uint32_t now_dropped = dropped(); now_dropped != dropped_) {
      dropped_ = now_dropped;
      credit_.set_budget(std::max(credit_.budget() / 4 * 3, 2 * cost_of(kMaxDatagram)));
    }
  }
  std::atomic<std::uint64_t>& shelf = parts_.session->offered_credit;
  if (offered_ != 0 && shelf.load(std::memory_order_relaxed) != offered_) {
    credit_.granted(static_cast<std::uint32_t>(offered_));
    offered_ = 0;
  }
  const std::uint32_t due = credit_.due();
  if (due < credit_.budget() / kOfferPart && !asked_) return;
  if (due < credit_.budget() / kSendPart && !asked_) {
    const std::uint64_t word = std::uint64_t{parts_.link} << 32 | credit_.credit();
    std::uint64_t present = offered_;
    if (word != offered_ && shelf.compare_exchange_strong(present, word, std::memory_order_acq_rel)) offered_ = word;
    return;
  }
  if (offered_ != 0) {
    std::uint64_t present = offered_;
    if (!shelf.compare_exchange_strong(present, 0, std::memory_order_acq_rel))
      credit_.granted(static_cast<std::uint32_t>(offered_));
    offered_ = 0;
    if (credit_.due() < credit_.budget() / kSendPart && !asked_) return;
  }
  send_credit(counters);
}

void LinkSource::send_credit(PortCounters& counters) noexcept {
  asked_ = false;
  const std::uint32_t credit = credit_.credit();
  increase(counters.credit_calls);
  const ripc_status status =
      transmit({.kind = Kind::credit, .token = parts_.token, .credit_link = parts_.link, .credit = credit});
  // Credit that could not be sent goes with the next batch, or the sender asks.
  if (status == RIPC_OK) credit_.granted(credit);
}

// ---- By the session's control connection ---------------------------------------------------------------------

ripc_status LinkSource::transmit_streamed(const Header& header) noexcept {
  wire::datagram::HeaderBytes bytes;
  wire::datagram::encode(header, bytes);
  return parts_.session->stream.send(wire::session_control::Streamed{.link = parts_.link, .datagram = bytes});
}

bool LinkSource::keep(spi::Bytes datagram) {
  std::list<std::vector<std::byte>> one;
  one.emplace_back(datagram.begin(), datagram.end());
  const std::uint32_t cost = cost_of(datagram.size());
  const std::lock_guard lock(kept_mutex_);
  if (kept_cost_ + cost > parts_.budget + kProbes * cost_of(wire::datagram::kHeaderSize)) return false;
  kept_cost_ += cost;
  kept_.splice(kept_.end(), one);
  has_kept_.store(true, std::memory_order_release);
  return true;
}

std::size_t LinkSource::deliver_backlog(spi::PacketSink& sink, std::size_t budget, bool& stop) noexcept {
  std::size_t taken = 0;
  while (!backlog.empty() && taken < budget) {
    const spi::Delivery delivery = sink.deliver(*this, backlog.front(), nullptr);
    if (delivery != spi::Delivery::taken) {
      stop = delivery == spi::Delivery::stop;
      break;
    }
    backlog.pop_front();
    ++taken;
  }
  return taken;
}

void LinkSource::take_kept(PortCounters& counters) noexcept {
  std::list<std::vector<std::byte>> kept;
  {
    const std::lock_guard lock(kept_mutex_);
    has_kept_.store(false, std::memory_order_release);
    kept_cost_ = 0;
    kept.swap(kept_);
  }
  for (auto next = kept.begin(); next != kept.end();) {
    const auto datagram = next++;
    const spi::Bytes packet = accept(*datagram, parts_.token, counters);
    if (packet.empty()) continue;
    if (packet.data() == datagram->data() + wire::datagram::kHeaderSize) {
      datagram->erase(datagram->begin(), datagram->begin() + wire::datagram::kHeaderSize);
    } else {
      try {
        datagram->assign(packet.begin(), packet.end());  // of several
      } catch (const std::bad_alloc&) {
        increase(counters.lost);
        continue;
      }
    }
    backlog.splice(backlog.end(), kept, datagram);
  }
}

// ---- The end -------------------------------------------------------------------------------------------------

void LinkSource::mark_closed(std::uint32_t last_sequence, Nanoseconds patience_until) noexcept {
  last_sequence_.store(last_sequence, std::memory_order_relaxed);
  patience_until_.store(patience_until, std::memory_order_relaxed);
  mark_dead();
}

bool LinkSource::is_over() const noexcept {
  if (!dead()) return false;
  const Nanoseconds until = patience_until_.load(std::memory_order_relaxed);
  if (until == 0) return true;
  const auto missing = static_cast<std::int32_t>(last_sequence_.load(std::memory_order_relaxed) - window_.highest());
  return missing <= 0 || monotonic_now() >= until;
}

}  // namespace ripc::internal::remote
