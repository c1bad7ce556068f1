/* The library in one process.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RIPC_CONTEXT_H
#define RIPC_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

#include "ripc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ripc_context ripc_context; /* the library in one process; owns everything below */

/* The users of this host whose processes this context talks to, on every path (docs/security.md). Root is always
 * admitted. */
typedef enum ripc_peer_policy {
  RIPC_PEERS_SAME_USER = 0,  /* the default */
  RIPC_PEERS_SAME_GROUP = 1, /* also this process's effective group; over a network transport, users who have it */
  RIPC_PEERS_ANY = 2         /* every user whom the runtime directory's permissions let in */
} ripc_peer_policy;

/* Whether this context connects to other hosts: through the transports socket and verbs, and through the multicast and
 * ZooKeeper resolvers. Shared memory does not depend on it. */
typedef enum ripc_network {
  RIPC_NETWORK_KEY = 0,  /* the default: only with a cluster key, and only to hosts that have the same key */
  RIPC_NETWORK_OPEN = 1, /* without a key: everyone who reaches this host's ports is a peer */
  RIPC_NETWORK_OFF = 2   /* never */
} ripc_network;

/* Whether traffic between hosts over sockets is encrypted. With a cluster key it is authenticated in any case; without
 * one it is neither encrypted nor authenticated. Shared memory does not leave the host, and RDMA devices do not
 * encrypt. */
typedef enum ripc_encrypt {
  RIPC_ENCRYPT_OFF = 0,     /* never */
  RIPC_ENCRYPT_AUTO = 1,    /* the default: with peers that have a cluster key and have not chosen off */
  RIPC_ENCRYPT_REQUIRED = 2 /* always, else there is no connection; RDMA is not used */
} ripc_encrypt;

typedef struct ripc_context_options {
  size_t size;
  const char *runtime_directory; /* NULL: $RIPC_RUNTIME_DIR, else $XDG_RUNTIME_DIR/ripc, else /tmp/ripc-UID */
  const char *transports;        /* NULL: $RIPC_TRANSPORTS, else all; comma-separated, first is preferred */
  const char *static_resolver;   /* NULL: $RIPC_RESOLVER_FILE, else none; a file of known services, asked first */
  uint64_t pool_limit;           /* bytes of registered pool memory at most; 0: 1/4 of the machine's memory */
  uint64_t resolve_timeout;      /* an unknown ID answers within this time, an hour at most; by default 1 second */
  uint64_t spin;                 /* how long a wait polls at most; $RIPC_SPIN_US, else adaptive, see docs/tuning.md */
  uint32_t peer_policy;          /* ripc_peer_policy; UINT32_MAX: $RIPC_PEERS (user, group, any), else same user */
  uint32_t max_peers;            /* processes that may be connected at once; 0: 4096 */
  const char *cluster_key_file;  /* NULL: $RIPC_CLUSTER_KEY_FILE, else the default place if it has one, see below */
  uint32_t network;              /* ripc_network; UINT32_MAX: $RIPC_NETWORK (key, open, off), else key */
  const char *zookeeper;         /* NULL: $RIPC_ZOOKEEPER, else none; HOST:PORT,...[/FOLDER] of an ensemble, or off */
  const char *identity_file;     /* NULL: $RIPC_IDENTITY_FILE, else the default place if it has one; identity.h */
  const char *trust_file;        /* NULL: $RIPC_TRUST_FILE, else the default place if it has one; identity.h */
  uint32_t encrypt;              /* ripc_encrypt; UINT32_MAX: $RIPC_ENCRYPT (off, auto, required), else auto */
} ripc_context_options;

RIPC_API void ripc_context_options_init(ripc_context_options *options);

/* Makes a cluster key: a new file, mode 0600, with a random key. Contexts that are created later find the key there;
 * other hosts join with a copy of the file.
 *
 * `file`: NULL is the default place of this user, $XDG_CONFIG_HOME/ripc/cluster.key, else ~/.config/ripc/cluster.key.
 * Missing folders of that place are made with mode 0700. `replace`: if not 0, replaces an existing file. `path`: NULL,
 * or `path_size` bytes for the name of the file, with its '\0'.
 *
 * RIPC_INVALID_ARGUMENT (also: the file exists), RIPC_PERMISSION (also: this user may not write in the folder),
 * RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY (also: the disk is full), RIPC_SYSTEM (also: this user has no home). */
RIPC_API ripc_status ripc_cluster_key_create(const char *file, uint32_t replace, char *path, size_t path_size);

/* Starts the library: opens the runtime directory, clears what dead processes left there, and starts the responder
 * thread. Two contexts of one process are two independent peers. options may be NULL.
 *
 * Without a cluster key the context stays on this host. Of the default transports it uses only shm. A transport that
 * leaves the host gives RIPC_PERMISSION if it was asked for by name.
 *
 * A key, identity or trust file that exists and cannot be used is an error: RIPC_PERMISSION (others may read or write
 * it, or this user may not read it), RIPC_INVALID_ARGUMENT (its contents), RIPC_REFUSED (the signature of the trust
 * file). A named file that is missing gives RIPC_SYSTEM.
 * RIPC_UNSUPPORTED: a ZooKeeper ensemble is named, but its client library is not installed; or this build has none of
 * the transports. An ensemble that does not answer is no error. RIPC_LIMIT: the path of the runtime directory is too
 * long where /proc is not mounted. RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY, RIPC_INVALID_ARGUMENT, RIPC_SYSTEM. */
RIPC_API ripc_status ripc_context_create(const ripc_context_options *options, ripc_context **context);

/* Ends every service, ticket and registration of the context and frees it. Messages and tickets that the application
 * still holds become invalid. No other call on the context may be running. Called in a callback of the context, it
 * would wait for its own thread, so it ends the program with a sentence on standard error. NULL is ignored. */
RIPC_API void ripc_context_destroy(ripc_context *context);

/* What the context has refused since it was created, by all transports and resolvers. docs/security.md says what each
 * means. */
typedef struct ripc_security_statistics {
  size_t size;
  uint64_t handshakes_refused; /* connections: another cluster key or none, no member, no encryption, a user not
                                  admitted, too slow */
  uint64_t links_refused;      /* of members that the trust file does not allow to call the service */
  uint64_t records_refused;    /* of services: not allowed by the trust file, with a wrong signature, from
                                  before a takeover, or copied to another node of ZooKeeper */
  uint64_t packets_refused;    /* forged: of connections, links, multicast and ZooKeeper; repeated: of links and
                                  multicast; also those of multicast whose time is more than 30 s from ours, and those
                                  from users of this host who are not admitted. A multicast packet that is repeated
                                  within a second is not counted: it may have come by another network */
  uint64_t trust_reloads;      /* changes of the trust file that are in force */
  uint64_t trust_failures;     /* changes that cannot be used, see ripc_trust_status() */
} ripc_security_statistics;

RIPC_API void ripc_security_statistics_init(ripc_security_statistics *statistics);
/* Any thread; values of running operations may be one behind. RIPC_INVALID_ARGUMENT, RIPC_FORKED. */
RIPC_API ripc_status ripc_security_get_statistics(ripc_context *context, ripc_security_statistics *statistics);

/* Reads the trust file again if it has changed, and returns whether the file on disk is in force. Any thread.
 * RIPC_OK: it is, or the context has none. Otherwise an older one stays in force, and the error is that of
 * ripc_trust_read(); its sentence says what to fix. RIPC_FORKED. */
RIPC_API ripc_status ripc_trust_status(ripc_context *context);

#ifdef __cplusplus
}
#endif
#endif
