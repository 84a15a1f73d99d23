/* test_pickle.c - what pickles hold, and what is refused. */
#include "flight/pickle.h"

#include "core/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static tdmi_values values;

#define BYTES(text) (const uint8_t *)(text), sizeof(text) - 1

static const tdmi_value *read_good(const uint8_t *bytes, size_t nbytes)
{
    const tdmi_value *value = NULL;
    values = (tdmi_values){.limit = (size_t)1 << 20};
    if (tdmi_pickle_read(bytes, nbytes, &values, &value) != TDM_OK)
        fail_msg("%s", tdm_error_text());
    return value;
}

static void refused(const uint8_t *bytes, size_t nbytes, const char *word)
{
    const tdmi_value *value;
    values = (tdmi_values){.limit = (size_t)1 << 20};
    assert_int_equal(tdmi_pickle_read(bytes, nbytes, &values, &value), TDM_ERR_BAD_FILE);
    if (strstr(tdm_error_text(), word) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", tdm_error_text(), word);
    tdmi_values_free(&values);
}

/* {'a': [1, -2, 300, 70000, True, None, 1.5, 2**40], 'b': ('x', 'y')} */
static void plain_values_of_all_protocols_are_read(void **state)
{
    (void)state;
    const uint8_t two[] = "\x80\x02}q\x00(X\x01\x00\x00\x00" "aq\x01]q\x02(K\x01J\xfe\xff\xff\xffM\x2c\x01J\x70\x11\x01\x00\x88NG\x3f\xf8\x00\x00\x00\x00\x00\x00\x8a\x06\x00\x00\x00\x00\x00\x01" "eX\x01\x00\x00\x00" "bq\x03X\x01\x00\x00\x00xq\x04X\x01\x00\x00\x00yq\x05\x86q\x06u.";
    const uint8_t four[] = "\x80\x04\x95\x40\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01" "a\x94]\x94(K\x01J\xfe\xff\xff\xffM\x2c\x01J\x70\x11\x01\x00\x88NG\x3f\xf8\x00\x00\x00\x00\x00\x00\x8a\x06\x00\x00\x00\x00\x00\x01" "e\x8c\x01" "b\x94\x8c\x01x\x94\x8c\x01y\x94\x86\x94u.";
    const uint8_t zero[] = "(dp0\nVa\np1\n(lp2\nI1\naI-2\naI300\naI70000\naI01\naNaF1.5\naL1099511627776L\nasVb\np3\n(S'x'\nVy\ntp4\ns.";
    const struct {
        const uint8_t *bytes;
        size_t nbytes;
    } all[] = {{two, sizeof two - 1}, {four, sizeof four - 1}, {zero, sizeof zero - 1}};
    for (size_t i = 0; i < 3; i++) {
        const tdmi_value *value = read_good(all[i].bytes, all[i].nbytes), *a = tdmi_value_get(value, "a"), *b = tdmi_value_get(value, "b");
        const int64_t numbers[] = {1, -2, 300, 70000, 1};
        assert_int_equal(tdmi_value_count(a), 8);
        for (size_t n = 0; n < 5; n++)
            assert_int_equal(tdmi_value_int(tdmi_value_at(a, n), -1), numbers[n]);
        assert_true(tdmi_value_is_true(tdmi_value_at(a, 4)));
        assert_int_equal(tdmi_value_at(a, 5)->kind, TDMI_VALUE_NONE);
        assert_true(tdmi_value_at(a, 6)->as.real > 1.49 && tdmi_value_at(a, 6)->as.real < 1.51);
        assert_int_equal(tdmi_value_int(tdmi_value_at(a, 7), -1), (int64_t)1 << 40);
        assert_true(tdmi_value_is_text(tdmi_value_at(b, 1), "y"));
        tdmi_values_free(&values);
    }
}

static void memos_give_the_same_value_and_may_be_circles(void **state)
{
    (void)state;
    const tdmi_value *value = read_good(BYTES("\x80\x02]q\x00(h\x00h\x00" "e."));
    assert_int_equal(tdmi_value_count(value), 2);
    assert_ptr_equal(tdmi_value_at(value, 0), value);
    tdmi_values_free(&values);
}

static void numbers_beyond_64_bits_stay_at_the_end(void **state)
{
    (void)state;
    assert_true(tdmi_value_int(read_good(BYTES("\x80\x02\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01.")), 0) == INT64_MAX);
    tdmi_values_free(&values);
    assert_true(tdmi_value_int(read_good(BYTES("\x80\x02\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\xff.")), 0) == INT64_MIN);
    tdmi_values_free(&values);
    assert_int_equal(tdmi_value_int(read_good(BYTES("\x80\x02\x8a\x01\xff.")), 0), -1);
    tdmi_values_free(&values);
}

static void what_would_run_something_is_refused_by_name_and_place(void **state)
{
    (void)state;
    refused(BYTES("cos\nsystem\n(S'ls'\ntR."), "GLOBAL (opcode 0x63 at byte 0)");
    refused(BYTES("\x80\x04\x8c\x02os\x8c\x06system\x93."), "STACK_GLOBAL (opcode 0x93 at byte 14)");
    refused(BYTES("(ios\nsystem\n."), "INST");
    refused(BYTES("(o."), "OBJ");
    refused(BYTES("N)R."), "REDUCE");
    refused(BYTES("N}b."), "BUILD");
    refused(BYTES("N)\x81."), "NEWOBJ");
    refused(BYTES("N)}\x92."), "NEWOBJ_EX");
    refused(BYTES("\x82\x01."), "EXT1");
    refused(BYTES("\x83\x01\x00."), "EXT2");
    refused(BYTES("\x84\x01\x00\x00\x00."), "EXT4");
    refused(BYTES("Pabc\n."), "PERSID");
    refused(BYTES("NQ."), "BINPERSID");
    refused(BYTES("\x97."), "NEXT_BUFFER");
    refused(BYTES("\xf0."), "no such opcode");
}

static void damage_is_said_with_its_place(void **state)
{
    (void)state;
    refused(BYTES(""), "cut");
    refused(BYTES("\x80\x02]"), "cut");
    refused(BYTES("\x80\x06N."), "later than 5");
    refused(BYTES("X\xff\xff\xff\x7f" "abc."), "behind the file");
    refused(BYTES("\x8d\xff\xff\xff\xff\xff\xff\xff\xff."), "behind the file");
    refused(BYTES("."), "one value");
    refused(BYTES("NN."), "one value");
    refused(BYTES("(N."), "one value");
    refused(BYTES("Ne."), "no mark");
    refused(BYTES("N(Ne."), "holds none");
    refused(BYTES("](NNu."), "holds none");
    refused(BYTES("}(Nu."), "without a value");
    refused(BYTES("h\x05."), "not made");
    refused(BYTES("q\x00."), "memo of nothing");
    refused(BYTES("Nr\xff\xff\xff\xff."), "too far");
    refused(BYTES("0."), "nothing to take away");
    refused(BYTES("](0a."), "holds none");
    refused(BYTES("Iabc\n."), "a number that is none");
    refused(BYTES("S'abc\n."), "without quotes");
    refused(BYTES("\x85."), "a tuple of nothing");
}

static void memory_has_a_limit(void **state)
{
    (void)state;
    const size_t nbytes = (size_t)1 << 20, before = tdmi_memory_held();
    uint8_t *bytes = malloc(nbytes);
    memset(bytes, ']', nbytes);
    refused(bytes, nbytes, "need more than");
    memset(bytes, '(', nbytes);
    const tdmi_value *value;
    values = (tdmi_values){.limit = (size_t)1 << 20};
    assert_int_equal(tdmi_pickle_read(bytes, nbytes, &values, &value), TDM_ERR_BAD_FILE);
    tdmi_values_free(&values);
    free(bytes);
    assert_int_equal(tdmi_memory_held(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_values_of_all_protocols_are_read),
        cmocka_unit_test(memos_give_the_same_value_and_may_be_circles),
        cmocka_unit_test(numbers_beyond_64_bits_stay_at_the_end),
        cmocka_unit_test(what_would_run_something_is_refused_by_name_and_place),
        cmocka_unit_test(damage_is_said_with_its_place),
        cmocka_unit_test(memory_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
