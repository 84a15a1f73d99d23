/* kernel_names.c - see kernel_names.h. */
#include "doctor/kernel_names.h"

#include "core/memory.h"
#include "job/buckets.h"

#include <string.h>

static bool has_one(const char *name, const char *const *parts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strstr(name, parts[i]) != NULL)
            return true;
    return false;
}

bool tdmi_is_float_product(const char *name)
{
    static const char *const parts[] = {"sgemm", "_simt_", "f32f32_f32f32_f32", "scudnn", "wgrad_alg0_engine<float", "dgrad_engine<float", "fmha_cutlassF_f32", "fmha_cutlassB_f32"};
    return strstr(name, "tf32") == NULL && has_one(name, parts, sizeof parts / sizeof *parts);
}

bool tdmi_is_pointwise(const char *name)
{
    static const char *const parts[] = {"elementwise_kernel", "CUDAFunctor_"};
    return has_one(name, parts, sizeof parts / sizeof *parts) && strstr(name, "reduce_kernel") == NULL && strstr(name, "multi_tensor_apply") == NULL;
}

bool tdmi_is_float_pointwise(const char *name)
{
    return tdmi_is_pointwise(name) && strstr(name, "float") != NULL && strstr(name, "BFloat16") == NULL && strstr(name, "Half") == NULL;
}

bool tdmi_is_fused_optimizer(const char *name)
{
    static const char *const parts[] = {"FusedOptimizerTensorListMetadata", "FusedAdam", "FusedSgd", "FusedAdagrad", "fused_adam", "LAMBFunctor", "AdamFunctor", "triton_"};
    return has_one(name, parts, sizeof parts / sizeof *parts);
}

uint8_t *tdmi_names_of(const tdmi_rank *rank)
{
    const tdmi_trace *trace = rank->trace;
    uint8_t *of = tdmi_malloc(trace->text_count + 1, "doctor");
    for (uint32_t t = 0; of != NULL && t < trace->text_count; t++) {
        const char *name = tdmi_trace_text(trace, t);
        of[t] = (uint8_t)((tdmi_is_float_product(name) ? TDMI_NAME_FLOAT_PRODUCT : 0) | (tdmi_is_pointwise(name) ? TDMI_NAME_POINTWISE : 0) |
                          (tdmi_is_float_pointwise(name) ? TDMI_NAME_FLOAT_POINTWISE : 0) | (tdmi_is_fused_optimizer(name) ? TDMI_NAME_FUSED_OPTIMIZER : 0));
    }
    return of;
}

bool *tdmi_launched_inside(const tdmi_rank *rank, bool (*is_span)(const tdmi_rank *rank, uint32_t event))
{
    const tdmi_trace *trace = rank->trace;
    bool *inside = tdmi_calloc(rank->gpu_count + 1, sizeof *inside, "doctor");
    int64_t *until_ns = tdmi_malloc((trace->lane_count + 1) * sizeof *until_ns, "doctor"); /* of each thread: a span is open until then */
    bool *of_call = tdmi_calloc(trace->event_count + 1, sizeof *of_call, "doctor");
    if (inside != NULL && until_ns != NULL && of_call != NULL) {
        for (size_t l = 0; l < trace->lane_count; l++)
            until_ns[l] = INT64_MIN;
        for (size_t i = 0; i < rank->host_count; i++) {
            const uint32_t event = rank->host[i];
            const tdmi_event *e = &trace->event[event];
            if (rank->role[event] == TDMI_ROLE_LAUNCH)
                of_call[event] = e->start_ns < until_ns[e->lane];
            else if (is_span(rank, event) && e->start_ns + e->dur_ns > until_ns[e->lane])
                until_ns[e->lane] = e->start_ns + e->dur_ns;
        }
        for (size_t g = 0; g < rank->gpu_count; g++)
            inside[g] = rank->launch[g] != TDMI_NONE && of_call[rank->launch[g]];
    } else {
        tdmi_free(inside);
        inside = NULL;
    }
    tdmi_free(until_ns);
    tdmi_free(of_call);
    return inside;
}

bool tdmi_is_optimizer_span(const tdmi_rank *rank, uint32_t event)
{
    return rank->role[event] == TDMI_ROLE_OPTIMIZER;
}

bool tdmi_is_backward_span(const tdmi_rank *rank, uint32_t event)
{
    return rank->role[event] == TDMI_ROLE_BACKWARD;
}

bool tdmi_is_accumulation_span(const tdmi_rank *rank, uint32_t event)
{
    return rank->trace->event[event].kind == TDMI_EVENT_CPU_OP && tdmi_is_accumulation(tdmi_event_name(rank, event));
}
