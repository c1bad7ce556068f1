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
 *             function; a library newer or older than the caller then reads what both know.
 *   Time      Nanoseconds on the monotonic clock. 0 means "do not wait", RIPC_FOREVER "no limit".
 *   Signals   A wait ends with RIPC_INTERRUPTED when somebody asked for it: by ripc_interrupt(), or by a signal
 *             whose handler ran in the waiting thread while it slept, with SA_RESTART or without. A process that is
 *             stopped and continued (SIGSTOP, Ctrl-Z, a debugger) and a signal without a handler end no wait. A
 *             handler that must end the wait in any case calls ripc_interrupt(): the thread may be about to sleep.
 *   Callbacks Run in the context's responder thread. They may send, post windows and release handles. They
 *             must not destroy the context, and they should be short: all callbacks share that thread.
 */
#ifndef RIPC_RIPC_H
#define RIPC_RIPC_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define RIPC_API __attribute__((visibility("default")))
#else
#define RIPC_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status ------------------------------------------------------------------------------------------------ */

/* Values are stable: new ones are added at the end, none is ever renumbered. */
typedef enum ripc_status {
  RIPC_OK = 0,
  RIPC_AGAIN = 1,             /* the peer has no room now: ripc_wait_room(), then send again */
  RIPC_EMPTY = 2,             /* nothing to receive now */
  RIPC_PENDING = 3,           /* the ticket is not complete */
  RIPC_TIMEOUT = 4,           /* the time given ran out */
  RIPC_INTERRUPTED = 5,       /* ripc_interrupt(), or a signal handler of the application, ended the wait */
  RIPC_TOO_LARGE = 6,         /* larger than the peer's short limit, or than a documented limit */
  RIPC_NO_SERVICE = 7,        /* no living service has this ID */
  RIPC_PEER_DEAD = 8,         /* the peer died or closed before it took the message */
  RIPC_REFUSED = 9,           /* the peer does not accept this process (user, limit, cluster), or this message */
  RIPC_NO_WINDOW = 10,        /* the receiver had no receive window left for a long item */
  RIPC_WINDOW_TOO_SMALL = 11, /* the receive window for a long item was smaller than the item */
  RIPC_ID_IN_USE = 12,        /* a living service holds this ID: take another, or ask for takeover */
  RIPC_NAME_COLLISION = 13,   /* another name hashes to the same ID: rename one of the two */
  RIPC_FENCED = 14,           /* a newer holder took this service's ID over */
  RIPC_CLOSED = 15,           /* the service or context is closing */
  RIPC_INVALID_ARGUMENT = 16, /* an argument breaks the contract of the call */
  RIPC_NO_MEMORY = 17,        /* memory, or the pool's limit, is exhausted */
  RIPC_NO_DESCRIPTORS = 18,   /* no file descriptors left: raise `ulimit -n` */
  RIPC_LIMIT = 19,            /* a documented limit is reached */
  RIPC_PERMISSION = 20,       /* the operating system forbids it */
  RIPC_VERSION_MISMATCH = 21, /* the peer speaks another protocol version */
  RIPC_CANCELLED = 22,        /* ended by the caller */
  RIPC_REVOKED = 23,          /* the sender withdrew it before it was taken */
  RIPC_CORRUPT = 24,          /* the peer sent something that breaks the protocol */
  RIPC_UNSUPPORTED = 25,      /* this path cannot do it */
  RIPC_FORKED = 26,           /* the handle belongs to the parent process: make a new context after fork */
  RIPC_SYSTEM = 27            /* an operating system call failed in an unexpected way */
} ripc_status;

#define RIPC_FOREVER UINT64_MAX

/* The short name of a status, such as "RIPC_AGAIN". Static; never NULL. */
RIPC_API const char *ripc_status_name(ripc_status status);
/* One sentence on what a status means and what to do. Static; never NULL. */
RIPC_API const char *ripc_status_text(ripc_status status);
/* The sentence for the last call of this thread that did not return RIPC_OK. Valid until the thread's next libripc
 * call; never NULL. */
RIPC_API const char *ripc_last_error(void);
/* The library's version, "MAJOR.MINOR.PATCH". Static. */
RIPC_API const char *ripc_version(void);

/* ---- Handles ------------------------------------------------------------------------------------------------ */

typedef struct ripc_context ripc_context;     /* the library in one process; owns everything below */
typedef struct ripc_service ripc_service;     /* a registered service ID with its receive queue */
typedef struct ripc_message ripc_message;     /* a received message; owned by the receiver until released */
typedef struct ripc_ticket ripc_ticket;       /* the completion of a long message */
typedef struct ripc_view_hold ripc_view_hold; /* keeps memory of lent items readable */
typedef struct ripc_watch ripc_watch;         /* tells when a service appears and ends */

typedef uint64_t ripc_service_id; /* 0 is never a service */

/* IDs come in kinds that cannot meet, told apart by the two top bits: of services, well-known numbers 1 to 2^62-1 (00),
 * names (10) and random ones (11); of groups, numbers and names (01). */
