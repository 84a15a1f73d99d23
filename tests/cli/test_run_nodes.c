/* test_run_nodes.c - `tandem run` on two nodes: the network of network.h. */
#include "network.h"

#include "core/clock.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define RENDEZVOUS NETWORK_NODE_0 ":29400"

/* Starts a node's launcher in its namespace. */
static void start_node(program *p, int node, const char *ranks, const char *secret, const char *const *words)
{
    const char *all[48] = {"TANDEM", "run", "-q", "-n", ranks, "--nnodes", "2", "--node-rank", node == 0 ? "0" : "1",
                           "--rdzv", RENDEZVOUS, "--timeout", "10", "--grace", "0.5"};
    size_t n = 15;
    for (; *words != NULL; words++)
        all[n++] = *words;
    network_start(p, node, secret, all);
}

#define NODE(p, node, ranks, ...) start_node(p, node, ranks, "TANDEM_JOB_SECRET=s3", (const char *const[]){__VA_ARGS__, NULL})

static void nodes_agree_on_ranks_and_addresses(void **state)
{
    (void)state;
    program p[2];
    static const char script[] = "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE $MASTER_ADDR:$MASTER_PORT $TANDEM_JOB_ID";
    NODE(&p[1], 1, "1", "sh", "-c", script);
    NODE(&p[0], 0, "2", "sh", "-c", script);
    for (int i = 0; i < 2; i++) {
        program_wait(&p[i], 10);
        if (p[i].code != 0)
            fail_msg("node %d: code %d: %s", i, p[i].code, p[i].err);
    }
    assert_non_null(strstr(p[0].out, ":0] 0/3 0/2 0/2 10.77.0.1:"));
    assert_non_null(strstr(p[0].out, ":1] 1/3 1/2 0/2 10.77.0.1:"));
    assert_non_null(strstr(p[1].out, ":2] 2/3 0/1 1/2 10.77.0.1:"));
    assert_ptr_equal(strchr(p[1].out, '['), p[1].out); /* [host:rank] */
    char *tail = strstr(p[1].out, "10.77.0.1:"); /* the same port and job id on both */
    tail[strcspn(tail, "\n")] = '\0';
    assert_int_equal(count_of(p[0].out, tail), 2);
    program_done(&p[0], 0);
    program_done(&p[1], 0);
}

static void programs_of_the_library_meet_across_nodes(void **state)
{
    (void)state;
    program p[2];
    NODE(&p[0], 0, "2", "RANK", "meet");
    NODE(&p[1], 1, "1", "RANK", "meet");
    for (int i = 0; i < 2; i++) {
        program_wait(&p[i], 10);
        if (p[i].code != 0)
            fail_msg("node %d: code %d: %s", i, p[i].code, p[i].err);
        program_done(&p[i], 0);
    }
}

/* Two nodes of two ranks: 2(M-1)/M = 1 time the data leaves each node, however many ranks it has. */
static void the_cable_carries_one_copy_of_a_sum(void **state)
{
    (void)state;
    const double data = 3 * 1048576.0;
    const long long before[2] = {network_sent(0), network_sent(1)};
    program p[2];
    for (int node = 0; node < 2; node++)
        NODE(&p[node], node, "2", "RANK", "allreduce", "3", "1048576");
    for (int node = 0; node < 2; node++) {
        program_wait(&p[node], 20);
        if (p[node].code != 0)
            fail_msg("node %d: code %d: %s", node, p[node].code, p[node].err);
        program_done(&p[node], 0);
    }
    for (int node = 0; node < 2; node++) {
        const double copies = (double)(network_sent(node) - before[node]) / data;
        if (copies < 1 || copies > 1.2) /* headers, and what it takes to meet */
            fail_msg("%.2f copies left node %d", copies, node);
    }
}

static void a_failed_rank_ends_both_nodes_with_its_code(void **state)
{
    (void)state;
    program p[2];
    NODE(&p[0], 0, "2", "sleep", "60");
    NODE(&p[1], 1, "1", "sh", "-c", "sleep 0.3; echo sad words >&2; exit 9");
    for (int i = 0; i < 2; i++) {
        program_wait(&p[i], 8);
        assert_int_equal(p[i].code, 9);
        assert_non_null(strstr(p[i].err, "rank 2 (node 1) ended with exit code 9; its last line on stderr: sad words"));
        program_done(&p[i], 0);
    }
}

static void a_rank_that_lost_a_peer_on_another_node_is_not_the_culprit(void **state)
{
    (void)state;
    program p[2];
    NODE(&p[0], 0, "1", "sh", "-c", "exit 4");
    NODE(&p[1], 1, "1", "sh", "-c", "sleep 0.15; kill -KILL $$");
    for (int i = 0; i < 2; i++) {
        program_wait(&p[i], 8);
        if (p[i].code != 137 || strstr(p[i].err, "rank 1 (node 1) was ended by SIGKILL") == NULL)
            fail_msg("node %d: code %d: %s", i, p[i].code, p[i].err);
        program_done(&p[i], 0);
    }
}

