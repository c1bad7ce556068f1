// SPDX-License-Identifier: Apache-2.0
// The way of a message with long items, return buffers or grants through the receiving service.
#include "core/assembly.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <new>

#include "core/service.hpp"
#include "spi/outcome.hpp"

namespace ripc::core {

namespace {

// How long a message waits for its sender before it has windows.
constexpr Nanoseconds kDeliveryTimeout = 30'000'000'000;
// No message is begun behind others that have as many bytes: with so many under way, the path is not idle.
constexpr std::uint64_t kMostAhead = 8 << 20;

ripc_item_view failed_view(ripc_status status, std::uint64_t size, std::uint32_t return_index = 0) noexcept {
  return {.data = nullptr,
          .size = static_cast<std::size_t>(size),
          .kind = RIPC_VIEW_FAILED,
          .status = static_cast<std::uint32_t>(status),
          .cookie = 0,
          .return_index = return_index,
          .copied = 0};
}

// What a sender hears about an item that its receiver could not take.
ripc_status reported(ripc_status status) noexcept {
  return status == RIPC_WINDOW_TOO_SMALL || status == RIPC_NO_MEMORY ? status : RIPC_NO_WINDOW;
}

}  // namespace

// One step of a message that may have to wait for its sender. RIPC_TIMEOUT: it was silent for too long.
template <typename Step>
ripc_status Service::attempt(Assembly& assembly, Nanoseconds timeout, Step&& step) noexcept {
  const ripc_status status = step();
  if (status != RIPC_PENDING) return status;
  if (assembly.deadline.is_never()) assembly.deadline = Deadline::after(timeout, time());
  if (assembly.deadline.remaining(time()) != 0) return RIPC_PENDING;
  // This process may have been stopped, or busy in a callback, and not have heard what the sender said. Once more,
  // then; a sender that never stops talking is not waited for longer.
  if (!assembly.extended && assembly.source->is_behind()) {
    assembly.extended = true;
    assembly.deadline = Deadline::after(timeout, time());
    return RIPC_PENDING;
  }
  const ripc_status last = step();
  return last == RIPC_PENDING ? RIPC_TIMEOUT : last;
}

// Takes over the message, unless there is no memory for all that it may need on its way: then nothing has happened.
spi::Delivery Service::assemble(spi::Source& source, Message* message, const wire::Packet& packet) {
  std::size_t views = 0;
  std::size_t grants = 0;
  std::array<wire::Descriptor, RIPC_MAX_ITEMS> descriptors;
  std::size_t described = 0;
  for (const wire::DecodedItem& item : packet.items()) {
    if (item.type <= wire::ItemType::directed) ++views;
    if (item.type == wire::ItemType::grant) ++grants;
    if (item.type == wire::ItemType::descriptor) descriptors[described++] = packet.descriptor(item);
    if (item.type == wire::ItemType::directed) descriptors[described++] = packet.directed(item).descriptor;
  }
  if (views > message->item_capacity) {
    MessagePool::release(message);
    return reject();
  }
  std::list<Assembly> made(1);
  Assembly& assembly = made.front();
  assembly.source = source.shared_from_this();
  assembly.lend = (flags_ & RIPC_RECEIVE_LEND) != 0;
  assembly.packet_size = packet.size();
  for (const wire::Descriptor& descriptor : std::span(descriptors).first(described))
    assembly.items.emplace_back().pull.descriptor = descriptor;
  const std::size_t lent = assembly.lend ? described : 0;
  if (grants != 0 || lent != 0) message->attach(grants, lent);
  if (described != 0) {
    assembly.transfer = descriptors.front();
    const ripc_status begun = source.begin(std::span(descriptors).first(described));
    if (begun == RIPC_NO_MEMORY) throw std::bad_alloc();
    if (begun != RIPC_OK) {
      // Withdrawn before it was taken: the sender knows, and for the receiver it never came.
      MessagePool::release(message);
      return begun == RIPC_CORRUPT ? reject() : spi::Delivery::taken;
    }
  }
  // From here on nothing takes memory.
  assembly.message = message;
  const std::lock_guard lock(assemblies_mutex_);
  if (progress(assembly, &packet)) return spi::Delivery::taken;
  assemblies_.splice(assemblies_.end(), made);
  pending_ = true;
  return spi::Delivery::taken;
}

Service::Ahead Service::look_ahead_of(const spi::Source& source, const Assembly* until) const noexcept {
  Ahead ahead;
  for (const Assembly& assembly : assemblies_) {
    if (&assembly == until) break;
    if (assembly.source.get() != &source) continue;
    ++ahead.messages;
    ahead.bytes += assembly.bytes();
    ahead.planned = ahead.planned && assembly.stage != Assembly::Stage::prepare;
  }
  return ahead;
}

// Whether a message behind these may be begun.
bool Service::may_begin(const spi::Source& source, const Ahead& ahead) const noexcept {
  return ahead.messages < source.messages_at_once() && ahead.bytes < kMostAhead && pool_->is_roomy();
}

// Whether some window is held by a message that has to wait for another one.
bool Service::windows_are_ahead() const noexcept {
  return std::any_of(assemblies_.begin(), assemblies_.end(), [&](const Assembly& assembly) {
    return std::any_of(assembly.items.begin(), assembly.items.end(),
                       [](const Assembly::Item& item) { return !item.window.empty(); }) &&
           look_ahead_of(*assembly.source, &assembly).messages != 0;
  });
}

// A message in its turn takes the windows there are; if they are too few, only when the application has had what came
// before, and so could post some, and when none are held ahead, which come back. One ahead of its turn takes them in
// the order of its source's messages, if it finds all it needs and leaves one for each other source.
bool Service::may_plan(const Assembly& assembly, const wire::Packet& packet) const noexcept {
  const Ahead ahead = look_ahead_of(*assembly.source, &assembly);
  if (!ahead.planned) return false;
  std::array<std::uint64_t, RIPC_MAX_ITEMS> sizes;
  std::size_t count = 0;
  for (const wire::DecodedItem& item : packet.items()) {
    // Until it is delivered, the application may cancel the request, and have its return buffers back.
    if (item.type == wire::ItemType::reply && ahead.messages != 0) return false;
    if (item.type == wire::ItemType::descriptor) sizes[count++] = packet.descriptor(item).length;
    if (item.type == wire::ItemType::directed) sizes[count++] = packet.directed(item).descriptor.length;
  }
  if (assembly.lend || count == 0) return true;
  const std::span needed = std::span(sizes).first(count);
  if (ahead.messages == 0)
    return windows_.has_room_for(needed, 0) || (output_count_ < output_.size() && !windows_are_ahead());
  std::size_t sources = 0;
  for (const auto& port : ports_) sources += port->source_count();
  return windows_.has_room_for(needed, sources - std::min<std::size_t>(sources, 1));
}

// Goes on as far as the sender lets it, and the messages before it. True when nothing is left to wait for: the message
// was delivered or dropped.
bool Service::progress(Assembly& assembly, const wire::Packet* packet) noexcept {
  using Stage = Assembly::Stage;
  ripc_status status = RIPC_OK;
  if (assembly.stage == Stage::prepare) {
    status = prepare_all(assembly);
    wire::Packet again;
    if (packet == nullptr && status == RIPC_OK) {
      (void)again.decode({assembly.message->storage, assembly.packet_size});
      packet = &again;
    }
    if (status == RIPC_OK) {
      if (!may_plan(assembly, *packet)) return false;
      plan(assembly, *packet);
      assembly.enter(Stage::pull);
    }
  }
  if (status == RIPC_OK && assembly.stage == Stage::pull) {
    status = pull_all(assembly);
    if (status == RIPC_OK) assembly.enter(Stage::finish);
  }
  if (status == RIPC_OK && assembly.stage == Stage::finish) {
    status = finish(assembly);
    if (status == RIPC_OK) assembly.enter(Stage::deliver);
  }
  if (status == RIPC_PENDING) return false;
  if (status != RIPC_OK) {
    drop(assembly, status);
    return true;
  }
  if (look_ahead_of(*assembly.source, &assembly).messages != 0) return false;
  increase(counters_.other_messages_received);
  emit(assembly.message);
  return true;
}

ripc_status Service::prepare_all(Assembly& assembly) noexcept {
  for (Assembly::Item& item : assembly.items) {
    const ripc_status status = attempt(assembly, kDeliveryTimeout, [&] { return assembly.source->prepare(item.pull); });
    if (status != RIPC_OK) return status;
  }
  return RIPC_OK;
}

// Decides where each item goes.
void Service::plan(Assembly& assembly, const wire::Packet& packet) noexcept {
  Message& message = *assembly.message;
  RequestTable::Taken taken;
  std::bitset<RIPC_MAX_RETURNS> written;
  std::bitset<RIPC_MAX_RETURNS> used;
  auto next = assembly.items.begin();
  for (const wire::DecodedItem& item : packet.items()) {
    if (item.type == wire::ItemType::request) message.request = packet.number(item);
    if (item.type == wire::ItemType::grant) {
      message.attachments->grants.push_back(packet.grant(item));
      message.attachments->source = assembly.source;
    }
    if (item.type != wire::ItemType::reply) continue;
    message.in_reply_to = packet.number(item);
    taken = requests_.take(message.in_reply_to, packet.source());
    if (taken.empty()) continue;
    // Whatever the reply used, the right to write ends here.
    const Request& answered = taken.mapped();
    for (std::size_t index = 0; index < answered.grants.size(); ++index)
      written[index] = answered.channel->end_grant(answered.grants[index]) == RIPC_OK;
  }
  const Request* const request = taken.empty() ? nullptr : &taken.mapped();
  std::size_t short_bytes = 0;
  const auto usable_buffer = [&](std::uint32_t index, std::uint64_t length) {
    return request != nullptr && index < request->buffers.size() && length <= request->buffers[index].size &&
           !used[index];
  };
  for (const wire::DecodedItem& decoded : packet.items()) {
    if (decoded.type > wire::ItemType::directed) continue;
    ripc_item_view& view = message.items[message.item_count];
    const std::size_t view_index = message.item_count++;
    if (decoded.type == wire::ItemType::payload) {
      view = {.data = message.storage + decoded.offset,
              .size = decoded.length,
              .kind = RIPC_VIEW_SHORT,
              .status = RIPC_OK,
              .cookie = 0,
              .return_index = 0,
              .copied = 1};
      short_bytes += decoded.length;
      continue;
    }
    if (decoded.type == wire::ItemType::returned) {
      const wire::Returned returned = packet.returned(decoded);
      if (usable_buffer(returned.return_index, returned.length) && written[returned.return_index]) {
        used.set(returned.return_index);
        view = {.data = request->buffers[returned.return_index].data,
                .size = static_cast<std::size_t>(returned.length),
                .kind = RIPC_VIEW_RETURNED,
                .status = RIPC_OK,
                .cookie = 0,
                .return_index = returned.return_index,
                .copied = 0};
      } else {
        const bool is_due = request != nullptr && !request->cancelling;
        view = failed_view(is_due ? RIPC_CORRUPT : RIPC_CANCELLED, returned.length, returned.return_index);
        increase(counters_.items_discarded);
      }
      continue;
    }
    Assembly::Item& item = *next++;
    item.view = view_index;
    if (decoded.type == wire::ItemType::directed) {
      const wire::Directed directed = packet.directed(decoded);
      if (usable_buffer(directed.return_index, directed.descriptor.length)) {
        used.set(directed.return_index);
        item.target = Assembly::Target::return_buffer;
        item.pull.destination = static_cast<std::byte*>(request->buffers[directed.return_index].data);
        view.return_index = directed.return_index;
        continue;
      }
    }
    if (assembly.lend) {
      item.target = Assembly::Target::lent;
      continue;
    }
    for (WindowQueue* windows : {&windows_, &context_.windows()}) {
      item.home = windows;
      item.window = windows->take();
      if (!item.window.empty()) break;
    }
    ripc_status failure = RIPC_OK;
    if (item.window.empty()) {
      failure = RIPC_NO_WINDOW;
    } else {
      item.pull.destination = item.window.front().data;
      if (item.window.front().size < item.pull.descriptor.length) failure = RIPC_WINDOW_TOO_SMALL;
    }
    if (failure != RIPC_OK) {
      item.done = true;
      item.pull.status = failure;
    }
  }
  increase(counters_.short_bytes_received, short_bytes);
  if (short_bytes != 0) increase(counters_.receive_copies);
}

// Whole or not at all.
ripc_status Service::pull_all(Assembly& assembly) noexcept {
  // How long the message may keep windows from others while its sender hands over the bytes piece by piece.
  std::uint64_t missing = 0;
  for (const Assembly::Item& item : assembly.items) {
    if (!item.done) missing += std::min(item.pull.descriptor.length, spi::kLongestPatience);
  }
  const Nanoseconds timeout = assembly.source->patience(missing);
  bool all_done = true;
  for (Assembly::Item& item : assembly.items) {
    if (item.done) continue;
    ripc_status status = RIPC_OK;
    if (item.target == Assembly::Target::lent) {
      spi::Bytes bytes;
      status = assembly.source->lend(item.pull, bytes);
      if (status == RIPC_OK) {
        assembly.any_lent = true;
        item.pull.destination = const_cast<std::byte*>(bytes.data());
      } else if (status == RIPC_UNSUPPORTED) {
        Result<std::byte*> lease = context_.pool().lease(static_cast<std::size_t>(item.pull.descriptor.length));
        if (!lease.ok()) {
          item.done = true;
          item.pull.status = RIPC_NO_MEMORY;
          continue;
        }
        Message::Attachments& attachments = *assembly.message->attachments;
        attachments.pool = &context_.pool();
        attachments.leases.push_back(*lease);
        item.target = Assembly::Target::lease;
        item.pull.destination = *lease;
      }
    }
    if (item.target != Assembly::Target::lent) {
      item.pull.finishes = assembly.ends_with(item);
      status = attempt(assembly, timeout, [&] { return assembly.source->pull(item.pull); });
      if (status == RIPC_PENDING) {
        all_done = false;
        // Another one would go on only while this process copies.
        if (assembly.source->messages_at_once() == 1) break;
        continue;
      }
    }
    // Its place is none that the transport can write to: the others are delivered.
    if (status != RIPC_OK && status != RIPC_NO_MEMORY) return status;
    item.done = true;
    item.pull.status = status;
  }
  if (!all_done) return RIPC_PENDING;
  for (const Assembly::Item& item : assembly.items) {
    if (item.pull.status != RIPC_OK && assembly.failure == RIPC_OK) assembly.failure = reported(item.pull.status);
  }
  return RIPC_OK;
}

// Ends the transfer and fills in the views. RIPC_PENDING while the sender has not said whether the message may be
// delivered.
ripc_status Service::finish(Assembly& assembly) noexcept {
  Message& message = *assembly.message;
  if (assembly.transfer && !assembly.any_lent) {
    const ripc_status outcome = attempt(assembly, assembly.source->patience(0),
                                        [&] { return assembly.source->finish(*assembly.transfer, assembly.failure); });
    if (outcome == RIPC_PENDING) return RIPC_PENDING;
    if (outcome == RIPC_REVOKED || outcome == RIPC_TIMEOUT) {
      assembly.transfer.reset();
      return RIPC_REVOKED;
    }
  }
  for (Assembly::Item& item : assembly.items) {
    ripc_item_view& view = message.items[item.view];
    const std::uint64_t length = item.pull.descriptor.length;
    if (item.pull.status != RIPC_OK) {
      increase(counters_.items_discarded);
      view = failed_view(item.pull.status, length);
      item.return_window();
      continue;
    }
    std::uint32_t kind = RIPC_VIEW_WINDOW;
    if (item.target == Assembly::Target::return_buffer) kind = RIPC_VIEW_RETURNED;
    if (item.target == Assembly::Target::lent || item.target == Assembly::Target::lease) {
      kind = RIPC_VIEW_LENT;
      increase(counters_.items_lent);
    }
    increase(counters_.long_items_received);
    increase(counters_.long_bytes_received, length);
    increase(counters_.receive_copies, item.pull.copies);
    if (item.target == Assembly::Target::lent) message.attachments->views.push_back(std::move(item.pull.memory));
    view = {.data = item.pull.destination,
            .size = static_cast<std::size_t>(length),
            .kind = kind,
            .status = RIPC_OK,
            .cookie = item.target == Assembly::Target::window ? item.window.front().cookie : 0,
            .return_index = item.target == Assembly::Target::return_buffer ? view.return_index : 0,
            .copied = item.pull.copies};
  }
  if (assembly.any_lent) {
    Message::Attachments& attachments = *message.attachments;
    attachments.source = assembly.source;
    attachments.lent.push_back(*assembly.transfer);
    attachments.lent_status = assembly.failure;
  }
  assembly.transfer.reset();
  return RIPC_OK;
}

// The message will not be delivered: windows go back to their places, the sender hears why.
void Service::drop(Assembly& assembly, ripc_status status) noexcept {
  for (Assembly::Item& item : assembly.items) {
    if (item.pull.status == RIPC_PENDING) assembly.source->abandon(item.pull);
    item.return_window();
    increase(counters_.items_discarded);
  }
  if (assembly.transfer)
    (void)assembly.source->finish(*assembly.transfer, spi::drops_message(status) ? status : RIPC_REFUSED);
  MessagePool::release(assembly.message);
  assembly.message = nullptr;
}

// The request is cancelled while the reply to it is on its way into its return buffers: nothing writes them any more
// when this has returned, and their items fail. False: there is no such reply.
bool Service::cancel_answer(std::uint64_t request) noexcept {
  const std::lock_guard lock(assemblies_mutex_);
  bool found = false;
  for (Assembly& assembly : assemblies_) {
    if (assembly.stage == Assembly::Stage::prepare || assembly.message->in_reply_to != request) continue;
    for (Assembly::Item& item : assembly.items) {
      if (item.target != Assembly::Target::return_buffer) continue;
      if (!item.done) assembly.source->abandon(item.pull);
      item.done = true;
      item.pull.status = RIPC_CANCELLED;
      found = true;
    }
  }
  return found;
}

// Whether bytes that are on their way will be here within the time that a wait polls. What is left when they are, the
// answer that ends their transfer, is worth as much as they were.
bool Service::polls_for_bytes(Deadline deadline) noexcept {
  if (assemblies_.empty() || context_.spin() == 0) return false;
  const Nanoseconds now = time();
  if (bytes_until_ == 0) bytes_until_ = std::min(now + context_.spin(), deadline.at());
  if (now >= bytes_until_) return false;
  const std::lock_guard lock(assemblies_mutex_);
  bool pending = false;
  bool worth = true;
  for (const Assembly& assembly : assemblies_) {
    for (const Assembly::Item& item : assembly.items) {
      if (item.done) continue;
      pending = true;
      worth = assembly.source->is_worth_polling(item.pull, now, context_.spin()) && worth;
    }
  }
  if (pending) polls_bytes_ = worth;
  return polls_bytes_;
}

void Service::progress_all() noexcept {
  const std::lock_guard lock(assemblies_mutex_);
  for (auto assembly = assemblies_.begin(); assembly != assemblies_.end();) {
    const auto current = assembly++;
    if (progress(*current)) assemblies_.erase(current);
  }
}

}  // namespace ripc::core
