/* mpi_ranks.c - one rank of a job that mpirun starts: every operation over engine mpi, against values that everybody knows.
 * The plug-in it loads is built with few elements in one MPI call, so that the ways of large counts are taken too. */
#include "mpi_check.h"

#include "coll/op.h"
#include "group/fused.h"
#include "measure/pattern.h"

#include <string.h>

/* The sanitizers' hook: both MPIs leak at their ends, in libraries that are unloaded by then and cannot be named. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}

static int rank, n;

static void *block(size_t nbytes)
{
    void *out = calloc(nbytes + 16, 1);
    CHECK(out != NULL, "no memory");
    return out;
}

/* ---- equal parts ---- */

static void reduces(tdm_group *group, tdm_dtype dtype, tdm_op op, size_t count, bool in_place)
{
    const size_t size = tdm_dtype_size(dtype), whole = count * (size_t)n;
    char *in = block(whole * size), *out = in_place ? in : block(whole * size);
    tdmi_pattern_fill(dtype, op, rank, 0, in, count);
    OK(tdm_allreduce(group, in, out, count, dtype, op, NULL));
    CHECK(tdmi_pattern_wrong_result(dtype, op, n, 0, out, count) == 0, "allreduce of %zu %s, %s, in place %d", count,
          tdm_dtype_name(dtype), tdm_op_name(op), in_place);
    tdmi_pattern_fill(dtype, op, rank, 0, in, count);
    OK(tdm_reduce(group, in, rank == 1 ? out : NULL, count, dtype, op, 1, NULL));
    CHECK(rank != 1 || tdmi_pattern_wrong_result(dtype, op, n, 0, out, count) == 0, "reduce of %zu %s, %s", count, tdm_dtype_name(dtype),
          tdm_op_name(op));
    tdmi_pattern_fill(dtype, op, rank, 0, in, whole);
    char *part = in_place ? in + (size_t)rank * count * size : out;
    OK(tdm_reduce_scatter(group, in, part, count, dtype, op, NULL));
    CHECK(tdmi_pattern_wrong_result(dtype, op, n, (size_t)rank * count, part, count) == 0, "reduce_scatter of %zu %s, %s, in place %d",
          count, tdm_dtype_name(dtype), tdm_op_name(op), in_place);
    if (!in_place)
        free(out);
    free(in);
}

static void moves(tdm_group *group, tdm_dtype dtype, size_t count, bool in_place)
{
    const size_t size = tdm_dtype_size(dtype), whole = count * (size_t)n * size, own = (size_t)rank * count * size;
    char *a = block(whole), *b = block(whole);
    tdmi_pattern_fill(dtype, TDM_SUM, rank, 0, in_place ? b + own : a, count);
    OK(tdm_all_gather(group, in_place ? b + own : a, b, count, dtype, NULL));
    for (int r = 0; r < n; r++)
        CHECK(tdmi_pattern_wrong_copy(dtype, TDM_SUM, r, 0, b + (size_t)r * count * size, count) == 0, "all_gather of %zu", count);
    memset(b, 0x5a, whole);
    tdmi_pattern_fill(dtype, TDM_SUM, rank, 0, in_place && rank == 2 ? b + own : a, count);
    OK(tdm_gather(group, in_place && rank == 2 ? b + own : a, rank == 2 ? b : NULL, count, dtype, 2, NULL));
    for (int r = 0; r < n && rank == 2; r++)
        CHECK(tdmi_pattern_wrong_copy(dtype, TDM_SUM, r, 0, b + (size_t)r * count * size, count) == 0, "gather of %zu", count);
    tdmi_pattern_fill(dtype, TDM_SUM, rank, 0, a, count * (size_t)n);
    char *out = in_place && rank == 1 ? a + own : b;
    OK(tdm_scatter(group, rank == 1 ? a : NULL, out, count, dtype, 1, NULL));
    CHECK(tdmi_pattern_wrong_copy(dtype, TDM_SUM, 1, (size_t)rank * count, out, count) == 0, "scatter of %zu", count);
    tdmi_pattern_fill(dtype, TDM_SUM, rank, 0, a, count * (size_t)n);
    OK(tdm_alltoall(group, a, in_place ? a : b, count, dtype, NULL));
    for (int r = 0; r < n; r++)
        CHECK(tdmi_pattern_wrong_copy(dtype, TDM_SUM, r, (size_t)rank * count, (in_place ? a : b) + (size_t)r * count * size, count) == 0,
              "alltoall of %zu", count);
    tdmi_pattern_fill(dtype, TDM_SUM, rank, 0, a, count);
    OK(tdm_broadcast(group, a, count, dtype, 1, NULL));
    CHECK(tdmi_pattern_wrong_copy(dtype, TDM_SUM, 1, 0, a, count) == 0, "broadcast of %zu", count);
    free(a);
    free(b);
}

