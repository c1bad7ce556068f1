// SPDX-License-Identifier: Apache-2.0
// The answering half of an endpoint: runs each call once, and keeps answers that may be lost until the client has them.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/biased_mutex.hpp"
#include "base/fork_guard.hpp"
#include "core/state/message.hpp"
#include "rpc/arrival.hpp"
#include "rpc/call_message.hpp"
#include "rpc/messenger.hpp"
#include "rpc/server_session.hpp"
#include "rpc/workers.hpp"

namespace ripc::internal::rpc {

class Server;

}  // namespace ripc::internal::rpc

// One request in the hands of a handler.
struct ripc_request {
  ripc::internal::rpc::Server* server = nullptr;  // lives as long as its requests
  ripc::internal::core::Message* message = nullptr;
  std::span<const ripc_item_view> items{};  // of the message
  std::uint64_t session = 0;
  std::uint32_t number = 0;
  std::uint32_t method = 0;
  ripc::internal::Nanoseconds came_at = 0;
  ripc::internal::Nanoseconds deadline = UINT64_MAX;
  std::atomic<bool> is_abandoned{false};  // nobody waits for the answer
  bool is_measured = false;               // `came_at` is exact, and how long it takes counts
  ripc::internal::rpc::Handler* handler = nullptr;
  ripc_request* next = nullptr;
};

namespace ripc::internal::rpc {

class Server : public std::enable_shared_from_this<Server> {
 public:
  struct Options {
    std::uint32_t max_sessions = 65536;
    Nanoseconds spin = 0;  // how long a wait for the ticket of an answer spins
  };
  // `messenger` and `workers` (may be null) outlive the endpoint.
  Server(Messenger& messenger, Workers* workers, Options options)
      : messenger_(messenger), workers_(workers), options_(options) {}
  ~Server();

  // ---- The thread that runs the endpoint ----
  // Takes a message that a client sent; the server owns `message` now. A request is then ready, or is given to the
  // workers. Returns how many were given to them.
  std::size_t received(core::Message* message, const wire::call::Header& header, Arrival& arrival);
  // Takes a message in another version. A client that asks for a session is notified in its own version.
  void refuse_version(const core::Message& message, const wire::call::Header& header) noexcept;
  bool has_ready() const noexcept { return !ready_.empty(); }
  // Runs the handler of the request that has been ready for the longest time, unless nobody waits for its answer any
  // more.
  void run_next(Nanoseconds now) noexcept;
  // Does what is due, and what other threads left to do.
  void progress(Nanoseconds now) noexcept;
  Nanoseconds next_due() const noexcept {
    return std::min(look_at_.load(std::memory_order_relaxed), send_at_.load(std::memory_order_relaxed));
  }

  // ---- Any thread ----
  const Options& options() const noexcept { return options_; }
  // In a forked child the requests are the parent's.
  bool usable() const noexcept { return ForkGuard::known_generation() == fork_generation_; }
  Status handle(std::uint32_t method, const Handler& handler);
  // Called when there may be room for answers.
  void changed() noexcept;
  // RIPC_OK: the request is gone.
  Status reply(ripc_request& request, std::uint32_t code, std::span<const ripc_item> items,
               std::shared_ptr<core::Ticket>* ticket);
  void drop(ripc_request& request, ripc_status status, wire::call::State outcome) noexcept;
  // Called by a worker. Runs the handler, unless nobody waits for the answer any more.
  void run(ripc_request& request) noexcept { run(request, messenger_.now()); }
  Nanoseconds time_left(const ripc_request& request) const noexcept;
  void add_to(ripc_rpc_statistics& statistics) const noexcept;
  void add_to(std::map<std::uint32_t, ripc_rpc_method_statistics>& methods) const;
  // Called when the endpoint ends. Refuses the ready requests, and every one that received() gets from here on.
  void refuse_all() noexcept;
  // Whether something waits for room or a path, so that progress() has to be called.
  bool has_waiting() const noexcept { return send_at_.load(std::memory_order_relaxed) != UINT64_MAX; }
  // Called after refuse_all(). Waits for the answers that are being sent. No message is sent from here on.
  void close() noexcept;

 private:
  using Slot = ServerSession::Slot;
  // Answers are kept for one to two times this long. Clients ask at least five times within it.
  static constexpr Nanoseconds kAnswerAge = 500'000'000;
  struct LostPath {
    Messenger::Search search{};
    Nanoseconds since = 0;
  };

  void run(ripc_request& request, Nanoseconds now) noexcept;

