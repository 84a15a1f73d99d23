/* calls.c - the life of a call. All calls are MPI's non-blocking ones, since a wait has a deadline and other groups of this rank
 * go on meanwhile. */
#include "engine/mpi/internal.h"

#include "core/memory.h"

#include <string.h>

static bool grow(void **array, size_t size, int count)
{
    void *larger = tdmi_realloc(*array, size * (size_t)count, "engine mpi");
    if (larger != NULL)
        *array = larger;
    return larger != NULL;
}

MPI_Request *mpi_call_pending(mpi_call *call)
{
    if (call->pending_count == call->pending_capacity) {
        const int capacity = call->pending_capacity == 0 ? 4 : 2 * call->pending_capacity;
        if (!grow((void **)&call->pending, sizeof *call->pending, capacity) ||
            !grow((void **)&call->status, sizeof *call->status, capacity))
            return NULL;
        call->pending_capacity = capacity;
    }
    call->pending[call->pending_count] = MPI_REQUEST_NULL;
    return &call->pending[call->pending_count++];
}

int *mpi_call_ints(mpi_call *call, int count)
{
    if (count > call->ints_capacity && grow((void **)&call->ints, sizeof *call->ints, count))
        call->ints_capacity = count;
    return count <= call->ints_capacity ? call->ints : NULL;
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

void mpi_call_free(mpi_call *call)
{
    tdmi_free(call->pending);
    tdmi_free(call->status);
    tdmi_free(call->ints);
    tdmi_free(call->scratch);
    tdmi_free(call);
}

static tdm_status take_call(mpi_engine *engine, mpi_call **out)
{
    mpi_call *call = engine->idle;
    if (call != NULL)
        engine->idle = call->next;
    else if ((call = tdmi_calloc(1, sizeof *call, "engine mpi")) == NULL)
        return TDM_ERR_NO_MEMORY;
    call->base.ops = &tdmi_engine_plugin;
    call->engine = engine;
    call->pending_count = 0;
    call->result = NULL;
    call->function_slot = -1;
    *out = call;
    return TDM_OK;
}

void mpi_end(tdmi_engine_call *base)
{
    mpi_call *call = (mpi_call *)base;
    pthread_mutex_lock(&mpi_lock);
    mpi_reduce_release(call);
    pthread_mutex_unlock(&mpi_lock);
    call->next = call->engine->idle;
    call->engine->idle = call;
}

tdm_status mpi_again(tdmi_engine_call *base)
{
    mpi_call *call = (mpi_call *)base;
    mpi_engine *engine = call->engine;
    pthread_mutex_lock(&mpi_lock);
    mpi_reduce_release(call);
    call->pending_count = 0;
    call->result = NULL;
    tdm_status status = tdmi_coll_reduces(call->request.call.coll) ? mpi_reduce(call) : mpi_move(call);
    engine->tag = (engine->tag + 1) & 0x7fff; /* MPI promises tags to 32767 */
    pthread_mutex_unlock(&mpi_lock);
    return status;
}

/* A call that began: to the caller, or back. */
static tdm_status hand_out(mpi_call *call, tdm_status status, tdmi_engine_call **out)
{
    if (status == TDM_OK)
        *out = &call->base;
    else
        mpi_end(&call->base);
    return status;
}

tdm_status mpi_start(tdmi_engine *base, const tdmi_request *request, tdmi_engine_call **out)
{
    mpi_call *call;
    tdm_status status = take_call((mpi_engine *)base, &call);
    if (status != TDM_OK)
        return status;
    call->request = *request;
    return hand_out(call, mpi_again(&call->base), out);
}

tdm_status mpi_meet(tdmi_engine *base, const uint64_t own[2], tdmi_engine_call **out)
{
    mpi_engine *engine = (mpi_engine *)base;
    mpi_call *call;
    tdm_status status = take_call(engine, &call);
    if (status != TDM_OK)
        return status;
    memcpy(call->base.sums, own, sizeof call->base.sums);
    MPI_Request *request = mpi_call_pending(call);
    status = request != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
    pthread_mutex_lock(&mpi_lock);
    if (status == TDM_OK)
        status = mpi_check(MPI_Iallreduce(MPI_IN_PLACE, call->base.sums, 2, MPI_UINT64_T, MPI_SUM, engine->side, request), "MPI_Iallreduce");
    pthread_mutex_unlock(&mpi_lock);
    return hand_out(call, status, out);
}

tdm_status mpi_call_bytes(mpi_call *call, bool receives, MPI_Comm comm, int rank, int tag, void *data, size_t nbytes)
{
    tdm_status status = TDM_OK;
    for (size_t first = 0; first < nbytes && status == TDM_OK; first += MPI_MOST) {
        const int n = (int)(nbytes - first < MPI_MOST ? nbytes - first : MPI_MOST);
        MPI_Request *request = mpi_call_pending(call);
        char *at = (char *)data + first;
        if (request == NULL)
            return TDM_ERR_NO_MEMORY;
        status = receives ? mpi_check(MPI_Irecv(at, n, MPI_BYTE, rank, tag, comm, request), "MPI_Irecv")
                          : mpi_check(MPI_Isend(at, n, MPI_BYTE, rank, tag, comm, request), "MPI_Isend");
    }
    return status;
}

/* Messages of the same tag between two ranks arrive in their order, so pieces and ids that come round again are no matter. */
tdm_status mpi_carry(tdmi_engine *base, bool receives, int rank, uint64_t id, void *data, size_t nbytes, tdmi_engine_call **out)
{
    mpi_engine *engine = (mpi_engine *)base;
    mpi_call *call;
    tdm_status status = take_call(engine, &call);
    if (status != TDM_OK)
        return status;
    pthread_mutex_lock(&mpi_lock);
    status = mpi_call_bytes(call, receives, engine->side, rank, (int)(id & 0x7fff), data, nbytes);
    pthread_mutex_unlock(&mpi_lock);
    return hand_out(call, status, out);
}

tdm_status mpi_test(tdmi_engine_call *base, bool *done)
{
    mpi_call *call = (mpi_call *)base;
    int over = 1;
    pthread_mutex_lock(&mpi_lock);
    tdm_status status = TDM_OK;
    if (call->pending_count > 0) {
        int code = MPI_Testall(call->pending_count, call->pending, &over, call->status);
        for (int i = 0; code == MPI_ERR_IN_STATUS && i < call->pending_count; i++)
            if (call->status[i].MPI_ERROR != MPI_SUCCESS && call->status[i].MPI_ERROR != MPI_ERR_PENDING)
                code = call->status[i].MPI_ERROR;
        status = mpi_check(code, tdmi_coll_name(call->request.call.coll));
    }
    pthread_mutex_unlock(&mpi_lock);
    *done = status == TDM_OK && over;
    if (*done && call->result != NULL)
        mpi_reduce_finish(call);
    return status;
}
