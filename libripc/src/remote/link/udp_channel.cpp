// SPDX-License-Identifier: Apache-2.0
#include "remote/link/udp_channel.hpp"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <new>

#include "base/loop_wait.hpp"

namespace ripc::internal::remote {

namespace {

using wire::datagram::Header;
using wire::datagram::kHeaderSize;
using wire::datagram::Kind;

constexpr std::size_t kMaxStreamedPacket = wire::session_control::kMaxStreamed - kHeaderSize;

// The number of messages in one call that makes a connection worthwhile.
constexpr std::size_t kMany = 8;
// Messages that are held for more of their thread wait for this long after the last one.
constexpr Nanoseconds kFlushPause = 50'000;
// The pause between two attempts to send kept datagrams by a full control connection.
constexpr Nanoseconds kKeptPause = 10'000'000;

}  // namespace

UdpChannel::UdpChannel(Parts parts, LinkSocket socket, std::uint32_t peer_packet_limit, bool datagrams,
                       ConnectStream connect_stream, Nanoseconds peer_timeout)
    : LinkChannel(std::move(parts), peer_packet_limit, false),
      socket_(std::move(socket)),
      peer_packet_limit_(peer_packet_limit),
      path_(datagrams ? Path::unproven : Path::control),
      connect_stream_(std::move(connect_stream)),
      peer_timeout_(peer_timeout),
      moves_(parts_.session->moves()) {
  set_limit(limit_of(path()));
}

void UdpChannel::set_limit(std::size_t limit) noexcept {
  set_ready_limit(limit);
  if (!connect_stream_) set_packet_limit(limit);
}

// The largest packet that can go by this path.
std::size_t UdpChannel::limit_of(Path path) const noexcept {
  if (path == Path::connection) return peer_packet_limit_;
  return std::min<std::size_t>(path == Path::control ? kMaxStreamedPacket : socket_.packet_limit(), peer_packet_limit_);
}

void UdpChannel::start() {
  LinkChannel::start();
  proof_timer_.make(*parts_.loop, [this, weak = weak_from_this()] {
    const auto alive = weak.lock();
    if (!alive) return;
    const std::lock_guard lock(mutex_);
    if (!read_grants()) return fail_locked();
    go_on_locked();
  });
  stream_timer_.make(*parts_.loop, [this, weak = weak_from_this()] {
    if (const auto alive = weak.lock()) stream_due();
  });
  flush_timer_.make(*parts_.loop, [this, weak = weak_from_this()] {
    if (const auto alive = weak.lock()) flush_due();
  });
}

UdpChannel::~UdpChannel() {
  stop_watching();
  if (stream_) stream_->finish();
  // After this, no one would find out whether the kept datagrams came by UDP.
  if (alive()) stream_kept();
}

void UdpChannel::leave(Deadline deadline) noexcept {
  const std::lock_guard lock(mutex_);
  if (alive() && path() == Path::unproven) fall_back_locked();
  if (stream_) stream_->drain(deadline);
}

void UdpChannel::on_end() noexcept {
  proof_timer_.cancel();
  stream_timer_.cancel();
  flush_timer_.cancel();
  const std::lock_guard lock(mutex_);
  // The peer does not take what waits: it has closed the link, or is gone.
  if (stream_) stream_->finish(0);
  proven_.notify_all();
}

void UdpChannel::count_call() noexcept {
  send_calls_.store(send_calls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void UdpChannel::note_limit(ripc_status status) noexcept {
  if (status == RIPC_TOO_LARGE) set_limit(std::min(limit_of(Path::udp), ready_limit()));
}

ripc_status UdpChannel::transmit(const Header& header, spi::Gather packet, bool) noexcept {
  const bool may_hold = header.kind == Kind::data && burst_.begins(monotonic_now());
  if (path() == Path::connection) {
    bool is_held = false;
    const ripc_status status = stream_->send(header, packet, may_hold, &is_held);
    if (is_held) {
      hold_locked();
      return status;
    }
    count_call();
    burst_.ended(monotonic_now());
    if (status == RIPC_OK && std::exchange(held_for_, nullptr) != nullptr) burst_.was_prompt();
    if (status != RIPC_PEER_DEAD) return status;
    drop_stream_locked();
  }
  if (header.kind == Kind::data) [[likely]]
    count_call();
  if (burst_.is_long() && receiver_keeps_up()) want_stream_locked();
  if (path() != Path::udp) [[unlikely]]
    return transmit_kept(header, packet);
  const ripc_status status = socket_.send(header, packet, header.kind == Kind::data ? burst_.last() : 0);
  burst_.ended(monotonic_now());
  note_limit(status);
  return status;
}

// The receiver has granted a whole budget since the beginning. A full queue stays full until it is read.
bool UdpChannel::receiver_keeps_up() const noexcept { return credit_.limit() - parts_.credit >= parts_.credit; }

void UdpChannel::hold_locked() noexcept {
  if (const auto* const thread = &ThreadEpoch::current(); std::exchange(held_for_, thread) != thread)
    HeldSends::add(std::static_pointer_cast<UdpChannel>(shared_from_this()));
  flush_soon_locked();
}

void UdpChannel::flush_soon_locked() noexcept {
  if (std::exchange(flushing_, true)) return;
  flush_timer_.set(burst_.last() + kFlushPause);
}

// Responder.
void UdpChannel::flush_due() noexcept {
  // A thread that waits here makes each unlock of the sender a system call, which ends the burst.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return flush_timer_.set(monotonic_now() + kFlushPause);
  flushing_ = false;
  if (!stream_ || held_for_ == nullptr) return;
  // A sender that goes on sending flushes itself, and would have to wait for this flush.
  if (monotonic_now() - burst_.last() < kFlushPause) {
    flush_soon_locked();
  } else {
    flush_locked();
    burst_.was_late();
  }
}

// Called before a sender waits, perhaps for answers to what is held. Who has the lock is sending, and lets it go later.
void UdpChannel::let_go() noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || !stream_ || held_for_ == nullptr) return;
  flush_locked();
  burst_.was_prompt();
}

void UdpChannel::flush_locked() noexcept {
  held_for_ = nullptr;
  count_call();
  stream_->flush();
  burst_.ended(monotonic_now());
}

ripc_status UdpChannel::send_many(std::span<const wire::Plain> messages, std::size_t& sent) noexcept {
  sent = 0;
  if (path() == Path::connection) return send_by_stream(messages, sent);
  if (messages.size() >= kMany && receiver_keeps_up()) {
    const std::lock_guard lock(mutex_);
    want_stream_locked();
  }
  ripc_status status = RIPC_OK;
  for (const wire::Plain& message : messages) {
    status = send({.message = message});
    if (status != RIPC_OK) break;
    ++sent;
  }
  return sent != 0 ? RIPC_OK : status;
}

bool UdpChannel::read_grants() noexcept {
  Header header;
  for (;;) {
    if (path() >= Path::control) return true;
    const ripc_status status = socket_.receive(header);
    if (status == RIPC_EMPTY) return true;
    if (status == RIPC_PEER_DEAD) {
      if (path() == Path::udp) return false;
      refused_locked();
      return true;
    }
    if (status != RIPC_OK || header.token != parts_.token) continue;
    if (header.kind == Kind::credit && header.credit_link == parts_.link) (void)credit_.grant(header.credit);
    if (header.kind == Kind::credit || header.kind == Kind::greeting) proof_.received();
  }
}

bool UdpChannel::can_transmit() noexcept {
  if (path() == Path::connection) return stream_->has_room();
  if (path() == Path::control) return parts_.session->stream.has_room();
  pollfd writable{socket_.fd(), POLLOUT, 0};
  return poll(&writable, 1, 0) > 0;
}

Status UdpChannel::watch_grants(std::function<void()> look) {
  return parts_.loop->add(socket_.fd(), EPOLLIN | EPOLLOUT | EPOLLET,
                          [look = std::move(look)](std::uint32_t) { look(); });
}

std::string UdpChannel::path_text(Deadline deadline) {
  {
    std::unique_lock lock(mutex_);
    (void)wait_in(*parts_.loop, lock, proven_, deadline, [&] { return path() != Path::unproven || !alive(); });
  }
  const Session& session = *parts_.session;
  const Path path = this->path();
  const std::string ends = session.local().ip() + " to " + session.remote().text();
  const std::string sockets = session.sockets_text();
  // The important part comes first, because not every display has room for all of it.
  if (path == Path::control) return sockets + "; UDP does not get through: short messages go over TCP, " + ends;
  if (path == Path::connection) return sockets + "; messages go over TCP, as large or many ones do, " + ends;
  if (path == Path::unproven) return sockets + "; the peer has not said whether UDP gets through, " + ends;
  return sockets + ", " + Endpoint::local_of(socket_.fd()).text() + " to " + Endpoint::remote_of(socket_.fd()).text() +
         "; UDP packets of up to " + std::to_string(ready_limit()) + " bytes, " + session.bulk->describe();
}

// ---- Whether datagrams get through ---------------------------------------------------------------------------

// Filtering that begins later does not show either. So a path in use is proven again from time to time.
void UdpChannel::check_path() noexcept {
  const std::lock_guard lock(mutex_);
  if (!alive()) return;
  if (const std::uint32_t moves = parts_.session->moves(); std::exchange(moves_, moves) != moves)
    return leave_path_locked();
  if (stream_) stream_->look();
  if (path() >= Path::control || proof_.running()) return;
  const bool is_proven = path() == Path::udp;
  if (is_proven && sequence_ == looked_at_ && credit_.left() >= cost_of(ready_limit())) return;
  looked_at_ = sequence_;
  proof_.begin(monotonic_now(), is_proven);
  go_on_locked();
}

void UdpChannel::handle(const wire::session_control::Frame& frame) noexcept {
  if (const auto* const proof = std::get_if<wire::session_control::Proved>(&frame)) proved(proof->arrived != 0);
  take_streamed(frame);
}

void UdpChannel::proved(bool arrived) noexcept {
  const std::lock_guard lock(mutex_);
  if (path() >= Path::control) return;
  if (!read_grants()) return fail_locked();
  proof_.answered(arrived, monotonic_now());
  go_on_locked();
}

void UdpChannel::go_on_locked() noexcept {
  if (!alive()) return;
  if (path() == Path::control) {
    stream_kept();
    if (!kept_.empty()) proof_timer_.set(monotonic_now() + kKeptPause);
  }
  if (path() >= Path::control) return;
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
  } else if (proof_.verdict() == DatagramProof::Verdict::through && path() == Path::unproven) {
    settle_locked(Path::udp);
  }
}

