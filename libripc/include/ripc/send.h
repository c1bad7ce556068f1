/* Sending messages, replies and requests.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RIPC_SEND_H
#define RIPC_SEND_H

#include <stddef.h>
#include <stdint.h>

#include "ripc/message.h"
#include "ripc/service.h"
#include "ripc/status.h"
#include "ripc/ticket.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How an item travels, and who owns its memory after the send has returned RIPC_OK. After any other status all memory
 * is the caller's, and nothing was sent.
 *
 *   AUTO, SHORT, RETURN  The caller's: it may be changed or freed at once.
 *   LONG                 On loan until the ticket completes. The receiver reads it in place, without a copy.
 *   GIVEN                The library's. */
typedef enum ripc_item_kind {
  RIPC_ITEM_AUTO = 0,   /* in the message if it fits, else pulled by the receiver from a copy in the pool. Then the
                           receiver needs a window for it, or the ticket ends with RIPC_NO_WINDOW; see ripc_send() */
  RIPC_ITEM_SHORT = 1,  /* in the message itself */
  RIPC_ITEM_LONG = 2,   /* pulled by the receiver from the caller's memory, whatever its size */
  RIPC_ITEM_RETURN = 3, /* replies only: goes into return buffer `return_index` of the request */
  RIPC_ITEM_GIVEN = 4   /* as RIPC_ITEM_SHORT, from a leased buffer that is given away with the message */
} ripc_item_kind;

/* One piece of a message in the caller's memory. */
typedef struct ripc_item {
  const void *data; /* may be NULL if size is 0 */
  size_t size;
  uint32_t kind;         /* ripc_item_kind */
  uint32_t return_index; /* for RIPC_ITEM_RETURN */
} ripc_item;

/* Memory that the reply may write. It belongs to the library until the reply was received and released, or
 * ripc_request_cancel() returned. */
typedef struct ripc_return_buffer {
  void *data;
  size_t size;
} ripc_return_buffer;

/* Runs once, when the ticket completes. If no item of a message travels long, it has no ticket, and runs no
 * callback. */
typedef void (*ripc_ticket_callback)(void *user, ripc_status status);

#define RIPC_MAX_ITEMS 64   /* items of one message */
#define RIPC_MAX_RETURNS 16 /* return buffers of one message */

/* The outcome of a message to a group, which ripc_send() fills. Set `missed` and `missed_capacity` before. Members
 * beyond the 4096 that a message can reach count as `members`, but `missed` does not name them. */
typedef struct ripc_group_outcome {
  size_t size;
  uint32_t members;        /* known living members; 0 if the destination is not a group */
  uint32_t taken;          /* members that the message was sent to; the others missed it */
  ripc_service_id *missed; /* NULL, or where the IDs of members that missed it are written, up to `missed_capacity` */
  size_t missed_capacity;
} ripc_group_outcome;

RIPC_API void ripc_group_outcome_init(ripc_group_outcome *outcome);

typedef enum ripc_send_flags {
  RIPC_SEND_UNORDERED = 1 /* the message is delivered as soon as it is complete. It does not wait for earlier messages
                             of its sender whose long items are on their way, and later ones do not wait for it. The
                             limits are in docs/guarantees.md */
} ripc_send_flags;

typedef struct ripc_send_options {
  size_t size;
  uint32_t tag;                      /* the receiver gets it unchanged; its meaning is up to the application */
  uint32_t return_count;             /* 0 to RIPC_MAX_RETURNS */
  const ripc_return_buffer *returns; /* attached return buffers; the array is read during the call only */
  uint64_t timeout;                  /* for the ticket; by default 30 seconds */
  ripc_ticket_callback callback;     /* NULL: none */
  void *user;                        /* for the callback */
  uint64_t *request_id;              /* out, may be NULL: names this request in its reply; 0 without return buffers */
  ripc_group_outcome *outcome;       /* out, may be NULL: which members of a group took the message */
  uint32_t flags;                    /* ripc_send_flags */
} ripc_send_options;

RIPC_API void ripc_send_options_init(ripc_send_options *options);

/* Sends one message of `count` items (0 to RIPC_MAX_ITEMS) from `service` to the service `to`. options may be NULL.
 *
 * AUTO items travel in the message as long as it has room (ripc_short_limit). If there is too little room, some travel
 * long: the largest first, and among equal ones the last first. No more items travel long than needed for the rest to
 * fit, so a small item never travels long because of a large one. The call copies those items into a lease of the pool,
 * even from a leased buffer. The lease ends with the transfer.
 *
 * An item that travels long needs a window of the receiver (ripc_window_post), unless the receiver uses
 * RIPC_RECEIVE_LEND. Without a window, the receiver gets the message with RIPC_VIEW_FAILED in the item's place, and the
 * ticket ends with RIPC_NO_WINDOW. A sender without a ticket or a callback is not informed. So ask for a ticket if an
 * AUTO item may be large, or send RIPC_ITEM_SHORT, which gives RIPC_TOO_LARGE at once.
 *
 * LONG items are lent. Their memory must stay mapped and unchanged until the ticket completes, which ends the loan. For
 * a leased buffer ripc_buffer_release() may end the loan too: the memory is kept until nobody reads it. For registered
 * memory ripc_memory_unregister() may end it: that withdraws the message. Without `ticket` and options->callback, LONG
 * items must be leased or registered, else RIPC_INVALID_ARGUMENT.
 *
 * If anything travels long, *ticket reports when the receiver has it; else *ticket is NULL. `ticket` may be NULL. An
 * item that travels long is dropped if the ticket's timeout passes, or the sending service ends, before the receiver
 * takes it.
 *
 * GIVEN items must lie in leased buffers; several may lie in one. With RIPC_OK these leases have ended, as by
 * ripc_buffer_release(). The memory returns to the pool when nothing reads it any more, so a device can gather the
 * items in place, without a copy. With any other status the leases stay the caller's.
 *
 * RIPC_AGAIN: the peer has no room, nothing was sent. RIPC_TOO_LARGE: the short part exceeds ripc_short_limit().
 * RIPC_NO_MEMORY: also if the pool has no room for a copy. RIPC_PEER_DEAD: even after asking the resolver again.
 * RIPC_TIMEOUT: the peer cannot be reached. RIPC_LIMIT: max_peers processes are connected. RIPC_PERMISSION: the
 * service's record may not be read. RIPC_NO_SERVICE, RIPC_REFUSED, RIPC_FENCED, RIPC_INVALID_ARGUMENT,
 * RIPC_NO_DESCRIPTORS, RIPC_VERSION_MISMATCH, RIPC_SYSTEM.
 *
 * `to` may be a group. Every member is then sent the message once, also `service` if it is a member. All items are
 * short, AUTO items too. Members that have no room, take only smaller packets or cannot be reached are left out. They
 * do not delay the others, and options->outcome names them. RIPC_OK: at least one member was sent the message.
 * RIPC_AGAIN, RIPC_TOO_LARGE or another of the errors above: no member was sent it, for this reason. RIPC_NO_SERVICE:
 * the group has no living member. RIPC_UNSUPPORTED: an item is LONG, there are return buffers, or the message is
 * unordered. */
