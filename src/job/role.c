/* role.c - what each event is, from its kind and name. Every different name is looked at once; the events then only look it up. */
#include "job/job.h"

#include "core/memory.h"

#include <string.h>
#include <strings.h>

static bool starts(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

static bool has(const char *name, const char *part)
{
    return strstr(name, part) != NULL;
}

/* Kernels that communicate and have no details that say so. Names of NCCL changed (ncclKernel, ncclDevKernel), so families are taken
 * without regard to case; "reduce", "dispatch" or "combine" alone are names of ordinary kernels too. */
static bool is_comm_kernel(const char *name)
{
    static const char *const parts[] = {"multimem_all_reduce", "one_shot_all_reduce", "two_shot_all_reduce", "cross_device_reduce",
                                        "allreduce_fusion",    "deep_ep::",           "::internode::",       "::intranode::",
                                        "nvshmem"};
    if ((strncasecmp(name, "nccl", 4) == 0 || strncasecmp(name, "rccl", 4) == 0) && strcasestr(name, "kernel") != NULL)
        return true;
    if (starts(name, "mscclKernel") || starts(name, "mscclpp") || strncasecmp(name, "hccl", 4) == 0 || strncasecmp(name, "oneccl", 6) == 0)
        return true;
    if (strcasestr(name, "lamport") != NULL && strcasestr(name, "allreduce") != NULL)
        return true;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (has(name, parts[i]))
            return true;
    return false;
}

/* Spans of a loader: torch's own, and what wrappers call theirs. */
static bool is_loader(const char *name)
{
    static const char *const names[] = {"dataloader", "data_loading", "data loading", "load_data", "next_batch", "get_batch", "fetch_batch"};
    if (starts(name, "enumerate(DataLoader)"))
        return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return false;
}

static bool is_host_comm(const char *name)
{
    return starts(name, "gloo:") || starts(name, "mpi:") || starts(name, "ucc:") || starts(name, "tandem:");
}

static tdmi_role role_of_annotation(const char *name)
{
    return starts(name, "ProfilerStep#")                                              ? TDMI_ROLE_STEP
           : is_loader(name)                                                          ? TDMI_ROLE_DATA
           : starts(name, "Optimizer.step#")                                          ? TDMI_ROLE_OPTIMIZER
           : is_host_comm(name)                                                       ? TDMI_ROLE_HOST_COMM
           : starts(name, "nccl:") || starts(name, "rccl:")                           ? TDMI_ROLE_COMM_CALL
           : has(name, "DataParallel.forward") || strcmp(name, "## forward ##") == 0 ? TDMI_ROLE_FORWARD
                                                                                      : TDMI_ROLE_NONE;
}

static tdmi_role role_of_op(const char *name)
{
    return starts(name, "c10d::") || starts(name, "_c10d_functional::") || strcmp(name, "record_param_comms") == 0 ? TDMI_ROLE_COMM_CALL
           : starts(name, "autograd::engine::evaluate_function") || has(name, "Backward")                       ? TDMI_ROLE_BACKWARD
           : strcmp(name, "aten::item") == 0 || strcmp(name, "aten::_local_scalar_dense") == 0 ||
                   strcmp(name, "aten::nonzero") == 0 || strcmp(name, "aten::is_nonzero") == 0 || strcmp(name, "aten::equal") == 0
               ? TDMI_ROLE_ITEM
               : TDMI_ROLE_OP;
}

/* cudaStreamSynchronize, hipDeviceSynchronize, cuCtxSynchronize ... */
static tdmi_role role_of_call(const char *name)
{
    return !has(name, "Synchronize")                                       ? TDMI_ROLE_CALL
           : has(name, "Stream")                                           ? TDMI_ROLE_SYNC_STREAM
           : has(name, "Event")                                            ? TDMI_ROLE_SYNC_EVENT
           : has(name, "Device") || has(name, "Ctx") || has(name, "Context") ? TDMI_ROLE_SYNC_DEVICE
                                                                           : TDMI_ROLE_CALL;
}

static tdmi_role role_of_name(tdmi_event_kind kind, const char *name)
{
    switch (kind) {
    case TDMI_EVENT_CPU_OP:
        return role_of_op(name);
    case TDMI_EVENT_ANNOTATION:
        return role_of_annotation(name);
    case TDMI_EVENT_RUNTIME:
        return role_of_call(name);
    case TDMI_EVENT_KERNEL:
    case TDMI_EVENT_DEVICE:
        return is_comm_kernel(name) ? TDMI_ROLE_COMM : TDMI_ROLE_COMPUTE;
    case TDMI_EVENT_COPY:
    case TDMI_EVENT_SET:
        return TDMI_ROLE_COPY;
    default:
        return TDMI_ROLE_NONE;
    }
}

static unsigned job_kind_of(const char *name)
{
    return has(name, "FullyShardedDataParallel") || starts(name, "FSDP::") ? TDMI_JOB_FSDP
           : has(name, "DistributedDataParallel")                          ? TDMI_JOB_DDP
           : has(name, "ZeroRedundancyOptimizer") || has(name, "DeepSpeedZeroOptimizer") ? TDMI_JOB_ZERO
           : starts(name, "DataParallel.forward")                          ? TDMI_JOB_DATA_PARALLEL
                                                                           : 0;
}

const tdmi_collective *tdmi_event_collective(const tdmi_rank *rank, uint32_t event)
{
    const tdmi_trace *trace = rank->trace;
    const tdmi_event *e = &trace->event[event];
    uint32_t which = TDMI_NONE;
    if (e->detail == TDMI_NONE)
        return NULL;
    if (e->kind == TDMI_EVENT_KERNEL || e->kind == TDMI_EVENT_DEVICE)
        which = trace->kernel[e->detail].collective;
    else if (e->kind == TDMI_EVENT_CPU_OP || e->kind == TDMI_EVENT_ANNOTATION)
        which = trace->op[e->detail].collective;
    return which != TDMI_NONE ? &trace->collective[which] : NULL;
}

/* Times of 1970 to 2040, whatever the file counts from, and nothing longer than a day: what is beyond is damage, and no sum or difference of
 * the rest leaves 64 bits. */
#define START_NS_MAX ((int64_t)1 << 61)
#define DUR_NS_MAX ((int64_t)86400 * 1000000000)

static bool is_sane(const tdmi_event *e)
{
    return (e->flags & TDMI_EVENT_SUSPECT) == 0 && e->start_ns > -START_NS_MAX && e->start_ns < START_NS_MAX && e->dur_ns <= DUR_NS_MAX;
}

/* From the first start to the last end of what threads did; 0: they did nothing. */
static int64_t host_span(const tdmi_rank *rank)
{
    int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;
    for (uint32_t i = 0; i < rank->trace->event_count; i++) {
        const tdmi_event *e = &rank->trace->event[i];
        if ((e->kind != TDMI_EVENT_CPU_OP && e->kind != TDMI_EVENT_RUNTIME && e->kind != TDMI_EVENT_ANNOTATION) || !is_sane(e))
            continue;
        first_ns = e->start_ns < first_ns ? e->start_ns : first_ns;
        last_ns = e->start_ns + e->dur_ns > last_ns ? e->start_ns + e->dur_ns : last_ns;
    }
    return last_ns > first_ns ? last_ns - first_ns : 0;
}

/* A kernel that lasts longer than all the threads were watched, and over all that its stream does after it, is a wrong number: a stream
 * does one after the other. One of them would spoil every figure. */
static tdm_status leave_out_overlong(tdmi_rank *rank)
{
    const tdmi_trace *trace = rank->trace;
    const int64_t span_ns = host_span(rank);
    int64_t *last_start_ns = tdmi_malloc((trace->lane_count + 1) * sizeof *last_start_ns, "job");
    if (last_start_ns == NULL)
        return TDM_ERR_NO_MEMORY;
    for (size_t l = 0; l < trace->lane_count; l++)
        last_start_ns[l] = INT64_MIN;
    for (uint32_t i = 0; i < trace->event_count; i++) {
        const tdmi_event *e = &trace->event[i];
        if (TDMI_ROLE_IS_DEVICE(rank->role[i]) && e->lane != TDMI_NONE && e->start_ns > last_start_ns[e->lane])
            last_start_ns[e->lane] = e->start_ns;
    }
    for (uint32_t i = 0; span_ns > 0 && i < trace->event_count; i++) {
        const tdmi_event *e = &trace->event[i];
        if (TDMI_ROLE_IS_DEVICE(rank->role[i]) && e->lane != TDMI_NONE && e->dur_ns > span_ns && last_start_ns[e->lane] > e->start_ns &&
            last_start_ns[e->lane] < e->start_ns + e->dur_ns) {
            rank->role[i] = TDMI_ROLE_NONE;
            rank->overlong++;
        }
    }
    tdmi_free(last_start_ns);
    return TDM_OK;
}

tdm_status tdmi_roles_give(tdmi_rank *rank)
{
    const tdmi_trace *trace = rank->trace;
    /* Of each text the role it has as an event of one kind; a text is rarely the name of two kinds. */
    uint8_t *known = tdmi_calloc(trace->text_count + 1, 2, "job");
    rank->role = tdmi_calloc(trace->event_count + 1, 1, "job");
    if (known == NULL || rank->role == NULL) {
        tdmi_free(known);
        return TDM_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < trace->event_count; i++) {
        const tdmi_event *e = &trace->event[i];
        if (!is_sane(e)) {
            rank->out_of_range += (e->flags & TDMI_EVENT_SUSPECT) == 0;
            continue;
        }
        if (e->name == TDMI_NONE)
            continue;
        uint8_t *kind = &known[2 * (size_t)e->name], *role = kind + 1;
        if (*kind != e->kind + 1) {
            const char *name = tdmi_trace_text(trace, e->name);
            *kind = (uint8_t)(e->kind + 1);
            *role = (uint8_t)role_of_name((tdmi_event_kind)e->kind, name);
            if (e->kind == TDMI_EVENT_CPU_OP || e->kind == TDMI_EVENT_ANNOTATION)
                rank->kinds |= job_kind_of(name);
        }
        rank->role[i] = *role;
        if (*role == TDMI_ROLE_COMPUTE && tdmi_event_collective(rank, i) != NULL)
            rank->role[i] = TDMI_ROLE_COMM;
    }
    tdmi_free(known);
    return leave_out_overlong(rank);
}