static void every_type_and_operation(tdm_group *group)
{
    static const size_t counts[] = {0, 7, 250};
    for (int dtype = 0; dtype < TDM_DTYPE_COUNT; dtype++) {
        for (int op = 0; op < TDM_OP_COUNT; op++)
            for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
                if (tdmi_op_check((tdm_dtype)dtype, (tdm_op)op, "test", "native") == TDM_OK)
                    reduces(group, (tdm_dtype)dtype, (tdm_op)op, counts[i], (i + (size_t)op + (size_t)dtype) % 2 != 0);
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            moves(group, (tdm_dtype)dtype, counts[i], (i + (size_t)dtype) % 2 != 0);
    }
    OK(tdm_barrier(group, NULL));
    uint8_t byte = 1;
    CHECK(tdm_allreduce(group, &byte, &byte, 1, TDM_BOOL, TDM_AVG, NULL) == TDM_ERR_UNSUPPORTED, "an average of bools");
    CHECK(strstr(tdm_error_text(), "engine mpi") != NULL && strstr(tdm_error_text(), "bool") != NULL, "names");
}

/* ---- parts of different sizes ---- */

static void uneven(tdm_group *group, size_t unit)
{
    const size_t counts[3] = {3 * unit, 0, unit + 1}, total = 4 * unit + 1, starts[3] = {0, 3 * unit, 3 * unit};
    int32_t *a = block(total * 16), *b = block(total * 16);
    tdmi_pattern_fill(TDM_I32, TDM_SUM, rank, 0, a, counts[rank]);
    OK(tdm_all_gatherv(group, a, b, counts, TDM_I32, NULL));
    for (int r = 0; r < n; r++)
        CHECK(tdmi_pattern_wrong_copy(TDM_I32, TDM_SUM, r, 0, b + starts[r], counts[r]) == 0, "all_gatherv");
    memset(b, 0x5a, total * 4);
    OK(tdm_gatherv(group, a, counts[rank], b, counts, TDM_I32, 0, NULL));
    for (int r = 0; r < n && rank == 0; r++)
        CHECK(tdmi_pattern_wrong_copy(TDM_I32, TDM_SUM, r, 0, b + starts[r], counts[r]) == 0, "gatherv");
    tdmi_pattern_fill(TDM_I32, TDM_SUM, rank, 0, a, total);
    OK(tdm_scatterv(group, a, counts, b, counts[rank], TDM_I32, 2, NULL));
    CHECK(tdmi_pattern_wrong_copy(TDM_I32, TDM_SUM, 2, starts[rank], b, counts[rank]) == 0, "scatterv");
    tdmi_pattern_fill(TDM_I32, TDM_SUM, rank, 0, a, total);
    OK(tdm_reduce_scatterv(group, a, b, counts, TDM_I32, TDM_SUM, NULL));
    CHECK(tdmi_pattern_wrong_result(TDM_I32, TDM_SUM, n, starts[rank], b, counts[rank]) == 0, "reduce_scatterv");
    /* rank r gives r + p times unit elements to rank p */
    size_t in_counts[3], out_counts[3], first = 0;
    for (int p = 0; p < n; p++)
        in_counts[p] = out_counts[p] = (size_t)(rank + p) * unit;
    tdmi_pattern_fill(TDM_I32, TDM_SUM, rank, 0, a, 9 * unit > total * 4 ? total * 4 : 9 * unit);
    OK(tdm_alltoallv(group, a, in_counts, b, out_counts, TDM_I32, NULL));
    for (int p = 0; p < n; first += out_counts[p++]) {
        size_t there = 0;
        for (int q = 0; q < rank; q++)
            there += (size_t)(p + q) * unit;
        CHECK(tdmi_pattern_wrong_copy(TDM_I32, TDM_SUM, p, there, b + first, out_counts[p]) == 0, "alltoallv from %d", p);
    }
    free(a);
    free(b);
}

