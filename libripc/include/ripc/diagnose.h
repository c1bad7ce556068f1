/* The self-check of a machine.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RIPC_DIAGNOSE_H
#define RIPC_DIAGNOSE_H

#include <stddef.h>
#include <stdint.h>

#include "ripc/context.h"
#include "ripc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One finding of the self-check. level: 0 good, 1 works but slower or limited, 2 broken. Several findings may have the
 * same subject. Texts that are too long end with "...". */
typedef struct ripc_finding {
  size_t size;
  uint32_t level;
  char subject[48];
  char text[400];   /* what was found */
  char advice[400]; /* what to do; "" if nothing */
} ripc_finding;
typedef void (*ripc_finding_visitor)(void *user, const ripc_finding *finding);

/* Checks this machine and this process for what a context with these options needs. It visits each finding in the
 * calling thread; *finding is valid during the call. options may be NULL. It returns RIPC_OK even if something is
 * broken: the levels of the findings say so.
 *
 * It needs no context: it starts its own, and a child process; both end before it returns. The runtime directory is
 * made if it is missing. It takes a few tenths of a second. With a ZooKeeper ensemble it takes a few seconds, plus one
 * for each server that does not answer. RIPC_INVALID_ARGUMENT, RIPC_NO_MEMORY, RIPC_SYSTEM. */
RIPC_API ripc_status ripc_diagnose(const ripc_context_options *options, ripc_finding_visitor visitor, void *user);

#ifdef __cplusplus
}
#endif
#endif
