/* cmd_bench.c - `tandem bench`: measures one operation, on ranks it starts itself or on those of the job it is part of. */
#include "bench_compare.h"
#include "command.h"
#include "start_ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench_values {
    int ranks; /* 0: not given */
    bench_plan plan;
    const char *dtype, *redop, *memory;
    const char *engine, *transport, *algorithm, *sum_order; /* go to their variables */
    const char *compare, *html;
    double timeout_s;
    bool explain, json, csv, quiet;
} bench_values;

#define DTYPES "float32 float64 bfloat16 float16 int32 int64 int8 uint8 uint32 uint64 bool complex64"
#define OPS                                                                                                            \
    "allreduce reduce_scatter all_gather broadcast reduce gather scatter alltoall sendrecv barrier parameter_server data_parallel"
#define FIELD(name) offsetof(bench_values, name)
static const cli_option options[] = {
    /* name, letter, argument, type, field, default, min, max, choices, variables, help */
    {NULL, 'n', "N", CLI_INT, FIELD(ranks), NULL, 1, 4096, NULL, NULL,
     "ranks to start; one a usable core if not given. In a job it must be the job's number of ranks"},
    {NULL, 'b', "MIN", CLI_SIZE, FIELD(plan.min_bytes), "8", 0, 1e15, NULL, NULL, "smallest size: bytes of a rank's larger buffer"},
    {NULL, 'e', "MAX", CLI_SIZE, FIELD(plan.max_bytes), "64M", 0, 1e15, NULL, NULL, "largest size"},
    {NULL, 'f', "FACTOR", CLI_NUMBER, FIELD(plan.factor), "4", 1.01, 1e6, NULL, NULL, "from one size to the next"},
    {NULL, 'd', "DTYPE", CLI_TEXT, FIELD(dtype), "float32", 0, 0, NULL, NULL,
     "element type: " DTYPES},
    {NULL, 'o', "REDOP", CLI_CHOICE, FIELD(redop), "sum", 0, 0, "sum|avg|min|max|prod|band|bor|bxor", NULL,
     "operation of allreduce, reduce_scatter, reduce and the baselines"},
    {"root", 'r', "RANK", CLI_INT, FIELD(plan.root), "0", 0, 4095, NULL, NULL, "root of broadcast, reduce, gather and scatter"},
    {NULL, 'w', "WARM-UPS", CLI_INT, FIELD(plan.warm_ups), "5", 0, 1e6, NULL, NULL, "calls before the first sample"},
    {NULL, 'i', "ITERATIONS", CLI_INT, FIELD(plan.iterations), "20", 1, 1e6, NULL, NULL,
     "samples; a short call is repeated within a sample"},
    {"engine", 0, "NAME", CLI_CHOICE, FIELD(engine), NULL, 0, 0, "native|mpi|nccl", "TANDEM_ENGINE",
     "who does the collectives: Tandem's step lists, or the MPI whose mpirun or srun starts this command (nccl: device memory only)"},
    {"transport", 0, "NAME", CLI_CHOICE, FIELD(transport), NULL, 0, 0, "auto|shm|tcp|ucx|shm+ucx", "TANDEM_TRANSPORT",
     "shm inside a node and tcp between nodes, or one for all"},
    {"algo", 0, "NAME", CLI_TEXT, FIELD(algorithm), NULL, 0, 0, NULL, "TANDEM_ALGO",
     "algorithm, or a list OP[:MIN-MAX]=NAME,...; all: every one that can do it, one after the other"},
    {"sum-order", 0, "ORDER", CLI_CHOICE, FIELD(sum_order), NULL, 0, 0, "canonical|fast", "TANDEM_SUM_ORDER",
     "fast allows algorithms that reorder sums; with --algo all it is the default"},
    {"memory", 0, "KIND", CLI_CHOICE, FIELD(memory), "tandem", 0, 0, "tandem|malloc", NULL, "buffers from tdm_alloc or from malloc"},
    {"timeout", 0, "SEC", CLI_NUMBER, FIELD(timeout_s), NULL, 0.001, 1e9, NULL, "TANDEM_TIMEOUT,TANDEM_RDZV_TIMEOUT",
     "time that ranks wait for each other, at the start (60 if not given) and in a call (300)"},
    {"explain", 0, NULL, CLI_FLAG, FIELD(explain), NULL, 0, 0, NULL, NULL,
     "shows the steps that rank 0 takes for each size, instead of measuring"},
    {"json", 0, NULL, CLI_FLAG, FIELD(json), NULL, 0, 0, NULL, NULL, "one object a line for each size and placement"},
    {"csv", 0, NULL, CLI_FLAG, FIELD(csv), NULL, 0, 0, NULL, NULL, "the same fields, comma separated"},
    {"compare", 0, "PEERS", CLI_TEXT, FIELD(compare), NULL, 0, 0, NULL, NULL,
     "mpi, gloo or both: runs them beside it, in turns, as far as they are installed, and prints ratios"},
    {"html", 0, "FILE", CLI_TEXT, FIELD(html), NULL, 0, 0, NULL, NULL, "also draws bus bandwidth over size, a line an algorithm, or with --compare a program"},
    {"quiet", 'q', NULL, CLI_FLAG, FIELD(quiet), NULL, 0, 0, NULL, NULL, "no line about threads, CPUs and what was skipped"},
};

