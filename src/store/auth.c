/* auth.c - the handshake: two hellos with nonces, then two proofs, the connector's first.
 *
 *   connector                         acceptor
 *   hello(nonce c)            ->
 *                             <-      hello(nonce a)
 *   proof(key, "connect")     ->
 *                             <-      verdict, proof(key, "accept ")
 *   proof = BLAKE2b-256(key; purpose, side, nonce c, nonce a).  Nonces of both sides: no replay; the side: no reflection. */
#include "store/auth.h"

#include "core/clock.h"
#include "store/socket.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>
#include <sys/random.h>

#define VERSION 1
#define HELLO_NBYTES 48 /* magic 4, version 2, zero 2, purpose 8, nonce 32 */
#define PROOF_NBYTES 32
static const uint8_t magic[4] = {'T', 'N', 'D', 'M'};

void tdmi_auth_key_init(tdmi_auth_key *key, const char *secret)
{
    static const char label[] = "tandem job secret";
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, sizeof key->bytes);
    crypto_generichash_update(&state, (const uint8_t *)label, sizeof label);
    crypto_generichash_update(&state, (const uint8_t *)secret, strlen(secret));
    crypto_generichash_final(&state, key->bytes, sizeof key->bytes);
}

static void make_proof(const tdmi_auth *auth, bool of_acceptor, uint8_t proof[PROOF_NBYTES])
{
    crypto_generichash_state state;
    crypto_generichash_init(&state, auth->key.bytes, sizeof auth->key.bytes, PROOF_NBYTES);
    crypto_generichash_update(&state, (const uint8_t *)auth->purpose, sizeof auth->purpose);
    crypto_generichash_update(&state, (const uint8_t *)(of_acceptor ? "accept " : "connect"), 8);
    crypto_generichash_update(&state, auth->nonces[0], sizeof auth->nonces[0]);
    crypto_generichash_update(&state, auth->nonces[1], sizeof auth->nonces[1]);
    crypto_generichash_final(&state, proof, PROOF_NBYTES);
}

static void say_hello(tdmi_auth *auth)
{
    memcpy(auth->out, magic, 4);
    auth->out[4] = VERSION & 0xff;
    auth->out[5] = VERSION >> 8;
    auth->out[6] = auth->out[7] = 0;
    memcpy(auth->out + 8, auth->purpose, 8);
    memcpy(auth->out + 16, auth->nonces[auth->is_acceptor], 32);
    auth->out_nbytes = HELLO_NBYTES;
}

static tdm_status hear_hello(tdmi_auth *auth, const uint8_t *in)
{
    if (memcmp(in, magic, 4) != 0)
        return tdmi_fail(TDM_ERR_AUTH, "the other end does not speak Tandem's protocol");
    unsigned version = in[4] | (unsigned)in[5] << 8;
    if (version != VERSION)
        return tdmi_fail(TDM_ERR_AUTH, "the other end speaks version %u of the protocol, this end version %d; use one version of "
                                       "Tandem on all nodes", version, VERSION);
    if (memcmp(in + 8, auth->purpose, 8) != 0)
        return tdmi_fail(TDM_ERR_AUTH, "the other end is no \"%s\" but \"%.8s\"; a port is mixed up", auth->purpose, in + 8);
    memcpy(auth->nonces[!auth->is_acceptor], in + 16, 32);
    return TDM_OK;
}

tdm_status tdmi_auth_begin(tdmi_auth *auth, const tdmi_auth_key *key, const char *purpose, bool is_acceptor)
{
    memset(auth, 0, sizeof *auth);
    auth->key = *key;
    auth->is_acceptor = is_acceptor;
    memcpy(auth->purpose, purpose, strnlen(purpose, sizeof auth->purpose - 1));
    if (getrandom(auth->nonces[is_acceptor], 32, 0) != 32) /* libsodium's own would abort the process on failure */
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "the kernel gives no random bytes");
    auth->want = HELLO_NBYTES;
    if (!is_acceptor)
        say_hello(auth);
    return TDM_OK;
}

