/* test_train_nodes.c - `tandem train` over several nodes: the bits of one node, and clear words when nodes do not fit together. */
#include "network.h"
#include "training.h"

#include "core/clock.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define STEPS 12
#define SHAPE "--steps", "12", "--layers", "2", "--bucket-mb", "0.03", "--dropout", "0.1", "--lr", "1e-3", "--warmup", "2"

/* ---- virtual nodes: TANDEM_NODE_ID ---- */

/* `ranks` on nodes of `each` ranks. */
static void train_on_virtual_nodes(const char *ranks, const char *each, const char *run, const char *clip)
{
    program p;
    const char *words[64], *all[64] = {"TANDEM", "run", "-q", "-n", ranks, "--", "sh", "-c",
        "EACH=$1; shift; TANDEM_NODE_ID=node$((RANK / EACH)) exec \"$@\"", "sh", each, tandem_path};
    train_words("gpt2", (const char *const[]){SHAPE, "--clip", clip, "--run", run, NULL}, words);
    for (size_t i = 1; words[i] != NULL; i++)
        all[11 + i] = words[i];
    program_start(&p, all);
    program_wait(&p, 30);
    assert_ended(&p, 0, "");
}

static void virtual_nodes_have_the_bits_of_one_node(void **state)
{
    (void)state;
    static const struct {
        const char *ranks, *each, *clip;
    } cases[] = {{"2", "1", "1"}, {"2", "1", "0"}, {"3", "2", "1"}, {"4", "2", "0"}};
    for (int i = 0; i < 4; i++) {
        const char *one = in_folder("one-%d", i), *many = in_folder("many-%d", i);
        TRAIN_WELL("gpt2", "-n", cases[i].ranks, SHAPE, "--clip", cases[i].clip, "--run", one);
        train_on_virtual_nodes(cases[i].ranks, cases[i].each, many, cases[i].clip);
        run_lines a = read_metrics(one), b = read_metrics(many);
        assert_steps(&a, STEPS);
        assert_steps(&b, STEPS);
        assert_same_lines(&a, &b, 0, STEPS);
        free(a.line);
        free(b.line);
        assert_same_checkpoints(in_folder("one-%d/step-12", i), in_folder("many-%d/step-12", i));
    }
}

/* ---- two hosts ---- */

#define RENDEZVOUS NETWORK_NODE_0 ":29500"
#define SECRET "TANDEM_JOB_SECRET=a-secret-of-this-test"

static bool has_network;

static void start_node(program *p, int node, const char *secret, const char *const *words)
{
    const char *all[64], *more[32] = {"--nnodes", "2", "--node-rank", node == 0 ? "0" : "1", "--rdzv", RENDEZVOUS, "-n", "1", "--timeout", "20"};
    for (size_t n = 10; *words != NULL; words++)
        more[n++] = *words;
    train_words("gpt2", more, all);
    network_start(p, node, secret, all);
}
#define NODE(p, node, secret, ...) start_node(p, node, secret, (const char *const[]){__VA_ARGS__, NULL})

static void two_hosts_have_the_bits_of_one(void **state)
{
    (void)state;
    if (!has_network)
        skip();
    program p[2];
    const char *one = in_folder("one-host"), *two = in_folder("two-hosts");
    TRAIN_WELL("gpt2", "-n", "2", SHAPE, "--run", one);
    for (int node = 0; node < 2; node++)
        NODE(&p[node], node, SECRET, SHAPE, "--run", two, "--steps", "7", "--schedule", "cosine");
    for (int node = 0; node < 2; node++) {
        program_wait(&p[node], 30);
        assert_ended(&p[node], 0, "");
    }
    assert_true(exists(in_folder("two-hosts/step-7/state.json")));
    for (int node = 0; node < 2; node++)
        NODE(&p[node], node, SECRET, SHAPE, "--run", in_folder("two-again"));
    for (int node = 0; node < 2; node++) {
        program_wait(&p[node], 30);
        assert_string_equal(p[node].err, "");
        assert_ended(&p[node], 0, "");
    }
    run_lines a = read_metrics(one), b = read_metrics(in_folder("two-again"));
    assert_steps(&b, STEPS);
    assert_same_lines(&a, &b, 0, STEPS);
    free(a.line);
    free(b.line);
    assert_same_checkpoints(in_folder("one-host/step-12"), in_folder("two-again/step-12"));
}

static void a_wrong_option_is_said_on_each_host(void **state)
{
    (void)state;
    if (!has_network)
        skip();
    program p[2];
    for (int node = 0; node < 2; node++)
        NODE(&p[node], node, SECRET, "--data", in_folder("missing.txt"), "--run", in_folder("wrong"));
    for (int node = 0; node < 2; node++) {
        program_wait(&p[node], 20);
        assert_ended(&p[node], 3, "missing.txt: No such file or directory");
    }
}

