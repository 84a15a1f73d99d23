/* test_bench.c - bandwidths and sizes, and that one wrong element is seen and makes the exit code 1. */
#include "bench.h"
#include "command.h"

#include "measure/pattern.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* The linker sends the command's allreduces here (--wrap): one element of float data can be spoilt on the way. */
static bool spoils;
tdm_status __real_tdm_allreduce(tdm_group *group, const void *in, void *out, size_t count, tdm_dtype dtype, tdm_op op, tdm_work **work);
tdm_status __wrap_tdm_allreduce(tdm_group *group, const void *in, void *out, size_t count, tdm_dtype dtype, tdm_op op, tdm_work **work);
tdm_status __wrap_tdm_allreduce(tdm_group *group, const void *in, void *out, size_t count, tdm_dtype dtype, tdm_op op, tdm_work **work)
{
    tdm_status st = __real_tdm_allreduce(group, in, out, count, dtype, op, work);
    if (spoils && dtype == TDM_F32)
        ((float *)out)[count / 2] += 1;
    return st;
}

/* Runs the command as the only rank; its stdout goes to `text`. */
static int run_alone(char **argv, char *text, size_t capacity)
{
    int argc = 0, old = dup(STDOUT_FILENO);
    FILE *file = tmpfile();
    while (argv[argc] != NULL)
        argc++;
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "1", 1);
    fflush(stdout);
    dup2(fileno(file), STDOUT_FILENO);
    int code = cli_bench.run(argc, argv);
    fflush(stdout);
    dup2(old, STDOUT_FILENO);
    close(old);
    rewind(file);
    text[fread(text, 1, capacity - 1, file)] = '\0';
    fclose(file);
    return code;
}

static void one_wrong_element_is_counted_and_fails_the_command(void **state)
{
    (void)state;
    char text[4096], words[][20] = {"bench", "allreduce", "-b", "4K", "-e", "4K", "-i", "2", "--json"};
    for (int spoilt = 0; spoilt < 2; spoilt++) {
        char *argv[10] = {NULL};
        for (int i = 0; i < 9; i++)
            argv[i] = words[i];
        spoils = spoilt == 1;
        assert_int_equal(run_alone(argv, text, sizeof text), spoilt);
        assert_non_null(strstr(text, spoilt ? "\"wrong\":1}" : "\"wrong\":0}"));
        assert_null(strstr(text, spoilt ? "\"wrong\":0}" : "\"wrong\":1}"));
    }
    spoils = false;
}

static void bus_bandwidth_is_what_a_link_moves(void **state)
{
    (void)state;
    static const double factors[BENCH_OP_COUNT] = {
        [BENCH_ALLREDUCE] = 1.5,   [BENCH_REDUCE_SCATTER] = 0.75,   [BENCH_ALL_GATHER] = 0.75,   [BENCH_BROADCAST] = 1,
        [BENCH_REDUCE] = 1,        [BENCH_GATHER] = 0.75,           [BENCH_SCATTER] = 0.75,      [BENCH_ALLTOALL] = 0.75,
        [BENCH_SENDRECV] = 1,      [BENCH_PARAMETER_SERVER] = 1.5,  [BENCH_DATA_PARALLEL] = 1.5, [BENCH_BARRIER] = 0,
    };
    for (int op = 0; op < BENCH_OP_COUNT; op++) {
        const bench_plan plan = {.op = (bench_op)op, .dtype = TDM_F32};
        bench_line line = {.plan = &plan, .ranks = 4, .bytes = 1000000, .time_us = 500};
        bench_bandwidths(&line);
        assert_true(line.algbw_gbps == 2 && line.busbw_gbps == 2 * factors[op]);
        line.ranks = 1;
        bench_bandwidths(&line);
        assert_true(line.busbw_gbps == 0);
        line.time_us = 0;
        bench_bandwidths(&line);
        assert_true(line.algbw_gbps == 0 && line.busbw_gbps == 0);
    }
}

