/* metrics.c - metrics.jsonl and summary.json. */
#include "train/metrics.h"

#include "core/memory.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEPS_KEPT ((size_t)1 << 20)
#define LINE_BYTES 4096 /* 20 fields: each a name, and at most 310 digits where it is a time */

struct tdmi_metrics {
    char *dir;
    FILE *file, *also_to;
    double *step_ms; /* [capacity], of the last steps of this run */
    size_t count, capacity; /* count: of all steps */
    double sent_mb_sum, plain_mb; /* plain_mb: of every step */
    double step_ms_sum, comm_ms_sum, exposed_ms_sum, tokens_sum;
    char line[LINE_BYTES];
};

/* Cuts a metrics file behind the last whole line whose step is at most after_step. */
static tdm_status cut_after(FILE *file, int64_t after_step)
{
    char *line = NULL;
    size_t capacity = 0;
    long end = 0;
    ssize_t length;
    while ((length = getline(&line, &capacity, file)) > 0) {
        json_t *object = json_loads(line, 0, NULL);
        json_int_t step = json_integer_value(json_object_get(object, "step"));
        bool keep = json_is_integer(json_object_get(object, "step")) && step <= after_step && line[length - 1] == '\n';
        json_decref(object);
        if (!keep)
            break;
        end = ftell(file);
    }
    free(line);
    if (ftruncate(fileno(file), end) != 0 || fseek(file, end, SEEK_SET) != 0)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cutting metrics.jsonl behind step %lld", (long long)after_step);
    return TDM_OK;
}

tdm_status tdmi_metrics_open(const char *dir, bool resume, int64_t after_step, size_t steps, FILE *also_to, tdmi_metrics **out)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
    tdmi_metrics *m = tdmi_calloc(1, sizeof *m, "metrics");
    if (m == NULL)
        return TDM_ERR_NO_MEMORY;
    m->also_to = also_to;
    m->capacity = steps == 0 ? 1 : steps < STEPS_KEPT ? steps : STEPS_KEPT;
    m->dir = tdmi_strdup(dir, "metrics");
    m->step_ms = tdmi_calloc(m->capacity, sizeof *m->step_ms, "metrics");
    tdm_status st = m->dir == NULL || m->step_ms == NULL ? TDM_ERR_NO_MEMORY : TDM_OK;
    if (st == TDM_OK) {
        m->file = fopen(path, resume ? "a+" : "w");
        if (m->file == NULL)
            st = tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "opening %s", path);
    }
    if (st == TDM_OK && resume) {
        rewind(m->file);
        st = cut_after(m->file, after_step);
    }
    if (st != TDM_OK) {
        tdmi_metrics_close(m);
        return st;
    }
    *out = m;
    return TDM_OK;
}

void tdmi_metrics_close(tdmi_metrics *m)
{
    if (m == NULL)
        return;
    if (m->file != NULL)
        fclose(m->file);
    tdmi_free(m->dir);
    tdmi_free(m->step_ms);
    tdmi_free(m);
}

static tdm_status write_line(FILE *file, const char *text, const char *dir)
{
    if (fprintf(file, "%s\n", text) < 0 || fflush(file) != 0)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "writing metrics of %s", dir);
    return TDM_OK;
}

