/* Received messages and their items.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RIPC_MESSAGE_H
#define RIPC_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "ripc/service.h"
#include "ripc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ripc_message ripc_message;     /* a received message; owned by the receiver until released */
typedef struct ripc_view_hold ripc_view_hold; /* keeps memory of lent items readable */

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

RIPC_API ripc_service_id ripc_message_get_source(const ripc_message *message); /* the sender; 0 for NULL */
RIPC_API uint32_t ripc_message_get_tag(const ripc_message *message);
RIPC_API size_t ripc_message_get_item_count(const ripc_message *message);
/* Fills *view; O(1). RIPC_INVALID_ARGUMENT if there is no such item. */
RIPC_API ripc_status ripc_message_get_item(const ripc_message *message, size_t index, ripc_item_view *view);
/* The request this message answers; 0 if none. */
RIPC_API uint64_t ripc_message_get_in_reply_to(const ripc_message *message);
/* Return buffers attached by the sender, and the room in each. */
RIPC_API size_t ripc_message_get_return_count(const ripc_message *message);
RIPC_API size_t ripc_message_get_return_size(const ripc_message *message, size_t index);
/* Gives the message back. Its short items and lent views become invalid. Any thread. NULL is ignored. */
RIPC_API void ripc_message_release(ripc_message *message);

/* Keeps the memory of a message's lent items readable after the message was given back and its sender has ended. The
 * contents may change. It serves languages whose views may outlive their messages, and does not delay the sender's
 * ticket. Any thread, while the message is held. Release the hold before the context is destroyed.
 *
 * RIPC_EMPTY: no item is lent. RIPC_INVALID_ARGUMENT, RIPC_NO_MEMORY. After each of them *hold is NULL. */
RIPC_API ripc_status ripc_message_hold_views(const ripc_message *message, ripc_view_hold **hold);
/* Any thread. NULL is ignored. */
RIPC_API void ripc_view_hold_release(ripc_view_hold *hold);

#ifdef __cplusplus
}
#endif
#endif
