/* test_settings.c - what launchers export is understood, and what is missing or wrong is named. */
#include "group/launcher.h"
#include "group/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const variables[] = {
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE", "TANDEM_TRANSPORT",
    "TANDEM_TIMEOUT", "TORCHELASTIC_USE_AGENT_STORE", "TANDEM_JOB_SECRET", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_NNODES",
    "SLURM_STEP_NUM_NODES", "SLURM_STEP_NUM_TASKS", "SLURM_NODEID", "SLURM_TASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_JOB_NODELIST", "SLURM_STEP_NODELIST", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "LWS_WORKER_INDEX", "LWS_GROUP_SIZE",
    "LWS_LEADER_ADDRESS", "JOB_COMPLETION_INDEX"};

static int clean(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    return 0;
}

static void set(const char *pairs)
{
    char copy[1024];
    strcpy(copy, pairs);
    for (char *pair = strtok(copy, " "); pair != NULL; pair = strtok(NULL, " ")) {
        char *value = strchr(pair, '=');
        *value = '\0';
        setenv(pair, value + 1, 1);
    }
}

static void each_launcher_is_understood(void **state)
{
    const char *const cases[] = {
        "RANK=3 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2",
        "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2",
        "PMI_RANK=3 PMI_SIZE=8 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2",
        "SLURM_PROCID=3 SLURM_NTASKS=8 SLURM_LOCALID=1 SLURM_NTASKS_PER_NODE=2",
    };
    for (size_t i = 0; i < 4; i++) {
        tdmi_settings s;
        clean(state);
        set(cases[i]);
        set("MASTER_ADDR=10.0.0.7 MASTER_PORT=29500");
        assert_int_equal(tdmi_settings_make(NULL, &s), TDM_OK);
        assert_int_equal(s.rank, 3);
        assert_int_equal(s.size, 8);
        assert_int_equal(s.local_rank, 1);
        assert_int_equal(s.local_size, 2);
        assert_string_equal(s.host, "10.0.0.7");
        assert_int_equal(s.port, 29500);
        assert_string_equal(s.name, "world");
        assert_true(s.timeout_s == 300 && s.rendezvous_timeout_s == 60);
    }
}

