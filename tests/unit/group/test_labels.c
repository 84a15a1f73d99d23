/* test_labels.c - what a caller calls its calls stands in every rank's error: of calls that differ, and of those that nobody else
 * came to, with where the missing ranks are instead. */
#include "on_ranks.h"

#include "core/clock.h"

#include <tandem/message.h>
#include <tandem/recorder.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const transports[] = {"shm", "tcp"};
static atomic_int *shared; /* ranks that are done: one that left would be missed in another way */

static void meet_at(int number)
{
    atomic_fetch_add(shared, 1);
    for (int i = 0; i < 20000 && atomic_load(shared) < number; i++)
        nanosleep(&(struct timespec){.tv_nsec = TDMI_NS_PER_MS}, NULL);
}

static void on_all(const char *(*body)(tdm_group *, void *), double timeout_s)
{
    for (int t = 0; t < 2; t++)
        for (int mode = 0; mode < 2; mode++) {
            const bool is_tcp = t == 1;
            atomic_store(shared, 0);
            ranks_run(&(ranks_spec){.n = 3, .transport = transports[t], .mode = mode ? RANKS_PROCESSES : RANKS_THREADS, .timeout_s = timeout_s}, body,
                      (void *)&is_tcp);
        }
}

/* ---- different calls ---- */

static const char *differs(tdm_group *group, void *arg)
{
    (void)arg;
    float values[2000] = {0};
    tdm_status status = TDM_OK;
    char label[300], text[1100];
    const int rank = tdm_group_rank(group);
    for (int i = 0; i < 3; i++) { /* over slots that had other labels */
        snprintf(label, sizeof label, "a call before, with a longer name than those that follow it have, number %d", i);
        tdm_group_set_label(group, label);
        CHECK_OK(tdm_barrier(group, NULL));
    }
    snprintf(label, sizeof label, rank == 0 ? "all_reduce of default_pg" : "broadcast of default_pg");
    tdm_group_set_label(group, label);
    for (int i = 0; i < 2 && status == TDM_OK; i++) /* the root of a broadcast waits for nobody */
        status = rank == 0 ? tdm_allreduce(group, values, values, 2000, TDM_F32, TDM_SUM, NULL)
                           : tdm_broadcast(group, values, 2000, TDM_F32, 1, NULL);
    snprintf(text, sizeof text, "%s", tdm_error_text());
    meet_at(3);
    CHECK(status == TDM_ERR_MISMATCH, "status %s: %s", tdm_status_name(status), text);
    CHECK(strstr(text, "rank 0 makes allreduce of 2000 float32 (sum) [all_reduce of default_pg], but rank ") != NULL, "text: %s", text);
    CHECK(strstr(text, " makes broadcast of 2000 float32 from rank 1 [broadcast of default_pg]") != NULL, "text: %s", text);
    return NULL;
}

static void different_calls_are_named_as_their_callers_do(void **state)
{
    (void)state;
    on_all(differs, 20);
}

/* ---- nobody comes ---- */

static const char *is_alone(tdm_group *group, void *arg)
{
    const bool is_tcp = *(const bool *)arg;
    const int rank = tdm_group_rank(group);
    float value = 1;
    char text[1100];
    tdm_status status = TDM_OK;
    tdm_group_set_label(group, "step 1");
    CHECK_OK(tdm_allreduce(group, &value, &value, 1, TDM_F32, TDM_MAX, NULL));
    tdm_group_set_label(group, "step 2, whatever it may be called");
    if (rank == 0)
        status = tdm_allreduce(group, &value, &value, 1, TDM_F32, TDM_SUM, NULL);
    if (rank == 1)
        status = tdm_recv(group, &value, 1, TDM_F32, 2, 9, NULL, NULL);
    while (rank == 2 && status == TDM_OK) { /* looks, and makes no call that waits */
        tdm_work *work;
        nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 300 * TDMI_NS_PER_MS}, NULL);
        status = tdm_send(group, &value, 1, TDM_F32, 0, 1, &work);
        if (status == TDM_OK)
            status = tdm_work_wait(work);
    }
    snprintf(text, sizeof text, "%s", tdm_error_text());
    meet_at(3);
    CHECK(status == TDM_ERR_TIMEOUT, "status %s: %s", tdm_status_name(status), text);
    if (strstr(text, "call 3") != NULL) {
        CHECK(strstr(text, "call 3 of group world, allreduce of 1 float32 (sum) [step 2, whatever it may be called]: ranks 1, 2 did not arrive") != NULL,
              "text: %s", text);
        CHECK(strstr(text, "; rank 1 waits for a message from rank 2 with tag 9 [step 2, whatever it may be called] in group world") != NULL,
              "text: %s", text);
    } else {
        CHECK(strstr(text, "rank 1 waits for a message from rank 2 with tag 9 [step 2, whatever it may be called]; none came") != NULL, "text: %s",
              text);
    }
    CHECK(strstr(text, "; rank 2 is in no call that is known here") != NULL, "text: %s", text);
    CHECK(is_tcp || strstr(text, "; the last of this group was call 2, allreduce of 1 float32 (max) [step 1]") != NULL, "text: %s", text);
    return NULL;
}

static void who_does_not_come_is_said_to_be_elsewhere(void **state)
{
    (void)state;
    on_all(is_alone, 0.8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(different_calls_are_named_as_their_callers_do),
        cmocka_unit_test(who_does_not_come_is_said_to_be_elsewhere),
    };
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
