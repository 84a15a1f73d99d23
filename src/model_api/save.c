/* save.c - checkpoints of a user's model, in the format of train/save.c: all ranks write one together, and any number of ranks goes on
 * from it. model.safetensors holds all parameters, those that are not trained included; optimizer.safetensors the moments of the others. */
#include "model_api/internal.h"

#include "checkpoint/checkpoint.h"
#include "core/memory.h"
#include "kernels/kernel.h"
#include "train/agree.h"
#include "train/save_codecs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NAME_MAX_BYTES 160

typedef struct layouts {
    tdmi_layout *model, *optimizer;
    tdmi_codec_file codecs;
    size_t *moment_index; /* [parameters of the model]: of the first moment in the optimizer's layout; others follow */
} layouts;

static bool is_trained(const tdm_training *t, tdmi_id id)
{
    return t->graph->tensor[id].role == TDMI_ROLE_PARAMETER;
}

static const tdmi_tensor *tensor_of(const tdm_training *t, int parameter)
{
    return &t->model->graph->tensor[t->model->parameter[parameter].id];
}

static void moment_name(const tdm_training *t, int moment, const char *parameter, char out[NAME_MAX_BYTES])
{
    snprintf(out, NAME_MAX_BYTES, "%s.%s", tdmi_optimizer_moment_name(&t->settings.optimizer, moment), parameter);
}

static tdm_status add(tdmi_layout *layout, const char *name, const tdmi_shape *shape)
{
    uint64_t dims[TDMI_DIMS_MAX];
    for (int d = 0; d < shape->ndim; d++)
        dims[d] = (uint64_t)shape->dims[d];
    return tdmi_layout_add(layout, name, shape->ndim, dims);
}

static tdm_status lay_out(const tdm_training *t, layouts *l)
{
    l->codecs = tdmi_codecs_of(&t->settings, t->group, t->graph, t->exec);
    tdm_status st = tdmi_layout_create(&l->model);
    if (st == TDM_OK)
        st = tdmi_layout_create(&l->optimizer);
    l->moment_index = tdmi_calloc((size_t)t->model->parameters, sizeof *l->moment_index, "checkpoint");
    if (l->moment_index == NULL)
        return TDM_ERR_NO_MEMORY;
    for (int i = 0; i < t->model->parameters && st == TDM_OK; i++) {
        const tdmi_tensor *p = tensor_of(t, i);
        char name[NAME_MAX_BYTES];
        st = add(l->model, p->name, &p->shape);
        l->moment_index[i] = tdmi_layout_count(l->optimizer);
        for (int k = 0; k < tdmi_optimizer_moments(&t->settings.optimizer) && st == TDM_OK; k++) {
            moment_name(t, k, p->name, name);
            if (is_trained(t, tdmi_graph_find(t->graph, p->name)))
                st = add(l->optimizer, name, &p->shape);
        }
    }
    return st == TDM_OK ? tdmi_codecs_add_layout(&l->codecs, l->optimizer) : st;
}

static void forget(layouts *l)
{
    tdmi_layout_destroy(l->model);
    tdmi_layout_destroy(l->optimizer);
    tdmi_free(l->moment_index);
}

static tdm_status can_be_saved(const tdm_training *t)
{
    return tdmi_exec_is_consistent(t->exec) ? TDM_OK : tdmi_fail(TDM_ERR_INTERNAL, "a rank is inside an update; nothing is saved");
}

/* ---- saving ---- */

typedef struct target {
    tdm_training *training;
    const layouts *layouts;
    tdmi_safetensors_writer *model, *optimizer;
} target;

static int index_of(const tdm_training *t, tdmi_id id)
{
    int i = 0;
    while (strcmp(tensor_of(t, i)->name, t->graph->tensor[id].name) != 0)
        i++;
    return i;
}

static tdm_status write_piece(void *arg, tdmi_id id, size_t first, size_t count, float *values, float *const *moment)
{
    const target *to = arg;
    const int i = index_of(to->training, id);
    tdm_status st = tdmi_safetensors_write(to->model, (size_t)i, first, count, values);
    for (int k = 0; k < tdmi_optimizer_moments(&to->training->settings.optimizer) && st == TDM_OK; k++)
        st = tdmi_safetensors_write(to->optimizer, to->layouts->moment_index[i] + (size_t)k, first, count, moment[k]);
    return st;
}

