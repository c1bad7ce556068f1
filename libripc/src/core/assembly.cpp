// SPDX-License-Identifier: Apache-2.0
// The way of a message with long items, return buffers or grants through the receiving service.
#include "core/assembly.hpp"

#include <algorithm>
#include <bitset>

#include "core/service.hpp"

namespace ripc::core {

namespace {

// A sender that does not deliver what it announced may keep windows busy no longer than this.
constexpr Nanoseconds kPullTimeout = 30'000'000'000;

void increase(std::atomic<std::uint64_t>& counter, std::uint64_t by = 1) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

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

// Takes over the message. False if the packet contradicts itself: the message is gone then.
bool Service::assemble(spi::Source& source, Message* message, const wire::Packet& packet) noexcept {
  Assembly assembly;
  assembly.source = source.shared_from_this();
  assembly.message = message;
  assembly.lend = (flags_ & RIPC_RECEIVE_LEND) != 0;
  assembly.deadline = Deadline::after(kPullTimeout);
  std::size_t views = 0;
  for (const wire::DecodedItem& item : packet.items()) {
    if (item.type <= wire::ItemType::directed) ++views;
    if (item.type == wire::ItemType::descriptor && !assembly.transfer) assembly.transfer = packet.descriptor(item);
    if (item.type == wire::ItemType::directed && !assembly.transfer)
      assembly.transfer = packet.directed(item).descriptor;
  }
  if (views > message->item_capacity) {
    MessagePool::release(message);
    return false;
  }
  if (assembly.transfer) {
    const ripc_status begun = source.begin(*assembly.transfer);
    if (begun != RIPC_OK) {
      // Withdrawn before it was taken: the sender knows, and for the receiver it never came.
      MessagePool::release(message);
      return begun != RIPC_CORRUPT;
    }
  }
  plan(assembly, packet);
  if (progress(assembly)) return true;
  assemblies_.push_back(std::move(assembly));
  return true;
}

// Decides where each item goes.
void Service::plan(Assembly& assembly, const wire::Packet& packet) noexcept {
  Message& message = *assembly.message;
  std::optional<Request> request;
  std::bitset<RIPC_MAX_RETURNS> written;
  std::bitset<RIPC_MAX_RETURNS> used;
  for (const wire::DecodedItem& item : packet.items()) {
    if (item.type == wire::ItemType::request) message.request = packet.number(item);
    if (item.type == wire::ItemType::grant) {
      message.attach().grants.push_back(packet.grant(item));
      message.attach().source = assembly.source;
    }
    if (item.type != wire::ItemType::reply) continue;
    message.in_reply_to = packet.number(item);
    request = requests_.take(message.in_reply_to, packet.source());
    if (!request) continue;
    // Whatever the reply used, the right to write ends here.
    for (std::size_t index = 0; index < request->grants.size(); ++index)
      written[index] = request->channel->end_grant(request->grants[index]) == RIPC_OK;
  }
  std::size_t short_bytes = 0;
  const auto usable_buffer = [&](std::uint32_t index, std::uint64_t length) {
    return request && index < request->buffers.size() && length <= request->buffers[index].size && !used[index];
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
        view = failed_view(request ? RIPC_CORRUPT : RIPC_CANCELLED, returned.length, returned.return_index);
        increase(counters_.items_discarded);
      }
      continue;
    }
    Assembly::Item& item = assembly.items.emplace_back();
    item.view = view_index;
    if (decoded.type == wire::ItemType::directed) {
      const wire::Directed directed = packet.directed(decoded);
      item.pull.descriptor = directed.descriptor;
      if (usable_buffer(directed.return_index, directed.descriptor.length)) {
        used.set(directed.return_index);
        item.target = Assembly::Target::return_buffer;
        item.pull.destination = static_cast<std::byte*>(request->buffers[directed.return_index].data);
        view.return_index = directed.return_index;
        continue;
      }
    } else {
      item.pull.descriptor = packet.descriptor(decoded);
    }
    if (assembly.lend) {
      item.target = Assembly::Target::lent;
      continue;
    }
    std::optional<Window> window = windows_.take();
    if (!window) {
      window = context_.windows().take();
      item.shared_window = window.has_value();
    }
    ripc_status failure = RIPC_OK;
    if (!window) {
      failure = RIPC_NO_WINDOW;
      item.window = {};
    } else {
      item.window = *window;
      item.pull.destination = window->data;
      if (window->size < item.pull.descriptor.length) failure = RIPC_WINDOW_TOO_SMALL;
    }
    if (failure != RIPC_OK) {
      item.done = true;
      item.pull.status = failure;
    }
  }
  increase(counters_.short_bytes_received, short_bytes);
  if (short_bytes != 0) increase(counters_.receive_copies);
}