#define RIPC_WELL_KNOWN_MAX ((UINT64_C(1) << 62) - 1)
#define RIPC_GROUP_NUMBER_MAX ((UINT64_C(1) << 61) - 1)
#define RIPC_GROUP_ID(number)                                                             \
  ((UINT64_C(1) << 62) | (number)) /* the group with a number up to RIPC_GROUP_NUMBER_MAX \
                                    */
#define RIPC_MAX_GROUPS 64         /* that one service is in at once */

/* ---- Context ------------------------------------------------------------------------------------------------ */

/* Which users' processes on this host it talks to, on every path (docs/security.md). Root is always admitted. */
typedef enum ripc_peer_policy {
  RIPC_PEERS_SAME_USER = 0,  /* the default */
  RIPC_PEERS_SAME_GROUP = 1, /* also this process's effective group; over a network transport, users who have it */
  RIPC_PEERS_ANY = 2         /* whoever the runtime directory's permissions let in */
} ripc_peer_policy;

/* Whether this context talks to other hosts: over the transports socket and verbs, and by asking for services by
 * multicast. Shared memory needs none of it. */
typedef enum ripc_network {
  RIPC_NETWORK_KEY = 0,  /* the default: only with a cluster key, with hosts that have the same one */
  RIPC_NETWORK_OPEN = 1, /* without a key: everybody who reaches this host's ports is a peer */
  RIPC_NETWORK_OFF = 2   /* never */
} ripc_network;

typedef struct ripc_context_options {
  size_t size;
  const char *runtime_directory; /* NULL: $RIPC_RUNTIME_DIR, else $XDG_RUNTIME_DIR/ripc, else /tmp/ripc-UID */
  const char *transports;        /* NULL: $RIPC_TRANSPORTS, else all; comma-separated, first is preferred */
  const char *static_resolver;   /* NULL: $RIPC_RESOLVER_FILE, else none; a file of known services, asked first */
  uint64_t pool_limit;           /* bytes of registered pool memory at most; 0: 1/4 of the machine's memory */
  uint64_t resolve_timeout;      /* an unknown ID answers within this time; 0: 1 second */
  uint64_t spin;                 /* how long a wait polls before it sleeps; UINT64_MAX: $RIPC_SPIN_US, else 50 us */
  uint32_t peer_policy;          /* ripc_peer_policy; UINT32_MAX: $RIPC_PEERS (user, group, any), else same user */
  uint32_t max_peers;            /* processes that may be connected at once; 0: 4096 */
  const char *cluster_key_file;  /* NULL: $RIPC_CLUSTER_KEY_FILE, else the default place if it has one, see below */
  uint32_t network;              /* ripc_network; UINT32_MAX: $RIPC_NETWORK (key, open, off), else key */
} ripc_context_options;

RIPC_API void ripc_context_options_init(ripc_context_options *options);

/* Makes a cluster key: a new file, mode 0600, with a random key. file: NULL is the default place of this user,
 * $XDG_CONFIG_HOME/ripc/cluster.key, else ~/.config/ripc/cluster.key; missing folders are made with mode 0700. Contexts
 * that are created later find it there; other hosts join with a copy of the file. replace: not 0 takes the place of a
 * file that is there. path: NULL, or where the name of the file is written, with its '\0' in path_size bytes.
 * RIPC_INVALID_ARGUMENT (also: there is such a file), RIPC_PERMISSION, RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY,
 * RIPC_SYSTEM (also: this user has no home). */
RIPC_API ripc_status ripc_cluster_key_create(const char *file, uint32_t replace, char *path, size_t path_size);

/* Starts the library: opens the runtime directory, clears what dead processes left there, starts the responder thread.
 * Two contexts of one process are two independent peers. options may be NULL.
 * Without a cluster key the context stays on this host: of the default transports only shm is used, and a transport
 * that was asked for by name and leaves the host gives RIPC_PERMISSION. So does a key file that is there and cannot be
 * used. RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY, RIPC_INVALID_ARGUMENT, RIPC_SYSTEM. */
RIPC_API ripc_status ripc_context_create(const ripc_context_options *options, ripc_context **context);

/* Ends every service, ticket and registration of the context and frees it. Messages and tickets that the application
 * still holds become invalid. No other call on the context may be running. NULL is ignored. */
RIPC_API void ripc_context_destroy(ripc_context *context);

/* ---- Service ------------------------------------------------------------------------------------------------ */

typedef struct ripc_service_options {
  size_t size;
  ripc_service_id id;      /* a well-known number; 0: from name if there is one, else random */
  const char *name;        /* 1 to 200 bytes of UTF-8 without '\0' or '/'; NULL: none */
  uint32_t takeover;       /* not 0: if the ID has a living holder, fence it and take its place */
  uint32_t queue_messages; /* messages that one sender may have waiting here; 0: 128; a power of 2, 16 to 65536 */
  uint32_t queue_bytes;    /* bytes for messages over 100 bytes, per sender; 0: 8192; a power of 2, 4 KiB to 64 MiB */
  uint32_t max_senders;    /* senders (contexts) that may hold a queue here at once; 0: 4096 */
  uint32_t max_messages;   /* received messages the application may hold unreleased; 0: 65536 */
} ripc_service_options;

RIPC_API void ripc_service_options_init(ripc_service_options *options);

/* The ID of a name. RIPC_INVALID_ARGUMENT if it is not a valid name. */
RIPC_API ripc_status ripc_id_from_name(const char *name, ripc_service_id *id);

