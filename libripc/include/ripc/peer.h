/* The proven identity of the sender of a message.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RIPC_PEER_H
#define RIPC_PEER_H

#include <stddef.h>
#include <stdint.h>

#include "ripc/message.h"
#include "ripc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RIPC_IDENTITY_SIZE 72 /* bytes for a member's name in the trust file, which has at most 64, and its '\0' */

/* The context that a message came from. A field that nobody has proven is "" or 0. Between hosts the identity is proven
 * by the peer's key, on one host also by the user whom the trust file names. */
typedef struct ripc_peer {
  size_t size;
  uint32_t is_on_this_host;          /* 1: the kernel says whose process it is, see user; 0: another host, or unknown */
  uint32_t user;                     /* that user's number; UINT32_MAX: not on this host, or unknown */
  char identity[RIPC_IDENTITY_SIZE]; /* its name in this context's trust file, see above; "": none is proven */
} ripc_peer;

RIPC_API void ripc_peer_init(ripc_peer *peer);

/* Fills *peer. The ID that ripc_message_get_source() returns is what the sender claims; this is proven. O(1), any
 * thread. RIPC_INVALID_ARGUMENT. */
RIPC_API ripc_status ripc_message_peer(const ripc_message *message, ripc_peer *peer);

#ifdef __cplusplus
}
#endif
#endif
