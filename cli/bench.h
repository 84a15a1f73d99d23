/* bench.h - the parts of `tandem bench`: bench_call.c makes and checks one call, bench_measure.c times it, bench_print.c shows a
 * line of results, bench_html.c draws all of them. */
#ifndef TANDEM_CLI_BENCH_H
#define TANDEM_CLI_BENCH_H

#include <tandem/tandem.h>

typedef enum {
    BENCH_ALLREDUCE,
    BENCH_REDUCE_SCATTER,
    BENCH_ALL_GATHER,
    BENCH_BROADCAST,
    BENCH_REDUCE,
    BENCH_GATHER,
    BENCH_SCATTER,
    BENCH_ALLTOALL,
    BENCH_SENDRECV, /* each rank sends to the next one */
    BENCH_BARRIER,
    BENCH_PARAMETER_SERVER, /* baselines: an allreduce by one slow algorithm */
    BENCH_DATA_PARALLEL,
    BENCH_OP_COUNT
} bench_op;

/* How much a link must move of `bytes`: nccl-tests, doc/PERFORMANCE.md. */
typedef enum { BENCH_MOVES_NOTHING, BENCH_MOVES_ALL, BENCH_MOVES_OTHERS, BENCH_MOVES_OTHERS_TWICE } bench_traffic;

typedef struct bench_op_facts {
    const char *name;
    bench_traffic traffic;
    bool reduces;                /* has an operation over elements */
    bool has_parts;              /* the larger buffer has a part for each rank; the call counts one part */
    bool has_root;
    bool out_of_place, in_place; /* placements that are measured */
    const char *algorithm;       /* the only one that counts; NULL: what --algo says */
} bench_op_facts;
extern const bench_op_facts bench_ops[BENCH_OP_COUNT];

/* What the user asked for. */
typedef struct bench_plan {
    bench_op op;
    tdm_dtype dtype;
    tdm_op redop;
    int root;
    size_t min_bytes, max_bytes;
    double factor;
    int warm_ups, iterations;
    bool malloc_memory;
} bench_plan;

/* One size in one placement. Times are those of one call, microseconds, over all ranks. */
typedef struct bench_line {
    const bench_plan *plan;
    int ranks;
    const char *engine;                /* native, mpi, nccl, or a program beside it: openmpi, mpich, gloo */
    const char *transport, *algorithm; /* NULL: another program's, and not known */
    size_t bytes, count; /* bytes of the larger buffer; elements as the call counts them */
    bool in_place;
    double time_us, time_us_p10, time_us_p90;
    double algbw_gbps, busbw_gbps; /* 1e9 bytes a second */
    uint64_t wrong;
} bench_line;

/* The root as results show it: -1 where there is none. */
static inline int bench_root(const bench_plan *plan) { return bench_ops[plan->op].has_root ? plan->root : -1; }

/* ---- bench_call.c: one call on this rank ---- */
typedef struct bench_call {
    const bench_plan *plan;
    tdm_group *group;
    int rank, ranks;
    size_t count;
    unsigned char *in, *out; /* as the call takes them */
} bench_call;

/* Elements a call counts for buffers of `nbytes`, at least one, and the bytes they then have. */
size_t bench_count(const bench_plan *plan, int ranks, size_t nbytes);
size_t bench_bytes(const bench_plan *plan, int ranks, size_t count);
/* Fills algbw and busbw of a line whose bytes, ranks and time are known. Bus bandwidth: what a link moves; 0 for one rank. */
void bench_bandwidths(bench_line *line);
/* Sets in and out within two blocks of bench_bytes each; in place they share the first. */
void bench_call_place(bench_call *c, unsigned char *const blocks[2], bool in_place);
/* Starts a collective. Not for messages: sendrecv has no single handle. */
tdm_status bench_call_start(bench_call *c, tdm_work **work);
/* Makes the call and waits for its end. `arg` is a bench_call. */
tdm_status bench_call_run(void *arg);
/* Fresh inputs, poisoned outputs; then how many elements of this rank's output are not what they must be. */
void bench_call_fill(bench_call *c);
size_t bench_call_wrong(const bench_call *c);

/* ---- bench_measure.c: one rank's part; all ranks call the same ---- */
#define BENCH_SAMPLE_US 1000.0 /* short calls are timed in samples that last as long */
typedef struct bench bench;
tdm_status bench_open(const bench_plan *plan, bench **out);
/* Waits for the others, so that none is left without rank 0's store. Where all ranks come to the same end. */
tdm_status bench_part(bench *b);
void bench_close(bench *b);
int bench_rank(const bench *b);
/* Takes buffers again, of the kind of memory that the plan now says. */
tdm_status bench_renew(bench *b);
tdm_group *bench_world(const bench *b); /* all ranks, by default algorithms */
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

/* ---- bench_html.c ---- */
/* A plot of all lines of a run in one file. False: it cannot be written, and stderr says why. */
bool bench_draw(const char *path, const bench_line *lines, size_t count, bool by_engine);

#endif
