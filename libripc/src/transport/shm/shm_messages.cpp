// SPDX-License-Identifier: Apache-2.0
// What the shared-memory transport does with each control message. All of it runs in the responder.
#include <sys/socket.h>
#include <unistd.h>

#include "transport/shm/shm_transport.hpp"

namespace ripc::internal::shm {

namespace {

// Links from one context to one service. An honest context has one open link; others may be closed and not emptied yet.
constexpr std::size_t kMaxLinks = 8;

// The status of an answer to a greeting, to a request for a link or to a fence.
ripc_status believable(ripc_status status) noexcept { return spi::checked_answer(status, RIPC_VERSION_MISMATCH); }

}  // namespace

bool ShmTransport::handle(const PeerPointer& peer, Received& received) {
  Result<wire::shm_control::Message> decoded =
      wire::shm_control::decode(std::span(received.bytes).first(received.size));
  if (!decoded.ok()) {
    if (decoded.status() == RIPC_VERSION_MISMATCH && !peer->greeted) {
      if (peer->incoming) {
        (void)send_message(*peer->connection, wire::shm_control::HelloReply{.context = options_.context,
                                                                            .pid = static_cast<std::uint32_t>(getpid()),
                                                                            .flags = 0,
                                                                            .status = RIPC_VERSION_MISMATCH});
      }
      lose(peer,
           Status(RIPC_VERSION_MISMATCH,
                  "The peer speaks another version of the control protocol: run the same libripc on both sides."));
      return true;
    }
    return false;
  }
  return std::visit(
      [&](const auto& message) -> bool {
        using T = std::decay_t<decltype(message)>;
        constexpr bool kGreeting =
            std::is_same_v<T, wire::shm_control::Hello> || std::is_same_v<T, wire::shm_control::HelloReply>;
        // A context that ends tells every connected peer, also those that it has not greeted yet.
        constexpr bool kMayComeFirst = kGreeting || std::is_same_v<T, wire::shm_control::Bye>;
        if (!kMayComeFirst && !peer->greeted) return false;
        return wire::fields::accepts([&] {
          if constexpr (requires { on(peer, message, received); }) {
            return on(peer, message, received);
          } else {
            return on(peer, message);
          }
        });
      },
      *decoded);
}

void ShmTransport::on(const PeerPointer& peer, const wire::shm_control::Bye&) {
  lose(peer, Status(RIPC_PEER_DEAD, "The process that held the service has ended."));
}

void ShmTransport::on(const PeerPointer& peer, const wire::shm_control::ArenaGone& message) {
  peer->connection->remove_foreign_arena(message.id);
}

bool ShmTransport::on(const PeerPointer& peer, const wire::shm_control::Hello& message) {
  if (!peer->incoming || peer->greeted || peer->context != 0 || message.context == 0) return false;
  const bool is_admitted = admits(peer->connection->credentials());
  wire::shm_control::HelloReply reply{.context = options_.context,
                                      .pid = static_cast<std::uint32_t>(getpid()),
                                      .flags = static_cast<std::uint32_t>(peer->connection->process().reach()),
                                      .status = !peer->refused && is_admitted ? RIPC_OK : RIPC_REFUSED};
  if (reply.status != RIPC_OK) {
    if (!is_admitted) security::Counters::add(options_.credentials.counters->handshakes_refused);
    (void)send_message(*peer->connection, reply);
    lose(peer, Status(RIPC_REFUSED));
    return true;
  }
  peer->connection->set_reach_of_peer(static_cast<Reach>(message.flags));
  // Once the peer has the answer, it can be reached over this connection, but nothing may be sent before the answer.
  const std::lock_guard lock(mutex_);
  (void)send_message(*peer->connection, reply);
  peer->context = message.context;
  peer->locator = context_locator(message.context);
  peer->greeted = true;
  changed_.notify_all();
  return true;
}

bool ShmTransport::on(const PeerPointer& peer, const wire::shm_control::HelloReply& message) {
  if (peer->incoming || peer->greeted) return false;
  Status failure;
  if (message.status == RIPC_REFUSED) {
    failure =
        Status(RIPC_REFUSED,
               "The process that holds the service does not admit this one: it is connected to max_peers processes, "
               "or its peer policy (RIPC_PEERS=group or any) excludes this user.");
  } else if (message.status != RIPC_OK) {
    failure = believable(message.status);
  } else if (message.context != peer->context) {
    failure = Status(RIPC_PEER_DEAD, "Another process answers at the address of the service.");
  } else if (!admits(peer->connection->credentials())) {
    security::Counters::add(options_.credentials.counters->handshakes_refused);
    failure = Status(RIPC_REFUSED,
                     "The service belongs to a user that this context does not admit: set RIPC_PEERS to group "
                     "or any if that user is trusted.");
  }
  if (!failure.ok()) {
    lose(peer, failure);
    return true;
  }
  peer->connection->set_reach_of_peer(static_cast<Reach>(message.flags));
  const std::lock_guard lock(mutex_);
  peer->greeted = true;
  changed_.notify_all();
  return true;
}

void ShmTransport::on(const PeerPointer& peer, const wire::shm_control::Open& message) {
  std::array<int, 3> descriptors{};
  UniqueFd memory;
  UniqueFd doorbell;
  Result<wire::shm_control::Opened> opened = accept_link(peer, message, descriptors, memory, doorbell);
  if (opened.ok()) {
    (void)send_message(*peer->connection, *opened, descriptors);
    return;
  }
  wire::shm_control::Opened refusal;
  refusal.request = message.request;
  refusal.link = message.link;
  refusal.status = opened.status().code();
  (void)send_message(*peer->connection, refusal);
}

Result<wire::shm_control::Opened> ShmTransport::accept_link(const PeerPointer& peer,
                                                            const wire::shm_control::Open& message,
                                                            std::array<int, 3>& descriptors,
                                                            UniqueFd& memory_descriptor,
                                                            UniqueFd& doorbell_descriptor) {
  const std::lock_guard lock(mutex_);
  ShmPort* const found = ports_.find(message.service);
  if (found == nullptr || found->closed()) return RIPC_NO_SERVICE;
  if (peer->sources.contains(message.link)) return RIPC_CORRUPT;
  ShmPort& port = *found;
  const spi::PortOptions& options = port.options();
  if (port.statistics().sources >= options.max_senders || port.sources_of(*peer->connection) >= kMaxLinks)
    return RIPC_REFUSED;
  if (!peer_table_.may_call(*peer->entry, options.name, message.service)) return RIPC_REFUSED;

  const Geometry geometry{options.queue_messages, options.queue_bytes};
  Result<SharedMemory> memory = create_shared_memory("ripc-queue", geometry.total(), PeerAccess::read_write);
  if (!memory.ok()) return memory.status();
  std::array<int, 2> bell{-1, -1};
  if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, bell.data()) != 0)
    return system_error(errno, "socketpair", "raise `ulimit -n`");
  UniqueFd doorbell(bell[0]);
  doorbell_descriptor.reset(bell[1]);

  wire::shm_control::Opened opened{.request = message.request,
                                   .status = RIPC_OK,
                                   .link = message.link,
                                   .incarnation = port.incarnation(),
                                   .cells = geometry.cells,
                                   .data_bytes = geometry.data_bytes,
                                   .state_slot = port.state().index_in_page(),
                                   .flags = port.registration() & ~kSenderMustFence};
  if (must_fence_) opened.flags |= kSenderMustFence;
  memory_descriptor = std::move(memory->fd);
  descriptors = {memory_descriptor.get(), doorbell_descriptor.get(), port.state().page_descriptor()};

  auto source = std::make_shared<ShmSource>(ShmSource::Parts{.connection = peer->connection,
                                                             .context = peer->context,
                                                             .locator = peer->locator,
                                                             .peers = &peer_table_,
                                                             .peer = peer->entry,
                                                             .service = message.service,
                                                             .link = message.link,
                                                             .geometry = geometry,
                                                             .memory = std::move(memory->mapping),
                                                             .doorbell = std::move(doorbell)});
  peer->sources[message.link] = source;
  Status status = port.add_source(std::move(source));
  if (status.ok()) return opened;
  peer->sources.erase(message.link);
  return status;
}

