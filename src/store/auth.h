/* auth.h - sockets whose two ends prove to each other that they know the job's secret, before anything else is read.
 *
 * Used by the store and by the tcp transport. Wire: docs/wire.md. Both sides send a random nonce and a keyed hash over both
 * nonces, a purpose and their side; a stranger learns nothing and is dropped within a second. */
#ifndef TDMI_STORE_AUTH_H
#define TDMI_STORE_AUTH_H

#include "core/error.h"

/* The secret's bytes hashed to a key. An empty secret gives a fixed key: allowed only where every address of the job is a
 * loopback address (checked by the callers). */
typedef struct tdmi_auth_key {
    uint8_t bytes[32];
} tdmi_auth_key;
void tdmi_auth_key_init(tdmi_auth_key *key, const char *secret);

/* Runs the handshake on a connected socket; blocks until `deadline_ns` at most. purpose: "store", "link": ends of different
 * purposes do not talk. TDM_ERR_AUTH: the other end does not know the secret or speaks something else. */
tdm_status tdmi_auth_connect(int fd, const tdmi_auth_key *key, const char *purpose, int64_t deadline_ns);
tdm_status tdmi_auth_accept(int fd, const tdmi_auth_key *key, const char *purpose, int64_t deadline_ns);

#endif
