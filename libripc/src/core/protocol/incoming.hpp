// SPDX-License-Identifier: Apache-2.0
// Decides where each item of a received message goes: into a window, a return buffer or a lease, or nowhere if it is
// lent in place. The counterpart of protocol/outgoing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <utility>

#include "core/state/message.hpp"
#include "core/state/requests.hpp"
#include "core/state/window_queue.hpp"
#include "memory/pool.hpp"
#include "spi/transport.hpp"

namespace ripc::internal::core {

// One item to be pulled.
struct IncomingItem {
  enum class Target : std::uint8_t { window, return_buffer, lent, lease };
  std::size_t view = 0;  // index in the message
  Target target = Target::window;
  std::uint32_t return_index = 0;
  WindowQueue::Taken window;
  WindowQueue* home = nullptr;  // the queue that the window comes from
  bool done = false;
  spi::Pull pull;
  memory::Hold hold;  // on pull.destination, where its residence is known

  bool is_lent() const noexcept { return target == Target::lent || target == Target::lease; }
  void return_window() noexcept {
    if (!window.empty()) home->give_back(std::move(window));
  }
  // The view that the application gets when everything is done.
  ripc_item_view shown() const noexcept;
};
using IncomingItems = std::list<IncomingItem>;  // a pull must not move in memory while it is in progress

// The contents of a packet.
struct PacketContents {
  explicit PacketContents(const wire::Packet& packet) noexcept;
  std::size_t views = 0;
  std::size_t grants = 0;
  bool is_reply = false;

  // The descriptors of the items to be pulled.
  std::span<const wire::Descriptor> pulled() const noexcept { return std::span(descriptors_).first(pulled_); }

 private:
  std::array<wire::Descriptor, RIPC_MAX_ITEMS> descriptors_;
  std::size_t pulled_ = 0;
};

// The view of an item that is in the message itself.
inline ripc_item_view short_view(const std::byte* data, std::size_t size) noexcept {
  return {.data = data,
          .size = size,
          .kind = RIPC_VIEW_SHORT,
          .status = RIPC_OK,
          .cookie = 0,
          .return_index = 0,
          .copied = 1};
}

// The places that can take the items of one service's messages.
struct Destinations {
  WindowQueue& windows;
  WindowQueue& shared_windows;  // those of the context, used when the service has none
  RequestTable& requests;
};

struct Placed {
  std::size_t short_bytes = 0;
  std::size_t copies = 0;     // of payload
  std::size_t discarded = 0;  // items for return buffers that no request waits for
};
// Decides where each item goes, and fills in the views of those that have arrived already. `items` are the items to be
// pulled, in the packet's order; they may have windows already. The packet came from `source`. With `lend`, no windows
// are taken. Allocates nothing.
Placed place(const wire::Packet& packet, const std::shared_ptr<spi::Source>& source, bool lend,
             Destinations destinations, Message& message, IncomingItems& items) noexcept;

}  // namespace ripc::internal::core
