/* bench_kernels.c - what each kernel reaches on the shapes of the two models: GFLOP/s of products and attention, GB/s of the
 * others (bytes of all inputs and outputs once).
 *
 *   bench_kernels [--op TEXT] [--model TEXT] [--type f32|bf16|f16] [--threads N] [--copies N] [--plain]
 *
 * --op and --model choose the rows whose name begins so. --type is the one of activations, weights and gradients (t and g of op.h). Every call takes the next of N copies of its tensors: 1 (the default)
 * shows the caches at their best; as many as exceed the last cache show a model that is larger than it. The time is the tenth
 * percentile: on a busy machine the median tells about the neighbours. */
#include "core/cpu.h"
#include "core/dtype.h"
#include "core/memory.h"
#include "kernels/kernel.h"
#include "kernels/threads.h"
#include "measure/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *model;
    int64_t B, T, C, H, V, I, O; /* letters of op.h */
} sizes;

#define N124M .model = "124m", .B = 4, .T = 64, .C = 768, .H = 12, .V = 50257
#define SMALL .model = "small", .B = 16, .T = 128, .C = 256, .H = 4, .V = 256
#define ATTENTION1024 .model = "long", .B = 1, .T = 1024, .C = 768, .H = 12

typedef struct {
    tdmi_op op;
    sizes s;
} row;

#define PRODUCTS(model, i, o)                                                                                          \
    {TDMI_OP_LINEAR, {model, .I = i, .O = o}}, {TDMI_OP_LINEAR_BACKWARD_INPUT, {model, .I = i, .O = o}},               \
        {TDMI_OP_LINEAR_BACKWARD_WEIGHT, {model, .I = i, .O = o}}
#define OTHERS(model)                                                                                                  \
    {TDMI_OP_ATTENTION, {model}}, {TDMI_OP_ATTENTION_BACKWARD, {model}}, {TDMI_OP_LAYERNORM, {model}},                 \
        {TDMI_OP_LAYERNORM_BACKWARD, {model}}, {TDMI_OP_GELU, {model}}, {TDMI_OP_GELU_BACKWARD, {model}},              \
        {TDMI_OP_RESIDUAL, {model}}, {TDMI_OP_DROPOUT, {model}}, {TDMI_OP_EMBEDDING, {model}},                         \
        {TDMI_OP_EMBEDDING_BACKWARD, {model}}, {TDMI_OP_CROSS_ENTROPY, {model}}, {TDMI_OP_CROSS_ENTROPY_BACKWARD, {model}}

static const row rows[] = {
    PRODUCTS(N124M, 768, 2304),  PRODUCTS(N124M, 768, 768), PRODUCTS(N124M, 768, 3072), PRODUCTS(N124M, 3072, 768),
    PRODUCTS(N124M, 768, 50257), OTHERS(N124M), {TDMI_OP_LINEAR_GELU, {N124M, .I = 768, .O = 3072}},
    {TDMI_OP_LINEAR_BACKWARD_INPUT_GELU, {N124M, .I = 3072, .O = 768}}, {TDMI_OP_RESIDUAL_LAYERNORM, {N124M}},
               PRODUCTS(SMALL, 256, 768),  PRODUCTS(SMALL, 256, 256),
    PRODUCTS(SMALL, 256, 1024),  PRODUCTS(SMALL, 1024, 256), OTHERS(SMALL), {TDMI_OP_LINEAR_GELU, {SMALL, .I = 256, .O = 1024}},
    {TDMI_OP_LINEAR_BACKWARD_INPUT_GELU, {SMALL, .I = 1024, .O = 256}}, {TDMI_OP_RESIDUAL_LAYERNORM, {SMALL}}, {TDMI_OP_ATTENTION, {ATTENTION1024}},
    {TDMI_OP_ATTENTION_BACKWARD, {ATTENTION1024}},
};

static tdm_dtype type = TDM_F32;

