/* cmd_tune.c - `tandem tune --collectives`: measures which algorithm is the fastest at each size on this machine, and keeps it. */
#include "bench.h"
#include "command.h"
#include "start_ranks.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZES_MAX 64
#define ALGORITHMS_MAX 64
#define MARGIN 0.95    /* another algorithm must be that much faster than the one of the size before */
#define HOPELESS 3.0   /* so much slower than the best at two sizes in a row: larger ones are not tried */
#define LINES_MAX (SIZES_MAX * BENCH_OP_COUNT)

typedef struct tune_values {
    int ranks; /* 0: not given */
    bool collectives, show, json, quiet;
    size_t min_bytes, max_bytes;
    double factor, seconds, timeout_s;
    const char *transport, *sum_order;
} tune_values;

#define FIELD(name) offsetof(tune_values, name)
static const cli_option options[] = {
    /* name, letter, argument, type, field, default, min, max, choices, variables, help */
    {"collectives", 0, NULL, CLI_FLAG, FIELD(collectives), NULL, 0, 0, NULL, NULL,
     "measures every operation but barrier and messages, and writes the table that groups choose by"},
    {"show", 0, NULL, CLI_FLAG, FIELD(show), NULL, 0, 0, NULL, NULL, "prints the file of the table in use and what is in it"},
    {NULL, 'n', "N", CLI_INT, FIELD(ranks), NULL, 1, 4096, NULL, NULL,
     "ranks to start; one a usable core if not given. In a job it must be the job's number of ranks"},
    {NULL, 'b', "MIN", CLI_SIZE, FIELD(min_bytes), "8", 0, 1e15, NULL, NULL, "smallest size: bytes of a rank's larger buffer"},
    {NULL, 'e', "MAX", CLI_SIZE, FIELD(max_bytes), "16M", 0, 1e15, NULL, NULL, "largest size"},
    {NULL, 'f', "FACTOR", CLI_NUMBER, FIELD(factor), "8", 1.01, 1e6, NULL, NULL, "from one size to the next"},
    {"seconds", 0, "SEC", CLI_NUMBER, FIELD(seconds), "45", 0.1, 1e6, NULL, NULL,
     "time to measure, about; larger sizes that do not fit in are left out"},
    {"transport", 0, "NAME", CLI_CHOICE, FIELD(transport), NULL, 0, 0, "auto|shm|tcp|ucx|shm+ucx", "TANDEM_TRANSPORT",
     "shm inside a node and tcp between nodes, or another"},
    {"sum-order", 0, "ORDER", CLI_CHOICE, FIELD(sum_order), NULL, 0, 0, "canonical|fast", "TANDEM_SUM_ORDER",
     "fast also measures algorithms that reorder sums; they are chosen only where it is set too"},
    {"timeout", 0, "SEC", CLI_NUMBER, FIELD(timeout_s), NULL, 0.001, 1e9, NULL, "TANDEM_TIMEOUT,TANDEM_RDZV_TIMEOUT",
     "time that ranks wait for each other, at the start (60 if not given) and in a call (300)"},
    {"json", 0, NULL, CLI_FLAG, FIELD(json), NULL, 0, 0, NULL, NULL, "one object a line for each choice"},
    {"quiet", 'q', NULL, CLI_FLAG, FIELD(quiet), NULL, 0, 0, NULL, NULL, "no progress"},
};

static int usage(const char *text)
{
    fprintf(stderr, "tandem tune: %s\n", text);
    return CLI_USAGE;
}

static int show(void)
{
    char path[4096], line[256];
    tdm_status st = tdm_tuning_file(path, sizeof path);
    if (st != TDM_OK)
        return cli_fail("tune", st);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        fprintf(stderr, "tandem tune: there is no table yet: %s: %s\n", path, strerror(errno));
        return errno == ENOENT ? CLI_DONE : CLI_BAD_FILE;
    }
    printf("# %s\n", path);
    while (fgets(line, sizeof line, file) != NULL)
        fputs(line, stdout);
    fclose(file);
    return CLI_DONE;
}

/* ---- on a rank ----
 * All ranks decide alike, for a time that bench_measure gives is the mean over all of them. */

typedef struct search {
    const tune_values *values;
    bench_plan plan;
    bench *b;
    size_t bytes[SIZES_MAX];
    int sizes;
    double time_us[SIZES_MAX][ALGORITHMS_MAX]; /* of the operation under way; 0: not measured */
    double spent_us;
    tdm_tuning_line lines[LINES_MAX];
    double line_us[LINES_MAX]; /* of the winner at its smallest size */
    size_t line_count;
} search;