static tdm_status write_own(tdm_training *t, const layouts *l, tdmi_checkpoint_writer *writer)
{
    target to = {t, l, tdmi_checkpoint_model_writer(writer), tdmi_checkpoint_optimizer_writer(writer)};
    tdm_status st = tdmi_exec_owns_state(t->exec) ? tdmi_exec_visit_state(t->exec, write_piece, &to) : TDM_OK;
    for (int i = 0; i < t->model->parameters && st == TDM_OK && tdm_group_rank(t->group) == 0; i++) {
        const tdmi_id id = tdmi_graph_find(t->graph, tensor_of(t, i)->name);
        if (!is_trained(t, id))
            st = tdmi_safetensors_write(to.model, (size_t)i, 0, tdmi_shape_count(&tensor_of(t, i)->shape), tdmi_exec_memory(t->exec, id));
    }
    if (st == TDM_OK)
        st = tdmi_codecs_write(&l->codecs, to.optimizer);
    return st == TDM_OK ? tdmi_checkpoint_sync(writer) : st;
}

static tdm_status commit(tdm_training *t, tdmi_checkpoint_writer *writer, int keep)
{
    char scaler[80], ranks[32], compress[32];
    tdmi_settings_compress_text(&t->settings, compress);
    snprintf(ranks, sizeof ranks, "%d", tdm_group_size(t->group));
    snprintf(scaler, sizeof scaler, "%a %d %lld", (double)t->scaler.scale, t->scaler.clean, (long long)t->scaler.skipped);
    const tdmi_checkpoint_note notes[] = {{"model", t->model->graph->name},
                                          {"optimizer", tdmi_optimizer_name(t->settings.optimizer.kind)},
                                          {"compress", compress},
                                          {"ranks", ranks},
                                          {"grad_scaler", scaler},
                                          {"tandem", tdm_version()}};
    const tdmi_checkpoint_state state = {.step = (uint64_t)t->step, .kernels = tdmi_kernels_table(),
                                         .config = "{\n  \"model_type\": \"own\"\n}\n", .notes = notes,
                                         .note_count = sizeof notes / sizeof *notes};
    return tdmi_checkpoint_commit(writer, &state, keep);
}

static tdm_status begin(tdm_training *t, const char *folder, const layouts *l, tdmi_checkpoint_writer **writer)
{
    (void)mkdir(folder, 0777); /* what is wrong with it the next call says */
    return tdmi_checkpoint_begin(folder, (uint64_t)t->step, l->model, l->optimizer, writer);
}

tdm_status tdm_training_save(tdm_training *t, const char *folder, int keep)
{
    const int rank = tdm_group_rank(t->group);
    tdmi_checkpoint_writer *writer = NULL;
    layouts l = {0};
    bool everywhere;
    tdm_status st = tdmi_exec_settle(t->exec);
    if (st != TDM_OK)
        return st;
    st = can_be_saved(t);
    if (st == TDM_OK)
        st = lay_out(t, &l);
    if (st == TDM_OK && rank == 0)
        st = begin(t, folder, &l, &writer);
    st = tdmi_agree(t->group, st, &everywhere);
    if (st == TDM_OK) {
        if (rank != 0)
            st = tdmi_checkpoint_join(folder, (uint64_t)t->step, l.model, l.optimizer, &writer);
        if (st == TDM_OK)
            st = write_own(t, &l, writer);
        st = tdmi_agree(t->group, st, &everywhere);
    }
    if (st == TDM_OK)
        st = tdmi_agree(t->group, rank == 0 ? commit(t, writer, keep) : TDM_OK, &everywhere);
    tdmi_checkpoint_end(writer);
    forget(&l);
    return st;
}

/* ---- going on ---- */

typedef struct source {
    tdm_training *training;
    const tdmi_checkpoint *checkpoint;
} source;

static tdm_status read(const source *s, const tdmi_safetensors *file, const char *name, const tdmi_shape *shape, size_t first, size_t count,
                       float *out)
{
    const tdmi_file_tensor *from = tdmi_safetensors_find(file, name);
    bool same = from != NULL && from->ndim == shape->ndim;
    for (int d = 0; same && d < shape->ndim; d++)
        same = from->shape[d] == (uint64_t)shape->dims[d];
    if (!same)
        return tdmi_fail(TDM_ERR_BAD_FILE, "the checkpoint of step %llu has no %s of the shape that model %s has",
                         (unsigned long long)tdmi_checkpoint_state_of(s->checkpoint)->step, name, s->training->model->graph->name);
    return tdmi_safetensors_read(file, from, first, count, out);
}

static tdm_status read_values(void *arg, tdmi_id id, size_t first, size_t count, float *values, float *const *moment)
{
    const source *s = arg;
    const tdmi_tensor *p = &s->training->graph->tensor[id];
    (void)moment;
    return read(s, tdmi_checkpoint_model(s->checkpoint), p->name, &p->shape, first, count, values);
}