void UdpChannel::settle_locked(Path path) noexcept {
  path_.store(path, std::memory_order_release);
  if (path != Path::control) kept_ = {};
  proof_timer_.set(StandingTimer::kNever);
  proven_.notify_all();
  parts_.loop->wake_from_elsewhere();
}

// Sends once more, with the same numbers, what may not have come: what did come is dropped as a duplicate.
void UdpChannel::fall_back_locked() noexcept {
  if (path() >= Path::control) return;
  set_limit(limit_of(Path::control));
  settle_locked(Path::control);
  go_on_locked();
  check_room_soon();
}

// The pair of addresses that the link uses has failed. A new connection of the link takes the session's new path.
void UdpChannel::leave_path_locked() noexcept {
  if (stream_) drop_stream_locked();
  fall_back_locked();
  want_stream_locked();
}

void UdpChannel::stream_kept() noexcept {
  auto next = kept_.begin();
  while (next != kept_.end() && transmit_streamed(*next) == RIPC_OK) ++next;
  kept_.erase(kept_.begin(), next);
}

// Datagrams are refused by a firewall, or because the other end is gone. If the link was never proven, the stream tells
// which.
void UdpChannel::refused_locked() noexcept {
  if (path() == Path::unproven) {
    fall_back_locked();
  } else {
    fail_locked();
  }
}

