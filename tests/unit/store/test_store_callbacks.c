/* test_store_callbacks.c - a store that the program gives as functions: groups meet on it. */
#include <tandem/collective.h>

#include "core/clock.h"
#include "core/memory.h"
#include "store/store.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 8 };

/* The program's store: a local one of ours behind functions of the public kind, which counts what is asked of it. */
static atomic_int requests;

static tdm_status set(void *context, const char *key, const void *value, size_t nbytes)
{
    requests++;
    return tdmi_store_set(context, key, value, nbytes);
}

static tdm_status get(void *context, const char *key, double timeout_s, void *value, size_t *nbytes)
{
    char *found;
    size_t length;
    tdm_status status = tdmi_store_get(context, key, tdmi_deadline_in(timeout_s), &found, &length);
    if (status != TDM_OK)
        return status;
    requests++;
    if (length <= *nbytes)
        memcpy(value, found, length);
    *nbytes = length;
    tdmi_free(found);
    return TDM_OK;
}

static tdm_status add(void *context, const char *key, int64_t delta, int64_t *sum_out)
{
    requests++;
    return tdmi_store_add(context, key, delta, sum_out);
}

static tdm_status has(void *context, const char *key, bool *exists_out)
{
    return tdmi_store_has(context, key, exists_out);
}

static tdm_status remove_key(void *context, const char *key)
{
    return tdmi_store_delete(context, key);
}

static const tdm_store_callbacks callbacks = {.set = set, .get = get, .add = add, .has = has, .remove = remove_key};

typedef struct rank {
    pthread_t thread;
    tdm_store *store;
    int number;
    float sum;
    tdm_status status;
} rank;

static void *run(void *arg)
{
    rank *r = arg;
    tdm_group_options options;
    tdm_group *group;
    tdm_group_options_init(&options);
    options.store = r->store;
    options.rank = r->number;
    options.size = RANKS;
    r->status = tdm_group_create(&options, &group);
    if (r->status == TDM_OK) {
        r->sum = (float)r->number;
        r->status = tdm_allreduce(group, &r->sum, &r->sum, 1, TDM_F32, TDM_SUM, NULL);
        tdm_group_destroy(group);
    }
    return NULL;
}

static void ranks_meet_on_it_with_few_requests(void **state)
{
    (void)state;
    tdm_store *local;
    rank ranks[RANKS];
    requests = 0;
    assert_int_equal(tdm_store_open_local(&local), TDM_OK);
    for (int r = 0; r < RANKS; r++) {
        ranks[r] = (rank){.number = r};
        assert_int_equal(tdm_store_open_callbacks(&callbacks, local, &ranks[r].store), TDM_OK);
        pthread_create(&ranks[r].thread, NULL, run, &ranks[r]);
    }
    for (int r = 0; r < RANKS; r++) {
        pthread_join(ranks[r].thread, NULL);
        tdm_store_close(ranks[r].store);
    }
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(ranks[r].status, TDM_OK);
        assert_true(ranks[r].sum == RANKS * (RANKS - 1) / 2);
    }
    assert_in_range(requests, 1, 7 * RANKS); /* not one a pair of ranks */
    tdm_store_close(local);
}

static void values_longer_than_the_first_room_come_whole(void **state)
{
    (void)state;
    tdm_store *local, *store;
    char *value, large[9000];
    size_t nbytes;
    memset(large, 'x', sizeof large);
    assert_int_equal(tdm_store_open_local(&local), TDM_OK);
    assert_int_equal(tdm_store_open_callbacks(&callbacks, local, &store), TDM_OK);
    assert_int_equal(tdmi_store_set(store, "large", large, sizeof large), TDM_OK);
    assert_int_equal(tdmi_store_get(store, "large", tdmi_deadline_in(1), &value, &nbytes), TDM_OK);
    assert_int_equal(nbytes, sizeof large);
    assert_memory_equal(value, large, sizeof large);
    tdmi_free(value);
    assert_int_equal(tdmi_store_get(store, "missing", tdmi_deadline_in(0.05), &value, &nbytes), TDM_ERR_TIMEOUT);
    assert_non_null(strstr(tdm_error_text(), "missing"));
    assert_int_equal(tdmi_store_offer(store, "first", "a", 1), TDM_OK);
    assert_int_equal(tdmi_store_offer(store, "first", "b", 1), TDM_OK);
    assert_int_equal(tdmi_store_get(store, "first", tdmi_deadline_in(1), &value, &nbytes), TDM_OK);
    assert_string_equal(value, "a");
    tdmi_free(value);
    tdm_store_close(store);
    tdm_store_close(local);
}

static void half_a_store_is_refused(void **state)
{
    (void)state;
    tdm_store *store;
    const tdm_store_callbacks half = {.set = set, .get = get};
    assert_int_equal(tdm_store_open_callbacks(&half, NULL, &store), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "all needed"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_meet_on_it_with_few_requests),
        cmocka_unit_test(values_longer_than_the_first_room_come_whole),
        cmocka_unit_test(half_a_store_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
