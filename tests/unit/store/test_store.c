/* test_store.c - what every store does, on the in-process and the TCP store. */
#include "store/store.h"

#include "core/clock.h"
#include "core/memory.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct stores {
    tdm_store *one, *two; /* two views of the same keys */
} stores;

static int open_local(void **state)
{
    static stores s;
    if (tdm_store_open_local(&s.one) != TDM_OK)
        return -1;
    s.two = s.one;
    *state = &s;
    return 0;
}

static int open_tcp(void **state)
{
    static stores s;
    if (tdm_store_open_tcp("127.0.0.1", 0, true, "secret", 10, &s.one) != TDM_OK ||
        tdm_store_open_tcp("127.0.0.1", tdm_store_port(s.one), false, "secret", 10, &s.two) != TDM_OK)
        return -1;
    *state = &s;
    return 0;
}

static int close_stores(void **state)
{
    stores *s = *state;
    if (s->two != s->one)
        tdm_store_close(s->two);
    tdm_store_close(s->one);
    return 0;
}

static void values_come_back_as_they_were_set(void **state)
{
    stores *s = *state;
    char *value;
    size_t nbytes;
    assert_int_equal(tdmi_store_set(s->one, "a/b", "x\0y", 3), TDM_OK);
    assert_int_equal(tdmi_store_get(s->two, "a/b", tdmi_deadline_in(5), &value, &nbytes), TDM_OK);
    assert_int_equal(nbytes, 3);
    assert_memory_equal(value, "x\0y", 4);
    tdmi_free(value);
    assert_int_equal(tdmi_store_set(s->two, "a/b", "", 0), TDM_OK);
    assert_int_equal(tdmi_store_get(s->one, "a/b", tdmi_deadline_in(5), &value, &nbytes), TDM_OK);
    assert_int_equal(nbytes, 0);
    tdmi_free(value);
    bool is_there;
    assert_int_equal(tdmi_store_has(s->one, "a/b", &is_there), TDM_OK);
    assert_true(is_there);
    assert_int_equal(tdmi_store_delete(s->one, "a/b"), TDM_OK);
    assert_int_equal(tdmi_store_has(s->two, "a/b", &is_there), TDM_OK);
    assert_false(is_there);
}

static void the_largest_value_and_key_pass_and_larger_ones_are_refused(void **state)
{
    stores *s = *state;
    char key[TDMI_STORE_KEY_MAX + 1];
    memset(key, 'k', sizeof key);
    key[TDMI_STORE_KEY_MAX - 1] = '\0';
    char *value = calloc(1, TDMI_STORE_VALUE_MAX + 1), *got;
    size_t nbytes;
    memset(value, 'v', TDMI_STORE_VALUE_MAX);
    assert_int_equal(tdmi_store_set(s->one, key, value, TDMI_STORE_VALUE_MAX), TDM_OK);
    assert_int_equal(tdmi_store_get(s->two, key, tdmi_deadline_in(5), &got, &nbytes), TDM_OK);
    assert_int_equal(nbytes, TDMI_STORE_VALUE_MAX);
    assert_memory_equal(got, value, nbytes);
    tdmi_free(got);
    assert_int_equal(tdmi_store_set(s->one, "k", value, TDMI_STORE_VALUE_MAX + 1), TDM_ERR_INVALID);
    key[TDMI_STORE_KEY_MAX - 1] = 'k';
    key[TDMI_STORE_KEY_MAX] = '\0';
    assert_int_equal(tdmi_store_set(s->one, key, "v", 1), TDM_ERR_INVALID);
    assert_int_equal(tdmi_store_set(s->one, "", "v", 1), TDM_ERR_INVALID);
    free(value);
}

static void sums_are_distinct_for_each_caller(void **state)
{
    stores *s = *state;
    int64_t a, b;
    assert_int_equal(tdmi_store_add(s->one, "n", 1, &a), TDM_OK);
    assert_int_equal(tdmi_store_add(s->two, "n", 1, &b), TDM_OK);
    assert_int_equal(a, 1);
    assert_int_equal(b, 2);
    assert_int_equal(tdmi_store_set(s->one, "text", "abc", 3), TDM_OK);
    assert_int_equal(tdmi_store_add(s->two, "text", 1, &a), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "\"text\""));
}