/* Registers a service. options may be NULL: a random ID. When it returns, other processes can find it.
 * Takes about 30 ms where other hosts may have the ID: for many, ripc_service_register_many().
 * RIPC_ID_IN_USE if the ID has a living holder and takeover is 0; RIPC_NAME_COLLISION if the ID comes from the name and
 * a living service of another name (or without one) holds it, takeover or not; RIPC_LIMIT, RIPC_NO_DESCRIPTORS,
 * RIPC_NO_MEMORY, RIPC_SYSTEM. */
RIPC_API ripc_status ripc_service_register(ripc_context *context, const ripc_service_options *options,
                                           ripc_service **service);
/* Registers `count` services side by side: where other hosts are asked whether an ID is taken (30 ms each), the answers
 * are waited for together. `options`: an array, whose elements all have the `size` of the first; `services`: where as
 * many are written, in the same order. All or none: if one cannot be registered, its status is returned, the sentence
 * names it, and the others are unregistered again. */
RIPC_API ripc_status ripc_service_register_many(ripc_context *context, const ripc_service_options *options,
                                                size_t count, ripc_service **services);
/* Withdraws the ID, ends the service's tickets with RIPC_CLOSED, frees it. Messages still held stay valid until they
 * are released. A thread that is blocked in receive must have returned first (ripc_interrupt). NULL is ignored. */
RIPC_API void ripc_service_unregister(ripc_service *service);

RIPC_API ripc_service_id ripc_service_get_id(const ripc_service *service);    /* 0 for NULL */
RIPC_API const char *ripc_service_get_name(const ripc_service *service);      /* "" if it has none; lives as long */
RIPC_API uint64_t ripc_service_get_incarnation(const ripc_service *service);  /* grows with each registration */
RIPC_API ripc_context *ripc_service_get_context(const ripc_service *service); /* borrowed */

/* ---- Send --------------------------------------------------------------------------------------------------- */

/* How an item travels, and whose its memory is when the send has returned RIPC_OK. After any other status all memory is
 * the caller's, and nothing was sent.
 *
 *   AUTO, SHORT, RETURN  The caller's: it may be changed or freed at once.
 *   LONG                 On loan until the ticket completes. The receiver reads it where it lies, without a copy.
 *   GIVEN                The library's.
 */
typedef enum ripc_item_kind {
  RIPC_ITEM_AUTO = 0,   /* in the message if it fits, else pulled by the receiver from a copy in the pool: then the
                           receiver needs a window for it, or the ticket ends with RIPC_NO_WINDOW; see ripc_send() */
  RIPC_ITEM_SHORT = 1,  /* in the message itself */
  RIPC_ITEM_LONG = 2,   /* pulled by the receiver from the caller's memory, whatever its size */
  RIPC_ITEM_RETURN = 3, /* replies only: written into return buffer `return_index` of the request */
  RIPC_ITEM_GIVEN = 4   /* as RIPC_ITEM_SHORT, out of a leased buffer that is given away with the message */
} ripc_item_kind;

/* One piece of a message in the caller's memory. */
typedef struct ripc_item {
  const void *data; /* may be NULL if size is 0 */
  size_t size;
  uint32_t kind;         /* ripc_item_kind */
  uint32_t return_index; /* for RIPC_ITEM_RETURN */
} ripc_item;

/* Memory the sender is willing to have written by the reply. It belongs to the library, until the reply was received
 * and released, or ripc_request_cancel() returned. */
typedef struct ripc_return_buffer {
  void *data;
  size_t size;
} ripc_return_buffer;

/* Runs once, when the ticket completes; not for a message of which nothing travels long, which has no ticket. */
typedef void (*ripc_ticket_callback)(void *user, ripc_status status);

#define RIPC_MAX_ITEMS 64   /* items of one message */
#define RIPC_MAX_RETURNS 16 /* return buffers of one message */

/* What became of a message to a group; ripc_send() fills it. Set `size`, `missed` and `missed_capacity` before. */
typedef struct ripc_group_outcome {
  size_t size;
  uint32_t members;        /* living ones that are known; 0 if the destination is not a group */
  uint32_t taken;          /* of these, those that the message was sent to; the others missed it */
  ripc_service_id *missed; /* NULL, or where the first `missed_capacity` IDs of those that missed it are written */
  size_t missed_capacity;
} ripc_group_outcome;

typedef struct ripc_send_options {
  size_t size;
  uint32_t tag;                      /* given to the receiver as it is; what it means is the application's */
  uint32_t return_count;             /* 0 to RIPC_MAX_RETURNS */
  const ripc_return_buffer *returns; /* attached return buffers; the array is only read during the call */
  uint64_t timeout;                  /* for the ticket; 0: 30 seconds; RIPC_FOREVER allowed */
  ripc_ticket_callback callback;     /* NULL: none */
  void *user;                        /* for the callback */
  uint64_t *request_id;              /* out, may be NULL: names this request in its reply; 0 without return buffers */
  ripc_group_outcome *outcome;       /* out, may be NULL: who of a group took the message */
} ripc_send_options;

RIPC_API void ripc_send_options_init(ripc_send_options *options);