static void say(const search *s, const char *memory, int step, int steps)
{
    if (bench_rank(s->b) == 0 && !s->values->quiet && isatty(2))
        fprintf(stderr, "\r%-16s%-8s%3d of %d algorithms, %.0f s   ", bench_ops[s->plan.op].name, memory, step, steps, s->spent_us * 1e-6);
}

/* Whether this algorithm was far behind at the two sizes before. */
static bool hopeless(const search *s, int size, int algorithm)
{
    int behind = 0;
    for (int i = size - 1; i >= 0 && i >= size - 2; i--) {
        double best = INFINITY;
        for (int a = 0; a < algorithm; a++)
            if (s->time_us[i][a] > 0 && s->time_us[i][a] < best)
                best = s->time_us[i][a];
        behind += s->time_us[i][algorithm] > HOPELESS * best;
    }
    return behind == 2;
}

/* TDM_ERR_UNSUPPORTED: it cannot do this operation here. */
static tdm_status measure_algorithm(search *s, int algorithm, double until_us)
{
    const char *name = tdm_algorithm_name(algorithm), *taken;
    tdm_status st = bench_choose(s->b, name);
    for (int i = 0; i < s->sizes && st == TDM_OK; i++) {
        bench_line line;
        const size_t count = bench_count(&s->plan, bench_ranks(s->b), s->bytes[i]);
        if (s->spent_us > until_us || hopeless(s, i, algorithm))
            break;
        s->plan.min_bytes = s->bytes[i];
        st = bench_algorithm(s->b, &taken);
        if (st != TDM_OK || strcmp(taken, name) != 0)
            break; /* it has not this operation, or not at this size */
        st = bench_measure(s->b, count, !bench_ops[s->plan.op].out_of_place, &line);
        if (st != TDM_OK)
            break;
        s->time_us[i][algorithm] = line.time_us;
        s->spent_us += fmax(line.time_us, BENCH_SAMPLE_US) * (s->plan.iterations + s->plan.warm_ups + 6) + 2000;
    }
    return st == TDM_ERR_UNSUPPORTED ? TDM_OK : st;
}

/* The fastest at a size; the one of the size before keeps its place unless it is beaten clearly. -1: nothing was measured. */
static int winner(const search *s, int size, int before)
{
    int best = -1;
    for (int a = 0; a < ALGORITHMS_MAX; a++)
        if (s->time_us[size][a] > 0 && (best < 0 || s->time_us[size][a] < s->time_us[size][best]))
            best = a;
    if (best >= 0 && before >= 0 && s->time_us[size][before] > 0 && s->time_us[size][best] > MARGIN * s->time_us[size][before])
        return before;
    return best;
}

/* Changes of the winner lie half-way, in ratio, between two sizes. */
static void add_lines(search *s)
{
    int before = -1;
    for (int i = 0; i < s->sizes; i++) {
        const int best = winner(s, i, before);
        if (best < 0)
            break;
        if (best == before)
            continue;
        const size_t from = before < 0 ? 0 : (size_t)sqrt((double)s->bytes[i - 1] * (double)s->bytes[i]);
        if (before >= 0)
            s->lines[s->line_count - 1].max = from;
        s->line_us[s->line_count] = s->time_us[i][best];
        s->lines[s->line_count++] = (tdm_tuning_line){bench_ops[s->plan.op].name, tdm_algorithm_name(best), from, SIZE_MAX};
        before = best;
    }
}

static void print(const search *s, const char *memory)
{
    for (size_t i = 0; i < s->line_count; i++) {
        const tdm_tuning_line *l = &s->lines[i];
        char max[24] = "-";
        if (l->max != SIZE_MAX)
            snprintf(max, sizeof max, "%zu", l->max);
        if (s->values->json)
            printf("{\"op\":\"%s\",\"ranks\":%d,\"transport\":\"%s\",\"memory\":\"%s\",\"min_bytes\":%zu,\"max_bytes\":%s,\"algo\":\"%s\","
                   "\"time_us\":%.3f}\n", l->op, bench_ranks(s->b), bench_transport(s->b), memory, l->min, l->max == SIZE_MAX ? "null" : max,
                   l->algorithm, s->line_us[i]);
        else
            printf("%-16s%-8s%12zu%12s  %s\n", l->op, memory, l->min, max, l->algorithm);
    }
    fflush(stdout);
}

