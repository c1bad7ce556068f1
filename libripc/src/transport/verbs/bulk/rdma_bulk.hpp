// SPDX-License-Identifier: Apache-2.0
// Everything long of one session over RDMA: one connection at a time, made when there is something to move, and the
// books that say what moves over it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "remote/bulk/bulk.hpp"
#include "remote/bulk/dialling.hpp"
#include "remote/bulk/exposure_table.hpp"
#include "remote/bulk/finish_table.hpp"
#include "remote/bulk/grant_table.hpp"
#include "remote/link/repeater.hpp"
#include "remote/session/silence.hpp"
#include "transport/verbs/bulk/connection.hpp"
#include "transport/verbs/bulk/pull_table.hpp"
#include "transport/verbs/bulk/rdma_push_table.hpp"

namespace ripc::verbs {

// The books never call each other; each has its own lock, and the one here is never held while one of them is called.
class RdmaBulk final : public remote::Bulk, public Connection::Handler, public std::enable_shared_from_this<RdmaBulk> {
 public:
  RdmaBulk(std::shared_ptr<Registrar> registrar, memory::Pool& pool, EventLoop& loop, remote::BulkHooks hooks,
           Nanoseconds stall_timeout);
  ~RdmaBulk() override { died(); }
  // Before any other call. Throws std::bad_alloc.
  void start();

  // Responder. A connection of this session whose handshake is over, and whether this side dialed it. Takes the place
  // of one that is there.
  void adopt(std::shared_ptr<Connection> connection, bool dialed) noexcept;
  // Any. Nothing is under way, on either side, so that the connection may go until it is needed again.
  bool idle() const noexcept;
  // Any. The connection; null: none.
  std::shared_ptr<Connection> connection() const noexcept;
  const std::shared_ptr<Registrar>& registrar() const noexcept { return registrar_; }
  const std::shared_ptr<Tally>& tally() const noexcept { return tally_; }
  // Connections made and lost; for people and tests.
  std::uint64_t connections_made() const noexcept { return made_.load(std::memory_order_relaxed); }
  std::uint64_t connections_lost() const noexcept { return lost_.load(std::memory_order_relaxed); }

  // Receiver. As pull(), but what is begun here is not read before start_pulls(): together, so that one doorbell and
  // few completions are for all of it.
  ripc_status begin_pull(spi::Pull& pull, EventSet& events) noexcept;
  void start_pulls() noexcept;

  // Any. As expose(), but the offers are sent by send_offers(), which follows soon: those of several with one doorbell.
  ripc_status expose_unsaid(std::uint64_t owner, std::span<const spi::Exposure> items,
                            std::span<wire::Descriptor> descriptors, std::uint64_t& transfer) noexcept;
  void send_offers() const noexcept;

  // Items of the peer's that can be read without asking; for tests.
  std::size_t offers() const noexcept { return pulls_.offers(); }

  // Responder, for the watch over silent connections.
  void look_for_silence() noexcept;

  // ---- remote::Bulk ----
  void dial_failed() noexcept override;
  void died() noexcept override;
  std::string describe() const override;
  ripc_status expose(std::uint64_t owner, std::span<const spi::Exposure> items, std::span<wire::Descriptor> descriptors,
                     std::uint64_t& transfer) noexcept override;
  ripc_status will_tell(std::uint64_t transfer, std::size_t size) noexcept override {
    return transfers_.will_tell(transfer, size);
  }
  void told(std::uint64_t transfer, spi::Gather packet) noexcept override { repeater_.told(transfer, packet); }
  ripc_status transfer_status(std::uint64_t transfer) noexcept override;
  bool watch(std::uint64_t transfer) noexcept override;
  ripc_status revoke(std::uint64_t transfer) noexcept override;
  ripc_status grant(std::uint64_t owner, std::span<std::byte> memory, wire::Grant& grant) noexcept override;
  ripc_status end_grant(const wire::Grant& grant) noexcept override;
  bool has_room(spi::Need need) const noexcept override;
  void end_owner(std::uint64_t owner) noexcept override;
  ripc_status begin(std::span<const wire::Descriptor> items, EventSet& events) noexcept override;
  ripc_status pull(spi::Pull& pull, EventSet& events) noexcept override;
  bool is_worth_polling(const spi::Pull& pull, Nanoseconds now, Nanoseconds budget) noexcept override;
  void abandon(spi::Pull& pull) noexcept override;
  ripc_status finish(const wire::Descriptor& descriptor, ripc_status status, EventSet& events) noexcept override;
  void forget(const EventSet& events) noexcept override;
  ripc_status push(const wire::Grant& grant, spi::Bytes bytes) noexcept override;

  // ---- Connection::Handler ----
  bool frame(Connection& connection, const wire::bulk::Frame& frame) noexcept override;
  void operation_done(Connection& connection, std::uint64_t id, ripc_status status) noexcept override;
  void room(Connection& connection) noexcept override { pulls_.room(connection); }
  void handled(Connection& connection) noexcept override;
  void lost(Connection& connection, bool violation) noexcept override;

 private:
  void look_if_polled() noexcept;
  void in_responder(Connection& connection, std::function<void(RdmaBulk&, Connection&)> task) noexcept;
  void dial_if_needed() noexcept;
  void prove() noexcept;
  void tell(const remote::ExposureTable::Watcher& watcher) noexcept;
  void offer(std::span<const wire::Descriptor> items) noexcept;
  using Telling = std::function<wire::bulk::Frame(std::uint64_t address, const RemoteKey& right)>;
  ripc_status open_item(Connection& connection, std::uint64_t key, std::uint64_t location, bool asked,
                        const Telling& telling) noexcept;
  void ask_again(Connection& connection, const wire::bulk::Frame& frame) noexcept;
  void on_finish(Connection& connection, const wire::bulk::Frame& frame) noexcept;
  void on_finished(const wire::bulk::Frame& frame) noexcept;
  void end_all(Connection& connection) noexcept;
  bool on_ask_read(Connection& connection, const wire::bulk::Frame& frame) noexcept;
  bool on_ask_write(Connection& connection, const wire::bulk::Frame& frame) noexcept;
  bool on_written(Connection& connection, const wire::bulk::Frame& frame) noexcept;

  const std::shared_ptr<Registrar> registrar_;
  memory::Pool& pool_;
  EventLoop& loop_;
  const remote::BulkHooks hooks_;
  const std::shared_ptr<Tally> tally_ = std::make_shared<Tally>();

  remote::ExposureTable transfers_;
  remote::Repeater repeater_{loop_, transfers_, hooks_};
  remote::GrantTable grants_;
  remote::FinishTable finishes_;
  PullTable pulls_;  // after finishes_
  RdmaPushTable pushes_;

  mutable std::mutex mutex_;  // for the following
  std::shared_ptr<Connection> connection_;
  std::atomic<bool> proven_{false};  // something has gone over it
  std::atomic<bool> dead_{false};
  std::atomic<bool> polled_{false};  // by a receiver that waits for bytes
  remote::Dialling dialling_{loop_, hooks_, dead_};
  std::atomic<std::uint64_t> made_{0};
  std::atomic<std::uint64_t> lost_{0};

  // The responder's, while it handles what has come: whoever is to be woken, and transfers whose Finish was answered,
  // by enqueue().
  std::vector<EventSet::Waker> wakers_;
  std::vector<remote::ExposureTable::Ending> endings_;

  remote::SilenceWatch silence_watch_;
  // The responder's: the connection that was looked at last.
  std::weak_ptr<Connection> watched_;
  remote::Silence silence_;
};

}  // namespace ripc::verbs
