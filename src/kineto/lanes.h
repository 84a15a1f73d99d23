/* lanes.h - threads and streams by what the file calls them. */
#ifndef TDMI_KINETO_LANES_H
#define TDMI_KINETO_LANES_H

#include "kineto/trace.h"

/* A pid or tid: a number, or a text that is none. */
typedef struct tdmi_lane_id {
    int64_t number;
    uint32_t text; /* TDMI_NONE */
} tdmi_lane_id;

typedef struct tdmi_lanes {
    tdmi_lane *lane;
    size_t count, capacity;
    uint32_t *slot; /* lane + 1; 0: free */
    size_t slots;   /* a power of two, or 0 */
    uint32_t last;  /* the lane found last */
} tdmi_lanes;

enum { TDMI_LANES_MAX = 1 << 16 }; /* nobody looks at more, and a file may name one an event */

/* The lane's number; it is made when it is new. TDMI_NONE: there are TDMI_LANES_MAX others. */
tdm_status tdmi_lanes_put(tdmi_lanes *lanes, bool device, tdmi_lane_id pid, tdmi_lane_id tid, uint32_t *out);
/* TDMI_NONE: there is none. */
uint32_t tdmi_lanes_find(const tdmi_lanes *lanes, bool device, tdmi_lane_id pid, tdmi_lane_id tid);
void tdmi_lanes_drop(tdmi_lanes *lanes);
size_t tdmi_lanes_nbytes(const tdmi_lanes *lanes);

#endif
