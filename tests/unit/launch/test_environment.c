/* test_environment.c - the variables of a rank. */
#include "launch/environment.h"

#include "core/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int times(char *const *environment, const char *start)
{
    int count = 0;
    for (; *environment != NULL; environment++)
        count += strncmp(*environment, start, strlen(start)) == 0;
    return count;
}

static void a_rank_gets_what_torchrun_exports_and_keeps_the_rest(void **state)
{
    (void)state;
    setenv("RANK", "stale", 1);
    setenv("KEPT_BY_TEST", "yes", 1);
    tdmi_rank_place place = {.rank = 5, .size = 8, .local_rank = 1, .local_size = 4, .node_rank = 1, .nodes = 2, .master_address = "10.0.0.1",
                             .master_port = 1234, .job_id = "job", .job_secret = "secret", .launcher = "test", .threads = 3, .log_dir = "/logs"};
    char **environment;
    assert_int_equal(tdmi_environment_create(&place, &environment), TDM_OK);
    static const char *const expected[] = {
        "RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=4", "GROUP_RANK=1", "GROUP_WORLD_SIZE=2", "ROLE_NAME=default",
        "ROLE_RANK=5", "ROLE_WORLD_SIZE=8", "MASTER_ADDR=10.0.0.1", "MASTER_PORT=1234", "TORCHELASTIC_RUN_ID=job",
        "TORCHELASTIC_RESTART_COUNT=0", "TORCHELASTIC_MAX_RESTARTS=0", "TORCHELASTIC_USE_AGENT_STORE=False",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING=1", "TANDEM_JOB_ID=job", "TANDEM_JOB_SECRET=secret", "TANDEM_LAUNCHER=test", "OMP_NUM_THREADS=3",
        "TORCHELASTIC_ERROR_FILE=/logs/rank-5.error.json", "KEPT_BY_TEST=yes",
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_int_equal(times(environment, expected[i]), 1);
        char name[64];
        strncpy(name, expected[i], sizeof name - 1)[strcspn(expected[i], "=") + 1] = '\0';
        assert_int_equal(times(environment, name), 1);
    }
    tdmi_free(environment);
    place.threads = 0;
    place.log_dir = NULL;
    setenv("OMP_NUM_THREADS", "7", 1);
    assert_int_equal(tdmi_environment_create(&place, &environment), TDM_OK);
    assert_int_equal(times(environment, "OMP_NUM_THREADS=7"), 1);
    assert_int_equal(times(environment, "TORCHELASTIC_ERROR_FILE="), 0);
    tdmi_free(environment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_gets_what_torchrun_exports_and_keeps_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