/* ---- operations of callers ---- */

static void join_strings(void *context, const void *a, const void *b, void *out, size_t count, tdm_dtype dtype)
{
    (void)context, (void)dtype; /* digits of a, then those of b: associative, not commutative */
    for (size_t i = 0; i < count; i++) {
        const uint64_t x = ((const uint64_t *)a)[i], y = ((const uint64_t *)b)[i];
        uint64_t shift = 1;
        while (shift <= y)
            shift *= 10;
        ((uint64_t *)out)[i] = x * shift + y;
    }
}

static void made_operations(tdm_group *group)
{
    tdm_op join, twice, half;
    uint64_t values[150];
    float scalar = (float)(rank + 1);
    for (int i = 0; i < 150; i++)
        values[i] = (uint64_t)rank + 1;
    OK(tdm_op_create(join_strings, NULL, "join", &join));
    OK(tdm_allreduce(group, values, values, 150, TDM_U64, join, NULL));
    for (int i = 0; i < 150; i++)
        CHECK(values[i] == 123, "joined to %llu", (unsigned long long)values[i]);
    OK(tdm_op_free(join));
    float f[4] = {1, 2, 3, 4};
    OK(tdm_op_create_premul(TDM_F32, &scalar, &twice));
    OK(tdm_allreduce(group, f, f, 4, TDM_F32, twice, NULL));
    CHECK(f[0] == 6 && f[3] == 24, "premultiplied: %g %g", (double)f[0], (double)f[3]);
    OK(tdm_op_free(twice));
    uint16_t halves[6] = {0x3f80, 0x3f80, 0x3f80, 0x4000, 0x4000, 0x4000}, part[2]; /* 1 and 2 in bfloat16 */
    OK(tdm_op_create_premul(TDM_BF16, &scalar, &half));
    OK(tdm_reduce_scatter(group, halves, part, 2, TDM_BF16, half, NULL));
    CHECK(part[1] == (rank == 0 ? 0x40c0 : 0x4140), "premultiplied halves: %x", part[1]);
    OK(tdm_op_free(half));
}

/* ---- the life of calls ---- */

static void kept_calls(tdm_group *group)
{
    const size_t counts[3] = {1, 130, 2};
    static int32_t in[200], out[200], more[200];
    uint16_t half = 0, sum = 0;
    size_t own = counts[rank], all[3];
    tdm_work *work[5];
    tdm_op join;
    OK(tdm_op_create(join_strings, NULL, "join", &join));
    uint64_t digit = (uint64_t)rank + 1, digits;
    memcpy(all, counts, sizeof all);
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < 200; i++)
            in[i] = turn + rank * 1000 + i;
        half = (uint16_t)(turn == 1 ? 0x4000 : 0x3f80); /* 2 and 1 in bfloat16 */
        if (turn == 0) {
            OK(tdm_allreduce(group, &half, &sum, 1, TDM_BF16, TDM_SUM, &work[0]));
            OK(tdm_all_gatherv(group, in, out, all, TDM_I32, &work[1]));
            OK(tdm_gatherv(group, in, own, more, all, TDM_I32, 1, &work[2]));
            OK(tdm_allreduce(group, &digit, &digits, 1, TDM_U64, join, &work[3]));
            OK(tdm_coalesce_begin(group));
            OK(tdm_allreduce(group, in + 150, in + 150, 2, TDM_I32, TDM_MAX, NULL));
            OK(tdm_allreduce(group, in + 160, in + 160, 2, TDM_I32, TDM_MAX, NULL));
            OK(tdm_coalesce_end(group, &work[4]));
            memset(all, 0xff, sizeof all); /* arrays of counts are the caller's again */
        }
        for (int i = 0; i < 5; i++)
            if (turn == 0)
                OK(tdm_work_keep(work[i]));
            else
                OK(tdm_work_start(work[i]));
        for (int i = 0; i < 5; i++)
            OK(tdm_work_wait(work[i]));
        CHECK(sum == (turn == 1 ? 0x40c0 : 0x4040), "kept sum of halves: %x", sum);
        for (int r = 0, place = 0; r < n; place += (int)counts[r++])
            CHECK(out[place] == turn + r * 1000 && (rank != 1 || more[place] == turn + r * 1000), "kept gathers, turn %d, part %d", turn, r);
        CHECK(digits == 123, "kept function: %llu", (unsigned long long)digits);
        CHECK(in[150] == turn + 2150 && in[161] == turn + 2161, "kept coalesced calls: %d %d", in[150], in[161]);
    }
    for (int i = 0; i < 5; i++)
        tdm_work_free(work[i]);
    OK(tdm_op_free(join));
}

