/* test_hook.c - reductions of one's own: phases in order, never waited for, the same on every rank; what goes wrong is told. */
#include "core/error.h"
#include "reducer_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { WAYS = 2 };

/* The average in two calls: a reduce-scatter would do it in one, but phases are what is tested. */
typedef struct own {
    float half[2048];
    int phases[64], calls;
    bool fails;
} own;

static tdm_status halved(void *arg, const tdm_bucket *b, int phase, tdm_work **work)
{
    own *o = arg;
    float *x = b->memory;
    o->phases[b->number] = phase;
    o->calls++;
    if (o->fails && b->number == 1)
        return tdmi_fail(TDM_ERR_INVALID, "no more paper");
    const size_t middle = b->count / 2;
    switch (phase) {
    case 0: /* the front, */
        memcpy(o->half, x, middle * sizeof *x);
        return tdm_allreduce(b->group, o->half, o->half, middle, TDM_F32, TDM_AVG, work);
    case 1: /* then the back */
        memcpy(x, o->half, middle * sizeof *x);
        return tdm_allreduce(b->group, x + middle, x + middle, b->count - middle, TDM_F32, TDM_AVG, work);
    default:
        return TDM_OK;
    }
}

static const char *hook_body(tdm_group *group, void *arg)
{
    (void)arg;
    tdm_reducer_options options = rig_small_buckets();
    tdm_reducer *r;
    own o = {0};
    CHECK_OK(rig_create(group, &options, &r));
    CHECK_OK(tdm_reducer_set_hook(r, halved, &o));
    int rank = tdm_group_rank(group), size = tdm_group_size(group), buckets = tdm_reducer_bucket_count(r);
    unsigned seed = 31 * (unsigned)rank + 7;
    for (int step = 0; step < 12; step++) {
        for (int i = RIG_PARAMETERS - 1; i >= 0; i--) {
            rig_write_gradient(r, rank, i, step);
            CHECK_OK(tdm_reducer_ready(r, i));
            for (int n = rand_r(&seed) % 4; n > 0; n--) /* ranks look at different times */
                CHECK_OK(tdm_reducer_progress(r));
        }
        CHECK_OK(tdm_reducer_wait(r));
        CHECK_THAT(rig_check_mean(r, size, step) == NULL);
        CHECK_THAT(o.calls == 3 * buckets * (step + 1));
    }
    uint64_t sent = tdm_reducer_sent(r);
    size_t elements = 0;
    for (int b = 0; b < buckets; b++)
        elements += tdm_reducer_bucket(r, b).nbytes / sizeof(float);
    CHECK_THAT(size == 1 ? sent == 0 : sent >= 12 * 2 * (uint64_t)(size - 1) * elements / (uint64_t)size * 4 - 12 * 16 * (uint64_t)buckets);
    CHECK_OK(tdm_reducer_set_hook(r, NULL, NULL));
    for (int i = 0; i < RIG_PARAMETERS; i++) {
        rig_write_gradient(r, rank, i, 1);
        CHECK_OK(tdm_reducer_ready(r, i));
    }
    CHECK_OK(tdm_reducer_wait(r));
    CHECK_THAT(o.calls == 3 * buckets * 12 && rig_check_mean(r, size, 1) == NULL);
    tdm_reducer_destroy(r);
    return NULL;
}

static void a_hook_takes_each_bucket_through_its_phases(void **state)
{
    (void)state;
    static const char *const ways[WAYS] = {"shm", "tcp"};
    for (int w = 0; w < WAYS; w++)
        for (int n = 1; n <= 4; n++)
            ranks_run(&(ranks_spec){.n = n, .transport = ways[w]}, hook_body, NULL);
    ranks_run(&(ranks_spec){.n = 3, .transport = "shm", .mode = RANKS_PROCESSES}, hook_body, NULL);
}

/* The one that tandem/reducer.h shows. */
static tdm_status halves(void *arg, const tdm_bucket *b, int phase, tdm_work **work)
{
    uint16_t *half = arg;
    if (phase == 1)
        return tdm_cast_decompress(TDM_BF16, half, b->memory, b->count);
    tdm_status st = tdm_cast_compress(TDM_BF16, b->memory, NULL, half, b->count);
    return st != TDM_OK ? st : tdm_allreduce(b->group, half, half, b->count, TDM_BF16, TDM_AVG, work);
}

static const char *halves_body(tdm_group *group, void *arg)
{
    (void)arg;
    tdm_reducer *r;
    void *half;
    CHECK_OK(rig_create_scalars(group, NULL, 5, &r));
    CHECK_OK(tdm_alloc(group, 1 << 12, &half));
    CHECK_OK(tdm_reducer_set_hook(r, halves, half));
    for (int i = 0; i < 5; i++) {
        *rig_gradient(r, i) = (float)(i + 2 * tdm_group_rank(group)); /* exact in bfloat16 */
        CHECK_OK(tdm_reducer_ready(r, i));
    }
    CHECK_OK(tdm_reducer_wait(r));
    for (int i = 0; i < 5; i++)
        CHECK_THAT(*rig_gradient(r, i) == (float)(i + 1));
    tdm_reducer_destroy(r);
    tdm_free(group, half);
    return NULL;
}