/* Sends one message of `count` items (0 to RIPC_MAX_ITEMS) from `service` to the service `to`.
 *
 * AUTO items travel in the message as far as it has room (ripc_short_limit). If there is too little, they travel long:
 * the largest first, the last of equal ones first, and only as many as must for the others to fit. So a small item
 * never travels long because of a large one. The call copies what travels long into a lease of the pool, also where the
 * item lies in a lease itself. The lease ends with the transfer.
 *
 * What travels long needs a window of the receiver's (ripc_window_post), unless that receives with RIPC_RECEIVE_LEND.
 * Where there is none, the receiver gets the message with RIPC_VIEW_FAILED in the item's place, and the ticket ends
 * with RIPC_NO_WINDOW: without a ticket or a callback the sender hears nothing. So ask for a ticket if an AUTO item may
 * be large, or send RIPC_ITEM_SHORT, which is RIPC_TOO_LARGE at once.
 *
 * LONG items are lent. Their memory must stay mapped and unchanged until the ticket completes; a completed ticket is
 * the end of the loan. The loan of a leased buffer may also end by ripc_buffer_release(), which keeps the memory until
 * nobody reads it, and that of registered memory by ripc_memory_unregister(), which withdraws the message. Without
 * `ticket` and options->callback, LONG items must be leased or registered: else RIPC_INVALID_ARGUMENT.
 *
 * If anything travels long, *ticket tells when the receiver has it; else *ticket is NULL. `ticket` may be NULL. What
 * travels long is dropped if the ticket's time-out passes, or the sending service ends, before the receiver takes it.
 * options may be NULL.
 *
 * Given items must lie in leased buffers. With RIPC_OK the leases that they lie in have ended, as by
 * ripc_buffer_release(); several items may lie in one. Their memory returns to the pool when nothing reads it any more:
 * so a device can gather them where they lie, without a copy. With any other status the leases stay the caller's.
 *
 * RIPC_AGAIN: the peer has no room, nothing was sent; RIPC_TOO_LARGE: the short part exceeds ripc_short_limit();
 * RIPC_NO_MEMORY (also if the pool has no room for a copy); RIPC_NO_SERVICE, RIPC_REFUSED, RIPC_PEER_DEAD (after asking
 * the resolver again), RIPC_TIMEOUT (the peer cannot be reached), RIPC_FENCED, RIPC_CLOSED, RIPC_INVALID_ARGUMENT,
 * RIPC_NO_DESCRIPTORS, RIPC_LIMIT (max_peers processes are connected), RIPC_PERMISSION (the service's record may not be
 * read), RIPC_VERSION_MISMATCH.
 *
 * `to` may be a group: every member is sent the message once, `service` too if it is one. Short items only. Members
 * that have no room, take smaller packets only or cannot be reached are left out and do not hold up the others; outcome
 * says which. RIPC_OK: at least one member was sent it. RIPC_AGAIN, RIPC_TOO_LARGE or another of the errors above: none
 * was, for this reason. RIPC_NO_SERVICE: it has no living member. RIPC_UNSUPPORTED: an item is LONG, or there are
 * return buffers. AUTO items are short ones here. */
RIPC_API ripc_status ripc_send(ripc_service *service, ripc_service_id to, const ripc_item *items, size_t count,
                               const ripc_send_options *options, ripc_ticket **ticket);

/* One of several messages. */
typedef struct ripc_outgoing {
  const ripc_item *items; /* of any kind but RIPC_ITEM_RETURN; the array is read during the call */
  uint32_t count;         /* of the items, 0 to RIPC_MAX_ITEMS */
  uint32_t tag;           /* given to the receiver as it is */
} ripc_outgoing;

/* Sends `count` messages to one service, in their order, each as ripc_send() would, with fewer system calls where a
 * path needs them: several short ones after the other go together, and over RDMA several long ones. `sent` (may be
 * NULL): how many were sent, the first ones. RIPC_OK: all of them. Any other status says why the message after those
 * was not sent, as for ripc_send().
 *
 * `options` (may be NULL) are for each of them: the time-out of the tickets and their callback; what else they have
 * must be as ripc_send_options_init() leaves it. `tickets`: NULL, or where `count` of them are written; NULL for those
 * of which nothing travels long and those that were not sent. Given away are the buffers of the messages that were
 * sent. Any thread. */
RIPC_API ripc_status ripc_send_many(ripc_service *service, ripc_service_id to, const ripc_outgoing *messages,
                                    size_t count, const ripc_send_options *options, ripc_ticket **tickets,
                                    size_t *sent);

/* Sends to the source of `message`, as the reply to it. Items of kind RIPC_ITEM_RETURN are written into the request's
 * return buffers during the call. One that does not fit, or whose buffer is gone or used, travels long from a copy
 * instead; one that this process may not write is pulled into its return buffer, likewise from a copy. The right to
 * write ends with the first reply. Otherwise like ripc_send(). The message stays the caller's: what it holds may
 * be sent, and it may be released at once if none of that is a LONG item. */
RIPC_API ripc_status ripc_reply(ripc_service *service, const ripc_message *message, const ripc_item *items,
                                size_t count, const ripc_send_options *options, ripc_ticket **ticket);

