/* test_settings.c - what launchers export is understood, and what is missing or wrong is named. */
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
    "TANDEM_TIMEOUT", "TORCHELASTIC_USE_AGENT_STORE"};

static int clean(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    return 0;
}

static void set(const char *pairs)
{
    char copy[512];
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
        cmocka_unit_test_setup(the_store_of_torchruns_agent_is_left_alone, clean),
        cmocka_unit_test_setup(options_win_over_the_environment, clean),
        cmocka_unit_test_setup(what_is_missing_or_wrong_is_named, clean),
        cmocka_unit_test_setup(options_are_checked, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
