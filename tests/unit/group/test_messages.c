/* test_messages.c - messages between two ranks: order, tags, any source, sizes, errors. */
#include "on_ranks.h"

#include <tandem/message.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static const struct {
    const char *transport;
    ranks_mode mode;
} ways[] = {{"shm", RANKS_THREADS},   {"shm", RANKS_PROCESSES}, {"tcp", RANKS_THREADS}, {"nodes", RANKS_PROCESSES},
#ifdef TDMI_HAVE_UCX
            {"ucx", RANKS_PROCESSES}, {"ucx nodes", RANKS_PROCESSES}
#endif
};
static const char *const transports[] = {
    "shm", "tcp",
#ifdef TDMI_HAVE_UCX
    "ucx",
#endif
};
#define EACH_TRANSPORT(t) for (size_t t = 0; t < sizeof transports / sizeof *transports; t++)

static void on_all_ways(int n, ranks_body body, void *arg)
{
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        ranks_run(&(ranks_spec){.n = n, .transport = ways[i].transport, .mode = ways[i].mode}, body, arg);
}

/* ---- every size, both kinds of memory ---- */

static const size_t sizes[] = {0, 1, 3, 1024, 1025, 70000, 1500001};

static const char *passes_round(tdm_group *group, void *arg)
{
    const bool arena = *(bool *)arg;
    const int rank = tdm_group_rank(group), n = tdm_group_size(group);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        void *memory[2];
        for (int i = 0; i < 2; i++) {
            if (arena)
                CHECK_OK(tdm_alloc(group, sizes[s] * 4 + 4, &memory[i]));
            else
                memory[i] = malloc(sizes[s] * 4 + 4);
        }
        int32_t *out = memory[0], *in = memory[1];
        for (size_t i = 0; i < sizes[s]; i++)
            out[i] = (int32_t)i * 7 + rank;
        tdm_work *send;
        tdm_message what = {-7, -7, 77};
        const int left = (rank + n - 1) % n;
        CHECK_OK(tdm_send(group, out, sizes[s], TDM_I32, (rank + 1) % n, 5, &send));
        CHECK_OK(tdm_recv(group, in, sizes[s] + 1, TDM_I32, left, 5, &what, NULL));
        CHECK_OK(tdm_work_wait(send));
        CHECK(what.from == left && what.tag == 5 && what.count == sizes[s], "came from %d with tag %d: %zu elements", what.from,
              what.tag, what.count);
        for (size_t i = 0; i < sizes[s]; i++)
            CHECK(in[i] == (int32_t)i * 7 + left, "size %zu, element %zu: %d", sizes[s], i, in[i]);
        CHECK_OK(tdm_barrier(group, NULL));
        for (int i = 0; i < 2; i++)
            if (arena)
                tdm_free(group, memory[i]);
            else
                free(memory[i]);
    }
    return NULL;
}

static void messages_of_any_size_arrive(void **state)
{
    (void)state;
    for (int arena = 0; arena < 2; arena++) {
        bool in_arena = arena != 0;
        on_all_ways(4, passes_round, &in_arena);
        ranks_run(&(ranks_spec){.n = 1, .transport = "shm"}, passes_round, &in_arena); /* to itself */
    }
}

/* ---- order, tags, any source ---- */

enum { BURST = 300, LONG = 3000 };

