/* direct_staged_pair.c - direct_staged for two ranks that both give and get: their STAGE changes hands, chunk by chunk.
 *
 *     slot 0 of X   A0 written by A | read by B, who writes B2 over it | read by A, who writes A4 over it | ...
 *     slot 1 of X   A1                B3                                 A5
 *     slot 0 of Y   B0 written by B | read by A, who writes A2 over it | read by B, who writes B4 over it | ...
 *     slot 1 of Y   B1                A3                                 B5
 * Who reads a line has it in its cache, and writes there what the other is to read next, in the same pass over memory: so each
 * line crosses from cache to cache once for each line of data, the least there is, and nobody asks for a line only to
 * write it. A rank is a chunk ahead of what it waits for, so neither waits if both are equally fast. An allreduce sums everything
 * on both ranks: halves would cross as often, once before and once after they are summed.
 *
 * Every other call of a middle size goes through the buffers from their end, where the last one has left them in the cache.
 *
 * Cost   1 meeting a chunk; what a rank has for the other is copied in, what it gets is copied out or summed on the way.
 * Sums   canonical tree.     Needs  both ranks on one node.     Source  as direct_staged.c */
#include "coll/direct_staged.h"

#define SLOTS 2
/* Two slots of both ranks leave most of a second-level cache to the caller's data; half of it takes 10 % longer, twice 5 %. */
#define CHUNK_BYTES ((size_t)64 << 10)

/* What a core's own cache holds a good part of, but not all: there it pays that every other call begins at the end. */
#define TURN_MIN_BYTES ((size_t)1 << 20)
#define TURN_MAX_BYTES ((size_t)16 << 20)

/* Chunk k; the last one is shorter. */
static tdmi_range part(const tdmi_steps *s, tdmi_range whole, size_t length, size_t k)
{
    const size_t at = k * length < whole.count ? k * length : whole.count, rest = whole.count - at;
    const size_t count = rest < length ? rest : length;
    return tdmi_range_of(whole.buffer, whole.first + (s->backwards ? rest - count : at), count);
}

void tdmi_staged_pair(tdmi_steps *s, const tdmi_call *call, int rank, const tdmi_exchanged *what)
{
    const int peer = 1 - rank;
    const size_t longest = what->give.count > what->get.count ? what->give.count : what->get.count;
    const size_t nbytes = longest * tdm_dtype_size(call->dtype);
    const size_t most = CHUNK_BYTES / tdm_dtype_size(call->dtype), length = longest < most ? longest : most;
    const size_t chunks = longest == 0 ? 1 : (longest - 1) / most + 1; /* none is one, which meets */
    size_t published = 0;
    s->stage_count = SLOTS * length;
    s->turns = nbytes >= TURN_MIN_BYTES && nbytes <= TURN_MAX_BYTES;
    for (; published < SLOTS && published < chunks; published++) {
        const tdmi_range give = part(s, what->give, length, published);
        tdmi_steps_copy(s, give, tdmi_range_of(TDMI_BUFFER_STAGE, published * length, give.count));
        tdmi_steps_publish(s);
    }
    for (size_t k = 0; k < chunks; k++) {
        const tdmi_range get = part(s, what->get, length, k), next = part(s, what->give, length, k + SLOTS);
        const size_t slot = k % SLOTS * length;
        const tdmi_range came = tdmi_range_of(TDMI_BUFFER_STAGE, slot, get.count);
        tdmi_steps_copy(s, part(s, what->kept, length, k), part(s, what->kept_in, length, k));
        tdmi_steps_meet_behind(s, (unsigned)(published - k - 1));
        if (what->sums)
            tdmi_steps_reduce_with(s, came, part(s, what->own, length, k), rank, get);
        else
            tdmi_steps_copy_from(s, peer, came, get);
        tdmi_steps_refill(s, peer, next, tdmi_range_of(TDMI_BUFFER_STAGE, slot, next.count));
        if (published < chunks) {
            tdmi_steps_publish(s);
            published++;
        }
        if (k % SLOTS + 1 == SLOTS || k + 1 == chunks)
            tdmi_steps_rotate(s);
    }
}
