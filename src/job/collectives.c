/* collectives.c - the same collective on all ranks, and one clock for all hosts.
 *
 * Two ranks' events are one collective if group, operation and sequence number are equal; where a trace has no sequence numbers, if
 * they are the same in order within the iteration. A window may cut an iteration's first ones on some rank, so where the numbers
 * differ the order is counted from the iteration's end.
 * Clocks of hosts are apart by up to milliseconds. A collective that all need ends everywhere at (nearly) the same moment, so the
 * median of the differences of ends is the difference of two clocks; starts say nothing, they are where ranks differ. */
#include "job/job.h"

#include "core/memory.h"
#include "job/median.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Ranks whose part ends before the last one has joined are no part of one collective; so much is forgiven for clocks. */
#define CLOCK_SLACK_NS 20000

typedef struct kind {
    const char *group, *ranks, *op; /* borrowed from the first trace that has it */
    int group_size;
} kind;

typedef struct item {
    uint32_t kind, iteration, index; /* index: within kind and iteration, or the seq */
    bool by_seq;
    tdmi_part part;
} item;

typedef struct lists {
    kind *kind;
    size_t kinds, kind_capacity;
    item *item;
    size_t items, item_capacity;
} lists;

static const char *op_of_kernel(const char *name)
{
    static const char *const known[][2] = {{"AllReduce", "allreduce"}, {"all_reduce", "allreduce"}, {"AllGather", "all_gather"},
                                           {"ReduceScatter", "reduce_scatter"}, {"Broadcast", "broadcast"}, {"SendRecv", "sendrecv"},
                                           {"AllToAll", "alltoall"}, {"Reduce", "reduce"}, {"allreduce", "allreduce"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(name, known[i][0]) != NULL)
            return known[i][1];
    return "collective";
}

/* One name for what different versions call the same. */
static const char *op_of_text(const char *text)
{
    static const char *const known[][2] = {{"allreduce", "allreduce"}, {"all_reduce", "allreduce"}, {"_allgather", "all_gather"},
                                           {"allgather", "all_gather"}, {"all_gather", "all_gather"}, {"reduce_scatter", "reduce_scatter"},
                                           {"all_to_all", "alltoall"}, {"alltoall", "alltoall"}, {"broadcast", "broadcast"},
                                           {"barrier", "barrier"}, {"send", "send"}, {"recv", "recv"}, {"reduce", "reduce"},
                                           {"gather", "gather"}, {"scatter", "scatter"}};
    while (*text == '_')
        text++;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strncasecmp(text, known[i][0] + (known[i][0][0] == '_'), strlen(known[i][0]) - (known[i][0][0] == '_')) == 0)
            return known[i][1];
    return text;
}

static int64_t bytes_of(const char *dtype)
{
    static const struct {
        const char *name;
        int nbytes;
    } known[] = {{"Double", 8}, {"Long", 8}, {"Float8", 1}, {"Float", 4}, {"Int", 4}, {"BFloat16", 2}, {"Half", 2}, {"Short", 2}, {"Byte", 1}, {"Char", 1}, {"Bool", 1},
                 {"double", 8}, {"long", 8}, {"float", 4}, {"int", 4}, {"c10::BFloat16", 2}, {"c10::Half", 2}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strncmp(dtype, known[i].name, strlen(known[i].name)) == 0)
            return known[i].nbytes;
    return 0;
}

/* Element count of "[[267786]]" or "[[8, 16], []]": the product of the first list of numbers; -1: none. */
static int64_t first_dims(const char *text)
{
    while (*text == '[')
        text++;
    int64_t product = 1;
    bool any = false;
    for (;;) {
        char *end;
        const long long n = strtoll(text, &end, 10);
        if (end == text || n < 0 || (n > 0 && product > INT64_MAX / 8 / n))
            break;
        product *= n;
        any = true;
        text = end;
        while (*text == ',' || *text == ' ')
            text++;
    }
    return any ? product : -1;
}

