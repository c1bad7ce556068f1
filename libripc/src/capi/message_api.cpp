// SPDX-License-Identifier: Apache-2.0
// Sending, tickets, windows, receiving and notifications of the C interface.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "capi/error.hpp"
#include "capi/handles.hpp"

using namespace ripc::internal;        // NOLINT: the C functions stand outside of any namespace
using namespace ripc::internal::capi;  // NOLINT

namespace {

// The arguments of ripc_send() and ripc_reply(). They are in memory, so that the fast path keeps no register for
// arguments that only the other path needs.
struct Sending {
  ripc_service* service;
  ripc_service_id to;
  const ripc_message* reply_to;
  const ripc_item* items;
  std::size_t count;
  const ripc_send_options* options;
  ripc_ticket** ticket;
};

// The fast path. RIPC_PENDING: send_message() has to handle the message.
[[gnu::always_inline]] inline ripc_status send_short(const Sending& sending) noexcept {
  std::uint32_t tag = 0;
  if (const ripc_send_options* options = sending.options; options != nullptr) {
    if (options->size != sizeof *options || options->returns != nullptr || options->return_count != 0 ||
        options->callback != nullptr || options->request_id != nullptr || options->outcome != nullptr ||
        options->flags != 0)
      return RIPC_PENDING;
    tag = options->tag;
  }
  if (sending.items == nullptr || check(from(sending.service)) != RIPC_OK) [[unlikely]]
    return RIPC_PENDING;
  if (sending.ticket != nullptr) *sending.ticket = nullptr;
  const ripc_status status =
      from(sending.service)->sender().send_short(sending.to, tag, {sending.items, sending.count});
  // The caller does not get RIPC_PENDING.
  return status == RIPC_OK || status == RIPC_PENDING ? status : report(status);
}

// Makes the handle for a ticket of this service.
std::unique_ptr<ripc_ticket> make_ticket(ripc_service* service) {
  return std::make_unique<ripc_ticket>(nullptr, from(service)->context().spin().any_peer());
}

// Reads the options, and sets those arguments that one message and several may have.
Status read_options(const ripc_send_options* options, ripc_send_options& given, core::SendArguments& arguments) {
  ripc_send_options_init(&given);
  if (!read_sized(options, given)) return bad_size("ripc_send_options");
  if ((given.flags & ~std::uint32_t{RIPC_SEND_UNORDERED}) != 0)
    return Status(RIPC_INVALID_ARGUMENT, "The only flag of a send is RIPC_SEND_UNORDERED.");
  if (given.timeout != RIPC_DEFAULT_TIME) arguments.timeout = given.timeout;
  arguments.callback = given.callback;
  arguments.user = given.user;
  arguments.unordered = given.flags != 0;
  return {};
}

Status send_message(const Sending& sending) {
  const auto& [service, to, reply_to, items, count, options, ticket] = sending;
  if (ticket != nullptr) *ticket = nullptr;
  if (const ripc_status status = check(from(service)); status != RIPC_OK) [[unlikely]]
    return status;
  if (items == nullptr && count != 0) [[unlikely]]
    return Status(RIPC_INVALID_ARGUMENT, "There is a count of items but no array.");
  core::SendArguments arguments;
  auto outcome = blank<ripc_group_outcome>();
  arguments.to = to;
  arguments.items = {items, count};
  arguments.reply_to = from(reply_to);
  ripc_send_options given;
  if (Status status = read_options(options, given, arguments); !status.ok()) return status;
  if (given.returns == nullptr && given.return_count != 0)
    return Status(RIPC_INVALID_ARGUMENT, "There is a count of return buffers but no array.");
  arguments.tag = given.tag;
  arguments.returns = {given.returns, given.return_count};
  arguments.request_id = given.request_id;
  if (given.outcome != nullptr) {
    if (!read_sized(given.outcome, outcome)) return bad_size("ripc_group_outcome");
    outcome.members = outcome.taken = 0;
    arguments.outcome = &outcome;
  }
  // Made before the message is sent, because nothing may fail afterwards.
  std::unique_ptr<ripc_ticket> made;
  if (ticket != nullptr) made = make_ticket(service);
  Status status = from(service)->sender().send(arguments, made ? &made->ticket : nullptr);
  if (given.outcome != nullptr) (void)write_sized(outcome, given.outcome);
  if (made && made->ticket) *ticket = made.release();
  return status;
}

// A separate function, so that the fast path has no registers to save.
[[gnu::noinline]] ripc_status send_any(const Sending& sending) noexcept {
  return guarded([&] { return send_message(sending); });
}

Status post_window(core::WindowQueue& windows, void* data, std::size_t size, std::uint64_t cookie) {
  if (data == nullptr && size != 0) return Status(RIPC_INVALID_ARGUMENT, "A receive window has a size but no memory.");
  return windows.post(data, size, cookie);
}

Status withdraw_windows(core::WindowQueue& windows, std::uint64_t cookie, std::size_t* count) {
  const std::size_t withdrawn = windows.withdraw(cookie);
  if (count != nullptr) *count = withdrawn;
  return {};
}

[[gnu::always_inline]] inline ripc_status receive_messages(ripc_service* service, std::uint32_t flags,
                                                           std::uint64_t timeout, ripc_message** messages,
                                                           std::size_t capacity, std::size_t* count) noexcept {
  if (messages == nullptr || count == nullptr || capacity == 0 || (flags & ~std::uint32_t{RIPC_RECEIVE_LEND}) != 0)
      [[unlikely]]
    return report(RIPC_INVALID_ARGUMENT);
  *count = 0;
  messages[0] = nullptr;
  if (const ripc_status status = check(from(service)); status != RIPC_OK) [[unlikely]]
    return report(status);
  return report_receive(
      from(service)->receive(flags, timeout, {reinterpret_cast<core::Message**>(messages), capacity}, *count));
}

}  // namespace