static void epilogue(void *arg, size_t first, size_t count, const void *reduced)
{
    CHECK(tdmi_pattern_wrong_result(TDM_F32, TDM_SUM, n, first, reduced, count) == 0, "fused reduce-scatter");
    *(size_t *)arg += count;
}

static void many_at_once_and_fused(tdm_group *group)
{
    static float data[8][1000];
    tdm_work *work[8];
    for (int i = 0; i < 8; i++) {
        tdmi_pattern_fill(TDM_F32, TDM_SUM, rank, 0, data[i], 1000);
        OK(tdm_allreduce(group, data[i], data[i], 1000, TDM_F32, TDM_SUM, &work[i]));
    }
    CHECK(strcmp(tdm_work_algorithm(work[7]), "mpi") == 0, "the name of what does it");
    for (int i = 7; i >= 0; i--) {
        for (bool done = false; i == 3 && !done;)
            OK(tdm_work_test(work[i], &done));
        OK(tdm_work_wait(work[i]));
        CHECK(tdmi_pattern_wrong_result(TDM_F32, TDM_SUM, n, 0, data[i], 1000) == 0, "call %d of many", i);
    }
    size_t seen = 0, first, count;
    tdmi_pattern_fill(TDM_F32, TDM_SUM, rank, 0, data[0], 1000);
    OK(tdmi_reduce_scatter_fused(group, data[0], 1000, TDM_F32, TDM_SUM, epilogue, &seen, NULL));
    tdmi_slice(1000, TDM_F32, rank, n, &first, &count);
    CHECK(seen == count, "%zu of %zu elements handed on", seen, count);
}

/* ---- messages ---- */

static void messages(tdm_group *group)
{
    const int right = (rank + 1) % n, left = (rank + n - 1) % n;
    static int32_t out[40000], in[40000], all[200];
    tdm_work *work[4];
    tdm_message came;
    for (size_t count = 0; count <= 40000; count = count == 0 ? 7 : count * 70) { /* 0, 28, 1,960 and 137,200 bytes around a ring */
        for (size_t i = 0; i < count; i++)
            out[i] = (int32_t)i + rank;
        OK(tdm_send(group, out, count, TDM_I32, right, (int)count, &work[0]));
        OK(tdm_recv(group, in, 40000, TDM_I32, TDM_ANY_SOURCE, TDM_ANY_TAG, &came, NULL));
        OK(tdm_work_wait(work[0]));
        CHECK(came.from == left && came.tag == (int)count && came.count == count, "a message of %zu from %d", came.count, came.from);
        for (size_t i = 0; i < count; i++)
            CHECK(in[i] == (int32_t)i + left, "element %zu is %d", i, in[i]);
    }
    for (int i = 0; i < 200; i++) /* more than are kept unasked; all but the last wait for nobody */
        if (rank == 0)
            OK(tdm_send(group, &i, i < 60 || i > 197 ? 1 : 0, TDM_I32, 1, 5, NULL));
    if (rank == 0)
        OK(tdm_send(group, out, 5000, TDM_I32, 1, 6, &work[0]));
    if (rank == 1) {
        OK(tdm_recv(group, in, 5000, TDM_I32, 0, 6, NULL, NULL)); /* overtakes those of another tag */
        CHECK(in[4999] == 4999, "the long one: %d", in[4999]);
        for (int i = 0; i < 200; i++)
            OK(tdm_recv(group, &all[i], 1, TDM_I32, 0, 5, &came, NULL));
        CHECK(all[0] == 0 && all[59] == 59 && all[199] == 199, "in the order they were sent: %d %d %d", all[0], all[59], all[199]);
    }
    if (rank == 0)
        OK(tdm_work_wait(work[0]));
    OK(tdm_recv(group, in, 3000, TDM_I32, rank, 9, &came, &work[0])); /* to itself */
    OK(tdm_send(group, out, 3000, TDM_I32, rank, 9, &work[1]));
    OK(tdm_recv(group, all, 2, TDM_I32, left, 1, NULL, &work[2]));
    OK(tdm_send(group, out, 2, TDM_I32, right, 1, &work[3]));
    OK(tdm_barrier(group, NULL)); /* in between */
    for (int i = 3; i >= 0; i--)
        OK(tdm_work_wait(work[i]));
    CHECK(came.from == rank && in[2999] == out[2999] && all[1] == 1 + left, "messages to the own rank and beside a barrier");
}

