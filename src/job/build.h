/* build.h - what the files that build the graph share: the nodes of one rank. */
#ifndef TDMI_JOB_BUILD_H
#define TDMI_JOB_BUILD_H

#include "job/graph.h"

/* A place's nodes while the graph is built. TDMI_NONE: there is none. */
typedef struct tdmi_nodes {
    uint32_t *begin, *end;       /* [event_count] calls of training threads, loader spans, and what the device or the CPU's collectives do */
    struct tdmi_point *point;    /* of all training threads, by time */
    size_t points;
    uint32_t *index;             /* [gpu_count] place in its stream */
    uint32_t *comm, *comm_by_end; /* [comms] the CPU's collectives, by start and by end; none where there is a device */
    size_t comms;
    int64_t call_ns;             /* what a launch call takes that waits for nothing, the median */
    int64_t pause_ns;            /* a longer way between two operators is the program's, not launching */
} tdmi_nodes;

typedef enum tdmi_point_kind { /* of the same time: in this order */
    TDMI_POINT_CALL_END,
    TDMI_POINT_SYNC_END,
    TDMI_POINT_DATA_END,
    TDMI_POINT_STEP_END,
    TDMI_POINT_PAUSE_BEGIN,
    TDMI_POINT_PAUSE_END,
    TDMI_POINT_STEP_BEGIN,
    TDMI_POINT_DATA_BEGIN,
    TDMI_POINT_SYNC_BEGIN,
    TDMI_POINT_CALL_BEGIN,
} tdmi_point_kind;

typedef struct tdmi_point {
    int64_t ns;
    uint32_t event; /* TDMI_NONE: of a pause */
    uint32_t lane, node;
    uint8_t kind;
} tdmi_point;

/* host_links.c - points of the threads as nodes; then what binds them. The second needs the nodes of the device. */
tdm_status tdmi_host_nodes(tdmi_model *model, uint32_t place, tdmi_nodes *nodes);
tdm_status tdmi_host_links(tdmi_model *model, uint32_t place, tdmi_nodes *nodes);
/* The last point at or before ns; TDMI_NONE: none. */
uint32_t tdmi_point_before(const tdmi_nodes *nodes, int64_t ns);
/* device_links.c */
tdm_status tdmi_device_nodes(tdmi_model *model, uint32_t place, tdmi_nodes *nodes);
tdm_status tdmi_device_links(tdmi_model *model, uint32_t place, tdmi_nodes *nodes);
/* sync_links.c - the host that waits for the device. */
tdm_status tdmi_sync_links(tdmi_model *model, uint32_t place, tdmi_nodes *nodes);
/* Whether a call waited for the device or for a place in its queue. */
bool tdmi_call_waits(const tdmi_rank *rank, const tdmi_nodes *nodes, uint32_t call);
/* meeting_links.c - collectives over the ranks. nodes[place]. */
tdm_status tdmi_meeting_links(tdmi_model *model, const tdmi_nodes *nodes);
/* plan_links.c - what would bind collectives if they were sent in another way. */
tdm_status tdmi_plan_links(tdmi_model *model, const tdmi_nodes *nodes);

/* Of the CPU's collectives the one that ended last at or before ns; TDMI_NONE. */
uint32_t tdmi_comm_ended(const tdmi_rank *rank, const tdmi_nodes *nodes, int64_t ns);

/* tdmi_graph_link with the fields that all have. */
tdm_status tdmi_bind(tdmi_model *model, uint32_t place, uint32_t from, uint32_t to, tdmi_due due, int64_t ns, uint32_t event);

#endif
