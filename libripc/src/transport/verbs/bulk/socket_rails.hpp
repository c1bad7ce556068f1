// SPDX-License-Identifier: Apache-2.0
// The rails of sockets of one session over RDMA, where both sides ask for them (RIPC_RAILS). Each has one TCP
// connection, which carries segments of large items in both directions. All else stays with RDMA, as long as it has a
// connection. Without one, items of every size and Finishes go over these rails.
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
    // RDMA may have been asked for something: its connections are to be flushed.
    std::function<void()> flush;
    // What waits for a connection may find one, or has lost one.
    std::function<void()> changed;
    // A transfer has ended: it was finished, or its memory cannot be read.
    std::function<void(const remote::ExposureTable::Watcher&)> ended;
  };

  // The tables are of the same session, whose object owns this. A connection that owes something and is silent for
  // `patience` is ended.
  SocketRails(RdmaPullTable& pulls, remote::ExposureTable& transfers, remote::FinishTable& finishes, EventLoop& loop,
              Nanoseconds patience, Hooks hooks) noexcept
      : pulls_(pulls),
        transfers_(transfers),
        finishes_(finishes),
        loop_(loop),
        patience_(patience),
        hooks_(std::move(hooks)) {}

  // Responder. A connection of the session whose handshake is over. It takes the place of one to the same address.
  // `self`: this, owned with the session's object.
  void adopt(remote::SecureSocket socket, std::weak_ptr<Handler> self) noexcept;
  // Any. The session ends. Idempotent.
  void close() noexcept;

  // Any.
  bool empty() const noexcept;
  bool has(const remote::Endpoint& peer) const noexcept;
  // The one that has been there longest; null: there is none.
  std::shared_ptr<remote::StreamConnection> first() const noexcept;
  // Any. Changes with every byte that comes or goes.
  std::uint64_t activity() const noexcept;
  // Any. Throws std::bad_alloc.
  void add_to(std::vector<spi::RailReport>& rails) const;
  // Responder. To be called again and again while it returns true: something is owed. Those that are silent at so many
  // looks in a row end. Throws std::bad_alloc.
  bool look_for_silence(unsigned looks);
  // Any. Whether one was not silent at the last looks.
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
