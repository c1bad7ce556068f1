/* Receive windows and receiving.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RIPC_RECEIVE_H
#define RIPC_RECEIVE_H

#include <stddef.h>
#include <stdint.h>

#include "ripc/context.h"
#include "ripc/message.h"
#include "ripc/send.h"
#include "ripc/service.h"
#include "ripc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Posts memory of any address and size that one long item may be pulled into. `cookie` comes back with the item. Item i
 * of a message goes to the i-th window in posting order: first the service's own windows, then those of the context. A
 * window that is too small fails its item and stays posted.
 *
 * The memory belongs to the library until the message that used it was received, or the window was withdrawn. A message
 * that is withdrawn while it is pulled leaves its windows posted, with undefined contents. RIPC_LIMIT: more than 65536
 * windows. */
RIPC_API ripc_status ripc_window_post(ripc_service *service, void *data, size_t size, uint64_t cookie);
/* The same for any service of the context. */
RIPC_API ripc_status ripc_context_window_post(ripc_context *context, void *data, size_t size, uint64_t cookie);
/* Takes back every window with this cookie that is not in use. *count (may be NULL) says how many. */
RIPC_API ripc_status ripc_window_withdraw(ripc_service *service, uint64_t cookie, size_t *count);
RIPC_API ripc_status ripc_context_window_withdraw(ripc_context *context, uint64_t cookie, size_t *count);

typedef enum ripc_receive_flags {
  RIPC_RECEIVE_LEND = 1 /* long items are views of the sender's memory where the path can lend, and of library memory
                           elsewhere; no window is used. A message keeps the flag of the call during which it begins to
                           arrive, even if a later call receives it. Over a network several messages may begin */
} ripc_receive_flags;

/* Receives one message. With timeout 0 RIPC_EMPTY means that there is none. RIPC_TIMEOUT, RIPC_INTERRUPTED (see Signals
 * in ripc.h), RIPC_FENCED, RIPC_LIMIT (max_messages are held: release some), RIPC_NO_MEMORY. */
RIPC_API ripc_status ripc_receive(ripc_service *service, uint32_t flags, uint64_t timeout, ripc_message **message);

/* Receives up to `capacity` messages that have arrived; one call may leave some of them for the next. It waits only for
 * the first one. If that one arrives while the call polls for it, the call returns it alone. RIPC_INVALID_ARGUMENT also
 * if `capacity` is 0. */
RIPC_API ripc_status ripc_receive_many(ripc_service *service, uint32_t flags, uint64_t timeout, ripc_message **messages,
                                       size_t capacity, size_t *count);

/* Makes the running receive or room wait of this service, or the next one, return RIPC_INTERRUPTED. A receive that
 * finds a message returns that first. ripc_rpc_call_wait() leaves the interrupt to the next ripc_rpc_run().
 * Async-signal-safe, so it does not report RIPC_FORKED: in a forked child it does nothing. */
RIPC_API ripc_status ripc_interrupt(ripc_service *service);

/* A descriptor for poll and epoll (level-triggered). After a receive returned RIPC_EMPTY, it becomes readable when a
 * message, an interrupt or requested room may have arrived. Only wait on it, and only after such a receive. It belongs
 * to the service. */
RIPC_API ripc_status ripc_service_get_fd(ripc_service *service, int *fd);

/* A received message as ripc_receive_records() writes it. After this come `item_count` ripc_item_view, then the room in
 * each return buffer as uint64_t, then the bytes of the short items. */
typedef struct ripc_record {
  uint32_t record_size; /* of the whole record, a multiple of 8; the next record follows */
  uint32_t tag;
  ripc_service_id source;
  uint64_t in_reply_to;
  ripc_message *message; /* NULL: already given back, the items are in the record or in windows */
  uint32_t item_count;
  uint32_t return_count;
  const char *peer_identity;     /* as ripc_message_peer() returns it; valid as long as the context */
  uint32_t peer_is_on_this_host; /* as ripc_message_peer() returns it */
  uint32_t peer_user;            /* as ripc_message_peer() returns it */
} ripc_record;

/* The largest size of a record, without the bytes of its items. */
#define RIPC_MAX_RECORD \
  (sizeof(ripc_record) + RIPC_MAX_ITEMS * sizeof(ripc_item_view) + RIPC_MAX_RETURNS * sizeof(uint64_t))

/* Receives like ripc_receive_many(), and copies what is known about each message into `records`, one record after the
 * other. A short message needs no further call, which helps languages in which calls are expensive.
 *
 * The address `records` is a multiple of 8, with room for `size` bytes. RIPC_MAX_RECORD of them are set aside for each
 * of up to `capacity` messages, but at most 64. The rest is for the bytes of short items.
 *
 * The call gives a message back unless it has return buffers, lent items, or a short item that found no room. The view
 * of such a short item shows the message's own memory. Release those messages. Errors as for ripc_receive();
 * RIPC_INVALID_ARGUMENT also if there is no room for one record. */
RIPC_API ripc_status ripc_receive_records(ripc_service *service, uint32_t flags, uint64_t timeout, void *records,
                                          size_t size, size_t capacity, size_t *count);

#ifdef __cplusplus
}
#endif
#endif
