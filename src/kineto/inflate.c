/* inflate.c - the home of ISA-L. What a damaged stream gives before the damage is given; a wrong checksum is told, not believed. */
#include "kineto/inflate.h"

#include "core/memory.h"

#include <isa-l/igzip_lib.h>

struct tdmi_inflate {
    struct inflate_state state;
    tdmi_inflate_more *more;
    void *arg;
    bool in_member; /* a header was begun */
    bool any;       /* some member was whole */
    bool done;
};

tdm_status tdmi_inflate_create(tdmi_inflate_more *more, void *arg, tdmi_inflate **out)
{
    tdmi_inflate *inflate = tdmi_aligned_alloc(64, sizeof *inflate, "trace inflate");
    if (inflate == NULL)
        return TDM_ERR_NO_MEMORY;
    inflate->more = more;
    inflate->arg = arg;
    inflate->in_member = inflate->any = inflate->done = false;
    isal_inflate_init(&inflate->state);
    *out = inflate;
    return TDM_OK;
}

void tdmi_inflate_destroy(tdmi_inflate *inflate)
{
    tdmi_free(inflate);
}

static bool fill(tdmi_inflate *inflate)
{
    const uint8_t *bytes;
    if (inflate->state.avail_in > 0)
        return true;
    const size_t nbytes = inflate->more(inflate->arg, &bytes);
    inflate->state.next_in = (uint8_t *)(uintptr_t)bytes; /* it reads only */
    inflate->state.avail_in = (uint32_t)nbytes;
    return nbytes > 0;
}

/* Finds the next member. Zeros between and behind members are padding. */
static bool begin_member(tdmi_inflate *inflate, tdmi_source_facts *facts)
{
    struct inflate_state *s = &inflate->state;
    for (;; s->next_in++, s->avail_in--) {
        if (!fill(inflate))
            return false;
        if (s->next_in[0] != 0 || !inflate->any)
            break;
    }
    if (inflate->any && s->next_in[0] != 0x1f) {
        facts->garbage = true;
        return false;
    }
    uint8_t *next_in = s->next_in;
    const uint32_t avail_in = s->avail_in;
    isal_inflate_reset(s);
    s->crc_flag = ISAL_GZIP;
    s->next_in = next_in;
    s->avail_in = avail_in;
    inflate->in_member = true;
    return true;
}

/* One call of the library; false: the stream goes no further. */
static bool step(tdmi_inflate *inflate, tdmi_source_facts *facts)
{
    struct inflate_state *s = &inflate->state;
    const bool input = fill(inflate); /* without any, what the library holds may still come out */
    const uint32_t avail_in = s->avail_in, avail_out = s->avail_out;
    const int result = isal_inflate(s);
    if (result == ISAL_INCORRECT_CHECKSUM) {
        facts->wrong_checksum = true;
        s->block_state = ISAL_BLOCK_FINISH;
    } else if (result == ISAL_INVALID_WRAPPER && inflate->any) {
        facts->garbage = true;
        return false;
    } else if (result < 0 || result == ISAL_NEED_DICT) {
        facts->end = TDMI_SOURCE_DAMAGED;
        return false;
    }
    if (s->block_state == ISAL_BLOCK_FINISH) {
        inflate->in_member = false;
        inflate->any = true;
    } else if (s->avail_in == avail_in && s->avail_out == avail_out) {
        facts->end = input ? TDMI_SOURCE_DAMAGED : TDMI_SOURCE_CUT;
        return false;
    }
    return true;
}

size_t tdmi_inflate_read(tdmi_inflate *inflate, uint8_t *out, size_t nbytes, tdmi_source_facts *facts)
{
    struct inflate_state *s = &inflate->state;
    s->next_out = out;
    s->avail_out = nbytes > UINT32_MAX ? UINT32_MAX : (uint32_t)nbytes;
    while (!inflate->done && s->avail_out > 0) {
        uint8_t *next_out = s->next_out;
        const uint32_t avail_out = s->avail_out;
        if (!inflate->in_member) {
            inflate->done = !begin_member(inflate, facts);
            s->next_out = next_out;
            s->avail_out = avail_out;
            continue;
        }
        inflate->done = !step(inflate, facts);
    }
    return (size_t)(s->next_out - out);
}
