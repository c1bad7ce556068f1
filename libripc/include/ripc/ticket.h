/* Tickets: the completion of messages that travel long.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RIPC_TICKET_H
#define RIPC_TICKET_H

#include <stdint.h>

#include "ripc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ripc_ticket ripc_ticket; /* the completion of a long message */

/* RIPC_PENDING, or the final status, which says what became of the message:
 *
 *   delivered                 RIPC_OK: the peer has all of it. One exception: the peer may end, or be cut off for good,
 *                             while it learns of the success. It then drops the message.
 *                             Only an answer of the application says more.
 *   delivered in part         RIPC_NO_WINDOW, RIPC_WINDOW_TOO_SMALL, RIPC_NO_MEMORY: without the long items that found
 *                             no place. The status is the first failure.
 *   not delivered, and never  RIPC_PEER_DEAD, RIPC_REFUSED (given up: the bytes did not come in time), RIPC_LIMIT (no
 *   will be                   memory may be locked, RDMA), RIPC_TIMEOUT, RIPC_CANCELLED, RIPC_CLOSED (this side ended).
 *                             Sent again, it does not arrive twice. The peer discards a running pull.
 *   unknown                   RIPC_CORRUPT: the peer broke the protocol. RIPC_PEER_DEAD, RIPC_CLOSED or RIPC_CANCELLED
 *                             (by ripc_memory_unregister()) while the peer held a lent view: it has seen the bytes.
 *
 * If the peer took a message as a lent view in time, it is complete when the view is given back, however late. */
RIPC_API ripc_status ripc_ticket_poll(ripc_ticket *ticket);
/* Waits for the final status. RIPC_PENDING if the timeout ran out first. */
RIPC_API ripc_status ripc_ticket_wait(ripc_ticket *ticket, uint64_t timeout);
/* Withdraws the message if the peer has not taken it yet. Then no part of it is ever delivered, not even its short
 * items. Returns the final status, or RIPC_PENDING if the peer holds a lent view of it. */
RIPC_API ripc_status ripc_ticket_cancel(ripc_ticket *ticket);
/* Gives the handle back, complete or not. The message continues. NULL is ignored. */
RIPC_API void ripc_ticket_release(ripc_ticket *ticket);

#ifdef __cplusplus
}
#endif
#endif
