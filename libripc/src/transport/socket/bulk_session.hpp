// SPDX-License-Identifier: Apache-2.0
// What is behind BulkPeer: the connections of one session, and what is done with the frames that they bring.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "remote/bulk/dialling.hpp"
#include "remote/bulk/exposure_table.hpp"
#include "remote/bulk/finish_table.hpp"
#include "remote/bulk/grant_table.hpp"
#include "remote/link/repeater.hpp"
#include "remote/session/silence.hpp"
#include "transport/socket/bulk_connection.hpp"
#include "transport/socket/bulk_peer.hpp"
#include "transport/socket/pull_scheduler.hpp"
#include "transport/socket/stream_push_table.hpp"

namespace ripc::socket {

// The calls are BulkPeer's, which says what they do. The books never call each other; each has its own lock, and the
// session's is never held while one of them is called.
class BulkSession final : public BulkConnection::Handler, public std::enable_shared_from_this<BulkSession> {
 public:
  BulkSession(EventLoop& loop, remote::BulkHooks hooks, const BulkOptions& options)
      : loop_(loop), hooks_(std::move(hooks)), options_(options) {}
  // Before any other call. Throws std::bad_alloc.
  void start();

  void adopt(UniqueFd socket) noexcept;
  void dial_failed() noexcept;
  void died() noexcept;

  void told(std::uint64_t transfer, spi::Gather packet) noexcept { repeater_.told(transfer, packet); }
  ripc_status begin(std::span<const wire::Descriptor> items, EventSet& events) noexcept;
  ripc_status pull(spi::Pull& pull, EventSet& events) noexcept;
  ripc_status finish(const wire::Descriptor& descriptor, ripc_status status, EventSet& events) noexcept;
  ripc_status push(const wire::Grant& grant, spi::Bytes bytes) noexcept;

  remote::ExposureTable& transfers() noexcept { return transfers_; }
  remote::GrantTable& grants() noexcept { return grants_; }
  PullScheduler& pulls() noexcept { return pulls_; }
  remote::FinishTable& finishes() noexcept { return finishes_; }

  std::size_t connection_count() const noexcept;
  BulkCounters counters() const noexcept;

  // ---- BulkConnection::Handler ----
  bool frame(BulkConnection& connection, const wire::bulk::Frame& frame,
             std::shared_ptr<Destination>& destination) noexcept override;
  bool payload(BulkConnection& connection, const wire::bulk::Frame& frame, ripc_status status) noexcept override;
  Reading read(const Job& job) noexcept override;
  void unreadable(const Job& job) noexcept override;
  void unwritable(BulkConnection& connection, const wire::bulk::Frame& frame) noexcept override;
  void lost(BulkConnection& connection, bool violation) noexcept override;

  // Responder, for the watch over silent connections. Throws std::bad_alloc: look again.
  void look_for_silence();

 private:
  struct Member {
    std::shared_ptr<BulkConnection> connection;
    remote::Silence silence{};
  };

  std::shared_ptr<BulkConnection> choose() noexcept;
  bool has_backlog() const noexcept;
  void recover() noexcept;
  void dial_if_needed() noexcept;
  void dial() noexcept;
  void tell(const remote::ExposureTable::Watcher& watcher) noexcept;

  EventLoop& loop_;
  const remote::BulkHooks hooks_;
  const BulkOptions options_;
  const std::shared_ptr<BulkTally> tally_ = std::make_shared<BulkTally>();

  remote::ExposureTable transfers_;
  remote::Repeater repeater_{loop_, transfers_, hooks_};
  remote::GrantTable grants_;
  remote::FinishTable finishes_;
  PullScheduler pulls_{finishes_};
  StreamPushTable pushes_;

  mutable std::mutex mutex_;  // for the following
  std::vector<Member> connections_;
  std::size_t turn_ = 0;
  std::atomic<bool> dead_{false};
  remote::Dialling dialling_{loop_, hooks_, dead_};
  remote::SilenceWatch silence_{loop_, options_.stall_timeout};
  std::atomic<std::uint64_t> connections_made_{0};
  std::atomic<std::uint64_t> connections_lost_{0};
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::uint64_t> violations_{0};
};

}  // namespace ripc::socket
