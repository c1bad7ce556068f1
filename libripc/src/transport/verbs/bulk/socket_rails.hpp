// SPDX-License-Identifier: Apache-2.0
// The rails of sockets of one session over RDMA, where both sides ask for them (RIPC_RAILS). Each has one TCP
// connection, which carries segments of large items in both directions. Everything else uses RDMA as long as there is
// an RDMA connection. Without one, items of every size and Finishes go over these rails.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.hpp"
#include "base/event_loop.hpp"
#include "remote/bulk/exposure_table.hpp"
#include "remote/bulk/finish_table.hpp"
#include "remote/bulk/silence.hpp"
#include "remote/bulk/stream_connection.hpp"
#include "remote/session/endpoint.hpp"
#include "transport/verbs/bulk/rdma_pull_table.hpp"

namespace ripc::internal::verbs {

class SocketRails final : public remote::StreamConnection::Handler {
 public:
  // Responder, without locks held.
  struct Hooks {
    // Something may have been enqueued for RDMA, so its connections must be flushed.
    std::function<void()> flush;
    // A connection has come or gone, which may matter to whatever waits for one.
    std::function<void()> changed;
    // A transfer has ended: it was finished, or its memory cannot be read.
    std::function<void(const remote::ExposureTable::Watcher&)> ended;
  };

  // The tables belong to the same session, whose object owns this. Ends a connection that owes something and is silent
  // for `patience`.
  SocketRails(RdmaPullTable& pulls, remote::ExposureTable& transfers, remote::FinishTable& finishes, EventLoop& loop,
              Nanoseconds patience, Hooks hooks) noexcept
      : pulls_(pulls),
        transfers_(transfers),
        finishes_(finishes),
        loop_(loop),
        patience_(patience),
        hooks_(std::move(hooks)) {}

  // Responder. A connection of the session whose handshake is over. It replaces a connection to the same address.
  // `self`: this object, sharing ownership of the session's object.
  void adopt(remote::SecureSocket socket, std::weak_ptr<Handler> self) noexcept;
  // Any. The session ends. Idempotent.
  void close() noexcept;

  // Any.
  bool empty() const noexcept;
  bool has(const remote::Endpoint& peer) const noexcept;
  // The oldest connection; null: there is none.
  std::shared_ptr<remote::StreamConnection> first() const noexcept;
  // Any. Changes with every byte that is received or sent.
  std::uint64_t activity() const noexcept;
  // Any. Throws std::bad_alloc.
  void add_to(std::vector<spi::RailReport>& rails) const;
  // Responder. Call it repeatedly while it returns true, which means that something is owed. Ends the connections that
  // are silent at `looks` calls in a row. Throws std::bad_alloc.
  bool look_for_silence(unsigned looks);
  // Any. Whether any connection was active during the last `looks` looks.
  bool is_any_active(unsigned looks) const noexcept;

  // ---- StreamConnection::Handler ----
  bool frame(remote::StreamConnection& connection, const wire::bulk::Frame& frame,
             std::shared_ptr<remote::Destination>& destination) noexcept override;
  bool payload(remote::StreamConnection& connection, const wire::bulk::Frame& frame,
               ripc_status status) noexcept override;
  remote::Reading read(const remote::Job& job) noexcept override;
  void unreadable(const remote::Job& job) noexcept override;
  void unwritable(remote::StreamConnection& connection, const wire::bulk::Frame& frame) noexcept override;
  void lost(remote::StreamConnection& connection, bool violation) noexcept override;

 private:
  using ConnectionPointer = std::shared_ptr<remote::StreamConnection>;
  struct Member {
    ConnectionPointer connection;
    remote::Endpoint local;
    remote::Endpoint peer;
    remote::Silence silence{};
  };

  RdmaPullTable& pulls_;
  remote::ExposureTable& transfers_;
  remote::FinishTable& finishes_;
  EventLoop& loop_;
  const Nanoseconds patience_;
  const Hooks hooks_;
  const std::shared_ptr<remote::StreamTally> tally_ = std::make_shared<remote::StreamTally>();

  mutable std::mutex mutex_;  // for the following; before the table's
  bool closed_ = false;
  std::vector<Member> members_;
};

}  // namespace ripc::internal::verbs