static void sub_groups(tdm_group *group)
{
    const int pair[2] = {2, 0};
    tdm_group *sub;
    if (rank == 1) {
        CHECK(tdm_group_create_sub(group, pair, 2, &sub) == TDM_ERR_INVALID, "a stranger in a sub-group");
        return;
    }
    OK(tdm_group_create_sub(group, pair, 2, &sub));
    int64_t value = rank;
    OK(tdm_broadcast(sub, &value, 1, TDM_I64, 0, NULL));
    CHECK(value == 2 && tdm_group_rank(sub) == (rank == 2 ? 0 : 1) && tdm_group_size(sub) == 2, "the pair's first is rank 2");
    tdm_group_destroy(sub);
}

/* ---- calls that differ ---- */

static tdm_group *group_of_all(tdm_group *group)
{
    const int all[3] = {0, 1, 2};
    tdm_group *sub;
    OK(tdm_group_create_sub(group, all, 3, &sub));
    return sub;
}

typedef struct difference {
    const char *what, *first, *second; /* words of the error text */
    tdm_status (*call)(tdm_group *group, int32_t *in, int32_t *out, bool odd);
} difference;

#define DIFFERENCE(name, ...)                                                                                          \
    static tdm_status differ_in_##name(tdm_group *group, int32_t *in, int32_t *out, bool odd)                          \
    {                                                                                                                  \
        (void)out;                                                                                                     \
        return __VA_ARGS__;                                                                                            \
    }
DIFFERENCE(operation, odd ? tdm_broadcast(group, in, 6, TDM_I32, 1, NULL) : tdm_allreduce(group, in, out, 6, TDM_I32, TDM_SUM, NULL))
DIFFERENCE(dtype, tdm_allreduce(group, in, out, 6, odd ? TDM_F32 : TDM_I32, TDM_SUM, NULL))
DIFFERENCE(count, tdm_allreduce(group, in, out, odd ? 5 : 6, TDM_I32, TDM_SUM, NULL))
DIFFERENCE(long_count, tdm_broadcast(group, in, odd ? 250 : 6000, TDM_I32, 2, NULL))
DIFFERENCE(reduction, tdm_allreduce(group, in, out, 6, TDM_I32, odd ? TDM_MAX : TDM_SUM, NULL))
DIFFERENCE(root, tdm_reduce(group, in, out, 6, TDM_I32, TDM_SUM, odd ? 2 : 0, NULL))
DIFFERENCE(counts, tdm_all_gatherv(group, in, out, odd ? (size_t[]){1, 2, 3} : (size_t[]){1, 3, 2}, TDM_I32, NULL))
DIFFERENCE(parts, tdm_alltoallv(group, in, odd ? (size_t[]){1, 2, 2} : (size_t[]){1, 1, 1}, out, (size_t[]){1, 1, 1}, TDM_I32, NULL))
DIFFERENCE(gathered, tdm_gatherv(group, in, odd ? 7 : 1, out, (size_t[]){1, 1, 1}, TDM_I32, 0, NULL))

static tdm_status differ_in_order(tdm_group *group, int32_t *in, int32_t *out, bool odd)
{
    tdm_work *work[2] = {NULL};
    tdm_status status = odd ? tdm_barrier(group, &work[0]) : tdm_allreduce(group, in, out, 6, TDM_I32, TDM_SUM, &work[0]);
    if (status == TDM_OK)
        status = odd ? tdm_allreduce(group, in, out, 6, TDM_I32, TDM_SUM, &work[1]) : tdm_barrier(group, &work[1]);
    for (int i = 0; i < 2; i++)
        if (work[i] != NULL) {
            const tdm_status waited = tdm_work_wait(work[i]);
            status = status == TDM_OK ? waited : status;
        }
    return status;
}

