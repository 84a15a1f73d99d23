/* test_printable.c - what a terminal would obey is shown as '?', the rest as it is. */
#include "core/printable.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void shows(const char *from, const char *expected, bool lines)
{
    char text[64];
    snprintf(text, sizeof text, "%s", from);
    tdmi_printable(text, lines);
    assert_string_equal(text, expected);
}

static void plain_text_of_any_language_stays(void **state)
{
    (void)state;
    shows("", "", false);
    shows("void k<float>(int)", "void k<float>(int)", false);
    shows("größe 学习 🙂 █▒·", "größe 学习 🙂 █▒·", false);
}

static void what_a_terminal_obeys_is_replaced(void **state)
{
    (void)state;
    shows("\x1b[31mred\a\b\r\t\x7f", "?[31mred?????", true);
    shows("one character: \xc2\x9b"
          "31m",
          "one character: ?31m", true);
    shows("turned \xe2\x80\xae"
          "cba \xe2\x81\xa6",
          "turned ?cba ?", true);
}

static void newlines_stay_where_they_are_wanted(void **state)
{
    (void)state;
    shows("a\nb", "a\nb", true);
    shows("a\nb", "a?b", false);
}

static void bytes_that_are_no_text_are_replaced_one_by_one(void **state)
{
    (void)state;
    shows("\xff\xc3", "??", true);                /* cut at the end */
    shows("\xe5\xad" "A", "??A", true);           /* cut within */
    shows("\xc0\xaf", "??", true);                /* a slash of two bytes */
    shows("\xe0\x80\x9b", "???", true);           /* a control character of three */
    shows("\xed\xa0\x80", "???", true);           /* half a pair of UTF-16 */
    shows("\xf4\x90\x80\x80", "????", true);      /* beyond Unicode */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_text_of_any_language_stays),
        cmocka_unit_test(what_a_terminal_obeys_is_replaced),
        cmocka_unit_test(newlines_stay_where_they_are_wanted),
        cmocka_unit_test(bytes_that_are_no_text_are_replaced_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
