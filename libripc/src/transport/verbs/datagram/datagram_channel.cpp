// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/datagram/datagram_channel.hpp"

#include <algorithm>
#include <new>
#include <vector>

#include "transport/verbs/bulk/rdma_bulk.hpp"
#include "transport/verbs/datagram/verbs_port.hpp"

namespace ripc::internal::verbs {

namespace {

// After this many unanswered greetings, a second each, the path counts as dead.
constexpr unsigned kMostUnanswered = 4;
// After this many, half a second in total, the path to which a link has moved counts as dead.
constexpr unsigned kMostGreetings = 12;
// For one packet: half of what a sender may have under way. So 64 KiB in datagrams of 1 KiB still fit.
constexpr std::size_t kMostDatagrams = DatagramSender::kSends / 2;

}  // namespace

DatagramChannel::DatagramChannel(Parts parts, std::shared_ptr<RdmaBulk> bulk, AttachmentPointer attachment,
                                 std::shared_ptr<GroupSender> groups, std::uint32_t moves, Hooks hooks)
    : LinkChannel(std::move(parts), 0, true, groups.get()),
      bulk_(std::move(bulk)),
      groups_(std::move(groups)),
      first_sender_(attachment->sender.get()),
      is_signed_(attachment->routes.packets.sealer != nullptr),
      inlined_(attachment->sender->inlined_packet()),
      hooks_(std::move(hooks)),
      moves_(moves) {
  use(std::move(attachment));
  listen(*attachment_);
}

// With mutex_ held. The packets of all links share the sender's queue. One packet must not need more credit than what
// always becomes available again: first_credit().
void DatagramChannel::use(AttachmentPointer attachment) noexcept {
  attachment_ = std::move(attachment);
  token_ = attachment_->token;
  datagram_limit_ = attachment_->datagram_limit;
  const std::size_t most = std::clamp<std::size_t>(parts_.credit / 2, 1, kMostDatagrams);
  const std::size_t limit = std::min(most * datagram_limit_, wire::datagram::kMaxPacket);
  set_packet_limit(limit);
  set_ready_limit(limit);
}

void DatagramChannel::start() {
  LinkChannel::start();
  move_timer_.make(*parts_.loop, [weak = weak_from_this()] {
    if (const auto alive = weak.lock()) static_cast<DatagramChannel&>(*alive).go_on();
  });
}

DatagramChannel::~DatagramChannel() { stop_watching(); }

void DatagramChannel::listen(Attachment& attachment) {
  attachment.sender->listen(parts_.link, attachment.token, attachment.routes.answers,
                            [this, &attachment](const wire::datagram::Header& header) {
                              if (header.kind == wire::datagram::Kind::credit) {
                                (void)credit_.grant(header.credit);
                              } else {
                                attachment.greeted.store(true, std::memory_order_release);
                                move_timer_.set(StandingTimer::kNow);
                              }
                            });
}

Status DatagramChannel::watch_grants(std::function<void()> look) {
  return attachment_ ? attachment_->sender->watch(parts_.link, std::move(look)) : RIPC_AGAIN;
}

void DatagramChannel::unwatch_grants() noexcept {
  if (attachment_) attachment_->sender->unwatch(parts_.link);
}

void DatagramChannel::handle(const wire::session_control::Frame& frame) noexcept {
  take_streamed(frame);
  const auto* const joined = std::get_if<wire::session_control::GroupJoined>(&frame);
  if (joined != nullptr && groups_) groups_->joined(joined->link, joined->token);
}

void DatagramChannel::greet(const Attachment& attachment) noexcept {
  (void)attachment.sender->send(attachment.routes.greetings,
                                {.kind = wire::datagram::Kind::greeting, .token = attachment.token}, {});
}

void DatagramChannel::greet() noexcept {
  const std::lock_guard lock(mutex_);
  if (attachment_) greet(*attachment_);
}

bool DatagramChannel::was_greeted() noexcept {
  const std::lock_guard lock(mutex_);
  if (!attachment_) return false;
  if (!attachment_->greeted.load(std::memory_order_acquire)) attachment_->sender->read_credits();
  return attachment_->greeted.load(std::memory_order_acquire);
}

// If a receiver is busy, its responder still answers. A stopped process is silent on TCP too.
void DatagramChannel::probes_unanswered() noexcept {
  if (!attachment_ || parts_.session->moves() != moves_) return;
  const std::uint64_t received = parts_.session->stream.received();
  if (attachment_->greeted.exchange(false, std::memory_order_acq_rel) || unanswered_ == 0) {
    unanswered_ = 0;
    received_at_probe_ = received;
  }
  if (++unanswered_ > kMostUnanswered && received != received_at_probe_) {
    hooks_.unreachable();
    return;
  }
  greet(*attachment_);
}

// ---- Where it goes when its session has moved ----------------------------------------------------------------

void DatagramChannel::check_path() noexcept {
  const std::lock_guard lock(mutex_);
  if (parts_.session->moves() != moves_) move_timer_.set(StandingTimer::kNow);
}

// Responder. The session has moved, an attachment was made or greeted, or it is to be greeted again.
void DatagramChannel::go_on() noexcept {
  if (!alive()) return;
  if (const std::uint32_t moves = parts_.session->moves(); moves != moves_) return leave_devices(moves);
  if (!next_) return;
  if (next_->greeted.load(std::memory_order_acquire)) {
    {
      const std::lock_guard lock(mutex_);
      use(std::move(next_));
      ask_anew_locked();
    }
    in_groups_.store(attachment_->sender.get() == first_sender_, std::memory_order_relaxed);
    check_room_soon();
    return;
  }
  const std::uint64_t received = parts_.session->stream.received();
  if (greetings_ == 0) received_at_greeting_ = received;
  if (++greetings_ > kMostGreetings && received != received_at_greeting_) {
    hooks_.unreachable();
    return;
  }
  greet(*next_);
  move_timer_.set(monotonic_now() + greet_pause_.next());
}

// Datagrams under way there are lost, as they may be. The peer accepts nothing twice.
void DatagramChannel::leave_devices(std::uint32_t moves) noexcept {
  in_groups_.store(false, std::memory_order_relaxed);
  if (groups_) groups_->left(parts_.link);
  stop_watching();
  next_.reset();
  {
    const std::lock_guard lock(mutex_);
    attachment_.reset();
    streams_ = false;
    moves_ = moves;
    unanswered_ = 0;
  }
  hooks_.move(*this);
}

void DatagramChannel::asked(Question question) noexcept {
  question_ = std::move(question);
  ++questions_;
}

bool DatagramChannel::answered(std::optional<Question>& question) noexcept {
  if (questions_ == 0) return false;
  if (--questions_ == 0) question = std::exchange(question_, {});
  return true;
}

void DatagramChannel::attach(AttachmentPointer attachment) {
  next_ = std::move(attachment);
  greetings_ = 0;
  greet_pause_.reset();
  listen(*next_);
  go_on();
}

// The receiver releases its device when it gets the first datagram, which has no other meaning.
void DatagramChannel::stream() noexcept {
  {
    const std::lock_guard lock(mutex_);
    streams_ = true;
    token_ = parts_.token;
    ask_anew_locked();
    (void)transmit_parts({.kind = wire::datagram::Kind::greeting, .token = token_}, {});
  }
  check_room_soon();
}

// With mutex_ held. Splits the packet into the datagrams that a device would take.
ripc_status DatagramChannel::transmit_parts(const wire::datagram::Header& header, spi::Gather packet) noexcept try {
  if (!parts_.session->stream.has_room(header.after + 1u)) return RIPC_AGAIN;
  const std::vector<std::byte> whole = whole_of(header, packet);
  const spi::Bytes bytes = spi::Bytes(whole).subspan(wire::datagram::kHeaderSize);
  std::vector<std::byte> datagram;
  datagram.reserve(wire::datagram::kHeaderSize + datagram_limit_);
  wire::datagram::Header next = header;
  next.spent -= header.after;
  for (std::size_t begin = 0;; begin += datagram_limit_) {
    const spi::Bytes part = bytes.subspan(begin, std::min(datagram_limit_, bytes.size() - begin));
    wire::datagram::HeaderBytes head;
    wire::datagram::encode(next, head);
    datagram.assign(head.begin(), head.end());
    datagram.insert(datagram.end(), part.begin(), part.end());
    const ripc_status status = transmit_streamed(datagram);
    // If others of the packet were sent, those that find no room are lost, as datagrams may be.
    if (status != RIPC_OK) return begin == 0 ? status : RIPC_OK;
    if (next.after == 0) return RIPC_OK;
    next.credit_link = next.credit = 0;
    ++next.spent;
    ++next.sequence;
    ++next.before;
    --next.after;
  }
} catch (const std::bad_alloc&) {
  return RIPC_NO_MEMORY;
}

ripc_status DatagramChannel::send(const spi::Outgoing& outgoing) noexcept {
  const std::size_t size = outgoing.message.packet_size();
  if (outgoing.kind != spi::Outgoing::Kind::given || is_signed_ || size <= inlined_) return LinkChannel::send(outgoing);
  const ripc_status status = send_one(size, [&](const wire::datagram::Header& header) {
    if (header.after != 0 || !attachment_) return RIPC_TOO_LARGE;
    return attachment_->sender->send_given(attachment_->routes.packets, header, outgoing.message, *outgoing.copied);
  });
  // Items that do not fit into one datagram are copied, as on the control connection.
  return status == RIPC_TOO_LARGE ? LinkChannel::send(outgoing) : status;
}

ripc_status DatagramChannel::send_many(std::span<const wire::Plain> messages, std::size_t& sent) noexcept {
  sent = 0;
  if (messages.empty()) {
    // Send the offers first, because a receiver that learns of an item looks for its offer at once.
    bulk_->send_offers();
    const std::lock_guard lock(mutex_);
    if (attachment_) attachment_->sender->flush();
    return RIPC_OK;
  }
  const auto send_first = [&] {
    const ripc_status status = send({.message = messages.front()});
    if (status == RIPC_OK) sent = 1;
    return status;
  };
  if (messages.size() == 1) return send_first();
  std::unique_lock lock(mutex_);
  if (!attachment_ || messages.front().packet_size() > datagram_limit_) {
    lock.unlock();
    return send_first();
  }
  std::uint32_t count = 0;
  ripc_status status = RIPC_OK;
  while (count < std::min(messages.size(), DatagramSender::kMostMessages) &&
         messages[count].packet_size() <= datagram_limit_) {
    status = room_locked(count + 1);
    if (status != RIPC_OK) break;
    ++count;
  }
  if (count == 0) return status;
  const std::uint64_t offer = take_offer();
  sent = attachment_->sender->send_many(attachment_->routes.packets, messages.first(count), [&](std::size_t index) {
    const auto number = static_cast<std::uint32_t>(index) + 1;
    return header_locked(sequence_ + number, credit_.spent() + number, index == 0 ? offer : 0);
  });
  sent_locked(static_cast<std::uint32_t>(sent), static_cast<std::uint32_t>(sent), sent != 0 ? RIPC_OK : RIPC_AGAIN);
  if (sent != 0) return RIPC_OK;
  give_back(offer);
  return RIPC_AGAIN;
}

bool DatagramChannel::send_together(std::span<DatagramChannel* const> channels, DatagramSender& sender,
                                    const DatagramRoute& route, const wire::datagram::Header& header,
                                    spi::Gather packet) noexcept {
  // The datagram takes the next place in the order of each link.
  std::size_t locked = 0;
  bool has_room = true;
  for (DatagramChannel* channel : channels) {
    channel->mutex_.lock();
    ++locked;
    has_room =
        channel->attachment_ && channel->attachment_->sender.get() == &sender && channel->room_locked(1) == RIPC_OK;
    if (!has_room) break;
  }
  const bool sent = has_room && sender.send(route, header, packet) == RIPC_OK;
  for (DatagramChannel* channel : channels.first(locked)) {
    if (sent) channel->credit_.spend(1);
    channel->mutex_.unlock();
  }
  return sent;
}

void DatagramSource::handle(const wire::session_control::Frame& frame) {
  if (const auto* const by_stream = std::get_if<wire::session_control::Streamed>(&frame))
    return port_.pass(*this, by_stream->datagram);
  if (const auto* const join = std::get_if<wire::session_control::JoinGroup>(&frame)) {
    port_.join_group(std::shared_ptr<DatagramSource>(shared_from_this(), this), join->token, join->group);
  } else if (const auto* const leave = std::get_if<wire::session_control::LeaveGroup>(&frame)) {
    port_.leave_group(*this, leave->token);
  }
}

ripc_status DatagramSource::pull(spi::Pull& pull) noexcept {
  if (pull.lend || !collects_) return LinkSource::pull(pull);
  const bool is_new = pull.progress == 0;
  const ripc_status status = bulk_->begin_pull(pull, *parts_.events);
  has_collected_ = has_collected_ || (is_new && status == RIPC_PENDING);
  return status;
}

void DatagramSource::start_pulls() noexcept {
  collects_ = false;
  if (std::exchange(has_collected_, false)) bulk_->start_pulls();
}

std::string DatagramChannel::path_text(Deadline) {
  const std::lock_guard lock(mutex_);
  const remote::Session& session = *parts_.session;
  if (!attachment_ && streams_)
    return session.sockets_text() + "; RDMA has no way here: short messages go over TCP, " + session.local().ip() +
           " to " + session.remote().text();
  if (!attachment_) return "RDMA, on its way to the devices at " + session.remote().ip();
  const DevicePort& port = attachment_->sender->port();
  return "RDMA, " + port.device->name + " port " + std::to_string(port.number) + " (" + port.ip + ") to " +
         session.remote().ip() + "; " + (session.secret ? "signed " : "") + "datagrams of up to " +
         std::to_string(datagram_limit_) + " bytes, " + session.bulk->describe();
}

}  // namespace ripc::internal::verbs
