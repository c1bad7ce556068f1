// SPDX-License-Identifier: Apache-2.0
// libripc for C++: services, sending, receiving, windows, notifications. Part of ripc/ripc.hpp; include that.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ripc/message.hpp"

namespace ripc {

// The outcome of a message to a group. `missed` gets the IDs of members that missed it, as many as fit.
struct GroupOutcome {
  std::uint32_t members = 0;  // known living members; 0 if the destination is not a group
  std::uint32_t taken = 0;    // members that the message was sent to
  std::span<ServiceId> missed = {};
};

// How one message is sent. Borrowed memory is read during the call only.
struct SendOptions {
  std::uint32_t tag = 0;                       // the receiver gets it unchanged
  std::span<const ReturnBuffer> returns = {};  // attached return buffers, at most RIPC_MAX_RETURNS
  Nanoseconds timeout = kDefaultTime;          // for the ticket: 30 seconds
  std::uint64_t* request_id = nullptr;         // out: names this request in its reply; 0 without return buffers
  GroupOutcome* outcome = nullptr;             // out: which members of a group took the message
  bool unordered = false;                      // RIPC_SEND_UNORDERED
};

// How a service is registered. 0 and empty select the defaults of ripc_service_options.
struct ServiceOptions {
  ServiceId id = 0;                  // a well-known number; 0: from the name if there is one, else random
  std::string name = {};             // 1 to 200 bytes of UTF-8 without control characters or '/'
  bool takeover = false;             // fence a living holder of the ID and take its place
  std::uint32_t queue_messages = 0;  // per sender
  std::uint32_t queue_bytes = 0;     // per sender
  std::uint32_t max_senders = 0;
  std::uint32_t max_messages = 0;  // received and not yet released
};

// Runs once in the responder thread, when the ticket of a message completes. Must be short and must not throw.
using TicketCallback = std::function<void(ripc_status)>;

// Runs in the responder thread for every notification. `items`, and the memory that they point to, are valid during the
// call. It must be short and must not throw. It may send.
using NotificationCallback = std::function<void(ServiceId source, std::span<const ripc_item_view> items)>;

namespace detail {

// The callback must outlive the registration.
struct NotificationUnregister {
  void operator()(ripc_service* service) const noexcept { (void)ripc_notification_unregister(service, &name); }
  ripc_notification name{};
  std::shared_ptr<void> callback{};
};

}  // namespace detail

// ---- Notification --------------------------------------------------------------------------------------------

// A registered callback. Destroying it unregisters: after that the callback does not run and never will again. Its own
// callback may destroy it; the current run is then the last. Destroy it before its Service.
class Notification {
 public:
  Notification() noexcept = default;

  // Plain bytes that name the callback. Send them in a message; peers run the callback with Service::notify().
  const ripc_notification& name() const noexcept { return owner_.get_deleter().name; }
  bool empty() const noexcept { return owner_ == nullptr; }
  void unregister() noexcept { owner_ = {}; }

 private:
  friend class Service;
  // Shared with the current run, so that a callback may destroy its own registration.
  struct Callback : std::enable_shared_from_this<Callback> {
    explicit Callback(NotificationCallback callback) : function(std::move(callback)) {}
    static void run(void* user, ServiceId source, const ripc_item_view* items, std::size_t count) noexcept {
      const std::shared_ptr<Callback> keep = static_cast<Callback*>(user)->shared_from_this();
      keep->function(source, std::span(items, count));
    }
    NotificationCallback function;
  };

  explicit Notification(std::unique_ptr<ripc_service, detail::NotificationUnregister> owner) noexcept
      : owner_(std::move(owner)) {}