/* The larger of what goes in and out. */
static int64_t size_of(const tdmi_rank *rank, uint32_t event)
{
    const tdmi_trace *trace = rank->trace;
    const tdmi_collective *c = tdmi_event_collective(rank, event);
    if (c != NULL) {
        const int64_t most = c->in_count > c->out_count ? c->in_count : c->out_count;
        const int64_t each = bytes_of(tdmi_trace_text(trace, c->dtype));
        return most >= 0 && most < INT64_MAX / 8 && each > 0 ? most * each : -1;
    }
    const tdmi_event *e = &trace->event[event];
    if ((e->kind != TDMI_EVENT_CPU_OP && e->kind != TDMI_EVENT_ANNOTATION) || e->detail == TDMI_NONE)
        return -1;
    const char *types = tdmi_trace_text(trace, trace->op[e->detail].types);
    types += strspn(types, "[\"");
    const int64_t count = first_dims(tdmi_trace_text(trace, trace->op[e->detail].dims)), each = bytes_of(types);
    return count >= 0 && each > 0 ? count * each : -1;
}

/* Kernels of traces before 2023-10 do not say their size; the operator around the launch does, if shapes were recorded. What an all-reduce takes
 * it also gives, so its input is enough. */
#define AROUND_MAX 16 /* events of the host to look back at */
static int64_t size_around(const tdmi_rank *rank, const tdmi_part *part)
{
    const uint32_t call = part->gpu != TDMI_NONE ? rank->launch[part->gpu] : TDMI_NONE;
    size_t low = 0, high = rank->host_count;
    if (call == TDMI_NONE)
        return -1;
    const tdmi_event *launch = &rank->trace->event[call];
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (rank->trace->event[rank->host[middle]].start_ns < launch->start_ns)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = low; i-- > 0 && low - i <= AROUND_MAX;) {
        const tdmi_event *e = &rank->trace->event[rank->host[i]];
        const int64_t nbytes = rank->role[rank->host[i]] == TDMI_ROLE_COMM_CALL && e->lane == launch->lane && e->start_ns + e->dur_ns >= launch->start_ns + launch->dur_ns
                                   ? size_of(rank, rank->host[i])
                                   : -1;
        if (nbytes > 0)
            return nbytes;
    }
    return -1;
}

static tdm_status kind_of(lists *all, const tdmi_rank *rank, uint32_t event, uint32_t *out)
{
    const tdmi_collective *c = tdmi_event_collective(rank, event);
    const char *name = tdmi_event_name(rank, event), *colon = strchr(name, ':');
    const char *text = c != NULL ? tdmi_trace_text(rank->trace, c->name) : "";
    kind next = {
        .group = c != NULL ? tdmi_trace_text(rank->trace, c->group_name) : "",
        .ranks = c != NULL ? tdmi_trace_text(rank->trace, c->group_ranks) : "",
        .op = text[0] != '\0'                                               ? op_of_text(text)
              : rank->role[event] == TDMI_ROLE_HOST_COMM && colon != NULL ? op_of_text(colon + 1)
                                                                            : op_of_kernel(name),
        .group_size = c != NULL ? c->group_size : -1,
    };
    for (uint32_t k = 0; k < all->kinds; k++)
        if (strcmp(all->kind[k].op, next.op) == 0 && strcmp(all->kind[k].group, next.group) == 0 && strcmp(all->kind[k].ranks, next.ranks) == 0) {
            *out = k;
            return TDM_OK;
        }
    kind *more = tdmi_with_room(all->kind, all->kinds, &all->kind_capacity, sizeof *more, "job");
    if (more == NULL)
        return TDM_ERR_NO_MEMORY;
    all->kind = more;
    all->kind[all->kinds] = next;
    *out = (uint32_t)all->kinds++;
    return TDM_OK;
}

