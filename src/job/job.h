/* job.h - a job as doctor sees it: the traces of its ranks with a meaning for each event, on one clock, cut into iterations.
 *
 *   tdmi_job_create   roles (role.c), threads, streams and launches (rank.c), iterations (steps.c), collectives lined up over the
 *                     ranks and the clocks of their hosts (collectives.c)
 *   breakdown.h       where the time of an iteration goes
 *   graph.h           what waits for what, for replays
 *
 * A place is the number of a rank in rank[]; ranks may be missing, so it is not the rank's own number. Everything here lives as long
 * as the job; the traces are borrowed. */
#ifndef TDMI_JOB_JOB_H
#define TDMI_JOB_JOB_H

#include "kineto/trace.h"

/* What an event is to us. */
typedef enum tdmi_role {
    TDMI_ROLE_NONE,
    TDMI_ROLE_OP,          /* an operator on a thread */
    TDMI_ROLE_BACKWARD,    /* one that autograd's engine runs */
    TDMI_ROLE_COMM_CALL,   /* an operator that starts or awaits a collective */
    TDMI_ROLE_ITEM,        /* one that brings a value to the host: aten::item, aten::_local_scalar_dense, ... */
    TDMI_ROLE_DATA,        /* a span of the loader */
    TDMI_ROLE_STEP,        /* ProfilerStep#N */
    TDMI_ROLE_OPTIMIZER,   /* Optimizer.step#... */
    TDMI_ROLE_FORWARD,     /* DistributedDataParallel.forward, ... */
    TDMI_ROLE_HOST_COMM,   /* a collective that the CPU does itself: gloo:..., mpi:... */
    TDMI_ROLE_CALL,        /* a call of the device's runtime */
    TDMI_ROLE_LAUNCH,      /* one that put something on a stream that is in the trace */
    TDMI_ROLE_SYNC_STREAM, /* calls that wait for the device */
    TDMI_ROLE_SYNC_DEVICE,
    TDMI_ROLE_SYNC_EVENT,
    TDMI_ROLE_COMPUTE,     /* on a device: a kernel */
    TDMI_ROLE_COMM,        /* a kernel that communicates */
    TDMI_ROLE_COPY,        /* a copy or memset */
    TDMI_ROLES
} tdmi_role;

#define TDMI_ROLE_IS_DEVICE(role) ((role) >= TDMI_ROLE_COMPUTE)
#define TDMI_ROLE_IS_SYNC(role) ((role) >= TDMI_ROLE_SYNC_STREAM && (role) <= TDMI_ROLE_SYNC_EVENT)

/* What spreads the job over ranks, as names in the traces show it; several may hold. */
enum { TDMI_JOB_DDP = 1, TDMI_JOB_FSDP = 2, TDMI_JOB_ZERO = 4, TDMI_JOB_DATA_PARALLEL = 8 };

typedef struct tdmi_iteration {
    int64_t number;           /* of ProfilerStep#, or counted from 1; 0: the whole trace is one */
    int64_t start_ns, end_ns; /* on the job's clock */
    uint32_t event;           /* its span; TDMI_NONE */
} tdmi_iteration;

/* One stream of a device, its events in order of time. */
typedef struct tdmi_stream {
    uint32_t first, count; /* in gpu_by_stream[] */
    int64_t compute_ns;    /* of TDMI_ROLE_COMPUTE */
    int64_t comm_ns;
} tdmi_stream;

typedef struct tdmi_rank {
    const tdmi_trace *trace;
    int number;                /* the rank */
    int64_t shift_ns;          /* start_ns of an event + shift_ns: the job's clock */
    uint8_t *role;             /* [trace->event_count] */
    uint32_t *host;            /* events of training threads, by start, the longer first: operators, calls, spans; no Python frames */
    size_t host_count;
    uint32_t *gpu;             /* events of devices, by start */
    size_t gpu_count;
    uint32_t *launch;          /* [gpu_count] the call that launched it, or TDMI_NONE */
    uint32_t *gpu_of;          /* [trace->event_count] of a LAUNCH: place in gpu[] of the first it launched; TDMI_NONE */
    tdmi_stream *stream;
    size_t streams;
    uint32_t *gpu_by_stream;   /* [gpu_count] places in gpu[] */
    uint32_t *stream_of;       /* [gpu_count] place in stream[] */
    uint32_t compute_stream;   /* the one that computes most; TDMI_NONE */
    uint32_t main_lane;        /* the thread with the steps, else with the most work; TDMI_NONE */
    bool *trains;              /* [lane_count] a thread that does the training's work */
    bool on_device;            /* it has kernels; else the CPU does the work itself */
    tdmi_iteration *iteration;
    size_t iterations;
    bool has_steps;            /* iteration[] is from ProfilerStep#, or from the optimizer's steps: then they have no event */
    unsigned kinds;            /* TDMI_JOB_DDP ... */
    size_t overlong;           /* events of devices that last longer than the whole trace; left out */
    size_t out_of_range;       /* events more than 73 years from zero, or longer than a day; left out */
    size_t last_to_join;       /* how many collectives it was the last to join, of those that were lined up; of two at once the first */
} tdmi_rank;

