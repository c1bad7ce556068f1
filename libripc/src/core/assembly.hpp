// SPDX-License-Identifier: Apache-2.0
// A message with long items on its way in: where each item goes, and how far it is. As long as the sender has still
// something to do before its bytes can flow, the message has no windows: those are for senders that deliver.
#pragma once

#include <algorithm>
#include <list>
#include <memory>
#include <optional>
#include <utility>

#include "base/clock.hpp"
#include "core/requests.hpp"
#include "core/service.hpp"

namespace ripc::core {

struct Service::Assembly {
  enum class Target : std::uint8_t { window, return_buffer, lent, lease };
  struct Item {
    std::size_t view = 0;  // index in the message
    Target target = Target::window;
    WindowQueue::Taken window;
    WindowQueue* home = nullptr;  // of the window
    bool done = false;
    spi::Pull pull;

    void return_window() noexcept {
      if (!window.empty()) home->give_back(std::move(window));
    }
  };

  // What there is to do next.
  enum class Stage : std::uint8_t { prepare, pull, finish, deliver };

  std::shared_ptr<spi::Source> source;
  Message* message = nullptr;
  Stage stage = Stage::prepare;
  std::list<Item> items;                     // a pull must not move while it is under way
  std::optional<wire::Descriptor> transfer;  // names the message's transfer; empty: nothing to pull
  std::size_t packet_size = 0;               // of the packet in the message's storage
  bool lend = false;
  bool any_lent = false;
  ripc_status failure = RIPC_OK;          // of the first item that was discarded
  Deadline deadline = Deadline::never();  // set when there is something to wait for
  bool extended = false;                  // the deadline, because this process was not listening

  // Of all items.
  std::uint64_t bytes() const noexcept {
    std::uint64_t sum = 0;
    for (const Item& item : items) sum += std::min(item.pull.descriptor.length, spi::kLongestPatience);
    return sum;
  }
  // Whether there is no more to say to the sender than that this item is there. A reply into a return buffer may still
  // be cancelled.
  bool ends_with(const Item& last) const noexcept {
    return !any_lent && std::all_of(items.begin(), items.end(), [&](const Item& item) {
      const bool is_there = &item == &last || (item.done && item.pull.status == RIPC_OK);
      return is_there && item.target != Target::return_buffer;
    });
  }
  void enter(Stage next) noexcept {
    stage = next;
    deadline = Deadline::never();
    extended = false;
  }
};

}  // namespace ripc::core
