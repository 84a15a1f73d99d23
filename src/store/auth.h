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

/* Runs the handshake on a connected socket; blocks until `deadline_ns` at most, and for a second at most in accept.
 * purpose: "store", "link" (7 bytes at most): ends of different purposes do not talk.
 * TDM_ERR_AUTH: the other end does not know the secret or speaks something else; from accept also when it said too little in
 * that second or hung up, since all a listener can do is drop it. From connect a closed connection is TDM_ERR_PEER_LOST. */
tdm_status tdmi_auth_connect(int fd, const tdmi_auth_key *key, const char *purpose, int64_t deadline_ns);
tdm_status tdmi_auth_accept(int fd, const tdmi_auth_key *key, const char *purpose, int64_t deadline_ns);

/* The same without I/O, for a server that serves many sockets from one thread: after begin and after each step send
 * out[0, out_nbytes), then collect `want` bytes and step with them, until want is 0. A failed step may have a last word to
 * send too. */
#define TDMI_AUTH_BYTES_MAX 48
#define TDMI_AUTH_STRANGER_MS 1000 /* how long a listener waits for a stranger's handshake */
typedef struct tdmi_auth {
    tdmi_auth_key key;
    bool is_acceptor;
    int steps;
    char purpose[8];
    uint8_t nonces[2][32]; /* connector's, acceptor's */
    uint8_t out[TDMI_AUTH_BYTES_MAX];
    size_t out_nbytes, want;
} tdmi_auth;
tdm_status tdmi_auth_begin(tdmi_auth *auth, const tdmi_auth_key *key, const char *purpose, bool is_acceptor);
tdm_status tdmi_auth_step(tdmi_auth *auth, const uint8_t *in);

#endif
