/* Calls: a request, its answer, and one known outcome. docs/calls.md introduces them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An endpoint makes calls from one service and answers calls to it. It takes over receiving for that service: nobody
 * else receives from it, and messages that are not calls are dropped and counted. Both sides of a call need an
 * endpoint.
 *
 *   At most once   A handler runs at most once for each call, whatever is lost, repeated or reordered on the way.
 *   One end        A call ends exactly once, at its deadline at the latest, with one ripc_call_outcome.
 *   Progress       ripc_rpc_run() receives, runs handlers and ends calls. Only one thread at a time may be in it.
 *   Order          Calls may run and end in any order.
 *   Groups         A call to a group goes to one of its members.
 *
 * The model is the RPC layer of eRPC (Kalia, Kaminsky, Andersen: Datacenter RPCs can be General and Fast, NSDI 2019).
 */
#ifndef RIPC_RPC_H
#define RIPC_RPC_H

#include <stddef.h>
#include <stdint.h>

#include "ripc/message.h"
#include "ripc/peer.h"
#include "ripc/send.h"
#include "ripc/service.h"
#include "ripc/status.h"
#include "ripc/ticket.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ripc_rpc ripc_rpc;         /* an endpoint */
typedef struct ripc_request ripc_request; /* an incoming call that is not answered yet */

#define RIPC_RPC_MAX_ITEMS (RIPC_MAX_ITEMS - 1) /* arguments of one call, or items of one answer */
#define RIPC_RPC_MAX_SLOTS 256

typedef struct ripc_rpc_options {
  size_t size;
  uint32_t slots;        /* calls in progress to one server, a power of 2 up to RIPC_RPC_MAX_SLOTS; 0: 8 */
  uint32_t queue;        /* calls to one server that wait for a slot or for the path; 0: 1024 */
  uint32_t max_sessions; /* clients served at once; 0: 65536 */
  uint32_t workers;      /* threads for handlers that are registered with RIPC_RPC_WORKER, up to 1024; 0: none */
  uint32_t worker_queue; /* requests that wait for a worker; 0: 1024 */
  uint32_t recorded;     /* 1: events without callback are read with ripc_rpc_run_records(), see ripc/rpc_records.h */
} ripc_rpc_options;

RIPC_API void ripc_rpc_options_init(ripc_rpc_options *options);

/* Makes the endpoint of `service`, which must have none yet and outlive it. options may be NULL. RIPC_ID_IN_USE: the
 * service has an endpoint. RIPC_NO_MEMORY, RIPC_SYSTEM (no thread can be started). */
RIPC_API ripc_status ripc_rpc_create(ripc_service *service, const ripc_rpc_options *options, ripc_rpc **rpc);
/* Ends all calls in this thread: those that were sent may have run, the others did not run; their status is
 * RIPC_CLOSED. Waits for running handlers of workers, and for replies that other threads are sending. Requests that are
 * still held stay valid, and their replies give RIPC_CLOSED. Requests that no handler has had, including those not
 * received yet, are refused: their calls did not run. It waits up to 100 ms for long arguments that are still on their
 * way, and for room for answers: a call whose answer finds none may have run. It waits up to 2 s in all for servers
 * that are writing into return buffers. No thread may be in ripc_rpc_run(). NULL is ignored. */
RIPC_API void ripc_rpc_destroy(ripc_rpc *rpc);

/* ---- Answering calls --------------------------------------------------------------------------------------- */

/* Gets a request, which it owns until it answers, drops or refuses it: in the call or later, in any thread. After that,
 * keep no pointer to it: the functions below give RIPC_INVALID_ARGUMENT or 0 and do nothing, but only until its memory
 * is used for another request or freed with the endpoint. */
typedef void (*ripc_rpc_handler)(void *user, ripc_request *request);

typedef enum ripc_rpc_handler_flags {
  RIPC_RPC_WORKER = 1 /* runs in a worker thread, where it may block; without it, in the thread of ripc_rpc_run() */
} ripc_rpc_handler_flags;

/* Registers the handler of a method: any thread, also while another one runs the endpoint. A call to a method that has
 * no handler yet is refused with RIPC_UNSUPPORTED. RIPC_INVALID_ARGUMENT: it has one, RIPC_RPC_WORKER is set and there
 * are no workers, or the handler is NULL and options.recorded is not set. */
