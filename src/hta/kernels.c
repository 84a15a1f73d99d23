/* kernels.c - tables of durations by name: of the kernels of each type, and of annotations on the GPU's time line.
 * More than ten names of a type are cut down: names are sorted by their sums, and those behind the 0.8 quantile of the cumulated sums
 * (of the values, not of the time), or behind the tenth, become "others", whose figures are those of the names' sums. When that
 * happens the figures of all names are of sums: HTA groups the groups again. */
#include "hta/rank.h"

#include "core/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEW_KERNELS = 10, FEW_ANNOTATIONS = 1000 };
static const double cut_at = 0.8;

typedef struct group {
    const char *name;
    size_t count;
    double sum, max, min, squares, mean;
} group;

static void add(group *g, double ns)
{
    g->max = g->count == 0 || ns > g->max ? ns : g->max;
    g->min = g->count == 0 || ns < g->min ? ns : g->min;
    g->sum += ns;
    g->count++;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const group *)a)->name, ((const group *)b)->name);
}

static int by_sum(const void *a, const void *b)
{
    const group *left = a, *right = b;
    return left->sum > right->sum ? -1 : left->sum < right->sum ? 1 : by_name(a, b);
}

/* The slots of names in groups, while one table is made. */
typedef struct table {
    uint32_t *group_of; /* [text_count + 1] */
    group *groups;
    size_t count;
} table;

static group *group_of(const tdmi_trace *trace, table *t, uint32_t name)
{
    uint32_t *slot = &t->group_of[name == TDMI_NONE ? trace->text_count : name];
    if (*slot == TDMI_NONE) {
        t->groups[t->count] = (group){.name = tdmi_trace_text(trace, name)};
        *slot = (uint32_t)t->count++;
    }
    return &t->groups[*slot];
}

static double deviation(const group *g)
{
    return g->count > 1 ? sqrt(g->squares / (double)(g->count - 1)) : 0;
}

static tdm_status append(tdmi_hta_table_row **rows, size_t *count, const group *groups, size_t group_count, tdmi_hta_type type)
{
    tdmi_hta_table_row *more = tdmi_realloc(*rows, (*count + group_count + 1) * sizeof **rows, "hta table");
    if (more == NULL)
        return TDM_ERR_NO_MEMORY;
    *rows = more;
    for (size_t i = 0; i < group_count; i++) {
        const group *g = &groups[i];
        more[(*count)++] = (tdmi_hta_table_row){
            .name = g->name, .type = type, .sum_ns = g->sum, .max_ns = g->max, .min_ns = g->min, .mean_ns = g->sum / (double)g->count, .std_ns = deviation(g)};
    }
    return TDM_OK;
}

/* The groups of sums that replace groups sorted by their sums; gives their number. */
static tdm_status cut_down(group *groups, size_t *count, size_t few)
{
    static const char others[] = "others";
    double *sums = tdmi_malloc(*count * sizeof *sums, "hta table"), sum = 0;
    if (sums == NULL)
        return TDM_ERR_NO_MEMORY;
    for (size_t i = 0; i < *count; i++)
        sums[i] = sum += groups[i].sum;
    const double quantile = tdmi_hta_quantile(sums, *count, cut_at);
    group rest = {.name = others};
    size_t left = 0;
    for (size_t i = 0; i < *count; i++) {
        const double of_name = groups[i].sum;
        if (i >= few || sums[i] > quantile || strcmp(groups[i].name, others) == 0) {
            add(&rest, of_name);
            sums[i] = of_name;
        } else {
            group alone = {.name = groups[i].name};
            add(&alone, of_name);
            sums[i] = NAN; /* not one of the others */
            groups[left++] = alone;
        }
    }
    if (rest.count > 0) {
        const double mean = rest.sum / (double)rest.count;
        for (size_t i = 0; i < *count; i++)
            if (!isnan(sums[i]))
                rest.squares += (sums[i] - mean) * (sums[i] - mean);
        groups[left++] = rest;
    }
    tdmi_free(sums);
    *count = left;
    return TDM_OK;
}

static tdm_status finish(table *t, size_t few, tdmi_hta_type type, tdmi_hta_table_row **rows, size_t *count)
{
    qsort(t->groups, t->count, sizeof *t->groups, by_sum);
    tdm_status status = t->count > few ? cut_down(t->groups, &t->count, few) : TDM_OK;
    qsort(t->groups, t->count, sizeof *t->groups, by_name);
    return status == TDM_OK ? append(rows, count, t->groups, t->count, type) : status;
}

static tdm_status open_table(const tdmi_trace *trace, table *t)
{
    t->group_of = tdmi_malloc((trace->text_count + 1) * sizeof *t->group_of, "hta table");
    t->groups = tdmi_malloc((trace->text_count + 1) * sizeof *t->groups, "hta table");
    return t->group_of != NULL && t->groups != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
}

static void clear(const tdmi_trace *trace, table *t)
{
    memset(t->group_of, UINT8_MAX, (trace->text_count + 1) * sizeof *t->group_of); /* TDMI_NONE */
    t->count = 0;
}

static void close_table(table *t)
{
    tdmi_free(t->group_of);
    tdmi_free(t->groups);
}

static void add_squares(group *g, double ns)
{
    const double off = ns - g->sum / (double)g->count;
    g->squares += off * off;
}

tdm_status tdmi_hta_kernel_table(const tdmi_hta_rank *rank, tdmi_hta_rank_figures *out)
{
    table t = {0};
    tdm_status status = open_table(rank->trace, &t);
    for (int type = TDMI_HTA_COMPUTATION; status == TDM_OK && type <= TDMI_HTA_MEMORY; type++) {
        clear(rank->trace, &t);
        for (int squares = 0; squares < 2; squares++) /* the second time the means are known */
            for (size_t i = 0; i < rank->kernel_count; i++) {
                const tdmi_hta_kernel *kernel = &rank->kernel[i];
                for (uint32_t c = 0; kernel->type == type && c < kernel->copies; c++)
                    (squares ? add_squares : add)(group_of(rank->trace, &t, kernel->name), (double)kernel->dur_ns);
            }
        status = finish(&t, FEW_KERNELS, (tdmi_hta_type)type, &out->kernel, &out->kernel_count);
    }
    close_table(&t);
    return status;
}

tdm_status tdmi_hta_annotation_table(const tdmi_hta_rank *rank, tdmi_hta_rank_figures *out)
{
    const tdmi_trace *trace = rank->trace;
    table t = {0};
    if (trace->kind_count[TDMI_EVENT_GPU_ANNOTATION] == 0)
        return TDM_OK;
    tdm_status status = open_table(trace, &t);
    if (status == TDM_OK) {
        clear(trace, &t);
        for (int squares = 0; squares < 2; squares++)
            for (size_t i = 0; i < trace->event_count; i++) {
                const tdmi_event *event = &trace->event[i];
                if (event->kind != TDMI_EVENT_GPU_ANNOTATION)
                    continue;
                int64_t start_ns, dur_ns;
                tdmi_hta_row_times(rank->rounded, event, &start_ns, &dur_ns);
                for (uint32_t c = tdmi_hta_row_copies(rank, event); c > 0; c--)
                    (squares ? add_squares : add)(group_of(trace, &t, event->name), (double)dur_ns);
            }
        status = finish(&t, FEW_ANNOTATIONS, TDMI_HTA_OTHER, &out->annotation, &out->annotation_count);
    }
    close_table(&t);
    return status;
}
