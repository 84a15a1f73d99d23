/* test_reducer.c - a step of the reducer on ranks: averages, order of buckets, accumulation, unused parameters, bad calls. */
#include "core/memory.h"
#include "ddp/reducer.h"
#include "on_ranks.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { PARAMETERS = 9 };
static const size_t counts[PARAMETERS] = {3, 1, 70, 300, 0, 16, 129, 5, 1};

static const char *name_of(int i)
{
    static const char *const names[PARAMETERS] = {"p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8"};
    return names[i];
}

/* Small buckets: about one for two parameters. */
static tdm_reducer_options small_buckets(void)
{
    tdm_reducer_options options;
    tdm_reducer_options_init(&options);
    options.bucket_cap_mb = 512.0 / (1 << 20);
    options.first_bucket_mb = 64.0 / (1 << 20);
    return options;
}

static tdm_status create(tdm_group *group, const tdm_reducer_options *options, tdm_reducer **out)
{
    tdm_status st = tdm_reducer_create(group, options, out);
    for (int i = 0; i < PARAMETERS && st == TDM_OK; i++) {
        int id = -1;
        st = tdm_reducer_add(*out, name_of(i), counts[i], &id);
        if (st == TDM_OK && id != i)
            return TDM_ERR_INTERNAL;
    }
    return st == TDM_OK ? tdm_reducer_commit(*out) : st;
}

/* Whole numbers whose sums over the ranks are exact. */
static float value(int rank, int parameter, size_t k, int step)
{
    return (float)((rank + 1) * (int)(k % 7) + parameter - 3 * step);
}

static float mean(int size, int parameter, size_t k, int step)
{
    float sum = 0;
    for (int rank = 0; rank < size; rank++)
        sum += value(rank, parameter, k, step);
    return sum * (1.0f / (float)size);
}

static const char *check_mean(tdm_reducer *r, int size, int step)
{
    for (int i = 0; i < PARAMETERS; i++) {
        const float *g = tdm_reducer_gradient(r, i);
        for (size_t k = 0; k < counts[i]; k++)
            CHECK_THAT(g[k] == mean(size, i, k, step));
    }
    return NULL;
}

static void write_gradient(tdm_reducer *r, int rank, int i, int step)
{
    float *g = tdm_reducer_gradient(r, i);
    for (size_t k = 0; k < counts[i]; k++)
        g[k] = value(rank, i, k, step);
}

static const char *average_body(tdm_group *group, void *arg)
{
    (void)arg;
    tdm_reducer_options options = small_buckets();
    tdm_reducer *r;
    CHECK_OK(create(group, &options, &r));
    int rank = tdm_group_rank(group), size = tdm_group_size(group);
    CHECK_THAT(tdm_reducer_bucket_count(r) > 2);
    for (int i = 0; i < PARAMETERS; i++)
        CHECK_THAT((uintptr_t)tdm_reducer_gradient(r, i) % 64 == 0);
    for (int step = 0; step < 5; step++) {
        for (int i = PARAMETERS - 1; i >= 0; i--) {
            write_gradient(r, rank, i, step);
            CHECK_OK(tdm_reducer_ready(r, i));
            CHECK_OK(tdm_reducer_progress(r));
        }
        CHECK_OK(tdm_reducer_wait(r));
        CHECK_THAT(check_mean(r, size, step) == NULL);
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
    tdm_reducer_options options = small_buckets();
    tdm_reducer *r;
    CHECK_OK(create(group, &options, &r));
    int rank = tdm_group_rank(group), size = tdm_group_size(group);
    unsigned seed = 17 * (unsigned)rank + 1;
    for (int step = 0; step < 20; step++) {
        int order[PARAMETERS];
        for (int i = 0; i < PARAMETERS; i++) {
            int j = rand_r(&seed) % (i + 1);
            order[i] = order[j];
            order[j] = i;
        }
        for (int i = 0; i < PARAMETERS; i++) {
            write_gradient(r, rank, order[i], step);
            CHECK_OK(tdm_reducer_ready(r, order[i]));
        }
        CHECK_OK(tdm_reducer_wait(r));
        CHECK_THAT(check_mean(r, size, step) == NULL);
    }
    tdm_reducer_destroy(r);
    return NULL;
}

static void ranks_may_finish_gradients_in_different_orders(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 3, .transport = "shm"}, any_order_body, NULL);
}

