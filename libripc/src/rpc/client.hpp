// SPDX-License-Identifier: Apache-2.0
// The calling half of an endpoint: gives calls to sessions, repeats what may be lost, and ends each call once.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <unordered_map>
#include <vector>

#include "base/biased_mutex.hpp"
#include "base/random.hpp"
#include "core/state/message.hpp"
#include "rpc/arrival.hpp"
#include "rpc/client_session.hpp"
#include "wire/call.hpp"

namespace ripc::internal::rpc {

class Client : public std::enable_shared_from_this<Client> {
 public:
  struct Options {
    std::uint32_t slots = 8;
    std::uint32_t queue = 1024;
  };
  // `messenger` outlives the endpoint.
  Client(Messenger& messenger, Options options) : messenger_(messenger), options_(options) {}
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // ---- Any thread ----
  // RIPC_OK: `done` will run. *name (may be null) is written before anything is sent.
  Status begin(const CallRequest& request, std::uint64_t* name);
  Status cancel(std::uint64_t name);
  // Called when paths were lost, or when there is room.
  void changed() noexcept;
  void add_to(ripc_rpc_statistics& statistics) const noexcept;
  void add_to(std::map<std::uint32_t, ripc_rpc_method_statistics>& methods) const;

  // ---- The thread that runs the endpoint ----
  // Takes a message that a server sent; the client owns `message` now. Returns how many calls were reported.
  std::size_t received(core::Message* message, const wire::call::Header& header, Arrival& arrival);
  // Does what is due, and what other threads left to do. Returns how many calls were reported.
  std::size_t progress(Nanoseconds now);
  // The time when progress(), which has reported none, next has something to do. The endpoint sleeps until then;
  // begin() wakes it for an earlier time.
  Nanoseconds sleep_until() const noexcept { return sleeping_until_; }
  // Ends all calls.
  std::size_t end_all(ripc_status why);

 private:
  using Lock = std::unique_lock<BiasedMutex>;
  struct Found {
    ripc_service_id to;
    ripc_status status;
  };

  // All of these are called under the mutex. Those that take the lock release it temporarily.
  Call& make(const CallRequest& request, ClientSession& session);
  void free(Call& call) noexcept;
  Call* find(std::uint64_t name) noexcept;
  ClientSession& session_of(ripc_service_id to);
  ClientSession* find_session(ripc_service_id to) noexcept;
  MethodRecord* record_of(std::uint32_t method);
  void forget_call(MethodRecord& record) noexcept;
  bool needs_clock(const ClientSession& session, const MethodRecord* record, Nanoseconds now) const noexcept;
  void keep(Call& call, std::span<const ripc_item> items);
  Status start(Lock& lock, Call& call, std::span<const ripc_item> items, Nanoseconds now) noexcept;
  Status enqueue(Call& call, ClientSession& session, Nanoseconds now);
  // RIPC_OK: sent. RIPC_PENDING: the call has to wait, without a slot.
  Status dispatch(Lock& lock, Call& call, std::span<const ripc_item> items, Nanoseconds now);
  Status send_any(Lock& lock, Call& call, std::span<const ripc_item> items);
  void note_sent(Call& call, Nanoseconds now) noexcept;
  void pump(Lock& lock, ClientSession& session);
  void lack_room(ClientSession& session, Nanoseconds now) noexcept;
  void wait_for_path(ClientSession& session) noexcept;
  void give_up(Call& call, ripc_status why) noexcept;
  void finish(Call& call, ripc_call_outcome outcome, ripc_status status) noexcept;
  void count(const Call& call) noexcept;
  void take_back(Lock& lock, const Call& call) noexcept;
  void report(Lock& lock, Call& call);
  // Reports all ended calls. The lock may be released afterwards.
  std::size_t report_ended(Lock& lock);

  // ---- Calls to groups ----
  // Gives the call to a member, or lets it wait for one. Any error: no member takes it.
  Status place(Lock& lock, Call& call);
  // RIPC_AGAIN: the chosen member, call.session, takes no more calls.
  Status place_once(Lock& lock, Call& call);
  // Like place(), for a call that has begun: an error ends it.
  void place_begun(Lock& lock, Call& call) noexcept;
  ClientSession* choose_member(const Call& call, Nanoseconds now);
  Status wait_for_member(Call& call, Nanoseconds now);
  bool may_move(const Call& call) const noexcept;
  void move(Lock& lock, Call& call) noexcept;
  void members_found(ClientSession& group, ripc_status status, Nanoseconds now) noexcept;

