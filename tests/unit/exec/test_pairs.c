/* test_pairs.c - every technique with every other, on 1, 2 and 4 ranks, over shm, tcp and virtual nodes: those that leave the arithmetic
 * as it is change no bit of the weights; the others learn, within a bound of the plain run; what cannot be combined is refused by name. */
#include "tiny_run.h"

#include "on_ranks.h"
#include "passes/passes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* What a technique sets; two of one kind exclude each other. */
typedef enum { FUSION, ARITHMETIC, CUT, MEMORY, STAGE, PLAN, WIRE, VERDICT, KINDS } kind;

typedef struct technique {
    const char *name;
    kind kind;
    bool exact; /* the same arithmetic: the bits of the run without it */
    tiny_run set;
} technique;

static const technique all[] = {
    {"unfused", FUSION, true, {.unfused = true}},
    {"bf16", ARITHMETIC, false, {.precision = TDM_BF16}},
    {"f16", ARITHMETIC, false, {.precision = TDM_F16}},
    {"accumulate", CUT, false, {.micro_batches = 2}},
    {"remat every block", MEMORY, true, {.remat = 1}},
    {"remat every second", MEMORY, true, {.remat = 2}},
    {"shard 0", STAGE, true, {.shard = -1}}, /* -1 stands for 0, which is not set */
    {"shard 2", STAGE, true, {.shard = 2}},
    {"shard 3", STAGE, true, {.shard = 3, .prefetch = 1}},
    {"large buckets", PLAN, true, {.bucket_mb = 1}},
    {"late parameters", PLAN, true, {.late = true}},
    {"clip that never bites", VERDICT, true, {.clip = 1e9}},
    {"compress bf16", WIRE, false, {.compress = {.codec = TDM_CODEC_BF16}}},
    {"compress powersgd", WIRE, false, {.compress = {.codec = TDM_CODEC_POWERSGD, .rank = 4, .seed = 5}}},
    {"compress onebit", WIRE, false, {.compress = {.codec = TDM_CODEC_ONEBIT, .warmup = 4}}},
    {"compress topk", WIRE, false, {.compress = {.codec = TDM_CODEC_TOPK, .fraction = 0.2}}},
};
enum { ALL = sizeof all / sizeof *all };

static void add(tiny_run *run, const tiny_run *set)
{
    if (set->shard != 0)
        run->shard = set->shard < 0 ? 0 : set->shard;
    run->prefetch = set->prefetch > 0 ? set->prefetch : run->prefetch;
    run->clip = set->clip > 0 ? set->clip : run->clip;
    run->bucket_mb = set->bucket_mb > 0 ? set->bucket_mb : run->bucket_mb;
    run->precision = set->precision != TDM_F32 ? set->precision : run->precision;
    run->unfused = run->unfused || set->unfused;
    run->remat = set->remat != 0 ? set->remat : run->remat;
    run->late = run->late || set->late;
    run->micro_batches = set->micro_batches > 0 ? set->micro_batches : run->micro_batches;
    if (set->compress.codec != TDM_CODEC_NONE)
        run->compress = set->compress;
}

typedef struct where {
    int ranks;
    const char *transport;
    ranks_mode mode;
} where;

/* The passes' word on a combination: NULL, or why not. */
static const char *refusal(const tiny_run *run)
{
    if (run->compress.codec == TDM_CODEC_NONE)
        return NULL;
    if (run->shard >= 2 || (run->precision != TDM_F32 && run->micro_batches == 0)) /* micro-batches add up in float32 */
        return "compression";
    return NULL;
}

static tiny_run run_as(const tiny_run *ask, const where *w)
{
    tiny_run *run = tiny_run_create(ask->shard, ask->clip), copy;
    *run = *ask;
    ranks_run(&(ranks_spec){.n = w->ranks, .transport = w->transport, .mode = w->mode}, tiny_run_body, run);
    copy = *run;
    tiny_run_free(run);
    return copy;
}

static tiny_run plainly(void)
{
    return (tiny_run){.shard = 1, .bucket_mb = 0.02, .dropout = 0.1f, .windows = 8};
}

