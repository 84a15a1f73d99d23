/* settings.c - defaults a practitioner would choose, and one clear error for a value that cannot work. */
#include "train/settings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVALUATIONS_A_RUN 10
#define WARMUP_PART 10 /* a default warm-up is at most this part of the run */
#define STEPS_MAX 1000000000
#define POWERSGD_RANK 4
#define TOPK_FRACTION 0.01
#define ONEBIT_WARMUP 0.15 /* of the run; its paper and DeepSpeed say 15 to 25 % */

void tdm_train_options_init(tdm_train_options *o)
{
    *o = (tdm_train_options){
        .layers = TDM_UNSET, .width = TDM_UNSET, .heads = TDM_UNSET, .seq = TDM_UNSET, .vocab = TDM_UNSET,
        .dropout = TDM_UNSET, .val_fraction = TDM_UNSET, .batch = TDM_UNSET, .accum = TDM_UNSET, .steps = TDM_UNSET, .epochs = TDM_UNSET,
        .lr = TDM_UNSET, .weight_decay = TDM_UNSET, .clip = TDM_UNSET, .beta1 = TDM_UNSET, .beta2 = TDM_UNSET,
        .eps = TDM_UNSET, .warmup = TDM_UNSET, .shard = TDM_UNSET, .prefetch = TDM_UNSET, .first_bucket_mb = TDM_UNSET, .save_every = TDM_UNSET,
        .keep = TDM_UNSET, .eval_every = TDM_UNSET, .trace_from = TDM_UNSET, .trace_to = TDM_UNSET,
        .timeout_s = TDM_UNSET,
    };
}

static tdm_status choose_int(const char *option, int given, int otherwise, int min, int max, int *out)
{
    *out = given == TDM_UNSET ? otherwise : given;
    if (*out < min || *out > max)
        return tdmi_fail(TDM_ERR_INVALID, "--%s %d is out of range; it takes %d to %d", option, *out, min, max);
    return TDM_OK;
}

/* min is allowed itself unless `open`. */
static tdm_status choose_double(const char *option, double given, double otherwise, double min, bool open, double max,
                                double *out)
{
    *out = given == TDM_UNSET ? otherwise : given;
    if (!(*out <= max) || !(open ? *out > min : *out >= min))
        return tdmi_fail(TDM_ERR_INVALID, "--%s %g is out of range; it takes %s %g up to %g", option, *out,
                         open ? "more than" : "from", min, max);
    return TDM_OK;
}

static tdm_status resolve_model(const tdm_train_options *o, tdmi_settings *s)
{
    tdmi_model_config *c = &s->config;
    s->model = tdmi_model_find(o->model == NULL ? "" : o->model);
    if (s->model == NULL)
        return TDM_ERR_INVALID;
    tdm_status st = tdmi_model_preset_find(s->model, o->preset, c);
    if (st != TDM_OK)
        return st;
    s->preset = o->preset == NULL ? s->model->presets[0].name : o->preset;
    const struct {
        const char *option;
        int given, max;
        int *value;
    } sizes[] = {
        {"layers", o->layers, 1000, &c->layers}, {"width", o->width, 65536, &c->width},
        {"heads", o->heads, 65536, &c->heads},   {"seq", o->seq, 1 << 20, &c->seq},
        {"vocab", o->vocab, 1 << 24, &c->vocab},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        bool used = *sizes[i].value != 0;
        if (!used && sizes[i].given != TDM_UNSET)
            return tdmi_fail(TDM_ERR_INVALID, "--%s has no meaning for model %s", sizes[i].option, s->model->name);
        if (used && (st = choose_int(sizes[i].option, sizes[i].given, *sizes[i].value, 1, sizes[i].max, sizes[i].value)) != TDM_OK)
            return st;
    }
    if (c->positions != 0 && c->positions < c->seq)
        c->positions = c->seq;
    st = choose_double("dropout", o->dropout, c->dropout, 0, false, 0.99, &c->dropout);
    if (st != TDM_OK)
        return st;
    tdmi_graph *g = s->model->build(c, 1, TDMI_BUILD_LOSS, true); /* shapes that do not fit are found here, in its words */
    if (g == NULL)
        return TDM_ERR_NO_MEMORY;
    st = tdmi_graph_status(g);
    if (st == TDM_OK)
        s->parameters = tdmi_graph_parameter_count(g);
    tdmi_graph_destroy(g);
    return st;
}

