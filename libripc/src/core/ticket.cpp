// SPDX-License-Identifier: Apache-2.0
#include "core/ticket.hpp"

#include <algorithm>

#include "base/loop_wait.hpp"

namespace ripc::core {

namespace {

constexpr Nanoseconds kFirstPause = 5'000'000;
constexpr Nanoseconds kLongestPause = 1'000'000'000;

bool overlap(spi::Bytes left, spi::Bytes right) noexcept {
  return left.data() < right.data() + right.size() && right.data() < left.data() + left.size();
}

}  // namespace

// ---- Ticket --------------------------------------------------------------------------------------------------

ripc_status Ticket::poll() noexcept {
  const auto known = static_cast<ripc_status>(status_.load(std::memory_order_acquire));
  if (known != RIPC_PENDING || is_told_) return known;
  const TicketKeeper::Section section(keeper_);
  (void)keeper_.try_finish(*this);
  return static_cast<ripc_status>(status_.load(std::memory_order_relaxed));
}

ripc_status Ticket::wait(Deadline deadline, Nanoseconds spin) noexcept {
  Nanoseconds spin_until = 0;
  for (;;) {
    const ripc_status status = poll();
    if (status != RIPC_PENDING) return status;
    if (deadline.at() == 0) return RIPC_PENDING;
    if (spin == 0) break;
    const Nanoseconds now = monotonic_now();
    if (spin_until == 0) spin_until = now + spin;
    if (now >= deadline.at()) return RIPC_PENDING;
    if (now >= spin_until) break;
    for (int pause = 0; pause < 8; ++pause) cpu_pause();
  }
  TicketKeeper::Section section(keeper_);
  // Who is told of several ends tells of one after the other: the others can be seen already.
  if (status_.load(std::memory_order_relaxed) == RIPC_PENDING &&
      (is_told_ || !parts_.channel->watch_transfer(parts_.transfer)))
    (void)keeper_.try_finish(*this);
  (void)wait_in(keeper_.loop_, section.lock(), keeper_.changed_, deadline,
                [this] { return status_.load(std::memory_order_acquire) != RIPC_PENDING; });
  return static_cast<ripc_status>(status_.load(std::memory_order_acquire));
}

ripc_status Ticket::cancel() noexcept {
  const TicketKeeper::Section section(keeper_);
  if (status_.load(std::memory_order_relaxed) == RIPC_PENDING) (void)keeper_.try_end(*this, RIPC_CANCELLED);
  return static_cast<ripc_status>(status_.load(std::memory_order_relaxed));
}

// ---- TicketKeeper --------------------------------------------------------------------------------------------

TicketKeeper::~TicketKeeper() { shut_down(); }

std::shared_ptr<Ticket> TicketKeeper::open(Ticket::Parts parts) {
  std::shared_ptr<Ticket> ticket(new Ticket(*this, std::move(parts)));
  const Section section(*this);
  tickets_.emplace(Key{ticket->parts_.channel.get(), ticket->parts_.transfer}, ticket);
  if (ticket->parts_.deadline != UINT64_MAX) deadlines_.emplace(ticket->parts_.deadline, ticket.get());
  if (!ticket->is_told_) ++looked_for_;
  if ((ticket->is_told_ || ticket->parts_.callback != nullptr) &&
      !ticket->parts_.channel->watch_transfer(ticket->parts_.transfer)) {
    (void)try_finish(*ticket);
  }
  pause_ = kFirstPause;
  schedule();
  return ticket;
}

bool TicketKeeper::try_finish(Ticket& ticket) noexcept {
  if (ticket.status_.load(std::memory_order_relaxed) != RIPC_PENDING) return true;
  const ripc_status status = ticket.parts_.channel->transfer_status(ticket.parts_.transfer);
  if (status == RIPC_PENDING) return false;
  complete(ticket, status);
  return true;
}

bool TicketKeeper::try_end(Ticket& ticket, ripc_status status) noexcept {
  const ripc_status outcome = ticket.parts_.channel->revoke(ticket.parts_.transfer);
  if (outcome == RIPC_PENDING) return false;
  if (outcome != RIPC_REVOKED) {
    complete(ticket, outcome);
    return true;
  }
  if (ticket.parts_.channel->is_draining(ticket.parts_.transfer)) {
    draining_.push_back({ticket.parts_.channel, ticket.parts_.transfer, false, std::move(ticket.parts_.holds)});
    pause_ = kFirstPause;
  }
  complete(ticket, status);
  return true;
}

void TicketKeeper::complete(Ticket& ticket, ripc_status status) noexcept {
  const std::shared_ptr<Ticket> alive = ticket.shared_from_this();
  ticket.parts_.holds.clear();
  tickets_.erase(Key{ticket.parts_.channel.get(), ticket.parts_.transfer});
  if (!ticket.is_told_) --looked_for_;
  const auto [first, last] = deadlines_.equal_range(ticket.parts_.deadline);
  for (auto entry = first; entry != last; ++entry) {
    if (entry->second != &ticket) continue;
    deadlines_.erase(entry);
    break;
  }
  ticket.parts_.channel.reset();
  ticket.status_.store(status, std::memory_order_release);
  completed_ = true;
  if (ticket.parts_.callback != nullptr) {
    loop_.post_top_level(
        [callback = ticket.parts_.callback, user = ticket.parts_.user, status] { callback(user, status); });
  } else if (loop_.in_loop_thread()) {
    // A nested run of the loop may be waiting for this ticket.
    loop_.post([] {});
  }
}

void TicketKeeper::transfer_finished(const spi::Channel& channel, std::uint64_t transfer) noexcept {
  const Section section(*this);
  if (const auto found = tickets_.find(Key{&channel, transfer}); found != tickets_.end())
    (void)try_finish(*found->second);
  drain();
}

void TicketKeeper::channel_lost(const spi::Channel& channel) noexcept {
  const Section section(*this);
  std::vector<std::shared_ptr<Ticket>> affected;
  for (const auto& [key, ticket] : tickets_) {
    if (key.first == &channel) affected.push_back(ticket);
  }
  for (const auto& ticket : affected) (void)try_finish(*ticket);
  drain();
}

void TicketKeeper::end_sender(const void* sender) noexcept {
  end_matching([&](const Ticket& ticket) { return ticket.parts_.sender == sender; }, RIPC_CLOSED);
}

void TicketKeeper::end_range(spi::Bytes range) noexcept {
  end_matching(
      [&](const Ticket& ticket) {
        return std::any_of(ticket.parts_.ranges.begin(), ticket.parts_.ranges.end(),
                           [&](spi::Bytes exposed) { return overlap(exposed, range); });
      },
      RIPC_CANCELLED);
}

void TicketKeeper::end_matching(const std::function<bool(const Ticket&)>& matches, ripc_status status) noexcept {
  const Section section(*this);
  std::vector<std::shared_ptr<Ticket>> affected;
  for (const auto& [key, ticket] : tickets_) {
    if (matches(*ticket)) affected.push_back(ticket);
  }
  for (const auto& ticket : affected) {
    if (try_end(*ticket, status)) continue;
    // Lent: the peer reads on; the memory is kept until it gives the view back.
    draining_.push_back({ticket->parts_.channel, ticket->parts_.transfer, true, std::move(ticket->parts_.holds)});
    complete(*ticket, status);
  }
  pause_ = kFirstPause;
  schedule();
}

void TicketKeeper::shut_down() noexcept {
  end_matching([](const Ticket&) { return true; }, RIPC_CLOSED);
  const Section section(*this);
  if (timer_ != 0) loop_.cancel_timer(timer_);
  timer_ = 0;
  draining_.clear();
}

void TicketKeeper::drain() noexcept {
  std::erase_if(draining_, [](Draining& entry) {
    if (entry.lent) return entry.channel->transfer_status(entry.transfer) != RIPC_PENDING;
    return !entry.channel->is_draining(entry.transfer);
  });
}

void TicketKeeper::schedule() noexcept {
  Nanoseconds at = deadlines_.empty() ? UINT64_MAX : deadlines_.begin()->first;
  if (looked_for_ != 0 || !draining_.empty()) at = std::min(at, monotonic_now() + pause_);
  if (timer_ != 0 && timer_at_ <= at) return;
  if (timer_ != 0) loop_.cancel_timer(timer_);
  timer_ = 0;
  timer_at_ = at;
  if (at != UINT64_MAX) timer_ = loop_.add_timer(at, [this] { look(); });
}

void TicketKeeper::look() noexcept {
  const Section section(*this);
  timer_ = 0;
  std::vector<std::shared_ptr<Ticket>> open;
  for (const auto& [key, ticket] : tickets_) open.push_back(ticket);
  const Nanoseconds now = monotonic_now();
  for (const auto& ticket : open) {
    if (try_finish(*ticket) || ticket->parts_.deadline > now) continue;
    if (!try_end(*ticket, RIPC_TIMEOUT)) {
      // The peer has taken it in time, as a view; it is done when the view is given back.
      const auto [first, last] = deadlines_.equal_range(ticket->parts_.deadline);
      const auto entry =
          std::find_if(first, last, [&](const auto& candidate) { return candidate.second == ticket.get(); });
      if (entry != last) deadlines_.erase(entry);
      ticket->parts_.deadline = UINT64_MAX;
    }
  }
  drain();
  pause_ = std::min(std::max(pause_ * 2, kFirstPause), kLongestPause);
  schedule();
}

}  // namespace ripc::core
