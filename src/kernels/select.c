/* select.c - which kernel serves a node: for each op its kernels, best first; the first that the instruction set has and
 * that supports the shape is taken. Fixed by CPU and shape, never by timing. */
#include "kernels/kernel.h"

#include "core/cpu.h"
#include "kernels/onednn/onednn.h"
#include "kernels/plain/plain.h"
#include "kernels/simd/simd.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#define SIMD(name) &tdmi_avx512_##name, &tdmi_avx2_##name,
#else
#define SIMD(name)
#endif

#if defined(TDMI_HAVE_ONEDNN)
#define ONEDNN(name) &tdmi_onednn_##name,
#else
#define ONEDNN(name)
#endif

/* X(NAME, kernels of TDMI_OP_NAME, best first; the plain one last) */
#define KERNELS_MAP(X)                                                                                                 \
    X(EMBEDDING, SIMD(embedding) &tdmi_plain_embedding)                                                                \
    X(LINEAR, ONEDNN(linear) SIMD(linear) SIMD(linear_widened) &tdmi_plain_linear)                                     \
    X(LAYERNORM, SIMD(layernorm) &tdmi_plain_layernorm)                                                                \
    X(RESIDUAL, SIMD(residual) &tdmi_plain_residual)                                                                   \
    X(GELU, SIMD(gelu) &tdmi_plain_gelu)                                                                               \
    X(ATTENTION, SIMD(attention) &tdmi_plain_attention)                                                                \
    X(DROPOUT, SIMD(dropout) &tdmi_plain_dropout)                                                                      \
    X(CROSS_ENTROPY, SIMD(cross_entropy) &tdmi_plain_cross_entropy)                                                    \
    X(CAST, SIMD(cast) &tdmi_plain_cast)                                                                               \
    X(EMBEDDING_BACKWARD, SIMD(embedding_backward) &tdmi_plain_embedding_backward)                                     \
    X(LINEAR_BACKWARD_INPUT, ONEDNN(linear_backward_input) SIMD(linear_backward_input)                                 \
          SIMD(linear_backward_input_widened) &tdmi_plain_linear_backward_input)                                       \
    X(LINEAR_BACKWARD_WEIGHT, ONEDNN(linear_backward_weight) SIMD(linear_backward_weight)                              \
          SIMD(linear_backward_weight_widened) &tdmi_plain_linear_backward_weight)                                     \
    X(LAYERNORM_BACKWARD, SIMD(layernorm_backward) &tdmi_plain_layernorm_backward)                                     \
    X(GELU_BACKWARD, SIMD(gelu_backward) &tdmi_plain_gelu_backward)                                                    \
    X(ATTENTION_BACKWARD, SIMD(attention_backward) &tdmi_plain_attention_backward)                                     \
    X(DROPOUT_BACKWARD, SIMD(dropout_backward) &tdmi_plain_dropout_backward)                                           \
    X(CROSS_ENTROPY_BACKWARD, SIMD(cross_entropy_backward) &tdmi_plain_cross_entropy_backward)                         \
    X(CUSTOM, &tdmi_plain_custom)                                                                                      \
    X(CUSTOM_BACKWARD, &tdmi_plain_custom_backward)                                                                    \
    X(LOSS_SUM, &tdmi_plain_loss_sum)                                                                                  \
    X(LOSS_SUM_BACKWARD, &tdmi_plain_loss_sum_backward)                                                                \
    X(LINEAR_GELU, ONEDNN(linear_gelu) SIMD(linear_gelu) SIMD(linear_gelu_widened) &tdmi_plain_linear_gelu)           \
    X(RESIDUAL_LAYERNORM, SIMD(residual_layernorm) &tdmi_plain_residual_layernorm)                                     \
    X(LINEAR_BACKWARD_INPUT_GELU, ONEDNN(linear_backward_input_gelu) SIMD(linear_backward_input_gelu)                  \
          SIMD(linear_backward_input_gelu_widened) &tdmi_plain_linear_backward_input_gelu)                             \
    X(ADD, SIMD(add) &tdmi_plain_add)

