/* internal.h - what the files of the MPI plug-in share. It is built once for each MPI; the only home of <mpi.h>.
 *
 * MPI is told that one thread at a time calls it, and one lock sees to that: groups of one rank may be used by several
 * threads. The lock is taken below a group's lock and held for one MPI call or a few that do not block. */
#ifndef TDMI_ENGINE_MPI_INTERNAL_H
#define TDMI_ENGINE_MPI_INTERNAL_H

#include "engine/engine.h"

#include <mpi.h>
#include <pthread.h>

/* Bytes in one MPI call, whose counts are ints, and which MPICH 4.0 cannot do with more than 2^31 - 1. Tests build it with less. */
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
    int pending_count, pending_capacity;
    int *ints;             /* counts and places that MPI reads until the end */
    int ints_capacity;
    char *scratch;         /* inputs in the type they are summed in, results that must not go to their place yet */
    size_t scratch_nbytes;
    const void *result;    /* where the reduced elements of this rank are; NULL: nothing to do at the end */
    size_t result_count;
    int function_slot;     /* of a caller's function; -1 */
} mpi_call;

struct mpi_engine {
    tdmi_engine base;
    MPI_Comm comm;
    MPI_Comm side; /* meetings, and the bytes of messages: ranks whose calls differ still meet here */
    int tag; /* of the next call that sends from rank to rank */
    mpi_call *idle;
    uint64_t key;              /* of its notes: equal on its ranks, no other group of theirs ever had it */
    int *world;                /* [size] ranks in MPI_COMM_WORLD */
    struct mpi_engine *next;   /* in the list of notes.c */
    struct mpi_note *heard, **heard_last;
};

extern __attribute__((visibility("default"))) const tdmi_engine_ops tdmi_engine_plugin; /* what dlsym finds */
extern pthread_mutex_t mpi_lock; /* everything below that calls MPI, but tdmi_engine_ops, is called with it held */

/* TDM_OK, or what MPI says of it. */
tdm_status mpi_check(int code, const char *what);

/* ---- calls.c ---- */
/* One more request of the call; NULL and an error text if there is no memory. */
MPI_Request *mpi_call_pending(mpi_call *call);
/* Room for what MPI reads until the call is over; NULL and an error text if there is no memory. */
int *mpi_call_ints(mpi_call *call, int count);
tdm_status mpi_call_scratch(mpi_call *call, size_t nbytes);
/* Bytes to or from one rank, in pieces, which arrive in their order. */
tdm_status mpi_call_bytes(mpi_call *call, bool receives, MPI_Comm comm, int rank, int tag, void *data, size_t nbytes);
void mpi_call_free(mpi_call *call);
tdm_status mpi_start(tdmi_engine *base, const tdmi_request *request, tdmi_engine_call **out);
tdm_status mpi_again(tdmi_engine_call *base);
tdm_status mpi_test(tdmi_engine_call *base, bool *done);
void mpi_end(tdmi_engine_call *base);
tdm_status mpi_meet(tdmi_engine *base, const uint64_t own[2], tdmi_engine_call **out);
tdm_status mpi_carry(tdmi_engine *base, bool receives, int rank, uint64_t id, void *data, size_t nbytes, tdmi_engine_call **out);

/* ---- notes.c ---- */
tdm_status mpi_notes_init(void);         /* once a process, after MPI_Init */
void mpi_notes_end(void);                /* waits a moment for notes that have not left */
void mpi_notes_open(mpi_engine *engine); /* its key is known */
void mpi_notes_close(mpi_engine *engine);
tdm_status mpi_tell(tdmi_engine *base, int rank, const void *bytes, size_t nbytes);
tdm_status mpi_hear(tdmi_engine *base, int *rank_out, uint8_t bytes[TDMI_ENGINE_NOTE], size_t *nbytes_out);

/* ---- move.c: calls that carry, but do not compute ---- */
tdm_status mpi_move(mpi_call *call);
/* ---- reduce.c: calls that compute ---- */
tdm_status mpi_reduce(mpi_call *call);
void mpi_reduce_finish(mpi_call *call); /* the end of it, once everything is here */
void mpi_reduce_release(mpi_call *call);
tdm_status mpi_reduce_init(void);       /* once a process, after MPI_Init */
void mpi_reduce_end(void);              /* before MPI_Finalize */

#endif