static void shapes(const row *r, tdmi_kernel_io *io)
{
    const sizes *s = &r->s;
    const int64_t width = r->op == TDMI_OP_GELU || r->op == TDMI_OP_GELU_BACKWARD ? 4 * s->C : s->C;
    const tdmi_shape btc = {TDM_F32, 3, {s->B, s->T, width}}, btc_t = {type, 3, {s->B, s->T, width}}, bt = {TDM_F32, 2, {s->B, s->T}}, c = {TDM_F32, 1, {s->C}};
    const tdmi_shape bti = {type, 3, {s->B, s->T, s->I}}, bto = {type, 3, {s->B, s->T, s->O}};
    const tdmi_shape oi = {type, 2, {s->O, s->I}}, o = {TDM_F32, s->O == 50257 ? -1 : 1, {s->O}};
    const tdmi_shape o_g = {type, o.ndim, {s->O}}, c_g = {type, 1, {s->C}}, vc_g = {type, 2, {s->V, s->C}}, pc_g = {type, 2, {1024, s->C}};
    const tdmi_shape narrow = {type, type == TDM_F32 ? -1 : 3, {s->B, s->T, width}};
    const tdmi_shape tokens = {TDM_I32, 2, {s->B, s->T}}, vc = {TDM_F32, 2, {s->V, s->C}}, pc = {TDM_F32, 2, {1024, s->C}};
    const tdmi_shape btv = {type, 3, {s->B, s->T, s->V}}, one = {TDM_F32, 1, {1}}, mask = {TDM_U8, 3, {s->B, s->T, s->C}};
    const tdmi_shape qkv = {type, 3, {s->B, s->T, 3 * s->C}}, lse = {TDM_F32, 3, {s->B, s->H, s->T}};
    switch (r->op) {
    case TDMI_OP_LINEAR: *io = (tdmi_kernel_io){.in = {bti, oi, o}, .out = {bto}}; break;
    case TDMI_OP_LINEAR_BACKWARD_INPUT: *io = (tdmi_kernel_io){.in = {bto, oi}, .out = {bti}}; break;
    case TDMI_OP_LINEAR_BACKWARD_WEIGHT: *io = (tdmi_kernel_io){.in = {bto, bti}, .out = {oi, o_g}}; break;
    case TDMI_OP_ATTENTION: *io = (tdmi_kernel_io){.in = {qkv}, .out = {btc_t, lse}}; break;
    case TDMI_OP_ATTENTION_BACKWARD: *io = (tdmi_kernel_io){.in = {btc_t, qkv, btc_t, lse}, .out = {qkv}}; break;
    case TDMI_OP_LAYERNORM: *io = (tdmi_kernel_io){.in = {btc, c, c}, .out = {btc_t, bt, bt}}; break;
    case TDMI_OP_LAYERNORM_BACKWARD: *io = (tdmi_kernel_io){.in = {btc_t, btc, c, bt, bt}, .out = {btc, c_g, c_g, narrow}}; break;
    case TDMI_OP_GELU: *io = (tdmi_kernel_io){.in = {btc_t}, .out = {btc_t}}; break;
    case TDMI_OP_RESIDUAL: *io = (tdmi_kernel_io){.in = {btc, btc_t}, .out = {btc}}; break;
    case TDMI_OP_GELU_BACKWARD: *io = (tdmi_kernel_io){.in = {btc_t, btc_t}, .out = {btc_t}}; break;
    case TDMI_OP_LINEAR_GELU: *io = (tdmi_kernel_io){.in = {bti, oi, o}, .out = {bto, bto}}; break;
    case TDMI_OP_LINEAR_BACKWARD_INPUT_GELU: *io = (tdmi_kernel_io){.in = {bto, oi, bti}, .out = {bti}}; break;
    case TDMI_OP_RESIDUAL_LAYERNORM: *io = (tdmi_kernel_io){.in = {btc, btc_t, c, c}, .out = {btc, btc_t, bt, bt}}; break;
    case TDMI_OP_DROPOUT: *io = (tdmi_kernel_io){.in = {btc_t, mask}, .out = {btc_t}}; break;
    case TDMI_OP_EMBEDDING: *io = (tdmi_kernel_io){.in = {tokens, vc, pc}, .out = {btc}}; break;
    case TDMI_OP_EMBEDDING_BACKWARD: /* into a gradient that the head has written */
        *io = (tdmi_kernel_io){.in = {btc, tokens}, .out = {vc_g, pc_g}, .attr.accumulate = 1};
        break;
    case TDMI_OP_CROSS_ENTROPY: *io = (tdmi_kernel_io){.in = {btv, tokens}, .out = {one, bt}}; break;
    case TDMI_OP_CROSS_ENTROPY_BACKWARD: *io = (tdmi_kernel_io){.in = {btv, tokens, bt, {.ndim = -1}}, .out = {btv}}; break;
    default: break;
    }
    io->op = r->op;
    io->attr.eps = 1e-5f, io->attr.p = 0.1f, io->attr.heads = (int)s->H;
    for (io->in_count = 0; io->in_count < TDMI_NODE_IN_MAX && io->in[io->in_count].ndim != 0;)
        io->in_count++;
    for (io->out_count = 0; io->out_count < TDMI_NODE_OUT_MAX && io->out[io->out_count].ndim != 0;)
        io->out_count++;
}

