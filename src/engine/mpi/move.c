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

/* What MPI is told of `count` elements: n of `type`, where the type is made if n would not be an int. */
typedef struct typed {
    MPI_Datatype type;
    int n;
    bool made;
} typed;

static tdm_status make_typed(size_t count, MPI_Datatype base, typed *out)
{
    *out = (typed){base, (int)count, false};
    if (count <= MPI_MOST)
        return TDM_OK;
    MPI_Datatype piece, body;
    MPI_Aint lower, extent;
    MPI_Type_get_extent(base, &lower, &extent);
    const size_t pieces = count / MPI_MOST, rest = count % MPI_MOST;
    int lengths[2] = {1, (int)rest};
    MPI_Aint places[2] = {0, (MPI_Aint)(pieces * MPI_MOST) * extent};
    tdm_status status = mpi_check(MPI_Type_contiguous((int)MPI_MOST, base, &piece), "MPI_Type_contiguous");
    if (status != TDM_OK)
        return status;
    status = mpi_check(MPI_Type_contiguous((int)pieces, piece, &body), "MPI_Type_contiguous");
    MPI_Type_free(&piece);
    if (status != TDM_OK)
        return status;
    MPI_Datatype types[2] = {body, base};
    status = mpi_check(MPI_Type_create_struct(rest > 0 ? 2 : 1, lengths, places, types, &out->type), "MPI_Type_create_struct");
    MPI_Type_free(&body);
    if (status == TDM_OK)
        status = mpi_check(MPI_Type_commit(&out->type), "MPI_Type_commit");
    out->made = status == TDM_OK;
    out->n = 1;
    return status;
}

/* MPI keeps it as long as it is in use. */
static void drop_typed(typed *t)
{
    if (t->made)
        MPI_Type_free(&t->type);
}

/* A rank without data may have no buffer. */
static const char *at(const void *buffer, size_t elements, tdm_dtype dtype)
{
    return buffer == NULL ? NULL : (const char *)buffer + elements * tdm_dtype_size(dtype);
}

/* A message in bytes to or from one rank. */
static tdm_status message(mpi_call *call, bool receives, void *data, size_t count, int peer)
{
    typed t;
    MPI_Request *request = mpi_call_pending(call);
    tdm_status status = request == NULL ? TDM_ERR_NO_MEMORY
                                        : make_typed(count * tdm_dtype_size(call->request.call.dtype), MPI_BYTE, &t);
    if (status != TDM_OK)
        return status;
    status = receives ? mpi_check(MPI_Irecv(data, t.n, t.type, peer, call->engine->tag, call->engine->comm, request), "MPI_Irecv")
                      : mpi_check(MPI_Isend(data, t.n, t.type, peer, call->engine->tag, call->engine->comm, request), "MPI_Isend");
    drop_typed(&t);
    return status;
}

/* Uneven gather, scatter and alltoall, and an all_gather whose places are no ints: everyone to everyone it has to do with. */
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
    if (tdmi_call_out_count(c, rank, n) > MPI_MOST)
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
    typed t;
    if (c->coll == TDMI_COLL_ALLTOALL && in == out) { /* MPI's in place is slow or missing in some versions */
        const size_t nbytes = tdmi_call_in_count(c, rank, call->engine->base.size) * tdm_dtype_size(c->dtype);
        tdm_status status = mpi_call_scratch(call, nbytes);
        if (status != TDM_OK)
            return status;
        if (nbytes > 0)
            memcpy(call->scratch, in, nbytes);
        in = call->scratch;
    }
    if (c->uneven)
        return c->coll == TDMI_COLL_ALL_GATHER ? all_gather_uneven(call) : pairwise(call, in);
    MPI_Request *request = mpi_call_pending(call);
    tdm_status status = request == NULL ? TDM_ERR_NO_MEMORY : make_typed(c->count, integer_of(c->dtype), &t);
    if (status != TDM_OK)
        return status;
    const bool own_part_in_out = in == at(out, (size_t)rank * c->count, c->dtype);
    const bool own_part_in_in = out == at(in, (size_t)rank * c->count, c->dtype);
    int code;
    switch (c->coll) {
    case TDMI_COLL_BROADCAST: code = MPI_Ibcast(out, t.n, t.type, c->root, comm, request); break;
    case TDMI_COLL_ALL_GATHER:
        code = MPI_Iallgather(own_part_in_out ? MPI_IN_PLACE : in, t.n, t.type, out, t.n, t.type, comm, request);
        break;
    case TDMI_COLL_GATHER:
        code = MPI_Igather(rank == c->root && own_part_in_out ? MPI_IN_PLACE : in, t.n, t.type, out, t.n, t.type, c->root, comm, request);
        break;
    case TDMI_COLL_SCATTER:
        code = MPI_Iscatter(in, t.n, t.type, rank == c->root && own_part_in_in ? MPI_IN_PLACE : out, t.n, t.type, c->root, comm, request);
        break;
    case TDMI_COLL_ALLTOALL: code = MPI_Ialltoall(in, t.n, t.type, out, t.n, t.type, comm, request); break;
    default: code = MPI_Ibarrier(comm, request); break;
    }
    status = mpi_check(code, tdmi_coll_name(c->coll));
    drop_typed(&t);
    return status;
}
