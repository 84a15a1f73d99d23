/* test_train_failure.c - `tandem train` however it is ended: everything ends, the message says why, and the run can go on. */
#include "training.h"

#include "core/clock.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static bool shm_is_private;

static void sleep_us(int64_t us)
{
    nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000}, NULL);
}

/* A run that saves at each step: most of its time is saving. */
#define ENDLESS "--save-every", "1", "--steps", "100000", "--schedule", "constant", "--warmup", "0", "--eval-every", "1000"

/* It must have ended within two seconds of `since_ns`, by the death of this rank, and left nothing. */
static void assert_killed(program *p, int victim, int64_t since_ns, const char *when)
{
    char expected[96];
    double took = (double)(tdmi_now_ns() - since_ns) * 1e-9;
    if (took > 2)
        fail_msg("%s: ended %.2f s after the kill: %.2000s", when, took, p->err);
    snprintf(expected, sizeof expected, "tandem train: rank %d was ended by SIGKILL (Killed)", victim);
    if (p->code != 137 || strstr(p->err, expected) == NULL || count_of(p->err, "\n") > 3)
        fail_msg("%s: rank %d killed; exit code %d: %.2000s", when, victim, p->code, p->err);
    program_done(p, 0);
    if (shm_is_private && shm_files() != 0)
        fail_msg("%s: %d files are left in /dev/shm", when, shm_files());
}

/* Two more steps, and every step once. */
static void assert_goes_on(const char *run, const char *when)
{
    int64_t last = 0;
    char steps[24];
    for (int64_t step = 1; step < 100000; step++) {
        bool found = exists(in_folder("%s/step-%lld/state.json", run, (long long)step));
        if (found)
            last = step;
        else if (last > 0)
            break;
    }
    snprintf(steps, sizeof steps, "%lld", (long long)last + 2);
    program p;
    TRAIN(&p, "gpt2", ENDLESS, "-n", "3", "--steps", steps, "--run", in_folder("%s", run), "--resume");
    if (p.code != 0 || *p.err != '\0')
        fail_msg("%s: resuming after step %lld: %.2000s", when, (long long)last, p.err);
    program_done(&p, 1);
    run_lines lines = read_metrics(in_folder("%s", run));
    assert_steps(&lines, (size_t)last + 2);
    free(lines.line);
}

static void a_rank_killed_at_the_start_ends_all(void **state)
{
    (void)state;
    static const int after_us[] = {0, 3000, 6000, 12000, 25000};
    for (int i = 0; i < 5; i++) {
        program p;
        pid_t pids[3];
        char when[64];
        TRAIN_START(&p, "gpt2", ENDLESS, "-n", "3", "--run", in_folder("start-%d", i));
        await_ranks(&p, pids, 3);
        sleep_us(after_us[i]);
        kill(pids[i % 3], SIGKILL);
        int64_t now_ns = tdmi_now_ns();
        snprintf(when, sizeof when, "%d us after the start", after_us[i]);
        program_wait(&p, 20);
        assert_killed(&p, i % 3, now_ns, when);
    }
}

static void a_rank_killed_at_any_moment_ends_all_and_the_run_goes_on(void **state)
{
    (void)state;
    unsigned seed = (unsigned)tdmi_now_ns();
    for (int i = 0; i < 8; i++) {
        program p;
        pid_t pids[3];
        char when[96], run[32];
        unsigned begin = seed;
        seed = seed * 1103515245u + 12345u;
        int victim = (int)(seed >> 16) % 3, us = (int)(seed >> 8) % 30000;
        snprintf(run, sizeof run, "moment-%d", i);
        TRAIN_START(&p, "gpt2", ENDLESS, "-n", "3", "--run", in_folder("%s", run));
        await_file(in_folder("%s/step-%d", run, 1 + i % 3));
        assert_int_equal(ranks_of(&p, pids, 3), 3);
        sleep_us(us);
        kill(pids[victim], SIGKILL);
        snprintf(when, sizeof when, "%d us after a checkpoint (seed %u)", us, begin);
        int64_t now_ns = tdmi_now_ns();
        program_wait(&p, 20);
        if (count_of(p.err, "is the newest checkpoint; the same command with --resume goes on from it\n") != 1)
            fail_msg("%s: %s", when, p.err);
        assert_killed(&p, victim, now_ns, when);
        assert_goes_on(run, when);
    }
}