bool ShmTransport::on(const PeerPointer& peer, const wire::shm_control::Arena& message, Received& received) {
  if (!received.descriptors[0] && !received.descriptors_lost) return false;
  const Status status = peer->connection->add_foreign_arena(message.id, static_cast<std::size_t>(message.size),
                                                            (message.flags & wire::shm_control::kArenaHugePages) != 0,
                                                            received.descriptors[0].get());
  if (!status.ok()) return false;
  // Pulls may be waiting for it.
  const std::lock_guard lock(mutex_);
  for (const auto& [link, source] : peer->sources) wake_port(source->service());
  return true;
}

bool ShmTransport::on(const PeerPointer& peer, const wire::shm_control::Opened& message, Received& received) {
  const std::lock_guard lock(mutex_);
  const ripc_status status =
      message.status == RIPC_OK && received.descriptors_lost ? RIPC_NO_DESCRIPTORS : believable(message.status);
  changed_.notify_all();
  return questions_.answer(message.request, peer, status, [&](Answer& answer) {
    answer.opened = message;
    answer.descriptors = std::move(received.descriptors);
  });
}

void ShmTransport::on(const PeerPointer& peer, const wire::shm_control::Room& message) {
  if (const auto sender = channel(peer, message.link)) host_->room(*sender);
}

