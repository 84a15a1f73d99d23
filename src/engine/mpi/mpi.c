/* mpi.c - the engine: joining the MPI that started this process, communicators, and the life of a call. All calls are MPI's
 * non-blocking ones, since a wait has a deadline and other groups of this rank go on meanwhile. */
#include "engine/mpi/internal.h"

#include "core/log.h"
#include "core/memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool ready, unclean; /* guarded by lock */

extern __attribute__((visibility("default"))) const tdmi_engine_ops tdmi_engine_plugin; /* what dlsym finds */

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
    if (finalized || unclean)
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
    ready = status == TDM_OK;
    return status;
}

static tdm_status take_comm(MPI_Comm comm, tdmi_engine **out);

static tdm_status open_world(const tdmi_engine_start *start, tdmi_engine **out)
{
    MPI_Comm comm;
    int rank = 0, size = 0;
    pthread_mutex_lock(&lock);
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
    pthread_mutex_unlock(&lock);
    return status;
}

static tdm_status open_sub(tdmi_engine *parent, const int *ranks, int count, tdmi_engine **out)
{
    MPI_Comm parents = ((mpi_engine *)parent)->comm, comm;
    MPI_Group all, some;
    pthread_mutex_lock(&lock);
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
    pthread_mutex_unlock(&lock);
    return status;
}

static tdm_status take_comm(MPI_Comm comm, tdmi_engine **out)
{
    mpi_engine *engine = tdmi_calloc(1, sizeof *engine, "engine mpi");
    if (engine == NULL)
        return TDM_ERR_NO_MEMORY;
    engine->base.ops = &tdmi_engine_plugin;
    engine->comm = comm;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm, &engine->base.rank);
    MPI_Comm_size(comm, &engine->base.size);
    *out = &engine->base;
    return TDM_OK;
}

static void free_call(mpi_call *call)
{
    tdmi_free(call->pending);
    tdmi_free(call->status);
    tdmi_free(call->expected);
    tdmi_free(call->scratch);
    tdmi_free(call);
}

static void close_engine(tdmi_engine *base, bool clean)
{
    mpi_engine *engine = (mpi_engine *)base;
    pthread_mutex_lock(&lock);
    unclean |= !clean;
    if (clean)
        MPI_Comm_free(&engine->comm);
    pthread_mutex_unlock(&lock);
    while (engine->idle != NULL) {
        mpi_call *call = engine->idle;
        engine->idle = call->next;
        free_call(call);
    }
    tdmi_free(engine);
}

/* ---- calls ---- */

static bool grow(void **array, size_t size, int count, tdm_status *status)
{
    void *larger = tdmi_realloc(*array, size * (size_t)count, "engine mpi");
    if (larger == NULL) {
        *status = TDM_ERR_NO_MEMORY;
        return false;
    }
    *array = larger;
    return true;
}

MPI_Request *mpi_call_pending(mpi_call *call, size_t expected)
{
    tdm_status status = TDM_OK;
    if (call->pending_count == call->pending_capacity) {
        const int capacity = call->pending_capacity == 0 ? 4 : 2 * call->pending_capacity;
        if (!grow((void **)&call->pending, sizeof *call->pending, capacity, &status) ||
            !grow((void **)&call->status, sizeof *call->status, capacity, &status) ||
            !grow((void **)&call->expected, sizeof *call->expected, capacity, &status))
            return NULL;
        call->pending_capacity = capacity;
    }
    call->expected[call->pending_count] = expected;
    call->pending[call->pending_count] = MPI_REQUEST_NULL;
    return &call->pending[call->pending_count++];
}

tdm_status mpi_call_keep(mpi_call *call, int *ints)
{
    call->ints = ints;
    return TDM_OK;
}

