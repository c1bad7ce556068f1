// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/datagram/verbs_port.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <span>

#include "transport/verbs/datagram/grh.hpp"
#include "transport/verbs/device/post_receives.hpp"

namespace ripc::internal::verbs {

namespace {

// The most buffers in the queue of a service; they are made as senders come.
constexpr std::uint32_t kDepth = 32767;
// A sender that gets less than this is better off elsewhere.
constexpr std::uint32_t kLeastBudget = 8;
// Keeps the first bytes of all buffers from falling into the same cache set.
constexpr std::size_t kPadding = 88;
// How often to look for a packet and find only datagrams that bring none.
constexpr int kMaxEmptyRounds = 16;

}  // namespace

VerbsPort::~VerbsPort() {
  leave();
  for (const auto& receiver : receivers_) events_.remove(receiver->own.queue->fd());
}

// ---- Links ---------------------------------------------------------------------------------------------------

Result<VerbsPort::Receiver*> VerbsPort::receiver_for(const DevicePort& port,
                                                     const std::shared_ptr<Registrar>& registrar) {
  for (const auto& known : receivers_) {
    if (!known->is_given_up && known->port.device == port.device && known->port.number == port.number &&
        known->port.gid_index == port.gid_index)
      return known.get();
  }
  auto receiver = std::make_unique<Receiver>();
  const ibv_device_attr& limits = port.device->attributes;
  receiver->port = port;
  receiver->registrar = registrar;
  receiver->depth = std::min<std::uint32_t>(
      kDepth, static_cast<std::uint32_t>(std::max(std::min(limits.max_qp_wr, limits.max_cqe), 1)));
  receiver->stride = kGrhSize + port.mtu + kPadding;
  for (Buffers* buffers : {&receiver->own, &receiver->groups}) buffers->used.reserve(kReceiveBatch + kBatch);
  Result<std::unique_ptr<DatagramQueue>> queue =
      DatagramQueue::create(port, registrar->device(), {.sends = 1, .receives = receiver->depth});
  if (!queue.ok()) return queue.status();
  receiver->own.queue = std::move(*queue);
  Status status = add_slots(*receiver, receiver->own, std::min(kReserve, receiver->depth));
  if (status.ok()) status = events_.add(receiver->own.queue->fd(), EventSet::Kind::packets);
  if (!status.ok()) return status;
  receivers_.push_back(std::move(receiver));
  return receivers_.back().get();
}

Status VerbsPort::add_slots(const Receiver& receiver, Buffers& buffers, std::uint32_t count) {
  Chunk chunk;
  const std::size_t size = count * receiver.stride;
  chunk.memory = std::make_unique_for_overwrite<std::byte[]>(size);
  Result<RegionPointer> region = receiver.registrar->range(chunk.memory.get(), size, IBV_ACCESS_LOCAL_WRITE);
  if (!region.ok()) return region.status();
  chunk.region = std::move(*region);
  for (std::uint32_t index = 0; index < count; ++index)
    chunk.slots.push_back({chunk.memory.get() + index * receiver.stride, chunk.region->local_key(), &buffers});
  std::vector<Slot*> slots;
  for (Slot& slot : chunk.slots) slots.push_back(&slot);
  buffers.chunks.push_back(std::move(chunk));
  buffers.slots += count;
  post(receiver, buffers, slots);
  return {};
}

void VerbsPort::post(const Receiver& receiver, Buffers& buffers, std::vector<Slot*>& slots) noexcept {
  // This fails only if the device is gone, and the sessions notice that.
  (void)post_receives(buffers.queue->pair(), slots.size(), [&](std::size_t index, ibv_sge& range) {
    Slot* const slot = slots[index];
    if (buffers.of_groups) *slot->memory = std::byte{0};  // read_grh()
    range = range_of(slot->memory, receiver.stride - kPadding, slot->local_key);
    return reinterpret_cast<std::uint64_t>(slot);
  });
  slots.clear();
}

// Posts again the buffers that were read: all, or only if there are enough.
void VerbsPort::post_used(Receiver& receiver, bool all) noexcept {
  for (Buffers* buffers : {&receiver.own, &receiver.groups}) {
    if (buffers->used.size() >= kReceiveBatch || (all && !buffers->used.empty()))
      post(receiver, *buffers, buffers->used);
  }
}

// Half as many again as the service's options ask for, because credit is granted in portions. Senders that come when
// most of the queue is taken get less.
std::uint32_t VerbsPort::budget_locked(const Receiver& receiver) const noexcept {
  const std::uint32_t wanted = options().queue_messages + options().queue_messages / 2 + kLeastBudget;
  const std::uint32_t left =
      receiver.depth - std::min(receiver.depth, receiver.own.committed + kReserve + receiver.groups.slots);
  return std::min(wanted, left / 2);
}

// Makes sure that there are buffers for one more sender's budget.
Status VerbsPort::commit(Receiver& receiver, std::uint32_t budget) {
  const std::uint32_t needed = receiver.own.committed + budget + kReserve;
  if (needed > receiver.own.slots) {
    const std::uint32_t missing = needed - receiver.own.slots;
    if (receiver.own.slots + receiver.groups.slots + missing > receiver.depth) return RIPC_LIMIT;
    if (Status status = add_slots(receiver, receiver.own, missing); !status.ok()) return status;
  }
  receiver.own.committed += budget;
  return {};
}

VerbsPort::Accepted VerbsPort::accepted(const Receiver& receiver, std::shared_ptr<DatagramSource> source,
                                        const DatagramSource::Attachment& attachment) noexcept {
  const std::size_t around = wire::datagram::kHeaderSize + attachment.back.overhead();
  return {.source = std::move(source),
          .address = receiver.own.queue->address(receiver.port),
          .packet_limit = static_cast<std::uint32_t>(receiver.port.mtu - around)};
}

Result<VerbsPort::Accepted> VerbsPort::accept(remote::LinkSource::Parts parts, std::shared_ptr<RdmaBulk> bulk,
                                              const std::shared_ptr<Registrar>& registrar,
                                              DatagramSource::AttachmentPointer attachment) {
  const std::lock_guard lock(mutex_);
  const Result<Receiver*> found = receiver_for(attachment->sender->port(), registrar);
  if (!found.ok()) return found.status();
  Receiver& receiver = **found;
  const std::uint32_t budget = parts.budget = budget_locked(receiver);
  if (budget < kLeastBudget) return RIPC_LIMIT;
  make_place_locked();
  auto source = std::make_shared<DatagramSource>(std::move(parts), *this, std::move(bulk), attachment);
  const auto place = at_.emplace(source.get(), Place{source, &receiver, budget, attachment}).first;
  Status status = RIPC_NO_MEMORY;
  try {
    status = commit(receiver, budget);
  } catch (const std::bad_alloc&) {
    // The source has no place then.
  }
  if (!status.ok()) {
    at_.erase(place);
    return status;
  }
  insert_locked(source);
  return accepted(receiver, std::move(source), *attachment);
}

Result<VerbsPort::Accepted> VerbsPort::move(const remote::LinkSource& source,
                                            const std::shared_ptr<Registrar>& registrar,
                                            DatagramSource::AttachmentPointer attachment) {
  // Groups are left, and an attachment ends, without the lock.
  std::vector<GroupJoinPointer> gone;
  const std::lock_guard lock(mutex_);
  const auto found = at_.find(&source);
  if (found == at_.end()) return RIPC_NO_SERVICE;
  Place& place = found->second;
  const Result<Receiver*> receiver = receiver_for(attachment->sender->port(), registrar);
  if (!receiver.ok()) return receiver.status();
  if (*receiver == place.receiver) {
    place.receiver->own.committed += place.budget;  // which it leaves
  } else if (Status status = commit(**receiver, place.budget); !status.ok()) {
    return status;
  }
  gone = leave_locked(place);
  place.receiver = *receiver;
  attachment.swap(place.attachment);
  return accepted(*place.receiver, place.source, *place.attachment);
}

void VerbsPort::pass(DatagramSource& source, spi::Bytes datagram) {
  {
    // As above.
    std::vector<GroupJoinPointer> gone;
    DatagramSource::AttachmentPointer attachment;
    const std::lock_guard lock(mutex_);
    if (const auto found = at_.find(&source); found != at_.end() && found->second.attachment) {
      gone = leave_locked(found->second);
      attachment.swap(found->second.attachment);
    }
  }
  if (source.keep(datagram)) events_.wake();
}

// Takes a source from its place, because its datagrams come by another way from now on. Datagrams that the sender has
// still sent to the former port find buffers there, because nothing else comes to that port now.
std::vector<VerbsPort::GroupJoinPointer> VerbsPort::leave_locked(Place& place) {
  std::vector<GroupJoinPointer> gone =
      forget_locked([&](const GroupJoin& join) { return join.source == place.source; });
  if (place.receiver != nullptr) {
    place.receiver->own.committed -= place.budget;
    place.receiver->is_left = true;
  }
  place.receiver = nullptr;
  if (place.attachment) place.former = place.attachment->origin;
  version_.fetch_add(1, std::memory_order_release);
  return gone;
}

std::vector<std::string> VerbsPort::give_up(const Device& device, bool only_broken) {
  std::vector<std::string> ips;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& receiver : receivers_) {
      if (receiver->is_given_up || receiver->port.device.get() != &device) continue;
      if (only_broken && !receiver->is_broken()) continue;
      receiver->is_given_up = true;
      ips.push_back(receiver->port.ip);
    }
  }
  if (!ips.empty()) wake();
  return ips;
}

