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

/* A group ID stands for all services that have joined the group. It is a destination of ripc_send(). A group exists
 * while it has members; nothing creates it. A call that expects a single service gives RIPC_INVALID_ARGUMENT for a
 * group ID. A call that expects a group gives it for any other ID. */

/* The ID of a group with a name. Valid names are those of services. RIPC_INVALID_ARGUMENT if the name is not valid. */
RIPC_API ripc_status ripc_group_id_from_name(const char *name, ripc_service_id *group);

/* Makes the service a member. When it returns, sends of this context reach it. Sends of other contexts reach it when
 * they next look (RIPC_GROUP_REFRESH_MS) or learn of it. RIPC_OK also if it is a member already. Membership ends with
 * ripc_group_leave(), with the service, or when its ID is taken over.
 *
 * After an error nothing has changed. RIPC_LIMIT: RIPC_MAX_GROUPS, or the record of the service would be too large.
 * RIPC_FENCED, RIPC_TIMEOUT, RIPC_PERMISSION, RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY, RIPC_SYSTEM. */
RIPC_API ripc_status ripc_group_join(ripc_service *service, ripc_service_id group);
/* Ends the membership. Messages that were sent before, or before their senders learn of it (as for ripc_group_join()),
 * may still be received. RIPC_OK also if it was no member; errors as for ripc_group_join(). */
RIPC_API ripc_status ripc_group_leave(ripc_service *service, ripc_service_id group);

/* Visits every living member of a group, in the calling thread. RIPC_OK also if there is none. If other hosts are
 * asked, a context's first question for a group takes 100 ms. */
RIPC_API ripc_status ripc_group_members(ripc_context *context, ripc_service_id group, ripc_service_visitor visitor,
                                        void *user);

#ifdef __cplusplus
}
#endif
#endif