static int usage(const char *text, const char *value)
{
    fprintf(stderr, "tandem bench: %s%s\n", text, value);
    return CLI_USAGE;
}

/* The rest of the command line; 0, or the exit code after saying what is wrong. */
static int read_arguments(bench_values *v, int argc, char **argv)
{
    int op = 0;
    if (argc < 2)
        return usage("no operation; there are " OPS, "");
    while (op < BENCH_OP_COUNT && strcmp(argv[1], bench_ops[op].name) != 0)
        op++;
    if (op == BENCH_OP_COUNT)
        return usage("there are " OPS ", not ", argv[1]);
    if (argc > 2)
        return usage("one operation at a time; nobody understands ", argv[2]);
    v->plan.op = (bench_op)op;
    if (!tdm_dtype_parse(v->dtype, &v->plan.dtype))
        return usage("-d: there are " DTYPES ", not ", v->dtype);
    if (!tdm_op_parse(v->redop, &v->plan.redop))
        return usage("-o: no such operation: ", v->redop);
    if (v->plan.min_bytes > v->plan.max_bytes)
        return usage("-b is larger than -e: there is no size to measure", "");
    if (v->plan.root != 0 && !bench_ops[op].has_root)
        return usage("--root: there is no root in ", argv[1]);
    if (v->algorithm != NULL && bench_ops[op].algorithm != NULL)
        return usage("--algo: there is only one way of ", argv[1]);
    if (v->explain && op == BENCH_SENDRECV)
        return usage("--explain: there are no steps in ", argv[1]);
    if (v->compare != NULL && !bench_knows_peers(v->compare))
        return usage("--compare: there are mpi and gloo, not ", v->compare);
    if (v->compare != NULL && cli_is_in_a_job())
        return usage("--compare starts jobs of its own; start it without a launcher", "");
    if (v->compare != NULL && (v->explain || (v->algorithm != NULL && strcmp(v->algorithm, "all") == 0)))
        return usage("--compare measures one algorithm a size, so neither --explain nor --algo all goes with it", "");
    if (v->explain && v->html != NULL)
        return usage("--explain measures nothing that --html could draw", "");
    if (v->explain + v->json + v->csv > 1)
        return usage("--explain, --json and --csv are different outputs; choose one", "");
    const char *engine = getenv("TANDEM_ENGINE");
    if (engine != NULL && strcmp(engine, "mpi") == 0 && (v->explain || v->algorithm != NULL))
        return usage("--algo and --explain are about Tandem's own algorithms, not those of engine ", engine);
    if (engine != NULL && strcmp(engine, "mpi") == 0 && bench_ops[op].reduces && bench_ops[op].algorithm != NULL)
        return usage("engine mpi sums in its own way; only engine native has ", argv[1]);
    if (engine != NULL && strcmp(engine, "mpi") == 0 && !cli_is_in_a_job())
        return usage("engine mpi needs mpirun or srun; start the command with it: mpirun -n 2 tandem bench ", argv[1]);
    v->plan.malloc_memory = strcmp(v->memory, "malloc") == 0;
    return CLI_DONE;
}

static bench_format format_of(const bench_values *v)
{
    return v->json ? BENCH_JSON : v->csv ? BENCH_CSV : BENCH_TABLE;
}

