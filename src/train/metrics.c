/* metrics.c - metrics.jsonl and summary.json, written with jansson. */
#include "train/metrics.h"

#include "core/memory.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tdmi_metrics {
    char *dir;
    FILE *file, *also_to;
    double *step_ms; /* of the steps of this run */
    size_t count, capacity;
    double step_ms_sum, comm_ms_sum, exposed_ms_sum, tokens_sum;
};

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

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

tdm_status tdmi_metrics_open(const char *dir, bool resume, int64_t after_step, size_t capacity, FILE *also_to, tdmi_metrics **out)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
    tdmi_metrics *m = tdmi_calloc(1, sizeof *m, "metrics");
    if (m == NULL)
        return TDM_ERR_NO_MEMORY;
    m->also_to = also_to;
    m->capacity = capacity;
    m->dir = tdmi_strdup(dir, "metrics");
    m->step_ms = tdmi_calloc(capacity > 0 ? capacity : 1, sizeof *m->step_ms, "metrics");
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

tdm_status tdmi_metrics_add(tdmi_metrics *metrics, const tdmi_step_metrics *m)
{
    if (metrics->count < metrics->capacity)
        metrics->step_ms[metrics->count++] = m->step_ms;
    metrics->step_ms_sum += m->step_ms;
    metrics->comm_ms_sum += m->comm_ms;
    metrics->exposed_ms_sum += m->comm_exposed_ms;
    metrics->tokens_sum += m->tokens_per_s * m->step_ms / 1e3;

    json_t *o = json_object();
    json_object_set_new(o, "step", json_integer(m->step));
    json_object_set_new(o, "loss", number(m->loss));
    json_object_set_new(o, "lr", number(m->lr));
    json_object_set_new(o, "grad_norm", number(m->grad_norm));
    json_object_set_new(o, "samples", json_integer(m->samples));
    json_object_set_new(o, "tokens", json_integer(m->tokens));
    json_object_set_new(o, "step_ms", number(m->step_ms));
    json_object_set_new(o, "data_ms", number(m->data_ms));
    json_object_set_new(o, "forward_ms", number(m->forward_ms));
    json_object_set_new(o, "backward_ms", number(m->backward_ms));
    json_object_set_new(o, "comm_ms", number(m->comm_ms));
    json_object_set_new(o, "comm_exposed_ms", number(m->comm_exposed_ms));
    json_object_set_new(o, "optimizer_ms", number(m->optimizer_ms));
    json_object_set_new(o, "tokens_per_s", number(m->tokens_per_s));
    json_object_set_new(o, "images_per_s", json_null());
    json_object_set_new(o, "scale", json_null());
    json_object_set_new(o, "skipped", json_null());
    if (isfinite(m->val_loss))
        json_object_set_new(o, "val_loss", number(m->val_loss));
    char *text = json_dumps(o, JSON_COMPACT | JSON_PRESERVE_ORDER);
    json_decref(o);
    if (text == NULL)
        return tdmi_fail(TDM_ERR_NO_MEMORY, "no memory for a line of metrics");
    tdm_status st = write_line(metrics->file, text, metrics->dir);
    if (st == TDM_OK && metrics->also_to != NULL)
        st = write_line(metrics->also_to, text, "the output");
    free(text);
    return st;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

tdm_status tdmi_metrics_summarise(tdmi_metrics *m, tdmi_summary *s)
{
    qsort(m->step_ms, m->count, sizeof *m->step_ms, by_value);
    s->median_step_ms = m->count > 0 ? m->step_ms[m->count / 2] : NAN;
    s->tokens_per_s = m->count > 0 ? m->tokens_sum / (double)m->count / s->median_step_ms * 1e3 : NAN;
    s->comm_share = m->step_ms_sum > 0 ? m->comm_ms_sum / m->step_ms_sum : NAN;
    s->exposed_comm_share = m->step_ms_sum > 0 ? m->exposed_ms_sum / m->step_ms_sum : NAN;

    json_t *o = json_object();
    json_object_set_new(o, "model", json_string(s->model));
    json_object_set_new(o, "parameters", json_integer((json_int_t)s->parameters));
    json_object_set_new(o, "ranks", json_integer(s->ranks));
    json_object_set_new(o, "steps", json_integer(s->steps));
    json_object_set_new(o, "median_step_ms", number(s->median_step_ms));
    json_object_set_new(o, "tokens_per_s", number(s->tokens_per_s));
    json_object_set_new(o, "images_per_s", json_null());
    json_object_set_new(o, "comm_share", number(s->comm_share));
    json_object_set_new(o, "exposed_comm_share", number(s->exposed_comm_share));
    json_object_set_new(o, "peak_rss_mb", number(s->peak_rss_mb));
    json_object_set_new(o, "train_loss", number(s->train_loss));
    json_object_set_new(o, "val_loss", number(s->val_loss));
    json_object_set_new(o, "seconds", number(s->seconds));

    char path[4096], temporary[4096];
    snprintf(path, sizeof path, "%s/summary.json", m->dir);
    snprintf(temporary, sizeof temporary, "%s/.summary.json.tmp", m->dir);
    char *text = json_dumps(o, JSON_PRESERVE_ORDER);
    json_decref(o);
    if (text == NULL)
        return tdmi_fail(TDM_ERR_NO_MEMORY, "no memory for the summary");
    tdm_status st = TDM_OK;
    FILE *file = fopen(temporary, "w");
    if (file == NULL)
        st = tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "opening %s", temporary);
    else {
        st = write_line(file, text, m->dir);
        if (fclose(file) != 0 && st == TDM_OK)
            st = tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "writing %s", temporary);
        if (st == TDM_OK && rename(temporary, path) != 0)
            st = tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "renaming %s", temporary);
        if (st != TDM_OK)
            (void)unlink(temporary);
    }
    if (st == TDM_OK && m->also_to != NULL)
        st = write_line(m->also_to, text, "the output");
    free(text);
    return st;
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
