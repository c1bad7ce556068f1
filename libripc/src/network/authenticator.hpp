// SPDX-License-Identifier: Apache-2.0
// Proves in the handshake of a connection that both ends have the cluster key. Without a key all proofs are zero.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/cluster_key.hpp"
#include "wire/session.hpp"

namespace ripc::network {

// Any thread.
class Authenticator {
 public:
  explicit Authenticator(std::shared_ptr<const ClusterKeys> keys) noexcept : keys_(std::move(keys)) {}

  bool has_keys() const noexcept { return keys_ != nullptr; }

  // Fills in the proof of whoever answers.
  void sign(const wire::session::Hello& hello, wire::session::HelloReply& reply) const;
  bool verify(const wire::session::Hello& hello, const wire::session::HelloReply& reply) const;

  // The proof of whoever asked.
  wire::session::Confirm confirm(const wire::session::Hello& hello, const wire::session::HelloReply& reply) const;
  // Counts what is wrong.
  bool verify(const wire::session::Hello& hello, const wire::session::HelloReply& reply,
              const wire::session::Confirm& confirm);

  // Handshakes refused because of a missing or wrong proof.
  std::uint64_t refused() const noexcept { return refused_.load(std::memory_order_relaxed); }
  void count_refused() noexcept { refused_.fetch_add(1, std::memory_order_relaxed); }

 private:
  std::shared_ptr<const ClusterKeys> keys_;
  std::atomic<std::uint64_t> refused_{0};
};

wire::session::Nonce random_nonce() noexcept;

}  // namespace ripc::network