static void a_missing_key_is_a_timeout_that_names_it(void **state)
{
    stores *s = *state;
    char *value;
    size_t nbytes;
    int64_t start_ns = tdmi_now_ns();
    assert_int_equal(tdmi_store_get(s->two, "never", tdmi_deadline_in(0.1), &value, &nbytes), TDM_ERR_TIMEOUT);
    assert_in_range(tdmi_now_ns() - start_ns, 95 * TDMI_NS_PER_MS, 1500 * TDMI_NS_PER_MS);
    assert_non_null(strstr(tdm_error_text(), "\"never\""));
    assert_int_equal(tdmi_store_set(s->one, "never", "late", 4), TDM_OK); /* the given-up wait disturbs nothing */
    assert_int_equal(tdmi_store_get(s->two, "never", tdmi_deadline_in(5), &value, &nbytes), TDM_OK);
    assert_string_equal(value, "late");
    tdmi_free(value);
    assert_int_equal(tdmi_store_get(s->two, "never", tdmi_now_ns() - 1, &value, &nbytes), TDM_OK); /* it is there: no wait */
    tdmi_free(value);
}

static void the_first_offer_stands(void **state)
{
    stores *s = *state;
    char *value;
    size_t nbytes;
    assert_int_equal(tdmi_store_offer(s->one, "o", "one", 3), TDM_OK);
    assert_int_equal(tdmi_store_offer(s->two, "o", "two", 3), TDM_OK);
    assert_int_equal(tdmi_store_get(s->two, "o", tdmi_deadline_in(5), &value, &nbytes), TDM_OK);
    assert_string_equal(value, "one");
    tdmi_free(value);
}

typedef struct waiter {
    tdm_store *store;
    char key[32];
    tdm_status status;
    char *value;
} waiter;

static void *wait_for_key(void *arg)
{
    waiter *w = arg;
    size_t nbytes;
    w->status = tdmi_store_get(w->store, w->key, tdmi_deadline_in(20), &w->value, &nbytes);
    return NULL;
}

static void waiting_threads_do_not_block_each_other(void **state)
{
    stores *s = *state;
    enum { COUNT = 8 };
    waiter waiters[COUNT];
    pthread_t threads[COUNT];
    for (int i = 0; i < COUNT; i++) {
        waiters[i] = (waiter){.store = s->two};
        snprintf(waiters[i].key, sizeof waiters[i].key, "w/%d", i);
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for_key, &waiters[i]), 0);
    }
    usleep(20000);
    for (int i = COUNT - 1; i >= 0; i--) { /* through the very connection that all of them wait on */
        int64_t start_ns = tdmi_now_ns();
        assert_int_equal(tdmi_store_set(s->two, waiters[i].key, waiters[i].key, strlen(waiters[i].key)), TDM_OK);
        assert_true(tdmi_now_ns() - start_ns < TDMI_NS_PER_S);
        pthread_join(threads[i], NULL);
        assert_int_equal(waiters[i].status, TDM_OK);
        assert_string_equal(waiters[i].value, waiters[i].key);
        tdmi_free(waiters[i].value);
    }
}

#define ON_BOTH(f)                                                                                                     \
    {#f " (in-process)", f, open_local, close_stores, NULL}, { #f " (tcp)", f, open_tcp, close_stores, NULL }

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH(values_come_back_as_they_were_set),
        ON_BOTH(the_largest_value_and_key_pass_and_larger_ones_are_refused),
        ON_BOTH(sums_are_distinct_for_each_caller),
        ON_BOTH(a_missing_key_is_a_timeout_that_names_it),
        ON_BOTH(the_first_offer_stands),
        ON_BOTH(waiting_threads_do_not_block_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
