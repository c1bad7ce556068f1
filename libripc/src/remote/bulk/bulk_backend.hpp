// SPDX-License-Identifier: Apache-2.0
// What the two backends of Bulk share: TCP connections (transport/socket) and RDMA (transport/verbs). `Pulls` and
// `Pushes` are their tables, `Connection` is what they move bytes over.
//
// The tables never call each other, except for pulls that end a transfer. Each table has its own lock, and the lock
// here is never held during a call to a table.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/backoff.hpp"
#include "base/standing_timer.hpp"
#include "remote/bulk/bulk.hpp"
#include "remote/bulk/lanes.hpp"
#include "remote/bulk/rail_pace.hpp"
#include "remote/bulk/silence.hpp"
#include "remote/session/endpoint.hpp"

namespace ripc::internal::remote {

template <typename Connection, typename Pulls, typename Pushes>
class BulkBackend : public Bulk {
 public:
  void dial_failed() noexcept override {
    {
      const std::lock_guard lock(mutex_);
      dialing_ = false;
      back_off();
      if (!connections_.empty()) return;
    }
    pushes_.no_connection();
    dial_if_needed();
  }

  void died() noexcept override {
    {
      const std::lock_guard lock(mutex_);
      dead_.store(true, std::memory_order_release);
    }
    for (const Member& member : take_members()) member.connection->close();
    pulls_.died();
    finishes_.died();
    pushes_.died();
    repeats_.stop();
    dial_timer_.cancel();
    silence_.stop();
    transfers_.died();
    grants_.died();
  }

  ripc_status begin(std::span<const wire::Descriptor> items, EventSet& events) noexcept override {
    typename Pulls::Entries prepared;
    if (const ripc_status status = Pulls::prepare(items, events, prepared); status != RIPC_OK) return status;
    const ripc_status status = finishes_.begin(items.front());
    if (status == RIPC_OK) pulls_.add_prepared(std::move(prepared));
    return status;
  }

  void abandon(spi::Pull& pull) noexcept override { pulls_.abandon(pull); }

  ripc_status finish(const wire::Descriptor& descriptor, ripc_status status, EventSet& events) noexcept override {
    bool unsent = false;
    pulls_.drop_prepared(descriptor.key);
    std::shared_ptr<FrameSender> connection = choose();
    if (!connection) connection = substitute();
    const ripc_status outcome = finishes_.finish(descriptor, status, events, connection, unsent);
    if (unsent) {
      recover();
    } else if (connection) {
      connection->flush();
    }
    if (outcome == RIPC_PENDING) silence_.look_soon();
    return outcome;
  }

  void forget(const EventSet& events) noexcept override {
    pulls_.forget(events);
    finishes_.forget(events);
  }

  // Any. Connections open now.
  std::size_t connection_count() const noexcept {
    const std::lock_guard lock(mutex_);
    return connections_.size();
  }
  // The number of those to this address.
  std::size_t connections_to(const Endpoint& peer) const noexcept {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(std::count_if(connections_.begin(), connections_.end(),
                                                  [&](const Member& member) { return member.peer.same_ip(peer); }));
  }
  // Any. Throws std::bad_alloc.
  std::vector<std::shared_ptr<Connection>> connections() const {
    std::vector<std::shared_ptr<Connection>> connections;
    const std::lock_guard lock(mutex_);
    for (const Member& member : connections_) connections.push_back(member.connection);
    return connections;
  }
  std::vector<spi::RailReport> rails() const override {
    std::vector<Member> members;
    {
      const std::lock_guard lock(mutex_);
      members = connections_;
    }
    std::vector<spi::RailReport> rails;
    for (const Member& member : members) {
      const std::string peer = member.peer.ip();
      auto rail =
          std::find_if(rails.begin(), rails.end(), [&](const spi::RailReport& one) { return one.peer == peer; });
      if (rail == rails.end()) {
        rail = rails.insert(rails.end(), spi::RailReport());
        rail->device = device_of(member);
        rail->local = member.local.ip();
        rail->peer = peer;
      }
      const Connection& connection = *member.connection;
      rail->rate += rate_of(connection);
      rail->bytes_sent += connection.sent();
      rail->bytes_received += connection.received();
      ++rail->connections;
    }
    mark_spares(rails);
    return rails;
  }

  // Responder, called by the watch for silent connections. `is_other_active`: there is also a connection of another
  // kind that is not silent. Throws std::bad_alloc: look again.
  void look_for_silence(bool is_other_active = false) {
    const std::vector<std::shared_ptr<Connection>> present = connections();
    bool any_owed = has_backlog() || pushes_.busy();
    std::vector<bool> owed;
    for (const auto& connection : present) {
      owed.push_back(pulls_.is_owed(*connection) || finishes_.is_owed(*connection) || pushes_.is_owed(*connection));
      any_owed = any_owed || owed.back();
    }
    std::vector<std::shared_ptr<Connection>> silent;
    {
      const std::lock_guard lock(mutex_);
      for (Member& member : connections_) {
        const auto found = std::find(present.begin(), present.end(), member.connection);
        if (found == present.end()) continue;
        member.silence.look(owed[static_cast<std::size_t>(found - present.begin())], member.connection->activity());
      }
      const bool is_any_active =
          is_other_active || std::any_of(connections_.begin(), connections_.end(),
                                         [](const Member& member) { return !member.silence.lasts(kLooksBeside); });
      const unsigned too_long = is_any_active ? kLooksBeside : kLooks;
      for (const Member& member : connections_) {
        if (member.silence.lasts(too_long)) silent.push_back(member.connection);
      }
    }
    for (const auto& connection : silent) connection->cut();
    if (any_owed) silence_.look_soon();
  }

