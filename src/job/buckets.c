/* buckets.c - gradients from autograd's AccumulateGrad nodes, buckets from the all-reduces that are called inside of them. */
#include "job/buckets.h"

#include "core/memory.h"
#include "job/median.h"

#include <stdlib.h>
#include <string.h>

/* ---- gradients ---- */

/* Elements of "[[768, 2304]]"; 0: not said. */
static double elements_of(const tdmi_rank *rank, uint32_t event)
{
    const tdmi_event *e = &rank->trace->event[event];
    if (e->detail == TDMI_NONE)
        return 0;
    const char *text = tdmi_trace_text(rank->trace, rank->trace->op[e->detail].dims);
    text += strspn(text, "[");
    double product = 1;
    char *end;
    for (double n = strtod(text, &end); end != text; n = strtod(text, &end)) {
        product *= n;
        text = end + strspn(end, ", ");
        if (*text == ']')
            return product;
    }
    return 0;
}

bool tdmi_is_accumulation(const char *name)
{
    return strcmp(name, "torch::autograd::AccumulateGrad") == 0 || strcmp(name, "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad") == 0;
}

static tdm_status find_gradients(const tdmi_rank *rank, tdmi_gradient **out, size_t *count_out)
{
    tdmi_gradient *list = tdmi_malloc((rank->host_count + 1) * sizeof *list, "job");
    if (list == NULL)
        return TDM_ERR_NO_MEMORY;
    size_t count = 0;
    int64_t until_ns = INT64_MIN;
    bool all_sized = true;
    for (size_t i = 0; i < rank->host_count; i++) {
        const uint32_t event = rank->host[i];
        if (rank->trace->event[event].kind != TDMI_EVENT_CPU_OP || !tdmi_is_accumulation(tdmi_event_name(rank, event)))
            continue;
        const double elements = elements_of(rank, event);
        if (tdmi_event_start(rank, event) < until_ns) { /* the node inside of the engine's row */
            if (count > 0 && elements > 0)
                list[count - 1].share = elements;
            continue;
        }
        until_ns = tdmi_event_end(rank, event);
        list[count++] = (tdmi_gradient){.iteration = (uint32_t)tdmi_iteration_at(rank, until_ns - 1),
                                        .gpu = tdmi_launched_before(rank, rank->compute_stream, until_ns),
                                        .ns = until_ns,
                                        .share = elements};
    }
    for (size_t i = 0; i < count; i++)
        all_sized = all_sized && list[i].share > 0;
    for (size_t first = 0, next; first < count; first = next) {
        double sum = 0;
        for (next = first; next < count && list[next].iteration == list[first].iteration; next++)
            sum += list[next].share = all_sized ? list[next].share : 1;
        double before = 0;
        for (size_t i = first; i < next; i++)
            before = list[i].share = before + list[i].share / sum;
    }
    *out = list;
    *count_out = count;
    return TDM_OK;
}

const tdmi_gradient *tdmi_gradient_at(const tdmi_buckets *buckets, size_t place, uint32_t iteration, double share)
{
    const tdmi_gradient *list = buckets->gradient[place], *last = NULL;
    for (size_t i = 0; i < buckets->gradients[place]; i++)
        if (list[i].iteration == iteration) {
            last = &list[i];
            if (list[i].share >= share - 1e-6)
                return last;
        }
    return last;
}

double tdmi_gradients_complete(const tdmi_buckets *buckets, size_t place, uint32_t iteration, int64_t ns)
{
    const tdmi_gradient *list = buckets->gradient[place];
    double share = 0;
    for (size_t i = 0; i < buckets->gradients[place] && list[i].ns <= ns; i++)
        if (list[i].iteration == iteration)
            share = list[i].share;
    return share;
}

/* ---- buckets ---- */

