// SPDX-License-Identifier: Apache-2.0
#include "base/status_text.hpp"

#include <array>

namespace ripc::internal {
namespace {

struct Entry {
  ripc_status status;
  const char* name;
  const char* text;
};

constexpr std::array kEntries{
    Entry{RIPC_OK, "RIPC_OK", "The call succeeded; there is nothing to do."},
    Entry{RIPC_AGAIN, "RIPC_AGAIN",
          "The peer has no room for the message now and nothing was sent; call ripc_wait_room(), then send again."},
    Entry{RIPC_EMPTY, "RIPC_EMPTY",
          "There is no message to receive now; wait with a timeout, or for the service's descriptor."},
    Entry{RIPC_PENDING, "RIPC_PENDING", "The ticket is not complete yet; poll it again, or wait for it."},
    Entry{RIPC_TIMEOUT, "RIPC_TIMEOUT",
          "The time given ran out; try again with a longer timeout, or check that the peer is running."},
    Entry{RIPC_INTERRUPTED, "RIPC_INTERRUPTED",
          "The wait was ended by ripc_interrupt() or a signal handler; call again unless it was meant to stop."},
    Entry{RIPC_TOO_LARGE, "RIPC_TOO_LARGE",
          "The data exceeds the peer's limit for short messages or another documented limit; send it as a long item, "
          "or in smaller pieces."},
    Entry{RIPC_NO_SERVICE, "RIPC_NO_SERVICE",
          "No living service has this ID; check the ID, start the service, and check that both sides use the same "
          "runtime directory."},
    Entry{RIPC_PEER_DEAD, "RIPC_PEER_DEAD",
          "The peer died or closed before it took the message; send again, the service is then looked up anew."},
    Entry{RIPC_REFUSED, "RIPC_REFUSED",
          "The peer does not accept this process; check its peer policy (users and groups) and its limit of peers or "
          "senders."},
    Entry{
        RIPC_NO_WINDOW, "RIPC_NO_WINDOW",
        "The receiver had no receive window left for an item that travels long, as an AUTO item does that does not fit "
        "into the message; let it post windows before the message is sent, or receive with RIPC_RECEIVE_LEND, or send "
        "less than ripc_short_limit() in one message."},
    Entry{RIPC_WINDOW_TOO_SMALL, "RIPC_WINDOW_TOO_SMALL",
          "The receive window for a long item was smaller than the item; let the receiver post a larger window."},
    Entry{RIPC_ID_IN_USE, "RIPC_ID_IN_USE",
          "A living service holds this ID; choose another ID, or register with takeover to replace the holder."},
    Entry{RIPC_NAME_COLLISION, "RIPC_NAME_COLLISION",
          "Another service holds the ID that this name hashes to; rename one of the two services."},
    Entry{RIPC_FENCED, "RIPC_FENCED",
          "A newer holder took over this service's ID; unregister the service, and register again if it should go on."},
    Entry{RIPC_CLOSED, "RIPC_CLOSED",
          "The service or its context is closing; stop using it, and register a new one if needed."},
    Entry{RIPC_INVALID_ARGUMENT, "RIPC_INVALID_ARGUMENT",
          "An argument breaks the contract of the call: compare pointers, sizes and flags with the comment on its "
          "declaration. In C++ the object may be empty or moved from."},
    Entry{RIPC_NO_MEMORY, "RIPC_NO_MEMORY",
          "Memory, or the limit of the buffer pool, is exhausted; release buffers and messages, or raise pool_limit. "
          "An item that came by RDMA may have met the limit of locked memory: `ulimit -l unlimited`."},
    Entry{RIPC_NO_DESCRIPTORS, "RIPC_NO_DESCRIPTORS",
          "No file descriptors are left; raise the limit with `ulimit -n`, or close descriptors that are not needed."},
    Entry{RIPC_LIMIT, "RIPC_LIMIT",
          "A documented limit is reached; give back what is not needed (messages, windows), or raise the option that "
          "sets the limit. Of a ticket: this process may not lock the memory for RDMA; `ulimit -l unlimited`."},
    Entry{RIPC_PERMISSION, "RIPC_PERMISSION",
          "The operating system forbids it; check the owner and mode of the runtime directory and the user of both "
          "processes."},
    Entry{RIPC_VERSION_MISMATCH, "RIPC_VERSION_MISMATCH",
          "The peer speaks another version of the protocol; update libripc on the older side."},
    Entry{
        RIPC_CANCELLED, "RIPC_CANCELLED",
        "The operation was ended by the caller, by a cancel or because its memory was unregistered or cannot be read; "
        "start it again if it is still wanted."},
    Entry{RIPC_REVOKED, "RIPC_REVOKED",
          "The sender withdrew the item before it was taken; go on without it, or ask the sender for it again."},
    Entry{RIPC_CORRUPT, "RIPC_CORRUPT",
          "The peer sent something that breaks the protocol and it was discarded; check which program runs there and "
          "its version."},
    Entry{RIPC_UNSUPPORTED, "RIPC_UNSUPPORTED",
          "This path or this peer cannot do it; check the method of a call, use another kind of item, or allow "
          "another transport."},
    Entry{RIPC_FORKED, "RIPC_FORKED",
          "The handle belongs to the parent process; create a new context in the child after fork()."},
    Entry{RIPC_SYSTEM, "RIPC_SYSTEM",
          "A call of the operating system failed in an unexpected way; ripc_last_error() names it, and `ripc doctor` "
          "checks the machine."},
};

static_assert(is_indexed_by_status(kEntries), "every status has an entry at its number");

}  // namespace

const char* status_name(ripc_status status) noexcept {
  const auto index = static_cast<std::size_t>(status);
  return index < kEntries.size() ? kEntries[index].name : "RIPC_UNKNOWN";
}

const char* status_text(ripc_status status) noexcept {
  const auto index = static_cast<std::size_t>(status);
  return index < kEntries.size() ? kEntries[index].text
                                 : "This status is not known to this version of libripc; update the older side.";
}

}  // namespace ripc::internal
