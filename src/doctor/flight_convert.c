/* flight_convert.c - a dump's calls as a recording: one call a number of the group, sends and receives as groups of two. */
#include "doctor/flight.h"

#include "core/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_BACK 512 /* calls: how far the parts of a coalesced call may be from its end */

static uint64_t hash(uint64_t seed, const void *bytes, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++)
        seed = (seed ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
    return seed;
}

uint64_t tdmi_flight_group_id(const char *name, const tdmi_flight_group *group)
{
    uint64_t id = hash(0xcbf29ce484222325u, name, strlen(name));
    for (size_t i = 0; group != NULL && i < group->ranks; i++)
        id = hash(id, &group->rank[i], sizeof group->rank[i]);
    return id;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const tdmi_flight_group *)a)->name, ((const tdmi_flight_group *)b)->name);
}

static const tdmi_flight_group *group_of(const tdmi_flight_dump *dump, const char *name)
{
    tdmi_flight_group key;
    snprintf(key.name, sizeof key.name, "%s", name);
    const tdmi_flight_group *group = dump->groups > 0 ? bsearch(&key, dump->group, dump->groups, sizeof key, by_name) : NULL;
    return group != NULL && group->ranks > 0 ? group : NULL;
}

/* Numbers of the sends and receives of a pair, in the order of their calls. */
typedef struct counters {
    struct {
        uint64_t id, count;
    } * of;
    size_t capacity; /* a power of two, more than there are calls */
} counters;

static uint64_t next_number(counters *c, uint64_t id)
{
    size_t at = (size_t)(id ^ id >> 32) & (c->capacity - 1);
    while (c->of[at].count != 0 && c->of[at].id != id)
        at = (at + 1) & (c->capacity - 1);
    c->of[at].id = id;
    return ++c->of[at].count;
}

/* Elements that all ranks must agree on. */
static uint64_t elements(const tdmi_flight_call *call)
{
    const bool by_output = strncmp(call->op, "all_gather", 10) == 0 || strncmp(call->op, "allgather", 9) == 0 ||
                           strcmp(call->op, "scatter") == 0 || strcmp(call->op, "recv") == 0;
    const int64_t first = by_output ? call->out_elements : call->in_elements, second = by_output ? call->in_elements : call->out_elements;
    return (uint64_t)(first > 0 ? first : second);
}

/* A work object that is gone without its end being seen has timed out with NCCL, whose ends are seen by events. Other backends have no
 * events: their calls are over, one way or the other (finished_ns 0). */
static void set_state(const tdmi_flight_call *call, tdmi_recorded_call *out)
{
    out->started_ns = call->started_ns;
    out->finished_ns = 0;
    if (call->state == TDMI_FLIGHT_COMPLETED) {
        out->state = TDMI_CALL_FINISHED;
        out->finished_ns = call->completed_ns != 0 ? call->completed_ns : call->created_ns != 0 ? call->created_ns : 1;
    } else if (call->retired)
        out->state = strcmp(call->backend, "nccl") == 0 ? TDMI_CALL_FAILED : TDMI_CALL_FINISHED;
    else
        out->state = call->state == TDMI_FLIGHT_STARTED ? TDMI_CALL_STARTED : TDMI_CALL_CREATED;
}

static void name_group(const tdmi_flight_call *call, char *text, size_t nbytes)
{
    if (call->description[0] != '\0' && strcmp(call->description, "undefined") != 0)
        snprintf(text, nbytes, "%s (%.20s)", call->description, call->group);
    else
        snprintf(text, nbytes, "%s", call->group);
}

static void fill(const tdmi_flight_call *call, int rank, tdmi_recorded_call *out)
{
    out->count = elements(call);
    snprintf(out->op, sizeof out->op, "%s", call->op);
    snprintf(out->dtype, sizeof out->dtype, "%s", call->dtype);
    snprintf(out->label, sizeof out->label, "%s", call->place);
    out->label_is_place = true;
    out->uneven = strncmp(call->op, "all_to_all", 10) == 0 || strncmp(call->op, "alltoall", 8) == 0;
    out->group_rank = rank;
    out->root = -1;
    out->created_ns = call->created_ns;
    set_state(call, out);
}

/* The call of this group and number that was added last, if it is near; NULL: none. */
static tdmi_recorded_call *find_last(tdmi_recording *r, uint64_t id, uint64_t number)
{
    for (size_t i = r->count; i-- > 0 && r->count - i <= LOOK_BACK;)
        if (r->call[i].group_id == id)
            return r->call[i].number == number ? &r->call[i] : NULL;
    return NULL;
}