/* Between the first and the last gradient of the iteration; gloo's thread may begin a little later. */
static bool within_backward(const tdmi_buckets *buckets, const tdmi_job *job, const tdmi_part *part, uint32_t iteration)
{
    const tdmi_gradient *list = buckets->gradient[part->place];
    const int64_t ns = tdmi_part_called(&job->rank[part->place], part);
    int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;
    for (size_t i = 0; i < buckets->gradients[part->place]; i++)
        if (list[i].iteration == iteration) {
            first_ns = first_ns == INT64_MAX ? list[i].ns : first_ns;
            last_ns = list[i].ns;
        }
    const int64_t slack_ns = part->gpu == TDMI_NONE ? (last_ns - first_ns) / 2 + 1000000 : 0;
    return first_ns != INT64_MAX && ns >= first_ns - 1000000 && ns <= last_ns + slack_ns;
}

static int by_iteration(const void *a, const void *b)
{
    const tdmi_bucket *x = a, *y = b;
    if (x->iteration != y->iteration)
        return x->iteration < y->iteration ? -1 : 1;
    return (x->meeting > y->meeting) - (x->meeting < y->meeting);
}

static int largest_group(const tdmi_job *job)
{
    int largest = -1;
    for (size_t i = 0; i < job->meetings; i++)
        if (strcmp(job->meeting[i].op, "allreduce") == 0 && job->meeting[i].group_size > largest)
            largest = job->meeting[i].group_size;
    return largest;
}

static tdm_status find_buckets(const tdmi_job *job, tdmi_buckets *out)
{
    const int group_size = largest_group(job);
    out->of = tdmi_malloc((job->meetings + 1) * sizeof *out->of, "job");
    if (out->of == NULL)
        return TDM_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < job->meetings; i++) {
        const tdmi_meeting *m = &job->meeting[i];
        const tdmi_part *part = &job->part[m->first];
        if (strcmp(m->op, "allreduce") != 0 || m->group_size != group_size || m->nbytes <= 0)
            continue;
        const tdmi_rank *rank = &job->rank[part->place];
        const uint32_t iteration = (uint32_t)tdmi_iteration_at(rank, tdmi_part_called(rank, part));
        if (within_backward(out, job, part, iteration))
            out->of[out->count++] = (tdmi_bucket){.meeting = i, .iteration = iteration, .nbytes = m->nbytes};
    }
    qsort(out->of, out->count, sizeof *out->of, by_iteration);
    return TDM_OK;
}

static double complete_at_send(const tdmi_job *job, const tdmi_buckets *buckets, const tdmi_bucket *bucket)
{
    const tdmi_meeting *m = &job->meeting[bucket->meeting];
    double sum = 0;
    for (uint32_t p = m->first; p < m->first + m->count; p++) {
        const tdmi_rank *rank = &job->rank[job->part[p].place];
        const int64_t ns = tdmi_part_called(rank, &job->part[p]);
        sum += tdmi_gradients_complete(buckets, job->part[p].place, (uint32_t)tdmi_iteration_at(rank, ns), ns);
    }
    return sum / (double)m->count;
}

/* The plan for the buckets [first, next) of one iteration. */
static void plan(const tdmi_job *job, tdmi_buckets *out, size_t first, size_t next, double nbytes)
{
    const tdmi_part *part = &job->part[job->meeting[out->of[first].meeting].first];
    const tdmi_gradient *list = out->gradient[part->place];
    double full = 0, before = 0;
    int64_t cap = TDMI_FIRST_BUCKET_BYTES;
    for (size_t i = 0; i < out->gradients[part->place]; i++) {
        if (list[i].iteration != out->of[first].iteration)
            continue;
        full += (list[i].share - before) * nbytes;
        before = list[i].share;
        if (full < (double)cap && list[i].share < 1 - 1e-9)
            continue;
        out->plan[out->planned++] = (tdmi_planned){(uint32_t)(next - 1), list[i].share, (int64_t)full};
        cap = TDMI_BUCKET_BYTES;
        full = 0;
    }
}