static tdm_status add_item(lists *all, const tdmi_rank *rank, uint32_t place, uint32_t event, uint32_t gpu)
{
    const tdmi_part part = {place, event, gpu, tdmi_event_start(rank, event), tdmi_event_end(rank, event)};
    const int64_t called_ns = tdmi_part_called(rank, &part);
    const tdmi_collective *c = tdmi_event_collective(rank, event);
    if (tdmi_steps_are_cut(rank) && (called_ns < rank->iteration[0].start_ns || called_ns >= rank->iteration[rank->iterations - 1].end_ns))
        return TDM_OK; /* of the rests at both ends of the trace, whose length differs from rank to rank */
    item *more = tdmi_with_room(all->item, all->items, &all->item_capacity, sizeof *more, "job");
    if (more == NULL)
        return TDM_ERR_NO_MEMORY;
    all->item = more;
    item *next = &all->item[all->items];
    *next = (item){.part = part};
    next->by_seq = c != NULL && c->seq >= 0 && c->seq < UINT32_MAX;
    next->index = next->by_seq ? (uint32_t)c->seq : 0;
    next->iteration = (uint32_t)tdmi_iteration_at(rank, called_ns);
    all->items++;
    return kind_of(all, rank, event, &next->kind);
}

static int by_kind(const void *a, const void *b)
{
    const item *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->part.place != y->part.place)
        return x->part.place < y->part.place ? -1 : 1;
    return (x->part.start_ns > y->part.start_ns) - (x->part.start_ns < y->part.start_ns);
}

/* Iterations have the same number on all ranks if their ProfilerSteps do; a rank may have seen fewer. */
static void number_iterations(const tdmi_job *job, lists *all)
{
    int64_t least = INT64_MAX;
    for (size_t r = 0; r < job->ranks; r++)
        if (job->rank[r].iterations > 0 && job->rank[r].iteration[0].number < least)
            least = job->rank[r].iteration[0].number;
    for (size_t i = 0; i < all->items; i++) {
        const tdmi_rank *rank = &job->rank[all->item[i].part.place];
        if (rank->iterations > 0)
            all->item[i].iteration = (uint32_t)(rank->iteration[all->item[i].iteration].number - least);
    }
}

/* index within kind, rank and iteration, from its end: UINT32_MAX is the last. */
static void number_items(lists *all)
{
    qsort(all->item, all->items, sizeof *all->item, by_kind);
    for (size_t i = all->items; i-- > 0;) {
        item *it = &all->item[i];
        const item *next = i + 1 < all->items ? it + 1 : NULL;
        if (it->by_seq) {
            it->iteration = 0;
            continue;
        }
        const bool same = next != NULL && next->kind == it->kind && next->part.place == it->part.place && next->iteration == it->iteration && !next->by_seq;
        it->index = same ? next->index - 1 : UINT32_MAX;
    }
}

static int by_meeting(const void *a, const void *b)
{
    const item *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->by_seq != y->by_seq)
        return x->by_seq ? 1 : -1;
    if (x->iteration != y->iteration)
        return x->iteration < y->iteration ? -1 : 1;
    if (x->index != y->index)
        return x->index < y->index ? -1 : 1;
    return (x->part.place > y->part.place) - (x->part.place < y->part.place);
}

/* One of two sides of a message is no collective that all ranks share. */
static bool is_one_sided(const kind *k)
{
    return strcmp(k->op, "send") == 0 || strcmp(k->op, "recv") == 0;
}

