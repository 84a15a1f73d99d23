/* training.c - a user's model through the passes and the executor: what train/ does for the models that Tandem has.
 *
 * Threads: all calls on a training are its owner's. */
#include "model_api/internal.h"

#include "core/memory.h"
#include "train/agree.h"
#include "train/step_graph.h"

#include <stdio.h>
#include <string.h>

void tdm_training_options_init(tdm_training_options *o)
{
    *o = (tdm_training_options){.lr = TDM_UNSET, .weight_decay = TDM_UNSET, .clip = TDM_UNSET, .beta1 = TDM_UNSET, .beta2 = TDM_UNSET,
                                .eps = TDM_UNSET, .micro_batches = TDM_UNSET, .shard = TDM_UNSET, .prefetch = TDM_UNSET};
}

/* Only its defaults are looked at. */
static const tdmi_model own_model = {
    .name = "own", .defaults = {.lr = 1e-3, .weight_decay = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}};

static tdm_status resolve(tdm_training *t, const tdm_training_options *o)
{
    tdm_train_options step;
    tdm_train_options_init(&step);
    step.optimizer = o->optimizer;
    step.lr = o->lr;
    step.weight_decay = o->weight_decay;
    step.clip = o->clip;
    step.beta1 = o->beta1;
    step.beta2 = o->beta2;
    step.eps = o->eps;
    step.precision = o->precision;
    step.accum = o->micro_batches;
    step.shard = o->shard;
    step.remat = o->remat;
    step.memory = o->memory;
    step.offload = o->offload;
    step.prefetch = o->prefetch;
    step.compress = o->compress;
    step.bucket_mb = o->bucket_mb;
    step.seed = o->seed;
    t->settings = (tdmi_settings){.options = step, .model = &own_model};
    tdm_status st = tdmi_settings_resolve_step(&step, &t->settings);
    if (st == TDM_OK && t->settings.compress.codec == TDM_CODEC_ONEBIT && t->settings.compress.warmup == 0)
        st = tdmi_fail(TDM_ERR_INVALID, "compress onebit: say how many steps its warm-up has, as onebit:100");
    return st;
}

static tdm_status check_groups(const tdm_model *m, const tdm_training_options *o)
{
    const int count = o->group_count > 0 ? o->group_count : 1;
    if (o->group_count < 0 || o->group_count > TDM_PARAMETER_GROUPS)
        return tdmi_fail(TDM_ERR_INVALID, "group_count is %d; it takes 0 to %d", o->group_count, TDM_PARAMETER_GROUPS);
    for (int i = 0; i < o->group_count; i++)
        if (!(o->groups[i].lr_factor >= 0 && o->groups[i].weight_decay >= 0))
            return tdmi_fail(TDM_ERR_INVALID, "group %d has lr_factor %g and weight_decay %g; both must be 0 or more", i,
                             o->groups[i].lr_factor, o->groups[i].weight_decay);
    for (int i = 0; i < m->parameters; i++)
        if (m->parameter[i].how.group >= count)
            return tdmi_fail(TDM_ERR_INVALID, "parameter %s is in group %d, but the options have %d", m->graph->tensor[m->parameter[i].id].name,
                             m->parameter[i].how.group, count);
    return TDM_OK;
}

static tdm_status plan(tdm_training *t, const tdm_training_options *o)
{
    tdmi_settings *s = &t->settings;
    tdm_status st = model_graph(t->model, true, &t->graph);
    if (st == TDM_OK)
        st = model_keep_untrained(t->model, o->allow_unused, t->graph);
    bool everywhere;
    st = tdmi_agree(t->group, st, &everywhere); /* what follows is collective */
    if (st == TDM_OK)
        st = tdmi_step_meet(s, t->group);
    if (st != TDM_OK)
        return st;
    tdmi_pipeline_options passes = tdmi_step_pipeline(s);
    passes.uncounted = o->uncounted;
    return tdmi_pipeline_run(t->graph, &passes);
}

/* A loss holds the share of one of all micro-batches, where it is a cross_entropy. */
static void add_losses(tdm_training *t)
{
    const tdm_model *m = t->model;
    for (int i = 0; i < m->losses; i++) {
        const tdmi_tensor *loss = &m->graph->tensor[m->loss[i].id];
        const float *value = memory_by_name(t->graph, t->exec, loss->name, TDMI_ROLE_OUTPUT);
        const bool is_share = m->graph->node[loss->producer].op == TDMI_OP_CROSS_ENTROPY;
        t->loss_sum[i] += (double)*value * (is_share ? t->settings.micro_batches : 1);
    }
}

