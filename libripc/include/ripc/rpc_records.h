/* Calls without callbacks: requests and ends are read from memory. This suits languages in which calls from C are
 * expensive, and programs with a loop of their own. ripc/rpc.h says what a call promises.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef RIPC_RPC_RECORDS_H
#define RIPC_RPC_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#include "ripc/receive.h"
#include "ripc/rpc.h"
#include "ripc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ripc_rpc_record_kind {
  RIPC_RPC_RECORD_REQUEST = 0, /* a request has arrived */
  RIPC_RPC_RECORD_END = 1      /* a call has ended */
} ripc_rpc_record_kind;

/* After this comes a ripc_record, as ripc_receive_records() writes it: the arguments of the request, or the items of
 * the answer. Its tag is 0; its source is 0 if there is no answer. Its message is NULL if everything is in the record.
 * Otherwise the views point into that message. The reader must release the message of an answer; that of a request ends
 * with the request. */
typedef struct ripc_rpc_record {
  uint32_t kind;         /* ripc_rpc_record_kind */
  uint32_t code;         /* the method of the request, or the code of the answer */
  void *user;            /* of ripc_rpc_handle(), or of ripc_rpc_call() */
  ripc_request *request; /* owned by the reader, as by a ripc_rpc_handler */
  uint64_t deadline;     /* of the request, by CLOCK_MONOTONIC; UINT64_MAX: none */
  uint32_t outcome;      /* of the call: ripc_call_outcome */
  uint32_t status;       /* of the call: ripc_status */
} ripc_rpc_record;

/* The largest size of a ripc_rpc_record with what follows it, without the bytes of its items. */
#define RIPC_RPC_MAX_RECORD (sizeof(ripc_rpc_record) + RIPC_MAX_RECORD)

/* Runs an endpoint like ripc_rpc_run(), and writes records into `records`, one after the other. They are the requests
 * for methods whose handler is NULL, and the ends of calls whose `done` is NULL. Events that an earlier call left over
 * are written at once. *count says how many; it may be 0 with RIPC_OK.
 *
 * The address `records` is a multiple of 8, with room for `size` bytes. RIPC_RPC_MAX_RECORD of them are set aside for
 * each record; the rest is for the bytes of short items. RIPC_INVALID_ARGUMENT also if there is no room for one, or if
 * the endpoint was made without ripc_rpc_options.recorded. RIPC_CLOSED: after ripc_rpc_close(), when every end was
 * read. */
RIPC_API ripc_status ripc_rpc_run_records(ripc_rpc *rpc, uint64_t timeout, void *records, size_t size, size_t *count);

/* Ends all calls as ripc_rpc_destroy() does, so that their ends can be read before the endpoint is destroyed. Calls
 * that begin later give RIPC_CLOSED. No thread may be in ripc_rpc_run(). RIPC_INVALID_ARGUMENT. */
RIPC_API ripc_status ripc_rpc_close(ripc_rpc *rpc);

#ifdef __cplusplus
}
#endif
#endif
