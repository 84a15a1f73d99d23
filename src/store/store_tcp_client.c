/* store_tcp_client.c - the TCP store as its users see it: one connection, any number of threads.
 *
 * Threads: no thread of its own. Every request has an id and a slot in `waiting`. One of the waiting threads reads the
 * socket for all (`reading`) and hands answers to their slots; the others sleep on `changed`; when the reader has its own
 * answer another one takes over. So a get that waits for minutes blocks nobody's set. Lock order: `sending`, then `lock`. */
#include "store/store_tcp.h"

#include "core/clock.h"
#include "core/memory.h"
#include "store/buffer.h"
#include "store/socket.h"
#include "store/wire.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct slot {
    struct slot *next;
    uint64_t id;
    bool done;
    tdm_status status; /* of the answer */
    char *value;       /* new block with a NUL behind nbytes */
    size_t nbytes;
} slot;

typedef struct tcp_store {
    tdm_store base;
    int fd;
    double timeout_s;
    tdmi_store_server *server; /* NULL: in another process */
    char name[300];            /* "the store at host:port" */
    pthread_mutex_t sending;   /* frames go out whole */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t next_id;  /* guarded by lock, as are those below */
    slot *waiting;
    bool reading;      /* some thread is in read_some() */
    bool broken;
    tdm_status broken_status;
    char broken_text[TDMI_ERROR_TEXT_MAX];
    tdmi_buffer in;    /* the reading thread only */
} tcp_store;

/* Called with `lock`; the error text is this thread's. */
static void break_connection(tcp_store *store, tdm_status status)
{
    if (!store->broken) {
        store->broken = true;
        store->broken_status = status;
        snprintf(store->broken_text, sizeof store->broken_text, "%s", tdm_error_text());
    }
    pthread_cond_broadcast(&store->changed);
}

/* Hands one answer to whoever waits for it; called with `lock`. An answer to a cancelled get finds nobody. */
static tdm_status deliver(tcp_store *store, const tdmi_store_frame *frame)
{
    for (slot *s = store->waiting; s != NULL; s = s->next) {
        if (s->id != frame->id || s->done)
            continue;
        char *value = tdmi_malloc(frame->value_nbytes + 1, "store value");
        if (value == NULL)
            return TDM_ERR_NO_MEMORY;
        memcpy(value, frame->value, frame->value_nbytes);
        value[frame->value_nbytes] = '\0';
        s->value = value;
        s->nbytes = frame->value_nbytes;
        s->status = (tdm_status)frame->code;
        s->done = true;
        return TDM_OK;
    }
    return TDM_OK;
}

/* Waits for bytes until the deadline and takes what is there. Called without `lock`, by one thread at a time. */
static tdm_status read_some(tcp_store *store, int64_t deadline_ns)
{
    int64_t left_ns = deadline_ns - tdmi_now_ns();
    struct pollfd item = {.fd = store->fd, .events = POLLIN};
    int64_t left_ms = left_ns <= 0 ? 0 : (left_ns + TDMI_NS_PER_MS - 1) / TDMI_NS_PER_MS;
    if (poll(&item, 1, left_ms > 60000 ? 60000 : (int)left_ms) <= 0)
        return TDM_OK;
    tdm_status status = tdmi_buffer_reserve(&store->in, 65536);
    if (status != TDM_OK)
        return status;
    ssize_t got = recv(store->fd, store->in.data + store->in.end, 65536, MSG_DONTWAIT);
    if (got > 0)
        store->in.end += (size_t)got;
    else if (got == 0)
        return tdmi_fail(TDM_ERR_PEER_LOST, "%s is gone: it closed the connection", store->name);
    else if (errno != EAGAIN && errno != EINTR)
        return tdmi_fail(TDM_ERR_PEER_LOST, "%s is gone: %s", store->name, strerror(errno));
    return TDM_OK;
}

/* Called with `lock`, by the reading thread. */
static tdm_status deliver_all(tcp_store *store)
{
    for (;;) {
        tdmi_store_frame frame;
        int64_t taken = tdmi_store_frame_parse(tdmi_buffer_front(&store->in), tdmi_buffer_held(&store->in), false, &frame);
        if (taken < 0)
            return tdmi_fail_while(TDM_ERR_MISMATCH, "reading from %s", store->name);
        if (taken == 0)
            return TDM_OK;
        tdm_status status = deliver(store, &frame);
        if (status != TDM_OK)
            return status;
        tdmi_buffer_take(&store->in, (size_t)taken);
    }
}