static void add_collective(const tdmi_flight_call *call, const tdmi_flight_group *group, int rank, int world, tdmi_recording *r)
{
    const uint64_t id = tdmi_flight_group_id(call->group, group);
    tdmi_recorded_call *part = find_last(r, id, (uint64_t)call->sequence);
    const bool is_end = strcmp(call->op, "coalesced") == 0;
    if (part != NULL && strcmp(part->op, "coalesced") != 0) { /* the second of several under one number */
        snprintf(part->op, sizeof part->op, "coalesced");
        snprintf(part->dtype, sizeof part->dtype, "calls");
        part->count = 1;
    }
    if (part != NULL) {
        part->count += !is_end;
        if (is_end)
            set_state(call, part);
        return;
    }
    tdmi_recorded_call *out = &r->call[r->count];
    *out = (tdmi_recorded_call){.index = ++r->count, .number = (uint64_t)call->sequence, .group_id = id};
    fill(call, rank, out);
    name_group(call, out->group, sizeof out->group);
    const bool is_default = strcmp(call->description, "default_pg") == 0 || strcmp(call->group, "0") == 0;
    out->group_size = group != NULL ? (int)group->ranks : is_default ? world : 0;
}

/* A send and its receive are one call of a group of two. */
static void add_send(const tdmi_flight_call *call, const tdmi_flight_group *group, int rank, counters *numbers, tdmi_recording *r)
{
    char name[64];
    uint64_t id = tdmi_flight_group_id(call->group, group);
    const int64_t ends[2] = {call->source, call->target};
    int64_t ranks[2] = {ends[0], ends[1]};
    id = hash(id, ends, sizeof ends);
    for (int e = 0; e < 2; e++)
        if (group != NULL && (size_t)ends[e] < group->ranks)
            ranks[e] = group->rank[ends[e]];
    tdmi_recorded_call *out = &r->call[r->count];
    *out = (tdmi_recorded_call){.index = ++r->count, .number = next_number(numbers, id), .group_id = id, .group_size = 2};
    fill(call, rank, out);
    snprintf(out->op, sizeof out->op, "send/recv");
    name_group(call, name, sizeof name);
    snprintf(out->group, sizeof out->group, "%.60s %lld->%lld", name, (long long)ranks[0], (long long)ranks[1]);
}

/* The end of a batch of sends and receives tells the state of all of them. */
static void end_batch(const tdmi_flight_dump *dump, size_t end, const size_t *place, tdmi_recording *r)
{
    for (size_t i = end; i-- > 0 && end - i <= LOOK_BACK;) {
        const tdmi_flight_call *call = &dump->call[i];
        if (call->source >= 0 && place[i] != 0 && call->p2p_sequence == dump->call[end].p2p_sequence &&
            strcmp(call->group, dump->call[end].group) == 0)
            set_state(&dump->call[end], &r->call[place[i] - 1]);
    }
}

tdm_status tdmi_flight_convert(tdmi_flight_dump *dump, int rank, int world, bool with_sends, tdmi_recording *out)
{
    tdmi_recording r = {.rank = rank, .size = world};
    counters numbers = {.capacity = 64};
    while (numbers.capacity < 2 * dump->calls)
        numbers.capacity *= 2;
    numbers.of = tdmi_calloc(numbers.capacity, sizeof *numbers.of, "flight dump");
    size_t *place = tdmi_calloc(dump->calls + 1, sizeof *place, "flight dump");
    r.call = tdmi_calloc(dump->calls + 1, sizeof *r.call, "flight dump");
    const bool good = numbers.of != NULL && place != NULL && r.call != NULL;
    if (good && dump->groups > 1)
        qsort(dump->group, dump->groups, sizeof *dump->group, by_name);
    for (size_t i = 0; good && i < dump->calls; i++) {
        const tdmi_flight_call *call = &dump->call[i];
        const tdmi_flight_group *group = group_of(dump, call->group);
        if (!call->is_p2p) {
            if (call->sequence >= 0)
                add_collective(call, group, rank, world, &r);
        } else if (with_sends && call->source >= 0) {
            add_send(call, group, rank, &numbers, &r);
            place[i] = r.count;
        } else if (with_sends)
            end_batch(dump, i, place, &r);
    }
    tdmi_free(numbers.of);
    tdmi_free(place);
    tdmi_free(dump->call);
    dump->call = NULL;
    dump->calls = 0;
    if (!good) {
        tdmi_free(r.call);
        return TDM_ERR_NO_MEMORY;
    }
    *out = r;
    return TDM_OK;
}
