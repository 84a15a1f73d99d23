/* save.c - first weights, checkpoints, and going on from one.
 *
 * All ranks write one checkpoint together: each its own slices of the parameters and of the optimizer's state, in full shapes,
 * so that any number of ranks can go on from it. */
#include "checkpoint/checkpoint.h"
#include "train/trainer.h"
#include "train/weights.h"

#include "core/log.h"
#include "core/memory.h"
#include "kernels/kernel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where parameter tensors stand in the files: their number, in the graph's order. */
static size_t file_index(const tdmi_graph *g, tdmi_id parameter)
{
    size_t index = 0;
    for (tdmi_id t = 0; t < parameter; t++)
        index += g->tensor[t].role == TDMI_ROLE_PARAMETER;
    return index;
}

static void moment_name(const tdmi_trainer *t, int moment, const char *parameter, char out[160])
{
    snprintf(out, 160, "%s.%s", tdmi_optimizer_moment_name(&t->settings.optimizer, moment), parameter);
}

static tdm_status add_parameters(const tdmi_trainer *t, int moment, tdmi_layout *layout)
{
    tdm_status st = TDM_OK;
    for (tdmi_id p = 0; p < t->graph->tensor_count && st == TDM_OK; p++) {
        const tdmi_tensor *tensor = &t->graph->tensor[p];
        char name[160];
        uint64_t shape[2];
        if (tensor->role != TDMI_ROLE_PARAMETER)
            continue;
        if (moment < 0) {
            snprintf(name, sizeof name, "%s", tensor->name);
            tdmi_weights_file_shape(t->settings.model, tensor, shape);
        } else {
            moment_name(t, moment, tensor->name, name);
            shape[0] = (uint64_t)tensor->shape.dims[0];
            shape[1] = tensor->shape.ndim == 2 ? (uint64_t)tensor->shape.dims[1] : 1;
        }
        st = tdmi_layout_add(layout, name, tensor->shape.ndim, shape);
    }
    return st;
}

tdm_status tdmi_trainer_make_layouts(tdmi_trainer *t)
{
    tdm_status st = tdmi_layout_create(&t->model_layout);
    if (st == TDM_OK)
        st = tdmi_layout_create(&t->optimizer_layout);
    if (st == TDM_OK)
        st = add_parameters(t, -1, t->model_layout);
    for (int k = 0; st == TDM_OK && k < tdmi_optimizer_moments(&t->settings.optimizer); k++)
        st = add_parameters(t, k, t->optimizer_layout);
    t->codecs = tdmi_codecs_of(&t->settings, t->group, t->graph, t->exec);
    return st == TDM_OK ? tdmi_codecs_add_layout(&t->codecs, t->optimizer_layout) : st;
}

/* ---- first weights ---- */

typedef struct init_target {
    const tdmi_graph *graph;
    tdmi_exec *exec;
} init_target;

static tdm_status take_weights(void *arg, const char *name, const float *values, size_t count)
{
    const init_target *to = arg;
    tdmi_id p = tdmi_graph_find(to->graph, name);
    if (p < 0 || tdmi_shape_count(&to->graph->tensor[p].shape) != count)
        return tdmi_fail(TDM_ERR_INTERNAL, "first weights of %s: %zu values for a parameter that the graph does not have so", name,
                         count);
    tdmi_exec_set_parameter(to->exec, p, values);
    return TDM_OK;
}

static tdm_status first_weights(tdmi_trainer *t)
{
    const tdmi_settings *s = &t->settings;
    if (s->options.init == NULL) {
        init_target to = {t->graph, t->exec};
        size_t count; /* drawn where gradients will be: at the peak of a run no more is needed */
        float *room = tdmi_exec_gradient_room(t->exec, &count);
        tdm_status drawn = s->model->init(&s->config, s->options.seed, room, count, take_weights, &to);
        memset(room, 0, count * sizeof *room);
        return drawn;
    }
    tdmi_safetensors *file;
    tdm_status st = tdmi_safetensors_open(s->options.init, &file);
    if (st != TDM_OK)
        return st;
    st = tdmi_weights_read(file, s->options.init, s->model, t->graph, t->exec);
    tdmi_safetensors_close(file);
    return st;
}

tdm_status tdmi_trainer_init_weights(tdmi_trainer *t)
{
    return tdmi_trainer_agree(t, first_weights(t)); /* the agreement is the meeting after it */
}

