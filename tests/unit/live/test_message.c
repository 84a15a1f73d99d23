/* test_message.c - datagrams as PyTorch 2.13 sent them, and others. */
#include "live/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Mask 3, job 77, three processes. */
static const uint8_t poll[] = {
    28, 0, 0, 0, 0, 0, 0, 0, 'r', 'e', 'q', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    3, 0, 0, 0, 3, 0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0, 0xd6, 0x0e, 0, 0, 0xcc, 0x0e, 0, 0, 0x10, 0, 0, 0,
};

static void a_poll_names_the_process_and_those_above_it(void **state)
{
    (void)state;
    tdmi_poll read;
    assert_int_equal(tdmi_message_read(poll, sizeof poll, &read), TDMI_MESSAGE_POLL);
    assert_true(read.idle);
    assert_int_equal(read.count, 3);
    assert_int_equal(read.pids[0], 3798);
    assert_int_equal(read.pids[1], 3788);
    assert_int_equal(read.pids[2], 16);
}

static void a_process_that_traces_is_not_idle(void **state)
{
    (void)state;
    uint8_t bytes[sizeof poll];
    tdmi_poll read;
    memcpy(bytes, poll, sizeof poll);
    for (int mask = 0; mask < 4; mask++) {
        bytes[40] = (uint8_t)mask;
        assert_int_equal(tdmi_message_read(bytes, sizeof bytes, &read), TDMI_MESSAGE_POLL);
        assert_int_equal(read.idle, mask == 2 || mask == 3); /* newer ones know no bit 1 */
    }
}

static void a_poll_that_is_cut_or_longer_than_it_says_is_none(void **state)
{
    (void)state;
    uint8_t bytes[sizeof poll + 8] = {0};
    tdmi_poll read;
    memcpy(bytes, poll, sizeof poll);
    for (size_t nbytes = 0; nbytes <= sizeof bytes; nbytes++)
        if (nbytes != sizeof poll)
            assert_int_equal(tdmi_message_read(bytes, nbytes, &read), TDMI_MESSAGE_OTHER);
}

static void counts_and_numbers_that_cannot_be_are_refused(void **state)
{
    (void)state;
    uint8_t bytes[sizeof poll];
    tdmi_poll read;
    memcpy(bytes, poll, sizeof poll);
    memset(bytes + 44, 0xff, 4); /* 2^32 - 1 processes */
    assert_int_equal(tdmi_message_read(bytes, sizeof bytes, &read), TDMI_MESSAGE_OTHER);
    memcpy(bytes, poll, sizeof poll);
    memset(bytes + 0, 0xff, 8); /* 2^64 - 1 bytes */
    assert_int_equal(tdmi_message_read(bytes, sizeof bytes, &read), TDMI_MESSAGE_OTHER);
    memcpy(bytes, poll, sizeof poll);
    memset(bytes + 56, 0xff, 4); /* process -1 */
    assert_int_equal(tdmi_message_read(bytes, sizeof bytes, &read), TDMI_MESSAGE_OTHER);
    memcpy(bytes, poll, sizeof poll);
    bytes[20] = 'x'; /* a type of another name */
    assert_int_equal(tdmi_message_read(bytes, sizeof bytes, &read), TDMI_MESSAGE_OTHER);
}

static void a_context_is_known_by_its_type_and_size(void **state)
{
    (void)state;
    uint8_t bytes[56] = {16, 0, 0, 0, 0, 0, 0, 0, 'c', 't', 'x', 't'};
    tdmi_poll read;
    assert_int_equal(tdmi_message_read(bytes, sizeof bytes, &read), TDMI_MESSAGE_CONTEXT);
    bytes[0] = 15;
    assert_int_equal(tdmi_message_read(bytes, sizeof bytes - 1, &read), TDMI_MESSAGE_OTHER);
}

static void an_answer_carries_its_length_and_no_nul(void **state)
{
    (void)state;
    uint8_t out[64];
    assert_int_equal(tdmi_message_answer_poll("A=1\n", out, sizeof out), 44);
    assert_memory_equal(out, "\4\0\0\0\0\0\0\0req\0", 12);
    assert_memory_equal(out + 40, "A=1\n", 4);
    assert_int_equal(tdmi_message_answer_poll("", out, sizeof out), 40);
    assert_int_equal(out[0], 0);
    assert_int_equal(tdmi_message_answer_poll("A=1\n", out, 43), 0);
    assert_int_equal(tdmi_message_answer_context(258, out, sizeof out), 44);
    assert_memory_equal(out + 40, "\2\1\0\0", 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_poll_names_the_process_and_those_above_it),
        cmocka_unit_test(a_process_that_traces_is_not_idle),
        cmocka_unit_test(a_poll_that_is_cut_or_longer_than_it_says_is_none),
        cmocka_unit_test(counts_and_numbers_that_cannot_be_are_refused),
        cmocka_unit_test(a_context_is_known_by_its_type_and_size),
        cmocka_unit_test(an_answer_carries_its_length_and_no_nul),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
