// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/datagram/datagram_sender.hpp"

#include <errno.h>

#include <cstring>
#include <new>
#include <numeric>

#include "transport/verbs/device/post_receives.hpp"

namespace ripc::internal::verbs {

namespace {

using wire::datagram::Header;
using wire::datagram::HeaderBytes;
using wire::datagram::Kind;

constexpr std::uint32_t kMostRanges = 16;
// Items with fewer bytes are copied next to the header, because a separate range would cost the device more.
constexpr std::size_t kLeastGathered = DatagramSender::kInline;
constexpr std::uint8_t kDatagramHops = 64;

// The size of the datagram that carries this packet.
std::size_t size_of(spi::Gather packet) noexcept {
  return std::accumulate(packet.begin(), packet.end(), wire::datagram::kHeaderSize,
                         [](std::size_t sum, spi::Bytes range) { return sum + range.size(); });
}

}  // namespace

Result<std::shared_ptr<DatagramSender>> DatagramSender::create(const DevicePort& port,
                                                               std::shared_ptr<Registrar> registrar, EventLoop& loop) {
  std::shared_ptr<DatagramSender> sender(new DatagramSender(port, std::move(registrar), loop));
  if (Status status = sender->make(); !status.ok()) return status;
  // Greetings are answered from now on.
  loop.post([weak = sender->weak_from_this()] {
    const auto self = weak.lock();
    if (self && self->watch_queue().ok()) self->on_event();
  });
  return sender;
}

Status DatagramSender::make() {
  const DevicePointer& device = registrar_->device();
  ranges_ = std::clamp<std::uint32_t>(static_cast<std::uint32_t>(device->attributes.max_sge), 1, kMostRanges);
  Result<std::unique_ptr<DatagramQueue>> queue = DatagramQueue::create(
      port_, device,
      {.sends = kSends, .receives = kReceives, .ranges = ranges_, .receive_ranges = 2, .inlined = kInline});
  if (!queue.ok()) return queue.status();
  queue_ = std::move(*queue);
  stride_ = port_.mtu;
  slots_ = std::make_unique_for_overwrite<std::byte[]>(kSends * stride_);
  Result<RegionPointer> region = registrar_->range(slots_.get(), kSends * stride_, IBV_ACCESS_LOCAL_WRITE);
  if (!region.ok()) return region.status();
  slots_region_ = std::move(*region);
  const std::size_t credits_size = kReceives * kCreditSlot + port_.mtu;
  credits_ = std::make_unique<std::byte[]>(credits_size);
  region = registrar_->range(credits_.get(), credits_size, IBV_ACCESS_LOCAL_WRITE);
  if (!region.ok()) return region.status();
  credits_region_ = std::move(*region);
  for (std::uint32_t slot = 0; slot < kReceives; ++slot) post_receive(slot);
  return {};
}

DatagramSender::~DatagramSender() {
  if (watching_) loop_.remove(queue_->fd());
}

// ---- Routes --------------------------------------------------------------------------------------------------

Result<AddressHandle> DatagramSender::find_handle(const wire::session_control::Gid& gid, std::uint32_t lid) {
  ibv_ah_attr attributes{};
  attributes.port_num = port_.number;
  attributes.dlid = static_cast<std::uint16_t>(lid);
  // Within an InfiniBand subnet a LID is enough.
  constexpr std::size_t kPrefix = 8;
  attributes.is_global = port_.ethernet || lid == 0 || std::memcmp(port_.gid.raw, gid.data(), kPrefix) != 0 ? 1 : 0;
  std::memcpy(attributes.grh.dgid.raw, gid.data(), gid.size());
  attributes.grh.sgid_index = port_.gid_index;
  attributes.grh.hop_limit = kDatagramHops;
  if (AddressHandle handle = create_handle(registrar_->device(), attributes)) return handle;
  return Status(RIPC_PEER_DEAD, "The device " + registrar_->device()->name + " finds no route to the peer (" +
                                    std::strerror(errno) + "): check the addresses with `ripc doctor`.");
}

Result<DatagramRoute> DatagramSender::route_to_group(ibv_ah_attr address, std::uint32_t queue_pair,
                                                     std::uint32_t queue_key) {
  AddressHandle handle = create_handle(registrar_->device(), address);
  if (!handle) return system_error(errno, "ibv_create_ah", "see `ripc doctor`");
  return DatagramRoute{.handle = std::move(handle), .queue_pair = queue_pair, .queue_key = queue_key};
}

// ---- Sending -------------------------------------------------------------------------------------------------

// With the lock held. Whether this many more can be posted.
bool DatagramSender::reap_locked(std::uint32_t wanted) noexcept {
  if (queue_->take_stopped()) [[unlikely]]
    restart_locked();
  const auto fits = [&] { return posted_ - completed_ + enqueued_count_ + wanted <= kSends; };
  if (!fits()) poll_locked();
  return fits();
}

void DatagramSender::poll_locked() noexcept {
  std::array<ibv_wc, 16> completions;
  bool failed = false;
  for (;;) {
    const int count = ibv_poll_cq(queue_->sends(), static_cast<int>(completions.size()), completions.data());
    if (count <= 0) break;
    counters_.completions += static_cast<std::uint64_t>(count);
    const std::span polled(completions.data(), static_cast<std::size_t>(count));
    failed = failed || std::any_of(polled.begin(), polled.end(),
                                   [](const ibv_wc& completion) { return completion.status != IBV_WC_SUCCESS; });
    completed_ = polled.back().wr_id + 1;
  }
  in_flight_.release_before(completed_);
  if (failed) restart_locked();
}

// The queue pair has stopped with an error; whatever was under way is lost, as datagrams may be.
void DatagramSender::restart_locked() noexcept {
  const std::lock_guard lock(credits_mutex_);
  ++counters_.restarts;
  // Only a device that is gone stays broken, which its sessions notice.
  if (!queue_->restart().ok()) return;
  completed_ = posted_;
  in_flight_.release_before(completed_);
  for (std::uint32_t slot = 0; slot < kReceives; ++slot) post_receive(slot);
}

bool DatagramSender::has_room(std::uint32_t datagrams) noexcept {
  const std::lock_guard lock(mutex_);
  return reap_locked(datagrams);
}

void DatagramSender::prepare_locked(ibv_send_wr& request, const DatagramRoute& route, std::uint64_t number) noexcept {
  // It is usually the same as before.
  AddressHandle& handle = in_use_[number % kSends];
  if (handle != route.handle) handle = route.handle;
  request = {};
  request.wr_id = number;
  request.opcode = IBV_WR_SEND;
  if ((number + 1) % kSignalEvery == 0) request.send_flags = IBV_SEND_SIGNALED;
  request.wr.ud = {.ah = handle.get(), .remote_qpn = route.queue_pair, .remote_qkey = route.queue_key};
}

bool DatagramSender::post_locked(ibv_send_wr& first, std::uint32_t count) noexcept {
  ibv_send_wr* bad = nullptr;
  ++counters_.doorbells;
  if (ibv_post_send(queue_->pair(), &first, &bad) != 0) return false;
  counters_.work_requests += count;
  posted_ += count;
  return true;
}

// With the lock held. Call it before anything else is posted, so that everything leaves in order.
void DatagramSender::flush_locked() noexcept {
  if (enqueued_count_ == 0) [[likely]]
    return;
  (void)post_locked(enqueued_.front(), std::exchange(enqueued_count_, 0));
}

// Writes header and packet, `text` bytes in total, contiguous and signed. False: there is no number left to sign with.
bool DatagramSender::write_locked(const DatagramRoute& route, const Header& header, spi::Gather packet,
                                  std::size_t text, std::byte* to) noexcept {
  HeaderBytes head;
  wire::datagram::encode(header, head);
  std::byte* at = std::copy(head.begin(), head.end(), route.text_in(to));
  for (const spi::Bytes part : packet) at = std::copy(part.begin(), part.end(), at);
  return !route.sealer || route.sealer->seal(to, text);
}

void DatagramSender::flush() noexcept {
  const std::lock_guard lock(mutex_);
  flush_locked();
}

ripc_status DatagramSender::enqueue(const DatagramRoute& route, const Header& header, spi::Gather packet) noexcept {
  const std::size_t text = size_of(packet);
  const std::size_t size = text + route.overhead();
  if (size > port_.mtu) return RIPC_TOO_LARGE;
  const std::lock_guard lock(mutex_);
  if (enqueued_count_ == enqueued_.size()) flush_locked();
  if (!reap_locked(1)) return RIPC_AGAIN;
  const std::uint64_t number = posted_ + enqueued_count_;
  ibv_send_wr& request = enqueued_[enqueued_count_];
  ibv_sge& range = enqueued_ranges_[enqueued_count_];
  const bool goes_inline = size <= queue_->inlined() && size <= kInline;
  std::byte* const place =
      goes_inline ? enqueued_bytes_.data() + std::size_t{enqueued_count_} * kInline : slot_of(number);
  if (!write_locked(route, header, packet, text, place)) return RIPC_PEER_DEAD;
  range = range_of(place, size, slots_region_->local_key());
  prepare_locked(request, route, number);
  request.sg_list = &range;
  request.num_sge = 1;
  if (goes_inline) request.send_flags |= IBV_SEND_INLINE;
  if (enqueued_count_ != 0) enqueued_[enqueued_count_ - 1].next = &request;
  ++enqueued_count_;
  ++(goes_inline ? counters_.inlined : counters_.copied);
  return RIPC_OK;
}

ripc_status DatagramSender::send(const DatagramRoute& route, const Header& header, spi::Gather packet) noexcept {
  const std::size_t text = size_of(packet);
  const std::size_t size = text + route.overhead();
  if (size > port_.mtu) return RIPC_TOO_LARGE;
  HeaderBytes head;
  std::array<ibv_sge, kMostRanges> ranges;
  ibv_send_wr request;
  const std::lock_guard lock(mutex_);
  flush_locked();
  if (!reap_locked(1)) return RIPC_AGAIN;
  prepare_locked(request, route, posted_);
  request.sg_list = ranges.data();
  if (header.kind == Kind::greeting) request.send_flags |= IBV_SEND_SOLICITED;
  const bool goes_inline = size <= queue_->inlined() && packet.size() < ranges_;
  if (goes_inline && !route.sealer) {
    wire::datagram::encode(header, head);
    ranges[0] = range_of(head.data(), head.size(), 0);
    int count = 1;
    for (const spi::Bytes range : packet) {
      if (range.empty()) continue;
      ranges[static_cast<std::size_t>(count++)] = range_of(range.data(), range.size(), 0);
    }
    request.num_sge = count;
  } else {
    std::byte* const slot = slot_of(posted_);
    if (!write_locked(route, header, packet, text, slot)) return RIPC_PEER_DEAD;
    ranges[0] = range_of(slot, size, slots_region_->local_key());
    request.num_sge = 1;
  }
  if (goes_inline) request.send_flags |= IBV_SEND_INLINE;
  ++(goes_inline ? counters_.inlined : counters_.copied);
  return post_locked(request, 1) ? RIPC_OK : RIPC_AGAIN;
}

ripc_status DatagramSender::send_given(const DatagramRoute& route, const Header& header, const wire::Plain& message,
                                       bool& copied) noexcept try {
  const std::size_t size = wire::datagram::kHeaderSize + message.packet_size();
  if (size > port_.mtu) return RIPC_TOO_LARGE;
  // Each range that the device gathers may be followed by a range of the slot.
  const std::size_t most = (ranges_ - 1) / 2;
  std::array<LocalMemory, kMostRanges / 2> leased;
  std::array<std::size_t, kMostRanges / 2> items{};
  std::size_t count = 0;
  for (std::size_t index = 0; index < message.items.size() && count < most; ++index) {
    const ripc_item& item = message.items[index];
    if (item.size < kLeastGathered) continue;
    leased[count] = registrar_->leased(item.data, item.size);
    if (InFlightLeases::takes(leased[count])) items[count++] = index;
  }
  std::array<ibv_sge, kMostRanges> ranges;
  std::size_t used = 0;
  std::size_t gathered = 0;
  bool has_copied = false;
  HeaderBytes head;
  wire::datagram::encode(header, head);
  ibv_send_wr request;
  const std::lock_guard lock(mutex_);
  flush_locked();
  if (!reap_locked(1)) return RIPC_AGAIN;
  if (count != 0 && !in_flight_.has_room(leased.front())) poll_locked();
  prepare_locked(request, route, posted_);
  std::byte* start = slot_of(posted_);
  std::byte* at = wire::write_plain_head(message, std::copy(head.begin(), head.end(), start));
  const auto end_part = [&] {
    if (at == start) return;
    ranges[used++] = range_of(start, static_cast<std::size_t>(at - start), slots_region_->local_key());
    start = at;
  };
  for (std::size_t index = 0; index < message.items.size(); ++index) {
    const ripc_item& item = message.items[index];
    if (gathered < count && items[gathered] == index && in_flight_.has_room(leased[gathered])) {
      end_part();
      ranges[used++] = range_of(item.data, item.size, leased[gathered].region->local_key());
      in_flight_.add(posted_, std::move(leased[gathered]));
      ++gathered;
    } else if (item.size != 0) {
      at = std::copy_n(static_cast<const std::byte*>(item.data), item.size, at);
      has_copied = true;
    }
  }
  end_part();
  request.sg_list = ranges.data();
  request.num_sge = static_cast<int>(used);
  if (in_flight_.wants_completion()) request.send_flags |= IBV_SEND_SIGNALED;
  if ((request.send_flags & IBV_SEND_SIGNALED) != 0) in_flight_.has_completion();
  // Memory of a request that was not posted is released with the next one that is.
  if (!post_locked(request, 1)) return RIPC_AGAIN;
  copied = has_copied;
  counters_.copied += has_copied ? 1 : 0;
  counters_.gathered += gathered != 0 ? 1 : 0;
  return RIPC_OK;
} catch (const std::bad_alloc&) {
  return RIPC_NO_MEMORY;
}

std::size_t DatagramSender::send_many(const DatagramRoute& route, std::span<const wire::Plain> messages,
                                      const std::function<Header(std::size_t)>& header) noexcept {
  const std::lock_guard lock(mutex_);
  flush_locked();
  auto count = static_cast<std::uint32_t>(std::min(messages.size(), kMostMessages));
  while (count > 0 && !reap_locked(count)) count /= 2;
  return post_copies_locked(route, count, [&](std::size_t index, std::byte* text) {
    HeaderBytes head;
    wire::datagram::encode(header(index), head);
    wire::write_plain(messages[index], std::copy(head.begin(), head.end(), text));
    return head.size() + messages[index].packet_size();
  });
}

ripc_status DatagramSender::send_parts(const DatagramRoute& route, const Header& header, spi::Gather packet,
                                       std::size_t part) noexcept {
  const std::uint32_t count = header.after + 1u;
  std::size_t range = 0;  // the next one in the packet
  std::size_t taken = 0;  // bytes of it taken
  Header next = header;
  next.spent -= count;
  const auto write = [&](std::size_t, std::byte* text) {
    ++next.spent;
    HeaderBytes head;
    wire::datagram::encode(next, head);
    next.credit_link = next.credit = 0;
    ++next.sequence;
    ++next.before;
    --next.after;
    std::byte* const begin = std::copy(head.begin(), head.end(), text);
    std::byte* at = begin;
    for (std::size_t left = part; left != 0 && range != packet.size();) {
      const spi::Bytes bytes = packet[range].subspan(taken, std::min(left, packet[range].size() - taken));
      at = std::copy(bytes.begin(), bytes.end(), at);
      left -= bytes.size();
      taken += bytes.size();
      if (taken != packet[range].size()) break;
      taken = 0;
      ++range;
    }
    return head.size() + static_cast<std::size_t>(at - begin);
  };
  const std::lock_guard lock(mutex_);
  flush_locked();
  if (!reap_locked(count)) return RIPC_AGAIN;
  for (std::uint32_t sent = 0; sent < count;) {
    const std::uint32_t batch = std::min<std::uint32_t>(count - sent, kMostMessages);
    const std::uint32_t posted = post_copies_locked(route, batch, write);
    // If others of the packet were sent, those that the device does not take are lost, as datagrams may be.
    if (posted != batch) return sent + posted == 0 ? RIPC_AGAIN : RIPC_OK;
    sent += posted;
  }
  return RIPC_OK;
}

// Posts datagrams out of slots. `write` puts the text of each into its slot, and returns its size. Returns how many
// were posted; there must be room for all.
template <typename Write>
std::uint32_t DatagramSender::post_copies_locked(const DatagramRoute& route, std::uint32_t count,
                                                 Write&& write) noexcept {
  std::array<ibv_send_wr, kMostMessages> requests;
  std::array<ibv_sge, kMostMessages> ranges;
  for (std::uint32_t index = 0; index < count; ++index) {
    std::byte* const slot = slot_of(posted_ + index);
    const std::size_t text = write(index, route.text_in(slot));
    if (route.sealer && !route.sealer->seal(slot, text)) {
      count = index;  // no later datagram gets a number either
      break;
    }
    ranges[index] = range_of(slot, text + route.overhead(), slots_region_->local_key());
    prepare_locked(requests[index], route, posted_ + index);
    requests[index].sg_list = &ranges[index];
    requests[index].num_sge = 1;
    if (index != 0) requests[index - 1].next = &requests[index];
  }
  if (count == 0 || !post_locked(requests.front(), count)) return 0;
  counters_.copied += count;
  return count;
}

DatagramCounters DatagramSender::counters() const noexcept {
  const std::lock_guard lock(mutex_);
  DatagramCounters counters = counters_;
  counters.rejected = rejected_.load(std::memory_order_relaxed);
  return counters;
}

}  // namespace ripc::internal::verbs
