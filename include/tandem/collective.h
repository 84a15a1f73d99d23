/* collective.h - operations that all ranks of a group take part in.
 *
 * Common to all:
 *   - all ranks make the same calls, with the same dtype, op, count and root, in the same order; what differs is an error on
 *     all ranks that names both sides (TDM_ERR_MISMATCH)
 *   - who only gives (the root of a broadcast or scatter, the others of a reduce or gather) may be done before the others come, and
 *     hears of such an error in a later call, wait or test; tdm_group_destroy writes it into the log
 *   - `work` NULL: the call blocks. Otherwise it starts the operation and gives a handle for tdm_work_wait, which consumes it;
 *     buffers are borrowed until then
 *   - in == out (the same address, or the rank's own part where sizes differ) is allowed; other overlaps are not
 *   - counts are elements, 0 is legal; buffers are contiguous (who has a strided view copies it) and may be unaligned
 *   - results have the same bits on all ranks, for every algorithm and transport (canonical balanced tree: docs/determinism.md)
 *   - Errors  TDM_ERR_INVALID an argument | TDM_ERR_MISMATCH | TDM_ERR_TIMEOUT names the ranks that are missing |
 *     TDM_ERR_PEER_LOST names the dead rank. After the last three the group is dead: destroy it, make a new one.
 *   - Thread  one at a time makes calls on a group; meanwhile others may test and wait for its handles, one thread a handle.
 *   - Cost  docs/algorithms.md.   Since 0.1 */
#ifndef TANDEM_COLLECTIVE_H
#define TANDEM_COLLECTIVE_H

#include <tandem/group.h>

