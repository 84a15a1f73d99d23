/* own_op.h - an operation of a user's own, for tdm_model_own_op (model.h): two functions on float32 numbers. */
#ifndef TANDEM_OWN_OP_H
#define TANDEM_OWN_OP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TDM_OWN_OP_INPUTS 4

typedef struct tdm_own_shape {
    int ndim;
    int64_t dims[4];
    size_t count; /* of all elements */
} tdm_own_shape;

typedef struct tdm_own_shapes {
    int inputs;
    tdm_own_shape in[TDM_OWN_OP_INPUTS], out;
} tdm_own_shapes;

/* All buffers are float32, contiguous, row major, whatever the precision of the training. The functions may be called again for the
 * same step (a recomputed activation) and must then write the same; `user` is theirs, and they must not change what the other
 * buffers hold. What they write must be finite: TDM_ERR_NOT_FINITE names the op otherwise.
 *   forward   writes all of out
 *   backward  adds to d_in[k], zeros before, the gradient of the loss by in[k]; d_out is that by out. Each d_in is there, needed or not
 * Thread    the owner of the training */
typedef struct tdm_own_op {
    void (*forward)(void *user, const tdm_own_shapes *shapes, const float *const *in, float *out);
    void (*backward)(void *user, const tdm_own_shapes *shapes, const float *const *in, const float *out, const float *d_out,
                     float *const *d_in);
    void *user;
} tdm_own_op;

#ifdef __cplusplus
}
#endif
#endif
