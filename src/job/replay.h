/* replay.h - a job as a graph of moments, and the same job played again with some of its times changed.
 *
 * A node is a moment: a launch call begins, a kernel ends, the last rank has joined a collective. A link says that one moment
 * comes at least so many ns after another, and what that time is spent on. A node's time is the latest that its links ask for:
 *
 *     time(node) = max over its links of time(link.from) + link.ns
 *
 * A graph built from a trace has, at each node, one link that asks for exactly the measured time and others that ask for earlier;
 * so it gives the measured times back when nothing is changed, and says what would have been when links are made shorter: what
 * held a node back before need not be what holds it back then. Every gain that is reported comes from here. */
#ifndef TDMI_JOB_REPLAY_H
#define TDMI_JOB_REPLAY_H

#include "core/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the time of a link is spent on. */
typedef enum tdmi_due {
    TDMI_DUE_ORDER,    /* nothing: one comes after the other */
    TDMI_DUE_HOST,     /* operators, launch calls and the short ways between them */
    TDMI_DUE_PAUSE,    /* the program on the host, for longer, outside of operators */
    TDMI_DUE_DATA,     /* the main thread in the loader */
    TDMI_DUE_LAUNCH,   /* from a launch call to its kernel, where no other kernel is in the way */
    TDMI_DUE_GAP,      /* between two kernels of a stream */
    TDMI_DUE_COMPUTE,  /* a kernel that is no communication; without a GPU: operators */
    TDMI_DUE_COPY,     /* a copy or memset of the device */
    TDMI_DUE_TRANSFER, /* a collective, since its last rank has joined */
    TDMI_DUE_SYNC,     /* from the end of what the host waited for until it goes on */
    TDMI_DUE_QUEUE,    /* a launch call that waits for a place in the stream's queue */
    TDMI_DUE_EVENT,    /* a stream waits for another's */
    TDMI_DUE_START,    /* a rank that begins later than the first, before anything in the trace */
    TDMI_DUE_OTHER,    /* measured, but by nothing in the trace explained */
    /* plan_links.c: only in replays that ask for them */
    TDMI_DUE_PLAN,     /* a bucket of DDP's usual plan, on its gradients; its number in place of an event */
    TDMI_DUE_PREFETCH, /* an FSDP unit's parameters, on what comes a unit before */
    TDMI_DUES
} tdmi_due;

typedef struct tdmi_link {
    uint32_t from;     /* node */
    uint32_t event;    /* of the rank's trace: the kernel, the call ...; UINT32_MAX: none */
    int64_t ns;
    uint32_t iteration;
    uint16_t rank;     /* place in the job, not the rank's number */
    uint8_t due;
} tdmi_link;

typedef struct tdmi_graph tdmi_graph;

tdm_status tdmi_graph_create(tdmi_graph **out);
void tdmi_graph_free(tdmi_graph *graph); /* NULL is fine */
/* A node with its measured time, on the job's one clock; UINT32_MAX: no memory, the text says so. */
uint32_t tdmi_graph_node(tdmi_graph *graph, int64_t measured_ns);
/* Between existing nodes. One that asks for more than was measured is shortened to it (clocks are not exact). */
tdm_status tdmi_graph_link(tdmi_graph *graph, uint32_t to, const tdmi_link *link);
/* Nodes and links of `more`, which is empty afterwards; node n of it is node *offset_out + n then. */
tdm_status tdmi_graph_append(tdmi_graph *graph, tdmi_graph *more, uint32_t *offset_out);
/* Once, before the first replay: orders the nodes. Links that make a circle (only wrong traces have them) are cut; the number of
 * nodes that lost links is in *cut_out. At each node the link that asks for the latest time is made to ask for the measured one. */
tdm_status tdmi_graph_finish(tdmi_graph *graph, size_t *cut_out);

size_t tdmi_graph_nodes(const tdmi_graph *graph);
int64_t tdmi_graph_measured(const tdmi_graph *graph, uint32_t node);

/* The ns of a link in a replay; TDMI_CUT: the link is not there. */
typedef int64_t tdmi_change(const tdmi_link *link, const void *arg);
#define TDMI_CUT INT64_MIN

/* Links that are not there unless a replay asks for them. */
#define TDMI_DUES_ASKED_FOR (1u << TDMI_DUE_PLAN | 1u << TDMI_DUE_PREFETCH)

typedef struct tdmi_variation {
    tdmi_change *change;   /* NULL: as measured */
    const void *arg;       /* of change */
    unsigned also;         /* of TDMI_DUES_ASKED_FOR: what this replay asks for */
} tdmi_variation;

/* time_out[node]. Nodes without links keep their measured time. */
void tdmi_replay(const tdmi_graph *graph, const tdmi_variation *variation, int64_t *time_out);

/* Calls visit for each link: what a finding adds up is read from here. */
void tdmi_graph_each_link(const tdmi_graph *graph, void (*visit)(uint32_t to, const tdmi_link *link, void *arg), void *arg);

#endif
