// SPDX-License-Identifier: Apache-2.0
// Packets of senders whose earlier packets wait, for instance for a window.
#include <cstddef>
#include <iterator>
#include <new>

#include "transport/verbs/datagram/verbs_port.hpp"

namespace ripc::internal::verbs {

namespace {

// The largest datagram of any device.
constexpr std::size_t kLargestDatagram = 4096;

// The least that a packet of this size takes.
constexpr std::uint32_t datagrams_of(std::size_t packet) noexcept {
  return static_cast<std::uint32_t>(1 + packet / kLargestDatagram);
}

}  // namespace

// Called after a run of packets of one sender. A sender whose packets wait gets no room for more.
void VerbsPort::settle(DatagramSource* source) noexcept {
  if (source == nullptr) return;
  source->start_pulls();
  if (source->backlog.empty()) source->settle(counters_);
}

// Puts a packet into the backlog. The sender gets no credit meanwhile, so the packets there take no more datagrams than
// its budget.
void VerbsPort::hold(const std::shared_ptr<DatagramSource>& source, spi::Bytes packet) noexcept {
  const bool is_first = source->backlog.empty();
  if (is_first) source->held = 0;
  const std::uint32_t datagrams = datagrams_of(packet.size());
  if (source->held + datagrams > source->budget()) {
    remote::increase(counters_.corrupt);
    return;
  }
  try {
    source->backlog.emplace_back(packet.begin(), packet.end());
  } catch (const std::bad_alloc&) {
    remote::increase(counters_.lost);
    return;
  }
  source->held += datagrams;
  if (is_first) blocked_.push_back(source);
}

// They were sent before whatever is in the queue now. Of a sender that keeps to its credit, all have room.
void VerbsPort::take_kept(const std::shared_ptr<DatagramSource>& source) noexcept {
  if (!source->has_kept()) return;
  const std::size_t before = source->backlog.size();
  if (before == 0) source->held = 0;
  if (source->held >= source->budget()) return;
  source->take_kept(counters_);
  for (auto next = std::next(source->backlog.begin(), static_cast<std::ptrdiff_t>(before));
       next != source->backlog.end(); ++next)
    source->held += datagrams_of(next->size());
  if (source->backlog.empty()) {
    settle(source.get());
  } else if (before == 0) {
    blocked_.push_back(source);
  }
}

std::size_t VerbsPort::poll_backlogs(spi::PacketSink& sink, std::size_t budget, bool& stop) noexcept {
  std::size_t taken = 0;
  for (const auto& source : blocked_) {
    source->collect_pulls();
    if (!stop) taken += source->deliver_backlog(sink, budget - taken, stop);
    settle(source.get());
  }
  std::erase_if(blocked_, [](const auto& source) { return source->backlog.empty(); });
  return taken;
}

}  // namespace ripc::internal::verbs