void ShmTransport::on(const PeerPointer& peer, const wire::shm_control::TransferDone& message) {
  if (const auto owner = channel(peer, message.link)) owner->transfers_finished();
}

void ShmTransport::on(const PeerPointer& peer, const wire::shm_control::CloseLink& message) {
  const std::lock_guard lock(mutex_);
  const auto found = peer->sources.find(message.link);
  if (found == peer->sources.end()) return;
  found->second->mark_dead();
  look_at_sources(found->second->service());
  peer->sources.erase(found);
}

void ShmTransport::on(const PeerPointer& peer, const wire::shm_control::LinkClosed& message) {
  const auto lost = channel(peer, message.link);
  if (lost && lost->mark_dead()) host_->channel_lost(*lost, RIPC_CLOSED);
}

void ShmTransport::on(const PeerPointer& peer, const wire::shm_control::BounceRequest& message, Received& received) {
  wire::shm_control::BounceData data{.link = message.link,
                                     .key = message.key,
                                     .offset = message.offset,
                                     .status = RIPC_REVOKED,
                                     .sequence = message.sequence,
                                     .length = 0};
  if (const auto owner = channel(peer, message.link))
    data = owner->serve_bounce(message, std::move(received.descriptors[0]));
  (void)send_message(*peer->connection, data);
}

void ShmTransport::on(const PeerPointer& peer, const wire::shm_control::BounceData& message) {
  const std::lock_guard lock(mutex_);
  const auto found = peer->sources.find(message.link);
  if (found == peer->sources.end()) return;
  found->second->bounce_arrived(message);
  wake_port(found->second->service());
}

void ShmTransport::on(const PeerPointer& peer, const wire::shm_control::Control& message) {
  std::shared_ptr<ShmSource> source;
  {
    const std::lock_guard lock(mutex_);
    const auto found = peer->sources.find(message.link);
    if (found == peer->sources.end() || found->second->service() != message.destination) return;
    source = found->second;
  }
  host_->control_packet(*source, message.destination, message.packet);
}

void ShmTransport::on(const PeerPointer& peer, const wire::shm_control::Fence& message) {
  const ripc_status status = host_->fenced(message.service, message.incarnation);
  (void)send_message(*peer->connection, wire::shm_control::Fenced{.request = message.request, .status = status});
}

bool ShmTransport::on(const PeerPointer& peer, const wire::shm_control::Fenced& message) {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
  return questions_.answer(message.request, peer, believable(message.status), [](Answer&) {});
}

}  // namespace ripc::internal::shm
