// SPDX-License-Identifier: Apache-2.0
#include "network/udp_channel.hpp"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>

namespace ripc::network {

UdpChannel::UdpChannel(Parts parts, LinkSocket socket, std::uint32_t peer_packet_limit)
    : LinkChannel(std::move(parts), std::min<std::size_t>(socket.packet_limit(), peer_packet_limit)),
      socket_(std::move(socket)) {}

void UdpChannel::count_call() noexcept {
  send_calls_.store(send_calls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void UdpChannel::note_limit(ripc_status status) noexcept {
  if (status == RIPC_TOO_LARGE)
    packet_limit_.store(std::min(socket_.packet_limit(), packet_limit()), std::memory_order_relaxed);
}

ripc_status UdpChannel::transmit(const wire::datagram::Header& header, spi::Gather packet) noexcept {
  if (header.kind == wire::datagram::Kind::data) [[likely]]
    count_call();
  const ripc_status status = socket_.send(header, packet);
  note_limit(status);
  return status;
}

ripc_status UdpChannel::send_many(std::span<const wire::Plain> messages, std::size_t& sent, bool& woke) noexcept {
  sent = 0;
  LinkBatch batch;
  std::array<std::uint32_t, LinkBatch::kMost> costs;
  const auto fits = [this](const wire::Plain& message) {
    return message.packet_size() <= packet_limit() && message.items.size() <= LinkBatch::kMostItems;
  };
  if (messages.empty()) return RIPC_OK;
  if (!fits(messages.front())) {
    const ripc_status status = send_plain(messages.front(), woke);
    if (status == RIPC_OK) sent = 1;
    return status;
  }
  const std::lock_guard lock(mutex_);
  if (const ripc_status status = room_locked(cost_of(messages.front().packet_size())); status != RIPC_OK) return status;
  const std::uint64_t offer = take_offer();
  std::uint32_t total = 0;
  for (const wire::Plain& message : messages) {
    const std::uint32_t cost = cost_of(message.packet_size());
    if (batch.full() || !fits(message) || room_locked(total + cost) != RIPC_OK) break;
    costs[batch.size()] = cost;
    total += cost;
    const auto sequence = sequence_ + 1 + static_cast<std::uint32_t>(batch.size());
    batch.add(header_locked(sequence, purse_.spent() + total, batch.size() == 0 ? offer : 0), message);
  }
  count_call();
  const ripc_status status = socket_.send(batch, segment_, sent);
  note_limit(status);
  sent_locked(std::span(costs).first(sent), status);
  if (sent != 0) return RIPC_OK;
  give_back(offer);
  return status;
}

bool UdpChannel::read_grants() noexcept {
  wire::datagram::Header header;
  for (;;) {
    const ripc_status status = socket_.receive(header);
    if (status == RIPC_EMPTY) return true;
    if (status == RIPC_PEER_DEAD) return false;
    if (status == RIPC_OK && header.kind == wire::datagram::Kind::credit && header.token == parts_.token &&
        header.credit_link == parts_.link)
      (void)purse_.grant(header.credit);
  }
}

bool UdpChannel::can_transmit() noexcept {
  pollfd writable{socket_.fd(), POLLOUT, 0};
  return poll(&writable, 1, 0) > 0;
}

Status UdpChannel::watch_grants(std::function<void()> look) {
  return parts_.loop->add(socket_.fd(), EPOLLIN | EPOLLOUT | EPOLLET,
                          [look = std::move(look)](std::uint32_t) { look(); });
}

std::string UdpChannel::describe() const {
  return "sockets, " + Endpoint::local_of(socket_.fd()).text() + " to " + Endpoint::remote_of(socket_.fd()).text() +
         "; UDP packets of up to " + std::to_string(packet_limit()) + " bytes, " + parts_.session->bulk->describe();
}

}  // namespace ripc::network