static tdm_status resolve_optimizer(const tdm_train_options *o, tdmi_settings *s)
{
    const tdmi_model_defaults *d = &s->model->defaults;
    tdm_status st = tdmi_optimizer_parse(o->optimizer == NULL ? "adamw" : o->optimizer, &s->optimizer.kind);
    if (st == TDM_OK)
        st = choose_double("beta1", o->beta1, d->beta1, 0, false, 0.999999, &s->optimizer.beta1);
    if (st == TDM_OK)
        st = choose_double("beta2", o->beta2, d->beta2, 0, false, 0.999999, &s->optimizer.beta2);
    if (st == TDM_OK)
        st = choose_double("eps", o->eps, d->eps, 0, true, 1, &s->optimizer.eps);
    if (st == TDM_OK)
        st = choose_double("weight-decay", o->weight_decay, d->weight_decay, 0, false, 10, &s->optimizer.weight_decay);
    if (st == TDM_OK)
        st = choose_double("lr", o->lr, d->lr, 0, false, 1000, &s->lr);
    if (st == TDM_OK)
        st = choose_double("clip", o->clip, d->clip, 0, false, 1e9, &s->clip);
    if (st == TDM_OK)
        st = choose_int("warmup", o->warmup, d->warmup, 0, STEPS_MAX, &s->warmup);
    if (st == TDM_OK)
        st = tdmi_schedule_parse(o->schedule == NULL ? "cosine" : o->schedule, &s->schedule);
    s->optimizer.momentum = s->optimizer.beta1;
    return st;
}

static tdm_status resolve_remat(const tdm_train_options *o, tdmi_settings *s)
{
    const char *text = o->remat != NULL ? o->remat : o->memory > 0 ? "auto" : "none";
    char *end;
    const long every = strtol(text, &end, 10);
    if (strcmp(text, "auto") == 0)
        s->remat = TDMI_REMAT_AUTO;
    else if (strcmp(text, "none") == 0 || strcmp(text, "blocks") == 0)
        s->remat = text[0] == 'b';
    else if (end != text && *end == '\0' && every >= 1 && every <= 1000)
        s->remat = (int)every;
    else
        return tdmi_fail(TDM_ERR_INVALID, "--remat %s: it takes none, blocks, K from 1 to 1000 (every K-th block) or auto", text);
    if ((s->remat == TDMI_REMAT_AUTO) != (o->memory > 0))
        return o->memory > 0 ? tdmi_fail(TDM_ERR_INVALID, "--memory is a limit for --remat auto; --remat %s has none", text)
                             : tdmi_fail(TDM_ERR_INVALID, "--remat auto needs a limit: --memory SIZE, as 2G");
    return TDM_OK;
}

static tdm_status read_sizes(const char *text, tdmi_settings *s)
{
    const char *at = text;
    for (s->bucket_list_count = 0; s->bucket_list_count < TDMI_BUCKET_LIST_MAX; at++) {
        char *end;
        const double mb = strtod(at, &end);
        if (end == at || !(mb > 0 && mb <= 1 << 20) || (*end != ',' && *end != '\0'))
            return tdmi_fail(TDM_ERR_INVALID, "--bucket-mb %s: it takes a number of MiB, more than 0 up to %d, a list as 1,25,25, or "
                             "auto", text, 1 << 20);
        s->bucket_list_mb[s->bucket_list_count++] = mb;
        at = end;
        if (*end == '\0')
            return TDM_OK;
    }
    return tdmi_fail(TDM_ERR_INVALID, "--bucket-mb %s: a list of more than %d sizes", text, TDMI_BUCKET_LIST_MAX);
}

static tdm_status resolve_buckets(const tdm_train_options *o, tdmi_settings *s)
{
    const char *text = o->bucket_mb == NULL ? "25" : o->bucket_mb;
    s->bucket_auto = strcmp(text, "auto") == 0;
    tdm_status st = s->bucket_auto ? TDM_OK : read_sizes(text, s);
    if (st != TDM_OK)
        return st;
    if (s->bucket_list_count != 1 && o->first_bucket_mb != TDM_UNSET)
        return tdmi_fail(TDM_ERR_INVALID, "--first-bucket-mb %g and --bucket-mb %s: the latter says the first bucket's size too",
                         o->first_bucket_mb, text);
    if (s->bucket_list_count != 1)
        return TDM_OK;
    s->bucket_mb = s->bucket_list_mb[0];
    s->bucket_list_count = 0;
    return choose_double("first-bucket-mb", o->first_bucket_mb, s->bucket_mb < 1 ? s->bucket_mb : 1, 0, true, 1 << 20,
                         &s->first_bucket_mb);
}

