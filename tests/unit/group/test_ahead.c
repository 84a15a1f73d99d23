/* test_ahead.c - who only gives in a short call waits for nobody: it is ahead of the others, what it gave stays what it was, and
 * calls that differ are an error on all ranks that names both sides, whatever the rank that was ahead does next. */
#include "on_ranks.h"

#include "core/clock.h"
#include "core/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* ---- ahead ---- */

static const char *gives_at_once(tdm_group *group, void *arg)
{
    const int rank = tdm_group_rank(group), n = tdm_group_size(group);
    const bool reduces = *(const bool *)arg, gives = reduces ? rank != 0 : rank == 0;
    const int64_t start = tdmi_now_ns();
    if (!gives)
        sleep_ms(300);
    for (int i = 1; i <= 60; i++) {
        int32_t data = reduces || rank == 0 ? i : 0, sum = 0;
        CHECK_OK(reduces ? tdm_reduce(group, &data, &sum, 1, TDM_I32, TDM_SUM, 0, NULL) : tdm_broadcast(group, &data, 1, TDM_I32, 0, NULL));
        CHECK((reduces && rank != 0) || (reduces ? sum : data) == (reduces ? n * i : i), "call %d: %d", i, reduces ? sum : data);
    }
    CHECK(!gives || tdmi_now_ns() - start < 150 * TDMI_NS_PER_MS, "it waited for the others: %g ms", (double)(tdmi_now_ns() - start) * 1e-6);
    CHECK_OK(tdm_barrier(group, NULL));
    return NULL;
}

static void who_only_gives_waits_for_nobody(void **state)
{
    (void)state;
    for (int reduces = 0; reduces < 2; reduces++)
        ranks_run(&(ranks_spec){.n = 3, .transport = "shm", .mode = (ranks_mode)reduces}, gives_at_once, &(bool){reduces});
}

static uint32_t value_of(int call, int rank, int i)
{
    return (uint32_t)call * 1000003u + (uint32_t)rank * 257u + (uint32_t)i;
}

/* More calls than there are slots, of all that give, with roots in turn and ranks that dawdle. */
static const char *runs_far(tdm_group *group, void *arg)
{
    enum { COUNT = 40, N = 4 };
    (void)arg;
    const int rank = tdm_group_rank(group), n = tdm_group_size(group);
    static _Thread_local uint32_t in[N * COUNT], out[N * COUNT];
    for (int call = 0; call < 400; call++) {
        const int root = call / 90 % n, kind = call % 5;
        const size_t count = call % 3 == 0 ? COUNT : 3;
        for (int i = 0; i < n * (int)count; i++)
            in[i] = value_of(call, rank, i);
        memset(out, 0, sizeof out);
        if (call % 97 == rank * 7)
            sleep_ms(2);
        switch (kind) {
        case 0: CHECK_OK(tdm_broadcast(group, in, count, TDM_U32, root, NULL)); break;
        case 1: CHECK_OK(tdm_scatter(group, in, out, count, TDM_U32, root, NULL)); break;
        case 2: CHECK_OK(tdm_reduce(group, in, out, count, TDM_U32, TDM_MAX, root, NULL)); break;
        case 3: CHECK_OK(tdm_gather(group, in, out, count, TDM_U32, root, NULL)); break;
        default: CHECK_OK(tdm_broadcast(group, in, 1, TDM_U32, root, NULL));
        }
        for (int i = 0; i < (int)count; i++) {
            CHECK(kind != 0 || in[i] == value_of(call, root, i), "call %d broadcast", call);
            CHECK(kind != 1 || out[i] == value_of(call, root, rank * (int)count + i), "call %d scatter", call);
            CHECK(kind != 2 || rank != root || out[i] == value_of(call, n - 1, i), "call %d reduce", call);
            for (int r = 0; r < n; r++)
                CHECK(kind != 3 || rank != root || out[r * (int)count + i] == value_of(call, r, i), "call %d gather", call);
        }
        CHECK(kind != 4 || in[0] == value_of(call, root, 0), "call %d", call);
    }
    return NULL;
}

static void what_was_given_stays_what_it_was(void **state)
{
    (void)state;
    for (int n = 2; n <= 4; n++)
        for (int mode = 0; mode < 2; mode++)
            ranks_run(&(ranks_spec){.n = n, .transport = "shm", .mode = (ranks_mode)mode}, runs_far, NULL);
}

/* ---- calls that differ ---- */

typedef enum { ENDS_IN_BARRIER, GOES_ON_GIVING, IS_DESTROYED } next_step;

typedef struct difference {
    tdm_status (*others)(tdm_group *group, int32_t *data); /* what all but rank 0 do, which broadcasts 4 int32 */
    const char *text[2];
    next_step next;
} difference;

static tdm_status allreduces(tdm_group *group, int32_t *data)
{
    return tdm_allreduce(group, data, data, 4, TDM_I32, TDM_SUM, NULL);
}

