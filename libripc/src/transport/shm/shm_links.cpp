// SPDX-License-Identifier: Apache-2.0
// The links to the services of a peer: they are made by a question and its answer, and ended by a fence.
#include <new>

#include "transport/shm/shm_transport.hpp"

namespace ripc::internal::shm {

Result<spi::Connected> ShmTransport::connect(std::span<const spi::Address> addresses, ripc_service_id id,
                                             Deadline deadline) {
  Status failure = RIPC_NO_SERVICE;
  for (const spi::Address& address : addresses) {
    Result<std::shared_ptr<ShmChannel>> channel = connect_to(address.locator, id, deadline);
    if (channel.ok())
      return spi::Connected{.channel = std::move(*channel), .address = address, .is_on_this_host = true};
    failure = channel.status();
  }
  return failure;
}

Result<std::shared_ptr<ShmChannel>> ShmTransport::connect_to(const std::string& locator, ripc_service_id id,
                                                             Deadline deadline) {
  Result<PeerPointer> connected = connect_peer(locator, deadline);
  if (!connected.ok()) return connected.status();
  const PeerPointer& peer = *connected;
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return RIPC_CLOSED;
    if (peer->lost) return RIPC_PEER_DEAD;
    if (auto open = open_channel(*peer, id)) return open;
  }
  return open_link(peer, id, deadline);
}

std::shared_ptr<ShmChannel> ShmTransport::open_channel(const Peer& peer, ripc_service_id id) const {
  for (const auto& [link, weak] : peer.channels) {
    auto channel = weak.lock();
    if (channel && channel->service() == id && channel->alive()) return channel;
  }
  return nullptr;
}

template <typename Ask>
Result<ShmTransport::Questions::QuestionPointer> ShmTransport::ask(const PeerPointer& peer, Ask message,
                                                                   Deadline deadline) {
  auto question = std::make_shared<Questions::Question>(peer);
  {
    const std::lock_guard lock(mutex_);
    if (peer->lost) return RIPC_PEER_DEAD;
    message.request = questions_.add(question);
  }
  const ripc_status sent = send_message(*peer->connection, message);
  const bool is_over = sent == RIPC_OK && wait([&] { return question->answered; }, deadline);
  const std::lock_guard lock(mutex_);
  if (Status status = questions_.take_out(message.request, *question, sent, is_over); !status.ok()) return status;
  return question;
}

Result<std::shared_ptr<ShmChannel>> ShmTransport::open_link(const PeerPointer& peer, ripc_service_id id,
                                                            Deadline deadline) {
  std::uint64_t link = 0;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(peer->channels, [](const auto& entry) { return entry.second.expired(); });
    if (peer->channels.size() >= spi::most_links()) return spi::too_many_links();
    link = next_link_++;
  }
  const auto opened = ask(peer, wire::shm_control::Open{.service = id, .link = link}, deadline);
  Result<std::shared_ptr<ShmChannel>> channel = RIPC_NO_MEMORY;
  try {
    if (opened.ok()) {
      channel = make_channel(peer, id, (*opened)->answer);
    } else {
      channel = opened.status();
    }
  } catch (const std::bad_alloc&) {
    // There is no channel.
  }
  if (channel.ok()) return channel;
  // The peer may have made a queue for it, or may still make one. The descriptors of its answer may have been lost.
  (void)send_message(*peer->connection, wire::shm_control::CloseLink{.link = link});
  if (opened.status() == RIPC_TIMEOUT) return spi::not_answering();
  if (opened.status() == RIPC_REFUSED) return spi::link_refused();
  return channel;
}

Result<std::shared_ptr<ShmChannel>> ShmTransport::make_channel(const PeerPointer& peer, ripc_service_id id,
                                                               Answer& answer) {
  const wire::shm_control::Opened& opened = answer.opened;
  ShmChannel::Parts parts;
  parts.connection = peer->connection;
  parts.loop = loop_;
  parts.host = host_;
  parts.service = id;
  parts.link = opened.link;
  parts.incarnation = opened.incarnation;
  parts.geometry = {opened.cells, opened.data_bytes};
  if (!parts.geometry.valid() || opened.state_slot >= kServicesPerStatePage)
    return Status(RIPC_CORRUPT, "The peer offered a queue of impossible size.");
  Result<Mapping> memory = map_foreign_memory(answer.descriptors[0].get(), parts.geometry.total(), true);
  if (!memory.ok()) return memory.status();
  Result<Mapping> state = map_foreign_memory(answer.descriptors[2].get(), kStatePageSize, false);
  if (!state.ok()) return state.status();
  parts.memory = std::move(*memory);
  parts.state_page = std::move(*state);
  parts.state_slot = opened.state_slot;
  parts.registration = opened.flags & ~kSenderMustFence;
  parts.must_fence = must_fence_ || (opened.flags & kSenderMustFence) != 0;
  parts.doorbell = std::move(answer.descriptors[1]);
  auto channel = std::make_shared<ShmChannel>(std::move(parts));
  channel->start();
  const std::lock_guard lock(mutex_);
  if (peer->lost) {
    channel->mark_dead();
    return RIPC_PEER_DEAD;
  }
  peer->channels[channel->link()] = channel;
  return channel;
}

Status ShmTransport::fence(const spi::Address& address, ripc_service_id id, std::uint64_t incarnation,
                           Deadline deadline) {
  // Sent at once, so that a stopped holder finds it when it runs again.
  Result<PeerPointer> peer = connect_peer(address.locator, deadline, false);
  if (!peer.ok()) return peer.status();
  Status status = ask(*peer, wire::shm_control::Fence{.service = id, .incarnation = incarnation}, deadline).status();
  if (status == RIPC_TIMEOUT)
    return Status(RIPC_TIMEOUT, "The former holder does not answer; it will be informed when it runs again.");
  return status;
}

}  // namespace ripc::internal::shm
