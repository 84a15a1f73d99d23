/* mpi.c - the engine: joining the MPI that started this process, and communicators. */
#include "engine/mpi/internal.h"

#include "core/log.h"
#include "core/memory.h"

#include <stdlib.h>
#include <string.h>

pthread_mutex_t mpi_lock = PTHREAD_MUTEX_INITIALIZER;
static bool ready, unclean; /* guarded by it */
static unsigned groups_made; /* here as rank 0; guarded by it */

tdm_status mpi_check(int code, const char *what)
{
    if (code == MPI_SUCCESS)
        return TDM_OK;
    char text[MPI_MAX_ERROR_STRING] = "?";
    int length, class = MPI_ERR_OTHER;
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    return tdmi_fail(class == MPI_ERR_TRUNCATE ? TDM_ERR_MISMATCH : TDM_ERR_SYSTEM, "engine mpi: %s: %s", what, text);
}

/* ---- beginning and end ---- */

/* With calls that never end MPI_Finalize would wait for ever; without it mpirun sees that this rank failed. */
static void finalize(void)
{
    int finalized = 1;
    MPI_Finalized(&finalized);
    if (finalized)
        return;
    pthread_mutex_lock(&mpi_lock);
    mpi_notes_end();
    pthread_mutex_unlock(&mpi_lock);
    if (unclean)
        return;
    mpi_reduce_end();
    MPI_Finalize();
}

static tdm_status join(void)
{
    int initialized = 0, finalized = 0, provided = 0;
    if (ready)
        return TDM_OK;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (finalized)
        return tdmi_fail(TDM_ERR_INVALID, "engine mpi: this process has called MPI_Finalize already");
    if (!initialized) {
        tdm_status status = mpi_check(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
        if (status != TDM_OK)
            return status;
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* MPICH reports there what MPI_Testall meets */
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        if (atexit(finalize) != 0)
            return tdmi_fail(TDM_ERR_NO_MEMORY, "engine mpi: atexit has no room");
    }
    tdm_status status = mpi_reduce_init();
    if (status == TDM_OK)
        status = mpi_notes_init();
    ready = status == TDM_OK;
    return status;
}

static tdm_status take_comm(MPI_Comm comm, tdmi_engine **out);

static tdm_status open_world(const tdmi_engine_start *start, tdmi_engine **out)
{
    MPI_Comm comm;
    int rank = 0, size = 0;
    pthread_mutex_lock(&mpi_lock);
    tdm_status status = join();
    if (status == TDM_OK) {
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        if ((start->size >= 0 && start->size != size) || (start->rank >= 0 && start->rank != rank))
            status = tdmi_fail(TDM_ERR_INVALID, "engine mpi: this is rank %d of %d as MPI started it, but the options say rank %d of %d",
                               rank, size, start->rank, start->size);
    }
    if (status == TDM_OK)
        status = mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
    if (status == TDM_OK)
        status = take_comm(comm, out);
    pthread_mutex_unlock(&mpi_lock);
    return status;
}

static tdm_status open_sub(tdmi_engine *parent, const int *ranks, int count, tdmi_engine **out)
{
    MPI_Comm parents = ((mpi_engine *)parent)->comm, comm;
    MPI_Group all, some;
    pthread_mutex_lock(&mpi_lock);
    tdm_status status = mpi_check(MPI_Comm_group(parents, &all), "MPI_Comm_group");
    if (status == TDM_OK) {
        status = mpi_check(MPI_Group_incl(all, count, ranks, &some), "MPI_Group_incl");
        MPI_Group_free(&all);
    }
    if (status == TDM_OK) {
        status = mpi_check(MPI_Comm_create_group(parents, some, 0, &comm), "MPI_Comm_create_group");
        MPI_Group_free(&some);
    }
    if (status == TDM_OK)
        status = take_comm(comm, out);
    pthread_mutex_unlock(&mpi_lock);
    return status;
}

static void free_engine(mpi_engine *engine, bool clean)
{
    if (clean) {
        MPI_Comm_free(&engine->comm);
        MPI_Comm_free(&engine->side);
    }
    while (engine->idle != NULL) {
        mpi_call *call = engine->idle;
        engine->idle = call->next;
        mpi_call_free(call);
    }
    tdmi_free(engine);
}

static void close_engine(tdmi_engine *base, bool clean)
{
    mpi_engine *engine = (mpi_engine *)base;
    pthread_mutex_lock(&mpi_lock);
    unclean |= !clean;
    mpi_notes_close(engine);
    free_engine(engine, clean);
    pthread_mutex_unlock(&mpi_lock);
}

/* Where its ranks are in MPI_COMM_WORLD, and the key of its notes, which rank 0 makes. */
static tdm_status introduce(mpi_engine *engine)
{
    MPI_Group all, own;
    const int n = engine->base.size;
    int ranks[n];
    for (int r = 0; r < n; r++)
        ranks[r] = r;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Comm_group(engine->comm, &own);
    tdm_status status = mpi_check(MPI_Group_translate_ranks(own, n, ranks, all, engine->world), "MPI_Group_translate_ranks");
    MPI_Group_free(&own);
    MPI_Group_free(&all);
    engine->key = (uint64_t)engine->world[0] << 32 | ++groups_made;
    if (status == TDM_OK)
        status = mpi_check(MPI_Bcast(&engine->key, 1, MPI_UINT64_T, 0, engine->comm), "MPI_Bcast");
    return status;
}

/* Takes the communicator, also on failure. */
static tdm_status take_comm(MPI_Comm comm, tdmi_engine **out)
{
    MPI_Comm side = MPI_COMM_NULL;
    int n = 0;
    MPI_Comm_size(comm, &n);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    tdm_status status = mpi_check(MPI_Comm_dup(comm, &side), "MPI_Comm_dup");
    mpi_engine *engine = status == TDM_OK ? tdmi_calloc(1, sizeof *engine + (size_t)n * sizeof *engine->world, "engine mpi") : NULL;
    if (engine == NULL) {
        MPI_Comm_free(&comm);
        if (side != MPI_COMM_NULL)
            MPI_Comm_free(&side);
        return status == TDM_OK ? TDM_ERR_NO_MEMORY : status;
    }
    engine->base.ops = &tdmi_engine_plugin;
    engine->comm = comm;
    engine->side = side;
    engine->world = (int *)(engine + 1);
    engine->base.size = n;
    MPI_Comm_set_errhandler(side, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm, &engine->base.rank);
    status = introduce(engine);
    if (status != TDM_OK) {
        free_engine(engine, true);
        return status;
    }
    mpi_notes_open(engine);
    *out = &engine->base;
    return TDM_OK;
}

const tdmi_engine_ops tdmi_engine_plugin = {.version = TDMI_ENGINE_VERSION,
                                            .name = "mpi",
                                            .meets_alone = true,
                                            .open = open_world,
                                            .open_sub = open_sub,
                                            .close = close_engine,
                                            .start = mpi_start,
                                            .again = mpi_again,
                                            .test = mpi_test,
                                            .end = mpi_end,
                                            .meet = mpi_meet,
                                            .tell = mpi_tell,
                                            .hear = mpi_hear,
                                            .carry = mpi_carry};
