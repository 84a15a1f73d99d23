/* test_reducer.c - a step of the reducer on ranks: averages, order of buckets, accumulation, a death. */
#include "core/memory.h"
#include "reducer_rig.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *average_body(tdm_group *group, void *arg)
{
    (void)arg;
    tdm_reducer_options options = rig_small_buckets();
    tdm_reducer *r;
    CHECK_OK(rig_create(group, &options, &r));
    int rank = tdm_group_rank(group), size = tdm_group_size(group);
    CHECK_THAT(tdm_reducer_bucket_count(r) > 2);
    for (int i = 0; i < RIG_PARAMETERS; i++)
        CHECK_THAT((uintptr_t)tdm_reducer_gradient(r, i) % 64 == 0);
    for (int step = 0; step < 5; step++) {
        for (int i = RIG_PARAMETERS - 1; i >= 0; i--) {
            rig_write_gradient(r, rank, i, step);
            CHECK_OK(tdm_reducer_ready(r, i));
            CHECK_OK(tdm_reducer_progress(r));
        }
        CHECK_OK(tdm_reducer_wait(r));
        CHECK_THAT(rig_check_mean(r, size, step) == NULL);
    }
    tdm_reducer_destroy(r);
    return NULL;
}

static void gradients_become_the_average_of_all_ranks(void **state)
{
    (void)state;
    for (int n = 1; n <= 4; n++)
        ranks_run(&(ranks_spec){.n = n, .transport = "shm"}, average_body, NULL);
    ranks_run(&(ranks_spec){.n = 3, .transport = "shm", .mode = RANKS_PROCESSES}, average_body, NULL);
}

static const char *any_order_body(tdm_group *group, void *arg)
{
    (void)arg;
    tdm_reducer_options options = rig_small_buckets();
    tdm_reducer *r;
    CHECK_OK(rig_create(group, &options, &r));
    int rank = tdm_group_rank(group), size = tdm_group_size(group);
    unsigned seed = 17 * (unsigned)rank + 1;
    for (int step = 0; step < 20; step++) {
        int order[RIG_PARAMETERS];
        for (int i = 0; i < RIG_PARAMETERS; i++) {
            int j = rand_r(&seed) % (i + 1);
            order[i] = order[j];
            order[j] = i;
        }
        for (int i = 0; i < RIG_PARAMETERS; i++) {
            rig_write_gradient(r, rank, order[i], step);
            CHECK_OK(tdm_reducer_ready(r, order[i]));
        }
        CHECK_OK(tdm_reducer_wait(r));
        CHECK_THAT(rig_check_mean(r, size, step) == NULL);
    }
    tdm_reducer_destroy(r);
    return NULL;
}

static void ranks_may_finish_gradients_in_different_orders(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 3, .transport = "shm"}, any_order_body, NULL);
}

/* Report 22: the sync has to come with the last micro-batch. */
static const char *accumulation_body(tdm_group *group, void *arg)
{
    (void)arg;
    static const float micro[2][3] = {{1, 3, 10}, {2, 5, 20}};
    const float *mine = micro[tdm_group_rank(group)];
    tdm_reducer *r;
    CHECK_OK(rig_create_scalars(group, NULL, 1, &r));

    float *g = rig_gradient(r, 0);
    for (int k = 0; k < 2; k++) { /* a cycle of two */
        tdm_reducer_set_sync(r, k == 1);
        *g += mine[k];
        CHECK_OK(tdm_reducer_ready(r, 0));
        CHECK_OK(tdm_reducer_wait(r));
    }
    CHECK_THAT(*g == 5.5f);

    tdm_reducer_zero(r); /* the last, shorter cycle of three micro-batches */
    *g += mine[2];
    CHECK_OK(tdm_reducer_ready(r, 0));
    CHECK_OK(tdm_reducer_wait(r));
    CHECK_THAT(*g == 15);

    for (int k = 0; k < 2; k++) { /* a cycle of one */
        tdm_reducer_zero(r);
        *g += mine[k];
        CHECK_OK(tdm_reducer_ready(r, 0));
        CHECK_OK(tdm_reducer_wait(r));
        CHECK_THAT(*g == (k == 0 ? 1.5f : 4.0f));
    }
    tdm_reducer_destroy(r);
    return NULL;
}

static void accumulated_micro_batches_are_averaged_once_with_the_last(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, accumulation_body, NULL);
}

