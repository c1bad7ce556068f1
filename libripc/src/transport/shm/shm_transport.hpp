// SPDX-License-Identifier: Apache-2.0
// The shared-memory transport. Contexts of one host find each other's sockets in the runtime directory and exchange
// control messages and descriptors over them. Then they talk through memory. Protocol: docs/wire.md.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/fork_guard.hpp"
#include "base/runtime_directory.hpp"
#include "base/standing_timer.hpp"
#include "memory/pool.hpp"
#include "security/credentials.hpp"
#include "spi/peer.hpp"
#include "spi/port_table.hpp"
#include "spi/question_table.hpp"
#include "spi/transport.hpp"
#include "transport/shm/control_connection.hpp"
#include "transport/shm/service_state.hpp"
#include "transport/shm/shm_channel.hpp"
#include "transport/shm/shm_port.hpp"
#include "wire/shm_control.hpp"

namespace ripc::internal::shm {

struct TransportOptions {
  std::uint64_t context = 0;  // this context's id
  std::uint32_t peer_policy = RIPC_PEERS_SAME_USER;
  std::uint32_t max_peers = 4096;
  security::Credentials credentials = {};  // the trust file may name users
};

// "#CONTEXT": the address of a context in the reader's runtime directory.
std::string context_locator(std::uint64_t context);

class ShmTransport final : public spi::Transport {
 public:
  // `pool`: the context's, which outlives the transport.
  ShmTransport(std::shared_ptr<RuntimeDirectory> directory, const TransportOptions& options, memory::Pool& pool);
  ~ShmTransport() override;

  Status start(spi::Host& host, EventLoop& loop) override;
  void stop() noexcept override;
  spi::Address address() const override;
  bool may_lead(const spi::Address& address) const noexcept override;
  Result<std::unique_ptr<spi::Port>> open_port(const spi::PortOptions& options, EventSet& events) override;
  Result<spi::Connected> connect(std::span<const spi::Address> addresses, ripc_service_id id,
                                 Deadline deadline) override;
  Status fence(const spi::Address& address, ripc_service_id id, std::uint64_t incarnation, Deadline deadline) override;

 private:
  // One connected context.
  struct Peer {
    Peer(UniqueFd socket, ForkGuard guard)
        : connection(std::make_shared<ControlConnection>(std::move(socket), std::move(guard))) {}
    std::shared_ptr<ControlConnection> connection;
    bool incoming = false;
    bool greeted = false;  // Hello, or its answer, has arrived
    bool lost = false;
    bool refused = false;  // there are max_peers already
    Status failure;        // why it was lost
    std::uint64_t context = 0;
    std::string locator;
    const spi::Peer* entry = nullptr;  // who it is
    std::map<std::uint64_t, std::weak_ptr<ShmChannel>> channels;
    std::unordered_map<std::uint64_t, std::shared_ptr<ShmSource>> sources;  // by the peer's link
  };
  using PeerPointer = std::shared_ptr<Peer>;

  // What a peer answers to Open. The answer to Fence has no content.
  struct Answer {
    wire::shm_control::Opened opened;
    std::array<UniqueFd, kMaxDescriptors> descriptors;
  };
  using Questions = spi::QuestionTable<PeerPointer, Answer>;
  // Any thread. Asks, and waits for the answer. RIPC_TIMEOUT: no answer came in time.
  template <typename Ask>
  Result<Questions::QuestionPointer> ask(const PeerPointer& peer, Ask message, Deadline deadline);

