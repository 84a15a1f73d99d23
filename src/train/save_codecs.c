/* save_codecs.c - writes and reads what save_codecs.h lists. */
#include "train/save_codecs.h"

#include "core/memory.h"

#include <stdio.h>
#include <string.h>

#define NAME_BYTES 192

static bool has_codecs(const tdmi_trainer *t)
{
    return t->graph->compressed && t->size > 1;
}

static bool has_served(const tdmi_trainer *t)
{
    return t->settings.compress.codec == TDM_CODEC_ONEBIT;
}

static size_t parameters(const tdmi_trainer *t)
{
    return tdmi_layout_count(t->model_layout);
}

/* ---- names, and where they stand: moments, errors rank by rank, served, factors in the order of visits ---- */

static void error_name(int rank, const char *parameter, char out[NAME_BYTES])
{
    snprintf(out, NAME_BYTES, "error.%d.%s", rank, parameter);
}

static void served_name(const char *parameter, char out[NAME_BYTES])
{
    snprintf(out, NAME_BYTES, "served.%s", parameter);
}

static void factor_name(const char *parameter, size_t first, char out[NAME_BYTES])
{
    snprintf(out, NAME_BYTES, "factor.%s.%zu", parameter, first);
}

static size_t error_index(const tdmi_trainer *t, int rank)
{
    return ((size_t)tdmi_optimizer_moments(&t->settings.optimizer) + (size_t)rank) * parameters(t);
}

static size_t file_index(const tdmi_graph *g, tdmi_id parameter)
{
    size_t index = 0;
    for (tdmi_id p = 0; p < parameter; p++)
        index += g->tensor[p].role == TDMI_ROLE_PARAMETER;
    return index;
}

static tdm_status add_all(tdmi_trainer *t, int rank)
{
    tdm_status st = TDM_OK;
    for (tdmi_id p = 0; p < t->graph->tensor_count && st == TDM_OK; p++) {
        const tdmi_tensor *tensor = &t->graph->tensor[p];
        char name[NAME_BYTES];
        if (tensor->role != TDMI_ROLE_PARAMETER)
            continue;
        if (rank < t->size)
            error_name(rank, tensor->name, name);
        else
            served_name(tensor->name, name);
        const uint64_t count = tdmi_shape_count(&tensor->shape);
        st = tdmi_layout_add(t->optimizer_layout, name, 1, &count);
    }
    return st;
}

static tdm_status add_factor(void *arg, tdmi_codec_state what, tdmi_id p, size_t first, size_t count, float *values)
{
    tdmi_trainer *t = arg;
    char name[NAME_BYTES];
    const uint64_t shape = count;
    (void)values;
    if (what != TDMI_CODEC_FACTOR)
        return TDM_OK;
    factor_name(t->graph->tensor[p].name, first, name);
    return tdmi_layout_add(t->optimizer_layout, name, 1, &shape);
}

tdm_status tdmi_codecs_add_layout(tdmi_trainer *t)
{
    if (!has_codecs(t))
        return TDM_OK;
    tdm_status st = TDM_OK;
    for (int r = 0; r < t->size + has_served(t) && st == TDM_OK; r++)
        st = add_all(t, r);
    return st == TDM_OK ? tdmi_exec_visit_codecs(t->exec, add_factor, t) : st;
}

/* ---- writing ---- */

typedef struct write_target {
    const tdmi_trainer *trainer;
    tdmi_safetensors_writer *writer;
    size_t next_factor;
} write_target;

static tdm_status write_piece(void *arg, tdmi_codec_state what, tdmi_id p, size_t first, size_t count, float *values)
{
    write_target *to = arg;
    const tdmi_trainer *t = to->trainer;
    if (what == TDMI_CODEC_FACTOR) { /* equal on all ranks */
        const size_t index = to->next_factor++;
        return t->rank == 0 ? tdmi_safetensors_write(to->writer, index, 0, count, values) : TDM_OK;
    }
    const size_t begin = error_index(t, what == TDMI_CODEC_RESIDUAL ? t->rank : t->size);
    return tdmi_safetensors_write(to->writer, begin + file_index(t->graph, p), first, count, values);
}

tdm_status tdmi_codecs_write(tdmi_trainer *t, tdmi_safetensors_writer *writer)
{
    write_target to = {t, writer, error_index(t, t->size + has_served(t))};
    return has_codecs(t) ? tdmi_exec_visit_codecs(t->exec, write_piece, &to) : TDM_OK;
}

/* ---- reading ---- */

typedef struct read_target {
    const tdmi_trainer *trainer;
    const tdmi_safetensors *file;
    const char *folder;
    int ranks;
} read_target;

/* values <- elements of a tensor; `size`: of all of it. */
static tdm_status read_range(const read_target *from, const char *name, size_t size, size_t first, size_t count, float *values)
{
    const tdmi_file_tensor *tensor = tdmi_safetensors_find(from->file, name);
    if (tensor == NULL || tensor->count != size)
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s: optimizer.safetensors has no %s of %zu elements; was it another --compress or --bucket-mb?",
                         from->folder, name, size);
    return tdmi_safetensors_read(from->file, tensor, first, count, values);
}

/* The errors of all ranks there were, shared out: each rank of now gets the mean, so that their average is what it was. */
static tdm_status read_mean(const read_target *from, const tdmi_tensor *tensor, size_t first, size_t count, float *values)
{
    float *one = tdmi_malloc(count * sizeof *one, "reading a checkpoint");
    tdm_status st = one == NULL ? TDM_ERR_NO_MEMORY : TDM_OK;
    memset(values, 0, count * sizeof *values);
    for (int r = 0; r < from->ranks && st == TDM_OK; r++) {
        char name[NAME_BYTES];
        error_name(r, tensor->name, name);
        st = read_range(from, name, tdmi_shape_count(&tensor->shape), first, count, one);
        for (size_t i = 0; i < count && st == TDM_OK; i++)
            values[i] += one[i] / (float)from->ranks;
    }
    tdmi_free(one);
    return st;
}

static tdm_status read_piece(void *arg, tdmi_codec_state what, tdmi_id p, size_t first, size_t count, float *values)
{
    const read_target *from = arg;
    const tdmi_trainer *t = from->trainer;
    const tdmi_tensor *tensor = &t->graph->tensor[p];
    char name[NAME_BYTES];
    switch (what) {
    case TDMI_CODEC_RESIDUAL:
        if (from->ranks != t->size)
            return read_mean(from, tensor, first, count, values);
        error_name(t->rank, tensor->name, name);
        break;
    case TDMI_CODEC_SERVED:
        served_name(tensor->name, name);
        break;
    case TDMI_CODEC_FACTOR:
        factor_name(tensor->name, first, name);
        if (from->ranks != t->size && tdmi_safetensors_find(from->file, name) == NULL)
            return TDM_OK;
        return read_range(from, name, count, 0, count, values);
    }
    return read_range(from, name, tdmi_shape_count(&tensor->shape), first, count, values);
}

tdm_status tdmi_codecs_read(tdmi_trainer *t, const tdmi_safetensors *file, const char *folder, int ranks)
{
    read_target from = {t, file, folder, ranks};
    return has_codecs(t) && ranks > 1 ? tdmi_exec_visit_codecs(t->exec, read_piece, &from) : TDM_OK;
}