 protected:
  struct Member {
    std::shared_ptr<Connection> connection;
    Endpoint local;
    Endpoint peer;
    Silence silence{};
  };

  // A push goes over one connection. A large item is pulled instead if that can use several rails.
  bool is_better_pulled(std::size_t size, bool has_other_rails = false) const noexcept {
    if (size <= kSegmentSize) return false;
    const std::lock_guard lock(mutex_);
    return has_other_rails || std::any_of(connections_.begin(), connections_.end(), [&](const Member& member) {
             return !member.peer.same_ip(connections_.front().peer);
           });
  }

  // How many times within the stall timeout to look for connections that owe something and are silent.
  static constexpr unsigned kLooks = 16;
  // The limit for a connection when there is another that has not been silent this long: the other one takes over what
  // is owed.
  static constexpr unsigned kLooksBeside = kLooks / 4;

  static void mark_spares(std::vector<spi::RailReport>& rails) noexcept {
    std::uint64_t fastest = 0;
    for (const spi::RailReport& rail : rails) fastest = std::max(fastest, rail.rate);
    for (spi::RailReport& rail : rails)
      rail.is_spare =
          rail.rate != 0 && static_cast<double>(rail.rate) * RailPace::kSpare < static_cast<double>(fastest);
  }

  // `most`: connections that this side asks for.
  BulkBackend(EventLoop& loop, BulkHooks hooks, Nanoseconds stall_timeout, std::size_t most, Pulls& pulls,
              Pushes& pushes) noexcept
      : Bulk(loop, std::move(hooks)),
        pulls_(pulls),
        pushes_(pushes),
        most_(most),
        silence_(loop, stall_timeout / kLooks) {}

  // Before any other call. Throws std::bad_alloc.
  template <typename Self>
  void start_as(std::weak_ptr<Self> self) {
    repeats_.start(self, [](Self& owner) { owner.repeat_announcements(); });
    dial_timer_.make(loop_, [this, self] {
      if (const auto alive = self.lock(); alive && !is_dead()) hooks_.dial();
    });
    silence_.start(self, [](Self& owner) { owner.look_for_silence(); });
  }

  // The network interface or RDMA device of this host that the connection goes over.
  virtual std::string device_of(const Member& member) const = 0;
  // The rate of a connection, in bytes per second; 0: not known.
  virtual std::uint64_t rate_of(const Connection& connection) const noexcept = 0;
  // The connection that finishes and pushes go over now; null: none.
  virtual std::shared_ptr<Connection> choose() noexcept = 0;
  // What finishes, but not pushes, go over while choose() returns null; null: nothing.
  virtual std::shared_ptr<FrameSender> substitute() noexcept { return nullptr; }

  bool has_backlog() const noexcept { return pulls_.has_backlog() || finishes_.has_backlog() || pushes_.has_backlog(); }

  void dial_if_needed() noexcept {
    const auto is_enough = [this] { return dialing_ || is_dead() || connections_.size() >= most_; };
    {
      const std::lock_guard lock(mutex_);
      if (is_enough()) return;
    }
    if (!has_backlog()) return;
    Nanoseconds at = StandingTimer::kNow;
    {
      const std::lock_guard lock(mutex_);
      if (is_enough()) return;
      dialing_ = true;
      if (dial_pause_ != 0) at = monotonic_now() + dial_pause_;
    }
    dial_timer_.set(at);
  }

  // With the lock held. The next connection is asked for without a pause or, by back_off(), after one that grows each
  // time.
  void reset_dial_backoff() noexcept {
    dial_pause_ = 0;
    backoff_.reset();
  }
  void back_off() noexcept { dial_pause_ = backoff_.next(); }

  // Sends what waits for a connection over this one.
  void use(const std::shared_ptr<Connection>& connection) noexcept {
    finishes_.tell(*connection);
    pushes_.place_all(connection);
    connection->flush();
  }

  // Moves what has lost its connection, or was given one that was being lost, to another one.
  void recover() noexcept {
    if (const std::shared_ptr<Connection> connection = choose()) {
      use(connection);
    } else if (const std::shared_ptr<FrameSender> other = substitute()) {
      finishes_.tell(*other);
      other->flush();
      pushes_.no_connection();
    }
    dial_if_needed();
  }

  void forget_connection(const Connection& connection) noexcept {
    pulls_.connection_lost(connection);
    finishes_.connection_lost(connection);
    pushes_.connection_lost(connection);
    grants_.connection_lost(&connection);
  }

  Pulls& pulls_;
  Pushes& pushes_;
  const std::size_t most_;
  LaterLook silence_;

  mutable std::mutex mutex_;  // for the following
  std::vector<Member> connections_;
  bool dialing_ = false;  // a connection was asked for

 private:
  std::vector<Member> take_members() noexcept {
    const std::lock_guard lock(mutex_);
    return std::exchange(connections_, {});
  }

  Backoff backoff_{10'000'000, 1'000'000'000};
  Nanoseconds dial_pause_ = 0;  // before the next connection is asked for
  StandingTimer dial_timer_;
};

}  // namespace ripc::internal::remote
