/* Leased buffers and registered memory.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RIPC_BUFFER_H
#define RIPC_BUFFER_H

#include <stddef.h>
#include <stdint.h>

#include "ripc/context.h"
#include "ripc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Leases at least `size` bytes of registered memory, aligned to 64 bytes (4096 from 4 KiB on). Contents are undefined.
 * RIPC_NO_MEMORY: the pool limit is reached, or the system has none. RIPC_NO_DESCRIPTORS, RIPC_SYSTEM. */
RIPC_API ripc_status ripc_buffer_lease(ripc_context *context, size_t size, void **data);
/* Ends the lease. Memory that a ticket still needs is kept until the ticket completes. RIPC_INVALID_ARGUMENT if `data`
 * is not the start of a lease. */
RIPC_API ripc_status ripc_buffer_release(ripc_context *context, void *data);
/* The lease or registration that contains `address`: where it starts and how large it is. RIPC_INVALID_ARGUMENT if none
 * does. */
RIPC_API ripc_status ripc_buffer_find(ripc_context *context, const void *address, void **data, size_t *size);
/* Registers memory that the application owns, so that long messages from and into it need no set-up. An RDMA device
 * registers it at its first use, and keeps it until the last registration ends. Sockets encrypt and decrypt it in
 * place. Until the last registration ends, it must stay mapped, with the same pages. Repeated registrations of a range
 * are counted. RIPC_INVALID_ARGUMENT: the range is empty, or has bytes of the pool that are not all in one lease.
 * RIPC_NO_MEMORY. */
RIPC_API ripc_status ripc_memory_register(ripc_context *context, void *data, size_t size);
/* Ends one registration. After the last one of a range, messages whose bytes are still being read from it fail with
 * RIPC_CANCELLED and are never delivered. Later contents of the memory cannot be delivered either. Messages can still
 * arrive in it while it is mapped, as in any other memory. A message that is arriving when it is unmapped is lost, and
 * its sender learns of it. RIPC_INVALID_ARGUMENT: no registered range starts at `data`. */
RIPC_API ripc_status ripc_memory_unregister(ripc_context *context, void *data);

typedef struct ripc_pool_statistics {
  size_t size;
  uint64_t limit, reserved, leased; /* bytes */
  uint64_t leases, reuses, releases, deferred_releases, failures;
  uint64_t arenas, huge_page_arenas;
  uint64_t registrations, registration_hits;
} ripc_pool_statistics;

RIPC_API void ripc_pool_statistics_init(ripc_pool_statistics *statistics);
RIPC_API ripc_status ripc_pool_get_statistics(ripc_context *context, ripc_pool_statistics *statistics);

#ifdef __cplusplus
}
#endif
#endif