/* Ends a request: when it returns, its return buffers are the caller's again and no reply writes to them; a write that
 * was going on has ended. RIPC_INVALID_ARGUMENT if the request is unknown or was answered already; RIPC_TIMEOUT if the
 * peer was stopped in the middle of a write: the request goes on then, without the buffers that it was not writing. */
RIPC_API ripc_status ripc_request_cancel(ripc_service *service, uint64_t request_id);

/* How many bytes the short items of one message to `to` may have in all, if it has `items` items and no return buffers
 * or long items. Finds the path to the peer first if there is none: the errors of ripc_send(). Of a group: what all
 * members that can be reached take. */
RIPC_API ripc_status ripc_short_limit(ripc_service *service, ripc_service_id to, size_t items, size_t *bytes);

/* Waits until a message to `to` that gave RIPC_AGAIN may find room; of a group, at one member. RIPC_TIMEOUT,
 * RIPC_INTERRUPTED (as ripc_receive()), or the errors of ripc_send(); with timeout 0 RIPC_OK if no path is known. */
RIPC_API ripc_status ripc_wait_room(ripc_service *service, ripc_service_id to, uint64_t timeout);

/* The same for users of ripc_service_get_fd(), at once: it becomes readable when there is room, or no path is known. */
RIPC_API ripc_status ripc_request_room_event(ripc_service *service, ripc_service_id to);

/* ---- Groups -------------------------------------------------------------------------------------------------

 * A group ID stands for all services that have joined the group: a destination of ripc_send(). There is nothing to
 * create: a group is there while it has members. Wherever a single service is meant, a group ID gives
 * RIPC_INVALID_ARGUMENT, and so does any other ID where a group is meant. */

/* The ID of a group with a name; valid names are those of services. RIPC_INVALID_ARGUMENT if it is not one. */
RIPC_API ripc_status ripc_group_id_from_name(const char *name, ripc_service_id *group);

/* Makes the service a member. When it returns, sends of this context reach it; those of other contexts do as soon as
 * they look again (RIPC_GROUP_REFRESH_MS) or hear of it. RIPC_OK also if it is one already. Membership ends with
 * ripc_group_leave(), with the service, or when its ID is taken over. RIPC_LIMIT: RIPC_MAX_GROUPS, or the record of the
 * service would be too large; RIPC_FENCED, RIPC_CLOSED, RIPC_TIMEOUT, RIPC_PERMISSION, RIPC_NO_DESCRIPTORS,
 * RIPC_NO_MEMORY, RIPC_SYSTEM: nothing has changed. */
RIPC_API ripc_status ripc_group_join(ripc_service *service, ripc_service_id group);
/* Ends it. Messages that were sent before may still be received. RIPC_OK also if it was no member; else as
 * ripc_group_join(). */
RIPC_API ripc_status ripc_group_leave(ripc_service *service, ripc_service_id group);

/* ---- Ticket ------------------------------------------------------------------------------------------------- */

/* RIPC_PENDING, or the final status. It says what became of the message:
 *
 *   delivered                 RIPC_OK: the peer has all of it. If the peer ends, or is cut off for good, in the very
 *                             moment in which it is told that all is well, it drops the message: only an answer of the
 *                             application says more.
 *   delivered, but not all    RIPC_NO_WINDOW, RIPC_WINDOW_TOO_SMALL, RIPC_NO_MEMORY: without the long items that found
 *                             no place; the first failure.
 *   not delivered, and never  RIPC_PEER_DEAD, RIPC_REFUSED (given up: the bytes did not come in time), RIPC_LIMIT (no
 *   will be                   memory may be locked, RDMA), RIPC_TIMEOUT, RIPC_CANCELLED, RIPC_CLOSED (this side ended):
 *                             sending it again does not make it come twice. A pull under way is discarded by the peer.
 *   unknown                   RIPC_CORRUPT: the peer broke the protocol. RIPC_PEER_DEAD or RIPC_CLOSED while the peer
 *                             held a lent view: it has seen the bytes.
 *
 * A message that the peer took as a lent view in time is complete when the view is given back, however late. */
RIPC_API ripc_status ripc_ticket_poll(ripc_ticket *ticket);
/* Waits for the final status. RIPC_PENDING if `timeout` ran out first. */
RIPC_API ripc_status ripc_ticket_wait(ripc_ticket *ticket, uint64_t timeout);
/* Withdraws the message if the peer has not taken it yet: it is then never delivered, its short items neither. Returns
 * the final status, or RIPC_PENDING if the peer holds a lent view of it. */
RIPC_API ripc_status ripc_ticket_cancel(ripc_ticket *ticket);
/* Gives the handle back, complete or not; the message goes on. NULL is ignored. */
RIPC_API void ripc_ticket_release(ripc_ticket *ticket);

/* ---- Receive windows ---------------------------------------------------------------------------------------- */

/* Posts memory that one long item may be pulled into. Any address and size. Item i of a message goes to the i-th window
 * in posting order: first the service's own, then those of the context. A window that is too small fails its item
 * and stays posted. The memory belongs to the library until the message that used it was received, or the window was
 * withdrawn. A message that is withdrawn while it is pulled leaves its windows posted, with any contents. `cookie`
 * comes back with the item. RIPC_LIMIT: more than 65536 windows. */
