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

#ifdef __cplusplus
}
#endif
#endif