static void another_secret_is_refused(void **state)
{
    (void)state;
    if (!has_network)
        skip();
    program p[2];
    NODE(&p[0], 0, SECRET, "--timeout", "2", "--run", in_folder("secret"));
    NODE(&p[1], 1, "TANDEM_JOB_SECRET=another", "--timeout", "2", "--run", in_folder("secret"));
    program_wait(&p[1], 20);
    assert_ended(&p[1], 1, "set TANDEM_JOB_SECRET to the same value on all nodes");
    program_wait(&p[0], 20);
    assert_ended(&p[0], 4, "node 1 of 2 did not come to " RENDEZVOUS);
    assert_false(exists(in_folder("secret")));
}

static void no_secret_is_refused_before_anything_starts(void **state)
{
    (void)state;
    program p;
    TRAIN(&p, "gpt2", "--nnodes", "2", "--rdzv", "127.0.0.1:1");
    assert_ended(&p, 2, "a job on several nodes needs a secret: set TANDEM_JOB_SECRET to the same value on all nodes");
}

static void a_killed_rank_ends_both_hosts(void **state)
{
    (void)state;
    if (!has_network)
        skip();
    program p[2];
    pid_t pids[2];
    for (int node = 0; node < 2; node++)
        NODE(&p[node], node, SECRET, "--save-every", "3", "--steps", "100000", "--run", in_folder("killed"));
    await_file(in_folder("killed/step-3"));
    assert_int_equal(ranks_of(&p[0], pids, 2), 2); /* the job has node 0's name */
    kill(pids[1], SIGKILL);
    int64_t start_ns = tdmi_now_ns();
    for (int node = 0; node < 2; node++) {
        program_wait(&p[node], 20);
        assert_true(tdmi_now_ns() - start_ns < 3 * TDMI_NS_PER_S);
        if (strstr(p[node].err, "rank 1 (node 1) was ended by SIGKILL") == NULL)
            fail_msg("node %d: exit code %d: %s", node, p[node].code, p[node].err);
        assert_int_equal(count_of(p[node].err, "--resume goes on from it"), node == 0);
        assert_ended(&p[node], 137, "");
    }
}

static void a_signal_to_one_host_saves_on_both(void **state)
{
    (void)state;
    if (!has_network)
        skip();
    program p[2];
    for (int node = 0; node < 2; node++)
        NODE(&p[node], node, SECRET, "--steps", "100000", "--run", in_folder("stopped"), "--json");
    program_await(&p[0], "\"step\":20,", 1);
    kill(p[1].pid, SIGTERM);
    for (int node = 0; node < 2; node++) {
        program_wait(&p[node], 20);
        assert_int_equal(p[node].code, 143);
    }
    assert_non_null(strstr(p[0].err, "stopped by SIGTERM after step "));
    assert_non_null(strstr(p[0].err, "is the newest checkpoint; the same command with --resume goes on from it\n"));
    program_done(&p[0], 1);
    program_done(&p[1], 1);
}

static void a_folder_that_is_not_shared_is_named(void **state)
{
    (void)state;
    if (!has_network)
        skip();
    program p[2];
    NODE(&p[0], 0, SECRET, "--steps", "3", "--run", in_folder("local-0"));
    NODE(&p[1], 1, SECRET, "--steps", "3", "--run", in_folder("local-1")); /* what differs here differs on disks of two hosts */
    for (int node = 0; node < 2; node++) {
        program_wait(&p[node], 20);
        assert_ended(&p[node], 2, "rank 1 does not see what rank 0 wrote there; the folder must lie on a file system that all nodes share");
    }
    assert_false(exists(in_folder("local-0")));
}

int main(int argc, char **argv)
{
    program_paths(argc, argv);
    setenv("OMP_NUM_THREADS", "1", 1); /* both "hosts" are this one */
    has_network = network_make();
    if (!has_network)
        print_message("two network namespaces need root and the commands ip and nsenter: tests of two hosts are skipped\n");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(virtual_nodes_have_the_bits_of_one_node),
        cmocka_unit_test(two_hosts_have_the_bits_of_one),
        cmocka_unit_test(a_wrong_option_is_said_on_each_host),
        cmocka_unit_test(another_secret_is_refused),
        cmocka_unit_test(no_secret_is_refused_before_anything_starts),
        cmocka_unit_test(a_killed_rank_ends_both_hosts),
        cmocka_unit_test(a_signal_to_one_host_saves_on_both),
        cmocka_unit_test(a_folder_that_is_not_shared_is_named),
    };
    return cmocka_run_group_tests(tests, training_begin, training_end) != 0;
}
