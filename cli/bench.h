/* bench.h - the parts of `tandem bench`: one line of results is measured by bench_measure.c and shown by bench_print.c. */
#ifndef TANDEM_CLI_BENCH_H
#define TANDEM_CLI_BENCH_H

#include <tandem/tandem.h>

typedef enum { BENCH_ALLREDUCE, BENCH_REDUCE_SCATTER, BENCH_ALL_GATHER, BENCH_BROADCAST, BENCH_BARRIER, BENCH_OP_COUNT } bench_op;
extern const char *const bench_op_names[BENCH_OP_COUNT];

/* What the user asked for. */
typedef struct bench_plan {
    bench_op op;
    tdm_dtype dtype;
    tdm_op redop;
    size_t min_bytes, max_bytes;
    double factor;
    int warm_ups, iterations;
    bool malloc_memory;
} bench_plan;

/* One size in one placement. Times are those of one call, microseconds, over all ranks. */
typedef struct bench_line {
    const bench_plan *plan;
    int ranks;
    const char *transport, *algorithm;
    size_t bytes, count; /* bytes of the larger buffer; elements as the call counts them */
    bool in_place;
    double time_us, time_us_p10, time_us_p90;
    double algbw_gbps, busbw_gbps; /* 1e9 bytes a second */
    uint64_t wrong;
} bench_line;

/* The operation has an op over elements; has placements to choose from; has a root (rank 0). */
static inline bool bench_reduces(bench_op op) { return op == BENCH_ALLREDUCE || op == BENCH_REDUCE_SCATTER; }
static inline bool bench_has_places(bench_op op) { return op != BENCH_BROADCAST && op != BENCH_BARRIER; }
static inline int bench_root(bench_op op) { return op == BENCH_BROADCAST ? 0 : -1; }

/* Elements a call counts for buffers of `nbytes`, at least one, and the bytes they then have. */
size_t bench_count(const bench_plan *plan, int ranks, size_t nbytes);
size_t bench_bytes(const bench_plan *plan, int ranks, size_t count);
/* Fills algbw and busbw of a line whose bytes, ranks and time are known. Bus bandwidth: what a link moves; 0 for one rank. */
void bench_bandwidths(bench_line *line);

/* ---- bench_measure.c: one rank's part; all ranks call the same ---- */
typedef struct bench bench;
tdm_status bench_open(const bench_plan *plan, bench **out);
/* Waits for the others, so that none is left without rank 0's store. Where all ranks come to the same end. */
tdm_status bench_part(bench *b);
void bench_close(bench *b);
int bench_rank(const bench *b);
int bench_ranks(const bench *b);
const char *bench_transport(const bench *b);
/* From here on calls take what TANDEM_ALGO says. */
tdm_status bench_choose(bench *b, const char *algorithm);
/* The algorithm that calls of the smallest size now take: runs one. */
tdm_status bench_algorithm(bench *b, const char **name);
tdm_status bench_measure(bench *b, size_t count, bool in_place, bench_line *out);
/* Runs the call once and gives this rank's steps as text, from malloc. */
tdm_status bench_explain(bench *b, size_t count, char **text);

/* ---- bench_print.c ---- */
typedef enum { BENCH_TABLE, BENCH_JSON, BENCH_CSV } bench_format;
void bench_print_head(bench_format format, const bench_plan *plan, int ranks, const char *transport, const char *sum_order);
/* Lines of one size, one after the other: out of place, in place, or the only one there is. */
void bench_print_lines(bench_format format, const bench_line *lines, size_t count);
void bench_print_foot(bench_format format, uint64_t wrong, double sum_of_busbw, size_t lines);

#endif
