/* traffic.c - collectives gathered by operation, group and size. */
#include "doctor/job_report.h"

#include "core/memory.h"
#include "job/median.h"

#include <stdlib.h>
#include <string.h>

static int by_kind(const void *a, const void *b)
{
    const tdmi_meeting *x = *(const tdmi_meeting *const *)a, *y = *(const tdmi_meeting *const *)b;
    const int op = strcmp(x->op, y->op), group = strcmp(x->group, y->group);
    return op != 0 ? op : group != 0 ? group : (x->nbytes > y->nbytes) - (x->nbytes < y->nbytes);
}

static int most_time_first(const void *a, const void *b)
{
    const tdmi_traffic *x = a, *y = b;
    const double x_ns = (double)x->count * (double)(x->transfer_ns + x->wait_ns), y_ns = (double)y->count * (double)(y->transfer_ns + y->wait_ns);
    return (x_ns < y_ns) - (x_ns > y_ns);
}

static int64_t wait_of(const tdmi_job *job, const tdmi_meeting *m)
{
    int64_t sum = 0;
    for (uint32_t p = m->first; m->lined_up && p < m->first + m->count; p++)
        sum += m->joined_ns - job->part[p].start_ns;
    return sum / (int64_t)m->count;
}

static tdmi_traffic sum_up(const tdmi_job *job, const tdmi_meeting *const *of, size_t count, int64_t *transfer, int64_t *wait)
{
    tdmi_traffic t = {.op = of[0]->op, .group = of[0]->group, .nbytes = of[0]->nbytes, .group_size = of[0]->group_size, .count = (int64_t)count, .lined_up = true};
    for (size_t i = 0; i < count; i++) {
        transfer[i] = of[i]->transfer_ns;
        wait[i] = wait_of(job, of[i]);
        t.lined_up &= of[i]->lined_up;
        if (t.seen < (int)of[i]->count)
            t.seen = (int)of[i]->count;
    }
    t.group_size = t.group_size > t.seen ? t.group_size : t.seen;
    t.transfer_ns = tdmi_median(transfer, count, 0);
    t.wait_ns = tdmi_median(wait, count, 0);
    t.algbw_gbps = t.nbytes > 0 && t.transfer_ns > 0 ? (double)t.nbytes / (double)t.transfer_ns : 0;
    t.busbw_gbps = t.algbw_gbps * tdmi_bus_factor(t.op, t.group_size);
    return t;
}

tdm_status tdmi_traffic_sum(const tdmi_job *job, tdmi_traffic **out, size_t *count_out)
{
    const size_t all = job->meetings;
    const tdmi_meeting **list = tdmi_malloc((all + 1) * sizeof *list, "doctor");
    int64_t *room = tdmi_malloc((2 * all + 1) * sizeof *room, "doctor");
    tdmi_traffic *traffic = tdmi_malloc((all + 1) * sizeof *traffic, "doctor");
    if (list == NULL || room == NULL || traffic == NULL) {
        tdmi_free(list);
        tdmi_free(room);
        tdmi_free(traffic);
        return TDM_ERR_NO_MEMORY;
    }
    size_t kinds = 0;
    for (size_t i = 0; i < all; i++)
        list[i] = &job->meeting[i];
    qsort(list, all, sizeof *list, by_kind);
    for (size_t i = 0, count; i < all; i += count) {
        count = 1;
        while (i + count < all && by_kind(&list[i], &list[i + count]) == 0)
            count++;
        traffic[kinds++] = sum_up(job, list + i, count, room, room + all);
    }
    qsort(traffic, kinds, sizeof *traffic, most_time_first);
    tdmi_free(list);
    tdmi_free(room);
    *out = traffic;
    *count_out = kinds;
    return TDM_OK;
}