static tdm_status resolve_precision(const tdm_train_options *o, tdmi_settings *s)
{
    s->precision = TDM_F32;
    if (o->precision == NULL || strcmp(o->precision, "f32") == 0)
        return TDM_OK;
    if (strcmp(o->precision, "bf16") == 0 || strcmp(o->precision, "f16") == 0) {
        s->precision = o->precision[0] == 'b' ? TDM_BF16 : TDM_F16;
        return TDM_OK;
    }
    return tdmi_fail(TDM_ERR_INVALID, "--precision %.32s does not exist; there are f32, bf16 and f16", o->precision);
}

/* Once the length of the run is known. */
static void fit_onebit(tdmi_settings *s)
{
    if (s->compress.codec == TDM_CODEC_ONEBIT && s->steps > 0 && s->compress.warmup == 0)
        s->compress.warmup = (int)(ONEBIT_WARMUP * (double)s->steps) + 1;
}

/* What --compress does not go together with, in the user's words; passes/compress.c has the same rules. */
static tdm_status resolve_compress(const tdm_train_options *o, tdmi_settings *s)
{
    tdm_status st = tdm_compression_parse(o->compress == NULL ? "none" : o->compress, &s->compress);
    if (st != TDM_OK)
        return tdmi_fail_while(st, "reading --compress");
    s->compress.seed = o->seed;
    if (s->compress.codec == TDM_CODEC_POWERSGD && s->compress.rank == 0)
        s->compress.rank = POWERSGD_RANK;
    if (s->compress.codec == TDM_CODEC_TOPK && s->compress.fraction == 0)
        s->compress.fraction = TOPK_FRACTION;
    if (s->compress.codec == TDM_CODEC_NONE)
        return TDM_OK;
    if (s->shard > 1)
        return tdmi_fail(TDM_ERR_INVALID, "--compress %s needs whole gradients, which --shard %d does not keep; take --shard 0 or 1",
                         o->compress, s->shard);
    if (s->precision != TDM_F32)
        return tdmi_fail(TDM_ERR_INVALID, "--compress %s makes float32 gradients small; those of --precision %s travel in halves already",
                         o->compress, o->precision);
    if (s->compress.codec != TDM_CODEC_ONEBIT)
        return TDM_OK;
    if (s->optimizer.kind != TDMI_OPTIMIZER_ADAMW)
        return tdmi_fail(TDM_ERR_INVALID, "--compress %s is 1-bit Adam: it takes --optimizer adamw", o->compress);
    if (o->offload != NULL)
        return tdmi_fail(TDM_ERR_INVALID, "--compress %s sends the optimizer's momentum, which --offload keeps in a file; leave one out",
                         o->compress);
    return TDM_OK;
}

void tdmi_settings_compress_text(const tdmi_settings *s, char out[32])
{
    const tdm_compression *c = &s->compress;
    const char *name = tdm_codec_name(c->codec);
    if (c->codec == TDM_CODEC_POWERSGD)
        snprintf(out, 32, "%s:%d", name, c->rank);
    else if (c->codec == TDM_CODEC_ONEBIT && c->warmup > 0)
        snprintf(out, 32, "%s:%d", name, c->warmup);
    else if (c->codec == TDM_CODEC_TOPK)
        snprintf(out, 32, "%s:%g", name, c->fraction);
    else
        snprintf(out, 32, "%s", name);
}

tdm_status tdmi_settings_resolve_step(const tdm_train_options *o, tdmi_settings *s)
{
    tdm_status st = resolve_optimizer(o, s);
    if (st == TDM_OK)
        st = choose_int("accum", o->accum, 1, 1, 1 << 16, &s->micro_batches);
    if (st == TDM_OK)
        st = resolve_precision(o, s);
    if (st == TDM_OK)
        st = choose_int("shard", o->shard, 1, 0, 3, &s->shard);
    if (st == TDM_OK && o->prefetch != TDM_UNSET && s->shard != 3)
        st = tdmi_fail(TDM_ERR_INVALID, "--prefetch is for --shard 3, which gathers parameters; this run has --shard %d", s->shard);
    if (st == TDM_OK)
        st = choose_int("prefetch", o->prefetch, 1, 1, 64, &s->prefetch);
    if (st == TDM_OK)
        st = resolve_compress(o, s);
    if (st == TDM_OK)
        st = resolve_buckets(o, s);
    return st == TDM_OK ? resolve_remat(o, s) : st;
}