static const char *late_switch_body(tdm_group *group, void *arg)
{
    (void)arg;
    int rank = tdm_group_rank(group);
    tdm_reducer *r;
    CHECK_OK(rig_create_scalars(group, NULL, 2, &r));
    for (int step = 0; step < 2; step++) {
        for (int i = 0; i < 2; i++) {
            *rig_gradient(r, i) = (float)(rank + i);
            CHECK_OK(tdm_reducer_ready(r, i));
            tdm_reducer_set_sync(r, step == 1); /* in the middle of step 0: off, but not for this step */
        }
        CHECK_OK(tdm_reducer_wait(r));
        for (int i = 0; i < 2; i++)
            CHECK_THAT(*rig_gradient(r, i) == (step == 0 ? 0.5f + (float)i : (float)(rank + i)));
    }
    tdm_reducer_destroy(r);
    return NULL;
}

static void sync_holds_for_whole_steps(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, late_switch_body, NULL);
}

static const char *quiet_body(tdm_group *group, void *arg)
{
    (void)arg;
    int rank = tdm_group_rank(group);
    tdm_reducer_options options = rig_small_buckets();
    options.find_unused = true;
    tdm_reducer *r;
    CHECK_OK(rig_create(group, &options, &r));
    uint64_t before = 0;
    for (int step = 0; step < 12; step++) {
        if (step == 2) { /* between two meetings of all ranks, so that no other rank is warming up */
            CHECK_OK(tdm_barrier(group, NULL));
            before = tdmi_memory_allocations();
            CHECK_OK(tdm_barrier(group, NULL));
        }
        for (int i = RIG_PARAMETERS - 1; i >= 0; i--) {
            rig_write_gradient(r, rank, i, step);
            CHECK_OK(tdm_reducer_ready(r, i));
            CHECK_OK(tdm_reducer_progress(r));
        }
        CHECK_OK(tdm_reducer_wait(r));
    }
    CHECK_THAT(tdmi_memory_allocations() == before);
    CHECK_OK(tdm_barrier(group, NULL));
    tdm_reducer_destroy(r);
    return NULL;
}

static void a_warm_step_allocates_nothing(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, quiet_body, NULL);
}

static const char *halves_body(tdm_group *group, void *arg)
{
    (void)arg;
    int rank = tdm_group_rank(group), id;
    tdm_reducer_options options;
    tdm_reducer_options_init(&options);
    options.dtype = TDM_F16;
    options.op = TDM_SUM;
    tdm_reducer *r;
    CHECK_OK(tdm_reducer_create(group, &options, &r));
    CHECK_OK(tdm_reducer_add(r, "w", 3, &id));
    CHECK_OK(tdm_reducer_commit(r));
    uint16_t *g = tdm_reducer_gradient(r, id);
    g[0] = rank == 0 ? 0x6800 : 0x3c00; /* 2048 and three ones: each alone would be rounded away */
    CHECK_OK(tdm_reducer_ready(r, id));
    CHECK_OK(tdm_reducer_wait(r));
    CHECK_THAT(g[0] == 0x6802); /* 2051 rounds to 2052 */
    tdm_reducer_destroy(r);
    return NULL;
}

static void halves_are_summed_in_float32(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 4, .transport = "shm"}, halves_body, NULL);
}

static const char *dying_body(tdm_group *group, void *arg)
{
    (void)arg;
    int rank = tdm_group_rank(group);
    tdm_reducer_options options = rig_small_buckets();
    tdm_reducer *r;
    CHECK_OK(rig_create(group, &options, &r));
    tdm_status st = TDM_OK;
    for (int i = RIG_PARAMETERS - 1; i >= 0 && st == TDM_OK; i--) {
        if (rank == 1 && i == 2) {
            usleep(100000); /* the others have left rig_create() by now */
            raise(SIGKILL);
        }
        st = tdm_reducer_ready(r, i);
    }
    if (st == TDM_OK)
        st = tdm_reducer_wait(r);
    CHECK_THAT(st == TDM_ERR_PEER_LOST);
    CHECK_THAT(strstr(tdm_error_text(), "rank 1") != NULL && strstr(tdm_error_text(), " bucket ") != NULL);
    CHECK_THAT(tdm_reducer_wait(r) == TDM_ERR_PEER_LOST); /* and stays so */
    tdm_reducer_destroy(r);
    return NULL;
}

static void a_rank_that_dies_in_a_step_is_named_with_the_bucket(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 3, .transport = "shm", .mode = RANKS_PROCESSES, .dies = 1u << 1}, dying_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_become_the_average_of_all_ranks),
        cmocka_unit_test(ranks_may_finish_gradients_in_different_orders),
        cmocka_unit_test(accumulated_micro_batches_are_averaged_once_with_the_last),
        cmocka_unit_test(sync_holds_for_whole_steps),
        cmocka_unit_test(a_warm_step_allocates_nothing),
        cmocka_unit_test(halves_are_summed_in_float32),
        cmocka_unit_test(a_rank_that_dies_in_a_step_is_named_with_the_bucket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