/* The pipeline alone, for a graph of the same model. */
static void assert_refused(const tiny_run *ask, const char *text, const char *names)
{
    const tdmi_model_config config = {.layers = 2, .width = 32, .heads = 2, .seq = 16, .vocab = 61, .positions = 16};
    tdmi_graph *g = tdmi_model_find("gpt2")->build(&config, 2, TDMI_BUILD_LOSS, true);
    const tdmi_pipeline_options options = {.train = true, .precision = ask->precision, .world_size = 2, .bucket_cap_mb = 0.02,
                                           .micro_batches = ask->micro_batches, .remat = ask->remat, .ready_late = ask->late,
                                           .compress = ask->compress, .clip = ask->clip > 0, .shard = ask->shard, .parts = 2, .prefetch = 1};
    const tdm_status st = tdmi_pipeline_run(g, &options);
    if (st != TDM_ERR_UNSUPPORTED || strstr(tdm_error_text(), text) == NULL)
        fail_msg("%s: expected a refusal with \"%s\", got %s: %s", names, text, tdm_status_name(st), st == TDM_OK ? "" : tdm_error_text());
    tdmi_graph_destroy(g);
}

/* a and b (b may be NULL) on top of a plain run. Losses of six steps; one step of 1-bit Adam or factors of PowerSGD are far from
 * exact, so those only have to learn half as much. */
static void check(const technique *a, const technique *b, const where *w)
{
    char names[128];
    snprintf(names, sizeof names, "%s and %s on %d ranks over %s", a->name, b == NULL ? "nothing" : b->name, w->ranks, w->transport);
    tiny_run with = plainly(), arithmetic = plainly(), plain = plainly();
    const technique *both[] = {a, b};
    bool lossy = false;
    for (int i = 0; i < 2 && both[i] != NULL; i++)
        add(&with, &both[i]->set);
    for (int i = 0; i < 2 && both[i] != NULL; i++) {
        if (!both[i]->exact || (both[i]->set.bucket_mb > 0 && with.compress.codec > TDM_CODEC_BF16)) /* codecs see buckets */
            add(&arithmetic, &both[i]->set);
        lossy = lossy || both[i]->kind == WIRE;
    }
    const char *why = refusal(&with);
    if (why != NULL) {
        assert_refused(&with, why, names);
        return;
    }
    const tiny_run found = run_as(&with, w), expected = run_as(&arithmetic, w);
    if (found.weights != expected.weights || memcmp(found.loss, expected.loss, sizeof found.loss) != 0)
        fail_msg("%s: loss %.17g, without what changes no arithmetic %.17g", names, found.loss[TINY_STEPS - 1], expected.loss[TINY_STEPS - 1]);
    const tiny_run exact = run_as(&plain, w);
    const double gained = exact.loss[0] - exact.loss[TINY_STEPS - 1];
    assert_true(gained > 0);
    if (!(found.loss[0] - found.loss[TINY_STEPS - 1] > 0.5 * gained))
        fail_msg("%s: from %g to %g, where %g can be reached", names, found.loss[0], found.loss[TINY_STEPS - 1], exact.loss[TINY_STEPS - 1]);
    const bool same_masks = with.micro_batches == 0; /* each micro-batch draws its own */
    for (int i = 0; i < TINY_STEPS && !lossy && same_masks; i++)
        if (!(fabs(found.loss[i] - exact.loss[i]) <= 4e-3 * exact.loss[i]))
            fail_msg("%s: step %d has loss %g, plain %g", names, i + 1, found.loss[i], exact.loss[i]);
}

static void each_alone_on_any_ranks_over_any_way(void **state)
{
    (void)state;
    static const where places[] = {{1, "shm", RANKS_THREADS}, {4, "shm", RANKS_THREADS}, {2, "tcp", RANKS_THREADS}, {4, "nodes", RANKS_PROCESSES}};
    for (int i = 0; i < ALL; i++)
        for (size_t p = 0; p < sizeof places / sizeof *places; p++)
            if (all[i].kind != WIRE || places[p].ranks > 1)
                check(&all[i], NULL, &places[p]);
}

static void every_pair_on_two_ranks(void **state)
{
    (void)state;
    static const where here = {2, "shm", RANKS_THREADS};
    for (int i = 0; i < ALL; i++)
        for (int j = i + 1; j < ALL; j++)
            if (all[i].kind != all[j].kind)
                check(&all[i], &all[j], &here);
}

/* Over several nodes stage 3 is another way through a step: parameters are gathered. */
static void gathered_parameters_with_each_on_two_nodes(void **state)
{
    (void)state;
    static const where nodes = {4, "nodes", RANKS_PROCESSES};
    int three = 0;
    while (all[three].set.shard != 3)
        three++;
    for (int i = 0; i < ALL; i++)
        if (all[i].kind != STAGE && all[i].kind != WIRE)
            check(&all[i], &all[three], &nodes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_alone_on_any_ranks_over_any_way),
        cmocka_unit_test(every_pair_on_two_ranks),
        cmocka_unit_test(gathered_parameters_with_each_on_two_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