/* One value a parameter, for cases that are told in single numbers. */
static tdm_status create_scalars(tdm_group *group, const tdm_reducer_options *options, int n, tdm_reducer **out)
{
    tdm_status st = tdm_reducer_create(group, options, out);
    for (int i = 0; i < n && st == TDM_OK; i++) {
        int id;
        st = tdm_reducer_add(*out, name_of(i), 1, &id);
    }
    return st == TDM_OK ? tdm_reducer_commit(*out) : st;
}

static float *gradient(tdm_reducer *r, int id)
{
    return tdm_reducer_gradient(r, id);
}

/* Report 22: the sync has to come with the last micro-batch. */
static const char *accumulation_body(tdm_group *group, void *arg)
{
    (void)arg;
    static const float micro[2][3] = {{1, 3, 10}, {2, 5, 20}};
    const float *mine = micro[tdm_group_rank(group)];
    tdm_reducer *r;
    CHECK_OK(create_scalars(group, NULL, 1, &r));

    float *g = gradient(r, 0);
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
    CHECK_OK(create_scalars(group, NULL, 2, &r));
    for (int step = 0; step < 2; step++) {
        for (int i = 0; i < 2; i++) {
            *gradient(r, i) = (float)(rank + i);
            CHECK_OK(tdm_reducer_ready(r, i));
            tdm_reducer_set_sync(r, step == 1); /* in the middle of step 0: off, but not for this step */
        }
        CHECK_OK(tdm_reducer_wait(r));
        for (int i = 0; i < 2; i++)
            CHECK_THAT(*gradient(r, i) == (step == 0 ? 0.5f + (float)i : (float)(rank + i)));
    }
    tdm_reducer_destroy(r);
    return NULL;
}

static void sync_holds_for_whole_steps(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, late_switch_body, NULL);
}

/* Report 20. w0 is used by nobody, w1 by rank 0 alone, w2 by all; SGD with weight decay as a program would write it. */
static const char *unused_body(tdm_group *group, void *arg)
{
    (void)arg;
    int rank = tdm_group_rank(group);
    tdm_reducer_options options;
    tdm_reducer_options_init(&options);
    options.find_unused = true;
    tdm_reducer *r;
    CHECK_OK(create_scalars(group, &options, 3, &r));
    float w[3] = {1, 1, 1};
    for (int step = 0; step < 3; step++) {
        *gradient(r, 2) = 4;
        CHECK_OK(tdm_reducer_ready(r, 2));
        if (rank == 0) {
            *gradient(r, 1) = 2;
            CHECK_OK(tdm_reducer_ready(r, 1));
        }
        CHECK_OK(tdm_reducer_wait(r));
        CHECK_THAT(!tdm_reducer_used(r, 0) && tdm_reducer_used(r, 1) && tdm_reducer_used(r, 2));
        CHECK_THAT(*gradient(r, 1) == 1 && *gradient(r, 2) == 4);
        for (int i = 0; i < 3; i++)
            if (tdm_reducer_used(r, i))
                w[i] -= 0.1f * (*gradient(r, i) + 0.1f * w[i]);
    }
    CHECK_THAT(w[0] == 1 && w[1] < 0.8f && w[2] < w[1]);
    tdm_reducer_destroy(r);
    return NULL;
}

static void a_parameter_nobody_used_stays_and_one_used_somewhere_is_averaged_with_zeros(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, unused_body, NULL);
}

/* Used in the first micro-batch only: what was accumulated counts. */
static const char *unused_in_the_last_body(tdm_group *group, void *arg)
{
    (void)arg;
    int rank = tdm_group_rank(group);
    tdm_reducer_options options;
    tdm_reducer_options_init(&options);
    options.find_unused = true;
    tdm_reducer *r;
    CHECK_OK(create_scalars(group, &options, 2, &r));
    for (int round = 0; round < 2; round++) {
        tdm_reducer_zero(r);
        tdm_reducer_set_sync(r, false);
        if (rank == 1) {
            *gradient(r, 0) += 6;
            CHECK_OK(tdm_reducer_ready(r, 0));
        }
        CHECK_OK(tdm_reducer_wait(r));
        tdm_reducer_set_sync(r, true);
        *gradient(r, 1) += 1;
        CHECK_OK(tdm_reducer_ready(r, 1));
        CHECK_OK(tdm_reducer_wait(r));
        CHECK_THAT(*gradient(r, 0) == 3 && tdm_reducer_used(r, 0) && tdm_reducer_used(r, 1));
    }
    *gradient(r, 1) = 1; /* and the next step knows nothing of it */
    CHECK_OK(tdm_reducer_ready(r, 1));
    CHECK_OK(tdm_reducer_wait(r));
    CHECK_THAT(!tdm_reducer_used(r, 0));
    tdm_reducer_destroy(r);
    return NULL;
}