tdm_status tdmi_settings_resolve(const tdm_train_options *o, tdmi_settings *s)
{
    *s = (tdmi_settings){.options = *o};
    tdm_status st = resolve_model(o, s);
    if (st == TDM_OK)
        st = tdmi_settings_resolve_step(o, s);
    int steps = 0;
    if (st == TDM_OK)
        st = choose_int("batch", o->batch, s->model->defaults.batch, 1, 1 << 20, &s->batch);
    if (st == TDM_OK && o->steps != TDM_UNSET)
        st = choose_int("steps", o->steps, 0, 1, STEPS_MAX, &steps);
    if (st == TDM_OK && o->steps == TDM_UNSET)
        st = choose_int("epochs", o->epochs, 1, 1, 1000000, &s->epochs);
    if (st == TDM_OK && o->steps != TDM_UNSET && o->epochs != TDM_UNSET)
        st = tdmi_fail(TDM_ERR_INVALID, "--steps %d and --epochs %d: give one of them", o->steps, o->epochs);
    if (st == TDM_OK)
        st = choose_double("val-fraction", o->val_fraction, 0.05, 0, false, 0.9, &s->val_fraction);
    if (st == TDM_OK)
        st = choose_int("save-every", o->save_every, 0, 0, STEPS_MAX, &s->save_every);
    if (st == TDM_OK)
        st = choose_int("keep", o->keep, 3, 1, 1000000, &s->keep);
    if (st == TDM_OK && o->eval_every != TDM_UNSET) {
        int every;
        st = choose_int("eval-every", o->eval_every, 0, 1, STEPS_MAX, &every);
        s->eval_every = every;
    }
    if (st == TDM_OK && (o->trace_from == TDM_UNSET) != (o->trace_to == TDM_UNSET))
        st = tdmi_fail(TDM_ERR_INVALID, "--trace takes FROM:TO, two steps");
    if (st == TDM_OK && o->trace_from != TDM_UNSET && (o->trace_from < 1 || o->trace_to < o->trace_from))
        st = tdmi_fail(TDM_ERR_INVALID, "--trace %d:%d is no range of steps; the first step is 1", o->trace_from, o->trace_to);
    if (st != TDM_OK)
        return st;
    s->steps = steps;
    fit_onebit(s);
    if (o->run_dir != NULL && strlen(o->run_dir) >= sizeof s->run_dir - 64)
        return tdmi_fail(TDM_ERR_INVALID, "--run: a path of %zu bytes is too long", strlen(o->run_dir));
    if (o->run_dir != NULL)
        snprintf(s->run_dir, sizeof s->run_dir, "%s", o->run_dir);
    else
        snprintf(s->run_dir, sizeof s->run_dir, "runs/%s", s->model->name);
    return TDM_OK;
}

tdm_status tdmi_settings_set_epoch(tdmi_settings *s, int64_t batches_an_epoch)
{
    const int64_t steps_an_epoch = (batches_an_epoch + s->micro_batches - 1) / s->micro_batches; /* the last may be short */
    if (s->epochs > 0)
        s->steps = s->epochs * steps_an_epoch;
    if (s->steps > STEPS_MAX)
        return tdmi_fail(TDM_ERR_INVALID, "--epochs %d are %lld steps; at most %d are possible", s->epochs,
                         (long long)s->steps, STEPS_MAX);
    if (s->options.warmup == TDM_UNSET && s->warmup > s->steps / WARMUP_PART)
        s->warmup = (int)(s->steps / WARMUP_PART);
    if (s->eval_every == 0)
        s->eval_every = s->steps < EVALUATIONS_A_RUN ? s->steps : s->steps / EVALUATIONS_A_RUN;
    fit_onebit(s);
    return TDM_OK;
}

tdmi_schedule tdmi_settings_schedule(const tdmi_settings *s)
{
    return (tdmi_schedule){.kind = s->schedule,
                           .lr = s->lr,
                           .end_fraction = s->schedule == TDMI_SCHEDULE_COSINE   ? 0.1
                                           : s->schedule == TDMI_SCHEDULE_LINEAR ? 0.0
                                                                                 : 1.0,
                           .warmup = s->warmup,
                           .steps = s->steps};
}