static tdm_status read_moments(void *arg, tdmi_id id, size_t first, size_t count, float *values, float *const *moment)
{
    const source *s = arg;
    const tdmi_tensor *p = &s->training->graph->tensor[id];
    tdm_status st = TDM_OK;
    (void)values;
    for (int k = 0; k < tdmi_optimizer_moments(&s->training->settings.optimizer) && st == TDM_OK; k++) {
        char name[NAME_MAX_BYTES];
        moment_name(s->training, k, p->name, name);
        st = read(s, tdmi_checkpoint_optimizer(s->checkpoint), name, &p->shape, first, count, moment[k]);
    }
    return st;
}

static tdm_status read_scaler(tdm_training *t, const tdmi_checkpoint *c)
{
    const char *note = tdmi_checkpoint_note_of(c, "grad_scaler");
    double scale;
    int clean;
    long long skipped;
    if (note == NULL || sscanf(note, "%la %d %lld", &scale, &clean, &skipped) != 3 || !(scale > 0) || !isfinite(scale) || clean < 0 || skipped < 0)
        return tdmi_fail(TDM_ERR_BAD_FILE, "the checkpoint's grad_scaler is \"%.64s\"; expected a scale above 0, clean steps and skipped steps",
                         note == NULL ? "" : note);
    t->scaler.scale = (float)scale;
    t->scaler.clean = clean;
    t->scaler.skipped = skipped;
    return TDM_OK;
}

/* What codecs have not sent yet belongs to the run. */
static tdm_status read_codecs(tdm_training *t, const tdmi_checkpoint *c, const char *path)
{
    const char *then = tdmi_checkpoint_note_of(c, "compress"), *ranks = tdmi_checkpoint_note_of(c, "ranks");
    const tdmi_codec_file codecs = tdmi_codecs_of(&t->settings, t->group, t->graph, t->exec);
    char now[32];
    tdmi_settings_compress_text(&t->settings, now);
    if (then == NULL || ranks == NULL || strcmp(then, now) != 0)
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s was made with compress %s, this training has %s; its losses cannot go on from there", path,
                         then == NULL ? "unknown" : then, now);
    return tdmi_codecs_read(&codecs, tdmi_checkpoint_optimizer(c), path, (int)strtol(ranks, NULL, 10));
}

static tdm_status read_all(tdm_training *t, const tdmi_checkpoint *c, const char *path)
{
    source from = {t, c};
    tdm_status st = tdmi_exec_visit_parameters(t->exec, read_values, &from);
    if (st == TDM_OK)
        st = tdmi_exec_visit_state(t->exec, read_moments, &from);
    for (int i = 0; i < t->model->parameters && st == TDM_OK; i++) {
        const tdmi_id id = tdmi_graph_find(t->graph, tensor_of(t, i)->name);
        if (!is_trained(t, id))
            st = read_values(&from, id, 0, tdmi_shape_count(&tensor_of(t, i)->shape), tdmi_exec_memory(t->exec, id), NULL);
    }
    if (st == TDM_OK)
        st = read_scaler(t, c);
    if (st == TDM_OK)
        st = read_codecs(t, c, path);
    t->kept_version++;
    t->step = (int64_t)tdmi_checkpoint_state_of(c)->step;
    return st;
}

tdm_status tdm_training_load(tdm_training *t, const char *folder)
{
    char path[TDMI_PATH_MAX];
    tdmi_checkpoint *c = NULL;
    bool everywhere, found = true;
    uint64_t newest = 0;
    tdm_status st = tdmi_exec_settle(t->exec);
    if (st != TDM_OK)
        return st;
    st = can_be_saved(t);
    if (st == TDM_OK && tdm_group_rank(t->group) == 0) {
        st = tdmi_checkpoint_find(folder, &newest, &found);
        if (st == TDM_OK && !found)
            st = tdmi_fail(TDM_ERR_BAD_FILE, "%s holds no whole checkpoint", folder);
    }
    st = tdmi_agree(t->group, st, &everywhere);
    double step = (double)newest;
    if (st == TDM_OK && tdm_group_size(t->group) > 1)
        st = tdm_allreduce(t->group, &step, &step, 1, TDM_F64, TDM_MAX, NULL);
    if (st != TDM_OK)
        return st;
    st = tdmi_checkpoint_folder(folder, (uint64_t)step, path);
    if (st == TDM_OK)
        st = tdmi_checkpoint_open(path, false, &c); /* rank 0 has looked at every byte */
    if (st == TDM_OK)
        st = read_all(t, c, path);
    tdmi_checkpoint_close(c);
    st = tdmi_agree(t->group, st, &everywhere);
    return st == TDM_OK ? tdmi_exec_publish_parameters(t->exec) : st;
}