static tdm_status make_meetings(tdmi_job *job, lists *all)
{
    qsort(all->item, all->items, sizeof *all->item, by_meeting);
    job->part = tdmi_malloc((all->items + 1) * sizeof *job->part, "job");
    job->meeting = tdmi_calloc(all->items + 1, sizeof *job->meeting, "job");
    if (job->part == NULL || job->meeting == NULL)
        return TDM_ERR_NO_MEMORY;
    for (size_t i = 0; i < all->items; i++) {
        const item *it = &all->item[i], *before = i > 0 ? it - 1 : NULL;
        const kind *k = &all->kind[it->kind];
        const bool joins = before != NULL && before->kind == it->kind && before->by_seq == it->by_seq && before->iteration == it->iteration &&
                           before->index == it->index && before->part.place != it->part.place && !is_one_sided(k);
        job->part[job->parts] = it->part;
        if (!joins)
            job->meeting[job->meetings++] = (tdmi_meeting){.first = (uint32_t)job->parts, .op = k->op, .group = k->group, .group_size = k->group_size,
                                                           .seq = it->by_seq ? (int64_t)it->index : -1, .nbytes = -1};
        tdmi_meeting *m = &job->meeting[job->meetings - 1];
        const tdmi_rank *rank = &job->rank[it->part.place];
        int64_t nbytes = size_of(rank, it->part.event);
        if (nbytes < 0 && strcmp(m->op, "allreduce") == 0)
            nbytes = size_around(rank, &it->part);
        m->nbytes = nbytes > m->nbytes ? nbytes : m->nbytes;
        m->count++;
        job->parts++;
    }
    return TDM_OK;
}

double tdmi_bus_factor(const char *op, int ranks)
{
    const double n = ranks > 1 ? ranks : 1;
    return strcmp(op, "allreduce") == 0                                                                                 ? 2 * (n - 1) / n
           : strcmp(op, "all_gather") == 0 || strcmp(op, "reduce_scatter") == 0 || strcmp(op, "alltoall") == 0 ? (n - 1) / n
                                                                                                                        : 1;
}

/* ---- clocks ---- */

/* Only what nobody can leave before all have come. */
static bool ends_together(const tdmi_meeting *m)
{
    return strcmp(m->op, "broadcast") != 0 && strcmp(m->op, "reduce") != 0 && strcmp(m->op, "gather") != 0 && strcmp(m->op, "scatter") != 0;
}

static const tdmi_part *part_of(const tdmi_job *job, const tdmi_meeting *m, size_t place)
{
    for (uint32_t p = 0; p < m->count; p++)
        if (job->part[m->first + p].place == place)
            return &job->part[m->first + p];
    return NULL;
}

/* The median of how much later `b`'s clock shows the same ends than `a`'s. False: they met nowhere. */
static bool difference(const tdmi_job *job, size_t a, size_t b, int64_t *scratch, int64_t *out)
{
    size_t count = 0;
    for (size_t i = 0; i < job->meetings; i++) {
        const tdmi_meeting *m = &job->meeting[i];
        const tdmi_part *x = m->count > 1 && ends_together(m) ? part_of(job, m, a) : NULL, *y = x != NULL ? part_of(job, m, b) : NULL;
        if (y != NULL)
            scratch[count++] = y->end_ns - x->end_ns;
    }
    if (count == 0)
        return false;
    *out = tdmi_median(scratch, count, 0);
    return true;
}

/* The first rank's clock is the job's, and of ranks that met none of those before again the first's. */
static tdm_status set_clocks(tdmi_job *job)
{
    int64_t *scratch = tdmi_malloc((job->meetings + 1) * sizeof *scratch, "job"), *correction = tdmi_calloc(job->ranks + 1, sizeof *correction, "job");
    bool *known = tdmi_calloc(job->ranks + 1, sizeof *known, "job");
    if (scratch == NULL || correction == NULL || known == NULL) {
        tdmi_free(scratch);
        tdmi_free(correction);
        tdmi_free(known);
        return TDM_ERR_NO_MEMORY;
    }
    for (size_t start = 0; start < job->ranks; start++) {
        bool more = !known[start];
        for (known[start] = true; more;) {
            more = false;
            for (size_t a = 0; a < job->ranks; a++)
                for (size_t b = 0; known[a] && b < job->ranks; b++) {
                    int64_t apart_ns;
                    if (known[b] || !difference(job, a, b, scratch, &apart_ns))
                        continue;
                    correction[b] = correction[a] - apart_ns;
                    known[b] = more = true;
                }
        }
    }
    for (size_t r = 0; r < job->ranks; r++) {
        tdmi_rank *rank = &job->rank[r];
        rank->shift_ns += correction[r];
        for (size_t i = 0; i < rank->iterations; i++) {
            rank->iteration[i].start_ns += correction[r];
            rank->iteration[i].end_ns += correction[r];
        }
        const int64_t size = correction[r] < 0 ? -correction[r] : correction[r];
        job->clock_spread_ns = size > job->clock_spread_ns ? size : job->clock_spread_ns;
    }
    for (size_t p = 0; p < job->parts; p++) {
        job->part[p].start_ns += correction[job->part[p].place];
        job->part[p].end_ns += correction[job->part[p].place];
    }
    tdmi_free(scratch);
    tdmi_free(correction);
    tdmi_free(known);
    return TDM_OK;
}