tdm_status tdmi_trainer_peek_init(tdmi_settings *s)
{
    tdmi_safetensors *file;
    if (s->options.init == NULL || s->config.positions == 0)
        return TDM_OK;
    tdm_status st = tdmi_safetensors_open(s->options.init, &file);
    if (st != TDM_OK)
        return st;
    const tdmi_file_tensor *wpe = tdmi_weights_find(file, "wpe.weight");
    if (wpe != NULL && wpe->ndim == 2 && wpe->shape[0] < (uint64_t)s->config.seq)
        st = tdmi_fail(TDM_ERR_BAD_FILE, "%s: wpe.weight has %llu positions, --seq %d needs as many", s->options.init,
                       (unsigned long long)wpe->shape[0], s->config.seq);
    else if (wpe != NULL && wpe->ndim == 2 && wpe->shape[0] <= 1u << 24)
        s->config.positions = (int)wpe->shape[0];
    tdmi_safetensors_close(file);
    return st;
}

/* ---- saving ---- */

typedef struct write_target {
    tdmi_trainer *trainer;
    tdmi_safetensors_writer *model, *optimizer;
} write_target;

static tdm_status write_piece(void *arg, tdmi_id p, size_t first, size_t count, float *values, float *const *moment)
{
    write_target *to = arg;
    tdmi_trainer *t = to->trainer;
    const tdmi_tensor *tensor = &t->graph->tensor[p];
    size_t index = file_index(t->graph, p), parameters = tdmi_layout_count(t->model_layout);
    bool turned = tensor->shape.ndim == 2 && t->settings.model->transposed(tensor->name);
    tdm_status st = turned ? tdmi_safetensors_write_transposed(to->model, index, first, count, values)
                           : tdmi_safetensors_write(to->model, index, first, count, values);
    for (int k = 0; st == TDM_OK && k < tdmi_optimizer_moments(&t->settings.optimizer); k++)
        st = tdmi_safetensors_write(to->optimizer, (size_t)k * parameters + index, first, count, moment[k]);
    return st;
}

static tdm_status commit(tdmi_trainer *t, tdmi_checkpoint_writer *writer)
{
    const tdmi_settings *s = &t->settings;
    tdmi_sampler_position position = tdmi_loader_position(t->loader);
    char seed[32], windows[32], ranks[32], samples[32], scaler[80], compress[32], *config = s->model->config_json(&s->config);
    if (config == NULL)
        return TDM_ERR_NO_MEMORY;
    tdmi_settings_compress_text(s, compress);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)s->options.seed);
    snprintf(windows, sizeof windows, "%llu", (unsigned long long)t->train_windows.windows);
    snprintf(ranks, sizeof ranks, "%d", t->size);
    snprintf(samples, sizeof samples, "%lld", (long long)t->samples);
    snprintf(scaler, sizeof scaler, "%a %d %lld", (double)t->scaler.scale, t->scaler.clean, (long long)t->scaler.skipped);
    uint8_t random[TDMI_RNG_STATE_BYTES];
    tdmi_rng_save(&t->mask_rng, random);
    const tdmi_checkpoint_note notes[] = {
        {"model", s->model->name},
        {"optimizer", tdmi_optimizer_name(s->optimizer.kind)},
        {"compress", compress},
        {"seed", seed},
        {"order", s->options.sequential ? "sequential" : "shuffle"},
        {"train_windows", windows},
        {"tokens", tdmi_tokens_format(t->tokens)},
        {"ranks", ranks},
        {"samples", samples},
        {"rng", tdmi_rng_variant_name(t->mask_rng.variant)},
        {"dropout_rng", tdmi_rng_dropout_name(t->mask_rng.dropout)},
        {"grad_scaler", scaler}, /* scale, clean steps, skipped steps */
        {"tandem", tdm_version()},
    };
    tdmi_checkpoint_state state = {.step = (uint64_t)t->step,
                                   .epoch = position.epoch,
                                   .next = position.next,
                                   .random = random,
                                   .random_nbytes = sizeof random,
                                   .kernels = tdmi_kernels_table(),
                                   .config = config,
                                   .notes = notes,
                                   .note_count = sizeof notes / sizeof *notes};
    tdm_status st = tdmi_checkpoint_commit(writer, &state, s->keep);
    tdmi_free(config);
    return st;
}