  std::unique_ptr<ripc_service, detail::NotificationUnregister> owner_;
};

// ---- Service -------------------------------------------------------------------------------------------------

// A registered service ID with its receive queue. Made by Context::register_service(). The destructor withdraws the ID.
// At that time no thread may be in receive() (interrupt() it first), and its Notifications must be destroyed. Destroy
// it before the Context. Moving keeps the handle, so tickets, messages and notifications are not disturbed.
//
// Any thread may call anything, except that one thread at a time receives.
class Service {
 public:
  Service() noexcept = default;
  // Takes ownership of a handle from ripc_service_register().
  explicit Service(ripc_service* handle) noexcept : handle_(handle) {}

  bool empty() const noexcept { return handle_ == nullptr; }
  ServiceId id() const noexcept { return ripc_service_get_id(handle_.get()); }
  // "" if it has none. Valid as long as the service is registered.
  std::string_view name() const noexcept { return ripc_service_get_name(handle_.get()); }
  // Grows with each registration of the ID.
  std::uint64_t incarnation() const noexcept { return ripc_service_get_incarnation(handle_.get()); }
  // The handle of its context. Borrowed; nullptr if empty.
  ripc_context* context_handle() const noexcept { return ripc_service_get_context(handle_.get()); }
  // Withdraws the ID now. Messages that are still held stay valid.
  void unregister() noexcept { handle_.reset(); }
  // Borrowed, for calls into ripc.h.
  ripc_service* handle() const noexcept { return handle_.get(); }

  // Sends one message; never allocates in this wrapper. When it returns, all memory is the caller's again, with two
  // exceptions: memory of borrow() until the Ticket completes, and memory of given_item(). If the item()s do not all
  // fit into the message, the largest travel long, from copies (ripc_send() has the rule). A program that borrows
  // nothing may drop the Ticket.
  //
  // RIPC_AGAIN (no room, nothing was sent: wait_room()), RIPC_TOO_LARGE, RIPC_NO_SERVICE, RIPC_REFUSED, RIPC_PEER_DEAD,
  // RIPC_FENCED, RIPC_INVALID_ARGUMENT, RIPC_NO_MEMORY, RIPC_VERSION_MISMATCH, or another status of
  // ripc_send().
  //
  // To a group: every member is sent the message once, short items only. RIPC_OK: at least one was; options.outcome
  // names those that missed it. RIPC_NO_SERVICE: the group has no living member. RIPC_UNSUPPORTED: an item is borrowed,
  // there are return buffers, or the message is unordered.
  Result<Ticket> send(ServiceId to, const Items& items, const SendOptions& options = {}) noexcept {
    ripc_send_options c_options = to_c(options);
    const OutcomeOfSend outcome(options, c_options);
    ripc_ticket* ticket = nullptr;
    const ripc_status status =
        ripc_send(handle_.get(), to, items.data(), items.size(), is_default(options) ? nullptr : &c_options, &ticket);
    return finish(status, Ticket(ticket));
  }
  // Sends messages to one service in order, each as send() would, but with fewer system calls where a path needs them.
  // Returns how many were sent, counted from the first. The next call says why the following message was not sent.
  // Returns an error if none was sent; errors as for send().
  Result<std::size_t> send_many(ServiceId to, std::span<const OutgoingMessage> messages) noexcept {
    std::size_t sent = 0;
    const ripc_status status =
        ripc_send_many(handle_.get(), to, messages.data(), messages.size(), nullptr, nullptr, &sent);
    if (sent == 0 && status != RIPC_OK) return Error::from_last_call(status);
    return sent;
  }
  // The same with tickets, at least as many as messages. The ticket of each message that was sent is written at the
  // message's index. Only the options `timeout` and `unordered` may be set: others give RIPC_INVALID_ARGUMENT.
  // Allocates. In the overload without tickets, borrowed memory must be leased or registered.
  Result<std::size_t> send_many(ServiceId to, std::span<const OutgoingMessage> messages, std::span<Ticket> tickets,
                                const SendOptions& options = {}) {
    if (tickets.size() < messages.size())
      return Error::with_static_text(RIPC_INVALID_ARGUMENT,
                                     "There are fewer tickets than messages: give one for each message.");
    std::vector<ripc_ticket*> handles(messages.size());
    ripc_send_options c_options = to_c(options);
    const OutcomeOfSend outcome(options, c_options);
    std::size_t sent = 0;
    const ripc_status status =
        ripc_send_many(handle_.get(), to, messages.data(), messages.size(), &c_options, handles.data(), &sent);
    for (std::size_t index = 0; index < sent; ++index) tickets[index] = Ticket(handles[index]);
    if (sent == 0 && status != RIPC_OK) return Error::from_last_call(status);
    return sent;
  }
  // Like send(), but also runs `callback` once when the ticket completes, even if the service or context ends first. A
  // message that travels short is complete at once: the callback then runs in this call, with RIPC_OK. It does not run
  // if this returns an error. Allocates.
  Error send_then(ServiceId to, const Items& items, TicketCallback callback, const SendOptions& options = {}) {
    return with_callback(std::move(callback), options, [&](const ripc_send_options& c_options, ripc_ticket*& ticket) {
      return ripc_send(handle_.get(), to, items.data(), items.size(), &c_options, &ticket);
    });
  }

