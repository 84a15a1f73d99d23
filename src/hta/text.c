/* text.c - the figures as tables for people, 100 columns wide. */
#include "hta/hta.h"

#include "core/memory.h"
#include "core/printable.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A number of us, or "-". */
static const char *us(double ns, char text[32])
{
    if (isfinite(ns))
        snprintf(text, 32, "%.0f", ns / 1000);
    else
        strcpy(text, "-");
    return text;
}

static double pct(double part, double whole)
{
    return whole != 0 ? 100 * part / whole : 0;
}

/* Columns that the widest rank takes; up to 10 fit. */
static int rank_columns(const tdmi_hta_figures *figures)
{
    int columns = 4;
    for (size_t r = 0; r < figures->rank_count; r++) {
        const int needed = snprintf(NULL, 0, "%d", figures->rank[r].rank);
        columns = needed > columns ? needed : columns;
    }
    return columns;
}

/* A paragraph, broken at blanks before the 100th column; lines after the first are indented. */
static void put_paragraph(FILE *file, const char *head, const char *text)
{
    enum { COLUMNS = 100 };
    size_t column = strlen(head);
    fputs(head, file);
    while (*text != '\0') {
        const size_t word = strcspn(text, " ");
        if (column + word + 1 > COLUMNS && column > 6) {
            fputs("\n     ", file);
            column = 5;
        }
        fprintf(file, " %.*s", (int)word, text);
        column += word + 1;
        text += word + (text[word] == ' ');
    }
    fputc('\n', file);
}

static bool failed(FILE *file, const tdmi_hta_figures *figures, tdmi_hta_metric metric)
{
    if (figures->error[metric] != NULL)
        put_paragraph(file, "  HTA has none:", figures->error[metric]);
    return figures->error[metric] != NULL;
}

static void put_head(FILE *file, const tdmi_job_traces *job, const tdmi_hta_figures *figures)
{
    fprintf(file, "HTA 0.5.0's numbers of %zu rank%s", figures->rank_count, figures->rank_count == 1 ? "" : "s");
    if (figures->step_count > 0) {
        fprintf(file, ", iteration%s", figures->step_count == 1 ? "" : "s");
        for (size_t i = 0; i < figures->step_count && i < 8; i++)
            fprintf(file, "%s %lld", i > 0 ? "," : "", (long long)figures->step[i]);
        fputs(figures->step_count > 8 ? ", ..." : "", file);
    }
    fputs("; times in us\n", file);
    for (size_t i = 0; i < job->note_count; i++)
        put_paragraph(file, "note:", job->note[i]);
    for (size_t r = 0; r < job->count; r++)
        for (size_t i = 0; i < job->rank[r]->note_count; i++) {
            char head[48];
            snprintf(head, sizeof head, "note: rank %d:", job->rank[r]->rank);
            put_paragraph(file, head, job->rank[r]->note[i]);
        }
}

/* HTA's values, and how far its rounding has moved them. */
static void put_temporal(FILE *file, const tdmi_hta_figures *figures)
{
    fputs("\nTemporal breakdown\n", file);
    failed(file, figures, TDMI_HTA_METRIC_TEMPORAL); /* the ranks that have values are shown all the same */
    const int wide = rank_columns(figures);
    fprintf(file, "  %*s       in all         idle      %%      compute      %%        other      %% compute, exact\n", wide, "rank");
    for (size_t r = 0; r < figures->rank_count; r++) {
        const tdmi_hta_temporal_figures *t = &figures->rank[r].temporal, *exact = &figures->rank[r].temporal_exact;
        if (t->any)
            fprintf(file, "  %*d %12.0f %12.0f %6.2f %12.0f %6.2f %12.0f %6.2f %14.3f\n", wide, figures->rank[r].rank, t->span_ns / 1e3, t->idle_ns / 1e3,
                    pct(t->idle_ns, t->span_ns), t->compute_ns / 1e3, pct(t->compute_ns, t->span_ns), t->non_compute_ns / 1e3,
                    pct(t->non_compute_ns, t->span_ns), exact->compute_ns / 1e3);
    }
}

