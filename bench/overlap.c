/* overlap.c - what an allreduce behind a computation costs the rank that computes. Rank 1 waits on its own core; rank 0 starts the
 * call, computes, and waits for the call.
 *
 *     rank 0   | start |------ computation ------| wait |      cost = this - the computation undisturbed
 *     rank 1   | wait .................................. |
 *
 * The computation is done in SLICES equal parts. The call disturbs the first of them; the median of all is what a part takes
 * undisturbed. What the whole takes more than SLICES times that is its extra, and the cost is the extra with the call minus that of the
 * same computation without one: a virtual processor's speed changes by more than the call costs from one tenth of a second to the next,
 * and interrupts and other programs take their part of both.
 *
 * Target: the cost is no more than the processor time that rank 0's share of the copying takes (`copying`): all else is hidden.
 * Usage: TANDEM_TRANSPORT=tcp tandem run -n 2 -- overlap [BYTES [MS]]     prints one line of medians, in milliseconds. */
#include <tandem/tandem.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 15
#define SLICES 200

static double now_ms(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static volatile double sink;

/* Arithmetic that needs no memory: what it loses, it loses to the call. */
static void compute(long turns)
{
    double x = sink;
    for (long i = 0; i < turns; i++)
        x = x * 0.999999 + 1e-6;
    sink = x;
}

static long turns_of(double ms)
{
    const long probe = 10000000;
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        const double begin = now_ms(CLOCK_MONOTONIC);
        compute(probe);
        const double took = now_ms(CLOCK_MONOTONIC) - begin;
        best = took < best ? took : best;
    }
    return (long)(ms / best * (double)probe);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[count / 2];
}

/* Gives what it would have taken undisturbed. */
static double compute_in_slices(long turns)
{
    double slice[SLICES];
    for (int i = 0; i < SLICES; i++) {
        const double begin = now_ms(CLOCK_MONOTONIC);
        compute(turns / SLICES);
        slice[i] = now_ms(CLOCK_MONOTONIC) - begin;
    }
    return median(slice, SLICES) * SLICES;
}

static tdm_status measure(tdm_group *world, size_t nbytes, double ms)
{
    const size_t count = nbytes / sizeof(float);
    const long turns = turns_of(ms);
    double alone[ROUNDS], call[ROUNDS], both[ROUNDS], extra[ROUNDS], jitter[ROUNDS], copying[ROUNDS], rest[ROUNDS];
    float *data = calloc(count, sizeof *data);
    tdm_status st = data != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
    for (int i = -1; i < ROUNDS && st == TDM_OK; i++) { /* round -1 warms up */
        const int at = i < 0 ? 0 : i;
        double begin = now_ms(CLOCK_MONOTONIC);
        const double undisturbed = compute_in_slices(tdm_group_rank(world) == 0 ? turns : 0);
        jitter[at] = now_ms(CLOCK_MONOTONIC) - begin - undisturbed;
        st = tdm_barrier(world, NULL);
        begin = now_ms(CLOCK_MONOTONIC);
        if (st == TDM_OK)
            st = tdm_allreduce(world, data, data, count, TDM_F32, TDM_SUM, NULL);
        call[at] = now_ms(CLOCK_MONOTONIC) - begin;
        if (st == TDM_OK)
            st = tdm_barrier(world, NULL);
        tdm_work *work = NULL;
        begin = now_ms(CLOCK_MONOTONIC);
        const double process = now_ms(CLOCK_PROCESS_CPUTIME_ID);
        if (st == TDM_OK)
            st = tdm_allreduce(world, data, data, count, TDM_F32, TDM_SUM, &work);
        if (st != TDM_OK)
            break;
        const double thread = now_ms(CLOCK_THREAD_CPUTIME_ID);
        alone[at] = compute_in_slices(tdm_group_rank(world) == 0 ? turns : 0);
        const double computing = now_ms(CLOCK_THREAD_CPUTIME_ID) - thread, waits = now_ms(CLOCK_MONOTONIC);
        st = tdm_work_wait(work);
        const double end = now_ms(CLOCK_MONOTONIC);
        both[at] = end - begin;
        extra[at] = both[at] - alone[at];
        rest[at] = end - waits;
        copying[at] = now_ms(CLOCK_PROCESS_CPUTIME_ID) - process - computing;
    }
    free(data);
    if (st == TDM_OK && tdm_group_rank(world) == 0) {
        printf("bytes %zu  computation %.2f  allreduce %.2f  both %.2f  cost %.2f  copying %.2f  left for wait %.2f\n", nbytes,
               median(alone, ROUNDS), median(call, ROUNDS), median(both, ROUNDS), median(extra, ROUNDS) - median(jitter, ROUNDS), median(copying, ROUNDS),
               median(rest, ROUNDS));
    }
    return st;
}

int main(int argc, char **argv)
{
    const size_t nbytes = argc > 1 ? (size_t)atol(argv[1]) : (size_t)25 << 20;
    const double ms = argc > 2 ? atof(argv[2]) : 100;
    tdm_group *world = NULL;
    tdm_status st = tdm_group_create(NULL, &world);
    if (st == TDM_OK)
        st = measure(world, nbytes, ms);
    if (st != TDM_OK)
        fprintf(stderr, "overlap: %s\n", tdm_error_text());
    tdm_group_destroy(world);
    return st != TDM_OK;
}
