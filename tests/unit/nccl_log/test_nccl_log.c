/* test_nccl_log.c - what lines say, and that no log takes more memory than the tables' limits. */
#include "core/memory.h"
#include "nccl_log/nccl_log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static tdmi_nccl_log *read_lines(const char *const *lines, size_t count)
{
    tdmi_nccl_log *log;
    assert_int_equal(tdmi_nccl_log_create(&log), TDM_OK);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(tdmi_nccl_log_line(log, lines[i], strlen(lines[i])), TDM_OK);
    assert_int_equal(tdmi_nccl_log_finish(log), TDM_OK);
    return log;
}
#define READ(...) read_lines((const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static void pairs_belong_to_the_communicator_that_is_made(void **state)
{
    (void)state;
    /* before 2.18 the communicator's line comes last; ranks of the second one are other numbers */
    tdmi_nccl_log *log = READ("a:1:1 [0] NCCL INFO Channel 00 : 0[1000] -> 1[2000] via P2P/IPC", "a:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 4 cudaDev 0 busId 1000 - Init COMPLETE",
                              "a:1:1 [0] NCCL INFO Channel 00 : 0[1000] -> 1[2000] via direct shared memory",
                              "a:1:1 [0] NCCL INFO comm 0x2 rank 0 nranks 2 cudaDev 0 busId 1000 - Init COMPLETE");
    assert_int_equal(log->pairs, 2);
    assert_int_equal(log->comms, 2);
    assert_int_equal(log->comm[log->pair[0].comm].ranks, 4);
    tdmi_nccl_log_free(log);
}

static void names_of_networks_may_have_spaces(void **state)
{
    (void)state;
    tdmi_nccl_log *log = READ("a:1:1 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/AWS Libfabric/3/GDRDMA/Shared",
                              "a:1:1 [0] NCCL INFO Channel 01/0 : 0[0] -> 8[0] [send] via NET/IBext_v8/1(4)/GDRDMA(PCI)", "a:1:1 [0] NCCL INFO Channel 01/0 : 0[0] -> 9[0] [send] via NET/Socket/0");
    assert_int_equal(log->pairs, 3);
    assert_string_equal(log->pair[0].way, "AWS Libfabric");
    assert_true(log->pair[0].gdr && log->pair[0].is_receive);
    assert_int_equal(log->pair[0].devices, 8);
    assert_string_equal(log->pair[1].way, "IBext_v8");
    assert_true(log->pair[1].gdr && !log->pair[1].is_receive);
    assert_string_equal(log->pair[2].way, "Socket");
    assert_false(log->pair[2].gdr);
    tdmi_nccl_log_free(log);
}

static void merged_adapters_and_sockets_are_read(void **state)
{
    (void)state;
    tdmi_nccl_log *log =
        READ("a:1:1 [0] NCCL INFO NET/IB : Using [0]={[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE} [1]mlx5_2:1/IB [RO]; OOB bond0:10.1.2.3<0>", "a:1:1 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.9<0>",
             "a:1:1 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.9<0> [1]ib0:fe80::1%ib0<0>", "a:1:1 [0] NCCL INFO NET/Socket: Using 2 threads and 1 sockets per thread");
    assert_string_equal(log->host[0].adapters, "[0]={[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE} [1]mlx5_2:1/IB");
    assert_string_equal(log->host[0].address, "10.1.2.3");
    assert_string_equal(log->host[0].sockets, "eth0 ib0");
    assert_int_equal(log->host[0].infiniband, TDMI_NCCL_YES);
    tdmi_nccl_log_free(log);
}