// Pulls what can be pulled now. True when nothing is left to wait for: the message was delivered or dropped.
bool Service::progress(Assembly& assembly) noexcept {
  for (Assembly::Item& item : assembly.items) {
    if (item.done) continue;
    ripc_status status = RIPC_OK;
    if (item.target == Assembly::Target::lent) {
      spi::Bytes view;
      status = assembly.source->lend(item.pull.descriptor, view);
      if (status == RIPC_OK) {
        assembly.any_lent = true;
        item.pull.destination = const_cast<std::byte*>(view.data());
      } else if (status == RIPC_UNSUPPORTED) {
        Result<std::byte*> lease = context_.pool().lease(static_cast<std::size_t>(item.pull.descriptor.length));
        if (!lease.ok()) {
          item.done = true;
          item.pull.status = RIPC_NO_MEMORY;
          continue;
        }
        Message::Attachments& attachments = assembly.message->attach();
        attachments.pool = &context_.pool();
        attachments.leases.push_back(*lease);
        item.target = Assembly::Target::lease;
        item.pull.destination = *lease;
      }
    }
    if (item.target != Assembly::Target::lent) status = assembly.source->pull(item.pull);
    if (status == RIPC_PENDING) {
      if (!assembly.deadline.expired()) return false;
      status = RIPC_TIMEOUT;
    }
    if (status != RIPC_OK) {
      // Whole or not at all.
      drop(assembly, status);
      return true;
    }
    item.done = true;
    item.pull.status = RIPC_OK;
  }
  return finish(assembly);
}

// Ends the transfer and delivers the message. False while the sender has not said whether it may be delivered.
bool Service::finish(Assembly& assembly) noexcept {
  Message& message = *assembly.message;
  for (const Assembly::Item& item : assembly.items) {
    if (item.pull.status != RIPC_OK && assembly.failure == RIPC_OK) assembly.failure = reported(item.pull.status);
  }
  if (assembly.transfer && !assembly.any_lent) {
    const ripc_status outcome = assembly.source->finish(*assembly.transfer, assembly.failure);
    if (outcome == RIPC_PENDING && !assembly.deadline.expired()) return false;
    if (outcome == RIPC_REVOKED || outcome == RIPC_PENDING) {
      assembly.transfer.reset();
      drop(assembly, RIPC_REVOKED);
      return true;
    }
  }
  for (const Assembly::Item& item : assembly.items) {
    ripc_item_view& view = message.items[item.view];
    const std::uint64_t length = item.pull.descriptor.length;
    if (item.pull.status != RIPC_OK) {
      increase(counters_.items_discarded);
      view = failed_view(item.pull.status, length);
      if (item.window.data != nullptr) (item.shared_window ? context_.windows() : windows_).give_back(item.window);
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
    view = {.data = item.pull.destination,
            .size = static_cast<std::size_t>(length),
            .kind = kind,
            .status = RIPC_OK,
            .cookie = item.target == Assembly::Target::window ? item.window.cookie : 0,
            .return_index = item.target == Assembly::Target::return_buffer ? view.return_index : 0,
            .copied = item.pull.copies};
  }
  if (assembly.any_lent) {
    Message::Attachments& attachments = message.attach();
    attachments.source = assembly.source;
    attachments.lent.push_back(*assembly.transfer);
    attachments.lent_status = assembly.failure;
  }
  emit(assembly.message);
  return true;
}

// The message will not be delivered: windows go back to their places, the sender hears why.
void Service::drop(Assembly& assembly, ripc_status status) noexcept {
  for (Assembly::Item& item : assembly.items) {
    if (item.pull.status == RIPC_PENDING) assembly.source->abandon(item.pull);
    if (item.window.data != nullptr || item.window.size != 0)
      (item.shared_window ? context_.windows() : windows_).give_back(item.window);
    increase(counters_.items_discarded);
  }
  if (assembly.transfer)
    (void)assembly.source->finish(*assembly.transfer, status == RIPC_CANCELLED ? RIPC_CANCELLED : RIPC_REFUSED);
  MessagePool::release(assembly.message);
  assembly.message = nullptr;
}

void Service::progress_all() noexcept {
  for (auto assembly = assemblies_.begin(); assembly != assemblies_.end();) {
    const auto current = assembly++;
    if (progress(*current)) assemblies_.erase(current);
  }
}

}  // namespace ripc::core