RIPC_API ripc_status ripc_rpc_handle(ripc_rpc *rpc, uint32_t method, uint32_t flags, ripc_rpc_handler handler,
                                     void *user);

RIPC_API ripc_service_id ripc_request_get_source(const ripc_request *request);
/* Who called, as ripc_message_peer() returns it. */
RIPC_API ripc_status ripc_request_peer(const ripc_request *request, ripc_peer *peer);
RIPC_API uint32_t ripc_request_get_method(const ripc_request *request);
/* The arguments. Views are valid until the request is answered. Long arguments are lent, as by RIPC_RECEIVE_LEND. */
RIPC_API size_t ripc_request_get_item_count(const ripc_request *request);
RIPC_API ripc_status ripc_request_get_item(const ripc_request *request, size_t index, ripc_item_view *view);
/* The caller's return buffers, for items of kind RIPC_ITEM_RETURN in the answer. */
RIPC_API size_t ripc_request_get_return_count(const ripc_request *request);
RIPC_API size_t ripc_request_get_return_size(const ripc_request *request, size_t index);
/* For how long the caller still waits, in nanoseconds. 0: that time is over, or the caller has cancelled; nobody waits
 * for the answer. UINT64_MAX: without limit, or for more than 71 minutes when it called. */
RIPC_API uint64_t ripc_request_time_left(const ripc_request *request);

/* Answers with a code of the application's choice and up to RIPC_RPC_MAX_ITEMS items, of any kind that ripc_reply()
 * takes. After RIPC_OK the request is gone, and its views with it. The items may point into the request, except LONG
 * ones. `ticket` is as for ripc_send().
 *
 * An answer whose items are all copied never gives RIPC_AGAIN: it waits in the endpoint for room. With LONG or RETURN
 * items RIPC_AGAIN leaves the request as it was. It returns RIPC_OK even if the caller no longer waits. Any other
 * status says why no answer can be sent, as for ripc_send(), and leaves the request as it was. RIPC_CLOSED: the
 * endpoint is gone. */
RIPC_API ripc_status ripc_request_reply(ripc_request *request, uint32_t code, const ripc_item *items, size_t count,
                                        ripc_ticket **ticket);
/* Ends a request without an answer: the caller gets this status (RIPC_CANCELLED for RIPC_OK), and the call may have
 * run. NULL is ignored. */
RIPC_API void ripc_request_drop(ripc_request *request, ripc_status status);
/* The same, for a request that nothing was done for: its call did not run. It counts as refused, not as run. */
RIPC_API void ripc_request_refuse(ripc_request *request, ripc_status status);

/* ---- Making calls ------------------------------------------------------------------------------------------ */

typedef enum ripc_call_outcome {
  RIPC_CALL_ANSWERED = 0,    /* the handler ran and replied */
  RIPC_CALL_DID_NOT_RUN = 1, /* no handler ran or will run: it is safe to call again */
  RIPC_CALL_MAY_HAVE_RUN = 2 /* it is unknown whether a handler ran */
} ripc_call_outcome;

/* How a call ended. `items` are valid until `message` is released. */
typedef struct ripc_call_result {
  size_t size;
  uint32_t outcome;            /* ripc_call_outcome */
  uint32_t status;             /* ripc_status: RIPC_OK if it was answered, else why not */
  uint32_t code;               /* the handler's */
  uint32_t item_count;         /* of the answer */
  const ripc_item_view *items; /* the answer's; long ones are lent, as by RIPC_RECEIVE_LEND */
  ripc_message *message;       /* holds the answer, and is the receiver's to release; NULL if there is none */
} ripc_call_result;

RIPC_API void ripc_call_result_init(ripc_call_result *result);
/* One sentence or two on how a call ended: whether it is safe to repeat it, why it was not answered, and what to do.
 * Takes the result's outcome and status: ripc_status_text() is about messages, and may advise sending again a call that
 * has run. Static; never NULL. */
RIPC_API const char *ripc_call_text(uint32_t outcome, ripc_status status);

/* Runs once for each call that was begun, in a thread that runs the endpoint (also in ripc_rpc_call_wait()), or that is
 * in ripc_rpc_cancel() or ripc_rpc_destroy(). *result is valid during the call. It may make calls and send; it must not
 * block. */
