/* libripc: message passing by service ID. The C interface; ripc.hpp wraps it for C++.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Rules that hold for every call below, unless its own comment says otherwise
 *
 *   Threads   Any thread may call. Receiving from one service is done by one thread at a time.
 *             Calls on a handle must not overlap its destruction.
 *   Handles   A NULL handle or a NULL required pointer gives RIPC_INVALID_ARGUMENT. A handle that was
 *             destroyed must not be used again.
 *   Errors    A call that can fail returns ripc_status. ripc_last_error() then has a sentence for the
 *             calling thread that says what happened and what to do.
 *   Options   Option and result structures start with their own size. Fill them with the matching _init
 *             function; a library newer or older than the caller then reads what both know. An _init function
 *             ignores NULL.
 *   Time      Nanoseconds on the monotonic clock. 0 means "do not wait", RIPC_FOREVER "no limit", and in options
 *             RIPC_DEFAULT_TIME, which _init sets, what the field says.
 *   Signals   A wait ends with RIPC_INTERRUPTED when somebody asked for it: by ripc_interrupt(), or by a signal
 *             whose handler ran in the waiting thread while it slept, with SA_RESTART or without. A process that is
 *             stopped and continued (SIGSTOP, Ctrl-Z, a debugger) and a signal without a handler end no wait. A
 *             handler that must end the wait in any case calls ripc_interrupt(): the thread may be about to sleep.
 *   Callbacks Run in the context's responder thread. They may send, post windows and release handles. They
 *             must not destroy the context, and they should be short: all callbacks share that thread.
 */
#ifndef RIPC_RIPC_H
#define RIPC_RIPC_H

#include "ripc/buffer.h"
#include "ripc/context.h"
#include "ripc/diagnose.h"
#include "ripc/group.h"
#include "ripc/message.h"
#include "ripc/notification.h"
#include "ripc/receive.h"
#include "ripc/resolve.h"
#include "ripc/send.h"
#include "ripc/service.h"
#include "ripc/status.h"
#include "ripc/ticket.h"

#endif