static void a_use_in_an_earlier_micro_batch_is_a_use(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, unused_in_the_last_body, NULL);
}

/* Report 12: a parameter of shape (0, 4), between others and alone in a model. */
static const char *zero_body(tdm_group *group, void *arg)
{
    (void)arg;
    tdm_reducer *r;
    int id;
    CHECK_OK(tdm_reducer_create(group, NULL, &r));
    CHECK_OK(tdm_reducer_add(r, "empty", 0, &id));
    CHECK_OK(tdm_reducer_commit(r));
    for (int step = 0; step < 3; step++) {
        CHECK_THAT(tdm_reducer_gradient(r, id) != NULL);
        CHECK_OK(tdm_reducer_ready(r, id));
        CHECK_OK(tdm_reducer_wait(r));
    }
    CHECK_THAT(tdm_reducer_bucket_count(r) == 1 && tdm_reducer_bucket(r, 0).nbytes == 0);
    tdm_reducer_destroy(r);

    CHECK_THAT(tdm_reducer_create(group, NULL, &r) == TDM_OK); /* no parameters at all */
    CHECK_OK(tdm_reducer_commit(r));
    CHECK_OK(tdm_reducer_wait(r));
    CHECK_THAT(tdm_reducer_bucket_count(r) == 0);
    tdm_reducer_destroy(r);
    return NULL;
}

static void a_parameter_without_elements_is_legal(void **state)
{
    (void)state;
    for (int n = 1; n <= 3; n++)
        ranks_run(&(ranks_spec){.n = n, .transport = "shm"}, zero_body, NULL);
}

/* Report 28: an embedding that is also the output weight. Both uses add into the one gradient, which is averaged once. */
static const char *tied_body(tdm_group *group, void *arg)
{
    (void)arg;
    int rank = tdm_group_rank(group), id, again;
    tdm_reducer *r;
    CHECK_OK(tdm_reducer_create(group, NULL, &r));
    CHECK_OK(tdm_reducer_add(r, "wte", 2, &id));
    CHECK_THAT(tdm_reducer_add(r, "wte", 2, &again) == TDM_ERR_INVALID);
    CHECK_THAT(strstr(tdm_error_text(), "\"wte\" is registered twice") != NULL);
    CHECK_OK(tdm_reducer_commit(r));
    CHECK_THAT(tdm_reducer_bucket(r, 0).nbytes == 8); /* counted once */
    float *g = gradient(r, id);
    g[0] = 10 + (float)rank; /* output use, first in backward */
    g[0] += 1;               /* embedding use */
    CHECK_OK(tdm_reducer_ready(r, id));
    CHECK_THAT(tdm_reducer_ready(r, id) == TDM_ERR_INVALID);
    CHECK_THAT(strstr(tdm_error_text(), "\"wte\" was marked ready twice") != NULL);
    CHECK_OK(tdm_reducer_wait(r));
    CHECK_THAT(g[0] == 11.5f);
    tdm_reducer_destroy(r);
    return NULL;
}

static void a_tied_weight_is_one_parameter_with_the_sum_of_its_gradients(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, tied_body, NULL);
}

static const char *missing_body(tdm_group *group, void *arg)
{
    (void)arg;
    int rank = tdm_group_rank(group), size = tdm_group_size(group);
    tdm_reducer_options options = small_buckets();
    tdm_reducer *r;
    CHECK_OK(create(group, &options, &r));
    for (int i = PARAMETERS - 1; i >= 0; i--) {
        write_gradient(r, rank, i, 0);
        if (i != 3 && i != 7)
            CHECK_OK(tdm_reducer_ready(r, i));
    }
    CHECK_THAT(tdm_reducer_wait(r) == TDM_ERR_INVALID);
    CHECK_THAT(strstr(tdm_error_text(), "2 of 9") != NULL && strstr(tdm_error_text(), "\"p3\", \"p7\"") != NULL);
    CHECK_THAT(tdm_reducer_ready(r, 3) == TDM_OK); /* the step is still open */
    CHECK_OK(tdm_reducer_ready(r, 7));
    CHECK_OK(tdm_reducer_wait(r));
    CHECK_THAT(check_mean(r, size, 0) == NULL);
    tdm_reducer_destroy(r);
    return NULL;
}

static void parameters_not_marked_are_listed_and_may_still_be_marked(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, missing_body, NULL);
}

