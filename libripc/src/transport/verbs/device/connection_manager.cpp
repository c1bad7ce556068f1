// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/device/connection_manager.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "transport/verbs/device/queue_pair_states.hpp"

namespace ripc::internal::verbs {

namespace {

constexpr int kBacklog = 128;
constexpr int kMostPerEvent = 64;  // then others have their turn
// librdmacm chooses a port that is free among its own ports. iWARP devices use the port for TCP, where it may be taken.
constexpr int kPortsTried = 64;
constexpr Nanoseconds kAcceptPatience = 5'000'000'000;
// A packet that is not acknowledged is repeated after 4.096 us x 2^14 = 67 ms, six times. So a peer that is gone is
// noticed after half a second. For some devices, seven retries mean for ever.
constexpr std::uint8_t kAcknowledgeTimeout = 14;
constexpr std::uint8_t kRetries = 6;
// For ever: there always is a buffer, but a machine may be slow to announce it.
constexpr std::uint8_t kReceiverRetries = 7;

Status unreachable(std::string_view why) {
  return Status(RIPC_PEER_DEAD, "No RDMA connection to the peer could be made (" + std::string(why) +
                                    "): check the RDMA devices on both sides with `ripc doctor`.");
}

}  // namespace

// ---- Event channel -------------------------------------------------------------------------------------------

Result<std::shared_ptr<EventChannel>> EventChannel::open(std::shared_ptr<const VerbsLibrary> library) {
  rdma_event_channel* const channel = library->create_event_channel();
  if (channel == nullptr) return system_error(errno, "rdma_create_event_channel", "see `ripc doctor`");
  return std::shared_ptr<EventChannel>(new EventChannel(std::move(library), channel));
}

EventChannel::EventChannel(std::shared_ptr<const VerbsLibrary> library, rdma_event_channel* channel)
    : library_(std::move(library)), channel_(channel), guard_(channel->fd) {
  (void)fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
}

EventChannel::~EventChannel() {
  guard_.reset();
  library_->destroy_event_channel(channel_);
}

// ---- Begin and end -------------------------------------------------------------------------------------------

Result<std::unique_ptr<ConnectionManager>> ConnectionManager::start(std::shared_ptr<const VerbsLibrary> library,
                                                                    EventLoop& loop,
                                                                    const std::vector<std::string>& ips,
                                                                    Request request) {
  Result<std::shared_ptr<EventChannel>> channel = EventChannel::open(std::move(library));
  if (!channel.ok()) return channel.status();
  std::unique_ptr<ConnectionManager> manager(new ConnectionManager(std::move(*channel), loop, std::move(request)));
  for (const std::string& ip : ips) {
    if (Status status = manager->listen(ip); !status.ok()) return status;
  }
  Status status =
      loop.add(manager->channel_->get()->fd, EPOLLIN, [raw = manager.get()](std::uint32_t) { raw->on_events(); });
  if (!status.ok()) return status;
  manager->in_loop_ = true;
  return manager;
}

Status ConnectionManager::listen(const std::string& ip) {
  const VerbsLibrary& library = channel_->library();
  remote::Endpoint endpoint;
  (void)remote::Endpoint::parse(ip, 0, endpoint);
  for (int attempt = 1;; ++attempt) {
    rdma_cm_id* raw = nullptr;
    if (library.create_id(channel_->get(), &raw, nullptr, RDMA_PS_TCP) != 0)
      return system_error(errno, "rdma_create_id", "see `ripc doctor`");
    auto id = std::make_shared<const Id>(channel_, raw);
    if (library.bind_addr(raw, const_cast<sockaddr*>(endpoint.address())) != 0)
      return system_error(errno, "rdma_bind_addr", "see `ripc doctor`");
    if (library.listen(raw, kBacklog) == 0) {
      listeners_.push_back(std::move(id));
      return {};
    }
    if (errno != EADDRINUSE || attempt == kPortsTried) return system_error(errno, "rdma_listen", "see `ripc doctor`");
  }
}

void ConnectionManager::forget(const Device& device) {
  std::erase_if(listeners_, [&](const IdPointer& id) { return device.is_of(*id->get()); });
  std::vector<std::uint64_t> names;
  for (const auto& [name, attempt] : attempts_) {
    if (attempt.id && device.is_of(*attempt.id->get())) names.push_back(name);
  }
  for (const std::uint64_t name : names) fail(name, unreachable("the device was removed"));
}

std::uint16_t ConnectionManager::port_at(const remote::Endpoint& address) const noexcept {
  const auto found =
      std::ranges::find_if(listeners_, [&](const IdPointer& id) { return id->local().same_ip(address); });
  return found == listeners_.end() ? std::uint16_t{0} : (*found)->local().port();
}

ConnectionManager::~ConnectionManager() {
  if (in_loop_) loop_.remove(channel_->get()->fd);
  for (auto& [name, attempt] : attempts_) {
    if (attempt.timer != 0) loop_.cancel_timer(attempt.timer);
  }
}

// ---- Ours ----------------------------------------------------------------------------------------------------

std::uint64_t ConnectionManager::dial(const remote::Endpoint& from, const remote::Endpoint& to,
                                      const PrivateData& private_data, std::uint8_t read_depth, Nanoseconds patience,
                                      Hooks hooks) {
  const std::uint64_t name = next_name_++;
  Attempt& attempt = attempts_[name];
  attempt.hooks = std::move(hooks);
  attempt.private_data = private_data;
  attempt.read_depth = read_depth;
  attempt.patience = static_cast<int>(std::clamp<Nanoseconds>(patience / 1'000'000, 1, 60'000));
  attempt.source = from.with_port(0);
  attempt.peer = to;
  keep_time(name, attempt, patience);
  if (const int error = resolve(name, attempt); error != 0)
    loop_.post([this, name, error] { fail(name, unreachable(std::strerror(error))); });
  return name;
}

// Makes an id, and starts to resolve the path to the peer. Returns 0 or errno.
int ConnectionManager::resolve(std::uint64_t name, Attempt& attempt) {
  const VerbsLibrary& library = channel_->library();
  rdma_cm_id* raw = nullptr;
  if (library.create_id(channel_->get(), &raw, reinterpret_cast<void*>(name), RDMA_PS_TCP) != 0) return errno;
  attempt.id = std::make_shared<const Id>(channel_, raw);
  const int failed = library.resolve_addr(raw, const_cast<sockaddr*>(attempt.source.address()),
                                          const_cast<sockaddr*>(attempt.peer.address()), attempt.patience);
  return failed == 0 ? 0 : errno;
}

void ConnectionManager::keep_time(std::uint64_t name, Attempt& attempt, Nanoseconds patience) {
  attempt.timer = loop_.add_timer(monotonic_now() + patience, [this, name] { fail(name, unreachable("no answer")); });
}

void ConnectionManager::fail(std::uint64_t name, Status reason) {
  const auto found = attempts_.find(name);
  if (found == attempts_.end()) return;
  const auto ended = std::move(found->second.hooks.ended);
  if (found->second.timer != 0) loop_.cancel_timer(found->second.timer);
  attempts_.erase(found);
  if (ended) ended(std::move(reason));
}

void ConnectionManager::shorten_retries(const Id& id) const noexcept {
  std::uint8_t timeout = kAcknowledgeTimeout;
  // If it cannot be set, the session notices the death of a peer first.
  (void)channel_->library().set_option(id.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof timeout);
}

Status ConnectionManager::connect(std::uint64_t name, Attempt& attempt) {
  const Result<ibv_qp*> pair = attempt.hooks.prepare(attempt.id);
  if (!pair.ok()) return pair.status();
  attempt.pair = *pair;
  shorten_retries(*attempt.id);
  rdma_conn_param parameters{};
  parameters.qp_num = attempt.pair->qp_num;
  parameters.private_data = attempt.private_data.data();
  parameters.private_data_len = static_cast<std::uint8_t>(attempt.private_data.size());
  parameters.responder_resources = attempt.read_depth;
  parameters.initiator_depth = attempt.read_depth;
  parameters.retry_count = kRetries;
  parameters.rnr_retry_count = kReceiverRetries;
  if (channel_->library().connect(attempt.id->get(), &parameters) == 0) return {};
  int error = errno;
  if (error == EADDRINUSE && ++attempt.ports_tried < kPortsTried) error = resolve(name, attempt);
  return error == 0 ? Status() : unreachable(std::strerror(error));
}

// The connection is established.
Status ConnectionManager::complete(Attempt& attempt, const PrivateData& private_data) {
  loop_.cancel_timer(attempt.timer);
  attempt.timer = 0;
  attempt.from = nullptr;
  // The hook may end its own attempt.
  const auto accepted = attempt.hooks.accepted;
  const IdPointer id = attempt.id;
  return accepted(id, private_data);
}

// ---- Events --------------------------------------------------------------------------------------------------

// Gives an event back before anything is done with it, because an id cannot be destroyed while one of its events is
// held.
bool ConnectionManager::next(Event& event) noexcept {
  rdma_cm_event* raw = nullptr;
  if (channel_->library().get_cm_event(channel_->get(), &raw) != 0) return false;
  event = {};
  event.type = raw->event;
  event.status = raw->status;
  event.name = reinterpret_cast<std::uint64_t>(raw->id->context);
  if (raw->event == RDMA_CM_EVENT_CONNECT_REQUEST) event.id = raw->id;
  const rdma_conn_param& conn = raw->param.conn;
  if (conn.private_data != nullptr)
    std::memcpy(event.private_data.data(), conn.private_data,
                std::min<std::size_t>(conn.private_data_len, event.private_data.size()));
  event.responder_resources = conn.responder_resources;
  event.initiator_depth = conn.initiator_depth;
  (void)channel_->library().ack_cm_event(raw);
  return true;
}

void ConnectionManager::on_events() noexcept {
  Event event{};
  for (int count = 0; count < kMostPerEvent && next(event); ++count) {
    try {
      handle(event);
    } catch (const std::bad_alloc&) {
      fail(event.name, RIPC_NO_MEMORY);
    }
  }
}

void ConnectionManager::handle(const Event& event) {
  if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
    on_request(event);
    return;
  }
  const auto found = attempts_.find(event.name);
  if (found == attempts_.end()) return;
  Attempt& attempt = found->second;
  Status status;
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (channel_->library().resolve_route(attempt.id->get(), attempt.patience) != 0)
        status = unreachable(std::strerror(errno));
      break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      status = connect(event.name, attempt);
      break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      status = bring_up_pair(channel_->library(), *attempt.id->get(), *attempt.pair, {});
      if (status.ok() && channel_->library().establish(attempt.id->get()) != 0)
        status = unreachable(std::strerror(errno));
      if (status.ok()) status = complete(attempt, event.private_data);
      break;
    case RDMA_CM_EVENT_ESTABLISHED:
      status = complete(attempt, event.private_data);
      break;
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
    case RDMA_CM_EVENT_ADDR_CHANGE:
      break;
    case RDMA_CM_EVENT_REJECTED:
      status =
          Status(RIPC_REFUSED, "The peer has refused an RDMA connection: it is ending, or has another cluster key.");
      break;
    default:
      status = unreachable(event.type == RDMA_CM_EVENT_DISCONNECTED     ? "it has closed the connection"
                           : event.type == RDMA_CM_EVENT_DEVICE_REMOVAL ? "the device was removed"
                                                                        : std::strerror(std::abs(event.status)));
      break;
  }
  if (!status.ok()) fail(event.name, status);
}

void ConnectionManager::end_request_of(const void* peer) {
  const auto found = std::ranges::find_if(attempts_, [&](const auto& entry) { return entry.second.from == peer; });
  if (found != attempts_.end()) fail(found->first, unreachable("it began anew"));
}

void ConnectionManager::on_request(const Event& event) {
  auto id = std::make_shared<const Id>(channel_, event.id);
  const std::uint64_t name = next_name_++;
  id->get()->context = reinterpret_cast<void*>(name);
  Result<Acceptance> acceptance = request_(id, event.private_data);
  // Do this before it uses the device's resources: a peer that never completes its requests would use them up for all.
  if (acceptance.ok() && acceptance->from != nullptr) end_request_of(acceptance->from);
  const Result<ibv_qp*> pair = acceptance.ok() ? acceptance->hooks.prepare(id) : acceptance.status();
  if (!pair.ok()) {
    (void)channel_->library().reject(id->get(), nullptr, 0);
    if (acceptance.ok()) acceptance->hooks.ended(pair.status());
    return;
  }
  shorten_retries(*id);
  rdma_conn_param parameters{};
  parameters.qp_num = (*pair)->qp_num;
  parameters.private_data = acceptance->private_data.data();
  parameters.private_data_len = static_cast<std::uint8_t>(acceptance->private_data.size());
  parameters.responder_resources = std::min(event.responder_resources, acceptance->read_depth);
  parameters.initiator_depth = std::min(event.initiator_depth, acceptance->read_depth);
  parameters.rnr_retry_count = kReceiverRetries;
  Status status = bring_up_pair(channel_->library(), *id->get(), **pair,
                                {.incoming = parameters.responder_resources, .outgoing = parameters.initiator_depth});
  if (status.ok() && channel_->library().accept(id->get(), &parameters) != 0)
    status = unreachable(std::strerror(errno));
  if (!status.ok()) {
    acceptance->hooks.ended(status);
    return;
  }
  Attempt& attempt = attempts_[name];
  attempt.id = std::move(id);
  attempt.pair = *pair;
  attempt.from = acceptance->from;
  attempt.hooks = std::move(acceptance->hooks);
  keep_time(name, attempt, kAcceptPatience);
}

}  // namespace ripc::internal::verbs
