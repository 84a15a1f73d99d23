/* embedding.c - rows of a table, picked by token, plus the row of the position.
 *   y[b,t] = wte[tokens[b,t]] + wpe[t]
 *   dwte[tokens[b,t]] += dy[b,t], dwpe[t] += dy[b,t], rows added in the order of b, then t
 * Tokens are below V: whoever fills the input checks them. */
#include "kernels/plain/plain.h"
#include "kernels/shapes.h"

#include <string.h>

static void forward(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state, (void)workspace;
    const int32_t *tokens = in[0];
    const float *wte = in[1], *wpe = in[2];
    float *y = out[0];
    const int64_t rows = tdmi_shape_count(&io->in[0]), T = tdmi_shape_width(&io->in[0]), C = tdmi_shape_width(&io->in[1]);
    for (int64_t n = 0; n < rows; n++)
        for (int64_t c = 0; c < C; c++)
            y[n * C + c] = wte[tokens[n] * C + c] + (wpe != NULL ? wpe[n % T * C + c] : 0.0f);
}

static void backward(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state, (void)workspace;
    const float *dy = in[0];
    const int32_t *tokens = in[1];
    float *dwte = out[0], *dwpe = out[1];
    const int64_t rows = tdmi_shape_count(&io->in[1]), T = tdmi_shape_width(&io->in[1]), C = tdmi_shape_width(&io->in[0]);
    if (dwte != NULL && !tdmi_accumulates(io, 0))
        memset(dwte, 0, tdmi_shape_count(&io->out[0]) * sizeof *dwte);
    if (dwpe != NULL && !tdmi_accumulates(io, 1))
        memset(dwpe, 0, tdmi_shape_count(&io->out[1]) * sizeof *dwpe);
    for (int64_t n = 0; n < rows; n++)
        for (int64_t c = 0; c < C; c++) {
            if (dwte != NULL)
                dwte[tokens[n] * C + c] += dy[n * C + c];
            if (dwpe != NULL)
                dwpe[n % T * C + c] += dy[n * C + c];
        }
}

const tdmi_kernel tdmi_plain_embedding = {.name = "embedding/plain", .op = TDMI_OP_EMBEDDING, .run = forward};
const tdmi_kernel tdmi_plain_embedding_backward = {
    .name = "embedding_backward/plain", .op = TDMI_OP_EMBEDDING_BACKWARD, .run = backward};
