/* engine.h - whole collectives done by somebody else: an MPI, or NCCL. What Tandem does itself, with step lists, is the engine
 * "native" and needs nothing of this; it lives in group/ and coll/.
 *
 * Everything here is called with the group's lock held, but open, open_sub, close and tell. */
#ifndef TDMI_ENGINE_ENGINE_H
#define TDMI_ENGINE_ENGINE_H

#include "coll/run.h"

#define TDMI_ENGINE_VERSION 2u /* of this header; an engine in a library of its own must have the same */

#define TDMI_ENGINE_NOTE ((size_t)5 << 10)

typedef struct tdmi_engine_ops tdmi_engine_ops;

/* The ranks of one group, as an engine knows them. */
typedef struct tdmi_engine {
    const tdmi_engine_ops *ops;
    int rank, size;
} tdmi_engine;

/* One call under way. */
typedef struct tdmi_engine_call {
    const tdmi_engine_ops *ops;
    uint64_t sums[2]; /* of `meet`, once it is done */
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
     * engine lacks, on all ranks alike. The request's arrays of counts stay until the call is ended; it is never fused. */
    tdm_status (*start)(tdmi_engine *engine, const tdmi_request *request, tdmi_engine_call **out);
    /* Starts a call that is done once more, with the same buffers; allocates nothing. After an error it is still to be ended. */
    tdm_status (*again)(tdmi_engine_call *call);
    /* Calls between true and false start together, at false, whose error is the group's end. NULL: it would gain nothing. */
    tdm_status (*gather)(tdmi_engine *engine, bool begins);
    tdm_status (*test)(tdmi_engine_call *call, bool *done); /* moves it on; an error is the group's end */
    void (*end)(tdmi_engine_call *call);                    /* of a call that is done; else it is left to its fate */

    /* ---- of engines that meet alone: what the native group below does for the others ---- */
    /* Adds up numbers of all ranks, as integers that wrap. Such calls meet in their order and never meet those of `start`. */
    tdm_status (*meet)(tdmi_engine *engine, const uint64_t own[2], tdmi_engine_call **out);
    /* Sends a note of up to TDMI_ENGINE_NOTE bytes, which are copied. Notes of one rank to another arrive in order. Any thread. */
    tdm_status (*tell)(tdmi_engine *engine, int rank, const void *bytes, size_t nbytes);
    /* Takes the next note that has come. *nbytes_out 0: there is none. */
    tdm_status (*hear)(tdmi_engine *engine, int *rank_out, uint8_t bytes[TDMI_ENGINE_NOTE], size_t *nbytes_out);
    /* Sends bytes of message `id` of the sender to a rank that receives as many, or receives them from it. */
    tdm_status (*carry)(tdmi_engine *engine, bool receives, int rank, uint64_t id, void *data, size_t nbytes, tdmi_engine_call **out);
};

/* The engine of this name; "native": NULL. Loads what it needs. */
tdm_status tdmi_engine_find(const char *name, const tdmi_engine_ops **out);

extern const tdmi_engine_ops tdmi_engine_nccl;

#endif
