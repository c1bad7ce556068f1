/* Finding services and paths to them.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RIPC_RESOLVE_H
#define RIPC_RESOLVE_H

#include <stddef.h>
#include <stdint.h>

#include "ripc/context.h"
#include "ripc/service.h"
#include "ripc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ripc_watch ripc_watch; /* tells when a service appears and ends */

/* Texts that are too long end with "...". */
typedef struct ripc_service_info {
  size_t size;
  ripc_service_id id;
  uint64_t incarnation;
  uint32_t pid;       /* of the holder, as it wrote it; 0 if unknown */
  char name[208];     /* "" if it has none */
  char transport[16]; /* of the first address */
  char address[1024]; /* of the first address, transport:locator */
  char reason[160];   /* why this path */
  char others[400];   /* ripc_find_path: each other path and what speaks against it, separated by "; " */
  uint32_t group_count;
  ripc_service_id groups[RIPC_MAX_GROUPS]; /* those it is in, the first `group_count` */
} ripc_service_info;

RIPC_API void ripc_service_info_init(ripc_service_info *info);

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

#ifdef __cplusplus
}
#endif
#endif