static tdm_status feed(void *arg, int micro_batch)
{
    tdm_training *t = arg;
    if (micro_batch > 0)
        add_losses(t);
    tdm_status st = t->feed == NULL ? TDM_OK : t->feed(t->feed_arg, t, micro_batch);
    return st == TDM_OK ? input_ranges_check(&t->ranges) : st;
}

static tdm_status make_executor(tdm_training *t, const tdm_training_options *o)
{
    tdmi_exec_options options = tdmi_step_executor(&t->settings, t->group, &t->scaler, &t->mask_rng);
    options.feed = feed;
    options.feed_arg = t;
    options.groups = o->group_count;
    for (int i = 0; i < o->group_count; i++)
        options.group_of[i] = (tdmi_exec_group){o->groups[i].lr_factor, o->groups[i].weight_decay};
    tdmi_grad_scaler_init(&t->scaler);
    tdm_status st = tdmi_rng_init(&t->mask_rng, t->settings.options.seed);
    if (st == TDM_OK)
        st = tdmi_exec_create(t->graph, &options, &t->exec);
    if (st == TDM_OK)
        st = input_ranges_find(t->graph, t->exec, &t->ranges);
    return st == TDM_OK ? training_first_values(t) : st;
}

tdm_status tdm_training_create(const tdm_model *model, tdm_group *group, const tdm_training_options *options, tdm_training **out)
{
    tdm_training_options defaults;
    if (options == NULL) {
        tdm_training_options_init(&defaults);
        options = &defaults;
    }
    tdm_training *t = tdmi_calloc(1, sizeof *t, "training");
    if (t == NULL)
        return TDM_ERR_NO_MEMORY;
    t->model = model;
    t->group = group;
    bool everywhere;
    tdm_status st = resolve(t, options);
    if (st == TDM_OK)
        st = check_groups(model, options);
    st = tdmi_agree(group, st, &everywhere);
    if (st == TDM_OK)
        st = plan(t, options);
    if (st == TDM_OK)
        st = make_executor(t, options);
    st = tdmi_agree(group, st, &everywhere);
    if (st == TDM_OK)
        st = tdmi_exec_publish_parameters(t->exec);
    if (st == TDM_OK)
        *out = t;
    else
        tdm_training_destroy(t);
    return st;
}

void tdm_training_destroy(tdm_training *t)
{
    if (t == NULL)
        return;
    tdmi_exec_destroy(t->exec);
    tdmi_graph_destroy(t->graph);
    tdmi_free(t->ranges.range);
    tdmi_free(t);
}

int64_t tdm_training_steps(const tdm_training *t)
{
    return t->step;
}

void *tdm_training_input(tdm_training *t, const char *name)
{
    return memory_by_name(t->graph, t->exec, name, TDMI_ROLE_INPUT);
}

const void *tdm_training_output(tdm_training *t, const char *name)
{
    return memory_by_name(t->graph, t->exec, name, TDMI_ROLE_OUTPUT);
}

void tdm_training_set_lr(tdm_training *t, double lr)
{
    t->settings.lr = lr;
}

tdm_status tdm_training_step(tdm_training *t, int micro_batches, tdm_training_feed feed_inputs, void *arg, tdm_training_result *out)
{
    const int size = tdm_group_size(t->group), rank = tdm_group_rank(t->group);
    const int64_t step = t->step + 1;
    tdmi_step_result r;
    t->feed = feed_inputs;
    t->feed_arg = arg;
    t->micro_batches = micro_batches == 0 ? t->settings.micro_batches : micro_batches;
    memset(t->loss_sum, 0, sizeof t->loss_sum);
    /* A stream of its own for each step and rank, as in train/loop.c. */
    tdmi_rng_seed(&t->mask_rng, tdmi_rng_stream_seed(t->settings.options.seed, (uint32_t)(step * size + rank)));
    tdm_status st = tdmi_exec_step(t->exec, step, t->micro_batches, t->settings.lr, false, false, &r);
    if (st != TDM_OK)
        return st;
    t->step = step;
    add_losses(t);
    *out = (tdm_training_result){.loss = r.loss, .own_loss = r.own_loss, .grad_norm = r.grad_norm, .skipped = r.skipped};
    return TDM_OK;
}

tdm_status tdm_training_loss(const tdm_training *t, const char *name, double *out)
{
    const tdm_model *m = t->model;
    char names[4 * 100] = "";
    size_t used = 0;
    for (int i = 0; i < m->losses; i++) {
        const char *known = m->graph->tensor[m->loss[i].id].name;
        if (strcmp(known, name) == 0 && t->micro_batches > 0) {
            *out = t->loss_sum[i] / t->micro_batches;
            return TDM_OK;
        }
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", known);
    }
    return tdmi_fail(TDM_ERR_INVALID, "model %s has no loss %s after %lld steps; its losses are %s", m->graph->name, name, (long long)t->step,
                     names);
}