static void ranks_of_one_host_meet_without_being_told_where(void **state)
{
    const char *const cases[][3] = { /* two jobs, and what the first one's port must not depend on */
        {"SLURM_PROCID=1 SLURM_NTASKS=4 SLURM_LOCALID=1 SLURM_NNODES=1 SLURM_TASKS_PER_NODE=4 SLURM_NODEID=0 SLURM_JOB_ID=77 SLURM_STEP_ID=0",
         "SLURM_STEP_ID=1", "SLURM_PROCID=2 SLURM_LOCALID=2 SLURM_STEP_ID=0"},
        {"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_NAMESPACE=786038785",
         "PMIX_NAMESPACE=786038786", "OMPI_COMM_WORLD_RANK=2 PMIX_NAMESPACE=786038785"},
        {"PMI_RANK=1 PMI_SIZE=4 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=4", NULL, "PMI_RANK=2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tdmi_settings one, other, same;
        clean(state);
        set(cases[i][0]);
        assert_int_equal(tdmi_settings_make(NULL, &one), TDM_OK);
        assert_string_equal(one.host, "127.0.0.1");
        assert_int_equal(one.rank, 1);
        assert_int_equal(one.size, 4);
        assert_int_equal(one.local_size, 4);
        assert_in_range(one.port, 20000, 31999);
        assert_true(one.secret[0] != '\0');
        if (cases[i][1] != NULL) {
            set(cases[i][1]);
            assert_int_equal(tdmi_settings_make(NULL, &other), TDM_OK);
            assert_int_not_equal(one.port, other.port);
            assert_string_not_equal(one.secret, other.secret);
        }
        set(cases[i][2]);
        assert_int_equal(tdmi_settings_make(NULL, &same), TDM_OK);
        assert_int_equal(one.port, same.port);
        assert_string_equal(one.secret, same.secret);
        set("MASTER_PORT=1234");
        assert_int_equal(tdmi_settings_make(NULL, &same), TDM_OK);
        assert_int_equal(same.port, 1234);
    }
}

static void tasks_on_several_hosts_meet_at_the_first(void **state)
{
    tdmi_settings s;
    clean(state);
    set("SLURM_PROCID=5 SLURM_NTASKS=9 SLURM_STEP_NUM_TASKS=7 SLURM_LOCALID=1 SLURM_NODEID=2 SLURM_NNODES=3 SLURM_JOB_ID=1234567 SLURM_STEP_ID=2 "
        "SLURM_JOB_NODELIST=other[1-9] SLURM_STEP_NODELIST=gpu[07-09,12],cpu3 SLURM_STEP_TASKS_PER_NODE=2(x2),3 SLURM_TASKS_PER_NODE=9 "
        "TANDEM_JOB_SECRET=x");
    assert_int_equal(tdmi_settings_make(NULL, &s), TDM_OK);
    assert_string_equal(s.host, "gpu07");
    assert_int_equal(s.rank, 5);
    assert_int_equal(s.size, 7);
    assert_int_equal(s.local_rank, 1);
    assert_int_equal(s.local_size, 3);
    assert_string_equal(s.secret, "");
    set("MASTER_ADDR=10.1.2.3");
    assert_int_equal(tdmi_settings_make(NULL, &s), TDM_OK);
    assert_string_equal(s.host, "10.1.2.3");
    clean(state);
    set("LWS_WORKER_INDEX=1 LWS_GROUP_SIZE=3 LWS_LEADER_ADDRESS=run-0.run.default TANDEM_JOB_SECRET=x");
    assert_int_equal(tdmi_settings_make(NULL, &s), TDM_OK);
    assert_string_equal(s.host, "run-0.run.default");
    assert_int_equal(s.port, 29500);
    clean(state);
    set("JOB_COMPLETION_INDEX=2 WORLD_SIZE=3 MASTER_ADDR=run-0.run");
    assert_int_equal(tdmi_settings_make(NULL, &s), TDM_OK);
    assert_int_equal(s.rank, 2);
    assert_int_equal(s.port, 29500);
    clean(state);
    /* Hydra started by srun: its own ranks count. srun with PMI: Slurm's local ranks do. */
    set("PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 SLURM_PROCID=1 SLURM_NTASKS=2 MASTER_ADDR=a MASTER_PORT=1");
    assert_int_equal(tdmi_settings_make(NULL, &s), TDM_OK);
    assert_int_equal(s.rank, 3);
    unsetenv("MPI_LOCALRANKID");
    set("SLURM_LOCALID=0");
    assert_int_equal(tdmi_settings_make(NULL, &s), TDM_OK);
    assert_int_equal(s.rank, 1);
    clean(state);
}

static void slurms_short_forms_are_read(void **state)
{
    (void)state;
    char host[16];
    const char *const lists[][2] = {{"node1", "node1"}, {"node-a,node-b", "node-a"}, {"n[01-03,07],m", "n01"}, {"n[5]", "n5"}, {"r[1-2]n[04-09]", "r1n04"},
                                    {"n[3,1]x", "n3x"}, {"n[", NULL}, {"n[]", NULL}, {"n[a-b]", NULL}, {"n]", NULL}, {"", NULL}, {",n", NULL},
                                    {"n[1;2]", NULL}, {"a-name-that-is-too-long", NULL}, {"n[111111111111111111]", NULL}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const bool good = tdmi_slurm_first_host(lists[i][0], host, sizeof host);
        assert_int_equal(good, lists[i][1] != NULL);
        if (good)
            assert_string_equal(host, lists[i][1]);
    }
    const struct {
        const char *list;
        int node, tasks;
    } tasks[] = {{"4", 0, 4}, {"4", 1, -1}, {"2(x3),1", 2, 2}, {"2(x3),1", 3, 1}, {"2(x3),1", 4, -1}, {"", 0, -1}, {"x", 0, -1}, {"2(x", 0, -1},
                 {"2(x3", 0, -1}, {"2;3", 1, -1}, {"0", 0, -1}, {"4", -1, -1}, {"2,3,4", 1, 3}};
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
        assert_int_equal(tdmi_slurm_tasks_on(tasks[i].list, tasks[i].node), tasks[i].tasks);
}

static void the_store_of_torchruns_agent_is_left_alone(void **state)
{
    (void)state;
    tdmi_settings s;
    set("RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=29500 TORCHELASTIC_USE_AGENT_STORE=True");
    assert_int_equal(tdmi_settings_make(NULL, &s), TDM_OK);
    assert_int_equal(s.port, 29501);
}

static void options_win_over_the_environment(void **state)
{
    (void)state;
    tdm_group_options options;
    tdmi_settings s;
    tdm_group_options_init(&options);
    options.rank = 0;
    options.size = 1;
    options.transport = "tcp";
    options.timeout_s = 2.5;
    set("RANK=3 WORLD_SIZE=8 TANDEM_TRANSPORT=shm TANDEM_TIMEOUT=7");
    assert_int_equal(tdmi_settings_make(&options, &s), TDM_OK);
    assert_int_equal(s.size, 1);
    assert_true(s.force_links && !s.force_local && s.timeout_s == 2.5);
}

static void what_is_missing_or_wrong_is_named(void **state)
{
    const struct {
        const char *variables, *text;
    } cases[] = {
        {"LOCAL_RANK=0", "RANK is not set"},
        {"RANK=0", "WORLD_SIZE is not set"},
        {"RANK=x WORLD_SIZE=2", "RANK is \"x\""},
        {"RANK=-1 WORLD_SIZE=2", "RANK is \"-1\""},
        {"RANK=1 WORLD_SIZE=2.5", "WORLD_SIZE is \"2.5\""},
        {"RANK=1 WORLD_SIZE=99999999999", "WORLD_SIZE is \"99999999999\""},
        {"RANK=2 WORLD_SIZE=2", "RANK is 2, but WORLD_SIZE is 2"},
        {"RANK=1 WORLD_SIZE=2 LOCAL_RANK=zero", "LOCAL_RANK is \"zero\""},
        {"RANK=1 WORLD_SIZE=2", "MASTER_ADDR is not set"},
        {"RANK=1 WORLD_SIZE=2 MASTER_ADDR=localhost", "MASTER_PORT is not set"},
        {"RANK=1 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=70000", "MASTER_PORT is \"70000\""},
        {"SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_NNODES=2 SLURM_JOB_NODELIST=n[1-2] SLURM_JOB_ID=1 SLURM_STEP_ID=0",
         "the ranks meet at n1, over the network, and the job has no secret: put `export TANDEM_JOB_SECRET="},
        {"SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_NNODES=2 SLURM_JOB_NODELIST=n[ SLURM_JOB_ID=1 SLURM_STEP_ID=0", "whose first host is not clear"},
        {"SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_NNODES=1 SLURM_JOB_ID=1 SLURM_STEP_ID=4294967291", "this is the script of a Slurm job, not one of its 2 tasks"},
        {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2", "MASTER_ADDR is not set; set it to the host of rank 0"},
        {"JOB_COMPLETION_INDEX=0", "WORLD_SIZE is not set"},
        {"JOB_COMPLETION_INDEX=0 WORLD_SIZE=2", "set it to the first pod: JOB-0.SERVICE"},
        {"LWS_WORKER_INDEX=1 LWS_GROUP_SIZE=3 LWS_LEADER_ADDRESS=run-0", "set TANDEM_JOB_SECRET to the same value in all pods"},
        {"RANK=0 WORLD_SIZE=1 TANDEM_TRANSPORT=pigeon", "TANDEM_TRANSPORT is \"pigeon\"; there are auto, shm, tcp, ucx and shm+ucx"},
        {"RANK=0 WORLD_SIZE=1 TANDEM_TIMEOUT=soon", "TANDEM_TIMEOUT"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tdmi_settings s;
        clean(state);
        set(cases[i].variables);
        assert_int_equal(tdmi_settings_make(NULL, &s), TDM_ERR_INVALID);
        if (strstr(tdm_error_text(), cases[i].text) == NULL)
            fail_msg("\"%s\" gives \"%s\", which lacks \"%s\"", cases[i].variables, tdm_error_text(), cases[i].text);
    }
    clean(state);
}

static void options_are_checked(void **state)
{
    (void)state;
    tdm_group_options options;
    tdmi_settings s;
    tdm_group_options_init(&options);
    options.rank = 2;
    options.size = 2;
    assert_int_equal(tdmi_settings_make(&options, &s), TDM_ERR_INVALID);
    options.rank = 0;
    options.size = 1;
    options.timeout_s = -1;
    assert_int_equal(tdmi_settings_make(&options, &s), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "timeout_s is -1 seconds"));
    options.timeout_s = 1;
    options.name = "a/b";
    assert_int_equal(tdmi_settings_make(&options, &s), TDM_ERR_INVALID);
    options.name = "";
    assert_int_equal(tdmi_settings_make(&options, &s), TDM_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_launcher_is_understood, clean),
        cmocka_unit_test_setup(ranks_of_one_host_meet_without_being_told_where, clean),
        cmocka_unit_test_setup(tasks_on_several_hosts_meet_at_the_first, clean),
        cmocka_unit_test(slurms_short_forms_are_read),
        cmocka_unit_test_setup(the_store_of_torchruns_agent_is_left_alone, clean),
        cmocka_unit_test_setup(options_win_over_the_environment, clean),
        cmocka_unit_test_setup(what_is_missing_or_wrong_is_named, clean),
        cmocka_unit_test_setup(options_are_checked, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
