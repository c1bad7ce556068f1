/* Groups of services.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RIPC_GROUP_H
#define RIPC_GROUP_H

#include "ripc/context.h"
#include "ripc/resolve.h"
#include "ripc/service.h"
#include "ripc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A group ID stands for all services that have joined the group: a destination of ripc_send(). There is nothing to
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

/* Visits every living member of a group, in the calling thread; RIPC_OK also if there is none. The first question of a
 * context for a group takes 100 ms where other hosts are asked. */
RIPC_API ripc_status ripc_group_members(ripc_context *context, ripc_service_id group, ripc_service_visitor visitor,
                                        void *user);

#ifdef __cplusplus
}
#endif
#endif