  // The connected context, after the greeting. Without `greeted`, perhaps before it: what is sent then follows the
  // greeting.
  Result<PeerPointer> connect_peer(const std::string& locator, Deadline deadline, bool greeted = true);
  // Under the mutex. The connection of a context; nullptr: none.
  enum class IdentityCheck { proven, claimed };
  PeerPointer greeted_peer(std::uint64_t context, IdentityCheck check) const;
  // The runtime directory with this path; empty: this context's.
  Result<std::shared_ptr<RuntimeDirectory>> directory_at(const std::string& path);
  Status adopt(const PeerPointer& peer);
  // The side that has connected says Hello.
  ripc_status greet(const Peer& peer) const;
  bool admits(const Credentials& credentials) const noexcept;
  void accept_all();
  UniqueFd accept(ForkGuard& guard);
  void refuse_without_descriptors();
  void on_event(const PeerPointer& peer, std::uint32_t events) noexcept;
  void tell_room(const Peer& peer) noexcept;
  void receive_all(const PeerPointer& peer);
  void lose(const PeerPointer& peer, Status reason) noexcept;
  // If the trust file has changed, ends the connections of peers that it now gives another identity or keeps out.
  void look_at_trust() noexcept;
  bool is_still_admitted(const Peer& peer) const;  // under the mutex
  // Waits, in any thread, until `done` (checked under the mutex) or the deadline.
  bool wait(const std::function<bool()>& done, Deadline deadline);
  Result<std::shared_ptr<ShmChannel>> connect_to(const std::string& locator, ripc_service_id id, Deadline deadline);
  Result<std::shared_ptr<ShmChannel>> open_link(const PeerPointer& peer, ripc_service_id id, Deadline deadline);
  std::shared_ptr<ShmChannel> open_channel(const Peer& peer, ripc_service_id id) const;  // under the mutex
  Result<std::shared_ptr<ShmChannel>> make_channel(const PeerPointer& peer, ripc_service_id id, Answer& answer);

  // Messages. False: the peer broke the protocol.
  bool handle(const PeerPointer& peer, Received& received);
  bool on(const PeerPointer& peer, const wire::shm_control::Hello& message);
  void on(const PeerPointer& peer, const wire::shm_control::Bye& message);
  void on(const PeerPointer& peer, const wire::shm_control::ArenaGone& message);
  bool on(const PeerPointer& peer, const wire::shm_control::HelloReply& message);
  void on(const PeerPointer& peer, const wire::shm_control::Open& message);
  bool on(const PeerPointer& peer, const wire::shm_control::Opened& message, Received& received);
  bool on(const PeerPointer& peer, const wire::shm_control::Arena& message, Received& received);
  void on(const PeerPointer& peer, const wire::shm_control::Room& message);
  void on(const PeerPointer& peer, const wire::shm_control::TransferDone& message);
  void on(const PeerPointer& peer, const wire::shm_control::CloseLink& message);
  void on(const PeerPointer& peer, const wire::shm_control::LinkClosed& message);
  void on(const PeerPointer& peer, const wire::shm_control::BounceRequest& message, Received& received);
  void on(const PeerPointer& peer, const wire::shm_control::BounceData& message);
  void on(const PeerPointer& peer, const wire::shm_control::Control& message);
  void on(const PeerPointer& peer, const wire::shm_control::Fence& message);
  bool on(const PeerPointer& peer, const wire::shm_control::Fenced& message);

  Result<wire::shm_control::Opened> accept_link(const PeerPointer& peer, const wire::shm_control::Open& message,
                                                std::array<int, 3>& descriptors, UniqueFd& memory_descriptor,
                                                UniqueFd& doorbell_descriptor);
  std::shared_ptr<ShmChannel> channel(const PeerPointer& peer, std::uint64_t link);
  // Under the mutex.
  void wake_port(ripc_service_id service) noexcept;
  void look_at_sources(ripc_service_id service) noexcept;

  std::shared_ptr<RuntimeDirectory> directory_;
  TransportOptions options_;
  memory::Pool& pool_;
  spi::PeerTable peer_table_;
  spi::Host* host_ = nullptr;
  EventLoop* loop_ = nullptr;
  UniqueFd listener_;
  StandingTimer accept_timer_;
  UniqueFd reserve_;  // closed to have a descriptor when no other is left
  ForkGuard listener_guard_;
  StandingTimer trust_timer_;
  std::uint64_t trust_changes_ = 0;  // seen; the responder's
  bool must_fence_ = false;
  Received received_;  // the responder's
  ServiceStateTable states_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
  std::uint64_t next_link_ = 1;
  std::vector<PeerPointer> peers_;
  std::unordered_map<std::string, PeerPointer> outgoing_;  // by locator
  Questions questions_;
  spi::PortTable<ShmPort> ports_;
  std::unordered_map<std::string, std::shared_ptr<RuntimeDirectory>> other_directories_;
};

}  // namespace ripc::internal::shm
