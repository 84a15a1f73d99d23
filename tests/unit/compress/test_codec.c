/* test_codec.c - compressions as text, and how much they say a rank sends. */
#include <tandem/compress.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <tandem/status.h>

static void texts_become_compressions(void **state)
{
    (void)state;
    const struct {
        const char *text;
        tdm_compression expected;
    } cases[] = {
        {"none", {.codec = TDM_CODEC_NONE}},
        {"f16", {.codec = TDM_CODEC_F16}},
        {"bf16", {.codec = TDM_CODEC_BF16}},
        {"powersgd", {.codec = TDM_CODEC_POWERSGD}},
        {"powersgd:8", {.codec = TDM_CODEC_POWERSGD, .rank = 8}},
        {"onebit", {.codec = TDM_CODEC_ONEBIT}},
        {"onebit:100", {.codec = TDM_CODEC_ONEBIT, .warmup = 100}},
        {"topk:0.05", {.codec = TDM_CODEC_TOPK, .fraction = 0.05}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tdm_compression c;
        assert_int_equal(tdm_compression_parse(cases[i].text, &c), TDM_OK);
        assert_int_equal(c.codec, cases[i].expected.codec);
        assert_int_equal(c.rank, cases[i].expected.rank);
        assert_int_equal(c.warmup, cases[i].expected.warmup);
        assert_true(c.fraction == cases[i].expected.fraction);
    }
}

static void texts_that_are_none_say_what_there_is(void **state)
{
    (void)state;
    const char *const cases[][2] = {
        {"zip", "known are none, f16, bf16, powersgd[:RANK], onebit[:WARMUP] and topk[:FRACTION]"},
        {"", "there is no compression"},
        {"power", "there is no compression"},
        {"bf16:2", "bf16 takes no number"},
        {"powersgd:0", "a rank from 1 to 256"},
        {"powersgd:257", "a rank from 1 to 256"},
        {"powersgd:2.5", "a rank from 1 to 256"},
        {"powersgd:", "a rank from 1 to 256"},
        {"onebit:0", "steps of plain AdamW"},
        {"topk:0", "above 0 and up to 1"},
        {"topk:1.5", "above 0 and up to 1"},
        {"topk:nan", "above 0 and up to 1"},
        {"topk:0.1x", "above 0 and up to 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tdm_compression c;
        assert_int_equal(tdm_compression_parse(cases[i][0], &c), TDM_ERR_INVALID);
        if (strstr(tdm_error_text(), cases[i][1]) == NULL)
            fail_msg("%s: %s", cases[i][0], tdm_error_text());
    }
}

static void forecasts_count_what_travels(void **state)
{
    (void)state;
    const tdm_part parts[] = {{0, 4096, 64}, {4096, 16, 0}};
    const size_t all = 4112;
    const struct {
        tdm_compression c;
        size_t on_two;
    } cases[] = {
        {{.codec = TDM_CODEC_NONE}, all * 4},
        {{.codec = TDM_CODEC_BF16}, all * 2},
        {{.codec = TDM_CODEC_POWERSGD, .rank = 2}, (2 * (64 + 64) + 16) * 4},
        {{.codec = TDM_CODEC_POWERSGD, .rank = 32}, all * 4}, /* factors would not be smaller */
        {{.codec = TDM_CODEC_ONEBIT}, all / 8 + 3 * 4},       /* blocks of 2048, 2048 and 16 */
        {{.codec = TDM_CODEC_TOPK, .fraction = 0.01}, 41 * 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(tdm_compression_sends(&cases[i].c, parts, 2, 2), cases[i].on_two);
        assert_int_equal(tdm_compression_sends(&cases[i].c, parts, 2, 1), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_become_compressions),
        cmocka_unit_test(texts_that_are_none_say_what_there_is),
        cmocka_unit_test(forecasts_count_what_travels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
