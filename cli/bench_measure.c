/* bench_measure.c - an operation on this rank: group, buffers, timing, checking.
 *
 * Two groups: `world` for what the ranks tell each other, always by the default algorithms; `group`, made from it, for what is
 * measured, by the algorithm under test. A group keeps its choices, so another algorithm gets another group. */
#include "bench.h"

#include "measure/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SAMPLE_NS (BENCH_SAMPLE_US * 1e3)
#define CALLS_MOST 100000 /* of one sample */

struct bench {
    const bench_plan *plan;
    tdm_group *world;
    bench_call call; /* the call under test, and the group for it */
    int rank, ranks;
    bool blocks_of_malloc;
    unsigned char *block[2]; /* each as large as the larger buffer of the largest call */
    double *samples;
    int64_t *numbers; /* for world */
};

/* ---- the group and its buffers ---- */

static tdm_status no_memory(int rank, size_t nbytes)
{
    fprintf(stderr, "tandem bench: rank %d has no memory for buffers of %zu bytes; lower -e\n", rank, nbytes);
    return TDM_ERR_NO_MEMORY;
}

static void give_blocks(bench *b)
{
    for (int i = 0; i < 2; i++) {
        if (b->blocks_of_malloc)
            free(b->block[i]);
        else if (b->world != NULL)
            tdm_free(b->world, b->block[i]);
        b->block[i] = NULL;
    }
}

static tdm_status take_blocks(bench *b)
{
    const size_t nbytes = bench_bytes(b->plan, b->ranks, bench_count(b->plan, b->ranks, b->plan->max_bytes)) + 64;
    b->blocks_of_malloc = b->plan->malloc_memory;
    for (int i = 0; i < 2 && b->plan->op != BENCH_BARRIER; i++) {
        void *block = NULL;
        if (!b->plan->malloc_memory) {
            tdm_status st = tdm_alloc(b->world, nbytes, &block);
            if (st != TDM_OK)
                return st;
        } else if (posix_memalign(&block, 4096, nbytes) != 0) {
            return no_memory(b->rank, nbytes);
        }
        memset(block, 0, nbytes);
        b->block[i] = block;
    }
    return TDM_OK;
}

tdm_status bench_renew(bench *b)
{
    give_blocks(b);
    return take_blocks(b);
}

static tdm_status allocate(bench *b)
{
    tdm_status st = take_blocks(b);
    if (st != TDM_OK)
        return st;
    b->samples = calloc((size_t)b->plan->iterations + 1, sizeof *b->samples);
    b->numbers = calloc((size_t)b->plan->iterations + 2 * (size_t)b->ranks + 1, sizeof *b->numbers);
    return b->samples != NULL && b->numbers != NULL ? TDM_OK : no_memory(b->rank, (size_t)b->plan->iterations * sizeof *b->samples);
}

tdm_status bench_open(const bench_plan *plan, bench **out)
{
    bench *b = calloc(1, sizeof *b);
    if (b == NULL)
        return TDM_ERR_NO_MEMORY;
    b->plan = plan;
    tdm_status st = tdm_group_create(NULL, &b->world);
    if (st == TDM_OK) {
        b->rank = tdm_group_rank(b->world);
        b->ranks = tdm_group_size(b->world);
        b->call = (bench_call){.plan = plan, .rank = b->rank, .ranks = b->ranks};
        st = allocate(b);
    }
    if (st != TDM_OK) {
        bench_close(b);
        return st;
    }
    *out = b;
    return TDM_OK;
}

void bench_close(bench *b)
{
    if (b == NULL)
        return;
    tdm_group_destroy(b->call.group);
    give_blocks(b);
    tdm_group_destroy(b->world);
    free(b->samples);
    free(b->numbers);
    free(b);
}

tdm_status bench_part(bench *b)
{
    setenv("TANDEM_ALGO", "auto", 1);
    return tdm_barrier(b->world, NULL);
}

int bench_rank(const bench *b)
{
    return b->rank;
}

tdm_group *bench_world(const bench *b)
{
    return b->world;
}

int bench_ranks(const bench *b)
{
    return b->ranks;
}

const char *bench_transport(const bench *b)
{
    return tdm_group_transport(b->world);
}

tdm_status bench_choose(bench *b, const char *algorithm)
{
    tdm_group_destroy(b->call.group);
    b->call.group = NULL;
    setenv("TANDEM_ALGO", "auto", 1); /* making a group talks too */
    int *all = calloc((size_t)b->ranks, sizeof *all);
    if (all == NULL)
        return TDM_ERR_NO_MEMORY;
    for (int r = 0; r < b->ranks; r++)
        all[r] = r;
    tdm_status st = tdm_group_create_sub(b->world, all, b->ranks, &b->call.group);
    free(all);
    setenv("TANDEM_ALGO", algorithm, 1);
    return st;
}

/* Sums numbers[0..count-1] over the ranks, by the default algorithm whatever is under test. */
static tdm_status sum_numbers(bench *b, size_t count)
{
    char *algorithm = strdup(getenv("TANDEM_ALGO"));
    if (algorithm == NULL)
        return TDM_ERR_NO_MEMORY;
    setenv("TANDEM_ALGO", "auto", 1);
    tdm_status st = tdm_allreduce(b->world, b->numbers, b->numbers, count, TDM_I64, TDM_SUM, NULL);
    setenv("TANDEM_ALGO", algorithm, 1);
    free(algorithm);
    return st;
}

