// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/datagram/datagram_channel.hpp"

#include <array>
#include <utility>

#include "transport/verbs/bulk/rdma_bulk.hpp"
#include "transport/verbs/datagram/verbs_port.hpp"

namespace ripc::internal::verbs {

namespace {

// After so many greetings, a second each, nothing gets through any more.
constexpr unsigned kMostUnanswered = 4;

}  // namespace

DatagramChannel::DatagramChannel(Parts parts, std::shared_ptr<RdmaBulk> bulk, std::shared_ptr<DatagramSender> sender,
                                 std::shared_ptr<GroupSender> groups, Routes routes, std::size_t packet_limit,
                                 std::function<void()> unreachable)
    : LinkChannel(std::move(parts), packet_limit, true, groups.get()),
      bulk_(std::move(bulk)),
      sender_(std::move(sender)),
      groups_(std::move(groups)),
      routes_(std::move(routes)),
      unreachable_(std::move(unreachable)) {
  sender_->listen(parts_.link, parts_.token, routes_.answers, [this](const wire::datagram::Header& header) {
    if (header.kind == wire::datagram::Kind::credit) {
      (void)credit_.grant(header.credit);
    } else {
      greeted_.store(true, std::memory_order_release);
    }
  });
}

DatagramChannel::~DatagramChannel() {
  sender_->unlisten(parts_.link);
  stop_watching();
}

void DatagramChannel::handle(const wire::session_control::Frame& frame) noexcept {
  const auto* const joined = std::get_if<wire::session_control::GroupJoined>(&frame);
  if (joined != nullptr && groups_) groups_->joined(joined->link, joined->token);
}

void DatagramChannel::greet() noexcept {
  (void)sender_->send(routes_.greetings, {.kind = wire::datagram::Kind::greeting, .token = parts_.token}, {});
}

bool DatagramChannel::was_greeted() noexcept {
  if (!greeted_.load(std::memory_order_acquire)) sender_->read_credits();
  return greeted_.load(std::memory_order_acquire);
}

// A receiver that is busy has a responder that answers. A process that is stopped says nothing by TCP either.
void DatagramChannel::doubt() noexcept {
  const std::uint64_t heard = parts_.session->stream.received();
  if (greeted_.exchange(false, std::memory_order_acq_rel) || unanswered_ == 0) {
    unanswered_ = 0;
    heard_ = heard;
  }
  if (++unanswered_ > kMostUnanswered && heard != heard_) {
    unreachable_();
    return;
  }
  greet();
}

ripc_status DatagramChannel::send(const spi::Outgoing& outgoing) noexcept {
  const std::size_t size = outgoing.message.packet_size();
  if (outgoing.kind != spi::Outgoing::Kind::given || routes_.packets.sealer || sender_->takes_inline(size))
    return LinkChannel::send(outgoing);
  return send_one(size, [&](const wire::datagram::Header& header) {
    return sender_->send_given(routes_.packets, header, outgoing.message, *outgoing.copied);
  });
}

ripc_status DatagramChannel::send_many(std::span<const wire::Plain> messages, std::size_t& sent) noexcept {
  sent = 0;
  if (messages.empty()) {
    // What was opened first: whoever is told of an item looks for its offer at once.
    bulk_->send_offers();
    sender_->flush();
    return RIPC_OK;
  }
  const std::size_t limit = packet_limit();
  if (messages.size() == 1 || messages.front().packet_size() > limit) {
    const ripc_status status = send({.message = messages.front()});
    if (status == RIPC_OK) sent = 1;
    return status;
  }
  static constexpr auto kCosts = [] {
    std::array<std::uint32_t, DatagramSender::kMostMessages> costs{};
    costs.fill(1);
    return costs;
  }();
  const std::lock_guard lock(mutex_);
  std::uint32_t count = 0;
  ripc_status status = RIPC_OK;
  while (count < messages.size() && count < kCosts.size() && messages[count].packet_size() <= limit) {
    status = room_locked(count + 1);
    if (status != RIPC_OK) break;
    ++count;
  }
  if (count == 0) return status;
  const std::uint64_t offer = take_offer();
  sent = sender_->send_many(routes_.packets, messages.first(count), [&](std::size_t index) {
    const auto number = static_cast<std::uint32_t>(index) + 1;
    return header_locked(sequence_ + number, credit_.spent() + number, index == 0 ? offer : 0);
  });
  sent_locked(std::span(kCosts).first(sent), sent != 0 ? RIPC_OK : RIPC_AGAIN);
  if (sent != 0) return RIPC_OK;
  give_back(offer);
  return RIPC_AGAIN;
}

bool DatagramChannel::send_together(std::span<DatagramChannel* const> channels, DatagramSender& sender,
                                    const DatagramRoute& route, const wire::datagram::Header& header,
                                    spi::Gather packet) noexcept {
  // The datagram comes at the same place among those of each link.
  std::size_t locked = 0;
  bool has_room = true;
  for (DatagramChannel* channel : channels) {
    channel->mutex_.lock();
    ++locked;
    has_room = channel->room_locked(1) == RIPC_OK;
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
  if (const auto* const join = std::get_if<wire::session_control::JoinGroup>(&frame)) {
    port_.join_group(std::shared_ptr<DatagramSource>(shared_from_this(), this), join->token, join->group);
  } else if (const auto* const leave = std::get_if<wire::session_control::LeaveGroup>(&frame)) {
    port_.leave_group(*this, leave->token);
  }
}

bool DatagramSource::is_own(std::span<std::byte> datagram, remote::PortCounters& counters) const noexcept {
  const DatagramVerifier::Verdict verdict = check(verifier_.get(), datagram);
  if (verdict == DatagramVerifier::Verdict::fresh) [[likely]]
    return true;
  remote::increase(verdict == DatagramVerifier::Verdict::forged ? counters.corrupt : counters.duplicates);
  return false;
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

std::string DatagramChannel::describe(Deadline) {
  const DevicePort& port = sender_->port();
  return "RDMA, " + port.device->name + " port " + std::to_string(port.number) + " (" + port.ip + ") to " +
         parts_.session->remote().ip() + "; " + (parts_.session->secret ? "signed " : "") + "datagrams of up to " +
         std::to_string(packet_limit()) + " bytes, " + parts_.session->bulk->describe();
}

}  // namespace ripc::internal::verbs
