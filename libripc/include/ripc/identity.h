/* Identities, and the trust file that says who is a member of the cluster: what `ripc key` and `ripc trust` do.
 * See docs/security.md for the text of both files.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RIPC_IDENTITY_H
#define RIPC_IDENTITY_H

#include <stddef.h>
#include <stdint.h>

#include "ripc/context.h"
#include "ripc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RIPC_PUBLIC_KEY_SIZE 80 /* bytes for "ed25519:", 64 hexadecimal digits and '\0' */

/* Makes an identity: a new file, mode 0600, with a random secret key. `file`: NULL is the default place of this user,
 * identity.key next to the default cluster key. Contexts that are created later find it there, unless their network is
 * open, or identity_file or $RIPC_IDENTITY_FILE names another one. `replace`: if not 0, replaces an existing file.
 * `path`: NULL, or `path_size` bytes for the name of the file. `public_key`: NULL, or RIPC_PUBLIC_KEY_SIZE bytes.
 *
 * RIPC_INVALID_ARGUMENT (also: the file exists), RIPC_PERMISSION (also: this user may not write in the folder),
 * RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY (also: the disk is full), RIPC_SYSTEM (also: this user has no home). */
RIPC_API ripc_status ripc_identity_create(const char *file, uint32_t replace, char *path, size_t path_size,
                                          char *public_key);

/* The public key of the identity in a file. `file`: NULL is $RIPC_IDENTITY_FILE, else the default place. The rest, and
 * the errors, are those of ripc_identity_create(). RIPC_PERMISSION also: others may read the file, it is another
 * user's, or it is not a plain file. RIPC_INVALID_ARGUMENT also: it contains something else. RIPC_SYSTEM also: it is
 * missing. */
RIPC_API ripc_status ripc_identity_read(const char *file, char *path, size_t path_size, char *public_key);

/* A line of the trust file. The texts are valid during the call. */
typedef struct ripc_trust_member {
  size_t size;
  uint32_t line; /* 1 is the first */
  const char *name;
  const char *public_key; /* as RIPC_PUBLIC_KEY_SIZE says */
  const char *rights;     /* what follows on the line, such as "holds=shop.* calls=bank" */
} ripc_trust_member;
typedef void (*ripc_trust_visitor)(void *user, const ripc_trust_member *member);

/* Checks a trust file as a context does. If it is right, visits its members, in the calling thread. `file`: NULL is
 * $RIPC_TRUST_FILE, else `trust` next to the default cluster key. `visitor` may be NULL. If the cluster key file names
 * a signer, the signature must be right, even if this program's network is off or open.
 *
 * RIPC_INVALID_ARGUMENT (the sentence names file and line; also: over 1 MiB, or the cluster key file is wrong),
 * RIPC_REFUSED (the signature), RIPC_PERMISSION (others may write it, it is another user's, no plain file, or this user
 * may not read it), RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY, RIPC_SYSTEM (also: it is missing). */
RIPC_API ripc_status ripc_trust_read(const char *file, ripc_trust_visitor visitor, void *user);

/* Replaces the trust file, so that a reader sees either the old one or the new one. Contexts that use it follow within
 * a second, also for links that are already open. `file`: as above; it is made if it is missing. Changes of one file
 * wait for each other through a lock on `file`.lock. A symbolic link is replaced by a plain file.
 *
 * `name`: the member whose line changes; NULL: none. `line`: what follows its name, key and rights; NULL removes the
 * member. `signer`: the identity file of the signer, NULL: none, and an existing signature is removed.
 *
 * It writes only a file that ripc_trust_read() would accept. RIPC_INVALID_ARGUMENT (also: the member to remove is not
 * there, or the last line has no end), RIPC_REFUSED (also: another signer is needed), RIPC_SYSTEM (also: there is no
 * file to remove it from), the errors above, and for the signer's file those of ripc_identity_read(). */
RIPC_API ripc_status ripc_trust_change(const char *file, const char *name, const char *line, const char *signer);

/* The same for a new member: neither `name` nor `line` may be NULL. RIPC_ID_IN_USE: the file has a member of this name;
 * nothing has changed. */
RIPC_API ripc_status ripc_trust_add(const char *file, const char *name, const char *line, const char *signer);

#ifdef __cplusplus
}
#endif
#endif
