// SPDX-License-Identifier: Apache-2.0
// Moves all long items of one session over RDMA. Each rail has one connection, made when there is something to move,
// and tables say what moves over them. Offers, Finishes and pushes go over the first connection. That is the one of the
// session's rail until it fails, then the oldest. So a connection that carries nothing is asked for long items only.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "remote/bulk/bulk_backend.hpp"
#include "remote/session/rails.hpp"
#include "transport/verbs/bulk/queue_pair_connection.hpp"
#include "transport/verbs/bulk/rdma_pull_table.hpp"
#include "transport/verbs/bulk/rdma_push_table.hpp"
#include "transport/verbs/bulk/socket_rails.hpp"

namespace ripc::internal::verbs {

class RdmaBulk final : public remote::BulkBackend<QueuePairConnection, RdmaPullTable, RdmaPushTable>,
                       public QueuePairConnection::Handler,
                       public std::enable_shared_from_this<RdmaBulk> {
  using Pass = QueuePairConnection::Pass;

 public:
  // `peer`: the other end of the control connection, whose rail is the first; `registrar`: of this side's device on
  // that rail.
  RdmaBulk(const remote::Endpoint& peer, std::shared_ptr<Registrar> registrar, memory::Pool& pool, EventLoop& loop,
           remote::BulkHooks hooks, Nanoseconds stall_timeout);
  ~RdmaBulk() override { died(); }
  // Before any other call. Throws std::bad_alloc.
  void start() { start_as(weak_from_this()); }
  void died() noexcept override;

  // Responder. Adds a connection of this session whose handshake is over; `dialed`: by this side. It replaces a
  // connection to the same address.
  void adopt(std::shared_ptr<QueuePairConnection> connection, bool dialed) noexcept;
  // Responder. Adds a connection of sockets to those of RDMA.
  void adopt_socket(remote::SecureSocket socket) noexcept {
    sockets_.adopt(std::move(socket), std::shared_ptr<SocketRails>(shared_from_this(), &sockets_));
  }
  const SocketRails& sockets() const noexcept { return sockets_; }
  // Any. Nothing is under way on either side, so the connections may be closed until they are needed again.
  bool idle() const noexcept;
  // Any. The first connection; null: there is none.
  std::shared_ptr<QueuePairConnection> connection() const noexcept;
  // Responder. Whether anything has moved since the last call, or is under way. If so, probes connections that are
  // silent, so that a connection which the peer has lost without notice ends here too.
  bool probe() noexcept;
  // The registrar of this side's device at the session's address; null: there is no device. move_to(): responder; the
  // session has moved.
  std::shared_ptr<Registrar> registrar() const noexcept { return registrar_.get(); }
  void move_to(std::shared_ptr<Registrar> registrar) noexcept { registrar_.set(std::move(registrar)); }
  const std::shared_ptr<Tally>& tally() const noexcept { return tally_; }
  // Any. For people: the rails that connections may use, if there are several. Reading them throws std::bad_alloc.
  void set_possible_rails(std::vector<spi::RailReport> rails) noexcept;
  std::vector<spi::RailReport> possible_rails() const;
  // Responder. The ports that have these addresses of this machine are down.
  void cut_at(const std::vector<std::string>& ips) noexcept;
  // Connections made and lost; for people and tests.
  std::uint64_t connections_made() const noexcept { return made_.load(std::memory_order_relaxed); }
  std::uint64_t connections_lost() const noexcept { return lost_.load(std::memory_order_relaxed); }

  // Receiver. Like pull(), but nothing is read before start_pulls(), which reads everything together with one doorbell
  // and few completions.
  ripc_status begin_pull(spi::Pull& pull, EventSet& events) noexcept;
  void start_pulls() noexcept;

  // Any. Sends the offers enqueued so far, with one doorbell. From then on the peer can read the exposed items without
  // asking.
  void send_offers() const noexcept;

  // As in BulkBackend; looks at connections of sockets too.
  void look_for_silence();

  // How many of the peer's items can be read without asking; for tests.
  std::size_t offers() const noexcept { return rdma_pulls_.offers(); }

  // ---- remote::Bulk ----
  void dial_failed() noexcept override;
  std::string describe() const override;
  std::vector<spi::RailReport> rails() const override;
  ripc_status expose(std::uint64_t owner, std::span<const spi::Exposure> items, std::span<wire::Descriptor> descriptors,
                     std::uint64_t& transfer) noexcept override;
  ripc_status prepare_announcement(std::uint64_t transfer, std::size_t size, bool more) noexcept override;
  ripc_status revoke(std::uint64_t transfer) noexcept override;
  ripc_status pull(spi::Pull& pull, EventSet& events) noexcept override;
  ripc_status push(const wire::Grant& grant, spi::Bytes bytes) noexcept override;

  // ---- QueuePairConnection::Handler ----
  bool frame(QueuePairConnection& connection, const wire::bulk::Frame& frame, Pass& pass) noexcept override;
  void operation_done(QueuePairConnection& connection, std::uint64_t id, ripc_status status) noexcept override;
  void room(QueuePairConnection& connection) noexcept override { pulls_.room(connection); }
  void handled(QueuePairConnection& connection, Pass& pass) noexcept override;
  void lost(QueuePairConnection& connection, bool violation) noexcept override;

 private:
  std::string device_of(const Member& member) const override { return member.connection->device().name; }
  std::uint64_t rate_of(const QueuePairConnection& connection) const noexcept override {
    return pulls_.rate_of(connection);
  }
  std::shared_ptr<QueuePairConnection> choose() noexcept override { return connection(); }
  std::shared_ptr<remote::FrameSender> substitute() noexcept override { return sockets_.first(); }
  template <typename Do>
  void for_each_connection(Do&& todo) const noexcept;
  void flush_all() noexcept;
  void frame_in_responder(QueuePairConnection& connection, const wire::bulk::Frame& frame);
  void offer(std::span<const wire::Descriptor> items) noexcept;
  using Telling = std::function<wire::bulk::Frame(std::uint64_t address, const RemoteKey& remote_key)>;
  ripc_status open_item(QueuePairConnection& connection, std::uint64_t key, std::uint64_t location, bool asked,
                        const Telling& telling) noexcept;
  void on_finish(QueuePairConnection& connection, const wire::bulk::Frame& frame, Pass& pass);
  void end_all(QueuePairConnection& connection, Pass& pass) noexcept;
  bool on_ask_read(QueuePairConnection& connection, const wire::bulk::Frame& frame);
  bool on_ask_write(QueuePairConnection& connection, const wire::bulk::Frame& frame);
  bool on_written(QueuePairConnection& connection, const wire::bulk::Frame& frame) noexcept;

  const remote::Endpoint first_peer_;
  PresentRegistrar registrar_;
  memory::Pool& pool_;
  const std::shared_ptr<Tally> tally_ = std::make_shared<Tally>();

  RdmaPullTable rdma_pulls_;
  RdmaPushTable rdma_pushes_;
  SocketRails sockets_;
  bool first_lost_ = false;                      // under mutex_: the connection to first_peer_ was lost at some time
  std::vector<spi::RailReport> possible_rails_;  // under mutex_
  std::atomic<std::uint64_t> made_{0};
  std::atomic<std::uint64_t> lost_{0};

  std::uint64_t activity_ = 0;  // the responder's: on all connections, at the last probe
};

}  // namespace ripc::internal::verbs