  // Sends to the source of `message`, as the reply to it. Errors as for send().
  //
  // Items from return_item() are written into the request's return buffers. An item that does not fit, or whose buffer
  // is gone, travels like an item(). The first reply ends the right to write there. The caller keeps the message. It
  // may send the contents, and may release the message at once if none of them is borrowed.
  Result<Ticket> reply(const Message& message, const Items& items, const SendOptions& options = {}) noexcept {
    ripc_send_options c_options = to_c(options);
    const OutcomeOfSend outcome(options, c_options);
    ripc_ticket* ticket = nullptr;
    const ripc_status status = ripc_reply(handle_.get(), message.handle(), items.data(), items.size(),
                                          is_default(options) ? nullptr : &c_options, &ticket);
    return finish(status, Ticket(ticket));
  }
  // Like reply(), with a callback as in send_then().
  Error reply_then(const Message& message, const Items& items, TicketCallback callback,
                   const SendOptions& options = {}) {
    return with_callback(std::move(callback), options, [&](const ripc_send_options& c_options, ripc_ticket*& ticket) {
      return ripc_reply(handle_.get(), message.handle(), items.data(), items.size(), &c_options, &ticket);
    });
  }

  // Ends a request: its return buffers are the caller's again. RIPC_INVALID_ARGUMENT: it is unknown or was answered.
  // RIPC_TIMEOUT: the peer was stopped in the middle of a write; the buffer that it writes stays the library's.
  Error cancel_request(std::uint64_t request_id) noexcept {
    return finish(ripc_request_cancel(handle_.get(), request_id));
  }
  // How many bytes the short items of a message to `to` may have together, if it has `items` items and nothing else. If
  // there is no path to the peer, it finds one first; errors as for send().
  Result<std::size_t> short_limit(ServiceId to, std::size_t items = 1) noexcept {
    std::size_t bytes = 0;
    const ripc_status status = ripc_short_limit(handle_.get(), to, items, &bytes);
    return finish(status, bytes);
  }
  // Waits until a message that gave RIPC_AGAIN may find room. RIPC_TIMEOUT, RIPC_INTERRUPTED (interrupt(), or a signal
  // handler ran in this thread), the errors of send().
  Error wait_room(ServiceId to, Nanoseconds timeout = kForever) noexcept {
    return finish(ripc_wait_room(handle_.get(), to, detail::to_c(timeout)));
  }
  // The same for users of fd(), without the wait: the descriptor becomes readable when there is room. A receive that
  // finds no message takes that event: call this after it, just before the wait.
  Error request_room_event(ServiceId to) noexcept { return finish(ripc_request_room_event(handle_.get(), to)); }