  static void note_path(ClientSession& session, const Messenger::Path& path) noexcept;
  void prepare(ClientSession& session, Nanoseconds now);
  void find_path(ClientSession& session) noexcept;
  void open(ClientSession& session, Nanoseconds now) noexcept;
  void close(ClientSession& session) noexcept;
  void end_sent(ClientSession& session, ripc_status why) noexcept;
  void end_queued(ClientSession& session, ripc_status why) noexcept;
  void path_found(ClientSession& session, ripc_status status, Nanoseconds now) noexcept;
  static void take_path(ClientSession& session, const Messenger::Path& path) noexcept;
  void path_changed(ClientSession& session, const Messenger::Path& path, Nanoseconds now) noexcept;
  void check_path(ClientSession& session, Nanoseconds now) noexcept;

  // True: the call has taken the message.
  bool answered(ClientSession& session, core::Message& message, const wire::call::Header& header,
                Arrival& arrival) noexcept;
  static void note_time(ClientSession& session, const Call& call, Nanoseconds now, bool is_late) noexcept;
  void opened(ClientSession& session, const wire::call::Header& header, Nanoseconds now) noexcept;
  // Returns a call whose request has to be sent again, or nullptr.
  Call* state_received(ClientSession& session, const wire::call::Header& header, Nanoseconds now) noexcept;
  void end_with_state(Call& call, const wire::call::Header& header) noexcept;
  void call_due(Call& call, Nanoseconds now) noexcept;
  // False: the session was removed.
  bool session_due(ClientSession& session, Nanoseconds now) noexcept;
  void note_expired(const Call& call, Nanoseconds now) noexcept;
  void repeat(Call& call, Nanoseconds now) noexcept;
  void note_repeated(Call& call) noexcept;
  void send_again(Lock& lock, Call& call);
  void set_timer(Call& call) noexcept;
  void note_changed() noexcept;
  bool has_room_for_changed() noexcept;
  // Called when the server gives no session, or ends the present one.
  void session_over(ClientSession& session, ripc_status why) noexcept;
  void refused(ClientSession& session, ripc_status why) noexcept;
  static wire::call::Header request_header(const Call& call, Nanoseconds now) noexcept;
  ripc_status send_about(const Call& call, wire::call::Kind kind) noexcept;
  // Asks the server for the state of a call. One that was withdrawn is cancelled first.
  ripc_status ask_about(const Call& call) noexcept;
  // Sets the time of a question about a call that was sent: nobody knows whether the server has it.
  void ask_again(Call& call, Nanoseconds at) noexcept;
  ripc_status send_header(const ClientSession& session, const wire::call::Header& header) noexcept;

  Messenger& messenger_;
  const Options options_;
  mutable BiasedMutex mutex_;  // biased to the thread that runs the endpoint
  std::condition_variable_any sent_;
  TimerWheel timers_;
  Nanoseconds sleeping_until_ = 0;  // 0: the endpoint is awake. Written by the thread that runs the endpoint
  std::unordered_map<ripc_service_id, std::unique_ptr<ClientSession>> sessions_;
  ClientSession* last_session_ = nullptr;  // the one used last
  std::vector<std::unique_ptr<Call>> calls_;
  Call* free_ = nullptr;
  CallQueue ended_;           // to be reported
  std::vector<Found> found_;  // paths found by other threads
  bool changed_ = false;      // set by other threads
  std::vector<ClientSession*> changed_sessions_;
  bool is_closed_ = false;
  ripc_status why_closed_ = RIPC_CLOSED;
  Nanoseconds patient_until_ = UINT64_MAX;  // when an ending endpoint no longer waits for peers that write
  ripc_rpc_statistics counters_{};
  std::unordered_map<std::uint32_t, std::unique_ptr<MethodRecord>> records_;
  MethodRecord* last_record_ = nullptr;                                    // the one used last
  std::minstd_rand random_{static_cast<std::uint32_t>(random_u64() | 1)};  // chooses the members to compare
};

}  // namespace ripc::internal::rpc
