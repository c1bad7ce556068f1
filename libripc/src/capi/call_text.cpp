// SPDX-License-Identifier: Apache-2.0
// The sentences about calls that were not answered. The sentences of statuses are about messages: "send again" is wrong
// for a call that may have run.
#include <array>
#include <cstddef>

#include "base/status_text.hpp"
#include "ripc/rpc.h"

namespace {

struct Entry {
  ripc_status status;
  const char* did_not_run;
  const char* may_have_run;
};

#define DID_NOT_RUN "The call did not run, so it is safe to repeat it: "
#define MAY_HAVE_RUN "The call may have run, so repeat it only if running twice does no harm: "
#define BOTH(status, why) \
  Entry { status, DID_NOT_RUN why, MAY_HAVE_RUN why }
// Statuses that only a handler gives.
#define BY_HANDLER(status) BOTH(status, "its handler ended it with " #status "; ask who wrote the service.")

constexpr std::array kEntries{
    BOTH(RIPC_OK, "no reason was given; ask who wrote the service."),
    BOTH(RIPC_AGAIN, "the service is busy; wait a moment."),
    BY_HANDLER(RIPC_EMPTY),
    BY_HANDLER(RIPC_PENDING),
    Entry{RIPC_TIMEOUT,
          DID_NOT_RUN
          "no endpoint took it in its time, or the service's process does not answer within resolve_timeout; is it "
          "stopped? Check that the service has an endpoint, and that a thread runs it; or give the call or the search "
          "more time.",
          MAY_HAVE_RUN
          "no answer came in its time. Check that a thread runs the service's endpoint, or give the call more time."},
    BY_HANDLER(RIPC_INTERRUPTED),
    BOTH(RIPC_TOO_LARGE, "its items exceed a documented limit; send less in one call."),
    BOTH(RIPC_NO_SERVICE,
         "no living service has this ID, or the group with this ID has no living member, within resolve_timeout. Check "
         "the ID, start the service, and check that both sides use the same runtime directory."),
    Entry{RIPC_PEER_DEAD, DID_NOT_RUN "the service died or closed before the call was sent; start it again.",
          MAY_HAVE_RUN "the service died or closed before it answered; see why it ended."},
    BOTH(RIPC_REFUSED,
         "the service does not accept this process, or this message; check its peer policy (users and groups) and its "
         "limits."),
    BY_HANDLER(RIPC_NO_WINDOW),
    BY_HANDLER(RIPC_WINDOW_TOO_SMALL),
    BY_HANDLER(RIPC_ID_IN_USE),
    BY_HANDLER(RIPC_NAME_COLLISION),
    BOTH(RIPC_FENCED,
         "the service restarted, or a newer holder has the caller's own ID. In that case, register the caller again."),
    BOTH(RIPC_CLOSED, "the endpoint of the service or of the caller ended; check which of them should go on."),
    BOTH(RIPC_INVALID_ARGUMENT, "an argument breaks the contract of the call; compare it with ripc/rpc.h."),
    BOTH(RIPC_NO_MEMORY,
         "memory, or the limit of the buffer pool, is exhausted; release buffers and results, or raise pool_limit."),
    BOTH(RIPC_NO_DESCRIPTORS, "no file descriptors are left; raise the limit with `ulimit -n`."),
    BOTH(RIPC_LIMIT, "a documented limit is reached, such as the service's max_sessions; raise it there."),
    BOTH(RIPC_PERMISSION, "it was forbidden; check the users of both processes."),
    BOTH(RIPC_VERSION_MISMATCH, "the service has another version of calls; update libripc on the older side."),
    Entry{RIPC_CANCELLED, DID_NOT_RUN "it was cancelled before it was sent.",
          MAY_HAVE_RUN "the caller cancelled it, or its handler ended it without an answer."},
    BY_HANDLER(RIPC_REVOKED),
    BOTH(RIPC_CORRUPT, "one side sent what the other does not understand; check the versions of both programs."),
    BOTH(RIPC_UNSUPPORTED, "the service has no such method, or the path cannot carry it; check the method's number."),
    BY_HANDLER(RIPC_FORKED),
    BOTH(RIPC_SYSTEM, "a call of the operating system failed; `ripc doctor` checks the machine."),
};

static_assert(ripc::internal::is_indexed_by_status(kEntries), "every status has an entry at its number");

}  // namespace

extern "C" const char* ripc_call_text(uint32_t outcome, ripc_status status) {
  if (outcome == RIPC_CALL_ANSWERED) return ripc::internal::status_text(status);
  const auto index = static_cast<std::size_t>(status);
  constexpr Entry kUnknown =
      BOTH(RIPC_OK, "its status is not known to this version of libripc; update the older side.");
  const Entry& entry = index < kEntries.size() ? kEntries[index] : kUnknown;
  return outcome == RIPC_CALL_DID_NOT_RUN ? entry.did_not_run : entry.may_have_run;
}