static tdm_status send_frame(tcp_store *store, const tdmi_store_frame *frame, int64_t deadline_ns)
{
    uint8_t bytes[1024];
    tdmi_store_frame_header(bytes, frame);
    size_t used = TDMI_STORE_FRAME_HEADER;
    if (frame->key_nbytes > 0)
        memcpy(bytes + used, frame->key, frame->key_nbytes);
    used += frame->key_nbytes;
    bool fits = frame->value_nbytes <= sizeof bytes - used; /* a small request is one packet */
    if (fits && frame->value_nbytes > 0)
        memcpy(bytes + used, frame->value, frame->value_nbytes);
    pthread_mutex_lock(&store->sending);
    tdm_status status = tdmi_socket_send_all(store->fd, bytes, used + (fits ? frame->value_nbytes : 0), deadline_ns, store->name);
    if (status == TDM_OK && !fits)
        status = tdmi_socket_send_all(store->fd, frame->value, frame->value_nbytes, deadline_ns, store->name);
    if (status != TDM_OK) { /* perhaps half a frame is out: nothing can follow it */
        pthread_mutex_lock(&store->lock);
        break_connection(store, status == TDM_ERR_TIMEOUT ? TDM_ERR_PEER_LOST : status);
        pthread_mutex_unlock(&store->lock);
    }
    pthread_mutex_unlock(&store->sending);
    return status;
}

/* Called with `lock`. */
static void unlink_slot(tcp_store *store, slot *mine)
{
    slot **link = &store->waiting;
    while (*link != mine)
        link = &(*link)->next;
    *link = mine->next;
}

/* One request and its answer; *value is a new block (NULL after an error). */
static tdm_status request(tcp_store *store, tdmi_store_op op, const char *key, const void *value, size_t nbytes,
                          int64_t deadline_ns, char **value_out, size_t *nbytes_out)
{
    slot mine = {0};
    pthread_mutex_lock(&store->lock);
    mine.id = store->next_id++;
    mine.next = store->waiting;
    store->waiting = &mine;
    bool broken = store->broken;
    pthread_mutex_unlock(&store->lock);

    tdmi_store_frame frame = {.code = (uint8_t)op, .id = mine.id, .key = key, .key_nbytes = strlen(key), .value = value, .value_nbytes = nbytes};
    if (!broken)
        (void)!send_frame(store, &frame, deadline_ns); /* a failure has broken the connection: seen below */

    pthread_mutex_lock(&store->lock);
    while (!mine.done && !store->broken && !tdmi_deadline_passed(deadline_ns)) {
        if (store->reading) {
            struct timespec until = {.tv_sec = deadline_ns / TDMI_NS_PER_S, .tv_nsec = deadline_ns % TDMI_NS_PER_S};
            pthread_cond_timedwait(&store->changed, &store->lock, &until);
            continue;
        }
        store->reading = true;
        pthread_mutex_unlock(&store->lock);
        tdm_status status = read_some(store, deadline_ns);
        pthread_mutex_lock(&store->lock);
        if (status == TDM_OK)
            status = deliver_all(store);
        store->reading = false;
        if (status != TDM_OK)
            break_connection(store, status);
        pthread_cond_broadcast(&store->changed); /* answers for others, or the reader's place is free */
    }
    unlink_slot(store, &mine);
    bool gave_up = !mine.done && !store->broken;
    tdm_status status = TDM_OK;
    if (!mine.done && store->broken) {
        tdmi_error_set_text(store->broken_text);
        status = store->broken_status;
    }
    pthread_mutex_unlock(&store->lock);

    if (gave_up) {
        tdmi_store_frame cancel = {.code = TDMI_STORE_CANCEL, .id = mine.id};
        if (op == TDMI_STORE_GET)
            (void)!send_frame(store, &cancel, tdmi_deadline_in(store->timeout_s));
        return op == TDMI_STORE_GET
                   ? tdmi_fail(TDM_ERR_TIMEOUT, "nobody set store key \"%s\" before the deadline", key)
                   : tdmi_fail(TDM_ERR_TIMEOUT, "%s did not answer within %.0f s (key \"%s\")", store->name, store->timeout_s, key);
    }
    if (!mine.done)
        return status;
    if (mine.status != TDM_OK) {
        tdmi_fail(mine.status, "%s", mine.value);
        tdmi_free(mine.value);
        return mine.status;
    }
    *value_out = mine.value;
    *nbytes_out = mine.nbytes;
    return TDM_OK;
}

