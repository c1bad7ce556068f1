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

/* One finding of the self-check. level: 0 good, 1 works but slower or limited, 2 broken. */
typedef struct ripc_finding {
  size_t size;
  uint32_t level;
  char subject[48];
  char text[400];   /* what was found */
  char advice[400]; /* what to do; "" if nothing */
} ripc_finding;
typedef void (*ripc_finding_visitor)(void *user, const ripc_finding *finding);
/* Checks this machine and this process for what libripc needs. */
RIPC_API ripc_status ripc_diagnose(const ripc_context_options *options, ripc_finding_visitor visitor, void *user);

#ifdef __cplusplus
}
#endif
#endif