tdm_status mpi_call_scratch(mpi_call *call, size_t nbytes)
{
    if (nbytes <= call->scratch_nbytes)
        return TDM_OK;
    tdmi_free(call->scratch);
    call->scratch_nbytes = 0;
    call->scratch = tdmi_aligned_alloc(4096, nbytes, "engine mpi");
    if (call->scratch == NULL)
        return TDM_ERR_NO_MEMORY;
    call->scratch_nbytes = nbytes;
    return TDM_OK;
}

static void end(tdmi_engine_call *base)
{
    mpi_call *call = (mpi_call *)base;
    pthread_mutex_lock(&lock);
    mpi_reduce_release(call);
    pthread_mutex_unlock(&lock);
    free(call->ints);
    call->ints = NULL;
    call->next = call->engine->idle;
    call->engine->idle = call;
}

static tdm_status start(tdmi_engine *base, const tdmi_request *request, tdmi_engine_call **out)
{
    mpi_engine *engine = (mpi_engine *)base;
    mpi_call *call = engine->idle;
    if (call != NULL)
        engine->idle = call->next;
    else if ((call = tdmi_calloc(1, sizeof *call, "engine mpi")) == NULL)
        return TDM_ERR_NO_MEMORY;
    call->base.ops = &tdmi_engine_plugin;
    call->engine = engine;
    call->request = *request;
    call->pending_count = 0;
    call->result = NULL;
    call->function_slot = -1;
    pthread_mutex_lock(&lock);
    tdm_status status = tdmi_coll_reduces(request->call.coll) ? mpi_reduce(call) : mpi_move(call);
    engine->tag = (engine->tag + 1) & 0x7fff; /* MPI promises tags to 32767 */
    pthread_mutex_unlock(&lock);
    if (status != TDM_OK) {
        end(&call->base);
        return status;
    }
    *out = &call->base;
    return TDM_OK;
}

/* What came from other ranks, where each side knows only its own idea of how much. */
static tdm_status compare_counts(const mpi_call *call)
{
    for (int i = 0; i < call->pending_count; i++) {
        MPI_Count bytes = 0;
        if (call->expected[i] == SIZE_MAX)
            continue;
        const size_t size = tdm_dtype_size(call->request.call.dtype);
        tdm_status status = mpi_check(MPI_Get_elements_x(&call->status[i], MPI_BYTE, &bytes), "MPI_Get_elements_x");
        if (status != TDM_OK)
            return status;
        if ((size_t)bytes != call->expected[i] * size)
            return tdmi_fail(TDM_ERR_MISMATCH, "%sv: rank %d gives %zu elements where rank %d expects %zu",
                             tdmi_coll_name(call->request.call.coll), call->status[i].MPI_SOURCE, (size_t)bytes / size,
                             call->engine->base.rank, call->expected[i]);
    }
    return TDM_OK;
}

static tdm_status test(tdmi_engine_call *base, bool *done)
{
    mpi_call *call = (mpi_call *)base;
    int over = 1;
    pthread_mutex_lock(&lock);
    tdm_status status = TDM_OK;
    if (call->pending_count > 0) {
        int code = MPI_Testall(call->pending_count, call->pending, &over, call->status);
        for (int i = 0; code == MPI_ERR_IN_STATUS && i < call->pending_count; i++)
            if (call->status[i].MPI_ERROR != MPI_SUCCESS && call->status[i].MPI_ERROR != MPI_ERR_PENDING)
                code = call->status[i].MPI_ERROR;
        status = mpi_check(code, tdmi_coll_name(call->request.call.coll));
    }
    if (status == TDM_OK && over)
        status = compare_counts(call);
    pthread_mutex_unlock(&lock);
    *done = status == TDM_OK && over;
    if (*done && call->result != NULL)
        mpi_reduce_finish(call);
    return status;
}

const tdmi_engine_ops tdmi_engine_plugin = {.version = TDMI_ENGINE_VERSION,
                                            .name = "mpi",
                                            .meets_alone = true,
                                            .open = open_world,
                                            .open_sub = open_sub,
                                            .close = close_engine,
                                            .start = start,
                                            .test = test,
                                            .end = end};