/* All operations with one kind of memory. */
static tdm_status tune_memory(search *s, const char *memory, double until_us)
{
    static const bench_op ops[] = {BENCH_ALLREDUCE, BENCH_REDUCE_SCATTER, BENCH_ALL_GATHER, BENCH_BROADCAST,
                                   BENCH_REDUCE,    BENCH_GATHER,         BENCH_SCATTER,    BENCH_ALLTOALL};
    const int op_count = (int)(sizeof ops / sizeof *ops);
    const double begun_us = s->spent_us;
    int algorithms = 0;
    while (tdm_algorithm_name(algorithms) != NULL && algorithms < ALGORITHMS_MAX)
        algorithms++;
    s->line_count = 0;
    for (int o = 0; o < op_count; o++) {
        const double share_us = begun_us + (until_us - begun_us) * (o + 1) / op_count;
        s->plan.op = ops[o];
        memset(s->time_us, 0, sizeof s->time_us);
        for (int a = 0; a < algorithms; a++) {
            say(s, memory, a + 1, algorithms);
            tdm_status st = measure_algorithm(s, a, share_us);
            if (st != TDM_OK)
                return st;
        }
        add_lines(s);
    }
    if (bench_rank(s->b) == 0 && !s->values->quiet && isatty(2))
        fprintf(stderr, "\r%60s\r", "");
    if (bench_rank(s->b) != 0)
        return TDM_OK;
    print(s, memory);
    return tdm_tuning_save(bench_world(s->b), memory, s->lines, s->line_count);
}

static tdm_status tune(search *s)
{
    const tune_values *v = s->values;
    for (double nbytes = (double)v->min_bytes; nbytes <= (double)v->max_bytes && s->sizes < SIZES_MAX;
         nbytes = floor(fmax(nbytes * v->factor, nbytes + 1)))
        s->bytes[s->sizes++] = (size_t)nbytes;
    s->plan = (bench_plan){.dtype = TDM_F32, .redop = TDM_SUM, .min_bytes = v->min_bytes, .max_bytes = v->max_bytes, .factor = v->factor,
                           .warm_ups = 1, .iterations = 5};
    tdm_status st = bench_open(&s->plan, &s->b);
    if (st != TDM_OK)
        return st;
    const bool is_local = tdm_group_local_size(bench_world(s->b)) == bench_ranks(s->b);
    if (v->ranks > 0 && v->ranks != bench_ranks(s->b)) {
        if (bench_rank(s->b) == 0)
            fprintf(stderr, "tandem tune: -n %d, but this job has %d ranks; leave -n out\n", v->ranks, bench_ranks(s->b));
        st = TDM_ERR_INVALID;
    }
    if (st == TDM_OK && is_local) /* between nodes memory makes no difference */
        st = tune_memory(s, "tandem", v->seconds * 0.5e6);
    s->plan.malloc_memory = true;
    s->plan.min_bytes = v->min_bytes;
    if (st == TDM_OK)
        st = bench_renew(s->b);
    if (st == TDM_OK)
        st = tune_memory(s, "any", v->seconds * 1e6);
    if (st == TDM_OK)
        st = bench_part(s->b);
    bench_close(s->b);
    return st;
}

static int run_as_rank(const tune_values *v)
{
    search *s = calloc(1, sizeof *s);
    if (s == NULL)
        return CLI_NO_SPACE;
    s->values = v;
    setenv("TANDEM_ALGO", "auto", 1);
    tdm_status st = tune(s);
    free(s);
    return st == TDM_OK ? CLI_DONE : *tdm_error_text() != '\0' ? cli_fail("tune", st) : cli_exit_code(st);
}

static int run(int argc, char **argv)
{
    tune_values values = {.ranks = 0};
    int exit_code;
    char path[4096];
    char **copy = cli_keep_arguments(argc, argv);
    if (copy == NULL)
        return CLI_NO_SPACE;
    if (cli_parse(&cli_tune, &argc, argv, &values, &exit_code)) {
        if (argc > 1)
            exit_code = usage("it takes no arguments; say --collectives");
        else if (values.show)
            exit_code = show();
        else if (!values.collectives)
            exit_code = usage("what is to be tuned? There is --collectives, and --show");
        else if (values.min_bytes > values.max_bytes)
            exit_code = usage("-b is larger than -e: there is no size to measure");
        else if (tdm_tuning_file(path, sizeof path) != TDM_OK)
            exit_code = cli_fail("tune", TDM_ERR_INVALID);
        else
            exit_code = cli_is_in_a_job() ? run_as_rank(&values) : cli_start_ranks("tune", values.ranks, copy);
    }
    free(copy);
    return exit_code;
}

const cli_command cli_tune = {
    .name = "tune",
    .arguments = "",
    .summary = "measures which algorithm of a collective is the fastest at each size, and keeps the result",
    .details = "Starts its own ranks, or joins those of `tandem run`, torchrun, mpirun or srun. The table holds for groups of as many ranks\n"
               "on as many nodes over the same transport; groups of other shapes keep what they had. All ranks of a group follow the\n"
               "table of the host of its rank 0. Results are checked as in `tandem bench`.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
