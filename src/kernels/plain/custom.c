/* custom.c - an op of the user's own. His backward function adds to float32 zeros; where the gradient has another type, is added to, or
 * is not needed, these lie in the workspace, and what is needed of them goes from there to its place. */
#include "kernels/plain/element.h"
#include "kernels/plain/plain.h"
#include "kernels/shapes.h"

#include "core/memory.h"

#include <string.h>

#define LINE 16 /* floats of a cache line */

typedef struct custom {
    tdm_own_shapes shapes;
    size_t scratch[TDM_OWN_OP_INPUTS]; /* floats from the start of the workspace, of those that need it */
    bool direct[TDM_OWN_OP_INPUTS];
} custom;

static tdm_own_shape shape_of(const tdmi_shape *s)
{
    tdm_own_shape to = {.ndim = s->ndim, .count = tdmi_shape_count(s)};
    memcpy(to.dims, s->dims, sizeof to.dims);
    return to;
}

static custom *describe(const tdmi_shape *in, const tdmi_shape *out)
{
    custom *c = tdmi_calloc(1, sizeof *c, "an own op");
    if (c == NULL)
        return NULL;
    c->shapes.out = shape_of(out);
    for (int k = 0; k < TDM_OWN_OP_INPUTS && in[k].ndim >= 0; k++)
        c->shapes.in[c->shapes.inputs++] = shape_of(&in[k]);
    return c;
}

static tdm_status prepare(const tdmi_kernel_io *io, void **state, size_t *workspace_nbytes)
{
    *workspace_nbytes = 0;
    *state = describe(io->in, &io->out[0]);
    return *state == NULL ? TDM_ERR_NO_MEMORY : TDM_OK;
}

static void forward(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)workspace;
    const custom *c = state;
    const float *from[TDM_OWN_OP_INPUTS];
    for (int k = 0; k < TDM_OWN_OP_INPUTS; k++)
        from[k] = in[k];
    io->attr.own->forward(io->attr.own->user, &c->shapes, from, out[0]);
}

static tdm_status prepare_backward(const tdmi_kernel_io *io, void **state, size_t *workspace_nbytes)
{
    custom *c = describe(io->in + 2, &io->in[1]);
    if (c == NULL)
        return TDM_ERR_NO_MEMORY;
    size_t used = 0;
    for (int k = 0; k < c->shapes.inputs; k++) {
        c->direct[k] = io->out[k].ndim >= 0 && io->out[k].dtype == TDM_F32 && !tdmi_accumulates(io, k);
        c->scratch[k] = used;
        used += c->direct[k] ? 0 : (c->shapes.in[k].count + LINE - 1) / LINE * LINE;
    }
    *workspace_nbytes = used * sizeof(float);
    *state = c;
    return TDM_OK;
}

static void backward(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    const custom *c = state;
    const float *from[TDM_OWN_OP_INPUTS] = {NULL};
    float *to[TDM_OWN_OP_INPUTS] = {NULL};
    for (int k = 0; k < c->shapes.inputs; k++) {
        from[k] = in[2 + k];
        to[k] = c->direct[k] ? out[k] : (float *)workspace + c->scratch[k];
        memset(to[k], 0, c->shapes.in[k].count * sizeof(float));
    }
    io->attr.own->backward(io->attr.own->user, &c->shapes, from, in[1], in[0], to);
    for (int k = 0; k < c->shapes.inputs; k++) {
        const tdmi_out d = {io->out[k].dtype, out[k]};
        for (size_t i = 0; out[k] != NULL && !c->direct[k] && i < c->shapes.in[k].count; i++)
            tdmi_put(d, (int64_t)i, (double)to[k][i] + (tdmi_accumulates(io, k) ? (double)tdmi_before(d, (int64_t)i) : 0));
    }
}

static void release(void *state)
{
    tdmi_free(state);
}

const tdmi_kernel tdmi_plain_custom = {
    .name = "own_op/plain", .op = TDMI_OP_CUSTOM, .prepare = prepare, .run = forward, .release = release};
const tdmi_kernel tdmi_plain_custom_backward = {
    .name = "own_op_backward/plain", .op = TDMI_OP_CUSTOM_BACKWARD, .prepare = prepare_backward, .run = backward, .release = release};