/* A request whose answer has `wanted` bytes, copied to `answer`. */
static tdm_status ask(tdm_store *base, tdmi_store_op op, const char *key, const void *value, size_t nbytes, uint8_t *answer,
                      size_t wanted)
{
    tcp_store *store = (tcp_store *)base;
    char *got = NULL;
    size_t got_nbytes = 0;
    tdm_status status = request(store, op, key, value, nbytes, tdmi_deadline_in(store->timeout_s), &got, &got_nbytes);
    if (status != TDM_OK)
        return status;
    if (got_nbytes != wanted)
        status = tdmi_fail(TDM_ERR_MISMATCH, "%s answered with %zu bytes instead of %zu", store->name, got_nbytes, wanted);
    else if (wanted > 0)
        memcpy(answer, got, wanted);
    tdmi_free(got);
    return status;
}

static tdm_status set(tdm_store *store, const char *key, const void *value, size_t nbytes)
{
    return ask(store, TDMI_STORE_SET, key, value, nbytes, NULL, 0);
}

static tdm_status has(tdm_store *store, const char *key, bool *out)
{
    uint8_t is_there = 0;
    tdm_status status = ask(store, TDMI_STORE_HAS, key, NULL, 0, &is_there, 1);
    if (status == TDM_OK)
        *out = is_there != 0;
    return status;
}

static tdm_status get(tdm_store *base, const char *key, int64_t deadline_ns, char **value, size_t *nbytes)
{
    tcp_store *store = (tcp_store *)base;
    if (tdmi_deadline_passed(deadline_ns)) { /* no time to wait, but a key that is there is there */
        bool is_there = false;
        tdm_status status = has(base, key, &is_there);
        if (status != TDM_OK)
            return status;
        deadline_ns = is_there ? tdmi_deadline_in(store->timeout_s) : deadline_ns;
    }
    return request(store, TDMI_STORE_GET, key, NULL, 0, deadline_ns, value, nbytes);
}

static tdm_status add(tdm_store *store, const char *key, int64_t delta, int64_t *out)
{
    uint8_t bytes[8];
    tdmi_write_le64(bytes, (uint64_t)delta);
    tdm_status status = ask(store, TDMI_STORE_ADD, key, bytes, sizeof bytes, bytes, sizeof bytes);
    if (status == TDM_OK)
        *out = (int64_t)tdmi_read_le64(bytes);
    return status;
}

static tdm_status remove_key(tdm_store *store, const char *key)
{
    return ask(store, TDMI_STORE_DELETE, key, NULL, 0, NULL, 0);
}

static tdm_status offer(tdm_store *store, const char *key, const void *value, size_t nbytes)
{
    return ask(store, TDMI_STORE_OFFER, key, value, nbytes, NULL, 0);
}

static tdm_status will(tdm_store *store, const char *key, const void *value, size_t nbytes)
{
    return ask(store, TDMI_STORE_WILL, key, value, nbytes, NULL, 0);
}

static void close_tcp(tdm_store *base)
{
    tcp_store *store = (tcp_store *)base;
    close(store->fd);
    tdmi_store_server_stop(store->server);
    tdmi_buffer_free(&store->in);
    pthread_cond_destroy(&store->changed);
    pthread_mutex_destroy(&store->lock);
    pthread_mutex_destroy(&store->sending);
    tdmi_free(store);
}

static const tdmi_store_ops ops = {set, get, add, has, remove_key, offer, will, close_tcp};

tdm_status tdmi_store_client_create(int fd, const char *server_name, double timeout_s, tdmi_store_server *server, int port,
                                    tdm_store **out)
{
    tcp_store *store = tdmi_calloc(1, sizeof *store, "store");
    if (store == NULL) {
        close(fd);
        return TDM_ERR_NO_MEMORY;
    }
    store->base = (tdm_store){.ops = &ops, .port = port};
    store->fd = fd;
    store->timeout_s = timeout_s;
    store->server = server;
    snprintf(store->name, sizeof store->name, "the store at %s", server_name);
    pthread_mutex_init(&store->sending, NULL);
    pthread_mutex_init(&store->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&store->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    *out = &store->base;
    return TDM_OK;
}