/* ---- checking ---- */

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A barrier has no result but time: nobody may leave before the last one has come. Ranks of one host share a clock. */
static tdm_status check_barrier(bench *b, uint64_t *wrong)
{
    const size_t n = (size_t)b->ranks;
    memset(b->numbers, 0, 2 * n * sizeof *b->numbers);
    b->numbers[b->rank] = now_ns();
    tdm_status st = bench_call_run(&b->call);
    b->numbers[n + (size_t)b->rank] = now_ns();
    if (st == TDM_OK)
        st = sum_numbers(b, 2 * n);
    *wrong = 0;
    for (size_t left = 0; left < n && tdm_group_local_size(b->world) == b->ranks; left++)
        for (size_t came = 0; came < n; came++)
            if (b->numbers[n + left] < b->numbers[came]) {
                ++*wrong;
                break;
            }
    return st;
}

/* Fresh data, one call, every element of every rank compared. */
static tdm_status check(bench *b, uint64_t *wrong)
{
    if (b->plan->op == BENCH_BARRIER)
        return check_barrier(b, wrong);
    bench_call_fill(&b->call);
    tdm_status st = bench_call_run(&b->call);
    if (st != TDM_OK)
        return st;
    b->numbers[0] = (int64_t)bench_call_wrong(&b->call);
    st = sum_numbers(b, 1);
    *wrong = (uint64_t)b->numbers[0];
    return st;
}

/* ---- measuring ---- */

/* Starts the call, and keeps the handle until it is over, for it knows what was chosen. */
static tdm_status run_to_end(bench *b, tdm_work **work)
{
    tdm_status st = bench_call_start(&b->call, work);
    for (bool done = false; st == TDM_OK && !done;)
        st = tdm_work_test(*work, &done);
    return st;
}

static void place(bench *b, size_t count, bool in_place)
{
    b->call.count = count;
    bench_call_place(&b->call, b->block, in_place);
}

/* Makes the call once and names the algorithm that it took. */
static tdm_status run_named(bench *b, const char **name)
{
    tdm_work *work;
    *name = bench_ops[b->plan->op].algorithm;
    if (b->plan->op == BENCH_SENDRECV)
        return bench_call_run(&b->call);
    tdm_status st = run_to_end(b, &work);
    if (st != TDM_OK)
        return st;
    *name = tdm_work_algorithm(work);
    return tdm_work_wait(work);
}

tdm_status bench_algorithm(bench *b, const char **name)
{
    place(b, bench_count(b->plan, b->ranks, b->plan->min_bytes), true);
    return run_named(b, name);
}

/* All ranks begin at once, as MPI's do in bench/peers. */
static tdm_status gather(bench *b)
{
    b->numbers[0] = 0;
    return sum_numbers(b, 1);
}

/* Calls of one sample, equal on all ranks: as many as rank 0 finds to last long enough. */
static tdm_status calls_of_a_sample(bench *b, int *calls)
{
    tdm_status st = TDM_OK;
    double ns = 0;
    for (*calls = 1; st == TDM_OK; *calls *= ns < SAMPLE_NS / 4 ? 4 : 2) {
        st = gather(b);
        if (st == TDM_OK)
            st = tdmi_measure(bench_call_run, &b->call, 0, 1, *calls, &ns);
        b->numbers[0] = b->rank == 0 ? (int64_t)(ns * *calls) : 0;
        if (st == TDM_OK)
            st = sum_numbers(b, 1);
        ns = (double)b->numbers[0];
        if (ns >= SAMPLE_NS || *calls >= CALLS_MOST)
            break;
    }
    return st;
}

static tdm_status measure(bench *b, bench_line *line)
{
    const size_t iterations = (size_t)b->plan->iterations;
    int calls;
    tdm_status st = calls_of_a_sample(b, &calls);
    for (size_t i = 0; i < iterations && st == TDM_OK; i++) {
        st = gather(b);
        if (st == TDM_OK)
            st = tdmi_measure(bench_call_run, &b->call, i == 0 ? b->plan->warm_ups : 0, 1, calls, &b->samples[i]);
    }
    if (st != TDM_OK)
        return st;
    for (size_t i = 0; i < iterations; i++)
        b->numbers[i] = (int64_t)(b->samples[i] * 16); /* sixteenths of a nanosecond */
    st = sum_numbers(b, iterations);
    for (size_t i = 0; i < iterations; i++)
        b->samples[i] = (double)b->numbers[i] / 16 / b->ranks;
    tdmi_summary s = tdmi_summarise(b->samples, iterations);
    line->time_us = s.median * 1e-3;
    line->time_us_p10 = s.p10 * 1e-3;
    line->time_us_p90 = s.p90 * 1e-3;
    return st;
}

tdm_status bench_measure(bench *b, size_t count, bool in_place, bench_line *out)
{
    bench_line line = {.plan = b->plan, .ranks = b->ranks, .engine = tdm_group_engine(b->world), .transport = bench_transport(b), .count = count,
                       .bytes = bench_bytes(b->plan, b->ranks, count), .in_place = in_place};
    uint64_t before = 0, after = 0;
    place(b, count, in_place);
    tdm_status st = run_named(b, &line.algorithm);
    if (st == TDM_OK)
        st = check(b, &before);
    if (st == TDM_OK)
        st = measure(b, &line);
    if (st == TDM_OK)
        st = check(b, &after);
    line.wrong = before > after ? before : after;
    bench_bandwidths(&line);
    if (st == TDM_OK)
        *out = line;
    return st;
}

tdm_status bench_explain(bench *b, size_t count, char **text)
{
    tdm_work *work;
    place(b, count, false);
    tdm_status st = run_to_end(b, &work);
    if (st != TDM_OK)
        return st;
    const size_t length = tdm_work_explain(work, NULL, 0);
    *text = malloc(length + 1);
    if (*text != NULL)
        tdm_work_explain(work, *text, length + 1);
    st = tdm_work_wait(work);
    return *text != NULL ? st : TDM_ERR_NO_MEMORY;
}