static tdm_status takes_another_type(tdm_group *group, int32_t *data)
{
    return tdm_broadcast(group, data, 4, TDM_F32, 0, NULL);
}

static tdm_status takes_another_count(tdm_group *group, int32_t *data)
{
    return tdm_broadcast(group, data, 5, TDM_I32, 0, NULL);
}

/* Nobody waits for anybody here. */
static tdm_status takes_another_root(tdm_group *group, int32_t *data)
{
    return tdm_broadcast(group, data, 4, TDM_I32, 1, NULL);
}

static tdm_status takes_another_order(tdm_group *group, int32_t *data)
{
    const tdm_status status = tdm_broadcast(group, data, 1, TDM_I32, 0, NULL);
    return status != TDM_OK ? status : tdm_broadcast(group, data, 4, TDM_I32, 0, NULL);
}

static tdm_status gives_to_rank_0(tdm_group *group, int32_t *data)
{
    return tdm_reduce(group, data, NULL, 4, TDM_I32, TDM_SUM, 0, NULL);
}

static char logged[2048];

static void keep_line(tdmi_area area, tdmi_level level, const char *line, void *arg)
{
    (void)area, (void)arg;
    if (level == TDMI_LEVEL_ERROR)
        strncat(logged, line, sizeof logged - strlen(logged) - 1);
}

/* As many calls as it takes: a rank that gives may be 64 ahead, and hears of failures every few milliseconds. */
static tdm_status go_on(tdm_group *group, int32_t *data)
{
    tdm_status status = TDM_OK;
    for (const int64_t start = tdmi_now_ns(); status == TDM_OK && tdmi_now_ns() - start < 3 * TDMI_NS_PER_S;)
        status = tdm_broadcast(group, data, 1, TDM_I32, tdm_group_rank(group), NULL);
    return status;
}

static const char *differs(tdm_group *group, void *arg)
{
    const difference *d = arg;
    const bool first = tdm_group_rank(group) == 0;
    int32_t data[8] = {0};
    tdm_status status = first ? tdm_broadcast(group, data, 4, TDM_I32, 0, NULL) : d->others(group, data);
    CHECK(!first || status == TDM_OK || status == TDM_ERR_MISMATCH, "%s: %s", tdm_status_name(status), tdm_error_text());
    if (first && d->next == IS_DESTROYED) {
        sleep_ms(100);
        return NULL; /* and its group is destroyed */
    }
    if (status == TDM_OK)
        status = d->next == GOES_ON_GIVING ? go_on(group, data) : tdm_barrier(group, NULL);
    CHECK(status == TDM_ERR_MISMATCH, "%s: %s", tdm_status_name(status), tdm_error_text());
    for (int i = 0; i < 2; i++)
        CHECK(strstr(tdm_error_text(), d->text[i]) != NULL, "\"%s\" lacks \"%s\"", tdm_error_text(), d->text[i]);
    return NULL;
}

static const difference differences[] = {
    {.others = allreduces, .text = {"rank 0 makes broadcast of 4 int32 from rank 0", "makes allreduce of 4 int32 (sum)"}},
    {.others = takes_another_type, .text = {"broadcast of 4 int32", "broadcast of 4 float32"}},
    {.others = takes_another_count, .text = {"broadcast of 4 int32", "broadcast of 5 int32"}},
    {.others = takes_another_root, .text = {"call 2 of", "from rank 1"}},
    {.others = takes_another_order, .text = {"broadcast of 4 int32", "broadcast of 1 int32"}},
    {.others = gives_to_rank_0, .text = {"rank 0 makes broadcast of 4 int32", "makes reduce of 4 int32 (sum) to rank 0"}},
};

static void calls_that_differ_are_an_error_on_all_ranks(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof differences / sizeof *differences; i++)
        for (int n = 2; n <= 3; n++)
            for (int next = ENDS_IN_BARRIER; next <= GOES_ON_GIVING; next++) {
                difference d = differences[i];
                d.next = (next_step)next;
                ranks_run(&(ranks_spec){.n = n, .transport = "shm", .mode = (ranks_mode)((int)i + n + next) % 2}, differs, &d);
            }
}

static void a_group_that_is_destroyed_says_so_in_the_log(void **state)
{
    (void)state;
    difference d = differences[0];
    d.next = IS_DESTROYED;
    logged[0] = '\0';
    tdmi_log_set_sink(keep_line, NULL);
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, differs, &d);
    tdmi_log_set_sink(NULL, NULL);
    assert_non_null(strstr(logged, d.text[0]));
    assert_non_null(strstr(logged, d.text[1]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_only_gives_waits_for_nobody),
        cmocka_unit_test(what_was_given_stays_what_it_was),
        cmocka_unit_test(calls_that_differ_are_an_error_on_all_ranks),
        cmocka_unit_test(a_group_that_is_destroyed_says_so_in_the_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