static tdm_status differ_in_coalescing(tdm_group *group, int32_t *in, int32_t *out, bool odd)
{
    tdm_status status = tdm_coalesce_begin(group);
    if (status == TDM_OK)
        status = tdm_allreduce(group, in, out, odd ? 2 : 1, TDM_I32, TDM_SUM, NULL);
    if (status == TDM_OK)
        status = tdm_allreduce(group, in + 8, out + 8, odd ? 1 : 2, TDM_I32, TDM_SUM, NULL);
    const tdm_status ended = tdm_coalesce_end(group, NULL);
    return status == TDM_OK ? ended : status;
}

static void mismatches(tdm_group *group)
{
    static const difference differences[] = {
        {"operation", "allreduce of 6 int32 (sum)", "broadcast of 6 int32 from rank 1", differ_in_operation},
        {"dtype", "allreduce of 6 int32 (sum)", "allreduce of 6 float32 (sum)", differ_in_dtype},
        {"count", "allreduce of 6 int32 (sum)", "allreduce of 5 int32 (sum)", differ_in_count},
        {"long count", "broadcast of 6000 int32", "broadcast of 250 int32", differ_in_long_count},
        {"reduction", "allreduce of 6 int32 (sum)", "allreduce of 6 int32 (max)", differ_in_reduction},
        {"root", "reduce of 6 int32 (sum) to rank 0", "reduce of 6 int32 (sum) to rank 2", differ_in_root},
        {"counts", "all_gatherv of 6 int32: rank ", "not the same counts of single ranks", differ_in_counts},
        {"parts", "alltoallv: rank 1 gives 2 int32 to rank ", "expects 1 of them", differ_in_parts},
        {"gathered", "gatherv: rank 1 gives 7 int32 to rank 0", "expects 1 of them", differ_in_gathered},
        {"order", "allreduce of 6 int32 (sum)", "barrier", differ_in_order},
        {"coalescing", "2 coalesced calls of allreduce of 3 int32", "not the same counts of single calls", differ_in_coalescing},
    };
    static int32_t in[6000], out[6000];
    for (size_t i = 0; i < sizeof differences / sizeof *differences; i++) {
        const difference *d = &differences[i];
        tdm_group *sub = group_of_all(group);
        OK(tdm_barrier(sub, NULL));
        const tdm_status status = d->call(sub, in, out, rank == 1);
        const char *text = tdm_error_text();
        CHECK(status == TDM_ERR_MISMATCH && strstr(text, d->first) != NULL && strstr(text, d->second) != NULL && strstr(text, "rank 1") != NULL,
              "calls that differ in %s: %s", d->what, tdm_status_name(status));
        CHECK(tdm_barrier(sub, NULL) == TDM_ERR_MISMATCH, "the group is dead");
        tdm_group_destroy(sub);
    }
    OK(tdm_barrier(group, NULL));
}

/* ---- ranks that are missing ---- */

static tdm_group *impatient_group(void)
{
    tdm_group_options options;
    tdm_group *group;
    tdm_group_options_init(&options);
    options.timeout_s = 0.8;
    OK(tdm_group_create(&options, &group));
    return group;
}

static void lost_messages(tdm_group *group)
{
    static const struct {
        tdm_status status;
        const char *text;
    } expected[] = {{TDM_ERR_MISMATCH, "rank 1 sends 3000 int32 with tag 4, but rank 0 receives float32"},
                    {TDM_ERR_MISMATCH, "rank 1 sends 3000 int32 with tag 4, but rank 0 has room for 2999"},
                    {TDM_ERR_PEER_LOST, "waits for a message from or to rank 1, which has left"}};
    static int32_t data[3000];
    for (int i = 0; i < 3; i++) {
        tdm_group *sub = group_of_all(group);
        tdm_status status = TDM_OK;
        if (rank == 0)
            status = tdm_recv(sub, data, i == 1 ? 2999 : 3000, i == 0 ? TDM_F32 : TDM_I32, 1, 4, NULL, NULL);
        else if (i < 2)
            status = rank == 1 ? tdm_send(sub, data, 3000, TDM_I32, 0, 4, NULL) : tdm_barrier(sub, NULL);
        CHECK(i == 2 && rank != 0 ? status == TDM_OK : status == expected[i].status && strstr(tdm_error_text(), expected[i].text) != NULL,
              "message %d: %s", i, tdm_status_name(status));
        tdm_group_destroy(sub);
    }
    tdm_group *late = impatient_group();
    if (rank == 2) {
        const tdm_status status = tdm_recv(late, data, 1, TDM_I32, 0, 3, NULL, NULL);
        CHECK(status == TDM_ERR_TIMEOUT && strstr(tdm_error_text(), "waits for a message from rank 0 with tag 3; none came within 0.8 s") != NULL,
              "a message that does not come: %s", tdm_status_name(status));
    }
    OK(tdm_barrier(group, NULL));
    tdm_group_destroy(late);
}