RIPC_API ripc_status ripc_send(ripc_service *service, ripc_service_id to, const ripc_item *items, size_t count,
                               const ripc_send_options *options, ripc_ticket **ticket);

/* One of several messages. */
typedef struct ripc_outgoing {
  const ripc_item *items; /* of any kind but RIPC_ITEM_RETURN; the array is read during the call only */
  uint32_t count;         /* of the items, 0 to RIPC_MAX_ITEMS */
  uint32_t tag;           /* the receiver gets it unchanged */
} ripc_outgoing;

/* Sends `count` messages to one service, in order, each as ripc_send() would. It makes fewer system calls where a path
 * needs them: several short messages in a row go together, and over RDMA several long ones. `sent` (may be NULL) is how
 * many were sent, counted from the first. RIPC_OK: all of them. Any other status says why the next message was not
 * sent, as for ripc_send(). Any thread.
 *
 * `options` (may be NULL) apply to each message: the timeout and the callback of the tickets, and the flags. The other
 * fields must be as ripc_send_options_init() leaves them. `tickets` is NULL, or where `count` tickets are written. The
 * ticket of a message is NULL if none of its items travels long, or if it was not sent. Only messages that were sent
 * give buffers away. */
RIPC_API ripc_status ripc_send_many(ripc_service *service, ripc_service_id to, const ripc_outgoing *messages,
                                    size_t count, const ripc_send_options *options, ripc_ticket **tickets,
                                    size_t *sent);

/* Sends to the source of `message`, as the reply to it. Otherwise like ripc_send().
 *
 * Items of kind RIPC_ITEM_RETURN go into the request's return buffers. The message carries small ones if it has room
 * for them: up to 4 KiB on one host, and up to 64 KiB between hosts. The requester copies them when it receives the
 * message. Larger ones are written during the call. The requester pulls an item from a copy into the return buffer if
 * this process may not write there, or if pulling is faster. An item that does not fit, or whose buffer is gone or
 * used, becomes a short item if the message carries it. Otherwise it travels long, from a copy. The right to write ends
 * with the first reply.
 *
 * The caller keeps the message. It may send the contents, and may release the message at once if none of them is a LONG
 * item. */
RIPC_API ripc_status ripc_reply(ripc_service *service, const ripc_message *message, const ripc_item *items,
                                size_t count, const ripc_send_options *options, ripc_ticket **ticket);

/* Ends a request. When it returns, its return buffers are the caller's again and no reply writes to them; a running
 * write has ended. RIPC_INVALID_ARGUMENT: the request is unknown, or was answered already. RIPC_TIMEOUT: the peer was
 * stopped, or its connection lost, in the middle of a write. The request then continues, without the buffers that the
 * peer was not writing. */
RIPC_API ripc_status ripc_request_cancel(ripc_service *service, uint64_t request_id);

/* How many bytes the short items of one message to `to` may have together, if it has `items` items, and no return
 * buffers or long items. If there is no path to the peer, it finds one first; errors as for ripc_send(). For a group:
 * what every member that can be reached takes. */
RIPC_API ripc_status ripc_short_limit(ripc_service *service, ripc_service_id to, size_t items, size_t *bytes);

/* Waits until a message to `to` that gave RIPC_AGAIN may find room; in a group, at one member. RIPC_TIMEOUT,
 * RIPC_INTERRUPTED (as ripc_receive()), or the errors of ripc_send(). With timeout 0 it returns RIPC_OK if no path is
 * known; with any other one it finds a path first. This may outlast the timeout: it takes up to resolve_timeout, and so
 * does the first look at a group. */
RIPC_API ripc_status ripc_wait_room(ripc_service *service, ripc_service_id to, uint64_t timeout);

/* The same for users of ripc_service_get_fd(). Does not wait for room. The descriptor becomes readable when there is
 * some, or if no path is known. A service that joins a group later is not noticed. A receive that finds no message
 * takes that event: call this after it, just before the wait. */
RIPC_API ripc_status ripc_request_room_event(ripc_service *service, ripc_service_id to);

#ifdef __cplusplus
}
#endif
#endif
