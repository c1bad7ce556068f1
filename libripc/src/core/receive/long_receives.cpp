// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "core/receive/long_receive.hpp"
#include "spi/outcome.hpp"

namespace ripc::internal::core {

namespace {

// How long a message waits for its sender before it has windows.
constexpr Nanoseconds kDeliveryTimeout = 30'000'000'000;
// No message begins behind others with this many bytes in total: with so many bytes in progress, the path is not idle.
constexpr std::uint64_t kMostAhead = 8 << 20;

// What a sender learns about an item that its receiver could not take.
ripc_status reported(ripc_status status) noexcept {
  return status == RIPC_WINDOW_TOO_SMALL || status == RIPC_NO_MEMORY ? status : RIPC_NO_WINDOW;
}

}  // namespace

std::uint64_t LongReceive::bytes(bool missing_only) const noexcept {
  std::uint64_t sum = 0;
  for (const IncomingItem& item : items) {
    if (!missing_only || !item.done) sum += std::min(item.pull.descriptor.length, spi::kLongestPatience);
  }
  return sum;
}

bool LongReceive::ends_with(const IncomingItem& last) const noexcept {
  return !any_lent && std::ranges::all_of(items, [&](const IncomingItem& item) {
    const bool is_there = &item == &last || (item.done && item.pull.status == RIPC_OK);
    return is_there && item.target != IncomingItem::Target::return_buffer;
  });
}

// ---- What may begin, and with which windows ------------------------------------------------------------------

ripc_status LongReceives::begin(spi::Source& source, Message* message, const wire::Packet& packet, bool lend,
                                const MessagePool& messages) {
  const PacketContents contents(packet);
  if (contents.views > message->item_capacity) return RIPC_CORRUPT;
  // If messages are pulled one at a time, they are in order.
  const bool is_pulled = !contents.pulled().empty();
  const bool unordered = packet.is_unordered() && (!is_pulled || source.facts().messages_at_once > 1);
  if (packet.is_unordered() && is_pulled) {
    const Ahead ahead = look_ahead_of(source);
    const Some& others = unordered ? ahead.unordered : ahead.ordered;
    if (others.messages != 0 && !may_begin_beside(others, source, messages)) return RIPC_AGAIN;
  }
  std::list<LongReceive> made(1);
  LongReceive& receive = made.front();
  receive.source = source.shared_from_this();
  receive.lend = lend;
  receive.unordered = unordered;
  receive.packet_size = packet.size();
  for (const wire::Descriptor& descriptor : contents.pulled())
    receive.items.emplace_back().pull.descriptor = descriptor;
  const std::size_t lent = lend ? contents.pulled().size() : 0;
  if (contents.grants != 0 || lent != 0) message->attach(contents.grants, lent);
  if (is_pulled) {
    receive.transfer = contents.pulled().front();
    const ripc_status begun = source.begin(contents.pulled());
    if (begun == RIPC_NO_MEMORY) throw std::bad_alloc();
    if (begun != RIPC_OK) return begun;
  }
  // From here on nothing takes memory.
  receive.message = message;
  const std::lock_guard lock(mutex_);
  if (progress(receive, &packet)) return RIPC_OK;
  receives_.splice(receives_.end(), made);
  parts_.inbox.pending = true;
  return RIPC_OK;
}

LongReceives::Ahead LongReceives::look_ahead_of(const spi::Source& source, const LongReceive* until) const noexcept {
  Ahead ahead;
  for (const LongReceive& receive : receives_) {
    if (&receive == until) break;
    if (receive.source.get() != &source) continue;
    Some& some = receive.unordered ? ahead.unordered : ahead.ordered;
    ++some.messages;
    some.bytes += receive.bytes();
    some.placed = some.placed && receive.stage != LongReceive::Stage::prepare;
  }
  return ahead;
}

LongReceives::Turn LongReceives::turn_of(const spi::Source& source, const MessagePool& messages) const noexcept {
  const Some ahead = look_ahead_of(source).ordered;
  if (ahead.messages == 0) return Turn::now;
  return may_begin_beside(ahead, source, messages) ? Turn::long_only : Turn::later;
}

bool LongReceives::may_begin_beside(const Some& others, const spi::Source& source,
                                    const MessagePool& messages) noexcept {
  return others.messages < source.facts().messages_at_once && others.bytes < kMostAhead && messages.is_roomy();
}

bool LongReceives::must_wait(const LongReceive& receive) const noexcept {
  return !receive.unordered && look_ahead_of(*receive.source, &receive).ordered.messages != 0;
}

// Whether a message that has to wait for another one holds a window.
bool LongReceives::windows_are_ahead() const noexcept {
  return std::ranges::any_of(receives_, [&](const LongReceive& receive) {
    return std::ranges::any_of(receive.items, [](const IncomingItem& item) { return !item.window.empty(); }) &&
           must_wait(receive);
  });
}

// A message whose turn it is takes the available windows. If these are too few, it waits until the application has
// received all earlier messages, and so could post more. It also waits while messages ahead of their turn hold windows,
// because those come back. A message ahead of its turn takes windows in the order of its source's messages. It must
// find all that it needs, and leave one for each other source. The same holds for an unordered message: without
// windows, it waits rather than fails. It keeps none for long, so it may also take those of its context. It takes them
// here, because other services take them, too.
bool LongReceives::may_place(LongReceive& receive, const wire::Packet& packet) noexcept {
  const Ahead ahead = look_ahead_of(*receive.source, &receive);
  const PacketContents contents(packet);
  const bool needs_windows = !receive.lend && !contents.pulled().empty();
  if (!ahead.ordered.placed && (needs_windows || !receive.unordered)) return false;
  // Until the message is delivered, the application may cancel the request and take its return buffers back.
  if (contents.is_reply && must_wait(receive)) return false;
  if (!needs_windows) return true;
  const WindowQueue& windows = parts_.destinations.windows;
  if (ahead.ordered.messages + ahead.unordered.messages == 0)
    return windows.has_room_for(contents.pulled(), 0) || (!parts_.inbox.is_full() && !windows_are_ahead());
  const std::size_t sources = parts_.ports.source_count();
  const std::size_t spare = sources - std::min<std::size_t>(sources, 1);
  if (windows.has_room_for(contents.pulled(), spare)) return true;
  std::array<WindowQueue::Taken, RIPC_MAX_ITEMS> taken;
  WindowQueue& shared = parts_.destinations.shared_windows;
  const std::optional<std::size_t> own =
      receive.unordered ? WindowQueue::take_all(parts_.destinations.windows, shared, contents.pulled(), spare, taken)
                        : std::nullopt;
  if (!own) return false;
  std::size_t index = 0;
  for (IncomingItem& item : receive.items) {
    item.home = index < *own ? &parts_.destinations.windows : &shared;
    item.window = std::move(taken[index++]);
  }
  return true;
}

// ---- The stages ----------------------------------------------------------------------------------------------

// Runs one step of a message that may have to wait for its sender. RIPC_TIMEOUT: the sender was silent for too long.
template <typename Step>
ripc_status LongReceives::attempt(LongReceive& receive, Nanoseconds timeout, Step&& step) noexcept {
  if (const ripc_status status = step(); status != RIPC_PENDING) return status;
  const Nanoseconds now = parts_.clock.now();
  if (receive.deadline.is_never()) receive.deadline = Deadline::after(timeout, now);
  if (receive.deadline.remaining(now) != 0) return RIPC_PENDING;
  // This process may have been stopped, or busy in a callback, and so have missed what the sender said. So it waits
  // once more, but only once: a sender that never stops sending gets no further time.
  if (!receive.extended && parts_.loop.is_behind()) {
    receive.extended = true;
    receive.deadline = Deadline::after(timeout, now);
    return RIPC_PENDING;
  }
  const ripc_status last = step();
  return last == RIPC_PENDING ? RIPC_TIMEOUT : last;
}

// Advances the message as far as its sender and the messages before it allow. True when nothing is left to wait for:
// the message was delivered or dropped.
bool LongReceives::progress(LongReceive& receive, const wire::Packet* packet) noexcept {
  using Stage = LongReceive::Stage;
  ripc_status status = RIPC_OK;
  if (receive.stage == Stage::prepare) {
    status = prepare(receive);
    if (status == RIPC_OK) status = place_items(receive, packet);
    if (status == RIPC_OK) receive.enter(Stage::pull);
  }
  if (status == RIPC_OK && receive.stage == Stage::pull) {
    status = pull(receive);
    if (status == RIPC_OK) receive.enter(Stage::finish);
  }
  if (status == RIPC_OK && receive.stage == Stage::finish) {
    status = finish(receive);
    if (status == RIPC_OK) receive.enter(Stage::deliver);
  }
  if (status == RIPC_PENDING) return false;
  if (status != RIPC_OK) {
    drop(receive, status);
    return true;
  }
  if (must_wait(receive)) return false;
  increase(parts_.counters.other_messages);
  parts_.inbox.add(receive.message);
  return true;
}

ripc_status LongReceives::prepare(LongReceive& receive) noexcept {
  for (IncomingItem& item : receive.items) {
    const ripc_status status = attempt(receive, kDeliveryTimeout, [&] { return receive.source->prepare(item.pull); });
    if (status != RIPC_OK) return status;
  }
  return RIPC_OK;
}

// RIPC_PENDING: it is not this message's turn.
ripc_status LongReceives::place_items(LongReceive& receive, const wire::Packet* packet) noexcept {
  wire::Packet again;
  if (packet == nullptr) {
    (void)again.decode({receive.message->storage, receive.packet_size});
    packet = &again;
  }
  if (!may_place(receive, *packet)) return RIPC_PENDING;
  const Placed placed =
      place(*packet, receive.source, receive.lend, parts_.destinations, *receive.message, receive.items);
  increase(parts_.counters.items_discarded, placed.discarded);
  increase(parts_.counters.short_bytes, placed.short_bytes);
  increase(parts_.counters.copies, placed.copies);
  return RIPC_OK;
}

// Whole or not at all.
ripc_status LongReceives::pull(LongReceive& receive) noexcept {
  // How long the message may keep windows from others while its sender hands over the bytes piece by piece.
  const Nanoseconds timeout = receive.source->patience(receive.bytes(true));
  bool all_done = true;
  for (IncomingItem& item : receive.items) {
    if (item.done) continue;
    const ripc_status status = pull_item(receive, item, timeout);
    if (status == RIPC_PENDING) {
      all_done = false;
      // Another message would progress only while this process copies.
      if (receive.source->facts().messages_at_once == 1) break;
      continue;
    }
    // With RIPC_NO_MEMORY, the transport cannot write to the item's place: only the other items are delivered.
    if (status != RIPC_OK && status != RIPC_NO_MEMORY) return status;
    item.done = true;
    item.pull.status = status;
  }
  if (!all_done) return RIPC_PENDING;
  for (const IncomingItem& item : receive.items) {
    if (item.pull.status != RIPC_OK && receive.failure == RIPC_OK) receive.failure = reported(item.pull.status);
  }
  return RIPC_OK;
}

ripc_status LongReceives::pull_item(LongReceive& receive, IncomingItem& item, Nanoseconds timeout) noexcept {
  if (item.target == IncomingItem::Target::lent) {
    item.pull.lend = true;
    const ripc_status status = receive.source->pull(item.pull);
    item.pull.lend = false;
    receive.any_lent = receive.any_lent || status == RIPC_OK;
    if (status != RIPC_UNSUPPORTED) return status;
    Result<std::byte*> lease = parts_.pool.lease(static_cast<std::size_t>(item.pull.descriptor.length));
    if (!lease.ok()) return RIPC_NO_MEMORY;
    Message::Attachments& attachments = *receive.message->attachments;
    attachments.pool = &parts_.pool;
    attachments.leases.push_back(*lease);
    item.target = IncomingItem::Target::lease;
    item.pull.destination = *lease;
  }
  if (item.pull.progress == 0 && !item.hold && receive.source->facts().wants_residence) {
    Result<memory::Hold> hold = parts_.pool.hold(item.pull.destination, item.pull.descriptor.length);
    if (hold.ok()) {
      item.pull.residence = hold->residence();
      item.hold = std::move(*hold);
    }
  }
  item.pull.finishes = receive.ends_with(item);
  return attempt(receive, timeout, [&] { return receive.source->pull(item.pull); });
}

// Ends the transfer. RIPC_PENDING until the sender has said whether the message may be delivered.
ripc_status LongReceives::finish(LongReceive& receive) noexcept {
  if (receive.transfer && !receive.any_lent) {
    const ripc_status outcome = attempt(receive, receive.source->patience(0),
                                        [&] { return receive.source->finish(*receive.transfer, receive.failure); });
    if (outcome == RIPC_PENDING) return RIPC_PENDING;
    if (outcome == RIPC_REVOKED || outcome == RIPC_TIMEOUT) {
      receive.transfer.reset();
      return RIPC_REVOKED;
    }
  }
  show(receive);
  receive.transfer.reset();
  return RIPC_OK;
}

// Fills in the views.
void LongReceives::show(LongReceive& receive) noexcept {
  Message& message = *receive.message;
  ReceiveCounters& counters = parts_.counters;
  for (IncomingItem& item : receive.items) {
    message.items[item.view] = item.shown();
    if (item.pull.status != RIPC_OK) {
      increase(counters.items_discarded);
      item.return_window();
      continue;
    }
    if (item.is_lent()) increase(counters.items_lent);
    increase(counters.long_items);
    increase(counters.long_bytes, item.pull.descriptor.length);
    increase(counters.copies, item.pull.copies);
    if (item.target == IncomingItem::Target::lent) message.attachments->views.push_back(std::move(item.pull.memory));
  }
  if (!receive.any_lent) return;
  Message::Attachments& attachments = *message.attachments;
  attachments.source = receive.source;
  attachments.lent.push_back(*receive.transfer);
  attachments.lent_status = receive.failure;
}

// The message will not be delivered: the windows go back to their places, and the sender learns why.
void LongReceives::drop(LongReceive& receive, ripc_status status) noexcept {
  for (IncomingItem& item : receive.items) {
    if (item.pull.status == RIPC_PENDING) receive.source->abandon(item.pull);
    item.return_window();
    increase(parts_.counters.items_discarded);
  }
  if (receive.transfer)
    (void)receive.source->finish(*receive.transfer, spi::drops_message(status) ? status : RIPC_REFUSED);
  MessagePool::release(receive.message);
  receive.message = nullptr;
}

// ---- All of them ---------------------------------------------------------------------------------------------

void LongReceives::progress_all() noexcept {
  const std::lock_guard lock(mutex_);
  for (auto receive = receives_.begin(); receive != receives_.end();) {
    const auto current = receive++;
    if (progress(*current)) receives_.erase(current);
  }
}

void LongReceives::source_gone(const spi::Source& source) noexcept {
  const std::lock_guard lock(mutex_);
  for (auto receive = receives_.begin(); receive != receives_.end();) {
    const auto current = receive++;
    if (current->source.get() != &source) continue;
    // Bytes in mapped memory can still be read.
    if (!progress(*current)) drop(*current, RIPC_PEER_DEAD);
    receives_.erase(current);
  }
}

bool LongReceives::cancel_answer(std::uint64_t request) noexcept {
  const std::lock_guard lock(mutex_);
  bool found = false;
  for (LongReceive& receive : receives_) {
    if (receive.stage == LongReceive::Stage::prepare || receive.message->in_reply_to != request) continue;
    for (IncomingItem& item : receive.items) {
      if (item.target != IncomingItem::Target::return_buffer) continue;
      if (!item.done) receive.source->abandon(item.pull);
      item.done = true;
      item.pull.status = RIPC_CANCELLED;
      found = true;
    }
  }
  return found;
}

bool LongReceives::drop_all(ripc_status status) noexcept {
  const std::lock_guard lock(mutex_);
  const bool found = !receives_.empty();
  for (LongReceive& receive : receives_) drop(receive, status);
  receives_.clear();
  return found;
}

}  // namespace ripc::internal::core
