/* plan_fastest.c - the exact plan of buckets: which cut lets the last reduction end first, when gradients become ready one after
 * the other and reductions run one at a time.
 *
 *     f(0) = 0,   f(j) = min over i < j of  max(f(i), ready[j - 1]) + alpha + bytes(i..j) beta
 *
 *     ready      0.....1.....2.....3                     few buckets pay alpha less often; many start earlier
 *     1 bucket                     [====0123====]
 *     2 buckets              [==012==]  [=3=]            f(j): items 0..j-1 are reduced; later costs grow with f alone, so the
 *     4 buckets  [=0=] [=1=] [=2=] [=3=]                 smallest f is the best beginning of every plan
 * Where several plans end at the same time, the one with few, larger buckets is taken, from the end of backward to its begin.
 * Cost  n^2 steps, n items.   Source  dynamic programming; greedy for this cost: Shi, Chu, Li, MG-WFBP, arXiv 1912.09268 */
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

typedef struct plan {
    const prefix *best;
    const double *ready_s;
    double alpha_s, beta_s, enough;
} plan;

/* The first item of the last bucket of items 0..end-1, which must be reduced at until_s: as few buckets as that allows, where one
 * more item does not make it larger than `enough`. */
static int begin_of_last(const plan *p, int end, double until_s)
{
    for (int i = 0; i < p->best[end].begin; i++) {
        const double nbytes = p->best[end].nbytes - p->best[i].nbytes;
        const double begin_s = p->best[i].finish_s > p->ready_s[end - 1] ? p->best[i].finish_s : p->ready_s[end - 1];
        if (nbytes <= p->enough && begin_s + p->alpha_s + nbytes * p->beta_s <= until_s)
            return i;
    }
    return p->best[end].begin;
}

/* From the last bucket to the first, numbered from their end. */
static int choose(const plan *p, int count, int *bucket_of)
{
    double until_s = p->best[count].finish_s;
    int buckets = 0;
    for (int end = count; end > 0; buckets++) {
        const int begin = begin_of_last(p, end, until_s);
        until_s -= p->alpha_s + (p->best[end].nbytes - p->best[begin].nbytes) * p->beta_s;
        for (int i = begin; i < end; i++)
            bucket_of[i] = buckets;
        end = begin;
    }
    for (int i = 0; i < count; i++)
        bucket_of[i] = buckets - 1 - bucket_of[i];
    return buckets;
}

tdm_status tdmi_plan_fastest(const double *ready_s, const size_t *nbytes, int count, double alpha_s, double beta_s, size_t enough,
                             int *bucket_of, int *buckets, double *finish_s)
{
    prefix *best = tdmi_calloc((size_t)count + 1, sizeof *best, "bucket plan");
    if (best == NULL)
        return TDM_ERR_NO_MEMORY;
    fill(best, ready_s, nbytes, count, alpha_s, beta_s);
    *buckets = choose(&(plan){best, ready_s, alpha_s, beta_s, (double)enough}, count, bucket_of);
    *finish_s = best[count].finish_s;
    tdmi_free(best);
    return TDM_OK;
}