  // Makes the service a member of a group. RIPC_OK also if it is one already. When this returns, sends of this context
  // reach it; other contexts reach it when they next look. Membership ends with leave(), with the service, or when its
  // ID is taken over. RIPC_INVALID_ARGUMENT: not a group. RIPC_LIMIT: it is in RIPC_MAX_GROUPS groups. RIPC_FENCED,
  // RIPC_TIMEOUT, RIPC_PERMISSION, RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY, RIPC_SYSTEM.
  Error join(ServiceId group) noexcept { return finish(ripc_group_join(handle_.get(), group)); }
  Error leave(ServiceId group) noexcept { return finish(ripc_group_leave(handle_.get(), group)); }

  // Posts memory that one long item may be pulled into. It belongs to the library until the message that used it was
  // received, or the window was withdrawn. Items take windows in posting order. RIPC_LIMIT: more than 65536 windows.
  Error post_window(WritableBytes window, std::uint64_t cookie = 0) noexcept {
    return finish(ripc_window_post(handle_.get(), window.data(), window.size(), cookie));
  }
  // Takes back every window with this cookie that is not in use. Returns how many.
  Result<std::size_t> withdraw_windows(std::uint64_t cookie) noexcept {
    std::size_t count = 0;
    const ripc_status status = ripc_window_withdraw(handle_.get(), cookie, &count);
    return finish(status, count);
  }

  // Receives one message. With kNoWait RIPC_EMPTY means that there is none. RIPC_TIMEOUT, RIPC_FENCED,
  // RIPC_LIMIT (max_messages are held), RIPC_NO_MEMORY. RIPC_INTERRUPTED: interrupt(), or a signal handler ran in this
  // thread; never because the process was stopped and continued. `flags`: ripc_receive_flags. One thread at a time.
  Result<Message> receive(Nanoseconds timeout = kForever, std::uint32_t flags = 0) noexcept {
    ripc_message* message = nullptr;
    const ripc_status status = ripc_receive(handle_.get(), flags, detail::to_c(timeout), &message);
    if (status != RIPC_OK) return Error::from_last_call(status);
    return Message(message);
  }
  // Receives up to messages.size() messages that have arrived into the front of `messages`, and returns how many.
  // Messages that those elements owned before are released. It waits only for the first message, and may return that
  // one alone. Errors as for receive(). One thread at a time.
  Result<std::size_t> receive_many(std::span<Message> messages, Nanoseconds timeout = kForever,
                                   std::uint32_t flags = 0) noexcept {
    constexpr std::size_t kBatch = 64;
    std::array<ripc_message*, kBatch> handles;
    std::size_t total = 0;
    while (total < messages.size()) {
      const std::size_t capacity = messages.size() - total < kBatch ? messages.size() - total : kBatch;
      std::size_t count = 0;
      const ripc_status status = ripc_receive_many(handle_.get(), flags, total == 0 ? detail::to_c(timeout) : 0,
                                                   handles.data(), capacity, &count);
      if (status != RIPC_OK && total == 0) return Error::from_last_call(status);
      if (status != RIPC_OK) break;  // the next call reports the error; these messages were received
      for (std::size_t index = 0; index < count; ++index) messages[total + index] = Message(handles[index]);
      total += count;
      if (count < capacity) break;
    }
    return total;
  }
  // Makes the running receive() or wait_room(), or the next one, return RIPC_INTERRUPTED. Async-signal-safe.
  Error interrupt() noexcept {
    const ripc_status status = ripc_interrupt(handle_.get());
    return status;
  }
  // A descriptor for poll and epoll (level-triggered). After a receive gave RIPC_EMPTY, it becomes readable when a
  // message, an interrupt or requested room may have arrived. Borrowed from the service.
  Result<int> fd() noexcept {
    int descriptor = -1;
    const ripc_status status = ripc_service_get_fd(handle_.get(), &descriptor);
    return finish(status, descriptor);
  }

