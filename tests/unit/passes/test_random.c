/* test_random.c - random graphs through all combinations of passes, on plain kernels: what changes no arithmetic changes no bit of the
 * loss and of any gradient; in 16 bits they stay near. The seed of a graph that fails is in the message. */
#include "interpret.h"

#include "core/memory.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define GRAPHS 60
enum { BATCH = 2, TIME = 5, WIDTH = 8, VOCAB = 7, BLOCKS_MAX = 3, STREAM_MAX = 32 };

typedef struct maker {
    tdmi_graph *g;
    uint32_t seed;
    int count, block;               /* labels so far; the block that is being made */
    tdmi_id stream[STREAM_MAX];     /* the tensors [B,T,C] so far: the next op takes the last */
    int streams;
    tdmi_id square;                 /* a weight [C,C] that was used already, or -1 */
} maker;

static uint32_t below(maker *m, uint32_t n)
{
    m->seed = m->seed * 1664525u + 1013904223u;
    return (m->seed >> 10) % n;
}

/* "h.1.norm7": unique. Static storage, for the call that takes it. */
static const char *name(maker *m, const char *what)
{
    static char text[64];
    snprintf(text, sizeof text, "h.%d.%s%d", m->block, what, m->count++);
    return text;
}

static tdmi_id parameter(maker *m, const char *what, int64_t rows, int64_t columns)
{
    return tdmi_graph_parameter(m->g, name(m, what), columns > 0 ? 2 : 1, (const int64_t[]){rows, columns}, columns > 0);
}

static tdmi_id linear(maker *m, tdmi_id x, int64_t out)
{
    const bool again = out == WIDTH && m->square >= 0 && below(m, 3) == 0; /* a weight used twice */
    const tdmi_id w = again ? m->square : parameter(m, "w", out, WIDTH), b = below(m, 2) == 0 ? parameter(m, "b", out, 0) : -1;
    if (out == WIDTH)
        m->square = w;
    return tdmi_linear(m->g, name(m, "linear"), x, w, b);
}

/* y = x sin(z): a user's own op. */
static void own_forward(void *user, const tdm_own_shapes *s, const float *const *in, float *out)
{
    (void)user;
    for (size_t i = 0; i < s->out.count; i++)
        out[i] = in[0][i] * sinf(in[1][i]);
}

static void own_backward(void *user, const tdm_own_shapes *s, const float *const *in, const float *out, const float *d_out, float *const *d_in)
{
    (void)user, (void)out;
    for (size_t i = 0; i < s->out.count; i++) {
        d_in[0][i] += d_out[i] * sinf(in[1][i]);
        d_in[1][i] += d_out[i] * in[0][i] * cosf(in[1][i]);
    }
}

static const tdm_own_op own_op = {.forward = own_forward, .backward = own_backward};

static tdmi_id next(maker *m)
{
    const tdmi_id x = m->stream[m->streams - 1];
    switch (below(m, 8)) {
    case 6: {
        const tdmi_id in[] = {x, m->stream[below(m, (uint32_t)m->streams)]}; /* often x twice */
        return tdmi_custom(m->g, name(m, "own"), &own_op, 2, in, 3, (const int64_t[]){BATCH, TIME, WIDTH});
    }
    case 0: return tdmi_gelu(m->g, name(m, "gelu"), x);
    case 1: {
        const tdmi_id w = parameter(m, "s", WIDTH, 0), b = parameter(m, "t", WIDTH, 0);
        return tdmi_layernorm(m->g, name(m, "norm"), x, w, b, 1e-5f);
    }
    case 2: return tdmi_dropout(m->g, name(m, "dropout"), x, 0.25f);
    case 3: {
        const tdmi_id qkv = linear(m, x, 3 * WIDTH);
        return tdmi_attention(m->g, name(m, "attention"), qkv, 1 << below(m, 3));
    }
    case 4:
    case 5: return tdmi_residual(m->g, name(m, "sum"), x, m->stream[below(m, (uint32_t)m->streams)]);
    default: return linear(m, x, WIDTH);
    }
}

static tdmi_graph *random_graph(uint32_t seed)
{
    maker m = {.g = tdmi_graph_create("random"), .seed = seed * 2654435761u + 1, .square = -1};
    const int64_t window[2] = {BATCH, TIME};
    const tdmi_id tokens = tdmi_graph_input(m.g, "tokens", TDM_I32, 2, window), targets = tdmi_graph_input(m.g, "targets", TDM_I32, 2, window);
    const tdmi_id wte = tdmi_graph_parameter(m.g, "wte", 2, (const int64_t[]){VOCAB, WIDTH}, true);
    m.stream[m.streams++] = tdmi_embedding(m.g, "embedding", tokens, wte, -1);
    const int blocks = 2 + (int)below(&m, BLOCKS_MAX - 1);
    for (m.block = 0; m.block < blocks; m.block++)
        for (int ops = 3 + (int)below(&m, 5); ops > 0; ops--) {
            m.stream[m.streams] = next(&m);
            m.streams++;
        }
    const tdmi_id x = m.stream[m.streams - 1];
    const tdmi_id head = below(&m, 2) == 0 ? wte : tdmi_graph_parameter(m.g, "head", 2, (const int64_t[]){VOCAB, WIDTH}, true);
    (void)tdmi_cross_entropy(m.g, "loss", tdmi_linear(m.g, "logits", x, head, -1), targets);
    if (tdmi_graph_status(m.g) != TDM_OK)
        fail_msg("seed %u: %s", seed, tdm_error_text());
    return m.g;
}

