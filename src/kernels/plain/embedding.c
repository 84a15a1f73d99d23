/* embedding.c - rows of a table, picked by token, plus the row of the position.
 *   y[b,t] = wte[tokens[b,t]] + wpe[t]
 *   dwte[tokens[b,t]] += dy[b,t], dwpe[t] += dy[b,t], rows added in the order of b, then t
 * Tokens are below V: whoever fills the input checks them. */
#include "kernels/plain/element.h"
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

/* Row `index[n]` of `table` gets row n of dy, for all n; what falls on one row is summed in float32 and rounded once. */
static void add_rows(tdmi_out table, const int32_t *index, int64_t modulus, int64_t rows, const float *dy, int64_t C)
{
    for (int64_t n = 0; n < rows; n++) {
        const int64_t to = index != NULL ? index[n] : n % modulus;
        bool first = true;
        for (int64_t m = 0; m < n && first; m++)
            first = (index != NULL ? index[m] : m % modulus) != to;
        for (int64_t c = 0; c < C && first; c++) {
            float sum = tdmi_before(table, to * C + c);
            for (int64_t m = n; m < rows; m++)
                if ((index != NULL ? index[m] : m % modulus) == to)
                    sum += dy[m * C + c];
            tdmi_put(table, to * C + c, sum);
        }
    }
}

static void backward(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state, (void)workspace;
    const tdmi_out dwte = {io->out[0].dtype, out[0]}, dwpe = {io->out[1].dtype, out[1]};
    const int64_t rows = tdmi_shape_count(&io->in[1]), T = tdmi_shape_width(&io->in[1]), C = tdmi_shape_width(&io->in[0]);
    if (dwte.at != NULL && !tdmi_accumulates(io, 0))
        memset(dwte.at, 0, tdmi_shape_nbytes(&io->out[0]));
    if (dwpe.at != NULL && !tdmi_accumulates(io, 1))
        memset(dwpe.at, 0, tdmi_shape_nbytes(&io->out[1]));
    if (dwte.at != NULL)
        add_rows(dwte, in[1], 0, rows, in[0], C);
    if (dwpe.at != NULL)
        add_rows(dwpe, NULL, T, rows, in[0], C);
}

const tdmi_kernel tdmi_plain_embedding = {.name = "embedding/plain", .op = TDMI_OP_EMBEDDING, .run = forward};
const tdmi_kernel tdmi_plain_embedding_backward = {
    .name = "embedding_backward/plain", .op = TDMI_OP_EMBEDDING_BACKWARD, .run = backward};