// Whether a receiver was given up and has lost its last source.
bool VerbsPort::is_over_locked(const Receiver& receiver) const noexcept {
  return receiver.is_given_up &&
         std::ranges::none_of(at_, [&](const auto& entry) { return entry.second.receiver == &receiver; });
}

void VerbsPort::drop_given_up_locked() noexcept {
  std::erase_if(receivers_, [this](const auto& receiver) {
    if (!is_over_locked(*receiver)) return false;
    events_.remove(receiver->own.queue->fd());
    return true;
  });
}

// ---- Receiving -----------------------------------------------------------------------------------------------

// False: there is no memory. Nothing has changed, and the receiver looks again soon.
bool VerbsPort::refresh() noexcept try {
  const std::lock_guard lock(mutex_);
  const std::uint64_t version = version_.load(std::memory_order_relaxed);
  Known now;
  blocked_.reserve(at_.size());
  for (const auto& receiver : receivers_) {
    if (!is_over_locked(*receiver)) now.receivers.push_back(receiver.get());
  }
  for (const auto& [address, place] : at_) {
    if (place.source->dead()) now.dead_sources.push_back(place.source);
    if (!place.attachment || place.source->has_kept()) now.streamed.push_back(place.source);
    if (place.attachment)
      now.by_token.emplace(place.attachment->origin.token, Sender{place.source, place.attachment->origin});
    if (place.former)
      now.by_token.emplace(place.former->token,
                           Sender{.source = place.source, .origin = *place.former, .is_former = true});
  }
  for (const GroupJoinPointer& join : group_joins_) {
    const auto at = at_.find(join->source.get());
    if (join->is_attached && at != at_.end())
      now.by_token.emplace(join->token, Sender{join->source, at->second.attachment->origin, join});
    now.some_are_over = now.some_are_over || join->is_over;
  }
  // From here on, nothing takes memory.
  for (Receiver* receiver : now.receivers) {
    if (std::exchange(receiver->is_left, false)) receiver->comes_first = true;
  }
  std::stable_partition(now.receivers.begin(), now.receivers.end(),
                        [](const Receiver* receiver) { return receiver->comes_first; });
  for (const auto& [address, place] : at_) place.source->attach(place.attachment);
  known_ = std::move(now);
  drop_given_up_locked();
  seen_version_ = version;
  return true;
} catch (const std::bad_alloc&) {
  events_.wake();
  return false;
}

