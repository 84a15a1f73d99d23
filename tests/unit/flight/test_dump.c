/* test_dump.c - dumps in JSON form: what is read of a call, and attacks that share one large part among all calls. */
#include "flight/dump.h"

#include "core/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static tdm_status read_text(const char *text, tdmi_flight_dump *dump)
{
    return tdmi_flight_dump_read((const uint8_t *)text, strlen(text), dump);
}

static void a_call_is_read_with_its_sizes_and_times(void **state)
{
    (void)state;
    tdmi_flight_dump dump;
    assert_int_equal(read_text("{\"version\":\"2.10\",\"pg_config\":{\"7\":{\"desc\":\"mesh\",\"name\":\"7\",\"ranks\":\"[0, 4, 8]\"}},\"entries\":[{\"profiling_name\":\"nccl:_reduce_scatter_base\","
                               "\"process_group\":[\"7\",\"me\\u0073h\"],\"collective_seq_id\":12,\"p2p_seq_id\":3,\"record_id\":99,\"input_sizes\":[[4,8],[2]],\"output_sizes\":[[8]],"
                               "\"input_dtypes\":[\"BFloat16\",\"Float\"],\"state\":\"started\",\"time_created_ns\":1700000000000000000,\"time_discovered_started_ns\":1700000000000000001,"
                               "\"time_discovered_completed_ns\":null,\"retired\":false,\"is_p2p\":false,\"timeout_ms\":600000}]}",
                               &dump),
                     TDM_OK);
    const tdmi_flight_call *c = &dump.call[0];
    assert_int_equal(dump.calls, 1);
    assert_string_equal(c->backend, "nccl");
    assert_string_equal(c->op, "reduce_scatter_base");
    assert_string_equal(c->description, "mesh");
    assert_string_equal(c->dtype, "BFloat16");
    assert_int_equal(c->in_elements, 34);
    assert_int_equal(c->out_elements, 8);
    assert_int_equal(c->sequence, 12);
    assert_int_equal(c->record, 99);
    assert_int_equal(c->state, TDMI_FLIGHT_STARTED);
    assert_true(c->created_ns == 1700000000000000000 && c->started_ns == c->created_ns + 1 && c->completed_ns == 0);
    assert_int_equal(dump.groups, 1);
    assert_int_equal(dump.group[0].ranks, 3);
    assert_int_equal(dump.group[0].rank[2], 8);
    tdmi_flight_dump_free(&dump);
}

static void what_is_no_dump_is_refused(void **state)
{
    (void)state;
    tdmi_flight_dump dump;
    const char *texts[] = {"", "{", "[", "{}", "null", "{\"entries\":1}", "{\"entries\":[1]}", "{\"entries\":[{}]}", "{\"entries\":[{\"profiling_name\":1}]}", "{\"entries\":[]} x", "{\"entries\" []}", "{entries:[]}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (read_text(texts[i], &dump) != TDM_ERR_BAD_FILE)
            fail_msg("%s was read", texts[i]);
    assert_int_equal(read_text("{\"entries\":[],\"version\":\"2.4\",\"x\":[NaN,Infinity,1e999,9223372036854775808,\"\\ud83d\\ude00\"]}", &dump), TDM_OK);
    tdmi_flight_dump_free(&dump);
}

/* "]" of 2^20 sizes that are one list, in 2^12 calls that are one dict: 2^32 steps if nobody counted them. */
static void shared_parts_cost_no_more_than_they_have_bytes(void **state)
{
    (void)state;
    const size_t half = (size_t)3 << 20;
    char *bytes = malloc(half), *at = bytes;
    tdmi_flight_dump dump;
    memcpy(at, "\x80\x02](", 4), at += 4;                        /* sizes: one list, many times */
    for (int i = 0; i < 1 << 16; i++)
        memcpy(at, "K\x01", 2), at += 2;
    memcpy(at, "eq\x00" "0](", 6), at += 6;                      /* dims, memo 0 */
    for (int i = 0; i < 1 << 16; i++)
        memcpy(at, "h\x00", 2), at += 2;
    memcpy(at, "eq\x01" "0}(", 6), at += 6;                      /* tensors, memo 1 */
    const char members[] = "X\x0e\x00\x00\x00profiling_nameX\x06\x00\x00\x00nccl:aX\x0b\x00\x00\x00input_sizesh\x01uq\x02" "0](";
    memcpy(at, members, sizeof members - 1), at += sizeof members - 1;
    for (int i = 0; i < 1 << 12; i++)
        memcpy(at, "h\x02", 2), at += 2;
    memcpy(at, "e.", 2), at += 2;
    const int64_t start_ns = tdmi_now_ns();
    assert_int_equal(tdmi_flight_dump_read((const uint8_t *)bytes, (size_t)(at - bytes), &dump), TDM_ERR_BAD_FILE);
    assert_non_null(strstr(tdm_error_text(), "steps"));
    assert_true(tdmi_now_ns() - start_ns < 10 * TDMI_NS_PER_S);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_call_is_read_with_its_sizes_and_times), cmocka_unit_test(what_is_no_dump_is_refused),
                                       cmocka_unit_test(shared_parts_cost_no_more_than_they_have_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