static double flop(const row *r)
{
    const sizes *s = &r->s;
    const double rows_of_x = (double)(s->B * s->T);
    switch (r->op) {
    case TDMI_OP_LINEAR:
    case TDMI_OP_LINEAR_GELU:
    case TDMI_OP_LINEAR_BACKWARD_INPUT:
    case TDMI_OP_LINEAR_BACKWARD_INPUT_GELU:
    case TDMI_OP_LINEAR_BACKWARD_WEIGHT: return 2.0 * rows_of_x * (double)(s->I * s->O);
    case TDMI_OP_ATTENTION: return 2.0 * rows_of_x * (double)(s->C * (s->T + 1)); /* two products, half of each */
    case TDMI_OP_ATTENTION_BACKWARD: return 5.0 * rows_of_x * (double)(s->C * (s->T + 1));
    default: return 0.0;
    }
}

typedef struct {
    tdmi_bound_kernel bound;
    void **in, **out; /* [copies][operands] */
    void *workspace;
    int copies, next;
    double nbytes;
} job;

/* Values in -size..size. */
static void *filled(const tdmi_shape *shape, const sizes *s, float size)
{
    static uint32_t seed = 1;
    char *block = tdmi_aligned_alloc(4096, tdmi_shape_nbytes(shape) + 64, "bench tensor");
    if (block == NULL)
        exit(1);
    const size_t count = tdmi_shape_count(shape);
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        const float value = size * ((float)(seed >> 8) / 8388608.0f - 1.0f);
        if (shape->dtype == TDM_F32)
            ((float *)(void *)block)[i] = value;
        else if (shape->dtype == TDM_BF16)
            ((uint16_t *)(void *)block)[i] = tdmi_f32_to_bf16(value);
        else if (shape->dtype == TDM_F16)
            ((uint16_t *)(void *)block)[i] = tdmi_f32_to_f16(value);
        else if (shape->dtype == TDM_I32)
            ((int32_t *)(void *)block)[i] = (int32_t)((seed >> 8) % (uint32_t)s->V);
        else
            block[i] = (seed >> 8) % 10 != 0;
    }
    return block;
}

static void create(job *j, const row *r, const tdmi_kernel *kernel, int copies)
{
    *j = (job){.bound.kernel = kernel, .copies = copies};
    shapes(r, &j->bound.io);
    const tdmi_kernel_io *io = &j->bound.io;
    j->in = tdmi_calloc((size_t)copies * TDMI_NODE_IN_MAX, sizeof *j->in, "bench tensors");
    j->out = tdmi_calloc((size_t)copies * TDMI_NODE_OUT_MAX, sizeof *j->out, "bench tensors");
    for (int k = 0; k < copies; k++) {
        for (int i = 0; i < io->in_count; i++)
            if (io->in[i].ndim > 0)
                j->in[k * TDMI_NODE_IN_MAX + i] = filled(&io->in[i], &r->s, i == 0 ? 1.0f : 1.0f / 16); /* weights are small: no gelu of a huge number */
        for (int i = 0; i < io->out_count; i++)
            if (io->out[i].ndim > 0)
                j->out[k * TDMI_NODE_OUT_MAX + i] = filled(&io->out[i], &r->s, 1.0f);
    }
    for (int i = 0; i < io->in_count; i++) /* of a table, only the rows of the tokens */
        if (r->op != TDMI_OP_EMBEDDING || i == 0)
            j->nbytes += io->in[i].ndim > 0 ? (double)tdmi_shape_nbytes(&io->in[i]) : 0.0;
    for (int i = 0; i < io->out_count; i++)
        if (r->op != TDMI_OP_EMBEDDING_BACKWARD)
            j->nbytes += io->out[i].ndim > 0 ? (double)tdmi_shape_nbytes(&io->out[i]) : 0.0;
    if (kernel->prepare != NULL && kernel->prepare(io, &j->bound.state, &j->bound.workspace_nbytes) != TDM_OK)
        exit(1);
    j->workspace = tdmi_malloc(j->bound.workspace_nbytes, "bench workspace");
}

