// SPDX-License-Identifier: Apache-2.0
// Where frames without payload are written. Any thread.
#pragma once

#include <span>

#include "wire/bulk.hpp"

namespace ripc::internal::remote {

class FrameSender {
 public:
  // Sends the frames in this order. False: the connection is lost, or is going to be.
  virtual bool send(std::span<const wire::bulk::Frame> frames) noexcept = 0;
  bool send(const wire::bulk::Frame& frame) noexcept { return send(std::span(&frame, 1)); }
  // The same for callers that hold locks which others need as soon as the frames arrive. The frames may wait for
  // flush(), which the caller must call soon, without locks.
  virtual bool enqueue(const wire::bulk::Frame& frame) noexcept = 0;
  virtual void flush() noexcept = 0;

 protected:
  ~FrameSender() = default;
};

}  // namespace ripc::internal::remote