static tdm_status describe(const tdmi_job *job, tdmi_buckets *out)
{
    int64_t *size = tdmi_malloc((out->count + 1) * sizeof *size, "job");
    size_t iterations = 0, gradients = 0;
    double all = 0;
    for (size_t r = 0; r < job->ranks; r++)
        gradients += out->gradients[r];
    out->plan = tdmi_malloc((gradients + 1) * sizeof *out->plan, "job");
    if (size == NULL || out->plan == NULL) {
        tdmi_free(size);
        return TDM_ERR_NO_MEMORY;
    }
    for (size_t first = 0, next; first < out->count; first = next) {
        double sum = 0, before = 0;
        for (next = first; next < out->count && out->of[next].iteration == out->of[first].iteration; next++)
            sum += (double)out->of[next].nbytes;
        for (size_t i = first; i < next; i++) {
            out->of[i].index = (uint32_t)(i - first);
            out->of[i].share = before = before + (double)out->of[i].nbytes / sum;
            out->of[i].complete_at_send = complete_at_send(job, out, &out->of[i]);
            size[i] = out->of[i].nbytes;
            out->largest_bytes = size[i] > out->largest_bytes ? size[i] : out->largest_bytes;
        }
        all += sum;
        iterations++;
        plan(job, out, first, next, sum);
    }
    out->a_iteration = iterations > 0 ? (double)out->count / (double)iterations : 0;
    out->iteration_bytes = iterations > 0 ? (int64_t)(all / (double)iterations) : 0;
    out->median_bytes = tdmi_median(size, out->count, 0);
    tdmi_free(size);
    return TDM_OK;
}

/* Least squares over the transfers; sizes must differ by half for a line. */
static void draw_line(const tdmi_job *job, tdmi_buckets *out)
{
    double n = 0, x = 0, y = 0, xx = 0, xy = 0, least = 1e300, most = 0, shortest = 1e300;
    for (size_t i = 0; i < out->count; i++) {
        const tdmi_meeting *m = &job->meeting[out->of[i].meeting];
        const double nbytes = (double)m->nbytes, ns = (double)m->transfer_ns;
        if (!m->lined_up)
            continue;
        n++;
        x += nbytes;
        y += ns;
        xx += nbytes * nbytes;
        xy += nbytes * ns;
        least = nbytes < least ? nbytes : least;
        most = nbytes > most ? nbytes : most;
        shortest = ns < shortest ? ns : shortest;
    }
    const double spread = n * xx - x * x;
    if (n == 0)
        return;
    if (most >= 1.5 * least && spread > 0) {
        out->byte_ns = (n * xy - x * y) / spread;
        out->call_ns = (y - out->byte_ns * x) / n;
        out->line_known = out->byte_ns > 0;
    }
    if (!out->line_known)
        out->call_ns = TDMI_USUAL_CALL_NS;
    out->call_ns = out->call_ns > 0 ? out->call_ns : 0;
    out->call_ns = out->call_ns < shortest ? out->call_ns : shortest;
    out->byte_ns = x > 0 && y > n * out->call_ns ? (y - n * out->call_ns) / x : 0;
}

tdm_status tdmi_buckets_find(const tdmi_job *job, tdmi_buckets *out)
{
    *out = (tdmi_buckets){.ranks = job->ranks};
    out->gradient = tdmi_calloc(job->ranks + 1, sizeof *out->gradient, "job");
    out->gradients = tdmi_calloc(job->ranks + 1, sizeof *out->gradients, "job");
    tdm_status status = out->gradient != NULL && out->gradients != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
    for (size_t r = 0; r < job->ranks && status == TDM_OK; r++)
        status = find_gradients(&job->rank[r], &out->gradient[r], &out->gradients[r]);
    if (status == TDM_OK)
        status = find_buckets(job, out);
    if (status == TDM_OK)
        status = describe(job, out);
    if (status == TDM_OK)
        draw_line(job, out);
    if (status != TDM_OK)
        tdmi_buckets_free(out);
    return status;
}

void tdmi_buckets_free(tdmi_buckets *buckets)
{
    for (size_t r = 0; buckets->gradient != NULL && r < buckets->ranks; r++)
        tdmi_free(buckets->gradient[r]);
    tdmi_free(buckets->gradient);
    tdmi_free(buckets->gradients);
    tdmi_free(buckets->plan);
    tdmi_free(buckets->of);
    *buckets = (tdmi_buckets){0};
}