#define KERNELS_LIST(NAME, ...) static const tdmi_kernel *const kernels_##NAME[] = {__VA_ARGS__};
KERNELS_MAP(KERNELS_LIST)
#undef KERNELS_LIST

static const struct {
    const tdmi_kernel *const *kernels; /* NULL: not an op of kernels */
    size_t count;
} table[TDMI_OP_COUNT] = {
#define KERNELS_ROW(NAME, ...) [TDMI_OP_##NAME] = {kernels_##NAME, sizeof kernels_##NAME / sizeof *kernels_##NAME},
    KERNELS_MAP(KERNELS_ROW)
#undef KERNELS_ROW
};

size_t tdmi_kernels_of(tdmi_op op, const tdmi_kernel *const **out)
{
    *out = (unsigned)op < TDMI_OP_COUNT ? table[op].kernels : NULL;
    return *out != NULL ? table[op].count : 0;
}

/* "[4,64,768] [768,768] -" for messages. */
static void print_shapes(const tdmi_kernel_io *io, char *text, size_t nbytes)
{
    size_t length = 0;
    text[0] = '\0';
    for (int i = 0; i < io->in_count && length + 1 < nbytes; i++) {
        const tdmi_shape *shape = &io->in[i];
        length += (size_t)snprintf(text + length, nbytes - length, i > 0 ? " " : "");
        if (shape->ndim < 0 && length + 1 < nbytes)
            length += (size_t)snprintf(text + length, nbytes - length, "-");
        for (int d = 0; d < shape->ndim && length + 1 < nbytes; d++)
            length += (size_t)snprintf(text + length, nbytes - length, "%s%lld%s", d == 0 ? "[" : ",",
                                       (long long)shape->dims[d], d + 1 == shape->ndim ? "]" : "");
    }
}

tdm_status tdmi_kernel_bind(const tdmi_kernel_io *io, int isa, tdmi_bound_kernel *out)
{
    const tdmi_kernel *const *kernels;
    const size_t count = tdmi_kernels_of(io->op, &kernels);
    for (size_t i = 0; i < count; i++) {
        if (kernels[i]->isa > isa || (kernels[i]->supports != NULL && !kernels[i]->supports(io)))
            continue;
        *out = (tdmi_bound_kernel){.kernel = kernels[i], .io = *io};
        if (kernels[i]->prepare == NULL)
            return TDM_OK;
        return kernels[i]->prepare(&out->io, &out->state, &out->workspace_nbytes);
    }
    char shapes[256];
    print_shapes(io, shapes, sizeof shapes);
    return tdmi_fail(TDM_ERR_UNSUPPORTED, "no kernel computes %s of %s on %s", tdmi_op_text(io->op), shapes,
                     tdmi_isa_name((tdmi_isa)isa));
}

void tdmi_kernel_unbind(tdmi_bound_kernel *bound)
{
    if (bound->kernel != NULL && bound->kernel->release != NULL)
        bound->kernel->release(bound->state);
    *bound = (tdmi_bound_kernel){0};
}

static pthread_once_t table_once = PTHREAD_ONCE_INIT;
static char table_text[2048]; /* written once under table_once */

static void print_table(void)
{
    const tdmi_isa isa = tdmi_cpu_isa();
    size_t length = (size_t)snprintf(table_text, sizeof table_text, "isa %s", tdmi_isa_name(isa));
    for (int op = 0; op < TDMI_OP_COUNT; op++)
        for (size_t i = 0; i < table[op].count; i++)
            if (table[op].kernels[i]->isa <= (int)isa) {
                const char *name = table[op].kernels[i]->name, *slash = strchr(name, '/');
                if (length < sizeof table_text)
                    length += (size_t)snprintf(table_text + length, sizeof table_text - length, "; %.*s=%s",
                                               (int)(slash - name), name, slash + 1);
                if (table[op].kernels[i]->supports == NULL)
                    break;
            }
}

const char *tdmi_kernels_table(void)
{
    pthread_once(&table_once, print_table);
    return table_text;
}
