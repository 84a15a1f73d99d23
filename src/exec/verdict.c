/* verdict.c - the loss of a step, and what all ranks decide from it.
 *
 * Losses and gradients are means over rows x micro-batches x ranks rows, as if all of them counted. Where some do not, or the
 * step is shorter, both are multiplied by rows x micro-batches x ranks / (rows that count anywhere): one number that the ranks
 * learn with the verdict, so that results do not depend on how a batch is cut. It is 1 exactly where all rows count.
 *
 * In float16 the loss was scaled before it was derived. A sum of squares that is not finite, on whatever rank, is the same number
 * on all: they skip the step together and lower the scale. */
#include "exec/internal.h"

#include "optim/clip.h"

#include <math.h>
#include <stdio.h>

void exec_loss_begin(tdmi_exec *exec)
{
    exec->loss_sum = 0;
    exec->rows = exec->counted = 0;
    exec->bad_loss[0] = '\0';
    exec->bad_own_op = NULL;
    exec->skip = false;
}

/* Without a verdict before the updates the factor must be known before the first: all rows of the step's batches count. */
static tdm_status fused_needs_all(tdmi_exec *exec, int64_t step, int64_t counted, int64_t rows)
{
    tdm_status st = tdmi_fail(TDM_ERR_INVALID,
                              "step %lld, rank %d: %lld of %lld targets do not count, but %s before all ranks know how many "
                              "count; %s", (long long)step, exec->rank, (long long)(rows - counted), (long long)rows,
                              exec->frozen ? "1-bit Adam sends momentum," : "updates go along with the reduction,",
                              exec->frozen ? "choose another compression" : "make the graph with the pipeline option `uncounted`");
    if (exec->options.group != NULL)
        tdm_group_abort(exec->options.group, tdm_error_text());
    return st;
}

/* As soon as a loss is not finite, while all that led to it still is. No parameter is updated with the gradient of a bad loss:
 * the verdict stops all ranks, or, where updates do not wait for one, the group is aborted. */
static tdm_status bad(tdmi_exec *exec, int64_t step, float loss)
{
    tdm_status st = exec_not_finite(exec, step, loss);
    snprintf(exec->bad_loss, sizeof exec->bad_loss, "%s", tdm_error_text());
    if (!exec->fused)
        return TDM_OK;
    if (exec->options.group != NULL)
        tdm_group_abort(exec->options.group, exec->bad_loss);
    return tdmi_fail(st, "%s", exec->bad_loss);
}

tdm_status exec_loss_take(tdmi_exec *exec, const exec_node *node, int64_t step)
{
    const float loss = *(const float *)node->out[0];
    int64_t rows = 1, counted = 1; /* of a sum of several losses: all count */
    if (node->op == TDMI_OP_CROSS_ENTROPY) {
        const int32_t *targets = node->in[1];
        rows = (int64_t)tdmi_shape_count(&node->bound.io.in[1]);
        counted = 0;
        for (int64_t n = 0; n < rows; n++)
            counted += targets[n] >= 0;
    }
    exec->loss_sum += (double)loss;
    exec->rows += rows;
    exec->counted += counted;
    if (!isfinite(loss))
        return exec->bad_loss[0] == '\0' ? bad(exec, step, loss) : TDM_OK;
    return (exec->fused || exec->frozen) && counted < rows ? fused_needs_all(exec, step, counted, rows) : TDM_OK;
}

/* The graph's micro-batches, over those of a step whose rows all count. */
double exec_short_factor(const tdmi_exec *exec)
{
    return (double)exec->graph->micro_batches / exec->micro_batches;
}

static tdm_status all_can_go_on(const tdmi_exec *exec, int64_t step, const tdmi_step_result *out)
{
    if (exec->bad_loss[0] != '\0')
        return tdmi_fail(TDM_ERR_NOT_FINITE, "%s", exec->bad_loss);
    if (!isfinite(out->loss))
        return tdmi_fail(TDM_ERR_NOT_FINITE, "step %lld: the loss of another rank than %d is not finite; nothing was updated",
                         (long long)step, exec->rank);
    if (!isfinite(out->grad_norm) && exec->bad_own_op != NULL)
        return exec_own_op_fail(exec, step);
    if (!isfinite(out->grad_norm))
        return tdmi_fail(TDM_ERR_NOT_FINITE,
                         "step %lld, all ranks: the loss is %g but the gradient's norm is %g; nothing was updated. Lower "
                         "--lr, set --clip, or go on from an earlier checkpoint",
                         (long long)step, out->loss, out->grad_norm);
    return TDM_OK;
}

tdm_status exec_verdict(tdmi_exec *exec, double lr, int64_t step, bool ask_stop, tdmi_step_result *out)
{
    double *v = exec->verdict;
    const double all_rows = (double)exec->rows * exec_short_factor(exec); /* of this rank, in a step of full length */
    v[VERDICT_LOSS] = exec->loss_sum;
    v[VERDICT_ROWS] = (double)exec->counted;
    v[VERDICT_SQUARES] = tdmi_exec_owns_state(exec) ? exec_sum_of_squares(exec) : 0; /* else another rank counts the same slice */
    v[VERDICT_STOP] = ask_stop ? 1 : 0;
    out->own_loss = exec->counted == 0 ? 0 : exec->loss_sum * (all_rows / (double)exec->counted);
    if (exec->size > 1) {
        tdm_status st = tdm_allreduce(exec->options.group, v, v, VERDICT_COUNT, TDM_F64, TDM_SUM, NULL);
        if (st != TDM_OK)
            return st;
    }
    out->decided = true;
    out->stop = v[VERDICT_STOP] > 0;
    if (v[VERDICT_ROWS] == 0)
        return tdmi_fail(TDM_ERR_INVALID, "step %lld: no target of any rank counts, all are below zero; nothing was updated",
                         (long long)step);
    const double factor = all_rows * exec->size / v[VERDICT_ROWS];
    out->loss = v[VERDICT_LOSS] / exec->size * factor;
    const double unscale = exec->loss_scale == NULL ? 1 : 1 / (double)*exec->loss_scale;
    out->grad_norm = sqrt(v[VERDICT_SQUARES]) * (exec->frozen ? 1 : factor * unscale); /* momenta have the factor in them */
    if (exec->fused)
        return TDM_OK;
    if (exec->loss_scale != NULL)
        exec->skip = out->skipped = exec->bad_loss[0] == '\0' && isfinite(out->loss) && !isfinite(out->grad_norm);
    if (exec->loss_scale != NULL)
        tdmi_grad_scaler_update(exec->options.scaler, exec->skip);
    if (exec->skip)
        return TDM_OK;
    tdm_status st = all_can_go_on(exec, step, out);
    if (st != TDM_OK)
        return st;
    const int64_t skipped = exec->loss_scale == NULL ? 0 : exec->options.scaler->skipped; /* no step of the optimizer */
    if (!exec->frozen)
        exec_update_begin(exec, step - skipped, lr, tdmi_clip_factor(out->grad_norm, exec->options.clip) * (float)(factor * unscale));
    exec_commit_begin(exec, step);
    return TDM_OK;
}
