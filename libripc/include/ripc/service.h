/* Services: registered IDs with receive queues.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RIPC_SERVICE_H
#define RIPC_SERVICE_H

#include <stddef.h>
#include <stdint.h>

#include "ripc/context.h"
#include "ripc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ripc_service ripc_service; /* a registered service ID with its receive queue */

typedef uint64_t ripc_service_id; /* 0 is never a service */

/* Kinds of IDs cannot collide; the two top bits tell them apart. Services have well-known numbers 1 to 2^62-1 (00), IDs
 * of names (10) or random IDs (11). Groups have numbers or IDs of names (01). */
#define RIPC_WELL_KNOWN_MAX ((UINT64_C(1) << 62) - 1)
#define RIPC_GROUP_NUMBER_MAX ((UINT64_C(1) << 61) - 1)
/* The group with a number up to RIPC_GROUP_NUMBER_MAX. */
#define RIPC_GROUP_ID(number) ((UINT64_C(1) << 62) | (number))
#define RIPC_MAX_GROUPS 64 /* groups of one service at once */

typedef struct ripc_service_options {
  size_t size;
  ripc_service_id id;      /* a well-known number; 0: from name if there is one, else random */
  const char *name;        /* 1 to 200 bytes of UTF-8 without control characters or '/'; NULL: none. With an id it is
                              only shown in lists: the service is found by its id */
  uint32_t takeover;       /* not 0: if the ID has a living holder, fence it and take its place */
  uint32_t queue_messages; /* messages that one sender may have waiting here; 0: 128; a power of 2, 16 to 65536 */
  uint32_t queue_bytes;    /* bytes for messages over 100 bytes, per sender; 0: 8192; a power of 2, 4 KiB to 64 MiB */
  uint32_t max_senders;    /* senders (contexts) that may hold a queue here at once; 0: 4096 */
  uint32_t max_messages;   /* received messages the application may hold unreleased; 0: 65536 */
} ripc_service_options;

RIPC_API void ripc_service_options_init(ripc_service_options *options);

/* The ID of a name. RIPC_INVALID_ARGUMENT if the name is not valid. */
RIPC_API ripc_status ripc_id_from_name(const char *name, ripc_service_id *id);

/* Registers a service. options may be NULL: a random ID. When it returns, other processes can find the service. It
 * takes about 30 ms where other hosts may have the ID; ripc_service_register_many() shares that time.
 *
 * RIPC_ID_IN_USE: the ID has a living holder, and takeover is 0. RIPC_NAME_COLLISION: the ID comes from the name, and a
 * living service with another name, or with none, holds it, whatever takeover says. RIPC_PERMISSION: it may not be
 * taken over, because its holder is a process of this host that would not learn of it. That is so if the holder is
 * another user's and one of the two does not admit the other, or if the two have no transport in common. Also: the
 * trust file, a record of another user, or an access list of ZooKeeper forbids it. RIPC_VERSION_MISMATCH: the record of
 * the holder is from another version of libripc. RIPC_TIMEOUT: another process keeps the lock of the record.
 * RIPC_LIMIT, RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY, RIPC_SYSTEM. */
RIPC_API ripc_status ripc_service_register(ripc_context *context, const ripc_service_options *options,
                                           ripc_service **service);
/* Registers `count` services together. Where other hosts are asked whether an ID is taken (30 ms each), the call waits
 * for all answers together. `options` is an array whose elements all have the same `size` as the first. `services` is
 * where `count` handles are written, in the same order. With a `count` of 0 it does nothing.
 *
 * All or none: if one cannot be registered, the others are unregistered again. The call returns the status of the one
 * that failed, and the sentence names it. */
RIPC_API ripc_status ripc_service_register_many(ripc_context *context, const ripc_service_options *options,
                                                size_t count, ripc_service **services);
/* Withdraws the ID, ends the service's tickets with RIPC_CLOSED, and frees the service. Messages still held stay valid
 * until they are released, but the loans of lent views end: their senders may change the bytes. A thread that is
 * blocked in receive must have returned first (ripc_interrupt). NULL is ignored. */
RIPC_API void ripc_service_unregister(ripc_service *service);

RIPC_API ripc_service_id ripc_service_get_id(const ripc_service *service);    /* 0 for NULL */
RIPC_API const char *ripc_service_get_name(const ripc_service *service);      /* "" if none; valid like the service */
RIPC_API uint64_t ripc_service_get_incarnation(const ripc_service *service);  /* grows with each registration */
RIPC_API ripc_context *ripc_service_get_context(const ripc_service *service); /* borrowed */

/* Counters since the registration. Cheap to read; values of running operations may be one behind. */
typedef struct ripc_service_statistics {
  size_t size;
  uint64_t messages_sent, messages_received;
  uint64_t short_bytes_sent, short_bytes_received;
  uint64_t long_items_sent, long_items_received, long_bytes_received;
  uint64_t items_lent, items_returned, items_discarded; /* returned: sent for a peer's return buffer */
  uint64_t again;                                       /* sends that found no room */
  uint64_t wakes_sent;                                  /* system calls made to wake a sleeping receiver */
  uint64_t sleeps;                                      /* times receive went to sleep */
  uint64_t packets_lost;                                /* gaps seen */
  uint64_t packets_corrupt;                             /* packets refused by the decoder */
  uint64_t notifications_sent, notifications_run, notifications_unknown;
  uint64_t payload_copies;    /* copies of payload made by the CPU, send and receive side */
  uint64_t resolutions;       /* times the resolver was asked */
  uint64_t senders;           /* queues open now */
  uint64_t packets_late;      /* dropped because later ones of the same sender came first */
  uint64_t packets_duplicate; /* dropped because they had arrived already */
  uint64_t group_packets;     /* sent to several members of a group at once */
} ripc_service_statistics;

RIPC_API void ripc_service_statistics_init(ripc_service_statistics *statistics);
RIPC_API ripc_status ripc_service_get_statistics(ripc_service *service, ripc_service_statistics *statistics);

#ifdef __cplusplus
}
#endif
#endif
