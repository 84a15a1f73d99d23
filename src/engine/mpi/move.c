/* move.c - broadcast, all_gather, gather, scatter, alltoall, barrier. Elements travel as integers of their size. Where only
 * pairs of ranks know how much goes between them, they send to each other; MPI's own v calls have counts and places in ints. */
#include "engine/mpi/internal.h"

#include <string.h>

static MPI_Datatype integer_of(tdm_dtype dtype)
{
    switch (tdm_dtype_size(dtype)) {
    case 1: return MPI_BYTE;
    case 2: return MPI_UINT16_T;
    case 4: return MPI_UINT32_T;
    default: return MPI_UINT64_T;
    }
}

/* A rank without data may have no buffer. */
static const char *at(const void *buffer, size_t elements, tdm_dtype dtype)
{
    return buffer == NULL ? NULL : (const char *)buffer + elements * tdm_dtype_size(dtype);
}

/* Elements to or from one rank. */
static tdm_status message(mpi_call *call, bool receives, char *data, size_t count, int peer)
{
    const mpi_engine *engine = call->engine;
    return mpi_call_bytes(call, receives, engine->comm, peer, engine->tag, data, count * tdm_dtype_size(call->request.call.dtype));
}

static tdm_status broadcast(mpi_call *call)
{
    const tdmi_call *c = &call->request.call;
    const size_t nbytes = c->count * tdm_dtype_size(c->dtype);
    tdm_status status = TDM_OK;
    for (size_t first = 0; first < nbytes && status == TDM_OK; first += MPI_MOST) {
        const int n = (int)(nbytes - first < MPI_MOST ? nbytes - first : MPI_MOST);
        MPI_Request *request = mpi_call_pending(call);
        status = request == NULL ? TDM_ERR_NO_MEMORY
                                 : mpi_check(MPI_Ibcast((char *)call->request.out + first, n, MPI_BYTE, c->root, call->engine->comm, request),
                                             "MPI_Ibcast");
    }
    return status;
}

/* Uneven gather, scatter and alltoall, and what is too long for one call of MPI's: everyone to everyone it has to do with. */
static tdm_status pairwise(mpi_call *call, const void *in)
{
    const tdmi_call *c = &call->request.call;
    const int rank = call->engine->base.rank, n = call->engine->base.size;
    const bool gathers_all = c->coll == TDMI_COLL_ALL_GATHER;
    tdm_status status = TDM_OK;
    for (int k = 0; k < n && status == TDM_OK; k++) {
        const int peer = (rank + k) % n;
        const bool gives = gathers_all || c->coll == TDMI_COLL_ALLTOALL || (c->coll == TDMI_COLL_GATHER ? peer : rank) == c->root;
        const bool takes = gathers_all || c->coll == TDMI_COLL_ALLTOALL || (c->coll == TDMI_COLL_GATHER ? rank : peer) == c->root;
        const tdmi_range from = gives ? tdmi_call_in_part(c, peer) : (tdmi_range){TDMI_BUFFER_IN, 0, 0};
        const tdmi_range to = takes ? tdmi_call_out_part(c, peer) : (tdmi_range){TDMI_BUFFER_OUT, 0, 0};
        char *source = (char *)(uintptr_t)at(in, from.first, c->dtype), *target = (char *)(uintptr_t)at(call->request.out, to.first, c->dtype);
        if (peer == rank && gives && takes) {
            if (source != target && from.count > 0 && from.count == to.count)
                memmove(target, source, from.count * tdm_dtype_size(c->dtype));
            continue;
        }
        if (takes)
            status = message(call, true, target, to.count, peer);
        if (status == TDM_OK && gives)
            status = message(call, false, source, from.count, peer);
    }
    return status;
}

/* Parts of different sizes that all ranks know, as long as ints can say where they are. */
static tdm_status all_gather_uneven(mpi_call *call)
{
    const tdmi_call *c = &call->request.call;
    const int rank = call->engine->base.rank, n = call->engine->base.size;
    if (tdmi_call_out_count(c, rank, n) * tdm_dtype_size(c->dtype) > MPI_MOST)
        return pairwise(call, call->request.in);
    int *counts = mpi_call_ints(call, 2 * n);
    MPI_Request *request = mpi_call_pending(call);
    if (counts == NULL || request == NULL)
        return TDM_ERR_NO_MEMORY;
    for (int r = 0, place = 0; r < n; r++) {
        counts[r] = (int)c->out_counts[r];
        counts[n + r] = place;
        place += counts[r];
    }
    const bool in_place = call->request.in == at(call->request.out, (size_t)counts[n + rank], c->dtype);
    const MPI_Datatype type = integer_of(c->dtype);
    return mpi_check(MPI_Iallgatherv(in_place ? MPI_IN_PLACE : call->request.in, counts[rank], type, call->request.out, counts, counts + n,
                                     type, call->engine->comm, request), "MPI_Iallgatherv");
}

tdm_status mpi_move(mpi_call *call)
{
    const tdmi_call *c = &call->request.call;
    const MPI_Comm comm = call->engine->comm;
    const int rank = call->engine->base.rank;
    const void *in = call->request.in;
    void *out = call->request.out;
    const size_t nbytes = c->count * (size_t)call->engine->base.size * tdm_dtype_size(c->dtype); /* of even parts */
    if (c->coll == TDMI_COLL_BROADCAST)
        return broadcast(call);
    if (c->coll == TDMI_COLL_ALLTOALL && in == out) { /* MPI's in place is slow or missing in some versions */
        const size_t whole = tdmi_call_in_count(c, rank, call->engine->base.size) * tdm_dtype_size(c->dtype);
        tdm_status status = mpi_call_scratch(call, whole);
        if (status != TDM_OK)
            return status;
        if (whole > 0)
            memcpy(call->scratch, in, whole);
        in = call->scratch;
    }
    if (c->uneven)
        return c->coll == TDMI_COLL_ALL_GATHER ? all_gather_uneven(call) : pairwise(call, in);
    if (nbytes > MPI_MOST)
        return pairwise(call, in);
    MPI_Request *request = mpi_call_pending(call);
    if (request == NULL)
        return TDM_ERR_NO_MEMORY;
    const MPI_Datatype type = integer_of(c->dtype);
    const int count = (int)c->count;
    const bool own_part_in_out = in == at(out, (size_t)rank * c->count, c->dtype);
    const bool own_part_in_in = out == at(in, (size_t)rank * c->count, c->dtype);
    int code;
    switch (c->coll) {
    case TDMI_COLL_ALL_GATHER:
        code = MPI_Iallgather(own_part_in_out ? MPI_IN_PLACE : in, count, type, out, count, type, comm, request);
        break;
    case TDMI_COLL_GATHER:
        code = MPI_Igather(rank == c->root && own_part_in_out ? MPI_IN_PLACE : in, count, type, out, count, type, c->root, comm, request);
        break;
    case TDMI_COLL_SCATTER:
        code = MPI_Iscatter(in, count, type, rank == c->root && own_part_in_in ? MPI_IN_PLACE : out, count, type, c->root, comm, request);
        break;
    case TDMI_COLL_ALLTOALL: code = MPI_Ialltoall(in, count, type, out, count, type, comm, request); break;
    default: code = MPI_Ibarrier(comm, request); break;
    }
    return mpi_check(code, tdmi_coll_name(c->coll));
}