typedef void (*ripc_call_done)(void *user, const ripc_call_result *result);

typedef struct ripc_call_options {
  size_t size;
  uint64_t timeout;                  /* of the call; by default 5 seconds. One of 1 s or more may end 10 ms early */
  uint32_t return_count;             /* 0 to RIPC_MAX_RETURNS */
  const ripc_return_buffer *returns; /* memory for the answer; the library's until the call has ended */
  const ripc_request *parent;        /* the call is made for this request, and gets at most its remaining time */
  ripc_ticket_callback loan_ended;   /* runs once, in any thread, when LONG arguments are the caller's again: the call
                                        has ended, and the server has let go of the request. NULL: LONG arguments must
                                        be leased or registered */
  void *loan_user;                   /* for loan_ended */
  uint32_t idempotent; /* 1: running twice does no harm. A call to a group then goes to another member also
                          where it may have run. Otherwise 0 */
} ripc_call_options;

RIPC_API void ripc_call_options_init(ripc_call_options *options);

/* Begins a call of up to RIPC_RPC_MAX_ITEMS arguments, of any kind but RIPC_ITEM_RETURN; options may be NULL. *call
 * (may be NULL) names it for ripc_rpc_cancel(). It never waits for the network: a call that cannot be sent at once
 * waits in the endpoint. After RIPC_OK, `done` (may be NULL) will run. After any other status nothing was sent, and
 * neither `done` nor loan_ended will run. Memory is as for ripc_send().
 *
 * `to` may be a group. The call then goes to one living member: of two picked at random, the one with fewer calls in
 * progress, weighted by its answer time. If that member dies or refuses before the call ran, another one gets the call,
 * within the same time. So it runs at most once, unless it is idempotent. When every member has refused it, it ends
 * like a call to a single service. RIPC_NO_SERVICE: there was no living member for the context's resolve_timeout.
 *
 * RIPC_AGAIN: as many calls to this server wait as options.queue allows; run, then call again. RIPC_TIMEOUT: the call
 * or its parent has no time left. RIPC_TOO_LARGE: short items exceed ripc_short_limit(). RIPC_INVALID_ARGUMENT,
 * RIPC_NO_MEMORY, RIPC_FENCED, RIPC_CLOSED, or what else ripc_send() gives. Otherwise the result's status says how the
 * call ended:
 *
 *   did not run   RIPC_NO_SERVICE (no path was found within the context's resolve_timeout), RIPC_UNSUPPORTED (no such
 *                 method), RIPC_AGAIN (the server's workers are busy), RIPC_LIMIT (max_sessions),
 *                 RIPC_VERSION_MISMATCH (of the server), RIPC_TIMEOUT (also: its process did not answer within
 *                 resolve_timeout), RIPC_CANCELLED, RIPC_PEER_DEAD (before it was sent), RIPC_CLOSED (the same, or its
 *                 endpoint ended before a handler had it), RIPC_FENCED (it restarted), or what ripc_send() gives
 *   may have run  RIPC_TIMEOUT, RIPC_CANCELLED, RIPC_PEER_DEAD, RIPC_CLOSED (its endpoint ended), and any status that a
 *                 handler dropped the request with */
RIPC_API ripc_status ripc_rpc_call(ripc_rpc *rpc, ripc_service_id to, uint32_t method, const ripc_item *items,
                                   size_t count, const ripc_call_options *options, ripc_call_done done, void *user,
                                   uint64_t *call);
/* The same, but waits for the end, which it writes to *result. Meanwhile it runs the endpoint, unless another thread
 * does. Whatever interrupts this wait interrupts the next ripc_rpc_run() instead. RIPC_OK: the call ended, see *result,
 * whose message is the caller's. RIPC_INVALID_ARGUMENT also in a handler or a `done` that runs in ripc_rpc_run(), which
 * it would wait for. */
RIPC_API ripc_status ripc_rpc_call_wait(ripc_rpc *rpc, ripc_service_id to, uint32_t method, const ripc_item *items,
                                        size_t count, const ripc_call_options *options, ripc_call_result *result);
