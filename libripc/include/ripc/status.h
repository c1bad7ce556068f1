/* What calls return, and the version of the library.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RIPC_STATUS_H
#define RIPC_STATUS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define RIPC_API __attribute__((visibility("default")))
#else
#define RIPC_API
#endif

/* Values are stable: new ones are added at the end, and none is renumbered. */
typedef enum ripc_status {
  RIPC_OK = 0,
  RIPC_AGAIN = 1,             /* the peer has no room now: ripc_wait_room(), then send again */
  RIPC_EMPTY = 2,             /* nothing to receive now */
  RIPC_PENDING = 3,           /* the ticket is not complete */
  RIPC_TIMEOUT = 4,           /* the given time is over */
  RIPC_INTERRUPTED = 5,       /* ripc_interrupt(), or a signal handler of the application, ended the wait */
  RIPC_TOO_LARGE = 6,         /* larger than the peer's short limit, or than a documented limit */
  RIPC_NO_SERVICE = 7,        /* no living service has this ID */
  RIPC_PEER_DEAD = 8,         /* the peer died or closed before it took the message */
  RIPC_REFUSED = 9,           /* the peer does not accept this process (user, limit, cluster), or this message */
  RIPC_NO_WINDOW = 10,        /* the receiver had no receive window left for a long item */
  RIPC_WINDOW_TOO_SMALL = 11, /* the receive window for a long item was smaller than the item */
  RIPC_ID_IN_USE = 12,        /* a living service holds this ID: take another, or ask for takeover */
  RIPC_NAME_COLLISION = 13,   /* another name hashes to the same ID: rename one of the two */
  RIPC_FENCED = 14,           /* a newer holder took this service's ID over */
  RIPC_CLOSED = 15,           /* the service or context is closing */
  RIPC_INVALID_ARGUMENT = 16, /* an argument breaks the contract of the call */
  RIPC_NO_MEMORY = 17,        /* memory, or the pool's limit, is exhausted */
  RIPC_NO_DESCRIPTORS = 18,   /* no file descriptors left: raise `ulimit -n` */
  RIPC_LIMIT = 19,            /* a documented limit is reached */
  RIPC_PERMISSION = 20,       /* the operating system forbids it */
  RIPC_VERSION_MISMATCH = 21, /* the peer speaks another protocol version */
  RIPC_CANCELLED = 22,        /* the caller ended it */
  RIPC_REVOKED = 23,          /* the sender withdrew it before it was taken */
  RIPC_CORRUPT = 24,          /* the peer broke the protocol */
  RIPC_UNSUPPORTED = 25,      /* this path cannot do it, or the service has no such method */
  RIPC_FORKED = 26,           /* the handle belongs to the parent process: make a new context after fork */
  RIPC_SYSTEM = 27            /* an operating system call failed in an unexpected way */
} ripc_status;

/* Times with a special meaning. RIPC_DEFAULT_TIME is for options only: it stands for the default that the field
 * names. */
#define RIPC_FOREVER UINT64_MAX
#define RIPC_DEFAULT_TIME (UINT64_MAX - 1)

/* The short name of a status, such as "RIPC_AGAIN". Static; never NULL. */
RIPC_API const char *ripc_status_name(ripc_status status);
/* One sentence that says what a status means and what to do. Static; never NULL. */
RIPC_API const char *ripc_status_text(ripc_status status);
/* The sentence for this thread's last call that did not return RIPC_OK; ripc_interrupt() does not count. Valid until
 * the thread's next libripc call; never NULL. */
RIPC_API const char *ripc_last_error(void);
/* The version of these headers. While RIPC_VERSION_MAJOR is 0 a new minor version may change the interface; a new patch
 * never does (docs/deployment.md). */
#define RIPC_VERSION_MAJOR 0
#define RIPC_VERSION_MINOR 1
#define RIPC_VERSION_PATCH 0
/* The version of the library that runs, "MAJOR.MINOR.PATCH". Static. */
RIPC_API const char *ripc_version(void);

#ifdef __cplusplus
}
#endif
#endif