static const char *receives_by_tag(tdm_group *group)
{
    const int n = tdm_group_size(group);
    int32_t *data = calloc(LONG, sizeof *data);
    int next[8];
    for (int r = 0; r < 8; r++)
        next[r] = 1;
    for (int k = 0; k < BURST / 2; k++) /* tag 8 first: those with tag 3 wait */
        for (int r = 1; r < n; r++) {
            CHECK_OK(tdm_recv(group, data, LONG, TDM_I32, r, 8, NULL, NULL));
            CHECK(data[0] == r * 1000000 + next[r], "rank %d tag 8: %d instead of %d", r, data[0], r * 1000000 + next[r]);
            next[r] += 2;
        }
    for (int r = 0; r < 8; r++)
        next[r] = 0;
    for (int k = 0; k < BURST / 2 * (n - 1); k++) {
        tdm_message what;
        CHECK_OK(tdm_recv(group, data, LONG, TDM_I32, TDM_ANY_SOURCE, TDM_ANY_TAG, &what, NULL));
        CHECK(what.tag == 3 && data[0] == what.from * 1000000 + next[what.from], "from %d tag %d: %d", what.from, what.tag, data[0]);
        next[what.from] += 2;
    }
    free(data);
    CHECK_OK(tdm_barrier(group, NULL));
    return NULL;
}

/* Many short ones, more than there is credit for, and some long; all are started before any is waited for. */
static const char *sends_by_tag(tdm_group *group, void *arg)
{
    const int rank = tdm_group_rank(group);
    static const int tags[] = {3, 8};
    (void)arg;
    if (rank == 0)
        return receives_by_tag(group);
    int32_t *data = calloc((size_t)BURST * LONG, sizeof *data);
    tdm_work *work[BURST];
    for (int k = 0; k < BURST; k++) {
        int32_t *own = data + (size_t)k * LONG;
        own[0] = rank * 1000000 + k;
        CHECK_OK(tdm_send(group, own, k % 10 == 9 ? LONG : 1, TDM_I32, 0, tags[k % 2], &work[k]));
    }
    for (int k = 0; k < BURST; k++)
        CHECK_OK(tdm_work_wait(work[k]));
    free(data);
    CHECK_OK(tdm_barrier(group, NULL));
    return NULL;
}

static void tags_and_sources_choose_and_order_stays(void **state)
{
    (void)state;
    on_all_ways(4, sends_by_tag, NULL);
}

/* ---- beside collectives ---- */

static const char *mixes(tdm_group *group, void *arg)
{
    (void)arg;
    const int rank = tdm_group_rank(group);
    float sum[100], got[2000] = {0}, given[2000];
    tdm_work *all, *one;
    for (int i = 0; i < 2000; i++)
        given[i] = (float)(i + rank);
    for (int i = 0; i < 100; i++)
        sum[i] = 1;
    if (rank == 0) { /* rank 1 needs the message before it comes to the allreduce */
        CHECK_OK(tdm_allreduce(group, sum, sum, 100, TDM_F32, TDM_SUM, &all));
        CHECK_OK(tdm_send(group, given, 2000, TDM_F32, 1, 0, NULL));
    } else {
        CHECK_OK(tdm_recv(group, got, 2000, TDM_F32, 0, 0, NULL, &one));
        CHECK_OK(tdm_work_wait(one));
        CHECK(got[1999] == 1999, "got %g", (double)got[1999]);
        CHECK_OK(tdm_allreduce(group, sum, sum, 100, TDM_F32, TDM_SUM, &all));
    }
    CHECK_OK(tdm_work_wait(all));
    CHECK(sum[99] == 2, "sum %g", (double)sum[99]);
    return NULL;
}

static void messages_and_collectives_do_not_block_each_other(void **state)
{
    (void)state;
    EACH_TRANSPORT(t)
        ranks_run(&(ranks_spec){.n = 2, .transport = transports[t]}, mixes, NULL);
}

/* ---- what goes wrong ---- */

static const char *differs(tdm_group *group, void *arg)
{
    const char *kind = arg;
    int32_t data[64] = {0};
    tdm_status status;
    if (tdm_group_rank(group) == 0)
        status = tdm_send(group, data, 64, TDM_I32, 1, 2, NULL);
    else if (strcmp(kind, "dtype") == 0)
        status = tdm_recv(group, data, 64, TDM_F32, 0, 2, NULL, NULL);
    else
        status = tdm_recv(group, data, 63, TDM_I32, 0, 2, NULL, NULL);
    if (status == TDM_OK) /* a short message may be gone before anyone knows */
        status = tdm_barrier(group, NULL);
    CHECK(status == TDM_ERR_MISMATCH, "status %d: %s", (int)status, tdm_error_text());
    CHECK(strstr(tdm_error_text(), "rank 0 sends 64 int32 with tag 2, but rank 1") != NULL, "%s", tdm_error_text());
    return NULL;
}