static void distances_have_the_names_of_their_release(void **state)
{
    (void)state;
    const struct {
        int minor, patch, number;
        const char *name;
    } cases[] = {{4, 2, 3, "SYS"}, {4, 8, 3, "NODE"}, {5, 7, 4, "SYS"}, {7, 8, 4, "PHB"}, {10, 3, 5, "PHB"}, {14, 3, 6, "PHB"}, {20, 5, 8, "DIS"}, {22, 3, 8, "NET"},
                 {26, 2, 7, "PHB"}, {27, 3, 6, "PXN"}, {27, 3, 7, "P2C"}, {27, 5, 6, "P2C"}, {30, 7, 9, "SYS"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tdmi_nccl_path path = tdmi_nccl_path_of_number(TDMI_NCCL_VERSION(cases[i].minor, cases[i].patch), cases[i].number);
        assert_string_equal(path < TDMI_NCCL_PATHS ? tdmi_nccl_path_name[path] : "?", cases[i].name);
    }
    assert_int_equal(tdmi_nccl_path_of_number(TDMI_NCCL_VERSION(30, 7), 99), TDMI_NCCL_PATHS);
    assert_int_equal(tdmi_nccl_path_of_number(0, 1), TDMI_NCCL_PATHS);
}

static void split_communicators_are_met_by_colour(void **state)
{
    (void)state;
    tdmi_nccl_log *log = READ("a:1:1 [0] NCCL INFO ncclCommSplit comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 parent 0x9 splitCount 1 color 7 key 0- Init START",
                              "a:1:1 [0] NCCL INFO ncclCommSplit comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 parent 0x9 splitCount 1 color 7 key 0 - Init COMPLETE",
                              "a:2:2 [1] NCCL INFO ncclCommSplit comm 0x5 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 2000 parent 0x8 splitCount 1 color 7 key 1 - Init COMPLETE");
    assert_int_equal(log->comms, 1);
    assert_int_equal(log->comm[0].members, 2);
    tdmi_nccl_log_free(log);
}

/* A million lines that all say something new. */
static void memory_stays_within_the_tables(void **state)
{
    (void)state;
    tdmi_nccl_log *log;
    char line[256];
    const size_t before = tdmi_memory_held();
    assert_int_equal(tdmi_nccl_log_create(&log), TDM_OK);
    for (int i = 0; i < 1000000; i++) {
        const int n = snprintf(line, sizeof line,
                               i % 3 == 0   ? "host%d:%d:1 [0] NCCL INFO Channel 00/0 : %d[0] -> %d[0] [send] via NET/Net%d/0"
                               : i % 3 == 1 ? "host%d:%d:1 [0] NCCL INFO comm 0x1 rank %d nranks 99999999 cudaDev 0 busId %d commId 0x%d - Init START"
                                            : "host%d:%d:1 [0] x.cc:1 NCCL WARN something %d new %d %d",
                               i, i, i, i, i);
        assert_int_equal(tdmi_nccl_log_line(log, line, (size_t)n), TDM_OK);
    }
    assert_int_equal(tdmi_nccl_log_finish(log), TDM_OK);
    assert_true(log->not_kept > 0);
    assert_true(tdmi_memory_held() - before < (size_t)64 << 20);
    tdmi_nccl_log_free(log);
    assert_int_equal(tdmi_memory_held(), before);
}

static void a_file_without_a_line_of_nccl_is_refused_by_name(void **state)
{
    (void)state;
    char path[64];
    tdmi_nccl_log *log;
    snprintf(path, sizeof path, "/tmp/test-nccl-log-%d", (int)getpid());
    FILE *file = fopen(path, "w");
    fputs("hello\n", file);
    fclose(file);
    const char *paths[] = {path};
    assert_int_equal(tdmi_nccl_log_read(paths, 1, &log), TDM_ERR_BAD_FILE);
    assert_non_null(strstr(tdm_error_text(), path));
    file = fopen(path, "w"); /* one line without an end, longer than any buffer */
    for (int i = 0; i < 1 << 20; i++)
        fputs("node1:1:2 [0] NCCL INFO x", file);
    fclose(file);
    assert_int_equal(tdmi_nccl_log_read(paths, 1, &log), TDM_OK);
    assert_true(log->records > (1 << 20) - 1000);
    tdmi_nccl_log_free(log);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_belong_to_the_communicator_that_is_made),
        cmocka_unit_test(names_of_networks_may_have_spaces),
        cmocka_unit_test(merged_adapters_and_sockets_are_read),
        cmocka_unit_test(distances_have_the_names_of_their_release),
        cmocka_unit_test(split_communicators_are_met_by_colour),
        cmocka_unit_test(memory_stays_within_the_tables),
        cmocka_unit_test(a_file_without_a_line_of_nccl_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
