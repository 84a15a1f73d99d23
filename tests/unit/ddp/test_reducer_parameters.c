/* test_reducer_parameters.c - parameters that are unused, empty, tied or forgotten, and calls that are wrong. */
#include "reducer_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Report 20. w0 is used by nobody, w1 by rank 0 alone, w2 by all; SGD with weight decay as a program would write it. */
static const char *unused_body(tdm_group *group, void *arg)
{
    (void)arg;
    int rank = tdm_group_rank(group);
    tdm_reducer_options options;
    tdm_reducer_options_init(&options);
    options.find_unused = true;
    tdm_reducer *r;
    CHECK_OK(rig_create_scalars(group, &options, 3, &r));
    float w[3] = {1, 1, 1};
    for (int step = 0; step < 3; step++) {
        *rig_gradient(r, 2) = 4;
        CHECK_OK(tdm_reducer_ready(r, 2));
        if (rank == 0) {
            *rig_gradient(r, 1) = 2;
            CHECK_OK(tdm_reducer_ready(r, 1));
        }
        CHECK_OK(tdm_reducer_wait(r));
        CHECK_THAT(!tdm_reducer_used(r, 0) && tdm_reducer_used(r, 1) && tdm_reducer_used(r, 2));
        CHECK_THAT(*rig_gradient(r, 1) == 1 && *rig_gradient(r, 2) == 4);
        for (int i = 0; i < 3; i++)
            if (tdm_reducer_used(r, i))
                w[i] -= 0.1f * (*rig_gradient(r, i) + 0.1f * w[i]);
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
    CHECK_OK(rig_create_scalars(group, &options, 2, &r));
    for (int round = 0; round < 2; round++) {
        tdm_reducer_zero(r);
        tdm_reducer_set_sync(r, false);
        if (rank == 1) {
            *rig_gradient(r, 0) += 6;
            CHECK_OK(tdm_reducer_ready(r, 0));
        }
        CHECK_OK(tdm_reducer_wait(r));
        tdm_reducer_set_sync(r, true);
        *rig_gradient(r, 1) += 1;
        CHECK_OK(tdm_reducer_ready(r, 1));
        CHECK_OK(tdm_reducer_wait(r));
        CHECK_THAT(*rig_gradient(r, 0) == 3 && tdm_reducer_used(r, 0) && tdm_reducer_used(r, 1));
    }
    *rig_gradient(r, 1) = 1; /* and the next step knows nothing of it */
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
    float *g = rig_gradient(r, id);
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
    tdm_reducer_options options = rig_small_buckets();
    tdm_reducer *r;
    CHECK_OK(rig_create(group, &options, &r));
    for (int i = RIG_PARAMETERS - 1; i >= 0; i--) {
        rig_write_gradient(r, rank, i, 0);
        if (i != 3 && i != 7)
            CHECK_OK(tdm_reducer_ready(r, i));
    }
    CHECK_THAT(tdm_reducer_wait(r) == TDM_ERR_INVALID);
    CHECK_THAT(strstr(tdm_error_text(), "2 of 9") != NULL && strstr(tdm_error_text(), "\"p3\", \"p7\"") != NULL);
    CHECK_THAT(tdm_reducer_ready(r, 3) == TDM_OK); /* the step is still open */
    CHECK_OK(tdm_reducer_ready(r, 7));
    CHECK_OK(tdm_reducer_wait(r));
    CHECK_THAT(rig_check_mean(r, size, 0) == NULL);
    tdm_reducer_destroy(r);
    return NULL;
}

static void parameters_not_marked_are_listed_and_may_still_be_marked(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, missing_body, NULL);
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
        cmocka_unit_test(a_parameter_nobody_used_stays_and_one_used_somewhere_is_averaged_with_zeros),
        cmocka_unit_test(a_use_in_an_earlier_micro_batch_is_a_use),
        cmocka_unit_test(a_parameter_without_elements_is_legal),
        cmocka_unit_test(a_tied_weight_is_one_parameter_with_the_sum_of_its_gradients),
        cmocka_unit_test(parameters_not_marked_are_listed_and_may_still_be_marked),
        cmocka_unit_test(wrong_calls_are_errors_that_say_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