static void what_does_not_fit_is_an_error_on_both(void **state)
{
    (void)state;
    static char dtype[] = "dtype", count[] = "count";
    EACH_TRANSPORT(t) {
        ranks_run(&(ranks_spec){.n = 2, .transport = transports[t]}, differs, dtype);
        ranks_run(&(ranks_spec){.n = 2, .transport = transports[t]}, differs, count);
    }
}

static const char *nobody_sends(tdm_group *group, void *arg)
{
    (void)arg;
    int32_t data = 0;
    if (tdm_group_rank(group) == 1) {
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
        return NULL;
    }
    tdm_status status = tdm_recv(group, &data, 1, TDM_I32, 1, 4, NULL, NULL);
    CHECK(status == TDM_ERR_TIMEOUT && strstr(tdm_error_text(), "rank 0 waits for a message from rank 1 with tag 4") != NULL, "%d: %s",
          (int)status, tdm_error_text());
    return NULL;
}

static const char *peer_leaves(tdm_group *group, void *arg)
{
    (void)arg;
    int32_t data = 0;
    if (tdm_group_rank(group) == 1)
        return tdm_send(group, &data, 1, TDM_I32, 0, 1, NULL) == TDM_OK ? NULL : ranks_say("%s", tdm_error_text());
    CHECK_OK(tdm_recv(group, &data, 1, TDM_I32, 1, 1, NULL, NULL)); /* its last words count */
    tdm_status status = tdm_recv(group, &data, 1, TDM_I32, 1, 1, NULL, NULL);
    CHECK(status == TDM_ERR_PEER_LOST && strstr(tdm_error_text(), "rank 1") != NULL, "%d: %s", (int)status, tdm_error_text());
    return NULL;
}

static void a_wait_for_nothing_ends_and_says_for_whom(void **state)
{
    (void)state;
    EACH_TRANSPORT(t) {
        ranks_run(&(ranks_spec){.n = 2, .transport = transports[t], .timeout_s = 0.3}, nobody_sends, NULL);
        ranks_run(&(ranks_spec){.n = 2, .transport = transports[t]}, peer_leaves, NULL);
    }
}

static const char *bad_arguments(tdm_group *group, void *arg)
{
    (void)arg;
    int32_t data = 0;
    CHECK_THAT(tdm_send(group, &data, 1, TDM_I32, 2, 0, NULL) == TDM_ERR_INVALID);
    CHECK_THAT(tdm_send(group, &data, 1, TDM_I32, 0, -1, NULL) == TDM_ERR_INVALID);
    CHECK_THAT(tdm_send(group, NULL, 1, TDM_I32, 0, 0, NULL) == TDM_ERR_INVALID);
    CHECK_THAT(tdm_recv(group, &data, 1, TDM_I32, -2, 0, NULL, NULL) == TDM_ERR_INVALID);
    CHECK_THAT(tdm_recv(group, &data, 1, (tdm_dtype)99, 0, 0, NULL, NULL) == TDM_ERR_INVALID);
    CHECK_OK(tdm_barrier(group, NULL)); /* and nothing else happened */
    return NULL;
}

static void arguments_are_checked(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, bad_arguments, NULL);
}

int main(void)
{
    setenv("UCX_TLS", "tcp", 1); /* as between hosts */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_any_size_arrive),
        cmocka_unit_test(tags_and_sources_choose_and_order_stays),
        cmocka_unit_test(messages_and_collectives_do_not_block_each_other),
        cmocka_unit_test(what_does_not_fit_is_an_error_on_both),
        cmocka_unit_test(a_wait_for_nothing_ends_and_says_for_whom),
        cmocka_unit_test(arguments_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