ripc_status UdpChannel::transmit_kept(const Header& header, spi::Gather packet) noexcept try {
  // Credit that was granted since the beginning came by UDP, for packets that went by UDP.
  if (path() == Path::unproven && credit_.limit() != parts_.credit) settle_locked(Path::udp);
  if (path() != Path::control) {
    if (path() == Path::udp || header.kind != Kind::data) return socket_.send(header, packet);
    kept_.push_back(whole_of(header, packet));
    const ripc_status status = socket_.send(header, packet);
    note_limit(status);
    if (status == RIPC_OK) return status;
    kept_.pop_back();
    if (status != RIPC_PEER_DEAD) return status;
    fall_back_locked();
  }
  stream_kept();
  return kept_.empty() ? transmit_streamed(whole_of(header, packet)) : RIPC_AGAIN;
} catch (const std::bad_alloc&) {
  return RIPC_NO_MEMORY;
}

// ---- A connection of its own ---------------------------------------------------------------------------------

ripc_status UdpChannel::widen(std::size_t packet) noexcept {
  std::unique_lock lock(mutex_);
  if (const ripc_status status = begin_to_widen_locked(packet); status != RIPC_PENDING) return status;
  (void)wait_in(*parts_.loop, lock, proven_, Deadline::after(peer_timeout_),
                [&] { return packet <= ready_limit() || packet > packet_limit() || !alive(); });
  if (!alive()) return ended();
  return packet <= ready_limit() ? RIPC_OK : RIPC_TOO_LARGE;
}

ripc_status UdpChannel::begin_to_widen(std::size_t packet) noexcept {
  const std::lock_guard lock(mutex_);
  return begin_to_widen_locked(packet);
}