static void destroy(job *j)
{
    for (int i = 0; i < j->copies * TDMI_NODE_IN_MAX; i++)
        tdmi_free(j->in[i]);
    for (int i = 0; i < j->copies * TDMI_NODE_OUT_MAX; i++)
        tdmi_free(j->out[i]);
    tdmi_free(j->in);
    tdmi_free(j->out);
    tdmi_free(j->workspace);
    tdmi_kernel_unbind(&j->bound);
}

static tdm_status run(void *arg)
{
    job *j = arg;
    tdmi_kernel_run(&j->bound, (const void *const *)j->in + j->next * TDMI_NODE_IN_MAX,
                    j->out + j->next * TDMI_NODE_OUT_MAX, j->workspace);
    j->next = (j->next + 1) % j->copies;
    return TDM_OK;
}

static bool supports(const row *r, const tdmi_kernel *kernel)
{
    tdmi_kernel_io io;
    shapes(r, &io);
    return kernel->supports == NULL || kernel->supports(&io);
}

static void measure(const row *r, const tdmi_kernel *kernel, int copies)
{
    enum { SAMPLES = 25 };
    job j;
    double ns[SAMPLES];
    create(&j, r, kernel, copies);
    (void)tdmi_measure(run, &j, 1, 2, 1, ns);
    const double once = tdmi_summarise(ns, 2).median;
    const int calls = once < 4e6 ? (int)(4e6 / once) + 1 : 1, samples = once > 5e7 ? 7 : SAMPLES;
    (void)tdmi_measure(run, &j, copies > 2 ? copies - 2 : 0, samples, calls, ns);
    const tdmi_summary time = tdmi_summarise(ns, (size_t)samples);
    printf("%-6s %-32s", r->s.model, kernel->name);
    if (r->s.I > 0)
        printf(" %4d x %4d -> %5d", (int)(r->s.B * r->s.T), (int)r->s.I, (int)r->s.O);
    else
        printf(" %20s", "");
    printf(" %9.1f us %5.0f%% %8.1f %s\n", time.median / 1e3, time.spread * 100, (flop(r) > 0 ? flop(r) : j.nbytes) / time.median,
           flop(r) > 0 ? "GFLOP/s" : "GB/s");
    fflush(stdout);
    destroy(&j);
}

int main(int argc, char **argv)
{
    const char *op = "", *model = "";
    int copies = 1;
    bool plain = false;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--plain") == 0)
            plain = true;
        else if (strcmp(argv[i], "--op") == 0)
            op = value, i++;
        else if (strcmp(argv[i], "--model") == 0)
            model = value, i++;
        else if (strcmp(argv[i], "--type") == 0 && tdm_dtype_parse(value, &type))
            i++;
        else if (strcmp(argv[i], "--threads") == 0)
            tdmi_kernels_set_threads(atoi(value)), i++;
        else if (strcmp(argv[i], "--copies") == 0)
            copies = atoi(value) > 0 ? atoi(value) : 1, i++;
        else {
            fprintf(stderr, "usage: %s [--op TEXT] [--model TEXT] [--type f32|bf16|f16] [--threads N] [--copies N] [--plain]\n", argv[0]);
            return 2;
        }
    }
    printf("# %s, %s, %d threads, %d copies; columns: median time, spread (p90 - p10) / median, rate\n", tdmi_cpu_model(),
           tdmi_isa_name(tdmi_cpu_isa()), tdmi_kernels_threads(), copies);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strncmp(tdmi_op_text(rows[i].op), op, strlen(op)) != 0 || strncmp(rows[i].s.model, model, strlen(model)) != 0)
            continue;
        const tdmi_kernel *const *kernels;
        const size_t count = tdmi_kernels_of(rows[i].op, &kernels);
        for (size_t k = 0; k < count; k++)
            if (kernels[k]->isa <= (int)tdmi_cpu_isa() && (k + 1 < count || plain) && supports(&rows[i], kernels[k]))
                measure(&rows[i], kernels[k], copies);
    }
    return 0;
}
