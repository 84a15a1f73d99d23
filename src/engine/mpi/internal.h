/* internal.h - what the files of the MPI plug-in share. It is built once for each MPI; the only home of <mpi.h>.
 *
 * MPI is told that one thread at a time calls it, and one lock sees to that: groups of one rank may be used by several
 * threads. The lock is taken below a group's lock and held for one MPI call or a few that do not block. */
#ifndef TDMI_ENGINE_MPI_INTERNAL_H
#define TDMI_ENGINE_MPI_INTERNAL_H

#include "engine/engine.h"

#include <mpi.h>

/* Elements in one MPI call, whose counts are ints. Tests build it with less. */
#ifndef MPI_MOST
#define MPI_MOST ((size_t)1 << 30)
#endif

typedef struct mpi_engine mpi_engine;

/* Memory of a call is kept for the next. */
typedef struct mpi_call {
    tdmi_engine_call base;
    mpi_engine *engine;
    struct mpi_call *next; /* in the engine's list of idle ones */
    tdmi_request request;
    MPI_Request *pending;
    MPI_Status *status;
    size_t *expected;      /* elements of a receive, SIZE_MAX: none */
    int pending_count, pending_capacity;
    int *ints;             /* counts and places that MPI reads until the end */
    char *scratch;         /* inputs in the type they are summed in, results that must not go to their place yet */
    size_t scratch_nbytes;
    const void *result;    /* where the reduced elements of this rank are; NULL: nothing to do at the end */
    size_t result_count;
    int function_slot;     /* of a caller's function; -1 */
} mpi_call;

struct mpi_engine {
    tdmi_engine base;
    MPI_Comm comm;
    int tag; /* of the next call that sends from rank to rank */
    mpi_call *idle;
};

/* One more request of the call; NULL and an error text if there is no memory. */
MPI_Request *mpi_call_pending(mpi_call *call, size_t expected);
/* Takes an array that MPI reads until the call is over. */
tdm_status mpi_call_keep(mpi_call *call, int *ints);
tdm_status mpi_call_scratch(mpi_call *call, size_t nbytes);
/* TDM_OK, or what MPI says of it. */
tdm_status mpi_check(int code, const char *what);

/* ---- move.c: calls that carry, but do not compute ---- */
tdm_status mpi_move(mpi_call *call);
/* ---- reduce.c: calls that compute ---- */
tdm_status mpi_reduce(mpi_call *call);
void mpi_reduce_finish(mpi_call *call); /* the end of it, once everything is here */
void mpi_reduce_release(mpi_call *call);
tdm_status mpi_reduce_init(void);       /* once a process, after MPI_Init */
void mpi_reduce_end(void);              /* before MPI_Finalize */

#endif