static void errors(tdm_group *group)
{
    int32_t in[6] = {0};
    mismatches(group);
    lost_messages(group);
    tdm_group *late = impatient_group();
    if (rank != 0) { /* rank 0 never comes */
        const tdm_status status = tdm_allreduce(late, in, in, 6, TDM_I32, TDM_SUM, NULL);
        CHECK(status == TDM_ERR_TIMEOUT && strstr(tdm_error_text(), "allreduce of 6 int32 (sum): rank 0 did not arrive") != NULL,
              "a rank that does not come: %s", tdm_status_name(status));
    }
    OK(tdm_barrier(group, NULL));
    CHECK(tdm_barrier(late, NULL) == TDM_ERR_TIMEOUT && strstr(tdm_error_text(), "rank 0 did not arrive") != NULL, "who comes late hears of it");
    tdm_group_destroy(late);
    tdm_group *parent = impatient_group(), *a = group_of_all(parent), *b = group_of_all(parent);
    OK(tdm_barrier(a, NULL));
    OK(tdm_barrier(b, NULL));
    tdm_status status = tdm_barrier(rank == 2 ? b : a, NULL);
    const bool told = strstr(tdm_error_text(), "rank 2 waits in call 2 of group") != NULL ||
                      strstr(tdm_error_text(), "rank 2 has given up call 2 of group") != NULL; /* its time was up first */
    CHECK(status == TDM_ERR_TIMEOUT && (rank == 2 || told), "groups in another order: %s", tdm_status_name(status));
    OK(tdm_barrier(group, NULL));
    tdm_group_destroy(a);
    tdm_group_destroy(b);
    tdm_group_destroy(parent);
    tdm_group *sub = group_of_all(group);
    if (rank == 1)
        tdm_group_abort(sub, "enough");
    else
        CHECK(tdm_barrier(sub, NULL) == TDM_ERR_ABORTED && strstr(tdm_error_text(), "by rank 1: enough") != NULL, "an abort is heard of");
    tdm_group_destroy(sub);
    sub = group_of_all(group);
    if (rank != 1)
        CHECK(tdm_barrier(sub, NULL) == TDM_ERR_PEER_LOST && strstr(tdm_error_text(), "rank 1 left group") != NULL, "a rank that leaves");
    tdm_group_destroy(sub);
    OK(tdm_barrier(group, NULL)); /* the first rank that is gone ends the job */
    printf("rank %d: all right\n", rank);
    fflush(stdout);
    OK(tdm_barrier(group, NULL));
}

int main(int argc, char **argv)
{
    tdm_group *group;
    if (tdm_group_create(NULL, &group) != TDM_OK) {
        printf("%s\n", tdm_error_text());
        return 1;
    }
    rank = tdm_group_rank(group);
    n = tdm_group_size(group);
    CHECK(n == 3 && strcmp(tdm_group_engine(group), "mpi") == 0 && strcmp(tdm_group_transport(group), "mpi") == 0, "%d ranks", n);
    if (argc > 1 && strcmp(argv[1], "errors") == 0) {
        errors(group);
        fflush(stdout);
        _Exit(0); /* calls are under way that never end */
    }
    every_type_and_operation(group);
    for (size_t unit = 0; unit < 60; unit += 12)
        uneven(group, unit);
    made_operations(group);
    many_at_once_and_fused(group);
    kept_calls(group);
    messages(group);
    sub_groups(group);
    tdm_group_destroy(group);
    printf("rank %d: all right\n", rank);
    return 0;
}