static void a_signal_to_one_launcher_ends_both_nodes(void **state)
{
    (void)state;
    program p[2];
    NODE(&p[0], 0, "1", "sh", "-c", "echo ready; exec sleep 60");
    NODE(&p[1], 1, "1", "sh", "-c", "echo ready; exec sleep 60");
    program_await(&p[0], "ready", 1);
    program_await(&p[1], "ready", 1);
    kill(p[1].pid, SIGTERM);
    for (int i = 0; i < 2; i++) {
        program_wait(&p[i], 8);
        assert_int_equal(p[i].code, 143);
    }
    assert_non_null(strstr(p[0].err, "node 1 was told to end by SIGTERM"));
    program_done(&p[0], 0);
    program_done(&p[1], 0);
}

static void a_killed_launcher_ends_the_other_node(void **state)
{
    (void)state;
    for (int victim = 0; victim < 2; victim++) {
        program p[2];
        NODE(&p[0], 0, "1", "sh", "-c", "echo ready; exec sleep 60");
        NODE(&p[1], 1, "1", "sh", "-c", "echo ready; exec sleep 60");
        program_await(&p[0], "ready", 1);
        program_await(&p[1], "ready", 1);
        kill(p[victim].pid, SIGKILL);
        program_wait(&p[!victim], 8);
        assert_int_equal(p[!victim].code, 4);
        assert_non_null(strstr(p[!victim].err, victim == 0 ? "node 0 is lost" : "the launcher of node 1"));
        program_wait(&p[victim], 8);
        program_done(&p[0], 1);
        program_done(&p[1], 1);
    }
}

static void a_missing_node_is_named(void **state)
{
    (void)state;
    program p;
    NODE(&p, 0, "1", "--timeout", "0.5", "true");
    program_wait(&p, 8);
    assert_int_equal(p.code, 4);
    assert_non_null(strstr(p.err, "node 1 of 2 did not come to " RENDEZVOUS));
    program_done(&p, 0);
    NODE(&p, 1, "1", "--timeout", "0.5", "true");
    program_wait(&p, 8);
    assert_int_equal(p.code, 4);
    assert_non_null(strstr(p.err, "nobody answers at 10.77.0.1:29400"));
    program_done(&p, 0);
}

static void another_secret_is_refused(void **state)
{
    (void)state;
    program p[2];
    NODE(&p[0], 0, "1", "--timeout", "1", "true");
    start_node(&p[1], 1, "1", "TANDEM_JOB_SECRET=other", (const char *const[]){"true", NULL});
    program_wait(&p[1], 8);
    assert_int_equal(p[1].code, 1);
    assert_non_null(strstr(p[1].err, "set TANDEM_JOB_SECRET to the same value on all nodes"));
    program_wait(&p[0], 8);
    assert_int_equal(p[0].code, 4);
    program_done(&p[0], 0);
    program_done(&p[1], 0);
}

static void a_cut_cable_is_noticed(void **state)
{
    (void)state;
    program p[2];
    NODE(&p[0], 0, "1", "sh", "-c", "echo ready; exec sleep 60");
    NODE(&p[1], 1, "1", "sh", "-c", "echo ready; exec sleep 60");
    program_await(&p[0], "ready", 1);
    program_await(&p[1], "ready", 1);
    int64_t start_ns = tdmi_now_ns();
    network_cable(false);
    for (int i = 0; i < 2; i++) {
        program_wait(&p[i], 15);
        assert_int_equal(p[i].code, 4);
    }
    assert_true(tdmi_now_ns() - start_ns < 12 * TDMI_NS_PER_S);
    network_cable(true);
    program_done(&p[0], 1);
    program_done(&p[1], 1);
}

int main(int argc, char **argv)
{
    program_paths(argc, argv);
    if (!network_make()) {
        printf("skipped: two network namespaces need root and the commands ip and nsenter\n");
        return 77; /* meson's word for skipped */
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_agree_on_ranks_and_addresses),
        cmocka_unit_test(programs_of_the_library_meet_across_nodes),
        cmocka_unit_test(the_cable_carries_one_copy_of_a_sum),
        cmocka_unit_test(a_failed_rank_ends_both_nodes_with_its_code),
        cmocka_unit_test(a_rank_that_lost_a_peer_on_another_node_is_not_the_culprit),
        cmocka_unit_test(a_signal_to_one_launcher_ends_both_nodes),
        cmocka_unit_test(a_killed_launcher_ends_the_other_node),
        cmocka_unit_test(a_missing_node_is_named),
        cmocka_unit_test(another_secret_is_refused),
        cmocka_unit_test(a_cut_cable_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
