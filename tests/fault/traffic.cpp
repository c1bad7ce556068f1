// SPDX-License-Identifier: Apache-2.0
#include "traffic.hpp"

#include <algorithm>
#include <cstring>

namespace fault {
namespace {

constexpr std::size_t kLargest = 256 << 10;
constexpr std::size_t kOpenTickets = 16;
constexpr std::size_t kKeptMessages = 4;
constexpr std::uint64_t kTicketTime = 5 * kSecond;
constexpr std::uint32_t kBellTag = 7;  // of a message with the handle of a notification

ripc_send_options options_with(std::uint32_t tag) {
  ripc_send_options options;
  ripc_send_options_init(&options);
  options.tag = tag;
  options.timeout = kTicketTime;
  return options;
}

}  // namespace

Traffic::Traffic(ripc_context* context, ripc_service* service, ripc_service_id peer, std::uint64_t seed)
    : context_(context), service_(service), peer_(peer), random_(seed) {
  for (std::vector<std::byte>& window : windows_) window.resize(kLargest);
  for (std::uint64_t cookie = 0; cookie < windows_.size(); ++cookie)
    note(ripc_window_post(service_, windows_[cookie].data(), windows_[cookie].size(), cookie + 1), "window_post");
  bell_.service = service;
  take_over();
}

Traffic::~Traffic() { (void)settle(); }

// True on success. Records a status that must not occur here as a flaw.
bool Traffic::note(ripc_status status, const char* what) {
  switch (status) {
    case RIPC_OK:
      return true;
    case RIPC_AGAIN:
    case RIPC_PEER_DEAD:
    case RIPC_NO_SERVICE:
    case RIPC_TIMEOUT:
    case RIPC_NO_MEMORY:  // the pool of the test is small
      return false;
    default:
      if (flaw_.empty()) flaw_ = std::string(what) + ": " + ripc_status_name(status) + ": " + ripc_last_error();
      return false;
  }
}

bool Traffic::step() {
  const bool alive = send_some();
  receive_all();
  reap();
  return alive;
}

bool Traffic::send_some() {
  ripc_status status = RIPC_OK;
  switch (random_.below(10)) {
    case 0:
    case 1:
    case 2: {
      const std::vector<std::byte> bytes = make_item(24 + random_.below(1500), random_.next());
      const ripc_item item{bytes.data(), bytes.size(), RIPC_ITEM_SHORT, 0};
      const ripc_send_options options = options_with(1);
      status = ripc_send(service_, peer_, &item, 1, &options, nullptr);
      if (note(status, "short send")) ++sent_;
      return status != RIPC_NO_SERVICE && status != RIPC_PEER_DEAD;
    }
    case 3:
      return send_pooled(24 + random_.below(kLargest - 24));
    case 4:
      return send_foreign(24 + random_.below(kLargest - 24), random_.below(2) == 0);
    case 5:
      return send_request();
    case 6:
      return ring_or_move_bell();
    case 7:
      return contest();
    case 8: {
      ripc_service* extra = nullptr;
      if (note(ripc_service_register(context_, nullptr, &extra), "register")) ripc_service_unregister(extra);
      return true;
    }
    default: {
      // Two short and one long item in one message.
      const std::vector<std::byte> bytes = make_item(100, random_.next());
      void* lease = nullptr;
      const std::size_t size = 24 + random_.below(20000);
      if (!note(ripc_buffer_lease(context_, size, &lease), "lease")) return true;
      fill_item(lease, size, random_.next());
      const std::array<ripc_item, 3> items{ripc_item{bytes.data(), bytes.size(), RIPC_ITEM_SHORT, 0},
                                           ripc_item{lease, size, RIPC_ITEM_LONG, 0},
                                           ripc_item{bytes.data(), bytes.size(), RIPC_ITEM_SHORT, 0}};
      const ripc_send_options options = options_with(2);
      status = ripc_send(service_, peer_, items.data(), items.size(), &options, nullptr);
      if (note(status, "mixed send")) ++sent_;
      (void)ripc_buffer_release(context_, lease);
      return status != RIPC_NO_SERVICE && status != RIPC_PEER_DEAD;
    }
  }
}

bool Traffic::send_pooled(std::size_t size) {
  if (tickets_.size() >= kOpenTickets) return true;
  void* lease = nullptr;
  if (!note(ripc_buffer_lease(context_, size, &lease), "lease")) return true;
  fill_item(lease, size, random_.next());
  const ripc_item item{lease, size, RIPC_ITEM_LONG, 0};
  const ripc_send_options options = options_with(3);
  ripc_ticket* ticket = nullptr;
  const ripc_status status = ripc_send(service_, peer_, &item, 1, &options, &ticket);
  if (note(status, "pooled send")) {
    ++sent_;
    tickets_.emplace_back(ticket);
  }
  // Released early on purpose: the library keeps the buffer for the ticket.
  (void)ripc_buffer_release(context_, lease);
  return status != RIPC_NO_SERVICE && status != RIPC_PEER_DEAD;
}

bool Traffic::send_foreign(std::size_t size, bool registered) {
  if (foreign_.size() >= kOpenTickets) return true;
  Foreign entry{nullptr, make_item(size, random_.next())};
  if (registered && !note(ripc_memory_register(context_, entry.memory.data(), size), "register memory")) return true;
  const ripc_item item{entry.memory.data(), size, RIPC_ITEM_LONG, 0};
  const ripc_send_options options = options_with(4);
  ripc_ticket* ticket = nullptr;
  const ripc_status status = ripc_send(service_, peer_, &item, 1, &options, &ticket);
  if (note(status, "foreign send")) {
    ++sent_;
    entry.ticket.reset(ticket);
  }
  // Unregistering ends the message if it is still on its way.
  if (registered) note(ripc_memory_unregister(context_, entry.memory.data()), "unregister memory");
  if (entry.ticket) foreign_.push_back(std::move(entry));
  return status != RIPC_NO_SERVICE && status != RIPC_PEER_DEAD;
}

bool Traffic::send_request() {
  if (requests_.size() >= kOpenTickets) return true;
  Pending pending{0, std::vector<std::byte>(1000 + random_.below(50000))};
  const ripc_return_buffer buffer{pending.memory.data(), pending.memory.size()};
  const std::vector<std::byte> bytes = make_item(64, random_.next());
  const ripc_item item{bytes.data(), bytes.size(), RIPC_ITEM_SHORT, 0};
  ripc_send_options options = options_with(5);
  options.return_count = 1;
  options.returns = &buffer;
  options.request_id = &pending.request;
  const ripc_status status = ripc_send(service_, peer_, &item, 1, &options, nullptr);
  if (note(status, "request")) {
    ++sent_;
    requests_.push_back(std::move(pending));
  }
  return status != RIPC_NO_SERVICE && status != RIPC_PEER_DEAD;
}

// ---- Notifications -----------------------------------------------------------------------------------------------

void Traffic::Bell::ring(void* user, ripc_service_id source, const ripc_item_view* items, std::size_t count) {
  auto* const self = static_cast<Bell*>(user);
  if (!self->registered) self->flaw = "a callback ran after it was unregistered";
  for (std::size_t index = 0; index < count; ++index) {
    if (!is_whole(items[index].data, items[index].size)) self->flaw = "an argument of a notification is not whole";
  }
  // Callbacks may send.
  if (++self->runs % 4 != 0) return;
  const std::vector<std::byte> bytes = make_item(64, self->runs);
  const ripc_item item{bytes.data(), bytes.size(), RIPC_ITEM_SHORT, 0};
  (void)ripc_send(self->service, source, &item, 1, nullptr, nullptr);
}

void Traffic::register_bell() {
  bell_.registered = true;
  if (!note(ripc_notification_register(service_, Bell::ring, &bell_, &bell_.handle), "notification_register"))
    bell_.registered = false;
}

void Traffic::unregister_bell() {
  if (!bell_.registered) return;
  note(ripc_notification_unregister(service_, &bell_.handle), "notification_unregister");
  bell_.registered = false;
  if (const char* flaw = bell_.flaw; flaw != nullptr && flaw_.empty()) flaw_ = flaw;
}

// Rings the peer's bell, or registers a new bell here and sends its handle to the peer.
bool Traffic::ring_or_move_bell() {
  ripc_status status = RIPC_OK;
  if (peer_bell_ && random_.below(4) != 0) {
    const std::vector<std::byte> bytes = make_item(24 + random_.below(500), random_.next());
    const ripc_item item{bytes.data(), bytes.size(), RIPC_ITEM_SHORT, 0};
    status = ripc_notify(service_, &*peer_bell_, &item, 1);
    note(status, "notify");
  } else {
    unregister_bell();
    register_bell();
    const ripc_item item{&bell_.handle, sizeof bell_.handle, RIPC_ITEM_SHORT, 0};
    const ripc_send_options options = options_with(kBellTag);
    status = ripc_send(service_, peer_, &item, 1, &options, nullptr);
    if (note(status, "handle")) ++sent_;
  }
  return status != RIPC_NO_SERVICE && status != RIPC_PEER_DEAD;
}

// ---- The contested ID --------------------------------------------------------------------------------------------

void Traffic::take_over() {
  ripc_service_options options;
  ripc_service_options_init(&options);
  options.id = kContested;
  options.takeover = 1;
  ripc_service* service = nullptr;
  if (note(ripc_service_register(context_, &options, &service), "takeover")) contested_.reset(service);
}

void Traffic::use_contested() {
  ripc_message* message = nullptr;
  const ripc_status status = ripc_receive(contested_.get(), 0, 0, &message);
  const Message owned(message);
  if (status == RIPC_FENCED) {
    ++fenced_;
    contested_.reset();
  } else if (status == RIPC_OK) {
    if (std::string flaw = flaw_of(message); !flaw.empty() && flaw_.empty()) flaw_ = "contested: " + flaw;
  } else if (status != RIPC_EMPTY) {
    note(status, "contested receive");
  }
}

// Takes the contested ID over, uses it while this side holds it, or sends to its holder. Always true: none of this
// shows whether the peer lives.
bool Traffic::contest() {
  if (contested_) {
    use_contested();
    return true;
  }
  if (random_.below(2) == 0) {
    take_over();
    return true;
  }
  const std::vector<std::byte> bytes = make_item(24 + random_.below(500), random_.next());
  const ripc_item item{bytes.data(), bytes.size(), RIPC_ITEM_SHORT, 0};
  note(ripc_send(service_, kContested, &item, 1, nullptr, nullptr), "contested send");
  return true;
}

// ---- Receiving ---------------------------------------------------------------------------------------------------

void Traffic::receive_all() {
  for (int count = 0; count < 16; ++count) {
    ripc_message* message = nullptr;
    const std::uint32_t flags = random_.below(2) == 0 ? std::uint32_t{RIPC_RECEIVE_LEND} : 0u;
    const ripc_status status = ripc_receive(service_, flags, 0, &message);
    if (status == RIPC_EMPTY) return;
    if (!note(status, "receive")) return;
    ++received_;
    handle(Message(message));
  }
}

void Traffic::handle(Message message) {
  if (ripc_message_get_tag(message.get()) == kBellTag) {
    ripc_item_view view{};
    if (ripc_message_get_item(message.get(), 0, &view) != RIPC_OK || view.size != sizeof(ripc_notification)) {
      flaw_ = "the handle of a notification is not whole";
      return;
    }
    std::memcpy(&peer_bell_.emplace(), view.data, sizeof(ripc_notification));
    return;
  }
  if (std::string flaw = flaw_of(message.get()); !flaw.empty() && flaw_.empty()) flaw_ = flaw;
  bool lent = false;
  for (std::size_t index = 0; index < ripc_message_get_item_count(message.get()); ++index) {
    ripc_item_view view{};
    if (ripc_message_get_item(message.get(), index, &view) != RIPC_OK) continue;
    lent = lent || view.kind == RIPC_VIEW_LENT;
    if (view.kind == RIPC_VIEW_WINDOW && view.cookie != 0 && view.cookie <= windows_.size()) {
      std::vector<std::byte>& window = windows_[view.cookie - 1];
      note(ripc_window_post(service_, window.data(), window.size(), view.cookie), "window_post");
    }
  }
  if (ripc_message_get_return_count(message.get()) != 0) {
    const std::vector<std::byte> bytes =
        make_item(24 + random_.below(ripc_message_get_return_size(message.get(), 0) - 24), random_.next());
    const ripc_item item{bytes.data(), bytes.size(), RIPC_ITEM_RETURN, 0};
    const ripc_send_options options = options_with(6);
    ripc_ticket* ticket = nullptr;
    if (note(ripc_reply(service_, message.get(), &item, 1, &options, &ticket), "reply")) {
      ++sent_;
      // The reply travels as a long item, from a copy. Waiting here could last for ever, because each side may keep a
      // lent view of the other.
      if (ticket != nullptr) tickets_.emplace_back(ticket);
    }
  }
  if (const std::uint64_t request = ripc_message_get_in_reply_to(message.get()); request != 0) {
    const auto found = std::find_if(requests_.begin(), requests_.end(),
                                    [&](const Pending& pending) { return pending.request == request; });
    if (found != requests_.end()) {
      message.reset();
      requests_.erase(found);
    }
  }
  if (!message || !lent) return;
  kept_.push_back(std::move(message));
  if (kept_.size() <= kKeptMessages) return;
  // A lent view keeps its content even if its owner has died.
  if (std::string flaw = flaw_of(kept_.front().get()); !flaw.empty() && flaw_.empty()) flaw_ = "kept: " + flaw;
  kept_.pop_front();
}

void Traffic::reap() {
  std::erase_if(tickets_, [](const Ticket& ticket) { return ripc_ticket_poll(ticket.get()) != RIPC_PENDING; });
  std::erase_if(foreign_, [](const Foreign& entry) { return ripc_ticket_poll(entry.ticket.get()) != RIPC_PENDING; });
  // Gives up a request now and then, answered or not.
  if (requests_.empty() || random_.below(16) != 0) return;
  (void)ripc_request_cancel(service_, requests_.front().request);
  requests_.pop_front();
}

bool Traffic::settle() {
  bool ended = true;
  unregister_bell();
  if (contested_) use_contested();
  contested_.reset();
  receive_all();
  for (const Message& message : kept_) {
    if (std::string flaw = flaw_of(message.get()); !flaw.empty() && flaw_.empty()) flaw_ = "kept: " + flaw;
  }
  kept_.clear();
  for (const Ticket& ticket : tickets_) {
    if (ripc_ticket_cancel(ticket.get()) == RIPC_PENDING)
      ended = ripc_ticket_wait(ticket.get(), kLimit) != RIPC_PENDING && ended;
  }
  for (const Foreign& entry : foreign_) {
    if (ripc_ticket_cancel(entry.ticket.get()) == RIPC_PENDING)
      ended = ripc_ticket_wait(entry.ticket.get(), kLimit) != RIPC_PENDING && ended;
  }
  tickets_.clear();
  foreign_.clear();
  for (const Pending& pending : requests_) (void)ripc_request_cancel(service_, pending.request);
  requests_.clear();
  for (std::uint64_t cookie = 1; cookie <= windows_.size(); ++cookie)
    (void)ripc_window_withdraw(service_, cookie, nullptr);
  return ended;
}

}  // namespace fault