/* Ends a call. `done` runs in this call, with RIPC_CANCELLED, and the return buffers are the caller's again. The server
 * is notified; a handler that runs sees it in ripc_request_time_left(). Any thread. RIPC_INVALID_ARGUMENT: the call is
 * unknown or has ended; its `done` has run, or runs in another thread. */
RIPC_API ripc_status ripc_rpc_cancel(ripc_rpc *rpc, uint64_t call);

/* Receives, runs handlers and ends calls until at least one of these has happened, or the time is over. *events (may be
 * NULL): how many have happened. With timeout 0 it does what there is to do, and RIPC_EMPTY means that there was
 * nothing. RIPC_TIMEOUT, RIPC_INTERRUPTED, RIPC_AGAIN (another thread is in it), and the errors of ripc_receive(). A
 * thread that runs the endpoint in ripc_rpc_call_wait() makes way. */
RIPC_API ripc_status ripc_rpc_run(ripc_rpc *rpc, uint64_t timeout, size_t *events);

/* Counters since ripc_rpc_create(). */
typedef struct ripc_rpc_statistics {
  size_t size;
  uint64_t calls; /* begun; those that ended are in the next three */
  uint64_t answered, did_not_run, may_have_run;
  uint64_t repeats;          /* requests and questions sent again, on paths that lose packets */
  uint64_t requests_run;     /* handed to a handler */
  uint64_t requests_refused; /* unknown method, busy workers, no session, another version, ripc_request_refuse() */
  uint64_t requests_expired; /* not run, because the caller's time was over or it had cancelled; also those that were
                                refused with RIPC_TIMEOUT */
  uint64_t duplicates;       /* requests that had come already */
  uint64_t answers_repeated; /* kept answers sent again */
  uint64_t sessions_opened, sessions_served;
  uint64_t dropped; /* messages that are no calls, or of no session */
} ripc_rpc_statistics;

RIPC_API void ripc_rpc_statistics_init(ripc_rpc_statistics *statistics);
RIPC_API ripc_status ripc_rpc_get_statistics(ripc_rpc *rpc, ripc_rpc_statistics *statistics);

#define RIPC_LATENCY_RANGES 40

/* Times in nanoseconds, at most 1.6 % too large. A time above 18 minutes counts as 18 minutes. All are 0 if count
 * is. */
typedef struct ripc_latency {
  uint64_t count, minimum, mean, p50, p90, p99, p999, maximum;
  /* How many times were in each range, exactly: from 2^index to below 2^(index + 1); 0 counts in the first. To get the
   * histogram of several methods or endpoints, add theirs. */
  uint64_t histogram[RIPC_LATENCY_RANGES];
} ripc_latency;

#define RIPC_RPC_STATUSES 32 /* more than there are values of ripc_status */
#define RIPC_RPC_MAX_METHODS                                                               \
  256 /* called ones that statistics distinguish; others count in ripc_rpc_statistics only \
       */

/* Counters of one method since ripc_rpc_create(). */
typedef struct ripc_rpc_method_statistics {
  size_t size;
  uint32_t method;
  /* Calls to it that this endpoint made. */
  uint64_t calls, answered, did_not_run, may_have_run, repeats;
  uint64_t statuses[RIPC_RPC_STATUSES]; /* how many calls ended with each ripc_status; other numbers are in none */
  ripc_latency call_time;               /* of answered calls, from their begin; see below */
  /* Requests for it that came to this endpoint. */
  uint64_t requests_run, requests_refused, requests_expired;
  /* For answered requests: the wait for a worker, plus the handler. Where the clock would cost a tenth of the call, one
   * in 16 is measured after the first 64. That is so for calls over shared memory to single services, and for requests
   * answered within a handler that no worker runs. */
  ripc_latency request_time;
} ripc_rpc_method_statistics;

/* *method is valid during the call. It must not call functions of the endpoint. */
typedef void (*ripc_rpc_method_visitor)(void *user, const ripc_rpc_method_statistics *method);

/* Visits the methods that were called or have a handler, in ascending order, in the calling thread. RIPC_NO_MEMORY. */
RIPC_API ripc_status ripc_rpc_list_methods(ripc_rpc *rpc, ripc_rpc_method_visitor visitor, void *user);

#ifdef __cplusplus
}
#endif
#endif
