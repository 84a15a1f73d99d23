/* rows.c - the rows of a trace as HTA has them: times, what runs on the GPU, what launched what. */
#include "hta/rank.h"

#include "core/memory.h"

#include <math.h>
#include <string.h>

#define FARTHEST ((int64_t)1 << 61)

static int64_t clamp(int64_t ns)
{
    return ns > FARTHEST ? FARTHEST : ns < -FARTHEST ? -FARTHEST : ns;
}

/* The double nearest to a number of us with three decimals. */
static double us_of(int64_t ns)
{
    return (double)(ns / 1000) + (double)(ns % 1000) / 1000;
}

static int64_t ns_of_whole(double us)
{
    return us > 2e15 ? FARTHEST : us < -2e15 ? -FARTHEST : (int64_t)us * 1000;
}

/* HTA moves both ends inward to whole us, in doubles: a kernel within one us gets a length of -1 us. */
void tdmi_hta_row_times(bool rounded, const tdmi_event *event, int64_t *start_ns, int64_t *dur_ns)
{
    if (rounded) {
        const double start = us_of(event->start_ns), end = floor(start + us_of(event->dur_ns));
        *start_ns = clamp(ns_of_whole(ceil(start)));
        *dur_ns = clamp(ns_of_whole(end)) - *start_ns;
    } else {
        *start_ns = clamp(event->start_ns);
        *dur_ns = clamp(event->dur_ns);
    }
}

int64_t tdmi_hta_row_start(bool rounded, const tdmi_event *event)
{
    return clamp(rounded ? ns_of_whole(ceil(us_of(event->start_ns))) : event->start_ns);
}

/* ---- links: a hash table of correlations ---- */

/* Where it is in the table, or would be. */
static uint32_t *slot_of(const tdmi_hta_rank *rank, int64_t correlation)
{
    const uint64_t hash = (uint64_t)correlation * 0x9e3779b97f4a7c15u;
    size_t i = (size_t)(hash >> 20) & rank->link_mask;
    while (rank->link_slot[i] != TDMI_NONE && rank->link[rank->link_slot[i]].correlation != correlation)
        i = (i + 1) & rank->link_mask;
    return &rank->link_slot[i];
}

uint32_t tdmi_hta_link_find(const tdmi_hta_rank *rank, int64_t correlation)
{
    return *slot_of(rank, correlation);
}

static uint32_t link_of(tdmi_hta_rank *rank, int64_t correlation)
{
    uint32_t *slot = slot_of(rank, correlation);
    if (*slot == TDMI_NONE) {
        rank->link[rank->link_count] = (tdmi_hta_link){.correlation = correlation, .cpu = TDMI_NONE, .gpu = TDMI_NONE};
        *slot = (uint32_t)rank->link_count++;
    }
    return *slot;
}

/* ---- reading ---- */

/* How many of each kind there will be; names get their flags. */
static size_t count_rows(tdmi_hta_rank *rank)
{
    const tdmi_trace *trace = rank->trace;
    size_t linked = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        const tdmi_event *event = &trace->event[i];
        if (!TDMI_EVENT_IS_ROW(event->kind))
            continue;
        unsigned flags = TDMI_HTA_COMPUTATION;
        if (event->name != TDMI_NONE) {
            flags = rank->name_flags[event->name];
            if (flags == UINT8_MAX)
                rank->name_flags[event->name] = (uint8_t)(flags = tdmi_hta_name_flags(tdmi_trace_text(trace, event->name)));
        }
        rank->kernel_count += tdmi_hta_stream(event) != -1;
        rank->step_count += (flags & TDMI_HTA_NAME_STEP) != 0;
        rank->sync_count += (flags & TDMI_HTA_NAME_SYNC) != 0 && tdmi_hta_stream(event) == -1;
        if (event->correlation != TDMI_NO_CORRELATION) {
            linked++;
            rank->call_count += !tdmi_hta_row_on_device(rank, event);
        }
    }
    return linked;
}

static tdm_status allocate(tdmi_hta_rank *rank, size_t linked)
{
    size_t capacity = 64;
    while (capacity < linked * 2)
        capacity *= 2;
    rank->link_slot = tdmi_malloc(capacity * sizeof *rank->link_slot, "hta links");
    rank->link_mask = capacity - 1;
    if (rank->link_slot != NULL)
        memset(rank->link_slot, UINT8_MAX, capacity * sizeof *rank->link_slot); /* TDMI_NONE */
    rank->kernel = tdmi_malloc((rank->kernel_count + 1) * sizeof *rank->kernel, "hta kernels");
    rank->by_link = tdmi_malloc((rank->kernel_count + 1) * sizeof *rank->by_link, "hta kernels");
    rank->call = tdmi_malloc((rank->call_count + 1) * sizeof *rank->call, "hta calls");
    rank->step = tdmi_malloc((rank->step_count + 1) * sizeof *rank->step, "hta steps");
    rank->link = tdmi_malloc((linked + 1) * sizeof *rank->link, "hta links");
    const bool fine = rank->link_slot != NULL && rank->kernel != NULL && rank->by_link != NULL && rank->call != NULL && rank->step != NULL;
    return fine && rank->link != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
}

