// SPDX-License-Identifier: Apache-2.0
// A network, a clock and the halves of endpoints, without services, for tests of calls. One thread; nothing blocks.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "core/protocol/incoming.hpp"
#include "core/protocol/outgoing.hpp"
#include "core/state/message.hpp"
#include "rpc/call_message.hpp"
#include "rpc/client.hpp"
#include "rpc/server.hpp"
#include "support/failing_allocation.hpp"

namespace ripc::internal::rpc {

// How far the rough clock may be behind.
inline constexpr Nanoseconds kKernelTick = 10'000'000;

// What may happen to messages, in percent, and how long they take.
struct Weather {
  int lost = 0;
  bool may_lose = false;  // the path counts as lossy even while nothing is lost
  int doubled = 0;
  int without_room = 0;
  int unread = 0;  // messages that wait up to 5 ms until they are read
  Nanoseconds delay = 0;
  Nanoseconds longest_delay = 0;  // besides
  bool has_two_paths = false;     // disconnect() switches between the first, which loses nothing, and one that does
};

class FakeNode;

class FakeNetwork {
 public:
  explicit FakeNetwork(unsigned seed, Weather in = {}, std::size_t packet_limit = 4096)
      : random(seed),
        weather(in),
        packet_limit_(packet_limit),
        pool_(new core::MessagePool(pools_, packet_limit, 65536)) {}

  void send(ripc_service_id from, ripc_service_id to, std::span<const ripc_item> items);
  // Advances the time to the next event and lets it happen. False: there is none up to `until`.
  bool step(Nanoseconds until);
  void run(Nanoseconds time) {
    const Nanoseconds until = now + time;
    while (step(until)) {
    }
    now = until;
  }
  core::Message* take_message() {
    pool_->enter(ThreadEpoch::current());
    return pool_->take(packet_limit_, RIPC_MAX_ITEMS);
  }
  // Loses each packet that is on its way between the two, with this chance.
  void cut(ripc_service_id one, ripc_service_id other, int percent);
  bool chance(int percent) { return static_cast<int>(random() % 100) < percent; }
  Nanoseconds up_to(Nanoseconds longest) { return longest == 0 ? 0 : random() % longest; }

  std::mt19937_64 random;
  Weather weather;
  Nanoseconds now = 1'000'000'000;
  std::map<ripc_service_id, FakeNode*> nodes;
  std::map<ripc_service_id, std::set<ripc_service_id>> groups;  // dead members are listed too
  std::uint64_t messages = 0;
  std::uint64_t last_incarnation = 100;

 private:
  struct Packet {
    Nanoseconds at;
    std::uint64_t order;
    ripc_service_id from, to;
    std::vector<std::vector<std::byte>> items;
    bool operator<(const Packet& other) const { return std::pair(other.at, other.order) < std::pair(at, order); }
  };
  const std::size_t packet_limit_;
  std::priority_queue<Packet> packets_;
  core::MessagePools pools_;  // owns the pool
  core::MessagePool* const pool_;
};

// One service with both halves of an endpoint. The destructor, at random, kills it or ends its server in good order.
class FakeNode final : public Messenger {
 public:
  FakeNode(FakeNetwork& network, ripc_service_id id, Client::Options options = {}, Server::Options server_options = {})
      : network_(network), id_(id), incarnation_(++network.last_incarnation) {
    client = std::make_shared<Client>(*this, options);
    server = std::make_shared<Server>(*this, nullptr, server_options);
    network.nodes[id] = this;
  }
  ~FakeNode() override {
    const bool is_killed = network_.chance(50);
    if (!is_killed) end_server();
    network_.nodes.erase(id_);
    for (auto& [id, node] : network_.nodes) {
      if (node->connected_.erase(id_) != 0) node->client->changed();
    }
    (void)client->end_all(RIPC_CLOSED);
    if (is_killed) server->close();
  }

  // Ends the server in good order, as an endpoint does. The service stays, but nobody reads what arrives.
  void end_server() {
    if (std::exchange(has_ended_, true)) return;
    server->refuse_all();
    read();
    server->close();
  }

