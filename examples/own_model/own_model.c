/* own_model.c - a model of your own, with an activation of your own, on any number of ranks:
 *     tandem run -n 2 ./own_model */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tandem/tandem.h>

enum { WINDOW = 8, WIDTH = 32, LETTERS = 16, BATCH = 48, STEPS = 200 };

static void check(tdm_status status)
{
    if (status != TDM_OK) {
        fprintf(stderr, "%s\n", tdm_error_text());
        exit(1);
    }
}

/* out = x sigmoid(x), which Tandem does not have */
static void silu(void *user, const tdm_own_shapes *s, const float *const *in, float *out)
{
    (void)user;
    for (size_t i = 0; i < s->out.count; i++)
        out[i] = in[0][i] / (1 + expf(-in[0][i]));
}

static void silu_backward(void *user, const tdm_own_shapes *s, const float *const *in, const float *out, const float *d_out,
                          float *const *d_in)
{
    (void)user;
    for (size_t i = 0; i < s->out.count; i++) {
        const float sigmoid = 1 / (1 + expf(-in[0][i]));
        d_in[0][i] += d_out[i] * (out[i] * (1 - sigmoid) + sigmoid);
    }
}

static tdm_tensor linear(tdm_model *m, const char *name, tdm_tensor x, int64_t in, int64_t out)
{
    tdm_model_push(m, "%s", name);
    const tdm_parameter random = {.init = TDM_INIT_UNIFORM, .scale = 1 / sqrt((double)in)}, zeros = {.group = 1};
    const tdm_tensor w = tdm_model_parameter(m, "weight", 2, (const int64_t[]){out, in}, &random);
    x = tdm_model_linear(m, "product", x, w, tdm_model_parameter(m, "bias", 1, &out, &zeros));
    tdm_model_pop(m);
    return x;
}

/* The letters of a window, side by side, predict the next one. */
static tdm_model *build(int batch)
{
    tdm_model *m;
    check(tdm_model_create("next letter", &m));
    const tdm_tensor letters = tdm_model_input(m, "letters", TDM_I32, 2, (const int64_t[]){batch, WINDOW});
    const tdm_tensor next = tdm_model_input(m, "next", TDM_I32, 1, (const int64_t[]){batch});
    const tdm_parameter normal = {.init = TDM_INIT_NORMAL, .scale = 0.5};
    const tdm_tensor table = tdm_model_parameter(m, "table", 2, (const int64_t[]){LETTERS, WIDTH}, &normal);
    tdm_tensor x = tdm_model_embedding(m, "letters in", letters, table, -1);
    x = linear(m, "hidden", tdm_model_reshape(m, x, 2, (const int64_t[]){batch, WINDOW * WIDTH}), WINDOW * WIDTH, WIDTH);
    x = tdm_model_own_op(m, "silu", &(tdm_own_op){silu, silu_backward, NULL}, 1, &x, 2, (const int64_t[]){batch, WIDTH});
    tdm_model_loss(m, tdm_model_cross_entropy(m, "loss", linear(m, "out", x, WIDTH, LETTERS), next), 1);
    check(tdm_model_status(m));
    return m;
}

/* A rank's share of the batch: the next letter is the first one plus the last one. */
static tdm_status feed(void *arg, tdm_training *training, int micro_batch)
{
    const tdm_group *group = arg;
    const int share = BATCH / tdm_group_size(group);
    int32_t *letters = tdm_training_input(training, "letters"), *next = tdm_training_input(training, "next");
    static unsigned state = 1;
    (void)micro_batch;
    for (int b = 0; b < BATCH; b++) { /* all ranks draw the same batch, each keeps its share */
        int32_t window[WINDOW];
        for (int i = 0; i < WINDOW; i++)
            window[i] = (int32_t)((state = state * 1664525u + 1013904223u) >> 24) % LETTERS;
        const int at = b - tdm_group_rank(group) * share;
        for (int i = 0; i < WINDOW && at >= 0 && at < share; i++)
            letters[at * WINDOW + i] = window[i];
        if (at >= 0 && at < share)
            next[at] = (window[0] + window[WINDOW - 1]) % LETTERS;
    }
    return TDM_OK;
}

int main(void)
{
    tdm_group *group;
    tdm_training *training;
    tdm_training_options options;
    check(tdm_group_create(NULL, &group));
    tdm_model *model = build(BATCH / tdm_group_size(group));
    tdm_training_options_init(&options);
    options.lr = 0.01;
    options.groups[0] = (tdm_parameter_group){.lr_factor = 1, .weight_decay = 0.01};
    options.groups[1] = (tdm_parameter_group){.lr_factor = 1, .weight_decay = 0}; /* biases */
    options.group_count = 2;
    check(tdm_training_create(model, group, &options, &training));
    for (int step = 1; step <= STEPS; step++) {
        tdm_training_result result;
        check(tdm_training_step(training, 0, feed, group, &result));
        if (step % 20 == 0 && tdm_group_rank(group) == 0)
            printf("step %d loss %.6f\n", step, result.loss);
    }
    tdm_training_destroy(training);
    tdm_model_destroy(model);
    tdm_group_destroy(group);
    return 0;
}
