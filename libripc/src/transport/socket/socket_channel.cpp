// SPDX-License-Identifier: Apache-2.0
#include "transport/socket/socket_channel.hpp"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

namespace ripc::socket {

namespace {

// Between two questions for room.
constexpr Nanoseconds kFirstProbe = 1'000'000;
constexpr Nanoseconds kLastProbe = 100'000'000;
// Questions lie in the receiver's buffer like packets, and cost no credit. After this many that may all be there, there
// is one in this time only.
constexpr unsigned kMostProbes = 12;
constexpr Nanoseconds kRareProbe = 1'000'000'000;

}  // namespace

SocketChannel::SocketChannel(Parts parts)
    : parts_(std::move(parts)),
      packet_limit_(std::min<std::size_t>(parts_.socket.packet_limit(), parts_.peer_packet_limit)),
      purse_(parts_.credit),
      budget_(parts_.credit) {}

SocketChannel::~SocketChannel() {
  stop_watching();
  parts_.session->remove_channel(parts_.link);
  parts_.session->bulk->end_owner(parts_.link);
  if (end_.load(std::memory_order_relaxed) != RIPC_OK) return;
  (void)parts_.session->stream.send(wire::session::CloseLink{.link = parts_.link, .sequence = sequence_});
}

ripc_status SocketChannel::send(spi::Gather packet, bool&) noexcept {
  const std::size_t size = std::accumulate(packet.begin(), packet.end(), std::size_t{0},
                                           [](std::size_t sum, spi::Bytes range) { return sum + range.size(); });
  if (size > packet_limit()) [[unlikely]]
    return RIPC_TOO_LARGE;
  const std::uint32_t cost = datagram_cost(size + wire::datagram::kHeaderSize);
  const std::lock_guard lock(mutex_);
  if (const ripc_status status = room_locked(cost); status != RIPC_OK) [[unlikely]]
    return status;
  const std::uint64_t offer = take_offer();
  const wire::datagram::Header header = header_locked(sequence_ + 1, purse_.spent() + cost, offer);
  send_calls_.store(send_calls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const ripc_status status = parts_.socket.send(header, packet);
  if (status == RIPC_OK) [[likely]] {
    ++sequence_;
    purse_.spend(cost);
    interface_full_ = false;
    return RIPC_OK;
  }
  give_back(offer);
  failed_locked(status);
  return status;
}

ripc_status SocketChannel::send_telling(std::uint64_t transfer, spi::Gather packet, bool& woke) noexcept {
  const ripc_status status = send(packet, woke);
  if (status == RIPC_OK) parts_.session->bulk->told(transfer, packet);
  return status;
}

ripc_status SocketChannel::send_many(std::span<const wire::Plain> messages, std::size_t& sent, bool& woke) noexcept {
  sent = 0;
  LinkBatch batch;
  std::array<std::uint32_t, LinkBatch::kMost> costs;
  const auto cost_of = [](const wire::Plain& message) {
    return datagram_cost(message.packet_size() + wire::datagram::kHeaderSize);
  };
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
  if (const ripc_status status = room_locked(cost_of(messages.front())); status != RIPC_OK) return status;
  const std::uint64_t offer = take_offer();
  std::uint32_t total = 0;
  for (const wire::Plain& message : messages) {
    const std::uint32_t cost = cost_of(message);
    if (batch.full() || !fits(message) || room_locked(total + cost) != RIPC_OK) break;
    costs[batch.size()] = cost;
    total += cost;
    const auto sequence = sequence_ + 1 + static_cast<std::uint32_t>(batch.size());
    batch.add(header_locked(sequence, purse_.spent() + total, batch.size() == 0 ? offer : 0), message);
  }
  send_calls_.store(send_calls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const ripc_status status = parts_.socket.send(batch, segment_, sent);
  for (std::size_t index = 0; index < sent; ++index) purse_.spend(costs[index]);
  sequence_ += static_cast<std::uint32_t>(sent);
  if (status == RIPC_OK) {
    interface_full_ = false;
    return RIPC_OK;
  }
  if (sent == 0) give_back(offer);
  failed_locked(status);
  return sent != 0 ? RIPC_OK : status;
}

// Whether so much may be spent now.
ripc_status SocketChannel::room_locked(std::uint32_t cost) noexcept {
  // Whoever ends the channel asks for the last number under the mutex.
  if (const int ended = end_.load(std::memory_order_relaxed); ended != RIPC_OK) [[unlikely]]
    return static_cast<ripc_status>(ended);
  if (purse_.left() < cost && !refresh_locked(cost)) [[unlikely]]
    return failing_ ? RIPC_PEER_DEAD : RIPC_AGAIN;
  return RIPC_OK;
}

wire::datagram::Header SocketChannel::header_locked(std::uint32_t sequence, std::uint32_t spent,
                                                    std::uint64_t offer) const noexcept {
  return {.kind = wire::datagram::Kind::data,
          .sequence = sequence,
          .token = parts_.token,
          .spent = spent,
          .credit_link = static_cast<std::uint32_t>(offer >> 32),
          .credit = static_cast<std::uint32_t>(offer)};
}

// Credit for the other direction that can travel along; 0: none.
std::uint64_t SocketChannel::take_offer() noexcept {
  auto& offered = parts_.session->offered_credit;
  return offered.load(std::memory_order_relaxed) == 0 ? 0 : offered.exchange(0, std::memory_order_acq_rel);
}

void SocketChannel::give_back(std::uint64_t offer) noexcept {
  if (offer == 0) return;
  // Whoever offered it takes it for sent: here it goes back, unless there is a newer one.
  std::uint64_t none = 0;
  (void)parts_.session->offered_credit.compare_exchange_strong(none, offer, std::memory_order_acq_rel);
}

void SocketChannel::failed_locked(ripc_status status) noexcept {
  if (status == RIPC_TOO_LARGE)
    packet_limit_.store(std::min(parts_.socket.packet_limit(), packet_limit()), std::memory_order_relaxed);
  if (status == RIPC_AGAIN) interface_full_ = true;
  if (status == RIPC_PEER_DEAD) fail_locked();
}

// Reads what was granted since the last time. True if there is as much as needed.
bool SocketChannel::refresh_locked(std::uint32_t needed) noexcept {
  wire::datagram::Header header;
  for (;;) {
    const ripc_status status = parts_.socket.receive(header);
    if (status == RIPC_EMPTY) break;
    if (status == RIPC_PEER_DEAD) {
      fail_locked();
      return false;
    }
    if (status == RIPC_OK && header.kind == wire::datagram::Kind::credit && header.token == parts_.token &&
        header.credit_link == parts_.link)
      (void)purse_.grant(header.credit);
  }
  if (purse_.left() >= needed) {
    next_probe_ = 0;
    return true;
  }
  probe_locked();
  return false;
}

// Credit may have been lost, and all that was sent too: then only a question brings things to life again.
void SocketChannel::probe_locked() noexcept {
  const Nanoseconds now = monotonic_now();
  if (next_probe_ == 0) {
    probe_pause_.store(kFirstProbe, std::memory_order_relaxed);
    next_probe_ = now + kFirstProbe;
    return;
  }
  if (now < next_probe_) return;
  // The limit has passed two whole buffers since the first of them: they were read.
  if (static_cast<std::int32_t>(purse_.limit() - 2 * budget_ - probes_since_) >= 0) {
    probes_since_ = purse_.spent();
    probes_there_ = 0;
  }
  const Nanoseconds longer = std::min(2 * probe_pause_.load(std::memory_order_relaxed), kLastProbe);
  const Nanoseconds pause = ++probes_there_ < kMostProbes ? longer : kRareProbe;
  probe_pause_.store(pause, std::memory_order_relaxed);
  next_probe_ = now + pause;
  probes_.fetch_add(1, std::memory_order_relaxed);
  const ripc_status status =
      parts_.socket.send({.kind = wire::datagram::Kind::probe, .token = parts_.token, .spent = purse_.spent()}, {});
  if (status == RIPC_PEER_DEAD) fail_locked();
}

// The socket of the other end is gone. Its process may live, so that the session says nothing.
void SocketChannel::fail_locked() noexcept {
  if (failing_) return;
  failing_ = true;
  if (auto self = weak_from_this().lock()) parts_.failed(self);
}

ripc_status SocketChannel::send_control(spi::Gather packet) noexcept {
  if (const int ended = end_.load(std::memory_order_relaxed); ended != RIPC_OK) return static_cast<ripc_status>(ended);
  std::vector<std::byte> whole;
  for (const spi::Bytes range : packet) whole.insert(whole.end(), range.begin(), range.end());
  if (whole.size() > std::min(wire::session::kMaxControlPacket, packet_limit() + spi::kControlAllowance))
    return RIPC_TOO_LARGE;
  return parts_.session->stream.send(
      wire::session::Control{.link = parts_.link, .destination = parts_.service, .packet = whole});
}

// ---- Room ----------------------------------------------------------------------------------------------------

// What makes it worth starting again: a part of the budget, so that senders do not wake for each packet, and in any
// case the largest packet.
std::uint32_t SocketChannel::enough() const noexcept {
  return std::max(budget_ / 4, datagram_cost(packet_limit() + wire::datagram::kHeaderSize));
}

bool SocketChannel::has_room() const noexcept {
  if (!alive()) return true;
  auto* self = const_cast<SocketChannel*>(this);
  const std::unique_lock lock(self->mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;  // another thread sends: it finds out
  if (self->failing_) return true;
  if (interface_full_) {
    pollfd writable{parts_.socket.fd(), POLLOUT, 0};
    if (poll(&writable, 1, 0) <= 0) return false;
    self->interface_full_ = false;
  }
  return purse_.left() >= enough() || self->refresh_locked(enough());
}

bool SocketChannel::request_room() noexcept {
  if (has_room()) return true;
  if (!room_wanted_.exchange(true, std::memory_order_acq_rel)) {
    parts_.loop->post([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->watch();
    });
  }
  return false;
}

void SocketChannel::credit_arrived(std::uint32_t credit) noexcept {
  if (!purse_.grant(credit) || !room_wanted_.load(std::memory_order_acquire)) return;
  parts_.loop->post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->look();
  });
}

// Responder. Waits for credit, and asks for it.
void SocketChannel::watch() noexcept {
  if (!watching_ && alive()) {
    const Status status =
        parts_.loop->add(parts_.socket.fd(), EPOLLIN | EPOLLOUT | EPOLLET, [weak = weak_from_this()](std::uint32_t) {
          if (const auto self = weak.lock()) self->look();
        });
    watching_ = status.ok();
  }
  look();
}

void SocketChannel::look() noexcept {
  if (!room_wanted_.load(std::memory_order_acquire)) return;
  if (has_room()) {
    stop_watching();
    room_wanted_.store(false, std::memory_order_release);
    parts_.host->room(*this);
    return;
  }
  if (timer_ != 0) parts_.loop->cancel_timer(timer_);
  timer_ = parts_.loop->add_timer(monotonic_now() + std::max(probe_pause_.load(std::memory_order_relaxed), kFirstProbe),
                                  [weak = weak_from_this()] {
                                    if (const auto self = weak.lock()) {
                                      self->timer_ = 0;
                                      self->look();
                                    }
                                  });
}

void SocketChannel::stop_watching() noexcept {
  if (timer_ != 0) parts_.loop->cancel_timer(timer_);
  timer_ = 0;
  if (watching_) parts_.loop->remove(parts_.socket.fd());
  watching_ = false;
}

// ---- Long items ----------------------------------------------------------------------------------------------

ripc_status SocketChannel::expose(std::span<const spi::Exposure> items, std::span<wire::Descriptor> descriptors,
                                  std::uint64_t& transfer) noexcept {
  if (!alive()) return RIPC_PEER_DEAD;
  return parts_.session->bulk->expose(parts_.link, items, descriptors, transfer);
}

ripc_status SocketChannel::transfer_status(std::uint64_t transfer) noexcept {
  return parts_.session->bulk->transfer_status(transfer);
}

bool SocketChannel::watch_transfer(std::uint64_t transfer) noexcept { return parts_.session->bulk->watch(transfer); }

ripc_status SocketChannel::revoke(std::uint64_t transfer) noexcept { return parts_.session->bulk->revoke(transfer); }

ripc_status SocketChannel::grant(std::span<std::byte> memory, wire::Grant& grant) noexcept {
  if (!alive()) return RIPC_PEER_DEAD;
  return parts_.session->bulk->grant(parts_.link, memory, grant);
}

ripc_status SocketChannel::end_grant(const wire::Grant& grant) noexcept {
  return parts_.session->bulk->end_grant(grant);
}

// ---- The end -------------------------------------------------------------------------------------------------

bool SocketChannel::end(ripc_status reason) noexcept {
  int open = RIPC_OK;
  if (!end_.compare_exchange_strong(open, reason, std::memory_order_acq_rel)) return false;
  stop_watching();
  parts_.session->bulk->end_owner(parts_.link);
  return true;
}

std::uint32_t SocketChannel::last_sequence() noexcept {
  const std::lock_guard lock(mutex_);
  return sequence_;
}

std::string SocketChannel::describe() const {
  return "sockets, " + Endpoint::local_of(parts_.socket.fd()).text() + " to " +
         Endpoint::remote_of(parts_.socket.fd()).text() + "; UDP packets of up to " + std::to_string(packet_limit()) +
         " bytes, TCP for long items";
}

}  // namespace ripc::socket
