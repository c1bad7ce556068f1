// SPDX-License-Identifier: Apache-2.0
// Makes connections through librdmacm: one event channel in the responder's loop, a listener, and the ids that are to
// become connections.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.hpp"
#include "base/event_loop.hpp"
#include "base/fork_guard.hpp"
#include "base/status.hpp"
#include "remote/session/endpoint.hpp"
#include "transport/verbs/device/device_list.hpp"

namespace ripc::internal::verbs {

// An event channel of librdmacm.
class EventChannel {
 public:
  static Result<std::shared_ptr<EventChannel>> open(std::shared_ptr<const VerbsLibrary> library);
  ~EventChannel();
  EventChannel(const EventChannel&) = delete;
  EventChannel& operator=(const EventChannel&) = delete;

  rdma_event_channel* get() const noexcept { return channel_; }
  const VerbsLibrary& library() const noexcept { return *library_; }

 private:
  EventChannel(std::shared_ptr<const VerbsLibrary> library, rdma_event_channel* channel);

  const std::shared_ptr<const VerbsLibrary> library_;
  rdma_event_channel* const channel_;
  ForkGuard guard_;
};

// One id of librdmacm. Its queue pair, if it has one, must be destroyed first.
class Id {
 public:
  Id(std::shared_ptr<EventChannel> channel, rdma_cm_id* id) noexcept : channel_(std::move(channel)), id_(id) {}
  ~Id() { (void)channel_->library().destroy_id(id_); }
  Id(const Id&) = delete;
  Id& operator=(const Id&) = delete;

  rdma_cm_id* get() const noexcept { return id_; }
  remote::Endpoint remote() const noexcept { return remote::Endpoint::of(id_->route.addr.dst_addr); }
  remote::Endpoint local() const noexcept { return remote::Endpoint::of(id_->route.addr.src_addr); }

 protected:
  const VerbsLibrary& library() const noexcept { return channel_->library(); }

 private:
  const std::shared_ptr<EventChannel> channel_;
  rdma_cm_id* const id_;
};
using IdPointer = std::shared_ptr<const Id>;

// What both sides tell each other before there is a connection; librdmacm has room for 56 bytes.
using PrivateData = std::array<std::byte, 56>;

// Responder only.
class ConnectionManager {
 public:
  // The hooks of an attempt to connect. The manager calls them until its own end.
  struct Hooks {
    // Called when the path is known and the id has a device: makes the queue pair and prepares it (queue_pair_states).
    // The pair lives until `ended` or the next call. If it returns no pair, the manager gives up.
    std::function<Result<ibv_qp*>(const IdPointer& id)> prepare;
    // The peer has accepted, with this private data. Not RIPC_OK: the manager gives up.
    std::function<Status(const IdPointer& id, const PrivateData& private_data)> accepted;
    // The connection could not be made, or has ended. This is the last call.
    std::function<void(Status reason)> ended;
  };
  // The answer to a peer that wants a connection; otherwise the Request returns why it is refused.
  struct Acceptance {
    PrivateData private_data{};
    std::uint8_t read_depth = 1;
    const void* from = nullptr;  // names the peer, whose earlier uncompleted requests end; null: none end
    Hooks hooks;                 // prepare is called at once; accepted when it is established (private data of zeros)
  };
  using Request = std::function<Result<Acceptance>(const IdPointer& id, const PrivateData& private_data)>;

  // Listens on each of these addresses of RDMA devices. With a listener for all addresses, some devices accept nothing
  // that comes in by another interface of the machine, as connections of the machine to itself do.
  static Result<std::unique_ptr<ConnectionManager>> start(std::shared_ptr<const VerbsLibrary> library, EventLoop& loop,
                                                          const std::vector<std::string>& ips, Request request);
  ~ConnectionManager();
  ConnectionManager(const ConnectionManager&) = delete;
  ConnectionManager& operator=(const ConnectionManager&) = delete;

  // The same for one more address.
  Status listen(const std::string& ip);
  // The device was taken away: attempts to connect over it fail, and the manager no longer listens there.
  void forget(const Device& device);

  // The port where it listens on this address; 0: it does not.
  std::uint16_t port_at(const remote::Endpoint& address) const noexcept;

  // Begins to connect; returns the attempt's name, never 0. If it cannot even begin, `ended` is called later, from the
  // loop.
  std::uint64_t dial(const remote::Endpoint& from, const remote::Endpoint& to, const PrivateData& private_data,
                     std::uint8_t read_depth, Nanoseconds patience, Hooks hooks);

 private:
  struct Attempt {
    IdPointer id;
    Hooks hooks;
    ibv_qp* pair = nullptr;  // the hooks'
    PrivateData private_data{};
    std::uint8_t read_depth = 1;
    const void* from = nullptr;     // of a request that is not yet established
    remote::Endpoint source, peer;  // of an attempt that dials
    int ports_tried = 0;
    int patience = 0;  // milliseconds
    EventLoop::TimerId timer = 0;
  };
  // A copy of an event's contents, valid after the event was given back.
  struct Event {
    rdma_cm_event_type type;
    int status = 0;
    std::uint64_t name = 0;
    rdma_cm_id* id = nullptr;  // of a request: the new one
    PrivateData private_data{};
    std::uint8_t responder_resources = 0, initiator_depth = 0;
  };

  ConnectionManager(std::shared_ptr<EventChannel> channel, EventLoop& loop, Request request)
      : channel_(std::move(channel)), loop_(loop), request_(std::move(request)) {}
  void on_events() noexcept;
  bool next(Event& event) noexcept;
  void handle(const Event& event);
  void on_request(const Event& event);
  void fail(std::uint64_t name, Status reason);
  void end_request_of(const void* peer);
  void keep_time(std::uint64_t name, Attempt& attempt, Nanoseconds patience);
  int resolve(std::uint64_t name, Attempt& attempt);
  Status connect(std::uint64_t name, Attempt& attempt);
  Status complete(Attempt& attempt, const PrivateData& private_data);
  void shorten_retries(const Id& id) const noexcept;

  const std::shared_ptr<EventChannel> channel_;
  EventLoop& loop_;
  const Request request_;
  std::vector<IdPointer> listeners_;
  bool in_loop_ = false;
  std::uint64_t next_name_ = 1;
  std::unordered_map<std::uint64_t, Attempt> attempts_;  // including those that have become connections
};

}  // namespace ripc::internal::verbs
