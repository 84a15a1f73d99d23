/* save_codecs.c - writes and reads what save_codecs.h lists. */
#include "train/save_codecs.h"

#include "core/memory.h"

#include <stdio.h>
#include <string.h>

#define NAME_BYTES 192

tdmi_codec_file tdmi_codecs_of(const tdmi_settings *s, tdm_group *group, const tdmi_graph *g, tdmi_exec *exec)
{
    return (tdmi_codec_file){.graph = g, .exec = exec, .rank = tdm_group_rank(group), .size = tdm_group_size(group),
                             .has_served = s->compress.codec == TDM_CODEC_ONEBIT};
}

static bool has_codecs(const tdmi_codec_file *c)
{
    return c->graph->compressed && c->size > 1;
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

static size_t file_index(const tdmi_graph *g, tdmi_id parameter)
{
    size_t index = 0;
    for (tdmi_id p = 0; p < parameter; p++)
        index += g->tensor[p].role == TDMI_ROLE_PARAMETER;
    return index;
}

static size_t error_index(const tdmi_codec_file *c, int rank)
{
    return c->first + (size_t)rank * file_index(c->graph, c->graph->tensor_count);
}

typedef struct layout_target {
    const tdmi_codec_file *file;
    tdmi_layout *layout;
} layout_target;

static tdm_status add_all(const tdmi_codec_file *c, tdmi_layout *layout, int rank)
{
    tdm_status st = TDM_OK;
    for (tdmi_id p = 0; p < c->graph->tensor_count && st == TDM_OK; p++) {
        const tdmi_tensor *tensor = &c->graph->tensor[p];
        char name[NAME_BYTES];
        if (tensor->role != TDMI_ROLE_PARAMETER)
            continue;
        if (rank < c->size)
            error_name(rank, tensor->name, name);
        else
            served_name(tensor->name, name);
        const uint64_t count = tdmi_shape_count(&tensor->shape);
        st = tdmi_layout_add(layout, name, 1, &count);
    }
    return st;
}

static tdm_status add_factor(void *arg, tdmi_codec_state what, tdmi_id p, size_t first, size_t count, float *values)
{
    const layout_target *to = arg;
    char name[NAME_BYTES];
    const uint64_t shape = count;
    (void)values;
    if (what != TDMI_CODEC_FACTOR)
        return TDM_OK;
    factor_name(to->file->graph->tensor[p].name, first, name);
    return tdmi_layout_add(to->layout, name, 1, &shape);
}

tdm_status tdmi_codecs_add_layout(tdmi_codec_file *c, tdmi_layout *layout)
{
    c->first = tdmi_layout_count(layout);
    if (!has_codecs(c))
        return TDM_OK;
    layout_target to = {c, layout};
    tdm_status st = TDM_OK;
    for (int r = 0; r < c->size + c->has_served && st == TDM_OK; r++)
        st = add_all(c, layout, r);
    return st == TDM_OK ? tdmi_exec_visit_codecs(c->exec, add_factor, &to) : st;
}

/* ---- writing ---- */

typedef struct write_target {
    const tdmi_codec_file *codecs;
    tdmi_safetensors_writer *writer;
    size_t next_factor;
} write_target;

static tdm_status write_piece(void *arg, tdmi_codec_state what, tdmi_id p, size_t first, size_t count, float *values)
{
    write_target *to = arg;
    const tdmi_codec_file *c = to->codecs;
    if (what == TDMI_CODEC_FACTOR) { /* equal on all ranks */
        const size_t index = to->next_factor++;
        return c->rank == 0 ? tdmi_safetensors_write(to->writer, index, 0, count, values) : TDM_OK;
    }
    const size_t begin = error_index(c, what == TDMI_CODEC_RESIDUAL ? c->rank : c->size);
    return tdmi_safetensors_write(to->writer, begin + file_index(c->graph, p), first, count, values);
}

tdm_status tdmi_codecs_write(const tdmi_codec_file *c, tdmi_safetensors_writer *writer)
{
    write_target to = {c, writer, error_index(c, c->size + c->has_served)};
    return has_codecs(c) ? tdmi_exec_visit_codecs(c->exec, write_piece, &to) : TDM_OK;
}

/* ---- reading ---- */

typedef struct read_target {
    const tdmi_codec_file *codecs;
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
    const tdmi_codec_file *c = from->codecs;
    const tdmi_tensor *tensor = &c->graph->tensor[p];
    char name[NAME_BYTES];
    switch (what) {
    case TDMI_CODEC_RESIDUAL:
        if (from->ranks != c->size)
            return read_mean(from, tensor, first, count, values);
        error_name(c->rank, tensor->name, name);
        break;
    case TDMI_CODEC_SERVED:
        served_name(tensor->name, name);
        break;
    case TDMI_CODEC_FACTOR:
        factor_name(tensor->name, first, name);
        if (from->ranks != c->size && tdmi_safetensors_find(from->file, name) == NULL)
            return TDM_OK;
        return read_range(from, name, count, 0, count, values);
    }
    return read_range(from, name, tdmi_shape_count(&tensor->shape), first, count, values);
}

tdm_status tdmi_codecs_read(const tdmi_codec_file *c, const tdmi_safetensors *file, const char *folder, int ranks)
{
    read_target from = {c, file, folder, ranks};
    return has_codecs(c) && ranks > 1 ? tdmi_exec_visit_codecs(c->exec, read_piece, &from) : TDM_OK;
}