/* ---- on a rank ---- */

typedef struct progress {
    bench_format format;
    bool shows; /* this is rank 0 */
    uint64_t wrong;
    double sum_of_busbw;
    size_t lines;
    bench_line *all; /* for --html, [lines] */
} progress;

static tdm_status keep(progress *p, const bench_line *line)
{
    bench_line *all = realloc(p->all, (p->lines + 1) * sizeof *all);
    if (all == NULL)
        return TDM_ERR_NO_MEMORY;
    all[p->lines] = *line;
    p->all = all;
    return TDM_OK;
}

static tdm_status run_size(bench *b, const bench_values *v, size_t count, progress *p)
{
    bench_line lines[2];
    size_t have = 0;
    if (v->explain) {
        char *text = NULL;
        tdm_status st = bench_explain(b, count, &text);
        if (st == TDM_OK && p->shows)
            printf("%s", text);
        free(text);
        return st;
    }
    for (int in_place = 0; in_place < 2; in_place++) {
        if (in_place == 1 ? !bench_ops[v->plan.op].in_place : !bench_ops[v->plan.op].out_of_place)
            continue;
        tdm_status st = bench_measure(b, count, in_place == 1, &lines[have]);
        if (st != TDM_OK)
            return st;
        p->wrong += lines[have].wrong;
        p->sum_of_busbw += lines[have].busbw_gbps;
        if (p->shows && v->html != NULL)
            st = keep(p, &lines[have]);
        p->lines++;
        have++;
        if (st != TDM_OK)
            return st;
    }
    if (p->shows)
        bench_print_lines(p->format, lines, have);
    return TDM_OK;
}

static tdm_status run_sizes(bench *b, const bench_values *v, progress *p)
{
    size_t last = SIZE_MAX;
    for (double nbytes = (double)v->plan.min_bytes; nbytes <= (double)v->plan.max_bytes;) {
        const size_t count = bench_count(&v->plan, bench_ranks(b), (size_t)nbytes);
        if (count != last) {
            tdm_status st = run_size(b, v, count, p);
            if (st != TDM_OK)
                return st;
        }
        last = count;
        if (v->plan.op == BENCH_BARRIER)
            break;
        nbytes = floor(fmax(nbytes * v->plan.factor, nbytes + 1));
    }
    return TDM_OK;
}

/* Every algorithm that can do it; one that offers the operation but cannot do it here is named on stderr. */
static tdm_status run_all(bench *b, const bench_values *v, progress *p)
{
    for (int i = 0; tdm_algorithm_name(i) != NULL; i++) {
        const char *name = tdm_algorithm_name(i), *taken;
        tdm_status st = bench_choose(b, name);
        if (st == TDM_OK)
            st = bench_algorithm(b, &taken);
        if (st == TDM_OK && strcmp(taken, name) != 0)
            continue; /* it does not offer the operation */
        if (st == TDM_OK)
            st = run_sizes(b, v, p);
        if (st == TDM_ERR_UNSUPPORTED) {
            if (p->shows && !v->quiet)
                fprintf(stderr, "tandem bench: skipped: %s\n", tdm_error_text());
            continue;
        }
        if (st != TDM_OK)
            return st;
    }
    return TDM_OK;
}

/* bench_measure.c has said itself what Tandem knows nothing of. */
static int fail(tdm_status st)
{
    return *tdm_error_text() != '\0' ? cli_fail("bench", st) : cli_exit_code(st);
}

static bool engine_is_native(void)
{
    const char *engine = getenv("TANDEM_ENGINE");
    return engine == NULL || engine[0] == '\0' || strcmp(engine, "native") == 0;
}

