/* test_state.c - state.json there and back, and what is refused though its seal is whole. */
#include "checkpoint/state.h"

#include "core/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include <cmocka.h>

static const tdmi_file_mark marks[TDMI_FILE_COUNT] = {{100, 0x0123456789abcdefu}, {0, 0}, {7, UINT64_MAX}};

static void a_state_comes_back_as_it_was(void **state)
{
    (void)state;
    static uint8_t random[2512];
    for (size_t i = 0; i < sizeof random; i++)
        random[i] = (uint8_t)(i * 7);
    const tdmi_checkpoint_note notes[] = {{"order", "shuffle"}, {"text", "a\tb\"c"}};
    const tdmi_checkpoint_state before = {.step = (uint64_t)1 << 60, .epoch = 3, .next = INT64_MAX, .random = random,
                                          .random_nbytes = sizeof random, .kernels = "k", .notes = notes, .note_count = 2};
    char *text;
    assert_int_equal(tdmi_state_encode(&before, marks, &text), TDM_OK);
    tdmi_state *decoded;
    assert_int_equal(tdmi_state_decode("state.json", text, strlen(text), &decoded), TDM_OK);
    const tdmi_checkpoint_state *after = tdmi_state_get(decoded);
    assert_true(after->step == before.step && after->epoch == 3 && after->next == INT64_MAX);
    assert_int_equal(after->random_nbytes, sizeof random);
    assert_memory_equal(after->random, random, sizeof random);
    assert_string_equal(after->kernels, "k");
    assert_int_equal(after->note_count, 2);
    assert_string_equal(after->notes[1].value, "a\tb\"c");
    assert_memory_equal(tdmi_state_marks(decoded), marks, sizeof marks);
    tdmi_state_free(decoded);
    for (size_t cut = 0; cut < strlen(text); cut += cut < 64 || cut > strlen(text) - 64 ? 1 : 61)
        assert_int_equal(tdmi_state_decode("state.json", text, cut, &decoded), TDM_ERR_BAD_FILE);
    tdmi_free(text);
}

static void nothing_but_numbers_is_a_state_too(void **state)
{
    (void)state;
    const tdmi_checkpoint_state before = {.step = 0, .kernels = ""};
    char *text;
    assert_int_equal(tdmi_state_encode(&before, marks, &text), TDM_OK);
    tdmi_state *decoded;
    assert_int_equal(tdmi_state_decode("state.json", text, strlen(text), &decoded), TDM_OK);
    assert_null(tdmi_state_get(decoded)->random);
    assert_int_equal(tdmi_state_get(decoded)->note_count, 0);
    tdmi_state_free(decoded);
    tdmi_free(text);
    const tdmi_checkpoint_state wrong = {.kernels = "\xff\xfe"};
    assert_int_equal(tdmi_state_encode(&wrong, marks, &text), TDM_ERR_INVALID);
}

/* Seals `members` as if they were a state and expects `reason`. */
static void refuse(const char *members, const char *reason)
{
    char text[2048], sealed[2200];
    snprintf(text, sizeof text, "{\n  %s\n}", members);
    snprintf(sealed, sizeof sealed, "{\n  %s,\n  \"xxh64\": \"%016llx\"\n}", members,
             (unsigned long long)XXH64(text, strlen(text), 0));
    tdmi_state *decoded = NULL;
    assert_int_equal(tdmi_state_decode("state.json", sealed, strlen(sealed), &decoded), TDM_ERR_BAD_FILE);
    assert_null(decoded);
    if (strstr(tdm_error_text(), reason) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", tdm_error_text(), reason);
}

static void other_formats_and_missing_members_are_named(void **state)
{
    (void)state;
#define MARK "{\"bytes\": 1, \"xxh64\": \"0123456789abcdef\"}"
#define MARKS "\"files\": {\"model.safetensors\": " MARK ", \"optimizer.safetensors\": " MARK ", \"config.json\": " MARK "}"
#define HEAD "\"format\": 1, \"step\": 1, \"sampler\": {\"epoch\": 0, \"next\": 0}, \"kernels\": \"\", "
    refuse("\"format\": 2", "is of format 2; this Tandem (0.1.0) reads format 1");
    refuse("\"step\": 1", "names no format");
    refuse("\"format\": 1, \"step\": -1", "lacks step, sampler or kernels");
    refuse("\"format\": 1, \"step\": 1, \"sampler\": 5, \"kernels\": \"\"", "lacks step, sampler or kernels");
    refuse("\"format\": 1, \"step\": 1, \"sampler\": {\"epoch\": 0, \"next\": 0}", "lacks step, sampler or kernels");
    refuse(HEAD "\"files\": {}", "no size and hash of model.safetensors");
    refuse(HEAD "\"files\": {\"model.safetensors\": {\"bytes\": 1, \"xxh64\": \"012\"}}", "no size and hash of model");
    refuse(HEAD MARKS, "no random state");
    refuse(HEAD MARKS ", \"random\": \"abc\"", "no random state");
    refuse(HEAD MARKS ", \"random\": \"zz\"", "not in hexadecimal digits");
    refuse(HEAD MARKS ", \"random\": \"\"", "has no notes");
    refuse(HEAD MARKS ", \"random\": \"\", \"notes\": {\"a\": 1}", "a note that is no text");
    refuse("\"format\": 1, \"format\": 1", "is not JSON at byte");
    refuse("nonsense", "is not JSON at byte");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_comes_back_as_it_was),
        cmocka_unit_test(nothing_but_numbers_is_a_state_too),
        cmocka_unit_test(other_formats_and_missing_members_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