ripc_status UdpChannel::begin_to_widen_locked(std::size_t packet) noexcept {
  if (!alive()) return ended();
  if (packet <= ready_limit()) return RIPC_OK;
  if (packet > packet_limit()) return RIPC_TOO_LARGE;
  want_stream_locked();
  return RIPC_PENDING;
}

void UdpChannel::want_stream_locked() noexcept {
  if (dial_ != Dial::none || stream_ || !connect_stream_) return;
  dial_ = Dial::wanted;
  stream_timer_.set(StandingTimer::kNow);
}

// Responder.
void UdpChannel::stream_due() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (stream_ || !alive()) return;
    if (dial_ == Dial::under_way) return refuse_stream_locked();
    if (dial_ == Dial::refused) {
      dial_ = Dial::none;
      set_packet_limit(peer_packet_limit_);
    }
    if (dial_ != Dial::wanted) return;
    dial_ = Dial::under_way;
    stream_timer_.set(monotonic_now() + peer_timeout_ / 2);
  }
  try {
    connect_stream_(parts_.link, [this, weak = weak_from_this()](SecureSocket connection) {
      if (const auto alive = weak.lock()) adopt_stream(std::move(connection));
    });
  } catch (const std::bad_alloc&) {
    // As if no one had answered.
  }
}

// For a while, only packets that can go by datagrams are accepted.
void UdpChannel::refuse_stream_locked() noexcept {
  dial_ = Dial::refused;
  set_packet_limit(ready_limit());
  stream_timer_.set(monotonic_now() + peer_timeout_);
  proven_.notify_all();
  parts_.loop->wake_from_elsewhere();
}

// Responder. `connection` without a descriptor: it could not be made.
void UdpChannel::adopt_stream(SecureSocket connection) noexcept try {
  std::shared_ptr<StreamSender> made;
  if (connection) {
    auto created = StreamSender::create(std::move(connection), *parts_.loop, [this, weak = weak_from_this()] {
      if (const auto alive = weak.lock()) stream_event();
    });
    if (created.ok()) made = std::move(*created);
  }
  const std::lock_guard lock(mutex_);
  if (dial_ != Dial::under_way || !alive()) {
    if (made) made->finish();
    return;
  }
  if (!made) return refuse_stream_locked();
  // Datagrams that may not have come by UDP go first, with their numbers.
  for (const auto& datagram : kept_) {
    if (made->send_whole(datagram) == RIPC_OK) continue;
    made->finish();
    return refuse_stream_locked();
  }
  dial_ = Dial::none;
  stream_timer_.set(StandingTimer::kNever);
  former_path_ = path();
  stream_ = std::move(made);
  settle_locked(Path::connection);
  set_limit(limit_of(Path::connection));
  check_room_soon();
} catch (const std::bad_alloc&) {
  // As if no one had answered.
}

// Responder. There is room, or the connection is lost.
void UdpChannel::stream_event() noexcept {
  const std::lock_guard lock(mutex_);
  if (stream_ && stream_->lost()) drop_stream_locked();
  check_room_soon();
}

// Packets under way are lost. Others take the former path until the next one that is too large for it.
void UdpChannel::drop_stream_locked() noexcept {
  stream_->finish();
  stream_.reset();
  path_.store(former_path_, std::memory_order_release);
  set_limit(limit_of(former_path_));
  if (former_path_ >= Path::control) return;
  // Whether datagrams get through was left open when the connection was there, or was asked again just before.
  proof_.begin(monotonic_now(), former_path_ == Path::udp);
  go_on_locked();
}

ripc_status UdpChannel::send_by_stream(std::span<const wire::Plain> messages, std::size_t& sent) noexcept {
  const std::lock_guard lock(mutex_);
  ripc_status status = ended();
  for (const wire::Plain& message : messages) {
    if (status != RIPC_OK || !stream_) break;
    wire::Encoder encoder(wire::PacketKind::message, message.tag, message.source);
    if (!wire::add_items(message, encoder) || encoder.size() > ready_limit()) {
      status = RIPC_TOO_LARGE;
      break;
    }
    const std::uint64_t offer = sent == 0 ? take_offer() : 0;
    status = stream_->send(header_locked(sequence_ + 1, credit_.spent(), offer), encoder.finish(), true);
    if (status != RIPC_OK) {
      if (status == RIPC_AGAIN) sent_locked(0, 0, status);
      give_back(offer);
      break;
    }
    ++sequence_;
    ++sent;
  }
  count_call();
  if (stream_) stream_->flush();
  if (status == RIPC_PEER_DEAD && stream_) drop_stream_locked();
  return sent != 0 ? RIPC_OK : status;
}

}  // namespace ripc::internal::remote
