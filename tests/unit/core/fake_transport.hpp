// SPDX-License-Identifier: Apache-2.0
// A channel without a transport, for tests of what core does with channels. Its transfers finish when the test says so.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "spi/transport.hpp"

namespace ripc::core {

// Any thread.
class FakeChannel : public spi::Channel {
 public:
  enum class State { exposed, pulling, lent, done };

  // ---- What the test, as the peer, does ----

  std::uint64_t make_transfer(State state = State::exposed) {
    const std::lock_guard lock(mutex_);
    transfers_[++last_] = {state, RIPC_PENDING};
    return last_;
  }
  void set_state(std::uint64_t transfer, State state) {
    const std::lock_guard lock(mutex_);
    transfers_.at(transfer).state = state;
  }
  void finish(std::uint64_t transfer, ripc_status status) {
    const std::lock_guard lock(mutex_);
    transfers_.at(transfer) = {State::done, status};
  }
  void stop_draining(std::uint64_t transfer) {
    const std::lock_guard lock(mutex_);
    draining_.erase(transfer);
  }
  void die() {
    const std::lock_guard lock(mutex_);
    alive_ = false;
    draining_.clear();
    for (auto& [name, transfer] : transfers_) {
      if (transfer.state != State::done) transfer = {State::done, RIPC_PEER_DEAD};
    }
  }

  // From now on. Before any ticket.
  void watch_for_free() { watches_for_free_ = true; }

  // ---- What the test asks ----

  bool is_watched(std::uint64_t transfer) const {
    const std::lock_guard lock(mutex_);
    return watched_.contains(transfer);
  }
  // Not finished, or its end was not heard yet.
  bool is_open(std::uint64_t transfer) const {
    const std::lock_guard lock(mutex_);
    return transfers_.contains(transfer);
  }
  // Transfers that were named after their end.
  int misuses() const {
    const std::lock_guard lock(mutex_);
    return misuses_;
  }

  // ---- spi::Channel ----

  std::size_t packet_limit() const noexcept override { return 4096; }
  std::uint64_t incarnation() const noexcept override { return 1; }
  ripc_status send(spi::Gather) noexcept override { return RIPC_OK; }
  ripc_status send_control(spi::Gather) noexcept override { return RIPC_OK; }
  bool has_room() const noexcept override { return true; }
  bool request_room() noexcept override { return true; }
  ripc_status expose(std::span<const spi::Exposure>, std::span<wire::Descriptor>,
                     std::uint64_t& transfer) noexcept override {
    transfer = make_transfer();
    return RIPC_OK;
  }
  ripc_status transfer_status(std::uint64_t transfer) noexcept override {
    const std::lock_guard lock(mutex_);
    const auto found = transfers_.find(transfer);
    if (found == transfers_.end()) {
      ++misuses_;
      return RIPC_CORRUPT;
    }
    if (found->second.state != State::done) return RIPC_PENDING;
    const ripc_status status = found->second.status;
    transfers_.erase(found);
    return status;
  }
  bool watch_transfer(std::uint64_t transfer) noexcept override {
    const std::lock_guard lock(mutex_);
    watched_.insert(transfer);
    const auto found = transfers_.find(transfer);
    return found != transfers_.end() && found->second.state != State::done;
  }
  bool watches_for_free() const noexcept override { return watches_for_free_; }
  ripc_status revoke(std::uint64_t transfer) noexcept override {
    const std::lock_guard lock(mutex_);
    const auto found = transfers_.find(transfer);
    if (found == transfers_.end()) {
      ++misuses_;
      return RIPC_CORRUPT;
    }
    if (found->second.state == State::lent) return RIPC_PENDING;
    const ripc_status status = found->second.state == State::done ? found->second.status : RIPC_REVOKED;
    if (found->second.state == State::pulling) draining_.insert(transfer);
    transfers_.erase(found);
    return status;
  }
  bool is_draining(std::uint64_t transfer) noexcept override {
    const std::lock_guard lock(mutex_);
    return draining_.contains(transfer);
  }
  ripc_status grant(std::span<std::byte> memory, wire::Grant& grant) noexcept override {
    grant = {.key = 1, .location = 0, .length = memory.size()};
    return RIPC_OK;
  }
  ripc_status end_grant(const wire::Grant&) noexcept override { return RIPC_EMPTY; }
  bool alive() const noexcept override {
    const std::lock_guard lock(mutex_);
    return alive_;
  }
  std::string describe() const override { return "fake"; }

 private:
  struct Transfer {
    State state;
    ripc_status status;
  };
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Transfer> transfers_;
  std::set<std::uint64_t> watched_, draining_;
  std::uint64_t last_ = 0;
  bool alive_ = true;
  bool watches_for_free_ = false;
  int misuses_ = 0;
};

}  // namespace ripc::core