tdm_status tdmi_trainer_save(tdmi_trainer *t)
{
    tdmi_checkpoint_writer *writer = NULL;
    tdm_status st = TDM_OK;
    if (!tdmi_exec_is_consistent(t->exec))
        st = tdmi_fail(TDM_ERR_INTERNAL, "step %lld: a rank is inside an update; nothing is saved", (long long)t->step);
    if (st == TDM_OK && t->rank == 0)
        st = tdmi_checkpoint_begin(t->run_dir, (uint64_t)t->step, t->model_layout, t->optimizer_layout, &writer);
    st = tdmi_trainer_agree(t, st);
    bool begun = st == TDM_OK; /* else its text says all */
    if (st == TDM_OK) {
        if (t->rank != 0)
            st = tdmi_checkpoint_join(t->run_dir, (uint64_t)t->step, t->model_layout, t->optimizer_layout, &writer);
        if (st == TDM_OK && tdmi_exec_owns_state(t->exec)) {
            write_target to = {t, tdmi_checkpoint_model_writer(writer), tdmi_checkpoint_optimizer_writer(writer)};
            st = tdmi_exec_visit_state(t->exec, write_piece, &to);
        }
        if (st == TDM_OK)
            st = tdmi_codecs_write(&t->codecs, tdmi_checkpoint_optimizer_writer(writer));
        if (st == TDM_OK)
            st = tdmi_checkpoint_sync(writer);
        st = tdmi_trainer_agree(t, st);
    }
    if (st == TDM_OK)
        st = tdmi_trainer_agree(t, t->rank == 0 ? commit(t, writer) : TDM_OK);
    tdmi_checkpoint_end(writer);
    if (st == TDM_OK)
        t->saved_step = t->step;
    return st == TDM_OK || !begun ? st : tdmi_fail_while(st, "saving step %lld; earlier checkpoints are whole", (long long)t->step);
}

/* ---- going on ---- */

typedef struct read_target {
    tdmi_trainer *trainer;
    const tdmi_safetensors *file;
    const char *folder;
} read_target;

static tdm_status read_piece(void *arg, tdmi_id p, size_t first, size_t count, float *values, float *const *moment)
{
    (void)values; /* parameters are read before */
    read_target *from = arg;
    tdmi_trainer *t = from->trainer;
    for (int k = 0; k < tdmi_optimizer_moments(&t->settings.optimizer); k++) {
        char name[160];
        moment_name(t, k, t->graph->tensor[p].name, name);
        const tdmi_file_tensor *tensor = tdmi_safetensors_find(from->file, name);
        if (tensor == NULL || tensor->count != tdmi_shape_count(&t->graph->tensor[p].shape))
            return tdmi_fail(TDM_ERR_BAD_FILE, "%s: optimizer.safetensors has no %s of this model's size; was it another --optimizer?",
                             from->folder, name);
        tdm_status st = tdmi_safetensors_read(from->file, tensor, first, count, moment[k]);
        if (st != TDM_OK)
            return st;
    }
    return TDM_OK;
}

static tdm_status check_note(const tdmi_checkpoint *c, const char *folder, const char *note, const char *option, const char *now)
{
    const char *then = tdmi_checkpoint_note_of(c, note);
    if (then == NULL || strcmp(then, now) == 0)
        return TDM_OK;
    return tdmi_fail(TDM_ERR_BAD_FILE, "%s was made with %s %s, this run has %s; its losses cannot go on from there", folder, option,
                     then, now);
}