bool VerbsPort::arm(bool on) noexcept {
  if (!on) return false;
  if (version_.load(std::memory_order_acquire) != seen_version_) (void)refresh();
  for (Receiver* receiver : known_.receivers) receiver->own.queue->arm_if_taken();
  return true;
}

std::size_t VerbsPort::poll(spi::PacketSink& sink, std::size_t budget) noexcept {
  // Datagrams of a link that is not known yet wait in the device.
  if (version_.load(std::memory_order_acquire) != seen_version_ && !refresh()) [[unlikely]]
    return udp_.poll(sink, budget);
  bool stop = false;
  bool is_behind = false;
  std::size_t taken = blocked_.empty() ? 0 : poll_backlogs(sink, budget, stop);
  for (Receiver* receiver : known_.receivers) {
    if (stop || taken >= budget) return taken;
    // The device does not report again what a full batch leaves behind, and the batch may contain no message.
    int empty_rounds = 0;
    do {
      const std::size_t brought = poll_receiver(*receiver, sink, budget - taken, stop);
      taken += brought;
      if (brought != 0) empty_rounds = 0;
    } while (receiver->count >= (receiver->comes_first ? 1 : kBatch) && !stop && taken < budget &&
             ++empty_rounds < kMaxEmptyRounds);
    if (empty_rounds == kMaxEmptyRounds) [[unlikely]] {
      // Someone floods the service with datagrams that are no packets. Other peers get a turn.
      is_behind = true;
      events_.wake();
    }
    if (receiver->comes_first) [[unlikely]]
      receiver->comes_first = receiver->count != 0;
  }
  if (!known_.streamed.empty() && !stop && taken < budget) [[unlikely]] {
    for (const auto& source : known_.streamed) take_kept(source);
    taken += poll_backlogs(sink, budget - taken, stop);
  }
  if (stop || taken >= budget) return taken;
  // All that a dead source sent before its end has been taken in.
  if (taken == 0 && !is_behind && (!known_.dead_sources.empty() || known_.some_are_over)) [[unlikely]]
    retire_sources(sink);
  return taken + udp_.poll(sink, budget - taken);
}