  // Registers a callback that peers can run by its name(). The result owns the registration and the callback.
  Result<Notification> on_notification(NotificationCallback callback) {
    if (!callback) return detail::no_function();
    const auto shared = std::make_shared<Notification::Callback>(std::move(callback));
    detail::NotificationUnregister end{.callback = shared};
    const ripc_status status =
        ripc_notification_register(handle_.get(), &Notification::Callback::run, shared.get(), &end.name);
    if (status != RIPC_OK) return Error::from_last_call(status);
    return Notification(std::unique_ptr<ripc_service, detail::NotificationUnregister>(handle_.get(), std::move(end)));
  }
  // Runs a peer's callback with up to short_limit() bytes of arguments, at most 61,408 in one item, and no borrowed
  // ones. Send larger arguments in a message before it. Unreliable, like a short message. Errors as for send().
  Error notify(const ripc_notification& notification, const Items& items = {}) noexcept {
    return finish(ripc_notify(handle_.get(), &notification, items.data(), items.size()));
  }

  // Counters since the registration.
  Result<ripc_service_statistics> statistics() noexcept {
    ripc_service_statistics statistics;
    ripc_service_statistics_init(&statistics);
    const ripc_status status = ripc_service_get_statistics(handle_.get(), &statistics);
    return finish(status, statistics);
  }

 private:
  // Fills options.outcome when it ends, if there is one.
  class OutcomeOfSend {
   public:
    OutcomeOfSend(const SendOptions& options, ripc_send_options& c_options) noexcept : outcome_(options.outcome) {
      if (outcome_ == nullptr) return;
      ripc_group_outcome_init(&filled_);
      filled_.missed = outcome_->missed.data();
      filled_.missed_capacity = outcome_->missed.size();
      c_options.outcome = &filled_;
    }
    OutcomeOfSend(const OutcomeOfSend&) = delete;
    OutcomeOfSend& operator=(const OutcomeOfSend&) = delete;
    ~OutcomeOfSend() {
      if (outcome_ == nullptr) return;
      outcome_->members = filled_.members;
      outcome_->taken = filled_.taken;
    }

   private:
    GroupOutcome* const outcome_;
    ripc_group_outcome filled_;
  };

  static bool is_default(const SendOptions& options) noexcept {
    return options.tag == 0 && options.returns.empty() && options.timeout == kDefaultTime &&
           options.request_id == nullptr && options.outcome == nullptr && !options.unordered;
  }
  static ripc_send_options to_c(const SendOptions& options) noexcept {
    ripc_send_options result{};
    result.size = sizeof result;
    result.tag = options.tag;
    result.return_count = static_cast<std::uint32_t>(options.returns.size());
    result.returns = options.returns.data();
    result.timeout = detail::option_to_c(options.timeout);
    result.request_id = options.request_id;
    result.flags = options.unordered ? RIPC_SEND_UNORDERED : 0;
    return result;
  }
  static Error finish(ripc_status status) noexcept {
    return status == RIPC_OK ? Error() : Error::from_last_call(status);
  }
  template <typename Value>
  static Result<Value> finish(ripc_status status, Value value) noexcept {
    if (status != RIPC_OK) return Error::from_last_call(status);
    return value;
  }
  template <typename Call>
  static Error with_callback(TicketCallback callback, const SendOptions& options, Call call) {
    if (!callback) return detail::no_function();
    auto state = std::make_unique<TicketCallback>(std::move(callback));
    ripc_send_options c_options = to_c(options);
    c_options.callback = [](void* user, ripc_status status) noexcept {
      const std::unique_ptr<TicketCallback> owned(static_cast<TicketCallback*>(user));
      (*owned)(status);
    };
    c_options.user = state.get();
    ripc_ticket* ticket = nullptr;
    ripc_status status = RIPC_OK;
    {
      const OutcomeOfSend outcome(options, c_options);
      status = call(c_options, ticket);
    }
    if (status != RIPC_OK) return Error::from_last_call(status);
    if (ticket == nullptr) {
      (*state)(RIPC_OK);
    } else {
      (void)state.release();  // the callback owns it, and may have run already
      ripc_ticket_release(ticket);
    }
    return {};
  }

  detail::Owner<ripc_service, ripc_service_unregister> handle_;
};

}  // namespace ripc
