// SPDX-License-Identifier: Apache-2.0
// What the two backends of Bulk share: TCP connections (transport/socket) and RDMA (transport/verbs). `Pulls` and
// `Pushes` are their tables, `Connection` is what they move bytes over.
//
// The tables never call each other, but for pulls that end a transfer; each has its own lock, and the one here is never
// held while one of them is called.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

#include "base/backoff.hpp"
#include "base/standing_timer.hpp"
#include "remote/bulk/bulk.hpp"
#include "remote/bulk/silence.hpp"

namespace ripc::internal::remote {

template <typename Connection, typename Pulls, typename Pushes>
class BulkBackend : public Bulk {
 public:
  void dial_failed() noexcept override {
    {
      const std::lock_guard lock(mutex_);
      dialing_ = false;
      back_off();
      if (connection_count_locked() != 0) return;
    }
    pushes_.no_connection();
    dial_if_needed();
  }

  void died() noexcept override {
    {
      const std::lock_guard lock(mutex_);
      dead_.store(true, std::memory_order_release);
    }
    close_connections();
    pulls_.died();
    finishes_.died();
    pushes_.died();
    announcer_.stop();
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
    const std::shared_ptr<Connection> connection = choose();
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

 protected:
  // `look_pause`: between two looks for connections that owe something and are silent. `most`: connections that this
  // side asks for.
  BulkBackend(EventLoop& loop, BulkHooks hooks, Nanoseconds look_pause, std::size_t most, Pulls& pulls,
              Pushes& pushes) noexcept
      : Bulk(loop, std::move(hooks)), pulls_(pulls), pushes_(pushes), most_(most), silence_(loop, look_pause) {}

  // Before any other call. Throws std::bad_alloc.
  template <typename Self>
  void start_as(std::weak_ptr<Self> self) {
    announcer_.start(loop_, self);
    dial_timer_.make(loop_, [this, self] {
      if (const auto alive = self.lock(); alive && !is_dead()) hooks_.dial();
    });
    silence_.start(self);
  }

  // ---- What a backend knows of its connections ----
  virtual std::size_t connection_count_locked() const noexcept = 0;
  // One that can be used now; null: none.
  virtual std::shared_ptr<Connection> choose() noexcept = 0;
  // It has died: none is taken any more. The ones that are there are closed, without the lock.
  virtual void close_connections() noexcept = 0;

  bool has_backlog() const noexcept { return pulls_.has_backlog() || finishes_.has_backlog() || pushes_.has_backlog(); }

  void dial_if_needed() noexcept {
    const auto is_enough = [this] { return dialing_ || is_dead() || connection_count_locked() >= most_; };
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

  // With the lock held. The next connection is asked for without a pause; or after one that grows each time.
  void forgive() noexcept {
    dial_pause_ = 0;
    backoff_.reset();
  }
  void back_off() noexcept { dial_pause_ = backoff_.next(); }

  // What waits for a connection goes over this one.
  void use(const std::shared_ptr<Connection>& connection) noexcept {
    finishes_.tell(*connection);
    pushes_.place_all(connection);
    connection->flush();
  }

  // What has lost its connection, or met one that was being lost, goes to another one.
  void recover() noexcept {
    if (const std::shared_ptr<Connection> connection = choose()) use(connection);
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
  SilenceWatch silence_;

  mutable std::mutex mutex_;  // for the following, and the backend's connections
  bool dialing_ = false;      // a connection was asked for

 private:
  Backoff backoff_{10'000'000, 1'000'000'000};
  Nanoseconds dial_pause_ = 0;  // before the next connection is asked for
  StandingTimer dial_timer_;
};

}  // namespace ripc::internal::remote