/* Appends "name":value, with the digits that give the same double back; null where it is not finite. */
static size_t put_exact(char *at, const char *name, double value)
{
    char digits[32] = "null";
    for (int precision = 9; isfinite(value) && precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    return (size_t)sprintf(at, "\"%s\":%s,", name, digits);
}

static size_t put_rounded(char *at, const char *name, double value)
{
    return (size_t)(isfinite(value) ? sprintf(at, "\"%s\":%.3f,", name, value) : sprintf(at, "\"%s\":null,", name));
}

static size_t put_count(char *at, const char *name, int64_t value)
{
    return (size_t)sprintf(at, "\"%s\":%lld,", name, (long long)value);
}

/* Without memory of the heap: a step allocates nothing. */
static void line_of(const tdmi_step_metrics *m, char line[LINE_BYTES])
{
    const struct {
        const char *name;
        double value;
    } times[] = {{"step_ms", m->step_ms}, {"data_ms", m->data_ms}, {"forward_ms", m->forward_ms}, {"backward_ms", m->backward_ms},
                 {"comm_ms", m->comm_ms}, {"comm_exposed_ms", m->comm_exposed_ms}, {"optimizer_ms", m->optimizer_ms},
                 {"tokens_per_s", m->tokens_per_s}, {"sent_mb", m->sent_mb}};
    char *at = line;
    *at++ = '{';
    at += put_count(at, "step", m->step);
    at += put_exact(at, "loss", m->loss);
    at += put_exact(at, "lr", m->lr);
    at += put_exact(at, "grad_norm", m->grad_norm);
    at += put_count(at, "samples", m->samples);
    at += put_count(at, "tokens", m->tokens);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        at += put_rounded(at, times[i].name, times[i].value);
    at += sprintf(at, "\"images_per_s\":null,");
    if (m->scale > 0) {
        at += put_exact(at, "scale", m->scale);
        at += put_count(at, "skipped", m->skipped);
    } else {
        at += sprintf(at, "\"scale\":null,\"skipped\":null,");
    }
    if (isfinite(m->val_loss))
        at += put_exact(at, "val_loss", m->val_loss);
    at[-1] = '}';
}

tdm_status tdmi_metrics_add(tdmi_metrics *metrics, const tdmi_step_metrics *m)
{
    metrics->step_ms[metrics->count++ % metrics->capacity] = m->step_ms;
    metrics->step_ms_sum += m->step_ms;
    metrics->sent_mb_sum += m->sent_mb;
    metrics->plain_mb = m->plain_mb;
    metrics->comm_ms_sum += m->comm_ms;
    metrics->exposed_ms_sum += m->comm_exposed_ms;
    metrics->tokens_sum += m->tokens_per_s * m->step_ms / 1e3;

    line_of(m, metrics->line);
    tdm_status st = write_line(metrics->file, metrics->line, metrics->dir);
    if (st == TDM_OK && metrics->also_to != NULL)
        st = write_line(metrics->also_to, metrics->line, "the output");
    return st;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

tdm_status tdmi_metrics_summarise(tdmi_metrics *m, tdmi_summary *s)
{
    size_t kept = m->count < m->capacity ? m->count : m->capacity;
    qsort(m->step_ms, kept, sizeof *m->step_ms, by_value);
    s->median_step_ms = kept > 0 ? m->step_ms[kept / 2] : NAN;
    s->tokens_per_s = m->count > 0 ? m->tokens_sum / (double)m->count / s->median_step_ms * 1e3 : NAN;
    s->comm_share = m->step_ms_sum > 0 ? m->comm_ms_sum / m->step_ms_sum : NAN;
    s->exposed_comm_share = m->step_ms_sum > 0 ? m->exposed_ms_sum / m->step_ms_sum : NAN;

    s->sent_mb = m->count > 0 ? m->sent_mb_sum / (double)m->count : NAN;
    s->plain_mb = m->plain_mb;

    char *at = m->line + sprintf(m->line, "{\"model\":\"%s\",", s->model); /* a plain word */
    at += put_count(at, "parameters", (int64_t)s->parameters);
    at += put_count(at, "ranks", s->ranks);
    at += put_count(at, "steps", s->steps);
    at += put_rounded(at, "median_step_ms", s->median_step_ms);
    at += put_rounded(at, "tokens_per_s", s->tokens_per_s);
    at += sprintf(at, "\"images_per_s\":null,");
    at += put_rounded(at, "comm_share", s->comm_share);
    at += put_rounded(at, "exposed_comm_share", s->exposed_comm_share);
    at += put_rounded(at, "peak_rss_mb", s->peak_rss_mb);
    at += put_rounded(at, "sent_mb", s->sent_mb);
    at += put_rounded(at, "plain_mb", s->plain_mb);
    at += put_exact(at, "train_loss", s->train_loss);
    at += put_exact(at, "val_loss", s->val_loss);
    at += put_rounded(at, "seconds", s->seconds);
    at[-1] = '}';

    char path[4096], temporary[4096];
    snprintf(path, sizeof path, "%s/summary.json", m->dir);
    snprintf(temporary, sizeof temporary, "%s/.summary.json.tmp", m->dir);
    tdm_status st = TDM_OK;
    FILE *file = fopen(temporary, "w");
    if (file == NULL)
        st = tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "opening %s", temporary);
    else {
        st = write_line(file, m->line, m->dir);
        if (fclose(file) != 0 && st == TDM_OK)
            st = tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "writing %s", temporary);
        if (st == TDM_OK && rename(temporary, path) != 0)
            st = tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "renaming %s", temporary);
        if (st != TDM_OK)
            (void)unlink(temporary);
    }
    return st == TDM_OK && m->also_to != NULL ? write_line(m->also_to, m->line, "the output") : st;
}

size_t tdmi_own_pss(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    if (file == NULL)
        return 0;
    char line[256];
    unsigned long long kilobytes = 0;
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "Pss: %llu kB", &kilobytes) == 1)
            break;
    fclose(file);
    return (size_t)kilobytes * 1024;
}