static tdm_status accept_step(tdmi_auth *auth, const uint8_t *in)
{
    if (auth->steps == 0) {
        tdm_status status = hear_hello(auth, in);
        if (status == TDM_OK || memcmp(in, magic, 4) == 0)
            say_hello(auth); /* also to another version, which can then say so */
        auth->want = PROOF_NBYTES;
        return status;
    }
    uint8_t proof[PROOF_NBYTES];
    make_proof(auth, false, proof);
    auth->want = 0;
    auth->out_nbytes = 1 + PROOF_NBYTES;
    if (sodium_memcmp(proof, in, PROOF_NBYTES) != 0) {
        memset(auth->out, 0, 1 + PROOF_NBYTES); /* verdict 0: refused */
        return tdmi_fail(TDM_ERR_AUTH, "the other end does not know this job's secret");
    }
    auth->out[0] = 1;
    make_proof(auth, true, auth->out + 1);
    return TDM_OK;
}

static tdm_status connect_step(tdmi_auth *auth, const uint8_t *in)
{
    if (auth->steps == 0) {
        tdm_status status = hear_hello(auth, in);
        if (status != TDM_OK)
            return status;
        make_proof(auth, false, auth->out);
        auth->out_nbytes = PROOF_NBYTES;
        auth->want = 1 + PROOF_NBYTES;
        return TDM_OK;
    }
    uint8_t proof[PROOF_NBYTES];
    make_proof(auth, true, proof);
    auth->want = 0;
    if (in[0] != 1 || sodium_memcmp(proof, in + 1, PROOF_NBYTES) != 0)
        return tdmi_fail(TDM_ERR_AUTH, "the other end has another job's secret; set TANDEM_JOB_SECRET to the same value on all nodes "
                                       "(tandem run does it on one)");
    return TDM_OK;
}

tdm_status tdmi_auth_step(tdmi_auth *auth, const uint8_t *in)
{
    auth->out_nbytes = 0;
    tdm_status status = auth->is_acceptor ? accept_step(auth, in) : connect_step(auth, in);
    auth->steps++;
    return status;
}

static tdm_status handshake(int fd, tdmi_auth *auth, int64_t deadline_ns)
{
    const char *peer = auth->is_acceptor ? "the connecting end" : "the listening end";
    for (;;) {
        tdm_status status = tdmi_socket_send_all(fd, auth->out, auth->out_nbytes, deadline_ns, peer);
        if (status != TDM_OK || auth->want == 0)
            return status;
        uint8_t in[TDMI_AUTH_BYTES_MAX];
        status = tdmi_socket_receive_all(fd, in, auth->want, deadline_ns, peer);
        if (status != TDM_OK)
            return tdmi_fail_while(status, "proving the job's secret");
        status = tdmi_auth_step(auth, in);
        if (status != TDM_OK) {
            char text[TDMI_ERROR_TEXT_MAX];
            memcpy(text, tdm_error_text(), sizeof text);
            (void)!tdmi_socket_send_all(fd, auth->out, auth->out_nbytes, deadline_ns, peer); /* the last word */
            tdmi_error_set_text(text);
            return status;
        }
    }
}

tdm_status tdmi_auth_connect(int fd, const tdmi_auth_key *key, const char *purpose, int64_t deadline_ns)
{
    tdmi_auth auth;
    tdm_status status = tdmi_auth_begin(&auth, key, purpose, false);
    return status == TDM_OK ? handshake(fd, &auth, deadline_ns) : status;
}

tdm_status tdmi_auth_accept(int fd, const tdmi_auth_key *key, const char *purpose, int64_t deadline_ns)
{
    int64_t stranger_ns = tdmi_now_ns() + TDMI_AUTH_STRANGER_MS * TDMI_NS_PER_MS;
    tdmi_auth auth;
    tdm_status status = tdmi_auth_begin(&auth, key, purpose, true);
    if (status == TDM_OK)
        status = handshake(fd, &auth, stranger_ns < deadline_ns ? stranger_ns : deadline_ns);
    if (status == TDM_ERR_PEER_LOST || (status == TDM_ERR_TIMEOUT && stranger_ns < deadline_ns))
        return TDM_ERR_AUTH; /* the text stays */
    return status;
}