RIPC_API ripc_status ripc_window_post(ripc_service *service, void *data, size_t size, uint64_t cookie);
/* The same for any service of the context. */
RIPC_API ripc_status ripc_context_window_post(ripc_context *context, void *data, size_t size, uint64_t cookie);
/* Takes back every window posted with this cookie that is not in use; *count (may be NULL) says how many. */
RIPC_API ripc_status ripc_window_withdraw(ripc_service *service, uint64_t cookie, size_t *count);
RIPC_API ripc_status ripc_context_window_withdraw(ripc_context *context, uint64_t cookie, size_t *count);

/* ---- Receive ------------------------------------------------------------------------------------------------ */

typedef enum ripc_receive_flags {
  RIPC_RECEIVE_LEND = 1 /* long items come as views of the sender's memory where the path can, in library memory
                           elsewhere; no window is used. What begins to arrive during a call with the flag comes so to
                           a later one without it, and the other way round: over a network, several messages may */
} ripc_receive_flags;

/* Receives one message. timeout 0: RIPC_EMPTY if there is none. RIPC_TIMEOUT, RIPC_INTERRUPTED (see Signals above),
 * RIPC_FENCED, RIPC_CLOSED, RIPC_LIMIT (max_messages are held: release some), RIPC_NO_MEMORY. */
RIPC_API ripc_status ripc_receive(ripc_service *service, uint32_t flags, uint64_t timeout, ripc_message **message);

/* Receives up to `capacity` messages that are there now; waits only for the first, which comes alone if it comes while
 * the call waits awake. */
RIPC_API ripc_status ripc_receive_many(ripc_service *service, uint32_t flags, uint64_t timeout, ripc_message **messages,
                                       size_t capacity, size_t *count);

/* Makes the receive or room wait of this service that is running, or the next one, return RIPC_INTERRUPTED.
 * Async-signal-safe. */
RIPC_API ripc_status ripc_interrupt(ripc_service *service);

/* A descriptor for poll and epoll (level-triggered): readable when a message, an interrupt or requested room may be
 * there since a receive returned RIPC_EMPTY. Only wait on it, after such a receive. It belongs to the service. */
RIPC_API ripc_status ripc_service_get_fd(ripc_service *service, int *fd);

typedef enum ripc_view_kind {
  RIPC_VIEW_SHORT = 0,    /* data is in the message */
  RIPC_VIEW_WINDOW = 1,   /* data is in the window with `cookie` */
  RIPC_VIEW_LENT = 2,     /* data is lent until the message is released; read only */
  RIPC_VIEW_RETURNED = 3, /* data is in return buffer `return_index` of the request */
  RIPC_VIEW_FAILED = 4    /* data is NULL; `status` says why, `size` what was announced */
} ripc_view_kind;

/* One item of a received message. */
typedef struct ripc_item_view {
  const void *data;
  size_t size;
  uint32_t kind;         /* ripc_view_kind */
  uint32_t status;       /* ripc_status: RIPC_OK or why the item is missing */
  uint64_t cookie;       /* of the window */
  uint32_t return_index; /* of the return buffer */
  uint32_t copied;       /* how many times libripc copied the bytes on this side */
} ripc_item_view;

RIPC_API ripc_service_id ripc_message_source(const ripc_message *message); /* who sent it; 0 for NULL */
RIPC_API uint32_t ripc_message_tag(const ripc_message *message);
RIPC_API size_t ripc_message_item_count(const ripc_message *message);
/* Fills *view; O(1). RIPC_INVALID_ARGUMENT if there is no such item. */
RIPC_API ripc_status ripc_message_item(const ripc_message *message, size_t index, ripc_item_view *view);
/* The request this message answers; 0 if none. */
RIPC_API uint64_t ripc_message_in_reply_to(const ripc_message *message);
/* Return buffers attached by the sender, and the room in each. */
RIPC_API size_t ripc_message_return_count(const ripc_message *message);
RIPC_API size_t ripc_message_return_size(const ripc_message *message, size_t index);
/* Gives the message back: short items and lent views end here. Any thread. NULL is ignored. */
RIPC_API void ripc_message_release(ripc_message *message);

/* A received message as ripc_receive_records() writes it: this, then `item_count` ripc_item_view, then for each return
 * buffer the room in it as uint64_t, then the bytes of the short items. */
typedef struct ripc_record {
  uint32_t record_size; /* of all of it, a multiple of 8: the next record follows */
  uint32_t tag;
  ripc_service_id source;
  uint64_t in_reply_to;
  ripc_message *message; /* NULL: the message was given back already, its items are in the record or in windows */
  uint32_t item_count;
  uint32_t return_count;
} ripc_record;

/* What a record takes at most, without the bytes of its items. */
#define RIPC_MAX_RECORD \
  (sizeof(ripc_record) + RIPC_MAX_ITEMS * sizeof(ripc_item_view) + RIPC_MAX_RETURNS * sizeof(uint64_t))

/* Receives as ripc_receive_many() and copies what there is to know about each message into `records`, one record after
 * the other: all that a short message needs from a language in which calls are dear. `records` is a multiple of 8 and
 * has `size` bytes, of which each of up to `capacity` messages, but at most 64, has RIPC_MAX_RECORD; the rest is for
 * the bytes of short items. A message is given back by this call unless it has return buffers, items that are lent, or
 * a short item for which there was no room, whose view then shows the message's own memory: release those. The errors
 * of ripc_receive(); RIPC_INVALID_ARGUMENT also if there is no room for one record. */
