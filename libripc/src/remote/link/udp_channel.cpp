// SPDX-License-Identifier: Apache-2.0
#include "remote/link/udp_channel.hpp"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <new>

#include "base/loop_wait.hpp"

namespace ripc::internal::remote {

namespace {

using wire::datagram::Header;
using wire::datagram::kHeaderSize;
using wire::datagram::Kind;

constexpr std::size_t kMaxStreamedPacket = wire::session_control::kMaxStreamed - kHeaderSize;

// Header and packet. Throws std::bad_alloc.
std::vector<std::byte> whole_of(const Header& header, spi::Gather packet) {
  wire::datagram::HeaderBytes head;
  wire::datagram::encode(header, head);
  std::vector<std::byte> whole(head.begin(), head.end());
  for (const spi::Bytes range : packet) whole.insert(whole.end(), range.begin(), range.end());
  return whole;
}

}  // namespace

UdpChannel::UdpChannel(Parts parts, LinkSocket socket, std::uint32_t peer_packet_limit, bool datagrams)
    : LinkChannel(std::move(parts),
                  std::min<std::size_t>(datagrams ? socket.packet_limit() : kMaxStreamedPacket, peer_packet_limit),
                  false),
      socket_(std::move(socket)),
      peer_packet_limit_(peer_packet_limit),
      way_(datagrams ? Way::unproven : Way::stream) {}

void UdpChannel::start() {
  LinkChannel::start();
  proof_timer_.make(*parts_.loop, [this, weak = weak_from_this()] {
    const auto alive = weak.lock();
    if (!alive) return;
    const std::lock_guard lock(mutex_);
    if (!read_grants()) return fail_locked();
    go_on_locked();
  });
}

UdpChannel::~UdpChannel() {
  stop_watching();
  // Nobody is left to find out whether it came by UDP.
  if (alive() && way() == Way::unproven) stream_kept();
}

void UdpChannel::leave() noexcept {
  const std::lock_guard lock(mutex_);
  if (alive() && way() == Way::unproven) fall_back_locked();
}

void UdpChannel::on_end() noexcept {
  proof_timer_.cancel();
  const std::lock_guard lock(mutex_);
  proven_.notify_all();
}

void UdpChannel::count_call() noexcept {
  send_calls_.store(send_calls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void UdpChannel::note_limit(ripc_status status) noexcept {
  if (status == RIPC_TOO_LARGE) set_packet_limit(std::min(socket_.packet_limit(), packet_limit()));
}

ripc_status UdpChannel::transmit(const Header& header, spi::Gather packet, bool) noexcept {
  if (header.kind == Kind::data) [[likely]]
    count_call();
  if (way() != Way::udp) [[unlikely]]
    return transmit_kept(header, packet);
  const ripc_status status = socket_.send(header, packet);
  note_limit(status);
  return status;
}

ripc_status UdpChannel::send_many(std::span<const wire::Plain> messages, std::size_t& sent) noexcept {
  sent = 0;
  LinkBatch batch;
  std::array<std::uint32_t, LinkBatch::kMost> costs;
  const auto fits = [this](const wire::Plain& message) {
    return message.packet_size() <= packet_limit() && message.items.size() <= LinkBatch::kMostItems;
  };
  if (messages.empty()) return RIPC_OK;
  if (way() != Way::udp || !fits(messages.front())) {
    const ripc_status status = send({.message = messages.front()});
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
    batch.add(header_locked(sequence, credit_.spent() + total, batch.size() == 0 ? offer : 0), message);
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
  Header header;
  for (;;) {
    if (way() == Way::stream) return true;
    const ripc_status status = socket_.receive(header);
    if (status == RIPC_EMPTY) return true;
    if (status == RIPC_PEER_DEAD) {
      if (way() == Way::udp) return false;
      refused_locked();
      return true;
    }
    if (status != RIPC_OK || header.token != parts_.token) continue;
    if (header.kind == Kind::credit && header.credit_link == parts_.link) (void)credit_.grant(header.credit);
    if (header.kind == Kind::credit || header.kind == Kind::greeting) proof_.heard();
  }
}

bool UdpChannel::can_transmit() noexcept {
  if (way() == Way::stream) return parts_.session->stream.has_room();
  pollfd writable{socket_.fd(), POLLOUT, 0};
  return poll(&writable, 1, 0) > 0;
}

Status UdpChannel::watch_grants(std::function<void()> look) {
  return parts_.loop->add(socket_.fd(), EPOLLIN | EPOLLOUT | EPOLLET,
                          [look = std::move(look)](std::uint32_t) { look(); });
}

std::string UdpChannel::describe(Deadline deadline) {
  {
    std::unique_lock lock(mutex_);
    (void)wait_in(*parts_.loop, lock, proven_, deadline, [&] { return way() != Way::unproven || !alive(); });
  }
  const Session& session = *parts_.session;
  const Way way = this->way();
  const std::string ends = session.local.ip() + " to " + session.remote.text();
  // What matters comes first: there is not room for all of it everywhere.
  if (way == Way::stream) return "sockets; UDP does not get through: short messages go over TCP, " + ends;
  if (way == Way::unproven) return "sockets; the peer has not said whether UDP gets through, " + ends;
  return "sockets, " + Endpoint::local_of(socket_.fd()).text() + " to " + Endpoint::remote_of(socket_.fd()).text() +
         "; UDP packets of up to " + std::to_string(packet_limit()) + " bytes, " + session.bulk->describe();
}

// ---- Whether datagrams get through ---------------------------------------------------------------------------

// A path that is filtered later shows in nothing either. So what is in use is proven again.
void UdpChannel::check_path() noexcept {
  const std::lock_guard lock(mutex_);
  if (way() == Way::stream || proof_.running() || !alive()) return;
  const bool is_proven = way() == Way::udp;
  if (is_proven && sequence_ == looked_at_ && credit_.left() >= cost_of(packet_limit())) return;
  looked_at_ = sequence_;
  proof_.begin(monotonic_now(), is_proven);
  go_on_locked();
}

void UdpChannel::handle(const wire::session_control::Frame& frame) noexcept {
  if (const auto* const proof = std::get_if<wire::session_control::Proved>(&frame)) proved(proof->arrived != 0);
  if (const auto* const by_stream = std::get_if<wire::session_control::Streamed>(&frame)) streamed(by_stream->datagram);
}

void UdpChannel::proved(bool arrived) noexcept {
  const std::lock_guard lock(mutex_);
  if (way() == Way::stream) return;
  if (!read_grants()) return fail_locked();
  proof_.told(arrived, monotonic_now());
  go_on_locked();
}

void UdpChannel::go_on_locked() noexcept {
  if (way() == Way::stream || !alive()) return;
  const DatagramProof::Step step = proof_.step(monotonic_now());
  if (step.greet) {
    const ripc_status status = socket_.send({.kind = Kind::greeting, .token = parts_.token}, {});
    if (status == RIPC_PEER_DEAD) {
      refused_locked();
      return;
    }
  }
  if (step.ask) parts_.session->stream.tell(wire::session_control::Prove{.link = parts_.link});
  proof_timer_.set(step.next);
  if (proof_.verdict() == DatagramProof::Verdict::blocked) {
    parts_.session->no_datagrams_until.store(monotonic_now() + kStreamPeriod, std::memory_order_relaxed);
    fall_back_locked();
  } else if (proof_.verdict() == DatagramProof::Verdict::through && way() == Way::unproven) {
    settle_locked(Way::udp);
  }
}

void UdpChannel::settle_locked(Way way) noexcept {
  way_.store(way, std::memory_order_release);
  kept_ = {};
  proof_timer_.set(StandingTimer::kNever);
  proven_.notify_all();
  parts_.loop->wake_from_elsewhere();
}

// What was sent and may not have come goes once more, with its numbers: what did come is dropped as a duplicate.
void UdpChannel::fall_back_locked() noexcept {
  if (way() == Way::stream) return;
  set_packet_limit(std::min<std::size_t>(kMaxStreamedPacket, peer_packet_limit_));
  stream_kept();
  settle_locked(Way::stream);
  look_soon();
}

void UdpChannel::stream_kept() noexcept {
  for (const auto& datagram : kept_) {
    if (transmit_streamed(datagram) != RIPC_OK) break;
  }
}

// By a firewall, or because the other end is gone. Of a link that was never proven the stream tells.
void UdpChannel::refused_locked() noexcept {
  if (way() == Way::unproven) {
    fall_back_locked();
  } else {
    fail_locked();
  }
}

ripc_status UdpChannel::transmit_kept(const Header& header, spi::Gather packet) noexcept try {
  // What was granted since the beginning has come by UDP, for what went by UDP.
  if (way() == Way::unproven && credit_.limit() != parts_.credit) settle_locked(Way::udp);
  if (way() != Way::stream) {
    if (way() == Way::udp || header.kind != Kind::data) return socket_.send(header, packet);
    kept_.push_back(whole_of(header, packet));
    const ripc_status status = socket_.send(header, packet);
    note_limit(status);
    if (status == RIPC_OK) return status;
    kept_.pop_back();
    if (status != RIPC_PEER_DEAD) return status;
    fall_back_locked();
  }
  return transmit_streamed(whole_of(header, packet));
} catch (const std::bad_alloc&) {
  return RIPC_NO_MEMORY;
}

ripc_status UdpChannel::transmit_streamed(std::span<const std::byte> datagram) noexcept {
  parts_.session->carries_messages.store(true, std::memory_order_relaxed);
  return parts_.session->stream.send(wire::session_control::Streamed{.link = parts_.link, .datagram = datagram});
}

void UdpChannel::streamed(std::span<const std::byte> datagram) noexcept {
  Header header;
  if (wire::datagram::decode(datagram, header) == RIPC_OK && header.kind == Kind::credit &&
      header.token == parts_.token && header.credit_link == parts_.link)
    credit_arrived(header.credit);
}

}  // namespace ripc::internal::remote
