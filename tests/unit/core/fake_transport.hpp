// SPDX-License-Identifier: Apache-2.0
// A channel without a transport, for tests of what core does with channels. Its transfers finish when the test says so.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "spi/transport.hpp"

namespace ripc::internal::core {

// Any thread.
class FakeChannel : public spi::Channel {
 public:
  enum class State { exposed, pulling, lent, done };

  // reports_ends: as channels to other hosts do.
  explicit FakeChannel(bool reports_ends = false)
      : Channel({.incarnation = 1, .packet_limit = 4096, .reports_ends = reports_ends}) {}
  explicit FakeChannel(const Facts& facts) : Channel(facts) {}

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
  // Reports the end of this transfer to the keeper, if it has finished.
  template <typename Keeper>
  void tell(Keeper& keeper, std::uint64_t transfer) {
    ripc_status status = RIPC_PENDING;
    {
      const std::lock_guard lock(mutex_);
      const auto found = transfers_.find(transfer);
      if (found != transfers_.end() && found->second.state == State::done) status = found->second.status;
    }
    if (status == RIPC_PENDING || !keeper.transfer_finished(*this, transfer, status)) return;
    const std::lock_guard lock(mutex_);
    transfers_.erase(transfer);
  }
  void stop_draining(std::uint64_t transfer) {
    const std::lock_guard lock(mutex_);
    draining_.erase(transfer);
  }
  void die() {
    const std::lock_guard lock(mutex_);
    (void)set_end(RIPC_PEER_DEAD);
    draining_.clear();
    for (auto& [name, transfer] : transfers_) {
      if (transfer.state != State::done) transfer = {State::done, RIPC_PEER_DEAD};
    }
  }

  // ---- What the test asks ----

  bool is_watched(std::uint64_t transfer) const {
    const std::lock_guard lock(mutex_);
    return watched_.contains(transfer);
  }
  // Whether the transfer has not finished, or no one has learned of its end yet.
  bool is_open(std::uint64_t transfer) const {
    const std::lock_guard lock(mutex_);
    return transfers_.contains(transfer);
  }
  // The packet that was sent last; empty: it was a plain message.
  std::vector<std::byte> last_packet() const {
    const std::lock_guard lock(mutex_);
    return last_packet_;
  }
  // How often a call named a transfer that had already ended.
  int misuses() const {
    const std::lock_guard lock(mutex_);
    return misuses_;
  }

  // ---- spi::Channel ----

  ripc_status widen(std::size_t) noexcept override { return RIPC_OK; }
  ripc_status send(const spi::Outgoing& outgoing) noexcept override {
    const std::lock_guard lock(mutex_);
    last_packet_.clear();
    for (const spi::Bytes range : outgoing.packet) last_packet_.insert(last_packet_.end(), range.begin(), range.end());
    return RIPC_OK;
  }
  ripc_status send_many(std::span<const wire::Plain> messages, std::size_t& sent) noexcept override {
    sent = messages.size();
    return RIPC_OK;
  }
  bool has_room(bool) noexcept override { return true; }
  ripc_status expose(std::span<const spi::Exposure>, std::span<wire::Descriptor>,
                     std::uint64_t& transfer) noexcept override {
    transfer = make_transfer();
    return RIPC_OK;
  }
  ripc_status poll_transfer(std::uint64_t transfer, bool notify) noexcept override {
    const std::lock_guard lock(mutex_);
    if (notify) watched_.insert(transfer);
    const auto found = transfers_.find(transfer);
    if (found == transfers_.end()) {
      if (draining_.contains(transfer)) return RIPC_PENDING;
      if (revoked_.erase(transfer) != 0) return RIPC_REVOKED;
      ++misuses_;
      return RIPC_CORRUPT;
    }
    if (found->second.state != State::done) return RIPC_PENDING;
    const ripc_status status = found->second.status;
    transfers_.erase(found);
    return status;
  }
  ripc_status revoke(std::uint64_t transfer, bool& is_read) noexcept override {
    const std::lock_guard lock(mutex_);
    is_read = false;
    const auto found = transfers_.find(transfer);
    if (found == transfers_.end()) {
      ++misuses_;
      return RIPC_CORRUPT;
    }
    is_read = found->second.state == State::lent || found->second.state == State::pulling;
    if (found->second.state == State::lent) return RIPC_PENDING;
    const ripc_status status = found->second.state == State::done ? found->second.status : RIPC_REVOKED;
    if (is_read) draining_.insert(transfer);
    if (is_read) revoked_.insert(transfer);
    transfers_.erase(found);
    return status;
  }
  ripc_status grant(std::span<std::byte> memory, wire::Grant& grant) noexcept override {
    grant = {.key = 1, .location = 0, .length = memory.size()};
    return RIPC_OK;
  }
  ripc_status end_grant(const wire::Grant&) noexcept override { return RIPC_EMPTY; }
  Description describe(Deadline) override { return {"fake", {{.device = "fake", .rate = 5}}}; }

 private:
  struct Transfer {
    State state;
    ripc_status status;
  };
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Transfer> transfers_;
  std::set<std::uint64_t> watched_, draining_, revoked_;
  std::vector<std::byte> last_packet_;
  std::uint64_t last_ = 0;
  int misuses_ = 0;
};

}  // namespace ripc::internal::core