static void put_overlap(FILE *file, const tdmi_hta_figures *figures)
{
    const int wide = rank_columns(figures);
    fprintf(file, "\nCommunication beside computation, %% of communication\n  %*s      HTA   unrounded\n", wide, "rank");
    for (size_t r = 0; r < figures->rank_count; r++) {
        const tdmi_hta_rank_figures *rank = &figures->rank[r];
        if (isnan(rank->overlap_pct))
            fprintf(file, "  %*d        -           -  (no communication)\n", wide, rank->rank);
        else
            fprintf(file, "  %*d %8.2f %11.2f\n", wide, rank->rank, rank->overlap_pct, rank->overlap_exact_pct);
    }
}

static void put_types(FILE *file, const tdmi_hta_figures *figures)
{
    double ns[8] = {0}, sum_ns = 0;
    for (size_t r = 0; r < figures->rank_count; r++)
        for (int running = 1; running < 8; running++) {
            ns[running] += figures->rank[r].with_memory.ns[running];
            sum_ns += figures->rank[r].with_memory.ns[running];
        }
    fputs("\nWhat ran on the GPUs, all ranks together\n", file);
    for (int running = 1; running < 8; running++)
        if (ns[running] > 0)
            fprintf(file, "  %-56s %14.0f %5.1f %%\n", tdmi_hta_running_name(running), ns[running] / 1e3, pct(ns[running], sum_ns));
}

static void put_idle(FILE *file, const tdmi_hta_figures *figures)
{
    fputs("\nGaps between the kernels of a stream, by cause\n", file);
    if (failed(file, figures, TDMI_HTA_METRIC_IDLE))
        return;
    const int wide = rank_columns(figures);
    fprintf(file, "  %*s  stream    host wait  kernel wait        other\n", wide, "rank");
    for (size_t r = 0; r < figures->rank_count; r++)
        for (size_t i = 0; i < figures->rank[r].idle_count; i++) {
            const tdmi_hta_idle_figures *s = &figures->rank[r].idle[i];
            fprintf(file, "  %*d %7lld %12.0f %12.0f %12.0f\n", wide, figures->rank[r].rank, (long long)s->stream, s->ns[0] / 1e3, s->ns[1] / 1e3, s->ns[2] / 1e3);
        }
}

static int by_sum(const void *a, const void *b)
{
    const tdmi_hta_table_row *left = a, *right = b;
    return (left->sum_ns < right->sum_ns) - (left->sum_ns > right->sum_ns);
}

/* One rank's: HTA's table for the others is in the JSON. */
static bool put_kernels(FILE *file, const tdmi_hta_figures *figures)
{
    enum { SHOWN = 15, NAME_COLUMNS = 50 };
    const tdmi_hta_rank_figures *rank = &figures->rank[0];
    if (rank->kernel_count == 0)
        return true;
    tdmi_hta_table_row *rows = tdmi_malloc(rank->kernel_count * sizeof *rows, "hta text");
    if (rows == NULL)
        return false;
    memcpy(rows, rank->kernel, rank->kernel_count * sizeof *rows);
    qsort(rows, rank->kernel_count, sizeof *rows, by_sum);
    fprintf(file, "\nKernels of rank %d (all ranks: --json)\n  %-*s %10s %10s %10s %10s\n", rank->rank, NAME_COLUMNS, "name", "sum", "mean", "max", "min");
    for (size_t i = 0; i < rank->kernel_count && i < SHOWN; i++) {
        char name[NAME_COLUMNS + 1];
        size_t n = 0;
        for (; n < NAME_COLUMNS && rows[i].name[n] != '\0'; n++) /* a table shows no control characters, nor halves of letters */
            name[n] = rows[i].name[n] >= ' ' && rows[i].name[n] <= '~' ? rows[i].name[n] : '?';
        name[n] = '\0';
        fprintf(file, "  %-*s %10.0f %10.1f %10.0f %10.0f\n", NAME_COLUMNS, name, rows[i].sum_ns / 1e3, rows[i].mean_ns / 1e3, rows[i].max_ns / 1e3,
                rows[i].min_ns / 1e3);
    }
    tdmi_free(rows);
    return true;
}