static void a_killed_launcher_leaves_nothing(void **state)
{
    (void)state;
    program p;
    TRAIN_START(&p, "gpt2", ENDLESS, "-n", "3", "--run", in_folder("launcher"));
    await_file(in_folder("launcher/step-2"));
    kill(p.pid, SIGKILL);
    program_wait(&p, 10);
    program_done(&p, 2);
    if (shm_is_private)
        assert_int_equal(shm_files(), 0);
    assert_goes_on("launcher", "the launcher was killed");
}

static void an_interrupt_ends_within_a_second_and_offers_to_resume(void **state)
{
    (void)state;
    program p;
    char expected[400];
    TRAIN_START(&p, "gpt2", "-n", "2", "--save-every", "5", "--steps", "100000", "--run", in_folder("interrupted"));
    await_file(in_folder("interrupted/step-5"));
    kill(p.pid, SIGINT);
    int64_t start_ns = tdmi_now_ns();
    program_wait(&p, 10);
    assert_true(tdmi_now_ns() - start_ns < TDMI_NS_PER_S);
    assert_int_equal(strncmp(p.err, "tandem train: interrupted after step ", 37), 0);
    assert_int_equal(count_of(p.err, "\n"), 2);
    snprintf(expected, sizeof expected, "tandem train: %s/step-", in_folder("interrupted"));
    assert_non_null(strstr(p.err, expected));
    assert_ended(&p, 130, " is the newest checkpoint; the same command with --resume goes on from it\n");
    program q;
    TRAIN_START(&q, "gpt2", "-n", "2", "--steps", "100000", "--run", in_folder("unsaved"));
    await_file(in_folder("unsaved/metrics.jsonl"));
    kill(q.pid, SIGINT);
    program_wait(&q, 10);
    assert_ended(&q, 130, "tandem train: no checkpoint was written yet\n");
}

/* A step of some seconds: plain kernels, a wide layer. */
#define HEAVY "-n", "2", "--width", "512", "--heads", "8", "--seq", "256", "--batch", "4", "--vocab", "4096", "--steps", "100"

/* Seconds from SIGINT, in its first step, to the end. */
static double time_to_interrupt(const char *run)
{
    program p;
    setenv("TANDEM_ISA", "plain", 1);
    TRAIN_START(&p, "gpt2", HEAVY, "--run", in_folder("%s", run));
    unsetenv("TANDEM_ISA");
    await_file(in_folder("%s/metrics.jsonl", run));
    sleep_us(300000);
    kill(p.pid, SIGINT);
    int64_t start_ns = tdmi_now_ns();
    program_wait(&p, 10);
    double took = (double)(tdmi_now_ns() - start_ns) * 1e-9;
    char *metrics = read_file(in_folder("%s/metrics.jsonl", run), NULL);
    assert_string_equal(metrics, "");
    free(metrics);
    assert_ended(&p, 130, "no checkpoint was written yet\n");
    if (shm_is_private)
        assert_int_equal(shm_files(), 0);
    return took;
}

static void a_long_step_is_interrupted_too(void **state)
{
    (void)state;
    double took = 9; /* of several: other processes may keep this machine busy */
    for (int i = 0; i < 4 && took > 1; i++) {
        char run[16];
        snprintf(run, sizeof run, "heavy-%d", i);
        took = fmin(took, time_to_interrupt(run));
    }
    if (took > 1)
        fail_msg("ended after %.2f s", took);
}

static void a_second_signal_kills_at_once(void **state)
{
    (void)state;
    program p;
    setenv("TANDEM_ISA", "plain", 1);
    TRAIN_START(&p, "gpt2", HEAVY, "--run", in_folder("twice"));
    unsetenv("TANDEM_ISA");
    await_file(in_folder("twice/metrics.jsonl"));
    sleep_us(100000);
    kill(p.pid, SIGTERM);
    sleep_us(100000);
    assert_true(program_left(&p) >= 3); /* it finishes its step */
    kill(p.pid, SIGTERM);
    int64_t start_ns = tdmi_now_ns();
    program_wait(&p, 10);
    assert_true(tdmi_now_ns() - start_ns < TDMI_NS_PER_S);
    assert_ended(&p, 143, "");
}

static void a_lone_rank_reacts_to_signals_without_a_launcher(void **state)
{
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM};
    for (int i = 0; i < 2; i++) {
        program p;
        const char *run = in_folder("lone-%d", i);
        START(&p, "env", "RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=1",
              tandem_path, "train", "gpt2", "--data", in_folder("text.txt"), "--vocab", "256", "--width", "32", "--heads", "2", "--seq", "16",
              "--batch", "2", "--layers", "1", "-q", "--save-every", "5", "--steps", "100000", "--run", run);
        await_file(in_folder("lone-%d/step-5", i));
        kill(p.pid, signals[i]);
        program_wait(&p, 10);
        assert_int_equal(count_of(p.err, "\n"), 2);
        assert_non_null(strstr(p.err, i == 0 ? "interrupted after step " : "stopped by SIGTERM after step "));
        assert_ended(&p, 128 + signals[i], "is the newest checkpoint; the same command with --resume goes on from it\n");
    }
}

