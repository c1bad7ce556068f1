/* libripc: message passing by service ID. The C interface; ripc.hpp wraps it for C++.
 * SPDX-License-Identifier: Apache-2.0
 *
 * These rules hold for every call, unless its own comment says otherwise.
 *
 *   Threads   Any thread may call. One thread at a time receives from one service.
 *             Calls on a handle must not overlap its destruction.
 *   Handles   A NULL handle or a NULL required pointer gives RIPC_INVALID_ARGUMENT. A handle that was
 *             destroyed must not be used again.
 *   Errors    A call that can fail returns ripc_status. ripc_last_error() then has a sentence for the
 *             calling thread. It says what happened and what to do.
 *   Options   Option and result structures start with their own size. Fill those that you pass with the matching
 *             _init function. A library newer or older than the caller then reads the fields that both know. An _init
 *             function ignores NULL.
 *   Time      Nanoseconds on the monotonic clock. 0 means "do not wait", and RIPC_FOREVER "no limit". In options
 *             RIPC_DEFAULT_TIME, which _init sets, means the default that the field names.
 *   Forks     In a forked child, calls that use the parent's contexts, services, tickets or endpoints give
 *             RIPC_FORKED. Destroying, releasing or dropping a handle does nothing there. The child makes its own
 *             context.
 *   Signals   Two things end a wait with RIPC_INTERRUPTED: ripc_interrupt(), and a signal whose handler ran in the
 *             waiting thread while it slept, with SA_RESTART or without. Stopping and continuing the process
 *             (SIGSTOP, Ctrl-Z, a debugger) ends no wait, and neither does a signal without a handler. The thread
 *             may be about to sleep, so a handler that must end the wait in any case calls ripc_interrupt().
 *             ripc_ticket_wait() and ripc_rpc_call_wait() go on waiting: they end with the event that they wait for,
 *             or at their timeout.
 *   Callbacks Run in the context's responder thread. They may send, post windows and release handles. They must
 *             not destroy the context. All callbacks share that thread, so they should be short.
 */
#ifndef RIPC_RIPC_H
#define RIPC_RIPC_H

#include "ripc/buffer.h"
#include "ripc/context.h"
#include "ripc/diagnose.h"
#include "ripc/group.h"
#include "ripc/identity.h"
#include "ripc/message.h"
#include "ripc/notification.h"
#include "ripc/peer.h"
#include "ripc/receive.h"
#include "ripc/resolve.h"
#include "ripc/send.h"
#include "ripc/service.h"
#include "ripc/status.h"
#include "ripc/ticket.h"

#endif