std::size_t VerbsPort::poll_receiver(Receiver& receiver, spi::PacketSink& sink, std::size_t budget,
                                     bool& stop) noexcept {
  std::size_t taken = 0;
  if (receiver.next == receiver.count) {
    receiver.next = 0;
    receiver.count = receiver.own.queue->take(receiver.batch);
    if (receiver.count == 0) {
      if (receiver.take_stopped()) [[unlikely]]
        restart(receiver);
      return 0;
    }
  }
  DatagramSource* last = nullptr;
  for (; receiver.next != receiver.count && taken < budget; ++receiver.next) {
    const ibv_wc& completion = receiver.batch[receiver.next];
    auto* const slot = reinterpret_cast<Slot*>(completion.wr_id);
    const bool is_offered_again = std::exchange(receiver.offered, false);
    if (completion.status != IBV_WC_SUCCESS) {
      receiver.failed = true;
      continue;
    }
    const std::size_t size = completion.byte_len > kGrhSize ? completion.byte_len - kGrhSize : 0;
    const std::span<std::byte> datagram(slot->memory + kGrhSize, size);
    const spi::Bytes text = unverified(datagram);
    const Sender* const sender = sender_of(*slot, completion, text);
    // All has been looked at when a packet is offered again.
    if (sender == nullptr || (!is_offered_again && !is_own(*sender, datagram))) {
      slot->of->used.push_back(slot);
      continue;
    }
    const std::shared_ptr<DatagramSource>& source = sender->source;
    // Packets that came by the control connection were sent before this.
    if (!known_.streamed.empty() && !sender->is_former && !is_offered_again) [[unlikely]]
      take_kept(source);
    const spi::Bytes packet = is_offered_again ? source->accepted(text)
                              : sender->join   ? source->accept_multicast(text, sender->join->window, counters_)
                                               : source->accept(text, sender->origin.token, counters_);
    if (last != source.get()) settle(last);
    last = source.get();
    if (!packet.empty()) {
      if (!source->backlog.empty()) {
        hold(source, packet);
      } else {
        source->collect_pulls();
        const spi::Delivery delivery = sink.deliver(*source, packet, nullptr);
        if (delivery == spi::Delivery::stop) {
          receiver.offered = true;
          stop = true;
          break;
        }
        if (delivery == spi::Delivery::blocked) {
          hold(source, packet);
        } else {
          ++taken;
        }
      }
    }
    slot->of->used.push_back(slot);
  }
  post_used(receiver, receiver.next == receiver.count);
  settle(last);
  if (receiver.failed && receiver.next == receiver.count) [[unlikely]]
    restart(receiver);
  return taken;
}

// Whether a datagram really is from the sender that it names; if not, counts it.
bool VerbsPort::is_own(const Sender& sender, std::span<std::byte> datagram) noexcept {
  const DatagramVerifier::Verdict verdict = check(sender.origin.verifier.get(), datagram);
  if (verdict == DatagramVerifier::Verdict::fresh) [[likely]]
    return true;
  remote::increase(verdict == DatagramVerifier::Verdict::forged ? counters_.corrupt : counters_.duplicates);
  return false;
}