RIPC_API ripc_status ripc_receive_records(ripc_service *service, uint32_t flags, uint64_t timeout, void *records,
                                          size_t size, size_t capacity, size_t *count);

/* Keeps what the lent items of a message lie in readable, though not unchanged, after the message was given back and
 * its sender has ended: for languages whose views may outlive their messages. It does not hold up the sender's ticket.
 * Release it before the context is destroyed. RIPC_EMPTY: no item is lent; RIPC_INVALID_ARGUMENT, RIPC_NO_MEMORY: as
 * RIPC_EMPTY, *hold is NULL. While the message is held, any thread. */
RIPC_API ripc_status ripc_message_hold_views(const ripc_message *message, ripc_view_hold **hold);
/* Any thread. NULL is ignored. */
RIPC_API void ripc_view_hold_release(ripc_view_hold *hold);

/* ---- Notifications ------------------------------------------------------------------------------------------ */

/* Names a callback of a service; plain bytes, to be passed to peers in a message. */
typedef struct ripc_notification {
  ripc_service_id service;
  uint64_t handle; /* unguessable */
} ripc_notification;

/* `items` are valid during the callback. */
typedef void (*ripc_notification_callback)(void *user, ripc_service_id source, const ripc_item_view *items,
                                           size_t count);

RIPC_API ripc_status ripc_notification_register(ripc_service *service, ripc_notification_callback callback, void *user,
                                                ripc_notification *notification);
/* After it returns the callback does not run and never will again. From inside the callback it returns at once, and
 * the run that is under way is the last. RIPC_INVALID_ARGUMENT: not registered. */
RIPC_API ripc_status ripc_notification_unregister(ripc_service *service, const ripc_notification *notification);
/* Runs the peer's callback with up to ripc_short_limit() bytes of arguments, at most 60 KiB. Unreliable, like a short
 * message; the errors of ripc_send(). A handle the peer does not know is counted there and ignored. */
RIPC_API ripc_status ripc_notify(ripc_service *service, const ripc_notification *notification, const ripc_item *items,
                                 size_t count);

/* ---- Buffers ------------------------------------------------------------------------------------------------ */

/* Leases at least `size` bytes of registered memory, aligned to 64 bytes (4096 from 4 KiB on). Contents are undefined.
 * RIPC_NO_MEMORY: the pool limit is reached. */
RIPC_API ripc_status ripc_buffer_lease(ripc_context *context, size_t size, void **data);
/* Ends the lease. Memory that a ticket still needs is kept until the ticket completes. RIPC_INVALID_ARGUMENT if `data`
 * is not the start of a lease. */
RIPC_API ripc_status ripc_buffer_release(ripc_context *context, void *data);
/* The lease or registration that holds `address`: where it starts and how large it is. RIPC_INVALID_ARGUMENT if none
 * does. */
RIPC_API ripc_status ripc_buffer_find(ripc_context *context, const void *address, void **data, size_t *size);
/* Registers memory the application owns, so that long sends from it need no set-up. Registering a range again is
 * counted and answered from the cache. */
RIPC_API ripc_status ripc_memory_register(ripc_context *context, void *data, size_t size);
/* Ends one registration. After the last one of a range, messages that still travel from it fail with RIPC_CANCELLED and
 * are never delivered; what the memory holds later cannot be delivered either. */
RIPC_API ripc_status ripc_memory_unregister(ripc_context *context, void *data);

typedef struct ripc_pool_statistics {
  size_t size;
  uint64_t limit, reserved, leased; /* bytes */
  uint64_t leases, reuses, releases, deferred_releases, failures;
  uint64_t arenas, huge_page_arenas;
  uint64_t registrations, registration_hits;
} ripc_pool_statistics;
RIPC_API ripc_status ripc_pool_get_statistics(ripc_context *context, ripc_pool_statistics *statistics);

/* ---- Names and paths ---------------------------------------------------------------------------------------- */

typedef struct ripc_service_info {
  size_t size;
  ripc_service_id id;
  uint64_t incarnation;
  uint32_t pid;       /* of the holder, as it wrote it; 0 if unknown */
  char name[208];     /* "" if it has none */
  char transport[16]; /* of the first address */
  char address[256];  /* of the first address, transport:locator */
  char reason[160];   /* why this path */
  char others[400];   /* ripc_find_path: each other path and what speaks against it, separated by "; " */
  uint32_t group_count;
  ripc_service_id groups[RIPC_MAX_GROUPS]; /* those it is in, the first `group_count` */
} ripc_service_info;

/* Finds a living service. RIPC_NO_SERVICE within the context's resolve_timeout. */
RIPC_API ripc_status ripc_resolve(ripc_context *context, ripc_service_id id, ripc_service_info *info);
/* The same by name; RIPC_NAME_COLLISION if the ID of the name is held by a service of another name. */
RIPC_API ripc_status ripc_resolve_name(ripc_context *context, const char *name, ripc_service_info *info);