  // Queues a message that arrives until it is read.
  void arrived(ripc_service_id from, std::vector<std::vector<std::byte>> items) {
    unread_.emplace_back(from, std::move(items));
    if (has_ended_ || !reads) return;
    if (network_.weather.unread == 0) return read();
    if (unread_.size() == 1)
      read_at_ = network_.now + (network_.chance(network_.weather.unread) ? network_.up_to(5'000'000) : 0);
  }
  void received(ripc_service_id from, const std::vector<std::vector<std::byte>>& items) {
    core::Message* const message = network_.take_message();
    message->source = from;
    std::byte* to = message->storage;
    for (const auto& item : items) {
      message->items[message->item_count++] = core::short_view(to, item.size());
      to = std::copy(item.begin(), item.end(), to);
    }
    wire::call::Header header;
    if (read_header(*message, header) != RIPC_OK) return core::MessagePool::release(message);
    Arrival arrival(*this, network_.now);
    if (wire::call::is_for_client(header.kind)) {
      client->received(message, header, arrival);
    } else {
      std::optional<support::FailingAllocation> failing;
      if (header.kind == wire::call::Kind::request && std::exchange(lacks_memory, false)) failing.emplace(1);
      server->received(message, header, arrival);
      failing.reset();
      const Nanoseconds looked_at = network_.now;
      network_.now += reading_time;
      while (server->has_ready()) server->run_next(looked_at);
    }
  }
  void progress() {
    is_woken_ = false;
    if (network_.now >= read_at_) read();
    // Like a resolver, reports what is there.
    for (const auto& [to, report] : std::map(searches_)) {
      const bool is_there = network_.nodes.contains(to) || network_.groups.contains(to);
      if (is_there && !is_group(to)) connect(to);
      if (const auto still = searches_.find(to); still != searches_.end() && network_.now >= next_look_ && looks_end)
        (*still->second)(is_there ? RIPC_OK : RIPC_NO_SERVICE);
    }
    if (network_.now >= next_look_) next_look_ = network_.now + 10'000'000;
    if (!has_ended_) server->progress(network_.now);
    client->progress(network_.now);
    sleeps_until_ = std::min(client->sleep_until(), has_ended_ ? UINT64_MAX : server->next_due());
  }
  Nanoseconds next_due() {
    if (is_woken_) return network_.now;
    return std::min({sleeps_until_, searches_.empty() ? UINT64_MAX : next_look_, read_at_});
  }

  std::uint64_t incarnation() const noexcept override { return incarnation_; }
  Nanoseconds now() const noexcept override {
    ++clock_looks;
    return network_.now;
  }
  Nanoseconds rough_now() const noexcept override { return network_.now / kKernelTick * kKernelTick; }
  Nanoseconds resolve_timeout() const noexcept override { return patience; }
  Path path(ripc_service_id to) noexcept override {
    const auto way = connected_.find(to);
    if (way == connected_.end() || !network_.nodes.contains(to)) return {};
    return {true, loses(to), network_.nodes.at(to)->incarnation_, way->second};
  }
  ripc_status send_short(ripc_service_id to, std::span<const ripc_item> items, bool& loses) noexcept override {
    if (!network_.nodes.contains(id_)) return RIPC_CLOSED;
    std::size_t bytes = 0;
    if (!path(to).is_known || !core::is_plain(items, bytes) || bytes > kMostRepeated) return RIPC_PENDING;
    loses = this->loses(to);
    return transmit(to, items);
  }
  Status send(const core::SendArguments& arguments, std::shared_ptr<core::Ticket>* to) override {
    ++sends;
    if (!failures.empty()) {
      const ripc_status failure = failures.front();
      failures.pop_front();
      if (failure == RIPC_NO_MEMORY) throw std::bad_alloc();
      return failure;
    }
    if (ticket) {
      *to = ticket;
      return {};
    }
    if (!network_.nodes.contains(arguments.to) || arguments.to == just_ended) return RIPC_NO_SERVICE;
    if (arguments.never_waits && (is_narrow || !path(arguments.to).is_known)) return RIPC_PENDING;
    connect(arguments.to);
    const ripc_status status = transmit(arguments.to, arguments.items);
    if (status == RIPC_OK && !arguments.returns.empty()) requests.insert(*arguments.request_id = ++last_request_);
    if (during_send) during_send();
    return status;
  }
  Status check_given(std::span<const ripc_item>) override { return {}; }
  void release_given(std::span<const ripc_item>) noexcept override {}
  void ask_for_room(ripc_service_id) noexcept override { ++rooms_asked; }
  void end_request(std::uint64_t request, Deadline deadline) noexcept override {
    requests.erase(request);
    if (peers_write) network_.now = std::max(network_.now, deadline.at());
  }
  std::shared_ptr<const core::GroupList> members(ripc_service_id group) override {
    auto list = std::make_shared<core::GroupList>();
    for (const ripc_service_id id : network_.groups[group]) {
      spi::ServiceRecord record;
      record.id = id;
      list->members.push_back(std::make_shared<core::GroupMember>(record));
    }
    return list;
  }
  Search find_path(ripc_service_id to, std::function<void(ripc_status)> report) override {
    auto kept = std::make_shared<std::function<void(ripc_status)>>(std::move(report));
    searches_[to] = kept;
    next_look_ = std::min(next_look_, network_.now);
    return {kept.get(),
            [this, kept](void*) { std::erase_if(searches_, [&](auto& one) { return one.second == kept; }); }};
  }
  void wake() noexcept override { is_woken_ = true; }

  std::size_t searches() const { return searches_.size(); }

