/* small_model.c - see small_model.h. */
#include "small_model.h"

#include <math.h>
#include <string.h>

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

/* user: what is added to each result of forward and backward. */
static void swish(void *user, const tdm_own_shapes *s, const float *const *in, float *out)
{
    const small_spec *spec = user;
    for (size_t i = 0; i < s->out.count; i++)
        out[i] = in[1][i % s->in[1].count] * in[0][i] * sigmoid(in[0][i]) + spec->break_forward;
}

static void swish_backward(void *user, const tdm_own_shapes *s, const float *const *in, const float *out, const float *d_out,
                           float *const *d_in)
{
    const small_spec *spec = user;
    (void)out;
    for (size_t i = 0; i < s->out.count; i++) {
        const float x = in[0][i], p = sigmoid(x), scale = in[1][i % s->in[1].count];
        d_in[0][i] += d_out[i] * scale * (p + x * p * (1 - p)) + spec->break_backward;
        d_in[1][i % s->in[1].count] += d_out[i] * x * p;
    }
}

static void mean_square(void *user, const tdm_own_shapes *s, const float *const *in, float *out)
{
    double sum = 0;
    (void)user;
    for (size_t i = 0; i < s->in[0].count; i++)
        sum += (double)in[0][i] * (double)in[0][i];
    *out = (float)(sum / (double)s->in[0].count);
}

static void mean_square_backward(void *user, const tdm_own_shapes *s, const float *const *in, const float *out, const float *d_out,
                                 float *const *d_in)
{
    (void)user, (void)out;
    for (size_t i = 0; i < s->in[0].count; i++)
        d_in[0][i] += *d_out * 2 * in[0][i] / (float)s->in[0].count;
}

static tdm_tensor linear(tdm_model *m, const char *name, tdm_tensor x, int64_t in, int64_t out, int bias_group)
{
    tdm_model_push(m, "%s", name);
    const tdm_parameter random = {.init = TDM_INIT_UNIFORM, .scale = 0.5}, bias = {.init = TDM_INIT_UNIFORM, .scale = 0.1, .group = bias_group};
    const tdm_tensor w = tdm_model_parameter(m, "weight", 2, (const int64_t[]){out, in}, &random);
    x = tdm_model_linear(m, "product", x, w, tdm_model_parameter(m, "bias", 1, &out, &bias));
    tdm_model_pop(m);
    return x;
}

static tdm_tensor block(tdm_model *m, const small_spec *spec, int number, tdm_tensor x, int bias_group)
{
    const int64_t width = SMALL_WIDTH, dims[] = {spec->batch, SMALL_WIDTH};
    const tdm_parameter ones = {.init = TDM_INIT_ONES}, bias = {.group = bias_group};
    tdm_model_push(m, "h.%d", number);
    const tdm_tensor w = tdm_model_parameter(m, "norm.weight", 1, &width, &ones), b = tdm_model_parameter(m, "norm.bias", 1, &width, &bias);
    tdm_tensor y = linear(m, "in", tdm_model_layernorm(m, "norm", x, w, b, 1e-5f), SMALL_WIDTH, SMALL_WIDTH, bias_group);
    const tdm_own_op op = {swish, swish_backward, (void *)(uintptr_t)spec};
    y = tdm_model_own_op(m, "swish", &op, 2, (const tdm_tensor[]){y, tdm_model_parameter(m, "scale", 1, &width, &ones)}, 2, dims);
    y = tdm_model_dropout(m, "dropout", y, spec->dropout);
    y = tdm_model_residual(m, "residual", x, linear(m, "out", y, SMALL_WIDTH, SMALL_WIDTH, bias_group));
    tdm_model_pop(m);
    return y;
}

tdm_model *small_model(const small_spec *spec, bool biases)
{
    tdm_model *m;
    if (tdm_model_create("small", &m) != TDM_OK)
        return NULL;
    const int64_t batch = spec->batch, window[] = {spec->batch, SMALL_WINDOW};
    const tdm_tensor letters = tdm_model_input(m, "letters", TDM_I32, 2, window), next = tdm_model_input(m, "next", TDM_I32, 1, &batch);
    const tdm_parameter table = {.init = TDM_INIT_NORMAL, .scale = 1, .frozen = spec->freeze_table};
    tdm_tensor x = tdm_model_embedding(m, "embedding", letters,
                                       tdm_model_parameter(m, "table", 2, (const int64_t[]){SMALL_LETTERS, SMALL_WIDTH}, &table), -1);
    x = tdm_model_reshape(m, x, 2, (const int64_t[]){batch, SMALL_WINDOW * SMALL_WIDTH});
    x = linear(m, "first", x, SMALL_WINDOW * SMALL_WIDTH, SMALL_WIDTH, biases);
    for (int i = 0; i < 2; i++)
        x = block(m, spec, i, x, biases);
    if (spec->unused)
        (void)tdm_model_parameter(m, "spare", 1, (const int64_t[]){5}, &(tdm_parameter){.init = TDM_INIT_ONES});
    const tdm_tensor logits = linear(m, "head", x, SMALL_WIDTH, SMALL_LETTERS, biases);
    tdm_model_loss(m, tdm_model_cross_entropy(m, "loss", logits, next), 1);
    if (spec->size_weight > 0) {
        const tdm_own_op op = {mean_square, mean_square_backward, NULL};
        tdm_model_loss(m, tdm_model_own_op(m, "size", &op, 1, &logits, 1, (const int64_t[]){1}), spec->size_weight);
    }
    return m;
}

void small_batch(int number, int first, int rows, int32_t *letters, int32_t *next)
{
    for (int r = 0; r < rows; r++) {
        unsigned state = (unsigned)(number * 1000 + first + r) * 2654435761u + 12345u;
        for (int i = 0; i < SMALL_WINDOW; i++)
            letters[r * SMALL_WINDOW + i] = (int32_t)(((state = state * 1664525u + 1013904223u) >> 24) % SMALL_LETTERS);
        next[r] = letters[r * SMALL_WINDOW + 1];
    }
}

tdm_training_options small_options(void)
{
    tdm_training_options o;
    tdm_training_options_init(&o);
    o.optimizer = "sgd";
    o.lr = 0.1;
    o.beta1 = 0;
    o.weight_decay = 0;
    o.seed = 3;
    return o;
}

tdm_status small_begin(small_run *run, tdm_group *group, const small_spec *spec, const tdm_training_options *options)
{
    *run = (small_run){.group = group, .spec = *spec};
    run->model = small_model(&run->spec, options->group_count > 1);
    return run->model == NULL ? TDM_ERR_NO_MEMORY : tdm_training_create(run->model, group, options, &run->training);
}

typedef struct feeding {
    small_run *run;
    int micro_batches;
} feeding;

static tdm_status feed(void *arg, tdm_training *training, int micro_batch)
{
    const feeding *f = arg;
    const int rows = f->run->spec.batch, rank = tdm_group_rank(f->run->group);
    small_batch(f->run->steps, (rank * f->micro_batches + micro_batch) * rows, rows, tdm_training_input(training, "letters"),
                tdm_training_input(training, "next"));
    return TDM_OK;
}

tdm_status small_step(small_run *run, int micro_batches)
{
    feeding f = {run, micro_batches};
    tdm_status st = tdm_training_step(run->training, micro_batches, feed, &f, &run->result);
    run->steps += st == TDM_OK;
    return st;
}

void small_end(small_run *run)
{
    tdm_training_destroy(run->training);
    tdm_model_destroy(run->model);
}
