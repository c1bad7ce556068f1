// SPDX-License-Identifier: Apache-2.0
#include "core/state/ticket.hpp"

#include <algorithm>
#include <new>

#include "base/held_sends.hpp"
#include "base/loop_wait.hpp"

namespace ripc::internal::core {

namespace {

bool overlap(spi::Bytes left, spi::Bytes right) noexcept {
  return left.data() < right.data() + right.size() && right.data() < left.data() + left.size();
}

}  // namespace

// ---- Ticket --------------------------------------------------------------------------------------------------

Ticket::Ticket(TicketKeeper& keeper, Parts parts)
    : keeper_(keeper), parts_(std::move(parts)), is_reported_(parts_.channel->reports_ends()) {
  if (parts_.callback == nullptr) return;
  completion_ = std::make_shared<Completion>(Completion{parts_.callback, parts_.user});
  calls_back_ =
      EventLoop::prepare([completion = completion_] { completion->callback(completion->user, completion->status); });
}

ripc_status Ticket::poll() noexcept {
  const auto known = static_cast<ripc_status>(status_.load(std::memory_order_acquire));
  if (known != RIPC_PENDING || is_reported_) return known;
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
    // For a reported ticket, this thread or another one must first move the bytes.
    if (spin == 0 || is_reported_) break;
    const Nanoseconds now = monotonic_now();
    if (spin_until == 0) spin_until = now + spin;
    if (now >= deadline.at()) return RIPC_PENDING;
    if (now >= spin_until) break;
    for (int pause = 0; pause < 8; ++pause) cpu_pause();
  }
  HeldSends::let_all_go();
  TicketKeeper::Section section(keeper_);
  // Several ends are reported one after the other: the later ones may be visible already.
  (void)keeper_.try_finish(*this, true);
  const int in_loop = keeper_.loop_.in_loop_thread() ? 1 : 0;
  if (is_reported_ && in_loop == 0) move_bytes(section.lock(), deadline, spin);
  keeper_.waits_in_loop_ += in_loop;
  (void)wait_in(keeper_.loop_, section.lock(), keeper_.changed_, deadline,
                [this] { return status_.load(std::memory_order_acquire) != RIPC_PENDING; });
  keeper_.waits_in_loop_ -= in_loop;
  return static_cast<ripc_status>(status_.load(std::memory_order_acquire));
}

// The end of a reported ticket may arrive over descriptors that this thread can handle. If another thread handles them,
// spinning takes the processor from it.
void Ticket::move_bytes(std::unique_lock<std::mutex>& lock, Deadline deadline, Nanoseconds spin) noexcept {
  const SharedSet::Borrowed mover(keeper_.loop_.shared());
  if (!mover) return;
  keeper_.is_moving_ = true;
  lock.unlock();
  mover.look_until([this] { return status_.load(std::memory_order_acquire) != RIPC_PENDING; }, deadline, spin);
  lock.lock();
  keeper_.is_moving_ = false;
}

ripc_status Ticket::cancel() noexcept {
  const TicketKeeper::Section section(keeper_);
  if (status_.load(std::memory_order_relaxed) == RIPC_PENDING) (void)keeper_.try_end(*this, RIPC_CANCELLED);
  return static_cast<ripc_status>(status_.load(std::memory_order_relaxed));
}

// ---- TicketKeeper --------------------------------------------------------------------------------------------

TicketKeeper::TicketKeeper(EventLoop& loop) : loop_(loop), timer_(loop.make_timer([this] { check_tickets(); })) {}

TicketKeeper::~TicketKeeper() { shut_down(); }

TicketKeeper::Prepared TicketKeeper::prepare(Ticket::Parts parts) {
  std::shared_ptr<Ticket> ticket(new Ticket(*this, std::move(parts)));
  const Ticket::Parts& kept = ticket->parts_;
  Prepared prepared;
  if (kept.deadline != UINT64_MAX) prepared.deadline_.emplace(kept.deadline, ticket.get());
  prepared.ticket_.emplace(Key{kept.channel.get(), kept.transfer}, ticket);
  return prepared;
}

std::shared_ptr<Ticket> TicketKeeper::open(Prepared&& prepared, std::vector<memory::Hold>&& holds,
                                           std::vector<spi::Bytes>&& ranges) noexcept {
  const Section section(*this);
  std::shared_ptr<Ticket> ticket = prepared.ticket_.begin()->second;
  ticket->holds_ = std::move(holds);
  ticket->ranges_ = std::move(ranges);
  tickets_.merge(prepared.ticket_);
  deadlines_.merge(prepared.deadline_);
  if (ticket->is_reported_) {
    ++ticket->parts_.sender->reported;
  } else {
    ++looked_for_;
  }
  if (ticket->is_reported_ || ticket->parts_.callback != nullptr) (void)try_finish(*ticket, true);
  pause_.reset();
  schedule();
  return ticket;
}

template <typename Visit>
void TicketKeeper::for_each(Visit visit) noexcept {
  for (auto entry = tickets_.begin(); entry != tickets_.end();) {
    const std::shared_ptr<Ticket> ticket = (entry++)->second;
    visit(*ticket);
  }
}

bool TicketKeeper::try_finish(Ticket& ticket, bool notify) noexcept {
  if (ticket.status_.load(std::memory_order_relaxed) != RIPC_PENDING) return true;
  const ripc_status status = ticket.parts_.channel->poll_transfer(ticket.parts_.transfer, notify);
  if (status == RIPC_PENDING) return false;
  ticket.holds_.clear();
  complete(ticket, status);
  return true;
}