  // The path is gone, though the peer lives.
  void disconnect(ripc_service_id to) {
    connected_.erase(to);
    if (network_.weather.has_two_paths) {
      network_.cut(id_, to, 50);
      change_path(to);
      if (const auto peer = network_.nodes.find(to); peer != network_.nodes.end()) peer->second->change_path(id_);
    }
    client->changed();
  }
  // This end switches to the other of two paths. Its client is not notified.
  void change_path(ripc_service_id to) {
    if (lossy_.erase(to) == 0) lossy_.insert(to);
    if (connected_.erase(to) != 0) connect(to);
  }
  // The path is gone with what was under way, and somebody else has made it again before the client looks.
  void lose_and_remake_path(ripc_service_id to) {
    network_.cut(id_, to, 100);
    connected_.erase(to);
    connect(to);
    client->changed();
  }
  bool loses(ripc_service_id to) const {
    const Weather& weather = network_.weather;
    return (weather.may_lose || weather.lost != 0) && (!weather.has_two_paths || lossy_.contains(to));
  }

  mutable std::uint64_t clock_looks = 0;
  std::shared_ptr<Client> client;
  std::shared_ptr<Server> server;
  Nanoseconds patience = 1'000'000'000;
  ripc_service_id just_ended = 0;  // a peer that send() no longer finds
  bool is_narrow = false;          // the path has to be made wide enough for such items first
  int rooms_asked = 0;
  int sends = 0;                         // of items that do not travel short
  std::deque<ripc_status> failures;      // of the next of those sends; for lack of memory they throw
  std::shared_ptr<core::Ticket> ticket;  // of such items, which then never arrive
  bool peers_write = false;              // to return buffers, and do not finish
  bool lacks_memory = false;             // the server's first allocation for the next request fails
  bool reads = true;                     // whether messages that arrive are read
  bool looks_end = true;                 // a look for a path to a process that is stopped does not end in time
  Nanoseconds reading_time = 0;          // between its look at the clock and the handler of the message that came
  std::function<void()> during_send;     // runs before the send() of an item that does not travel short returns
  std::set<std::uint64_t> requests;      // those that hold return buffers

 private:
  void connect(ripc_service_id to) {
    if (!connected_.contains(to)) connected_[to] = std::make_shared<int>();
  }
  ripc_status transmit(ripc_service_id to, std::span<const ripc_item> items) {
    if (network_.chance(network_.weather.without_room)) return RIPC_AGAIN;
    network_.send(id_, to, items);
    return RIPC_OK;
  }
  void read() {
    read_at_ = UINT64_MAX;
    while (!unread_.empty()) {
      const auto [from, items] = std::move(unread_.front());
      unread_.pop_front();
      received(from, items);
    }
  }

  FakeNetwork& network_;
  const ripc_service_id id_;
  const std::uint64_t incarnation_;
  std::map<ripc_service_id, std::shared_ptr<const void>> connected_;  // Path::way of each path
  std::set<ripc_service_id> lossy_;                                   // peers to which the second of two paths is used
  std::map<ripc_service_id, std::shared_ptr<std::function<void(ripc_status)>>> searches_;
  Nanoseconds next_look_ = 0;
  std::uint64_t last_request_ = 0;
  std::deque<std::pair<ripc_service_id, std::vector<std::vector<std::byte>>>> unread_;
  Nanoseconds read_at_ = UINT64_MAX;
  bool has_ended_ = false;
  bool is_woken_ = true;
  Nanoseconds sleeps_until_ = 0;  // unless it is woken
};

inline void FakeNetwork::send(ripc_service_id from, ripc_service_id to, std::span<const ripc_item> items) {
  Packet packet{now, ++messages, from, to, {}};
  for (const ripc_item& item : items) {
    const auto* const bytes = static_cast<const std::byte*>(item.data);
    packet.items.emplace_back(bytes, bytes + item.size);
  }
  const bool loses = nodes.at(from)->loses(to);
  for (int copies = loses && chance(weather.lost) ? 0 : chance(weather.doubled) ? 2 : 1; copies != 0; --copies) {
    packet.at = now + weather.delay + up_to(weather.longest_delay);
    packets_.push(packet);
  }
}

inline void FakeNetwork::cut(ripc_service_id one, ripc_service_id other, int percent) {
  for (auto packets = std::exchange(packets_, {}); !packets.empty(); packets.pop()) {
    const Packet& packet = packets.top();
    const bool is_between = (packet.from == one && packet.to == other) || (packet.from == other && packet.to == one);
    if (!is_between || !chance(percent)) packets_.push(packet);
  }
}

inline bool FakeNetwork::step(Nanoseconds until) {
  Nanoseconds next = packets_.empty() ? UINT64_MAX : packets_.top().at;
  for (const auto& [id, node] : nodes) next = std::min(next, node->next_due());
  if (next > until) return false;
  now = std::max(now, next);
  while (!packets_.empty() && packets_.top().at <= now) {
    const Packet packet = packets_.top();
    packets_.pop();
    if (const auto to = nodes.find(packet.to); to != nodes.end()) to->second->arrived(packet.from, packet.items);
  }
  for (const auto& [id, node] : std::map(nodes)) node->progress();
  return true;
}

}  // namespace ripc::internal::rpc
