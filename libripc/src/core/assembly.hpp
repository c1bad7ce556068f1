// SPDX-License-Identifier: Apache-2.0
// A message with long items on its way in: where each item goes, and how far it is.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.hpp"
#include "core/requests.hpp"
#include "core/service.hpp"

namespace ripc::core {

struct Service::Assembly {
  enum class Target : std::uint8_t { window, return_buffer, lent, lease };
  struct Item {
    std::size_t view = 0;  // index in the message
    Target target = Target::window;
    Window window{};
    bool shared_window = false;  // from the context's queue
    bool done = false;
    spi::Pull pull;
  };

  std::shared_ptr<spi::Source> source;
  Message* message = nullptr;
  std::list<Item> items;                     // a pull must not move while it is under way
  std::optional<wire::Descriptor> transfer;  // names the message's transfer; empty: nothing to pull
  bool lend = false;
  bool any_lent = false;
  ripc_status failure = RIPC_OK;  // of the first item that was discarded
  Deadline deadline = Deadline::never();
};

}  // namespace ripc::core