static const char *quiet_body(tdm_group *group, void *arg)
{
    (void)arg;
    int rank = tdm_group_rank(group);
    tdm_reducer_options options = small_buckets();
    options.find_unused = true;
    tdm_reducer *r;
    CHECK_OK(create(group, &options, &r));
    uint64_t before = 0;
    for (int step = 0; step < 12; step++) {
        if (step == 2) { /* between two meetings of all ranks, so that no other rank is warming up */
            CHECK_OK(tdm_barrier(group, NULL));
            before = tdmi_memory_allocations();
            CHECK_OK(tdm_barrier(group, NULL));
        }
        for (int i = PARAMETERS - 1; i >= 0; i--) {
            write_gradient(r, rank, i, step);
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
    tdm_reducer_options options = small_buckets();
    tdm_reducer *r;
    CHECK_OK(create(group, &options, &r));
    tdm_status st = TDM_OK;
    for (int i = PARAMETERS - 1; i >= 0 && st == TDM_OK; i--) {
        if (rank == 1 && i == 2) {
            usleep(100000); /* the others have left create() by now */
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

static const char *bad_calls_body(tdm_group *group, void *arg)
{
    (void)arg;
    tdm_reducer_options options;
    tdm_reducer_options_init(&options);
    tdm_reducer *r;
    int id;
    options.dtype = TDM_I32;
    CHECK_THAT(tdm_reducer_create(group, &options, &r) == TDM_ERR_UNSUPPORTED && strstr(tdm_error_text(), "int32") != NULL);
    options.dtype = TDM_F32;
    options.op = TDM_MAX;
    CHECK_THAT(tdm_reducer_create(group, &options, &r) == TDM_ERR_UNSUPPORTED && strstr(tdm_error_text(), "max") != NULL);

    CHECK_OK(tdm_reducer_create(group, NULL, &r));
    CHECK_THAT(tdm_reducer_add(r, "huge", SIZE_MAX / 4, &id) == TDM_ERR_INVALID && strstr(tdm_error_text(), "huge") != NULL);
    CHECK_OK(tdm_reducer_add(r, "w", 1, &id));
    CHECK_THAT(tdm_reducer_ready(r, id) == TDM_ERR_INVALID);
    CHECK_THAT(tdm_reducer_wait(r) == TDM_ERR_INVALID);
    CHECK_THAT(tdm_reducer_gradient(r, id) == NULL);
    CHECK_THAT(tdm_reducer_bucket_count(r) == 0 && tdm_reducer_bucket(r, 0).nbytes == 0);
    CHECK_OK(tdm_reducer_commit(r));
    CHECK_THAT(tdm_reducer_commit(r) == TDM_ERR_INVALID);
    CHECK_THAT(tdm_reducer_add(r, "late", 1, &id) == TDM_ERR_INVALID && strstr(tdm_error_text(), "late") != NULL);
    CHECK_THAT(tdm_reducer_ready(r, 1) == TDM_ERR_INVALID && tdm_reducer_ready(r, -1) == TDM_ERR_INVALID);
    CHECK_THAT(tdm_reducer_gradient(r, 1) == NULL && tdm_reducer_gradient(r, -1) == NULL);
    tdm_reducer_destroy(r);
    tdm_reducer_destroy(NULL);
    return NULL;
}

static void wrong_calls_are_errors_that_say_what_is_wrong(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 1, .transport = "shm"}, bad_calls_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_become_the_average_of_all_ranks),
        cmocka_unit_test(ranks_may_finish_gradients_in_different_orders),
        cmocka_unit_test(accumulated_micro_batches_are_averaged_once_with_the_last),
        cmocka_unit_test(sync_holds_for_whole_steps),
        cmocka_unit_test(a_parameter_nobody_used_stays_and_one_used_somewhere_is_averaged_with_zeros),
        cmocka_unit_test(a_use_in_an_earlier_micro_batch_is_a_use),
        cmocka_unit_test(a_parameter_without_elements_is_legal),
        cmocka_unit_test(a_tied_weight_is_one_parameter_with_the_sum_of_its_gradients),
        cmocka_unit_test(parameters_not_marked_are_listed_and_may_still_be_marked),
        cmocka_unit_test(a_warm_step_allocates_nothing),
        cmocka_unit_test(halves_are_summed_in_float32),
        cmocka_unit_test(a_rank_that_dies_in_a_step_is_named_with_the_bucket),
        cmocka_unit_test(wrong_calls_are_errors_that_say_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