/* One collective as one rank took part in it. */
typedef struct tdmi_part {
    uint32_t place;            /* of the rank */
    uint32_t event;            /* the kernel; without a GPU: the span of gloo */
    uint32_t gpu;              /* place in gpu[]; TDMI_NONE: the CPU's */
    int64_t start_ns, end_ns;  /* the job's clock */
} tdmi_part;

/* One collective over the ranks. */
typedef struct tdmi_meeting {
    uint32_t first, count;     /* in part[]; by place */
    const char *op;            /* "allreduce" */
    const char *group;         /* "0"; "" */
    int group_size;            /* -1: not said */
    int64_t nbytes;            /* the larger of what goes in and out, of one rank; -1: not said */
    int64_t seq;               /* -1 */
    int64_t joined_ns;         /* the last rank is there */
    int64_t transfer_ns;       /* from then to the end, the median of the ranks */
    bool lined_up;             /* false: seen on one rank only, or not to be matched; then waiting and transfer cannot be told apart */
} tdmi_meeting;

typedef struct tdmi_job {
    const tdmi_job_traces *traces;
    tdmi_rank *rank;
    size_t ranks;
    tdmi_part *part;
    size_t parts;
    tdmi_meeting *meeting;     /* by the time the last has joined */
    size_t meetings, lined_up; /* and how many of them are lined up */
    int64_t clock_spread_ns;   /* largest correction of a host's clock against the first rank's */
    bool on_device;            /* some rank has kernels */
    unsigned kinds;
} tdmi_job;

/* Borrows the traces. Whatever traces there are make a job: TDM_ERR_NO_MEMORY, or TDM_ERR_BAD_FILE for more than 65535 of them. */
tdm_status tdmi_job_create(const tdmi_job_traces *traces, tdmi_job **out);
void tdmi_job_free(tdmi_job *job); /* NULL is fine */

/* On the job's clock. */
static inline int64_t tdmi_event_start(const tdmi_rank *rank, uint32_t event)
{
    return rank->trace->event[event].start_ns + rank->shift_ns;
}

static inline int64_t tdmi_event_end(const tdmi_rank *rank, uint32_t event)
{
    return tdmi_event_start(rank, event) + rank->trace->event[event].dur_ns;
}

static inline const char *tdmi_event_name(const tdmi_rank *rank, uint32_t event)
{
    return tdmi_trace_text(rank->trace, rank->trace->event[event].name);
}

/* Of a place in gpu[]; launched: when the call began, INT64_MIN: it is not in the trace. */
static inline int64_t tdmi_gpu_start(const tdmi_rank *rank, uint32_t gpu)
{
    return tdmi_event_start(rank, rank->gpu[gpu]);
}

static inline int64_t tdmi_gpu_end(const tdmi_rank *rank, uint32_t gpu)
{
    return tdmi_event_end(rank, rank->gpu[gpu]);
}

static inline int64_t tdmi_gpu_launched(const tdmi_rank *rank, uint32_t gpu)
{
    return rank->launch[gpu] != TDMI_NONE ? tdmi_event_start(rank, rank->launch[gpu]) : INT64_MIN;
}

/* When the host asked for it; its own start, where no call is in the trace. */
static inline int64_t tdmi_part_called(const tdmi_rank *rank, const tdmi_part *part)
{
    const uint32_t call = part->gpu != TDMI_NONE ? rank->launch[part->gpu] : TDMI_NONE;
    return call != TDMI_NONE ? tdmi_event_start(rank, call) : part->start_ns;
}

/* Of a stream's events that were launched before ns the last, as place in gpu[]; TDMI_NONE: none, or no stream. */
uint32_t tdmi_launched_before(const tdmi_rank *rank, uint32_t stream, int64_t ns);
/* Its collective, or NULL. */
const tdmi_collective *tdmi_event_collective(const tdmi_rank *rank, uint32_t event);
/* The iteration of a moment; the first and last also of what is before and after. 0 where there are none. */
size_t tdmi_iteration_at(const tdmi_rank *rank, int64_t ns);

/* Bus bandwidth is this times bytes / time: what each link carries, whatever the number of ranks (nccl-tests, PERFORMANCE.md). */
double tdmi_bus_factor(const char *op, int ranks);

/* ---- the parts of tdmi_job_create ---- */

/* role.c - by kind, name and details alone; launches come later. */
tdm_status tdmi_roles_give(tdmi_rank *rank);
/* rank.c - threads, streams, launches. */
tdm_status tdmi_rank_prepare(tdmi_rank *rank);
/* steps.c */
tdm_status tdmi_steps_find(tdmi_rank *rank);
/* Gives equal numbers to iterations that the optimizer's steps ended at one time. */
void tdmi_steps_agree(tdmi_job *job);
/* Whether the iterations are cut at the optimizer's steps. */
static inline bool tdmi_steps_are_cut(const tdmi_rank *rank)
{
    return rank->has_steps && rank->iteration[0].event == TDMI_NONE;
}
/* collectives.c - also sets shift_ns of all ranks, so that a collective ends everywhere at once. */
tdm_status tdmi_collectives_line_up(tdmi_job *job);

#endif