#ifdef __cplusplus
extern "C" {
#endif

/* tdm_allreduce - every rank ends up with op(in of rank 0, ..., in of rank n-1).
 *   in, out  [count].   Source  meaning of torch.distributed.all_reduce */
TDM_API TDM_MUST_CHECK tdm_status tdm_allreduce(tdm_group *group, const void *in, void *out, size_t count, tdm_dtype dtype,
                                                tdm_op op, tdm_work **work);
/* tdm_reduce_scatter - rank r gets elements [r count, (r+1) count) of the reduction.
 *   in [n count], out [count]; in place: out == in + rank count.   Source  torch.distributed.reduce_scatter_tensor */
TDM_API TDM_MUST_CHECK tdm_status tdm_reduce_scatter(tdm_group *group, const void *in, void *out, size_t count,
                                                     tdm_dtype dtype, tdm_op op, tdm_work **work);
/* tdm_all_gather - out holds the inputs of all ranks in rank order.
 *   in [count], out [n count]; in place: in == out + rank count.   Source  torch.distributed.all_gather_into_tensor */
TDM_API TDM_MUST_CHECK tdm_status tdm_all_gather(tdm_group *group, const void *in, void *out, size_t count, tdm_dtype dtype,
                                                 tdm_work **work);
/* tdm_broadcast - data of rank `root` on every rank.   data [count].   Source  torch.distributed.broadcast */
TDM_API TDM_MUST_CHECK tdm_status tdm_broadcast(tdm_group *group, void *data, size_t count, tdm_dtype dtype, int root,
                                                tdm_work **work);
/* tdm_reduce - as tdm_allreduce, but only `root` gets the result.
 *   in [count], out [count] on the root, ignored elsewhere (may be NULL).   Source  torch.distributed.reduce */
TDM_API TDM_MUST_CHECK tdm_status tdm_reduce(tdm_group *group, const void *in, void *out, size_t count, tdm_dtype dtype,
                                             tdm_op op, int root, tdm_work **work);
/* tdm_gather - `root` gets the inputs of all ranks in rank order.
 *   in [count]; out [n count] on the root, ignored elsewhere; in place on the root: in == out + root count.
 *   Source  torch.distributed.gather */
TDM_API TDM_MUST_CHECK tdm_status tdm_gather(tdm_group *group, const void *in, void *out, size_t count, tdm_dtype dtype, int root,
                                             tdm_work **work);
/* tdm_scatter - rank r gets part r of the root's input.
 *   in [n count] on the root, ignored elsewhere; out [count]; in place on the root: out == in + root count.
 *   Source  torch.distributed.scatter */
TDM_API TDM_MUST_CHECK tdm_status tdm_scatter(tdm_group *group, const void *in, void *out, size_t count, tdm_dtype dtype, int root,
                                              tdm_work **work);
/* tdm_alltoall - part p of rank r's output is part r of rank p's input.
 *   in, out [n count].   Source  torch.distributed.all_to_all_single */
TDM_API TDM_MUST_CHECK tdm_status tdm_alltoall(tdm_group *group, const void *in, void *out, size_t count, tdm_dtype dtype,
                                               tdm_work **work);

/* ---- with parts of different sizes ----
 * Buffers hold the parts in rank order, one behind the other without gaps; any part may be empty. Arrays of counts are read
 * before the call returns. What two ranks say about a part must agree, or the call ends with TDM_ERR_MISMATCH on all ranks.
 *
 * tdm_all_gatherv      counts [n], the same on all ranks: rank r gives counts[r].   in [counts[rank]], out [sum of counts]
 * tdm_reduce_scatterv  counts [n], the same on all ranks: rank r gets counts[r].    in [sum of counts], out [counts[rank]]
 * tdm_gatherv          rank r gives in_count; out_counts [n] and out only on the root
 * tdm_scatterv         rank r gets out_count; in_counts [n] and in only on the root
 * tdm_alltoallv        in_counts [n]: elements for each rank; out_counts [n]: elements from each rank
 * In place as for equal parts: a rank's own part may be where it belongs in the larger buffer; alltoallv only with in_counts
 * equal to out_counts.   Source  MPI_Allgatherv and the others, torch.distributed.all_to_all_single with split sizes */
TDM_API TDM_MUST_CHECK tdm_status tdm_all_gatherv(tdm_group *group, const void *in, void *out, const size_t *counts,
                                                  tdm_dtype dtype, tdm_work **work);
TDM_API TDM_MUST_CHECK tdm_status tdm_reduce_scatterv(tdm_group *group, const void *in, void *out, const size_t *counts,
                                                      tdm_dtype dtype, tdm_op op, tdm_work **work);
TDM_API TDM_MUST_CHECK tdm_status tdm_gatherv(tdm_group *group, const void *in, size_t in_count, void *out,
                                              const size_t *out_counts, tdm_dtype dtype, int root, tdm_work **work);
TDM_API TDM_MUST_CHECK tdm_status tdm_scatterv(tdm_group *group, const void *in, const size_t *in_counts, void *out,
                                               size_t out_count, tdm_dtype dtype, int root, tdm_work **work);
TDM_API TDM_MUST_CHECK tdm_status tdm_alltoallv(tdm_group *group, const void *in, const size_t *in_counts, void *out,
                                                const size_t *out_counts, tdm_dtype dtype, tdm_work **work);

/* tdm_barrier - returns when all ranks have called it. */
TDM_API TDM_MUST_CHECK tdm_status tdm_barrier(tdm_group *group, tdm_work **work);

/* tdm_work_test - advances and looks: *done says whether the operation is over. Does not consume the handle.
 * tdm_work_wait - blocks until it is over, frees the handle, returns its status (and its text to this thread).
 * A handle of a group that was destroyed is gone: wait for all work first.
 * tdm_work_set_timeout - the call may take this long from now on, instead of the group's time-out; the group ends if it takes
 *                 longer.
 * tdm_work_on_done - calls fn(arg, status) once, when the operation is over or its group has failed, or at once if that is so
 *                 already. It runs in the thread that notices - one that is inside a Tandem call of this rank, or the progress
 *                 thread - and must be short and not call Tandem but for tdm_error_text. Where all ranks share memory nobody
 *                 notices between calls: test or wait. The handle stays yours to wait for. */
TDM_API TDM_MUST_CHECK tdm_status tdm_work_test(tdm_work *work, bool *done);
TDM_API TDM_MUST_CHECK tdm_status tdm_work_wait(tdm_work *work);
TDM_API void tdm_work_set_timeout(tdm_work *work, double timeout_s);
typedef void (*tdm_done)(void *arg, tdm_status status);
TDM_API void tdm_work_on_done(tdm_work *work, tdm_done fn, void *arg);

/* ---- calls that are made again ----
 * tdm_work_keep  - before the first wait: tdm_work_wait leaves the handle to be started again. Not for sends and receives.
 * tdm_work_start - makes the same call once more, with the same buffers, without looking anything up and without allocating.
 *                  All ranks do it, or make the call anew, in the same order as all calls. Errors as the call, and
 *                  TDM_ERR_INVALID: it was not kept, or is under way.
 * tdm_work_free  - gives a kept handle back; waits if it is under way. NULL is fine.
 *                  Source  MPI_Allreduce_init, MPI_Start */
TDM_API TDM_MUST_CHECK tdm_status tdm_work_keep(tdm_work *work);
TDM_API TDM_MUST_CHECK tdm_status tdm_work_start(tdm_work *work);
TDM_API void tdm_work_free(tdm_work *work);

/* ---- many small calls with one meeting ----
 * Collectives between begin and end are one set with one handle. Calls that follow each other and are alike but for their counts
 * (operation, dtype, op, root) are made as one, over a packed buffer, if they are short: 64 KiB each, 1 MiB together. Longer
 * ones, uneven ones, barriers and those with made operations keep their places in the order. Bits are those of single calls.
 * Those on memory of a device (engine nccl) come last and start together.
 *   begin  the calls behind it may be started at once or at the end; they set *work to NULL; buffers are borrowed until the
 *          handle of the set is waited for (or the end returns). A call with a bad argument fails alone and is no part of it
 *   end    work NULL: blocks. Otherwise a handle; it may be kept
 * All ranks make the same calls in the set; mismatches name the number of calls and both sides.
 * Cost   one call for each run of alike ones, and two copies of their data.   Source  ncclGroupStart, torch's _coalescing_manager */
TDM_API TDM_MUST_CHECK tdm_status tdm_coalesce_begin(tdm_group *group);
TDM_API TDM_MUST_CHECK tdm_status tdm_coalesce_end(tdm_group *group, tdm_work **work);

/* ---- how operations are done: docs/algorithms.md ----
 * tdm_algorithm_name  - names of all algorithms, index 0, 1, ...; NULL behind the last. Static storage.
 * tdm_work_algorithm  - name of the one that this operation takes; NULL while that depends on ranks that have not come yet.
 * tdm_work_explain    - what this rank does, as text, one step a line; gives the length of the whole text, of which `text` gets
 *                       as much as fits, as snprintf does. 0 while the algorithm is not known. */
TDM_API const char *tdm_algorithm_name(int index);
TDM_API const char *tdm_work_algorithm(tdm_work *work);
TDM_API size_t tdm_work_explain(tdm_work *work, char *text, size_t capacity);

#ifdef __cplusplus
}
#endif
#endif