static void the_hook_of_the_header_works(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, halves_body, NULL);
}

/* Whoever is early starts what it can and goes on computing. */
static const char *late_body(tdm_group *group, void *arg)
{
    (void)arg;
    tdm_reducer_options options = rig_small_buckets();
    tdm_reducer *r;
    own o = {0};
    CHECK_OK(rig_create(group, &options, &r));
    CHECK_OK(tdm_reducer_set_hook(r, halved, &o));
    if (tdm_group_rank(group) == 1)
        usleep(200000);
    for (int i = 0; i < RIG_PARAMETERS; i++) {
        rig_write_gradient(r, tdm_group_rank(group), i, 0);
        CHECK_OK(tdm_reducer_ready(r, i));
        if (tdm_group_rank(group) == 0)
            CHECK_THAT(o.phases[0] == 0 && o.calls <= 1);
    }
    CHECK_OK(tdm_reducer_wait(r));
    CHECK_THAT(rig_check_mean(r, 2, 0) == NULL);
    tdm_reducer_destroy(r);
    return NULL;
}

static void a_late_peer_stops_nobodys_backward(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, late_body, NULL);
}

static const char *unused_body(tdm_group *group, void *arg)
{
    (void)arg;
    tdm_reducer_options options;
    tdm_reducer_options_init(&options);
    options.find_unused = true;
    options.bucket_cap_mb = options.first_bucket_mb = 64.0 / (1 << 20);
    tdm_reducer *r;
    own o = {0};
    CHECK_OK(rig_create_scalars(group, &options, 3, &r));
    CHECK_OK(tdm_reducer_set_hook(r, halved, &o));
    for (int step = 0; step < 20; step++) {
        for (int i = 0; i < 3; i++)
            if (i != 1 || tdm_group_rank(group) == 0) {
                *rig_gradient(r, i) = 2;
                CHECK_OK(tdm_reducer_ready(r, i));
            }
        CHECK_OK(tdm_reducer_wait(r));
        CHECK_THAT(*rig_gradient(r, 0) == 2 && *rig_gradient(r, 1) == 1 && tdm_reducer_used(r, 1));
    }
    tdm_reducer_destroy(r);
    return NULL;
}

static void unused_parameters_count_as_zero(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "tcp"}, unused_body, NULL);
}

static const char *failing_body(tdm_group *group, void *arg)
{
    (void)arg;
    tdm_reducer_options options = rig_small_buckets();
    tdm_reducer *r;
    own o = {.fails = tdm_group_rank(group) == 1};
    CHECK_OK(rig_create(group, &options, &r));
    CHECK_OK(tdm_reducer_set_hook(r, halved, &o));
    tdm_status st = TDM_OK;
    for (int i = 0; i < RIG_PARAMETERS && st == TDM_OK; i++) {
        rig_write_gradient(r, tdm_group_rank(group), i, 0);
        st = tdm_reducer_ready(r, i);
    }
    if (st == TDM_OK)
        st = tdm_reducer_wait(r);
    CHECK_THAT(st == (o.fails ? TDM_ERR_INVALID : TDM_ERR_ABORTED));
    CHECK_THAT(strstr(tdm_error_text(), "no more paper") != NULL && strstr(tdm_error_text(), "in the hook of bucket 1") != NULL);
    tdm_reducer_destroy(r);
    return NULL;
}

static void an_error_of_a_hook_is_told_to_all_ranks(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, failing_body, NULL);
}

static const char *refused_body(tdm_group *group, void *arg)
{
    (void)arg;
    tdm_reducer_options options = rig_small_buckets();
    tdm_reducer *r;
    own o = {0};
    options.scatter = true;
    CHECK_OK(rig_create(group, &options, &r));
    CHECK_THAT(tdm_reducer_set_hook(r, halved, &o) == TDM_ERR_UNSUPPORTED && strstr(tdm_error_text(), "scatter") != NULL);
    tdm_reducer_destroy(r);
    options.scatter = false;
    CHECK_OK(tdm_reducer_create(group, &options, &r));
    CHECK_THAT(tdm_reducer_set_hook(r, halved, &o) == TDM_ERR_INVALID && strstr(tdm_error_text(), "before commit") != NULL);
    tdm_reducer_destroy(r);
    CHECK_OK(rig_create(group, &options, &r));
    CHECK_OK(tdm_reducer_ready(r, 0));
    CHECK_THAT(tdm_reducer_set_hook(r, halved, &o) == TDM_ERR_INVALID && strstr(tdm_error_text(), "inside a step") != NULL);
    tdm_reducer_destroy(r);
    return NULL;
}

static void a_hook_where_there_can_be_none_is_refused(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, refused_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hook_takes_each_bucket_through_its_phases),
        cmocka_unit_test(the_hook_of_the_header_works),
        cmocka_unit_test(a_late_peer_stops_nobodys_backward),
        cmocka_unit_test(unused_parameters_count_as_zero),
        cmocka_unit_test(an_error_of_a_hook_is_told_to_all_ranks),
        cmocka_unit_test(a_hook_where_there_can_be_none_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