static int run_as_rank(const bench_values *v)
{
    const char *variable = getenv("TANDEM_ALGO");
    char algorithm[1024];
    if (bench_ops[v->plan.op].reduces && bench_ops[v->plan.op].algorithm != NULL)
        variable = bench_ops[v->plan.op].algorithm;
    snprintf(algorithm, sizeof algorithm, "%s", variable != NULL && *variable != '\0' ? variable : "auto");
    const bool all = strcmp(algorithm, "all") == 0;
    setenv("TANDEM_ALGO", "auto", 1); /* for the world group */
    if (all)
        setenv("TANDEM_SUM_ORDER", "fast", 0);
    const char *sum_order = getenv("TANDEM_SUM_ORDER");
    bench *b;
    tdm_status st = bench_open(&v->plan, &b);
    if (st != TDM_OK)
        return fail(st);
    progress p = {.format = format_of(v), .shows = bench_rank(b) == 0};
    int code = CLI_DONE;
    if (v->ranks > 0 && v->ranks != bench_ranks(b)) {
        code = CLI_USAGE;
        if (p.shows)
            fprintf(stderr, "tandem bench: -n %d, but this job has %d ranks; leave -n out\n", v->ranks, bench_ranks(b));
    } else if (v->plan.root >= bench_ranks(b)) {
        code = CLI_USAGE;
        if (p.shows)
            fprintf(stderr, "tandem bench: --root %d, but there are ranks 0 to %d\n", v->plan.root, bench_ranks(b) - 1);
    } else {
        if (p.shows && !v->explain)
            bench_print_head(p.format, &v->plan, bench_ranks(b), bench_transport(b), engine_is_native() ? (sum_order != NULL ? sum_order : "canonical") : "the engine's own");
        st = all ? TDM_OK : bench_choose(b, algorithm);
        if (st == TDM_OK)
            st = all ? run_all(b, v, &p) : run_sizes(b, v, &p);
        code = cli_exit_code(st);
    }
    const bool alike = st == TDM_OK || st == TDM_ERR_INVALID || st == TDM_ERR_UNSUPPORTED; /* on all ranks: said once */
    if (st != TDM_OK && (p.shows || !alike))
        fail(st);
    if (st == TDM_OK && code == CLI_DONE && p.shows && !v->explain)
        bench_print_foot(p.format, p.wrong, p.sum_of_busbw, p.lines);
    if (code == CLI_DONE && p.wrong > 0) {
        code = CLI_FAILED;
        if (p.shows)
            fprintf(stderr, "tandem bench: %llu wrong elements\n", (unsigned long long)p.wrong);
    }
    if (v->html != NULL && p.shows && st == TDM_OK && !bench_draw(v->html, p.all, p.lines, false))
        code = CLI_FAILED;
    free(p.all);
    if (alike && (st = bench_part(b)) != TDM_OK)
        code = fail(st);
    bench_close(b);
    return code;
}

static int compare(const bench_values *v)
{
    const bench_comparison c = {.plan = &v->plan, .ranks = v->ranks > 0 ? v->ranks : tdm_launch_default_ranks(), .peers = v->compare,
                                .html = v->html, .memory = v->memory, .format = format_of(v)};
    return bench_compare(&c);
}

static int run(int argc, char **argv)
{
    bench_values values = {.ranks = 0};
    int exit_code;
    char **copy = cli_keep_arguments(argc, argv);
    if (copy == NULL)
        return CLI_NO_SPACE;
    if (cli_parse(&cli_bench, &argc, argv, &values, &exit_code)) {
        exit_code = read_arguments(&values, argc, argv);
        if (exit_code == CLI_DONE)
            exit_code = values.compare != NULL ? compare(&values) : cli_is_in_a_job() ? run_as_rank(&values) : cli_start_ranks("bench", values.ranks, copy);
    }
    free(copy);
    return exit_code;
}

const cli_command cli_bench = {
    .name = "bench",
    .arguments = "OP",
    .summary = "measures a collective or messages: bandwidth and time over size",
    .details = "OP: " OPS ".\n"
               "Starts its own ranks, or joins those of `tandem run`, torchrun, mpirun or srun. Each size is measured out of place\n"
               "and in place; every element of every rank is compared with what it must be, before and after timing, and any\n"
               "wrong one makes the exit code 1. algbw is size / time; busbw is what a link must move for it: algbw times\n"
               "2(n-1)/n for allreduce and the baselines, (n-1)/n for reduce_scatter, all_gather, gather, scatter and alltoall,\n"
               "1 for broadcast, reduce and sendrecv; 0 for one rank. sendrecv: each rank sends to the next one.\n"
               "Baselines: parameter_server sends all to rank 0 and pulls the sum from it, data_parallel moves what\n"
               "torch.nn.DataParallel moves: gather to one, sum, broadcast.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
