/* engine.h - whole collectives done by somebody else: an MPI, or NCCL. What Tandem does itself, with step lists, is the engine
 * "native" and needs nothing of this; it lives in group/ and coll/.
 *
 * Everything here is called with the group's lock held, but open, open_sub and close. */
#ifndef TDMI_ENGINE_ENGINE_H
#define TDMI_ENGINE_ENGINE_H

#include "coll/run.h"

#define TDMI_ENGINE_VERSION 1u /* of this header; an engine in a library of its own must have the same */

typedef struct tdmi_engine_ops tdmi_engine_ops;

/* The ranks of one group, as an engine knows them. */
typedef struct tdmi_engine {
    const tdmi_engine_ops *ops;
    int rank, size;
} tdmi_engine;

/* One call under way. */
typedef struct tdmi_engine_call {
    const tdmi_engine_ops *ops;
} tdmi_engine_call;

typedef struct tdmi_engine_start {
    int rank, size; /* -1: the engine knows */
    /* Gives rank 0's bytes to all; of engines that do not meet alone. */
    tdm_status (*share)(void *arg, void *bytes, size_t nbytes);
    void *arg;
} tdmi_engine_start;

struct tdmi_engine_ops {
    unsigned version;
    const char *name;
    /* Its ranks find each other without a store, and it takes every call. Else a native group lies below it, which shares what
     * has to be shared and does the calls that `takes` leaves to it. */
    bool meets_alone;
    tdm_status (*open)(const tdmi_engine_start *start, tdmi_engine **out);
    /* Called by the members of `ranks` [count] alone; rank i of the new group is ranks[i]. Of engines that meet alone. */
    tdm_status (*open_sub)(tdmi_engine *parent, const int *ranks, int count, tdmi_engine **out);
    void (*close)(tdmi_engine *engine, bool clean); /* not clean: calls may be under way that never end */
    bool (*takes)(tdmi_engine *engine, const tdmi_request *request);
    /* Starts a call of a group of at least two, whose arguments have been checked. Refuses with TDM_ERR_UNSUPPORTED what the
     * engine lacks, on all ranks alike. The request's arrays of counts are read before it returns; it is never fused. */
    tdm_status (*start)(tdmi_engine *engine, const tdmi_request *request, tdmi_engine_call **out);
    tdm_status (*test)(tdmi_engine_call *call, bool *done); /* moves it on; an error is the group's end */
    void (*end)(tdmi_engine_call *call);                    /* of a call that is done; else it is left to its fate */
};

/* The engine of this name; "native": NULL. Loads what it needs. */
tdm_status tdmi_engine_find(const char *name, const tdmi_engine_ops **out);

extern const tdmi_engine_ops tdmi_engine_nccl;

#endif
