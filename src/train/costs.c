/* costs.c - rates of one core by instruction set, as measured on server processors of 2020 to 2023; links are measured. */
#include "train/costs.h"

#include "core/clock.h"
#include "core/cpu.h"
#include "kernels/threads.h"

#include <tandem/collective.h>

static const double flops_per_s[TDMI_ISA_COUNT] = {[TDMI_ISA_PLAIN] = 1e9, [TDMI_ISA_AVX2] = 35e9, [TDMI_ISA_AVX512] = 65e9};
#define BYTES_PER_S 6e9 /* of one core, reads and writes together, past its caches */
#define NODE_ALPHA_S 20e-6
#define NODE_BETA_S 0.2e-9 /* one reading of a peer's bytes, one writing of the result */

#define SHORT ((size_t)1 << 14) /* elements */
#define LONG ((size_t)1 << 20)
#define TIMES 3

tdmi_cost tdmi_costs_of_node(void)
{
    const int threads = tdmi_kernels_threads();
    return (tdmi_cost){.flops_per_s = flops_per_s[tdmi_cpu_isa()] * threads,
                       .bytes_per_s = BYTES_PER_S * threads,
                       .alpha_s = NODE_ALPHA_S,
                       .beta_s = NODE_BETA_S};
}

/* The shortest of some allreduces, of the rank where it is longest. */
static tdm_status time_of(tdm_group *group, float *memory, size_t count, double *out)
{
    double best_s = 1e9;
    tdm_status st = TDM_OK;
    for (int i = 0; i < TIMES && st == TDM_OK; i++) {
        st = tdm_barrier(group, NULL);
        const int64_t begin = tdmi_now_ns();
        if (st == TDM_OK)
            st = tdm_allreduce(group, memory, memory, count, TDM_F32, TDM_SUM, NULL);
        const double s = (double)(tdmi_now_ns() - begin) / 1e9;
        best_s = s < best_s ? s : best_s;
    }
    return st == TDM_OK ? tdm_allreduce(group, &best_s, out, 1, TDM_F64, TDM_MAX, NULL) : st;
}

tdm_status tdmi_costs_of_group(tdm_group *group, tdmi_cost *out)
{
    *out = tdmi_costs_of_node();
    const int size = tdm_group_size(group);
    int32_t several = tdm_group_local_size(group) < size;
    void *memory;
    tdm_status st = size == 1 ? TDM_OK : tdm_allreduce(group, &several, &several, 1, TDM_I32, TDM_MAX, NULL);
    if (st != TDM_OK || !several)
        return st;
    double short_s, long_s;
    st = tdm_alloc(group, LONG * sizeof(float), &memory);
    if (st != TDM_OK)
        return st;
    st = time_of(group, memory, SHORT, &short_s);
    if (st == TDM_OK)
        st = time_of(group, memory, LONG, &long_s);
    if (st == TDM_OK) {
        const double per_byte = (long_s - short_s) / (double)((LONG - SHORT) * sizeof(float));
        out->beta_s = per_byte > 0 ? per_byte : 0;
        const double alpha_s = short_s - (double)(SHORT * sizeof(float)) * out->beta_s;
        out->alpha_s = alpha_s > 0 ? alpha_s : 0;
    }
    tdm_free(group, memory);
    return st;
}