/* Finds the path that a send to a living service takes, making it if need be: the transport and address that answered,
 * why (reason), and what speaks against the others. Takes up to the context's resolve_timeout. RIPC_NO_SERVICE, and if
 * no path works what the last one tried said: RIPC_PEER_DEAD, RIPC_REFUSED, RIPC_TIMEOUT, RIPC_VERSION_MISMATCH,
 * RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY. */
RIPC_API ripc_status ripc_find_path(ripc_context *context, ripc_service_id id, ripc_service_info *info);

/* Waits until a living service has this ID and a path to it works: the next send finds it. At once if it is there; with
 * timeout 0 it looks once. *info (may be NULL) is filled as by ripc_find_path(). RIPC_INTERRUPTED; when the time is
 * over, what keeps the service away: RIPC_NO_SERVICE if there is none, else the errors of ripc_find_path(). */
RIPC_API ripc_status ripc_wait_service(ripc_context *context, ripc_service_id id, uint64_t timeout,
                                       ripc_service_info *info);
/* The same by name; RIPC_NAME_COLLISION if the ID of the name is held by a service of another name. */
RIPC_API ripc_status ripc_wait_service_name(ripc_context *context, const char *name, uint64_t timeout,
                                            ripc_service_info *info);

/* What happened to a service that is watched. RIPC_OK: it is there, and *info says where, as ripc_find_path() does. Any
 * other status: it has ended, *info is what it was, and `status` says why. RIPC_CLOSED: its holder unregistered it, or
 * lost the ID. RIPC_PEER_DEAD: its process ended, or cannot be reached any more. RIPC_FENCED: a newer registration has
 * the ID by now; the next call tells of it. *info is valid during the call. */
typedef void (*ripc_watch_callback)(void *user, ripc_status status, const ripc_service_info *info);

/* Watches the service with this ID from now on: calls back when it is there (also if it is already), when it ends, when
 * it is there again, and so on in turn. Needs no message to find out: a process that is killed is told of at once, on
 * this host and another; a host that vanishes after RIPC_PEER_TIMEOUT_MS. A watch keeps the path to the service open,
 * as a send does. RIPC_NO_MEMORY, RIPC_SYSTEM (no thread can be started). */
RIPC_API ripc_status ripc_service_watch(ripc_context *context, ripc_service_id id, ripc_watch_callback callback,
                                        void *user, ripc_watch **watch);
/* Ends a watch and frees it, before the context is destroyed. After it returns the callback does not run and never will
 * again. From inside the callback it returns at once, and the run that is under way is the last. NULL is ignored. */
RIPC_API void ripc_service_unwatch(ripc_watch *watch);

typedef void (*ripc_service_visitor)(void *user, const ripc_service_info *info);
/* Visits every living service that the resolvers can list, in the calling thread. */
RIPC_API ripc_status ripc_list_services(ripc_context *context, ripc_service_visitor visitor, void *user);

/* Visits every living member of a group, in the calling thread; RIPC_OK also if there is none. The first question of a
 * context for a group takes 100 ms where other hosts are asked. */
RIPC_API ripc_status ripc_group_members(ripc_context *context, ripc_service_id group, ripc_service_visitor visitor,
                                        void *user);

/* One finding of the self-check. level: 0 good, 1 works but slower or limited, 2 broken. */
typedef struct ripc_finding {
  size_t size;
  uint32_t level;
  char subject[48];
  char text[400];   /* what was found */
  char advice[400]; /* what to do; "" if nothing */
} ripc_finding;
typedef void (*ripc_finding_visitor)(void *user, const ripc_finding *finding);
/* Checks this machine and this process for what libripc needs. */
RIPC_API ripc_status ripc_diagnose(const ripc_context_options *options, ripc_finding_visitor visitor, void *user);

/* ---- Counters ----------------------------------------------------------------------------------------------- */

/* Since the service was registered. Cheap; values of running operations may be one behind. */
typedef struct ripc_service_statistics {
  size_t size;
  uint64_t messages_sent, messages_received;
  uint64_t short_bytes_sent, short_bytes_received;
  uint64_t long_items_sent, long_items_received, long_bytes_received;
  uint64_t items_lent, items_returned, items_discarded; /* returned: written into a peer's return buffer */
  uint64_t again;                                       /* sends that found no room */
  uint64_t wakes_sent;                                  /* system calls made to wake a sleeping receiver */
  uint64_t sleeps;                                      /* times receive went to sleep */
  uint64_t packets_lost;                                /* gaps seen */
  uint64_t packets_corrupt;                             /* packets refused by the decoder */
  uint64_t notifications_sent, notifications_run, notifications_unknown;
  uint64_t payload_copies;    /* copies of payload made by the CPU, send and receive side */
  uint64_t resolutions;       /* times the resolver was asked */
  uint64_t senders;           /* queues open now */
  uint64_t packets_late;      /* dropped because later ones of the same sender had come before */
  uint64_t packets_duplicate; /* dropped because they had come before */
  uint64_t group_packets;     /* sent to several members of a group at once */
} ripc_service_statistics;
RIPC_API ripc_status ripc_service_get_statistics(ripc_service *service, ripc_service_statistics *statistics);

#ifdef __cplusplus
}
#endif
#endif
