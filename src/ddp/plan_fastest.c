/* plan_fastest.c - the exact plan of buckets: which cut lets the last reduction end first, when gradients become ready one after
 * the other and reductions run one at a time.
 *
 *     f(0) = 0,   f(j) = min over i < j of  max(f(i), ready[j - 1]) + alpha + bytes(i..j) beta
 *
 *     ready      0.....1.....2.....3                     few buckets pay alpha less often; many start earlier
 *     1 bucket                     [====0123====]
 *     2 buckets              [==012==]  [=3=]            f(j): items 0..j-1 are reduced; later costs grow with f alone, so the
 *     4 buckets  [=0=] [=1=] [=2=] [=3=]                 smallest f is the best beginning of every plan
 * Cost  n^2 / 2 steps, n items.   Source  dynamic programming; greedy for this cost: Shi, Chu, Li, MG-WFBP, arXiv 1912.09268 */
#include "ddp/plan.h"

#include "core/memory.h"

typedef struct prefix {
    double finish_s, nbytes; /* of the best plan of the items before; of those items */
    int begin;               /* first item of its last bucket */
} prefix;

static void fill(prefix *best, const double *ready_s, const size_t *nbytes, int count, double alpha_s, double beta_s)
{
    best[0] = (prefix){0};
    for (int j = 1; j <= count; j++) {
        best[j].nbytes = best[j - 1].nbytes + (double)nbytes[j - 1];
        for (int i = 0; i < j; i++) {
            const double begin_s = best[i].finish_s > ready_s[j - 1] ? best[i].finish_s : ready_s[j - 1];
            const double finish_s = begin_s + alpha_s + (best[j].nbytes - best[i].nbytes) * beta_s;
            if (i == 0 || finish_s < best[j].finish_s) {
                best[j].finish_s = finish_s;
                best[j].begin = i;
            }
        }
    }
}

tdm_status tdmi_plan_fastest(const double *ready_s, const size_t *nbytes, int count, double alpha_s, double beta_s, int *bucket_of,
                             int *buckets, double *finish_s)
{
    prefix *best = tdmi_calloc((size_t)count + 1, sizeof *best, "bucket plan");
    if (best == NULL)
        return TDM_ERR_NO_MEMORY;
    fill(best, ready_s, nbytes, count, alpha_s, beta_s);
    *buckets = 0;
    for (int end = count; end > 0; end = best[end].begin)
        ++*buckets;
    for (int end = count, b = *buckets - 1; end > 0; end = best[end].begin, b--)
        for (int i = best[end].begin; i < end; i++)
            bucket_of[i] = b;
    *finish_s = best[count].finish_s;
    tdmi_free(best);
    return TDM_OK;
}