/* ---- waiting and transfer ---- */

static tdm_status measure(tdmi_job *job)
{
    int64_t *transfer = tdmi_malloc((job->ranks + 1) * sizeof *transfer, "job");
    if (transfer == NULL)
        return TDM_ERR_NO_MEMORY;
    for (size_t i = 0; i < job->meetings; i++) {
        tdmi_meeting *m = &job->meeting[i];
        int64_t first_end_ns = INT64_MAX;
        uint32_t latest = 0;
        m->joined_ns = INT64_MIN;
        for (uint32_t p = m->first; p < m->first + m->count; p++) {
            if (job->part[p].start_ns > m->joined_ns) {
                m->joined_ns = job->part[p].start_ns;
                latest = job->part[p].place;
            }
            first_end_ns = job->part[p].end_ns < first_end_ns ? job->part[p].end_ns : first_end_ns;
        }
        m->lined_up = m->count > 1 && (!ends_together(m) || first_end_ns + CLOCK_SLACK_NS >= m->joined_ns);
        if (m->lined_up) {
            job->rank[latest].last_to_join++;
            job->lined_up++;
        }
        size_t count = 0;
        for (uint32_t p = m->first; p < m->first + m->count; p++)
            transfer[count++] = job->part[p].end_ns > m->joined_ns ? job->part[p].end_ns - m->joined_ns : 0;
        m->transfer_ns = m->lined_up ? tdmi_median(transfer, count, 0) : job->part[m->first].end_ns - job->part[m->first].start_ns;
    }
    tdmi_free(transfer);
    return TDM_OK;
}

static int by_join(const void *a, const void *b)
{
    const tdmi_meeting *x = a, *y = b;
    return (x->joined_ns > y->joined_ns) - (x->joined_ns < y->joined_ns);
}

tdm_status tdmi_collectives_line_up(tdmi_job *job)
{
    lists all = {0};
    tdm_status status = TDM_OK;
    for (uint32_t r = 0; r < job->ranks && status == TDM_OK; r++) {
        const tdmi_rank *rank = &job->rank[r];
        for (uint32_t g = 0; g < rank->gpu_count && status == TDM_OK; g++)
            if (rank->role[rank->gpu[g]] == TDMI_ROLE_COMM)
                status = add_item(&all, rank, r, rank->gpu[g], g);
        for (uint32_t i = 0; !rank->on_device && i < rank->trace->event_count && status == TDM_OK; i++)
            if (rank->role[i] == TDMI_ROLE_HOST_COMM)
                status = add_item(&all, rank, r, i, TDMI_NONE);
    }
    if (status == TDM_OK && all.items > 0) {
        number_iterations(job, &all);
        number_items(&all);
        status = make_meetings(job, &all);
        if (status == TDM_OK)
            status = set_clocks(job);
        if (status == TDM_OK)
            status = measure(job);
        if (status == TDM_OK)
            qsort(job->meeting, job->meetings, sizeof *job->meeting, by_join);
    }
    tdmi_free(all.kind);
    tdmi_free(all.item);
    return status;
}
