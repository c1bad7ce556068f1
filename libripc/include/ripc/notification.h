/* Notifications: callbacks that peers run.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RIPC_NOTIFICATION_H
#define RIPC_NOTIFICATION_H

#include <stddef.h>
#include <stdint.h>

#include "ripc/message.h"
#include "ripc/send.h"
#include "ripc/service.h"
#include "ripc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Names a callback of a service. Plain bytes: pass them to peers in a message. */
typedef struct ripc_notification {
  ripc_service_id service;
  uint64_t handle; /* unguessable */
} ripc_notification;

/* `items` are valid during the callback. */
typedef void (*ripc_notification_callback)(void *user, ripc_service_id source, const ripc_item_view *items,
                                           size_t count);

RIPC_API ripc_status ripc_notification_register(ripc_service *service, ripc_notification_callback callback, void *user,
                                                ripc_notification *notification);
/* After it returns the callback does not run and never will again. Called from inside the callback, it returns at once,
 * and the current run is the last. RIPC_INVALID_ARGUMENT: not registered. */
RIPC_API ripc_status ripc_notification_unregister(ripc_service *service, const ripc_notification *notification);
/* Runs the peer's callback with up to ripc_short_limit() bytes of arguments in AUTO or SHORT items. One item has at
 * most 61,408 bytes, and each further item takes 4 of them. Larger arguments give RIPC_TOO_LARGE: send them in a
 * message, with ripc_send(), before the notification that announces it. Unreliable, like a short message; errors as for
 * ripc_send(). RIPC_INVALID_ARGUMENT: an item of another kind. A peer counts and ignores a handle that it does not
 * know. */
RIPC_API ripc_status ripc_notify(ripc_service *service, const ripc_notification *notification, const ripc_item *items,
                                 size_t count);

#ifdef __cplusplus
}
#endif
#endif