bool TicketKeeper::try_end(Ticket& ticket, ripc_status status) noexcept {
  bool is_read = false;
  const ripc_status outcome = ticket.parts_.channel->revoke(ticket.parts_.transfer, is_read);
  if (outcome == RIPC_PENDING) return false;
  if (outcome != RIPC_REVOKED) {
    ticket.holds_.clear();
    complete(ticket, outcome);
    return true;
  }
  if (is_read) {
    keep_draining(ticket);
    pause_.reset();
  } else {
    ticket.holds_.clear();
  }
  complete(ticket, status);
  return true;
}

void TicketKeeper::keep_draining(Ticket& ticket) noexcept {
  ticket.drains_ = true;
  ticket.drains_next_ = std::exchange(draining_, ticket.shared_from_this());
}

void TicketKeeper::forget_deadline(const Ticket& ticket) noexcept {
  const auto [first, last] = deadlines_.equal_range(ticket.parts_.deadline);
  const auto entry = std::find_if(first, last, [&](const auto& candidate) { return candidate.second == &ticket; });
  if (entry != last) deadlines_.erase(entry);
}

void TicketKeeper::complete(Ticket& ticket, ripc_status status) noexcept {
  const std::shared_ptr<Ticket> alive = ticket.shared_from_this();
  tickets_.erase(Key{ticket.parts_.channel.get(), ticket.parts_.transfer});
  if (ticket.is_reported_) {
    --ticket.parts_.sender->reported;
  } else {
    --looked_for_;
  }
  forget_deadline(ticket);
  if (!ticket.drains_) ticket.parts_.channel.reset();
  if (ticket.completion_) ticket.completion_->status = status;
  ticket.status_.store(status, std::memory_order_release);
  completed_ = true;
  // A nested run of the loop that waits for this ticket checks it by itself after the event that ended it here.
  if (ticket.completion_) loop_.post_top_level(std::move(ticket.calls_back_));
}

bool TicketKeeper::transfer_finished(const spi::Channel& channel, std::uint64_t transfer, ripc_status status) noexcept {
  const Section section(*this);
  const auto found = tickets_.find(Key{&channel, transfer});
  const bool is_open = found != tickets_.end();
  if (is_open) {
    const std::shared_ptr<Ticket> ticket = found->second;
    ticket->holds_.clear();
    complete(*ticket, status);
  }
  drain();
  if (!completed_ || !loop_.in_loop_thread()) return is_open;
  // Several may have finished together: a thread that waits for one of them is woken after the loop has reported them
  // all.
  try {
    loop_.post([this] {
      const Section ended_later(*this);
      completed_ = true;
    });
    completed_ = false;
  } catch (const std::bad_alloc&) {
    // The end of the section wakes it.
  }
  return is_open;
}

void TicketKeeper::channel_lost(const spi::Channel& channel) noexcept {
  const Section section(*this);
  for_each([&](Ticket& ticket) {
    if (ticket.parts_.channel.get() == &channel) (void)try_finish(ticket);
  });
  drain();
}

void TicketKeeper::end_sender(const TicketSender& sender) noexcept {
  end_matching([&](const Ticket& ticket) { return ticket.parts_.sender.get() == &sender; }, RIPC_CLOSED);
}

void TicketKeeper::end_range(spi::Bytes range) noexcept {
  end_matching(
      [&](const Ticket& ticket) {
        return std::any_of(ticket.ranges_.begin(), ticket.ranges_.end(),
                           [&](spi::Bytes exposed) { return overlap(exposed, range); });
      },
      RIPC_CANCELLED);
}

template <typename Matches>
void TicketKeeper::end_matching(Matches matches, ripc_status status) noexcept {
  const Section section(*this);
  for_each([&](Ticket& ticket) {
    if (!matches(ticket) || try_end(ticket, status)) return;
    // A lent view: the peer may still read. The memory is kept until it gives the view back.
    keep_draining(ticket);
    complete(ticket, status);
  });
  pause_.reset();
  schedule();
}

void TicketKeeper::shut_down() noexcept {
  end_matching([](const Ticket&) { return true; }, RIPC_CLOSED);
  std::shared_ptr<Ticket> drained;
  {
    const Section section(*this);
    loop_.cancel_timer(timer_);
    drained = std::move(draining_);
  }
  // One by one: each owns the next.
  while (drained) {
    drained->holds_.clear();
    drained->parts_.channel.reset();
    drained = std::move(drained->drains_next_);
  }
}

void TicketKeeper::drain() noexcept {
  std::shared_ptr<Ticket>* place = &draining_;
  while (*place) {
    const std::shared_ptr<Ticket> ticket = *place;
    if (ticket->parts_.channel->poll_transfer(ticket->parts_.transfer, false) == RIPC_PENDING) {
      place = &ticket->drains_next_;
      continue;
    }
    ticket->holds_.clear();
    ticket->parts_.channel.reset();
    *place = std::move(ticket->drains_next_);
  }
}

void TicketKeeper::schedule() noexcept {
  Nanoseconds at = deadlines_.empty() ? UINT64_MAX : deadlines_.begin()->first;
  if (looked_for_ != 0 || draining_) at = std::min(at, monotonic_now() + pause_.peek());
  if (timer_at_ <= at && timer_at_ != UINT64_MAX) return;
  timer_at_ = at;
  loop_.set_timer(timer_, at);
}

void TicketKeeper::check_tickets() noexcept {
  const Section section(*this);
  timer_at_ = UINT64_MAX;
  const Nanoseconds now = monotonic_now();
  for_each([&](Ticket& ticket) {
    if (try_finish(ticket) || ticket.parts_.deadline > now || try_end(ticket, RIPC_TIMEOUT)) return;
    // The peer has taken it in time, as a view; it is done when the view is given back.
    forget_deadline(ticket);
    ticket.parts_.deadline = UINT64_MAX;
  });
  drain();
  (void)pause_.next();
  schedule();
}

}  // namespace ripc::internal::core
