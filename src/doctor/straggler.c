/* straggler.c - one rank that all others wait for, and why it is late: its kernels take longer, its loader, its host, or it began later.
 *
 * A late rank shows in the traces of the OTHERS, as long collectives; its own are short. So ranks are compared by what they spend
 * outside of collectives, and the gain is that of the one rank taking as long as the median of the others. */
#include "doctor/finding.h"

#include "core/memory.h"
#include "job/median.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* A rank this much of an iteration above the median of the others is looked at: kernels of equal ranks differ by 1 %. */
#define EXCESS_SHARE_MIN 0.02

typedef struct cause {
    const char *name, *explains, *text;
    double explains_share;
    tdmi_due due[2];
    int dues;
    const char *advice;
} cause;

static const cause causes[] = {
    {"compute", "", "its kernels take", 0, {TDMI_DUE_COMPUTE}, 1,
     "Give all ranks equal work (lengths of sequences, sizes of batches), and look at what this rank computes on: clocks and temperature "
     "(nvidia-smi -q -d PERFORMANCE), another job on it, ECC errors; swap it if it stays slow"},
    {"data", "data_loading", "its loader takes", 0.9, {TDMI_DUE_DATA}, 1,
     "Look at this host's loader: its storage or mount, cores taken by other processes, num_workers, a shard of larger or compressed files"},
    {"host", "launch_bound", "its host takes", 0.9, {TDMI_DUE_HOST, TDMI_DUE_PAUSE}, 2,
     "Look at this host: CPU frequency and governor, cores bound or shared (OMP_NUM_THREADS, numactl), other processes, work that only this "
     "rank does (logging, checkpoints, evaluation)"},
    {"start", "", "its iteration begins after", 0, {TDMI_DUE_START}, 1,
     "It was late before the trace begins: record more iterations (schedule(active=5)) to see why; look at its loader and at what only this rank does"},
};

typedef struct suspect {
    const cause *why;
    size_t place;
    int64_t own_ns, others_ns;
    tdmi_gain gain;
} suspect;

static int64_t spent(const tdmi_case *c, const tdmi_due *due, int dues, size_t place)
{
    int64_t sum = 0;
    for (int d = 0; d < dues; d++)
        sum += tdmi_model_spent(c->model, place, due[d]);
    return sum;
}

/* The median over all ranks but one of what they spend on one kind. */
static int64_t median_of_others(const tdmi_case *c, const tdmi_due *due, int dues, size_t but, int64_t *scratch)
{
    size_t count = 0;
    for (size_t r = 0; r < c->job->ranks; r++)
        if (r != but && c->job->rank[r].iterations > 0)
            scratch[count++] = spent(c, due, dues, r);
    return tdmi_median(scratch, count, 0);
}

static void examine(tdmi_case *c, const cause *why, int64_t *scratch, suspect *worst)
{
    suspect s = {.why = why};
    tdmi_scaling as_others = tdmi_scaling_none();
    for (size_t r = 0; r < c->job->ranks; r++) {
        const int64_t own_ns = spent(c, why->due, why->dues, r);
        if (own_ns > s.own_ns) {
            s.place = r;
            s.own_ns = own_ns;
        }
    }
    s.others_ns = median_of_others(c, why->due, why->dues, s.place, scratch);
    if ((double)(s.own_ns - s.others_ns) < EXCESS_SHARE_MIN * (double)c->model->now_ns)
        return;
    as_others.rank = (int)s.place;
    for (int d = 0; d < why->dues; d++) {
        const int64_t own_ns = tdmi_model_spent(c->model, s.place, why->due[d]);
        const int64_t others_ns = median_of_others(c, &why->due[d], 1, s.place, scratch);
        as_others.factor[why->due[d]] = own_ns > others_ns ? (double)others_ns / (double)own_ns : 1;
    }
    tdmi_model_what_if(c->model, &(tdmi_variation){.change = tdmi_scale, .arg = &as_others}, &s.gain);
    if (worst->why == NULL || s.gain.pct > worst->gain.pct)
        *worst = s;
}

/* Where in the iteration the rank loses most, of kernels by what launched them. */
static const char *phase_of(const tdmi_case *c, const suspect *s, int64_t *scratch)
{
    static const struct {
        const char *name;
        size_t field;
    } phases[] = {{"forward", offsetof(tdmi_split, forward_gpu_ns)},
                  {"backward", offsetof(tdmi_split, backward_gpu_ns)},
                  {"optimizer", offsetof(tdmi_split, optimizer_gpu_ns)}};
    const char *most = NULL;
    int64_t most_ns = 0;
    if (strcmp(s->why->name, "data") == 0)
        return "loading";
    if (strcmp(s->why->name, "compute") != 0)
        return NULL;
    for (size_t p = 0; p < sizeof phases / sizeof *phases; p++) {
        int64_t own_ns = 0;
        size_t count = 0;
        for (size_t r = 0; r < c->job->ranks; r++) {
            const int64_t ns = tdmi_split_ns(&c->breakdown->mean[r], phases[p].field);
            if (r == s->place)
                own_ns = ns;
            else
                scratch[count++] = ns;
        }
        const int64_t excess_ns = own_ns - tdmi_median(scratch, count, 0);
        if (excess_ns > most_ns) {
            most_ns = excess_ns;
            most = phases[p].name;
        }
    }
    return most;
}

void tdmi_find_straggler(tdmi_case *c, tdmi_findings *out)
{
    suspect worst = {0};
    int64_t *scratch = c->job->ranks > 1 && c->job->meetings > 0 ? tdmi_malloc(c->job->ranks * sizeof *scratch, "doctor") : NULL;
    if (scratch == NULL)
        return;
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++)
        examine(c, &causes[i], scratch, &worst);
    if (worst.why != NULL && worst.gain.pct >= TDMI_GAIN_PCT_MIN) {
        const int number = c->job->rank[worst.place].number;
        const double own_ms = (double)worst.own_ns / 1e6, others_ms = (double)worst.others_ns / 1e6;
        const char *phase = phase_of(c, &worst, scratch);
        tdmi_finding f = {.id = "straggler", .rank = number, .gain = worst.gain, .explains = worst.why->explains, .explains_share = worst.why->explains_share};
        f.evidence = json_pack("{s:i, s:s, s:s?, s:f, s:f, s:f}", "rank", number, "cause", worst.why->name, "phase", phase, "own_ms", own_ms,
                               "others_ms", others_ms, "excess_pct", others_ms > 0 ? 100 * (own_ms / others_ms - 1) : 0);
        snprintf(f.text, sizeof f.text, "rank %d holds the others back: %s %.1f ms of an iteration, %.1f ms on the others%s%s", number,
                 !c->job->on_device && strcmp(worst.why->name, "compute") == 0 ? "its operators take" : worst.why->text,
                 own_ms, others_ms, phase != NULL ? ", most of it in " : "", phase != NULL ? phase : "");
        snprintf(f.advice, sizeof f.advice, "%s", worst.why->advice);
        tdmi_findings_add(out, &f);
    }
    tdmi_free(scratch);
}