/* ---- a full disk ---- */

static void no_space_leaves_the_checkpoint_of_before(void **state)
{
    (void)state;
    const char *disk = in_folder("disk"), *run = in_folder("disk/run");
    mkdir(disk, 0777);
    if (geteuid() != 0 || mount("none", disk, "tmpfs", 0, "size=1500k") != 0) {
        print_message("skipped: a small file system needs root\n");
        skip();
    }
    program p; /* a checkpoint takes about 650 KiB: the third finds no room */
    TRAIN(&p, "gpt2", "-n", "2", "--save-every", "2", "--steps", "8", "--run", run);
    if (p.code != 5 || strstr(p.err, "no space for ") == NULL || strstr(p.err, " bytes, ") == NULL)
        fail_msg("exit code %d: %s", p.code, p.err);
    if (count_of(p.err, "\n") != 2 || count_of(p.err, "while saving") != 1)
        fail_msg("more than two lines: %s", p.err);
    assert_non_null(strstr(p.err, "saving step 6"));
    assert_non_null(strstr(p.err, "disk/run/step-4 is the newest checkpoint; the same command with --resume goes on from it\n"));
    program_done(&p, 1);
    assert_true(exists(in_folder("disk/run/step-2/state.json")));
    assert_false(exists(in_folder("disk/run/.step-6.tmp-new")));
    char command[400];
    snprintf(command, sizeof command, "rm -r '%s'", in_folder("disk/run/step-2"));
    assert_int_equal(system(command), 0);
    TRAIN_WELL("gpt2", "-n", "2", "--steps", "5", "--run", run, "--resume"); /* step 4 is whole */
}

static int end(void **state)
{
    umount(in_folder("disk"));
    return training_end(state);
}

/* ---- more ranks than cores ---- */

static double cpu_seconds_of_children(void)
{
    struct rusage use;
    getrusage(RUSAGE_CHILDREN, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) + (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-6;
}

static void more_ranks_than_cores_work_without_spinning(void **state)
{
    (void)state;
    static const char *const ranks[] = {"1", "2", "5"}, *const batches[] = {"10", "5", "2"};
    double cpu[3];
    run_lines lines[3];
    for (int i = 0; i < 3; i++) {
        double before = cpu_seconds_of_children();
        TRAIN_WELL("gpt2", "-n", ranks[i], "--batch", batches[i], "--width", "64", "--seq", "64", "--steps", "30", "--run",
                   in_folder("crowd-%d", i));
        cpu[i] = cpu_seconds_of_children() - before;
        lines[i] = read_metrics(in_folder("crowd-%d", i));
        assert_steps(&lines[i], 30);
    }
    for (int i = 1; i < 3; i++)
        for (int step = 0; step < 30; step++)
            if (!(fabs(lines[i].line[step].loss - lines[0].line[step].loss) <= 1e-5 * lines[0].line[step].loss))
                fail_msg("%s ranks, step %d: loss %.9g, on one %.9g", ranks[i], step + 1, lines[i].line[step].loss, lines[0].line[step].loss);
    for (int i = 0; i < 3; i++)
        free(lines[i].line);
    if (cpu[2] > 3 * cpu[1])
        fail_msg("five ranks used %.2f s of CPU, two %.2f s", cpu[2], cpu[1]);
}

int main(int argc, char **argv)
{
    program_paths(argc, argv);
    shm_is_private = private_shm();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_killed_at_the_start_ends_all),
        cmocka_unit_test(a_rank_killed_at_any_moment_ends_all_and_the_run_goes_on),
        cmocka_unit_test(a_killed_launcher_leaves_nothing),
        cmocka_unit_test(an_interrupt_ends_within_a_second_and_offers_to_resume),
        cmocka_unit_test(a_long_step_is_interrupted_too),
        cmocka_unit_test(a_second_signal_kills_at_once),
        cmocka_unit_test(a_lone_rank_reacts_to_signals_without_a_launcher),
        cmocka_unit_test(no_space_leaves_the_checkpoint_of_before),
        cmocka_unit_test(more_ranks_than_cores_work_without_spinning),
    };
    return cmocka_run_group_tests(tests, training_begin, end) != 0;
}
