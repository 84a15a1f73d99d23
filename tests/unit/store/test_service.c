/* test_service.c - the server's requests without sockets. */
#include "store/service.h"

#include "core/memory.h"
#include "store/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static tdm_status feed(tdmi_service *service, tdmi_member *member, tdmi_store_op op, uint64_t id, const char *key, const char *value)
{
    uint8_t bytes[512];
    tdmi_store_frame_header(bytes, &(tdmi_store_frame){.code = (uint8_t)op, .id = id, .key_nbytes = strlen(key), .value_nbytes = strlen(value)});
    memcpy(bytes + TDMI_STORE_FRAME_HEADER, key, strlen(key));
    memcpy(bytes + TDMI_STORE_FRAME_HEADER + strlen(key), value, strlen(value));
    return tdmi_service_feed(service, member, bytes, TDMI_STORE_FRAME_HEADER + strlen(key) + strlen(value));
}

/* Takes the member's next answer; NULL if there is none. */
static const char *next_answer(tdmi_member *member, uint64_t *id)
{
    static char value[256];
    tdmi_store_frame frame;
    int64_t taken = tdmi_store_frame_parse(tdmi_buffer_front(&member->out), tdmi_buffer_held(&member->out), false, &frame);
    assert_true(taken >= 0);
    if (taken == 0)
        return NULL;
    memcpy(value, frame.value, frame.value_nbytes);
    value[frame.value_nbytes] = '\0';
    *id = frame.id;
    tdmi_buffer_take(&member->out, (size_t)taken);
    return value;
}

static void a_get_is_parked_until_another_member_sets_the_key(void **state)
{
    (void)state;
    tdmi_service service = {0};
    tdmi_member a = {0}, b = {0};
    uint64_t id;
    assert_int_equal(feed(&service, &a, TDMI_STORE_GET, 7, "k", ""), TDM_OK);
    assert_null(next_answer(&a, &id));
    assert_null(tdmi_service_next_ready(&service));
    assert_int_equal(feed(&service, &b, TDMI_STORE_SET, 1, "k", "v"), TDM_OK);
    assert_string_equal(next_answer(&a, &id), "v");
    assert_int_equal(id, 7);
    assert_non_null(tdmi_service_next_ready(&service));
    assert_non_null(tdmi_service_next_ready(&service));
    assert_null(tdmi_service_next_ready(&service));
    tdmi_service_leave(&service, &a);
    tdmi_service_leave(&service, &b);
    tdmi_service_free(&service);
}

static void a_cancelled_get_is_never_answered(void **state)
{
    (void)state;
    tdmi_service service = {0};
    tdmi_member a = {0};
    uint64_t id;
    assert_int_equal(feed(&service, &a, TDMI_STORE_GET, 7, "k", ""), TDM_OK);
    assert_int_equal(feed(&service, &a, TDMI_STORE_CANCEL, 7, "", ""), TDM_OK);
    assert_int_equal(feed(&service, &a, TDMI_STORE_SET, 8, "k", "v"), TDM_OK);
    assert_string_equal(next_answer(&a, &id), "");
    assert_int_equal(id, 8);
    assert_null(next_answer(&a, &id));
    tdmi_service_leave(&service, &a);
    tdmi_service_free(&service);
}

static void a_will_is_an_offer_made_when_its_member_leaves(void **state)
{
    (void)state;
    size_t held = tdmi_memory_held();
    tdmi_service service = {0};
    tdmi_member a = {0}, b = {0}, c = {0};
    uint64_t id;
    assert_int_equal(feed(&service, &a, TDMI_STORE_WILL, 1, "end", "first draft"), TDM_OK);
    assert_int_equal(feed(&service, &a, TDMI_STORE_WILL, 2, "end", "a died"), TDM_OK);
    assert_int_equal(feed(&service, &c, TDMI_STORE_WILL, 1, "end", "c died"), TDM_OK);
    assert_int_equal(feed(&service, &b, TDMI_STORE_GET, 3, "end", ""), TDM_OK);
    tdmi_service_leave(&service, &a);
    assert_string_equal(next_answer(&b, &id), "a died");
    tdmi_service_leave(&service, &c); /* later offers change nothing */
    assert_string_equal(tdmi_table_find(&service.table, "end")->value, "a died");
    tdmi_service_leave(&service, &b);
    tdmi_service_free(&service);
    assert_int_equal(tdmi_memory_held(), held);
}

static void frames_may_arrive_byte_by_byte_and_several_at_once(void **state)
{
    (void)state;
    tdmi_service service = {0};
    tdmi_member a = {0};
    static const uint8_t bytes[] = {1, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 'k', 'v',
                                    2, 0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 'k'};
    uint64_t id;
    for (size_t i = 0; i < sizeof bytes; i++)
        assert_int_equal(tdmi_service_feed(&service, &a, bytes + i, 1), TDM_OK);
    assert_string_equal(next_answer(&a, &id), "");
    assert_string_equal(next_answer(&a, &id), "v");
    assert_int_equal(tdmi_service_feed(&service, &a, bytes, sizeof bytes), TDM_OK);
    assert_string_equal(next_answer(&a, &id), "");
    assert_string_equal(next_answer(&a, &id), "v");
    tdmi_service_leave(&service, &a);
    tdmi_service_free(&service);
}

static void a_member_that_sends_no_frame_is_to_be_dropped(void **state)
{
    (void)state;
    tdmi_service service = {0};
    tdmi_member a = {0};
    assert_int_equal(tdmi_service_feed(&service, &a, "GET / HTTP/1.1\r\n", 16), TDM_ERR_MISMATCH);
    tdmi_service_leave(&service, &a);
    tdmi_service_free(&service);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_get_is_parked_until_another_member_sets_the_key),
        cmocka_unit_test(a_cancelled_get_is_never_answered),
        cmocka_unit_test(a_will_is_an_offer_made_when_its_member_leaves),
        cmocka_unit_test(frames_may_arrive_byte_by_byte_and_several_at_once),
        cmocka_unit_test(a_member_that_sends_no_frame_is_to_be_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