extern "C" {

// ---- Send ----------------------------------------------------------------------------------------------------

void ripc_send_options_init(ripc_send_options* options) {
  if (options == nullptr) return;
  init(options);
  options->timeout = RIPC_DEFAULT_TIME;
}

void ripc_group_outcome_init(ripc_group_outcome* outcome) { init(outcome); }

ripc_status ripc_send(ripc_service* service, ripc_service_id to, const ripc_item* items, size_t count,
                      const ripc_send_options* options, ripc_ticket** ticket) {
  const Sending sending{service, to, nullptr, items, count, options, ticket};
  const ripc_status status = send_short(sending);
  return status != RIPC_PENDING ? status : send_any(sending);
}

ripc_status ripc_send_many(ripc_service* service, ripc_service_id to, const ripc_outgoing* messages, size_t count,
                           const ripc_send_options* options, ripc_ticket** tickets, size_t* sent) {
  return guarded([&]() -> Status {
    if (sent != nullptr) *sent = 0;
    if (tickets != nullptr) std::fill_n(tickets, count, nullptr);
    if (const ripc_status status = check(from(service)); status != RIPC_OK) return status;
    if (messages == nullptr && count != 0)
      return Status(RIPC_INVALID_ARGUMENT, "There is a count of messages but no array.");
    core::SendArguments each;
    each.to = to;
    ripc_send_options given;
    if (Status status = read_options(options, given, each); !status.ok()) return status;
    if (given.tag != 0 || given.return_count != 0 || given.request_id != nullptr || given.outcome != nullptr)
      return Status(RIPC_INVALID_ARGUMENT,
                    "Of the options of ripc_send_many() only the time-out, the callback and the flags may be set.");
    // Made before anything is sent, because nothing may fail afterwards.
    std::vector<std::unique_ptr<ripc_ticket>> made(tickets != nullptr ? count : 0);
    for (auto& one : made) one = make_ticket(service);
    std::vector<std::shared_ptr<core::Ticket>> opened(made.size());
    std::size_t taken = 0;
    Status status = from(service)->sender().send_many(each, {messages, count}, opened, taken);
    for (std::size_t index = 0; index < made.size(); ++index) {
      if (!opened[index]) continue;
      made[index]->ticket = std::move(opened[index]);
      tickets[index] = made[index].release();
    }
    if (sent != nullptr) *sent = taken;
    return status;
  });
}

ripc_status ripc_reply(ripc_service* service, const ripc_message* message, const ripc_item* items, size_t count,
                       const ripc_send_options* options, ripc_ticket** ticket) {
  if (message == nullptr) [[unlikely]]
    return report(RIPC_INVALID_ARGUMENT);
  const Sending sending{service, from(message)->source, message, items, count, options, ticket};
  const ripc_status status = from(message)->request == 0 ? send_short(sending) : RIPC_PENDING;
  return status != RIPC_PENDING ? status : send_any(sending);
}

ripc_status ripc_request_cancel(ripc_service* service, uint64_t request_id) {
  return guarded_on(service, [&](auto& self) { return self.cancel_request(request_id); });
}

ripc_status ripc_short_limit(ripc_service* service, ripc_service_id to, size_t items, size_t* bytes) {
  return guarded_on(service, [&](auto& self) -> Status {
    if (bytes == nullptr || to == 0) return RIPC_INVALID_ARGUMENT;
    Result<std::size_t> limit = self.sender().short_limit(to, items);
    if (limit.ok()) *bytes = *limit;
    return limit.status();
  });
}

ripc_status ripc_wait_room(ripc_service* service, ripc_service_id to, uint64_t timeout) {
  return guarded_on(service, [&](auto& self) -> Status {
    if (to == 0) return RIPC_INVALID_ARGUMENT;
    return self.wait_room(to, Deadline::after(timeout));
  });
}

ripc_status ripc_request_room_event(ripc_service* service, ripc_service_id to) {
  return guarded_on(service, [&](auto& self) -> Status {
    if (to == 0) return RIPC_INVALID_ARGUMENT;
    return self.request_room_event(to);
  });
}

// ---- Tickets -------------------------------------------------------------------------------------------------

ripc_status ripc_ticket_poll(ripc_ticket* ticket) {
  const ripc_status usable = check(ticket);
  return report(usable == RIPC_OK ? ticket->ticket->poll() : usable);
}

ripc_status ripc_ticket_wait(ripc_ticket* ticket, uint64_t timeout) {
  return guarded([&]() -> ripc_status {
    if (const ripc_status status = check(ticket); status != RIPC_OK) return status;
    // A complete ticket needs no clock.
    if (const ripc_status status = ticket->ticket->poll(); status != RIPC_PENDING) return status;
    return ticket->ticket->wait(Deadline::after(timeout), ticket->spin);
  });
}

ripc_status ripc_ticket_cancel(ripc_ticket* ticket) {
  const ripc_status usable = check(ticket);
  return report(usable == RIPC_OK ? ticket->ticket->cancel() : usable);
}

void ripc_ticket_release(ripc_ticket* ticket) { delete ticket; }

// ---- Windows -------------------------------------------------------------------------------------------------

ripc_status ripc_window_post(ripc_service* service, void* data, size_t size, uint64_t cookie) {
  return guarded_on(service, [&](auto& self) { return post_window(self.windows(), data, size, cookie); });
}

ripc_status ripc_context_window_post(ripc_context* context, void* data, size_t size, uint64_t cookie) {
  return guarded_on(context, [&](auto& self) { return post_window(self.windows(), data, size, cookie); });
}

ripc_status ripc_window_withdraw(ripc_service* service, uint64_t cookie, size_t* count) {
  return guarded_on(service, [&](auto& self) { return withdraw_windows(self.windows(), cookie, count); });
}

ripc_status ripc_context_window_withdraw(ripc_context* context, uint64_t cookie, size_t* count) {
  return guarded_on(context, [&](auto& self) { return withdraw_windows(self.windows(), cookie, count); });
}

// ---- Receive -------------------------------------------------------------------------------------------------

ripc_status ripc_receive(ripc_service* service, uint32_t flags, uint64_t timeout, ripc_message** message) {
  std::size_t count = 0;
  return receive_messages(service, flags, timeout, message, 1, &count);
}

ripc_status ripc_receive_many(ripc_service* service, uint32_t flags, uint64_t timeout, ripc_message** messages,
                              size_t capacity, size_t* count) {
  return receive_messages(service, flags, timeout, messages, capacity, count);
}

ripc_status ripc_interrupt(ripc_service* service) {
  // Async-signal-safe: nothing is remembered for ripc_last_error().
  if (service == nullptr) return RIPC_INVALID_ARGUMENT;
  if (from(service)->context().usable()) from(service)->interrupt();
  return RIPC_OK;
}

ripc_status ripc_service_get_fd(ripc_service* service, int* fd) {
  return guarded_on(service, [&](auto& self) -> Status {
    if (fd == nullptr) return RIPC_INVALID_ARGUMENT;
    *fd = self.event_fd();
    return {};
  });
}

ripc_service_id ripc_message_get_source(const ripc_message* message) {
  return message == nullptr ? 0 : from(message)->source;
}
uint32_t ripc_message_get_tag(const ripc_message* message) { return message == nullptr ? 0 : from(message)->tag; }
size_t ripc_message_get_item_count(const ripc_message* message) {
  return message == nullptr ? 0 : from(message)->item_count;
}

ripc_status ripc_message_get_item(const ripc_message* message, size_t index, ripc_item_view* view) {
  if (message == nullptr || view == nullptr || index >= from(message)->item_count) return report(RIPC_INVALID_ARGUMENT);
  *view = from(message)->items[index];
  return RIPC_OK;
}

uint64_t ripc_message_get_in_reply_to(const ripc_message* message) {
  return message == nullptr ? 0 : from(message)->in_reply_to;
}

size_t ripc_message_get_return_count(const ripc_message* message) {
  if (message == nullptr || !from(message)->attachments) return 0;
  return from(message)->attachments->grants.size();
}

size_t ripc_message_get_return_size(const ripc_message* message, size_t index) {
  if (index >= ripc_message_get_return_count(message)) return 0;
  return static_cast<size_t>(from(message)->attachments->grants[index].length);
}

void ripc_message_release(ripc_message* message) {
  if (message != nullptr) core::MessagePool::release(from(message));
}

ripc_status ripc_message_hold_views(const ripc_message* message, ripc_view_hold** hold) {
  return guarded([&]() -> Status {
    if (hold != nullptr) *hold = nullptr;
    if (message == nullptr || hold == nullptr) return RIPC_INVALID_ARGUMENT;
    Result<std::unique_ptr<core::ViewHold>> held = core::hold_views(*from(message));
    if (!held.ok()) return held.status();
    *hold = handle(held->release());
    return {};
  });
}

void ripc_view_hold_release(ripc_view_hold* hold) {
  // In a forked child, a lock of the pool may be held forever by a thread that does not exist there.
  if (hold != nullptr && from(hold)->fork_generation == ForkGuard::known_generation()) delete from(hold);
}

// ---- Notifications -------------------------------------------------------------------------------------------

ripc_status ripc_notification_register(ripc_service* service, ripc_notification_callback callback, void* user,
                                       ripc_notification* notification) {
  return guarded_on(service, [&](auto& self) -> Status {
    if (callback == nullptr || notification == nullptr) return RIPC_INVALID_ARGUMENT;
    notification->service = self.id();
    notification->handle = self.notifications().add(callback, user);
    return {};
  });
}

ripc_status ripc_notification_unregister(ripc_service* service, const ripc_notification* notification) {
  return guarded_on(service, [&](auto& self) -> Status {
    if (notification == nullptr || notification->service != self.id() ||
        !self.notifications().remove(notification->handle))
      return Status(RIPC_INVALID_ARGUMENT, "This notification is not registered with this service.");
    return {};
  });
}

ripc_status ripc_notify(ripc_service* service, const ripc_notification* notification, const ripc_item* items,
                        size_t count) {
  return guarded_on(service, [&](auto& self) -> Status {
    if (notification == nullptr || notification->handle == 0 || (items == nullptr && count != 0))
      return RIPC_INVALID_ARGUMENT;
    return self.sender().notify(notification->service, notification->handle, {items, count});
  });
}

}  // extern "C"
