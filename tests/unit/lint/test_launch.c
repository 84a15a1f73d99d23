/* test_launch.c - launch lines and files of settings. */
#include "lint/launch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../files.h"

static tdmi_launch read_line(const char *line)
{
    tdmi_launch launch;
    assert_int_equal(tdmi_launch_read(line, NULL, &launch), TDM_OK);
    return launch;
}

static void words_are_split_as_a_shell_does(void **state)
{
    (void)state;
    tdmi_launch launch = read_line("python  'my script.py' \"a \\\"b\\\" \\c\" d\\ e '' \\\n f''g");
    const char *const words[] = {"python", "my script.py", "a \"b\" \\c", "d e", "", "fg"};
    assert_int_equal(launch.words, 6);
    for (size_t i = 0; i < 6; i++)
        assert_string_equal(launch.word[i].text, words[i]);
    assert_int_equal(launch.word[1].column, 9);
    assert_int_equal(launch.script, 1);
    tdmi_launch_free(&launch);
}

static void settings_in_front_belong_to_the_environment(void **state)
{
    (void)state;
    tdmi_launch launch = read_line("env A=1 OMP_NUM_THREADS=\"4\" torchrun --nnodes=2 --nproc-per-node 8 train.py B=2");
    assert_int_equal(launch.settings, 2);
    assert_string_equal(tdmi_launch_setting(&launch, "OMP_NUM_THREADS")->value, "4");
    assert_null(tdmi_launch_setting(&launch, "B"));
    assert_int_equal(launch.launcher, TDMI_TORCHRUN);
    assert_int_equal(launch.processes, 8);
    assert_string_equal(launch.word[launch.script].text, "train.py");
    tdmi_launch_free(&launch);
}

static void each_launcher_is_known(void **state)
{
    (void)state;
    const struct {
        const char *line;
        tdmi_launcher launcher;
        int processes;
    } cases[] = {
        {"torchrun train.py", TDMI_TORCHRUN, 1},
        {"/opt/venv/bin/torchrun --nproc_per_node=gpu train.py", TDMI_TORCHRUN, -1},
        {"python -m torch.distributed.run --nproc-per-node 2 train.py", TDMI_TORCHRUN, 2},
        {"python3.11 -u -m torch.distributed.launch --nproc_per_node=4 train.py", TDMI_TORCH_LAUNCH, 4},
        {"python train.py --nproc-per-node 3", TDMI_PYTHON, 0},
        {"srun -n 16 python train.py", TDMI_MANY_PROCESSES, 0},
        {"srun -N 2 torchrun --nproc-per-node 8 train.py", TDMI_TORCHRUN, 8},
        {"accelerate launch train.py", TDMI_OTHER_LAUNCHER, 0},
        {"python", TDMI_PYTHON, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tdmi_launch launch = read_line(cases[i].line);
        assert_int_equal(launch.launcher, cases[i].launcher);
        assert_int_equal(launch.processes, cases[i].processes);
        tdmi_launch_free(&launch);
    }
}

static void a_file_of_settings_has_one_a_line(void **state)
{
    (void)state;
    tdmi_launch launch;
    static const char text[] = "# NCCL\n\nNCCL_DEBUG=INFO\r\nexport  A=\"x y\" \nEMPTY=\nLAST='q'";
    const char *path = files_write("job.env", text, sizeof text - 1);
    assert_int_equal(tdmi_launch_read(NULL, path, &launch), TDM_OK);
    assert_int_equal(launch.launcher, TDMI_NO_LAUNCHER);
    assert_int_equal(launch.settings, 4);
    assert_string_equal(tdmi_launch_setting(&launch, "NCCL_DEBUG")->value, "INFO");
    assert_string_equal(tdmi_launch_setting(&launch, "A")->value, "x y");
    assert_string_equal(tdmi_launch_setting(&launch, "EMPTY")->value, "");
    assert_string_equal(tdmi_launch_setting(&launch, "LAST")->value, "q");
    assert_int_equal(tdmi_launch_setting(&launch, "LAST")->line, 6);
    tdmi_launch_free(&launch);
}

static void what_is_no_line_is_refused(void **state)
{
    (void)state;
    tdmi_launch launch;
    assert_int_equal(tdmi_launch_read("", NULL, &launch), TDM_ERR_INVALID);
    assert_int_equal(tdmi_launch_read("A=1", NULL, &launch), TDM_ERR_INVALID);
    assert_int_equal(tdmi_launch_read("torchrun \"train.py", NULL, &launch), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "word 2"));
    assert_int_equal(tdmi_launch_read("torchrun train.py", "/nowhere/job.env", &launch), TDM_ERR_BAD_FILE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_split_as_a_shell_does),
        cmocka_unit_test(settings_in_front_belong_to_the_environment),
        cmocka_unit_test(each_launcher_is_known),
        cmocka_unit_test(a_file_of_settings_has_one_a_line),
        cmocka_unit_test(what_is_no_line_is_refused),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end) != 0;
}
