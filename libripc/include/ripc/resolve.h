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

typedef struct ripc_watch ripc_watch; /* reports when a service appears and ends */

/* Texts that are too long end with "...". */
typedef struct ripc_service_info {
  size_t size;
  ripc_service_id id;
  uint64_t incarnation;
  uint32_t pid;       /* of the holder, as it wrote it; 0 if unknown */
  char name[208];     /* "" if it has none */
  char transport[16]; /* of `address` */
  char address[1024]; /* transport:locator: the one that a send tries first, if any leads from here to the service */
  char reason[160];   /* why this path */
  char others[400];   /* ripc_find_path: the other paths and why each is not used, separated by "; " */
  uint32_t group_count;
  ripc_service_id groups[RIPC_MAX_GROUPS]; /* its groups: the first `group_count` */
} ripc_service_info;

RIPC_API void ripc_service_info_init(ripc_service_info *info);

/* Finds a living service: the next send goes there. RIPC_NO_SERVICE within resolve_timeout. RIPC_VERSION_MISMATCH: its
 * record is from another version of libripc. RIPC_PERMISSION: this process may not read the record. RIPC_TIMEOUT: the
 * ZooKeeper ensemble does not answer. RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY, RIPC_SYSTEM. */
RIPC_API ripc_status ripc_resolve(ripc_context *context, ripc_service_id id, ripc_service_info *info);
/* The same by name. RIPC_NAME_COLLISION: a service of another name holds the ID of this name. */
RIPC_API ripc_status ripc_resolve_name(ripc_context *context, const char *name, ripc_service_info *info);

/* Finds the path that a send to a living service takes, and connects if necessary. *info has the transport and address
 * that answered, the reason for this path, and why the others are not used. Takes up to the context's resolve_timeout.
 *
 * RIPC_NO_SERVICE. If no path works, the error of the last one tried: RIPC_PEER_DEAD, RIPC_REFUSED, RIPC_TIMEOUT,
 * RIPC_VERSION_MISMATCH, RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY, RIPC_SYSTEM, and RIPC_LIMIT and RIPC_PERMISSION as of
 * ripc_send(). */
RIPC_API ripc_status ripc_find_path(ripc_context *context, ripc_service_id id, ripc_service_info *info);

/* One of the ways by which long items reach, or could reach, another host. The receiving side decides which of them
 * long items do not use, by the rates that it measures. A side that mostly sends knows only TCP's estimate, which may
 * be far too high where it sends little. */
typedef struct ripc_rail_info {
  size_t size;
  char device[64]; /* of this host: a network interface, or an RDMA device; "": the interface is gone */
  char local[64];  /* addresses */
  char peer[64];
  uint64_t bytes_sent; /* with protocol overhead; over RDMA only what this side itself reads and writes */
  uint64_t bytes_received;
  uint64_t rate;        /* bytes per second, as last measured; 0: not measured yet */
  uint32_t spare;       /* 1: less than a quarter of the fastest rate: a receiving side does not use it */
  uint32_t connections; /* open over this rail now */
} ripc_rail_info;
typedef void (*ripc_rail_visitor)(void *user, const ripc_rail_info *rail);

/* Visits each rail that leads to the process of a living service, in the calling thread. Its counts cover all long
 * items between the two processes, in both directions, since they connected. *rail is valid during the call. Shared
 * memory on one host has no rails. Rails without a connection, before the first long item or after they have failed,
 * are visible only to the process that connected to the other one. Finds the path if there is none; errors as for
 * ripc_find_path(). */
RIPC_API ripc_status ripc_list_rails(ripc_context *context, ripc_service_id id, ripc_rail_visitor visitor, void *user);

/* Waits until a living service has this ID and a path to it works. The next send then finds it. Returns at once if it
 * is already there; with timeout 0 it looks only once. *info (may be NULL) is filled as by ripc_find_path(). A look may
 * outlast the timeout, as ripc_find_path() does. RIPC_INTERRUPTED.
 *
 * After the timeout, the status says why the service cannot be used: RIPC_NO_SERVICE if there is none, else the errors
 * of ripc_find_path(). */
RIPC_API ripc_status ripc_wait_service(ripc_context *context, ripc_service_id id, uint64_t timeout,
                                       ripc_service_info *info);
/* The same by name. RIPC_NAME_COLLISION: a service of another name holds the ID of this name. */
RIPC_API ripc_status ripc_wait_service_name(ripc_context *context, const char *name, uint64_t timeout,
                                            ripc_service_info *info);

/* What happened to a watched service. *info is valid during the call.
 *
 *   RIPC_OK         The service is there, and *info says where, as ripc_find_path() does.
 *   any other       It has ended; *info describes it as it was, and `status` says why:
 *   RIPC_CLOSED     Its holder unregistered it, or lost the ID.
 *   RIPC_PEER_DEAD  Its process ended, or cannot be reached any more.
 *   RIPC_FENCED     A newer registration has the ID; the next call reports it. */
typedef void (*ripc_watch_callback)(void *user, ripc_status status, const ripc_service_info *info);

/* Watches the service with this ID from now on. The callback runs alternately when the service is there (also if it is
 * already) and when it has ended.
 *
 * No message needs to be sent to find out. The end of a killed process is reported at once, on this host and on
 * another. A host that vanishes is reported after RIPC_PEER_TIMEOUT_MS. A watch keeps the path to the service open, as
 * a send does.
 *
 * One thread of the context looks after all watches and waits. A stopped process, or a network that does not answer,
 * may hold up the others, and ripc_context_destroy(), by half a second at each look.
 *
 * RIPC_NO_MEMORY, RIPC_SYSTEM (no thread can be started). */
RIPC_API ripc_status ripc_service_watch(ripc_context *context, ripc_service_id id, ripc_watch_callback callback,
                                        void *user, ripc_watch **watch);
/* Ends a watch and frees it. Call it before the context is destroyed. After it returns the callback does not run and
 * never will again. Called from inside the callback, it returns at once, and the current run is the last. NULL is
 * ignored. */
RIPC_API void ripc_service_unwatch(ripc_watch *watch);

typedef void (*ripc_service_visitor)(void *user, const ripc_service_info *info);
/* Visits every living service that the resolvers can list, in the calling thread. */
RIPC_API ripc_status ripc_list_services(ripc_context *context, ripc_service_visitor visitor, void *user);

#ifdef __cplusplus
}
#endif
#endif
