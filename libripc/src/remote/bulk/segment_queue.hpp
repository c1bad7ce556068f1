// SPDX-License-Identifier: Apache-2.0
// The segments of pulls that one TCP connection was asked for, in the order of their answers. Guarded by the lock of
// the table that owns them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "remote/bulk/limits.hpp"
#include "remote/bulk/pull_table.hpp"
#include "remote/bulk/rail_pace.hpp"
#include "remote/bulk/stream_connection.hpp"
#include "wire/bulk.hpp"

namespace ripc::internal::remote {

// `Entry`: a PullEntry that is a Destination.
template <typename Entry>
class SegmentQueue {
 public:
  // Throws std::bad_alloc; nothing else does.
  SegmentQueue() {
    segments_.reserve(kSegmentsAhead);
    requests_.reserve(kSegmentsAhead);
  }

  bool empty() const noexcept { return segments_.empty(); }
  std::size_t size() const noexcept { return segments_.size(); }
  bool has_room() const noexcept { return size() < kSegmentsAhead; }

  // Asks for a part of the item, with the next send_requests(). `id`: no other segment of the session has it.
  void ask(std::uint64_t id, std::shared_ptr<Entry> entry, ByteRange range) noexcept {
    requests_.push_back({.type = wire::bulk::Type::pull_request,
                         .length = static_cast<std::uint32_t>(range.end - range.begin),
                         .id = id,
                         .key = entry->descriptor.key,
                         .location = entry->descriptor.location,
                         .offset = range.begin,
                         .value = 0});
    segments_.push_back({id, std::move(entry), range});
  }
  // If the connection is lost already, its end takes the segments back.
  void send_requests(StreamConnection& connection) noexcept {
    if (requests_.empty()) return;
    (void)connection.send(requests_);
    requests_.clear();
  }

  // A data frame has come: the pull that its payload belongs to. Null: no one asked for it.
  std::shared_ptr<Entry> begin_data(const wire::bulk::Frame& frame) const noexcept {
    if (empty()) return nullptr;
    const Segment& segment = segments_.front();
    const bool is_next = frame.id == segment.id && frame.offset == segment.rest.begin &&
                         frame.length <= segment.rest.end - segment.rest.begin;
    return is_next ? segment.entry : nullptr;
  }
  // The payload of the frame is there or, with a status other than RIPC_OK, will not come. Returns its pull; null: the
  // frame makes no sense.
  std::shared_ptr<Entry> end_data(const wire::bulk::Frame& frame, ripc_status status, RailPace& pace) noexcept {
    if (empty()) return nullptr;
    Segment& segment = segments_.front();
    std::shared_ptr<Entry> entry = segment.entry;
    if (status != RIPC_OK) {
      pace.forget(segment.rest.end - segment.rest.begin);
      segment.rest.begin = segment.rest.end;
    } else if (frame.length == 0) {
      return nullptr;
    } else {
      segment.rest.begin += frame.length;
      pace.arrived(frame.length, monotonic_now());
    }
    if (segment.rest.begin == segment.rest.end) segments_.erase(segments_.begin());
    return entry;
  }
  // The pull whose data comes now; null: none.
  Entry* front() const noexcept { return empty() ? nullptr : segments_.front().entry.get(); }

  // The connection has ended: calls take(entry, range) with what it still owes.
  template <typename Take>
  void give_back(Take&& take) const noexcept {
    for (const Segment& segment : segments_) take(*segment.entry, segment.rest);
  }

 private:
  struct Segment {
    std::uint64_t id;
    std::shared_ptr<Entry> entry;
    ByteRange rest;  // not confirmed yet
  };

  std::vector<Segment> segments_;            // kSegmentsAhead at most
  std::vector<wire::bulk::Frame> requests_;  // likewise
};

}  // namespace ripc::internal::remote