static void add_row(tdmi_hta_rank *rank, uint32_t index)
{
    const tdmi_event *event = &rank->trace->event[index];
    const unsigned flags = tdmi_hta_flags(rank, event);
    const bool device = tdmi_hta_row_on_device(rank, event);
    const int64_t stream = tdmi_hta_stream(event);
    int64_t start_ns, dur_ns;
    uint32_t link = TDMI_NONE;
    tdmi_hta_row_times(rank->rounded, event, &start_ns, &dur_ns);
    if (event->correlation != TDMI_NO_CORRELATION) {
        link = link_of(rank, event->correlation);
        if (device)
            rank->link[link].gpu = index;
        else {
            rank->link[link].cpu = index;
            rank->call[rank->call_count++] =
                (tdmi_hta_call){.start_ns = start_ns, .dur_ns = dur_ns, .link = link, .stream = stream, .flags = (uint8_t)flags};
        }
    }
    if (stream != -1)
        rank->kernel[rank->kernel_count++] = (tdmi_hta_kernel){.start_ns = start_ns,
                                                               .dur_ns = dur_ns,
                                                               .link = link,
                                                               .event = index,
                                                               .name = event->name,
                                                               .stream = stream,
                                                               .type = flags & TDMI_HTA_NAME_TYPE,
                                                               .device = device};
    if ((flags & TDMI_HTA_NAME_STEP) != 0)
        rank->step[rank->step_count++] = (tdmi_hta_step){.start_ns = start_ns,
                                                         .end_ns = start_ns + dur_ns,
                                                         .number = tdmi_hta_step_number(tdmi_trace_text(rank->trace, event->name)),
                                                         .event = index,
                                                         .device = device,
                                                         .numbered = (flags & TDMI_HTA_NAME_STEP_NUMBER) != 0};
}

tdm_status tdmi_hta_rank_read(const tdmi_trace *trace, bool rounded, tdmi_hta_rank *out)
{
    tdmi_hta_rank rank = {.trace = trace, .rounded = rounded};
    rank.name_flags = tdmi_malloc(trace->text_count + 1, "hta names");
    tdm_status status = rank.name_flags != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
    if (status == TDM_OK) {
        memset(rank.name_flags, UINT8_MAX, trace->text_count + 1);
        status = allocate(&rank, count_rows(&rank));
    }
    rank.kernel_count = rank.call_count = rank.step_count = 0;
    if (status == TDM_OK)
        for (size_t i = 0; i < trace->event_count; i++)
            if (TDMI_EVENT_IS_ROW(trace->event[i].kind))
                add_row(&rank, (uint32_t)i);
    if (status != TDM_OK) {
        tdmi_hta_rank_free(&rank);
        return status;
    }
    *out = rank;
    return TDM_OK;
}

void tdmi_hta_rank_free(tdmi_hta_rank *rank)
{
    tdmi_free(rank->name_flags);
    tdmi_free(rank->kernel);
    tdmi_free(rank->by_link);
    tdmi_free(rank->call);
    tdmi_free(rank->step);
    tdmi_free(rank->link);
    tdmi_free(rank->link_slot);
    *rank = (tdmi_hta_rank){0};
}

/* HTA looks the partner up by its place in the file, and 0 stands for "not there": a kernel without a launch gets the event that
 * is the first of the file, if that is a row. */
uint32_t tdmi_hta_kernel_partner(const tdmi_hta_rank *rank, const tdmi_hta_kernel *kernel)
{
    const tdmi_trace *trace = rank->trace;
    if (kernel->link == TDMI_NONE || rank->link[kernel->link].correlation < 0)
        return TDMI_NONE;
    const tdmi_hta_link *link = &rank->link[kernel->link];
    const uint32_t partner = kernel->device ? link->cpu : link->gpu;
    /* a call and a device row need each other: without the one kind nobody of the other has a partner */
    if (partner != TDMI_NONE)
        return partner;
    return trace->event_count > 0 && trace->event[0].place == 0 && TDMI_EVENT_IS_ROW(trace->event[0].kind) ? 0 : TDMI_NONE;
}