typedef struct result {
    double loss;
    size_t count;
    double *gradient; /* of all parameters, in their order */
} result;

static result run(uint32_t seed, const tdmi_pipeline_options *options)
{
    tdmi_graph *g = random_graph(seed);
    if (tdmi_pipeline_run(g, options) != TDM_OK) /* verify looks at it after each pass */
        fail_msg("seed %u: %s", seed, tdm_error_text());
    machine m = machine_create(g);
    result r = {.loss = machine_run(&m), .gradient = tdmi_malloc(tdmi_graph_parameter_count(g) * sizeof(double), "test")};
    const double scale = options->precision == TDM_F16 ? MACHINE_LOSS_SCALE : 1;
    for (int t = 0; t < g->tensor_count; t++)
        for (size_t i = 0; g->tensor[t].role == TDMI_ROLE_PARAMETER && i < tdmi_shape_count(&g->tensor[t].shape); i++)
            r.gradient[r.count++] = machine_gradient_element(&m, t, i) / scale;
    machine_destroy(&m);
    tdmi_graph_destroy(g);
    return r;
}

static void assert_same(uint32_t seed, const char *what, const result *a, const result *b)
{
    assert_int_equal(a->count, b->count);
    if (a->loss != b->loss || memcmp(a->gradient, b->gradient, a->count * sizeof *a->gradient) != 0)
        fail_msg("seed %u: %s changes bits: loss %.17g, plain %.17g", seed, what, b->loss, a->loss);
}

static void assert_near(uint32_t seed, const char *what, const result *a, const result *b, double bound)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < a->count; i++) {
        difference += (a->gradient[i] - b->gradient[i]) * (a->gradient[i] - b->gradient[i]);
        norm += a->gradient[i] * a->gradient[i];
    }
    if (!(fabs(a->loss - b->loss) <= bound * (1 + fabs(a->loss))) || !(sqrt(difference) <= 8 * bound * (1e-3 + sqrt(norm))))
        fail_msg("seed %u: %s: loss %g, plain %g; gradients differ by %g of %g", seed, what, b->loss, a->loss, sqrt(difference), sqrt(norm));
}

static void passes_that_change_no_arithmetic_change_no_bit(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < GRAPHS; seed++) {
        const tdmi_pipeline_options plain = {.train = true, .unfused = true, .world_size = 1, .clip = true, .shard = 1};
        const result expected = run(seed, &plain);
        assert_true(isfinite(expected.loss));
        for (int combination = 0; combination < 24; combination++) {
            tdmi_pipeline_options options = plain;
            options.unfused = combination % 2 == 0;
            options.remat = combination / 2 % 3;
            options.bucket_cap_mb = combination / 6 % 2 == 0 ? 0 : 0.0002;
            options.first_bucket_mb = options.bucket_cap_mb;
            options.shard = combination / 12 == 0 ? 1 : 0;
            const result found = run(seed, &options);
            char what[96];
            snprintf(what, sizeof what, "fuse %d, remat %d, buckets of %g MB, shard %d", !options.unfused, options.remat, options.bucket_cap_mb,
                     options.shard);
            assert_same(seed, what, &expected, &found);
            tdmi_free(found.gradient);
        }
        tdmi_free(expected.gradient);
    }
}

static void sixteen_bits_stay_near_and_have_their_own_bits(void **state)
{
    (void)state;
    static const struct {
        tdm_dtype type;
        double bound;
    } types[] = {{TDM_BF16, 0.03}, {TDM_F16, 0.004}};
    for (uint32_t seed = 0; seed < GRAPHS; seed++)
        for (int t = 0; t < 2; t++) {
            tdmi_pipeline_options options = {.train = true, .unfused = true, .world_size = 1, .clip = true, .shard = 1};
            const result exact = run(seed, &options);
            options.precision = types[t].type;
            const result expected = run(seed, &options);
            assert_near(seed, tdm_dtype_name(types[t].type), &exact, &expected, types[t].bound);
            for (int combination = 1; combination < 6; combination++) {
                options.unfused = combination % 2 == 0;
                options.remat = combination / 2;
                const result found = run(seed, &options);
                assert_same(seed, tdm_dtype_name(types[t].type), &expected, &found);
                tdmi_free(found.gradient);
            }
            tdmi_free(expected.gradient);
            tdmi_free(exact.gradient);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_that_change_no_arithmetic_change_no_bit),
        cmocka_unit_test(sixteen_bits_stay_near_and_have_their_own_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
