/* ring.c - single producer, single consumer. head counts bytes written, tail bytes read; each lies on a line of its own and
 * has one writer. Whoever moves one rings the other's bell. */
#include "transport/shm/ring.h"

#include "core/memory.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

typedef struct ring {
    _Alignas(128) _Atomic uint64_t head; /* release by the sender, after the bytes; acquire by the receiver */
    _Alignas(128) _Atomic uint64_t tail; /* release by the receiver, after it has read; acquire by the sender */
    _Alignas(128) unsigned char data[TDMI_RING_DATA];
} ring;

_Static_assert(sizeof(ring) == TDMI_RING_BYTES, "a ring fits its space");

typedef struct ring_link {
    tdmi_link base;
    tdmi_node *node;
    int peer;
    ring *in, *out;
    bool backed; /* out has memory */
} ring_link;

static tdm_status back(ring_link *link)
{
    tdmi_arena *arena = tdmi_node_arena(link->node, link->peer);
    tdm_status status = tdmi_arena_back(arena, (size_t)((char *)link->out - tdmi_arena_base(arena)), sizeof(ring));
    link->backed = status == TDM_OK;
    return status;
}

/* bytes at position `at` of the stream, cut at the end of the ring */
static size_t stretch(uint64_t at, size_t nbytes)
{
    const size_t to_end = TDMI_RING_DATA - (size_t)(at & (TDMI_RING_DATA - 1));
    return nbytes < to_end ? nbytes : to_end;
}

static tdm_status send_parts(tdmi_link *base, const struct iovec *parts, int count, size_t *moved)
{
    ring_link *link = (ring_link *)base;
    *moved = 0;
    if (!link->backed) {
        tdm_status status = back(link);
        if (status != TDM_OK)
            return status;
    }
    uint64_t head = atomic_load_explicit(&link->out->head, memory_order_relaxed);
    size_t room = TDMI_RING_DATA - (size_t)(head - atomic_load_explicit(&link->out->tail, memory_order_acquire));
    for (int i = 0; i < count && room > 0; i++) {
        const char *from = parts[i].iov_base;
        size_t left = parts[i].iov_len < room ? parts[i].iov_len : room;
        room -= left;
        while (left > 0) {
            const size_t part = stretch(head, left);
            memcpy(link->out->data + (head & (TDMI_RING_DATA - 1)), from, part);
            head += part, from += part, left -= part, *moved += part;
        }
    }
    if (*moved > 0) {
        atomic_store_explicit(&link->out->head, head, memory_order_release);
        tdmi_node_ring(link->node, link->peer);
    }
    return TDM_OK;
}

static tdm_status receive_parts(tdmi_link *base, const struct iovec *parts, int count, size_t *moved)
{
    ring_link *link = (ring_link *)base;
    *moved = 0;
    uint64_t tail = atomic_load_explicit(&link->in->tail, memory_order_relaxed);
    size_t held = (size_t)(atomic_load_explicit(&link->in->head, memory_order_acquire) - tail);
    for (int i = 0; i < count && held > 0; i++) {
        char *to = parts[i].iov_base;
        size_t left = parts[i].iov_len < held ? parts[i].iov_len : held;
        held -= left;
        while (left > 0) {
            const size_t part = stretch(tail, left);
            memcpy(to, link->in->data + (tail & (TDMI_RING_DATA - 1)), part);
            tail += part, to += part, left -= part, *moved += part;
        }
    }
    if (*moved > 0) {
        atomic_store_explicit(&link->in->tail, tail, memory_order_release);
        tdmi_node_ring(link->node, link->peer); /* it may wait for room */
    }
    return TDM_OK;
}

static int fd_of(const tdmi_link *base, int index)
{
    (void)base, (void)index;
    return -1;
}

static void close_link(tdmi_link *base)
{
    tdmi_free(base);
}

static const tdmi_link_ops ops = {
    .name = "shm", .send = send_parts, .receive = receive_parts, .fd = fd_of, .close = close_link};

tdm_status tdmi_ring_link_create(tdmi_node *node, int peer, void *own_ring, void *peer_ring, tdmi_link **out)
{
    ring_link *link = tdmi_calloc(1, sizeof *link, "shm link");
    if (link == NULL)
        return TDM_ERR_NO_MEMORY;
    *link = (ring_link){.base.ops = &ops, .node = node, .peer = peer, .in = own_ring, .out = peer_ring};
    *out = &link->base;
    return TDM_OK;
}

void tdmi_ring_clear(void *space)
{
    memset(space, 0, offsetof(ring, data));
}
