/* test_index.c - vector code finds the same quotes and brackets as the code that looks at one byte after another. */
#include "kineto/index.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LENGTH = 4096, PAD = 64 };

static uint8_t text[LENGTH + PAD];
static uint32_t plain[LENGTH + PAD], fast[LENGTH + PAD];

static void compare(size_t length, size_t part)
{
    for (int isa = TDMI_ISA_AVX2; isa <= (int)tdmi_cpu_isa(); isa++) {
        tdmi_index_function *index = tdmi_index_of((tdmi_isa)isa);
        tdmi_index_state a = {0}, b = {0};
        size_t counts[2] = {0};
        for (size_t from = 0; from < length; from += part) {
            const size_t to = from + part < length ? from + part : length;
            counts[0] += tdmi_index_plain(text, from, to, &a, plain + counts[0]);
            counts[1] += index(text, from, to, &b, fast + counts[1]);
        }
        assert_int_equal(counts[0], counts[1]);
        assert_memory_equal(plain, fast, counts[0] * sizeof *plain);
    }
}

static void all_offsets_of_a_line_are_found(void **state)
{
    (void)state;
    const char *line = "{\"a\": [\"x\\\"]\", {}], \"b\\\\\": 1}";
    const uint32_t expected[] = {0, 1, 3, 6, 7, 12, 15, 16, 17, 20, 24, 28};
    memset(text, 0, sizeof text);
    memcpy(text, line, strlen(line));
    tdmi_index_state s = {0};
    assert_int_equal(tdmi_index_plain(text, 0, strlen(line), &s, plain), sizeof expected / sizeof *expected);
    assert_memory_equal(plain, expected, sizeof expected);
    compare(strlen(line), 64);
}

static void random_texts_have_the_same_index_however_they_are_cut(void **state)
{
    (void)state;
    static const char letters[] = "\"\"\\\\{}[],: ax\n\x5b\x7b\x7d\x01";
    srand(7);
    for (int round = 0; round < 400; round++) {
        const size_t length = (size_t)rand() % LENGTH;
        for (size_t i = 0; i < length; i++)
            text[i] = round % 2 == 0 || rand() % 8 == 0 ? (uint8_t)letters[(size_t)rand() % (sizeof letters - 1)] : (uint8_t)rand();
        memset(text + length, '"', PAD); /* what is behind the end does not count */
        compare(length, 64 * (1 + (size_t)rand() % 8));
    }
}

static void runs_of_one_character_that_cross_blocks(void **state)
{
    (void)state;
    for (size_t run = 1; run < 200; run++)
        for (size_t at = 50; at < 80; at++) {
            memset(text, ' ', sizeof text);
            text[10] = '"';
            memset(text + at, '\\', run);
            text[at + run] = '"';
            text[at + run + 1] = '}';
            compare(400, 128);
            memset(text + at, '{', run);
            text[10] = ' ';
            compare(400, 128);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_offsets_of_a_line_are_found),
        cmocka_unit_test(random_texts_have_the_same_index_however_they_are_cut),
        cmocka_unit_test(runs_of_one_character_that_cross_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
