// SPDX-License-Identifier: Apache-2.0
// The pushes of one session over TCP.
//
// Any thread may call anything.
#pragma once

#include <cstdint>
#include <memory>

#include "remote/bulk/access.hpp"
#include "remote/bulk/push_table.hpp"
#include "remote/bulk/stream_connection.hpp"

namespace ripc::internal::remote {

class StreamPush final : public OutgoingPush {
 public:
  using OutgoingPush::OutgoingPush;

  // The bytes to send, while the push goes on.
  Reading read(std::uint64_t offset, std::uint64_t length) noexcept;
  Job job(std::shared_ptr<StreamPush> self) const noexcept;
};

class StreamPushTable : public PushTable<StreamPush> {
 public:
  // Null after died(). Throws std::bad_alloc.
  std::shared_ptr<StreamPush> open(const wire::Grant& grant, spi::Bytes bytes);
  using PushTable::close;

  // Sends all pushes that have no connection over this one, unless it is lost.
  void place_all(const std::shared_ptr<StreamConnection>& connection) noexcept;
  void connection_lost(const StreamConnection& connection) noexcept;
  void died() noexcept;

  // The peer's answer, over the connection that it came on.
  void answered(const StreamConnection& connection, const wire::bulk::Frame& frame) noexcept;
};

}  // namespace ripc::internal::remote