  // All of these are called under the mutex.
  ServerSession* session_of(std::uint64_t name) noexcept;
  ServerSession* session_of(const core::Message& message, const wire::call::Header& header) noexcept;
  Slot* slot_of(const ripc_request& request) noexcept;
  void open(const core::Message& message, const wire::call::Header& header, Nanoseconds now);
  // Refuses a session.
  void refuse(const core::Message& message, const wire::call::Header& header, ripc_status why) noexcept;
  // Refuses a message of a session that does not exist, or not any more.
  void refuse_without_session(const core::Message& message, const wire::call::Header& header, ripc_status why) noexcept;
  // Returns a request to be run. nullptr: there is none, and the caller still owns the message.
  ripc_request* take(ServerSession& session, core::Message& message, const wire::call::Header& header,
                     Arrival& arrival);
  Handler* handler_of(std::uint32_t method) noexcept;
  void notify_of_known(ServerSession& session, Slot& slot) noexcept;
  static void lower(std::atomic<Nanoseconds>& due, Nanoseconds at) noexcept {
    if (at < due.load(std::memory_order_relaxed)) due.store(at, std::memory_order_relaxed);
  }
  static void abandon(ServerSession& session, Slot& slot) noexcept;
  static void forget(ServerSession& session, Slot& slot) noexcept;
  void forget(ServerSession& session) noexcept;
  void end(ServerSession& session, Slot& slot, wire::call::State outcome, ripc_status status) noexcept;
  // False: the kept answers of the session would take more than `most` bytes.
  bool keep(ServerSession& session, Slot& slot, std::span<const ripc_item> items, Nanoseconds now, std::size_t most);
  Status send_kept(ServerSession& session, Slot& slot) noexcept;
  // Never waits. RIPC_AGAIN while the path is searched for; RIPC_NO_SERVICE if that has taken the resolve timeout.
  ripc_status find_path(ripc_service_id client) noexcept;
  void ask_for_room(ripc_service_id client) noexcept;
  void wait(ripc_service_id client, const wire::call::Header& header) noexcept;
  Status send(ripc_service_id client, const CallMessage& message, std::shared_ptr<core::Ticket>* ticket = nullptr);
  ripc_status send_header(ripc_service_id client, const wire::call::Header& header) noexcept;
  // False: there is no room or path yet. An answer that cannot be sent becomes the state of its call.
  bool send_waiting(ripc_service_id client, wire::call::Header& header) noexcept;
  void look_at_sessions(Nanoseconds now) noexcept;
  void notify(ripc_service_id client, const wire::call::Header& header) noexcept;
  static wire::call::Header state_of(const ServerSession& session, const Slot& slot) noexcept;
  void notify_state(const ServerSession& session, const Slot& slot) noexcept;
  // Returns the reference that kept the server alive, if this was the last request of an endpoint that is gone.
  std::shared_ptr<Server> free(ripc_request& request) noexcept;

  Messenger& messenger_;
  Workers* const workers_;
  const Options options_;
  const std::uint64_t fork_generation_ = ForkGuard::generation();
  std::unordered_map<std::uint32_t, Handler> handlers_;
  std::pair<const std::uint32_t, Handler>* last_handler_ = nullptr;  // the one used last
  mutable BiasedMutex mutex_;                                        // biased to the thread that runs the endpoint
  std::vector<std::unique_ptr<ServerSession>> sessions_;             // a name is an index, and a count of its uses
  std::vector<std::uint32_t> free_sessions_;
  std::unordered_map<ripc_service_id, std::uint64_t> newest_;  // the name of each client's last session
  // For each client, messages that wait for room or a path: kept answers, and those that are only headers.
  std::unordered_map<ripc_service_id, std::vector<wire::call::Header>> waiting_;
  std::unordered_map<ripc_service_id, LostPath> lost_paths_;  // those being searched for
  // Written under the mutex; the thread that runs the endpoint reads them without it.
  std::atomic<Nanoseconds> send_at_{UINT64_MAX};  // for waiting messages
  std::atomic<Nanoseconds> look_at_{UINT64_MAX};  // for unused sessions, and for answers that nobody asks for
  ripc_request* free_ = nullptr;
  std::size_t held_ = 0;          // requests that handlers have, or will have
  std::shared_ptr<Server> self_;  // set while the endpoint is gone and requests are still held
  Fifo<ripc_request> ready_;      // used by the thread that runs the endpoint
  std::size_t sending_ = 0;       // threads that send an answer without the mutex
  std::condition_variable_any sent_;
  bool is_ending_ = false;
  bool is_closed_ = false;
  // Set by the thread that runs the endpoint. Another one may answer a request while its handler still runs.
  std::atomic<const ripc_request*> in_handler_{nullptr};
  std::atomic<Nanoseconds> handler_began_at_{0};
  ripc_rpc_statistics counters_{};
};

}  // namespace ripc::internal::rpc