static void put_queues(FILE *file, const tdmi_hta_figures *figures)
{
    fputs("\nOperations waiting on a stream\n", file);
    if (failed(file, figures, TDMI_HTA_METRIC_QUEUE))
        return;
    const int wide = rank_columns(figures);
    fprintf(file, "  %*s  stream      points       mean        std        min        50%%        max\n", wide, "rank");
    for (size_t r = 0; r < figures->rank_count; r++) {
        for (size_t i = 0; i < figures->rank[r].queue_count; i++) {
            const tdmi_hta_describe *q = &figures->rank[r].queue[i].length;
            fprintf(file, "  %*d %7lld %11.0f %10.2f %10.2f %10.0f %10.1f %10.0f\n", wide, figures->rank[r].rank, (long long)figures->rank[r].queue[i].stream, q->count,
                    q->mean, q->std, q->min, q->half, q->max);
        }
        if (figures->rank[r].was_full)
            fprintf(file, "  rank %d: stream %lld was full (1024) for %.0f us, %.1f %% of the trace\n", figures->rank[r].rank,
                    (long long)figures->rank[r].full_stream,
                    figures->rank[r].full_ns / 1e3, 100 * figures->rank[r].full_ratio);
    }
}

static void put_bandwidths(FILE *file, const tdmi_hta_figures *figures)
{
    const int wide = rank_columns(figures);
    fprintf(file, "\nBandwidth of copies, GB/s\n  %*s  kind               points       mean        std        50%%        max\n", wide, "rank");
    for (size_t r = 0; r < figures->rank_count; r++)
        for (size_t i = 0; i < figures->rank[r].bandwidth_count; i++) {
            const tdmi_hta_describe *b = &figures->rank[r].bandwidth[i].gbps;
            fprintf(file, "  %*d  %-14s %10.0f %10.3f %10.3f %10.3f %10.3f\n", wide, figures->rank[r].rank, figures->rank[r].bandwidth[i].name, b->count, b->mean,
                    b->std, b->half, b->max);
        }
}

static void put_launches(FILE *file, const tdmi_hta_figures *figures)
{
    char longest[32];
    const int wide = rank_columns(figures);
    fprintf(file, "\nLaunches\n  %*s    count     call sum   kernel sum    delay sum delay max short kernels slow calls late\n", wide, "rank");
    for (size_t r = 0; r < figures->rank_count; r++) {
        const tdmi_hta_launch_figures *l = &figures->rank[r].launches;
        fprintf(file, "  %*d %8.0f %12.0f %12.0f %12.0f %9s %13.0f %10.0f %4.0f\n", wide, figures->rank[r].rank, l->count, l->cpu_ns / 1e3, l->gpu_ns / 1e3,
                l->delay_ns / 1e3, us(l->delay_max_ns, longest), l->short_kernels, l->slow_calls, l->late_kernels);
    }
}

static void put_stragglers(FILE *file, const tdmi_hta_figures *figures)
{
    if (figures->rank_count < 2)
        return;
    fputs("\nPotential stragglers\n", file);
    if (failed(file, figures, TDMI_HTA_METRIC_STRAGGLERS))
        return;
    for (size_t i = 0; i < figures->straggler_count; i++)
        fprintf(file, "  rank %d\n", figures->straggler[i]);
}

tdm_status tdmi_hta_text(const tdmi_job_traces *job, const tdmi_hta_figures *figures, char **out)
{
    char *text = NULL;
    size_t nbytes;
    FILE *file = open_memstream(&text, &nbytes);
    bool fine = file != NULL;
    if (fine) {
        put_head(file, job, figures);
        put_temporal(file, figures);
        put_overlap(file, figures);
        put_types(file, figures);
        put_idle(file, figures);
        fine = put_kernels(file, figures);
        put_queues(file, figures);
        put_bandwidths(file, figures);
        put_launches(file, figures);
        put_stragglers(file, figures);
        fine &= fclose(file) == 0;
    }
    if (fine)
        tdmi_printable(text, true);
    *out = fine ? tdmi_strdup(text, "hta text") : NULL;
    free(text);
    return *out != NULL ? TDM_OK : tdmi_fail(TDM_ERR_NO_MEMORY, "HTA's numbers as text need more memory than there is");
}