static tdm_status check_same_run(const tdmi_trainer *t, const tdmi_checkpoint *c, const char *folder)
{
    const tdmi_settings *s = &t->settings;
    char seed[32], windows[32], compress[32];
    tdmi_settings_compress_text(s, compress);
    tdmi_model_config then = {0};
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)s->options.seed);
    snprintf(windows, sizeof windows, "%llu", (unsigned long long)t->train_windows.windows);
    tdm_status st = check_note(c, folder, "model", "model", s->model->name);
    if (st == TDM_OK)
        st = s->model->config_parse(tdmi_checkpoint_state_of(c)->config, &then);
    if (st == TDM_OK && (then.layers != s->config.layers || then.width != s->config.width || then.heads != s->config.heads ||
                         then.seq != s->config.seq || then.vocab != s->config.vocab || then.positions != s->config.positions))
        st = tdmi_fail(TDM_ERR_BAD_FILE,
                       "%s holds a %s of %d layers, %d wide, %d heads, context %d, vocabulary %d; this run has %d, %d, %d, %d, %d",
                       folder, s->model->name, then.layers, then.width, then.heads, then.seq, then.vocab, s->config.layers,
                       s->config.width, s->config.heads, s->config.seq, s->config.vocab);
    if (st == TDM_OK)
        st = check_note(c, folder, "optimizer", "--optimizer", tdmi_optimizer_name(s->optimizer.kind));
    if (st == TDM_OK)
        st = check_note(c, folder, "compress", "--compress", compress);
    if (st == TDM_OK)
        st = check_note(c, folder, "seed", "--seed", seed);
    if (st == TDM_OK)
        st = check_note(c, folder, "order", "--order", s->options.sequential ? "sequential" : "shuffle");
    if (st == TDM_OK)
        st = check_note(c, folder, "train_windows", "training windows:", windows);
    const char *kernels = tdmi_checkpoint_state_of(c)->kernels;
    if (st == TDM_OK && kernels != NULL && strcmp(kernels, tdmi_kernels_table()) != 0 && t->rank == 0)
        log_warn(TDM_LOG_TRAIN, "%s was made with other kernels (%s; now %s): losses go on, but not bit for bit", folder, kernels,
                 tdmi_kernels_table());
    return st;
}

/* A run in another precision left the scaler as it was at first. */
static tdm_status read_scaler(tdmi_trainer *t, const tdmi_checkpoint *c, const char *folder)
{
    const char *note = tdmi_checkpoint_note_of(c, "grad_scaler");
    double scale;
    int clean;
    long long skipped;
    if (note == NULL)
        return TDM_OK;
    if (sscanf(note, "%la %d %lld", &scale, &clean, &skipped) != 3 || !(scale > 0) || !isfinite(scale) || clean < 0 || skipped < 0)
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s: its grad_scaler is \"%.64s\"; expected a scale above 0, clean steps and skipped steps",
                         folder, note);
    t->scaler.scale = (float)scale;
    t->scaler.clean = clean;
    t->scaler.skipped = skipped;
    return TDM_OK;
}

static tdm_status load(tdmi_trainer *t, const char *folder)
{
    tdmi_checkpoint *c;
    tdm_status st = tdmi_checkpoint_open(folder, false, &c); /* rank 0 has verified every byte when it found it */
    if (st != TDM_OK)
        return st;
    st = check_same_run(t, c, folder);
    if (st == TDM_OK)
        st = tdmi_weights_read(tdmi_checkpoint_model(c), folder, t->settings.model, t->graph, t->exec);
    if (st == TDM_OK) {
        read_target from = {t, tdmi_checkpoint_optimizer(c), folder};
        st = tdmi_exec_visit_state(t->exec, read_piece, &from);
    }
    if (st == TDM_OK)
        st = read_scaler(t, c, folder);
    if (st == TDM_OK) {
        const char *ranks = tdmi_checkpoint_note_of(c, "ranks");
        st = tdmi_codecs_read(&t->codecs, tdmi_checkpoint_optimizer(c), folder, ranks == NULL ? 1 : (int)strtol(ranks, NULL, 10));
    }
    const tdmi_checkpoint_state *state = tdmi_checkpoint_state_of(c);
    if (st == TDM_OK) {
        const char *samples = tdmi_checkpoint_note_of(c, "samples");
        t->samples = samples == NULL ? 0 : strtoll(samples, NULL, 10);
        t->step = t->saved_step = (int64_t)state->step;
        st = tdmi_trainer_open_loader(t, (tdmi_sampler_position){.epoch = state->epoch, .next = state->next});
    }
    if (st == TDM_OK && t->step >= t->settings.steps)
        st = tdmi_fail(TDM_ERR_INVALID, "%s: step %lld is done already; the run has %lld steps, --steps can give it more", folder,
                       (long long)t->step, (long long)t->settings.steps);
    tdmi_checkpoint_close(c);
    return st;
}

tdm_status tdmi_trainer_load(tdmi_trainer *t, const char *folder)
{
    return tdmi_trainer_agree(t, load(t, folder)); /* the agreement is the meeting after the parameters are written */
}