// Null: the datagram is from nobody. It is then counted, unless other groups may have the same address.
const VerbsPort::Sender* VerbsPort::sender_of(const Slot& slot, const ibv_wc& completion, spi::Bytes text) noexcept {
  const auto found = text.size() < wire::datagram::kHeaderSize
                         ? known_.by_token.end()
                         : known_.by_token.find(wire::load_le<std::uint64_t>(text.data() + 8));
  const bool is_known = found != known_.by_token.end();
  if (!is_known && slot.of->of_groups) return nullptr;
  bool is_right = is_known && found->second.origin.queue_pair == completion.src_qp &&
                  (found->second.join != nullptr) == slot.of->of_groups;
  if (is_right && slot.of->of_groups) {
    // Any host that listens to the group knows the token, so the address must be right too.
    const std::optional<DatagramEnds> ends = (completion.wc_flags & IBV_WC_GRH) != 0
                                                 ? read_grh(std::span<const std::byte, kGrhSize>(slot.memory, kGrhSize))
                                                 : std::nullopt;
    is_right = ends && ends->source == found->second.origin.gid;
  }
  if (is_right) return &found->second;
  counters_.corrupt.store(counters_.corrupt.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return nullptr;
}

// Datagrams under way are lost, as they may be; the senders need not know.
void VerbsPort::restart(Receiver& receiver) noexcept {
  const std::lock_guard lock(mutex_);
  receiver.failed = false;
  // They complete in one queue, and each restart empties it, so they get buffers only afterwards. Only a device that is
  // gone stays broken, and its sessions notice that.
  std::array<Buffers*, 2> restarted{};
  std::size_t count = 0;
  for (Buffers* buffers : {&receiver.own, &receiver.groups}) {
    buffers->used.clear();
    if (buffers->queue && buffers->queue->restart().ok()) restarted[count++] = buffers;
  }
  for (Buffers* buffers : std::span(restarted).first(count)) {
    for (Chunk& chunk : buffers->chunks) {
      for (Slot& slot : chunk.slots) {
        buffers->used.push_back(&slot);
        if (buffers->used.size() == kReceiveBatch) post(receiver, *buffers, buffers->used);
      }
    }
    post(receiver, *buffers, buffers->used);
  }
}

std::vector<ibv_qp*> VerbsPort::pairs() {
  const std::lock_guard lock(mutex_);
  std::vector<ibv_qp*> pairs;
  for (const auto& receiver : receivers_) {
    pairs.push_back(receiver->own.queue->pair());
    if (receiver->groups.queue) pairs.push_back(receiver->groups.queue->pair());
  }
  return pairs;
}

std::vector<DatagramAddress> VerbsPort::addresses() {
  const std::lock_guard lock(mutex_);
  std::vector<DatagramAddress> addresses;
  for (const auto& receiver : receivers_) addresses.push_back(receiver->own.queue->address(receiver->port));
  return addresses;
}

// Without memory, the next look tries again.
void VerbsPort::retire_sources(spi::PacketSink& sink) noexcept try {
  std::vector<GroupJoinPointer> gone;  // groups are left without the lock
  if (known_.some_are_over) {
    const std::lock_guard lock(mutex_);
    gone = forget_locked([](const GroupJoin& join) { return join.is_over; });
    known_.some_are_over = false;
  }
  for (auto next = known_.dead_sources.begin(); next != known_.dead_sources.end();) {
    const std::shared_ptr<DatagramSource> source = *next;
    if (!source->is_over() || !source->backlog.empty() || source->has_kept()) {
      ++next;
      continue;
    }
    gone.clear();
    {
      const std::lock_guard lock(mutex_);
      gone = forget_locked([&](const GroupJoin& join) { return join.source == source; });
    }
    next = known_.dead_sources.erase(next);
    sink.source_gone(*source);
    remember_session_of(*source);
    const std::lock_guard lock(mutex_);
    if (const auto found = at_.find(source.get()); found != at_.end()) {
      if (found->second.receiver != nullptr) found->second.receiver->own.committed -= found->second.budget;
      at_.erase(found);
    }
    erase_locked(*source);
  }
} catch (const std::bad_alloc&) {
  events_.wake();
}

}  // namespace ripc::internal::verbs