static void sizes_are_those_of_the_larger_buffer(void **state)
{
    (void)state;
    const bench_plan sum = {.op = BENCH_ALLREDUCE, .dtype = TDM_F32}, gather = {.op = BENCH_ALL_GATHER, .dtype = TDM_F16};
    assert_int_equal(bench_count(&sum, 4, 4096), 1024);
    assert_int_equal(bench_bytes(&sum, 4, 1024), 4096);
    assert_int_equal(bench_count(&gather, 4, 4096), 512);
    assert_int_equal(bench_bytes(&gather, 4, 512), 4096);
    assert_int_equal(bench_count(&gather, 4, 1), 1); /* at least one element a rank */
}

static void every_type_is_measured_and_what_does_not_exist_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *dtype, *op;
        int code;
    } cases[] = {{"bool", "bxor", 0}, {"complex64", "prod", 0}, {"u64", "avg", 0}, {"uint32", "band", 0}, {"bool", "avg", 2},
                 {"float16", "bor", 2}, {"float31", "sum", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[4096], words[][20] = {"bench", "allreduce", "-b", "4K", "-e", "4K", "-i", "2", "--json", "-d", "", "-o", ""};
        char *argv[14] = {NULL};
        snprintf(words[10], sizeof words[10], "%s", cases[i].dtype);
        snprintf(words[12], sizeof words[12], "%s", cases[i].op);
        for (int k = 0; k < 13; k++)
            argv[k] = words[k];
        assert_int_equal(run_alone(argv, text, sizeof text), cases[i].code);
        assert_true(cases[i].code != 0 || strstr(text, "\"wrong\":0}") != NULL);
    }
}

/* Rank 2 of 4: what arrives in each operation, written by hand from the inputs; then one element is spoilt. */
static void each_operation_knows_its_result(void **state)
{
    (void)state;
    enum { N = 4, RANK = 2, ROOT = 2, COUNT = 5 };
    int32_t in[N][N * COUNT], blocks[2][N * COUNT], sum[N * COUNT] = {0};
    for (int r = 0; r < N; r++) {
        tdmi_pattern_fill(TDM_I32, TDM_SUM, r, 0, in[r], N * COUNT);
        for (int i = 0; i < N * COUNT; i++)
            sum[i] += in[r][i];
    }
    for (int op = 0; op < BENCH_OP_COUNT; op++) {
        const bench_plan plan = {.op = (bench_op)op, .dtype = TDM_I32, .redop = TDM_SUM, .root = ROOT};
        for (int in_place = 0; in_place < 2 && op != BENCH_BARRIER; in_place++) {
            if (in_place == 1 ? !bench_ops[op].in_place : !bench_ops[op].out_of_place)
                continue;
            bench_call c = {.plan = &plan, .rank = RANK, .ranks = N, .count = COUNT};
            unsigned char *const places[2] = {(unsigned char *)blocks[0], (unsigned char *)blocks[1]};
            bench_call_place(&c, places, in_place == 1);
            bench_call_fill(&c);
            if (op != BENCH_BROADCAST && op != BENCH_SCATTER) /* the root has its own already */
                assert_int_not_equal(bench_call_wrong(&c), 0);
            int32_t *out = (int32_t *)(void *)c.out;
            for (int r = 0; r < N; r++)
                for (int i = 0; i < COUNT; i++) {
                    if (op == BENCH_ALL_GATHER || op == BENCH_GATHER)
                        out[r * COUNT + i] = in[r][i];
                    else if (op == BENCH_ALLTOALL)
                        out[r * COUNT + i] = in[r][RANK * COUNT + i];
                    else if (r == 0)
                        out[i] = op == BENCH_REDUCE_SCATTER ? sum[RANK * COUNT + i] : op == BENCH_BROADCAST ? in[ROOT][i]
                               : op == BENCH_SCATTER ? in[ROOT][RANK * COUNT + i] : op == BENCH_SENDRECV ? in[RANK - 1][i] : sum[i];
                }
            assert_int_equal(bench_call_wrong(&c), 0);
            out[COUNT - 1]++;
            assert_int_equal(bench_call_wrong(&c), 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_wrong_element_is_counted_and_fails_the_command),
        cmocka_unit_test(every_type_is_measured_and_what_does_not_exist_is_refused),
        cmocka_unit_test(bus_bandwidth_is_what_a_link_moves),
        cmocka_unit_test(each_operation_knows_its_result),
        cmocka_unit_test(sizes_are_those_of_the_larger_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
