/* test_generate.c - `tandem generate`: a text goes on, from a run or from one checkpoint. */
#include "training.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char *text_of(const char *const *words)
{
    program p;
    const char *all[32] = {"TANDEM", "generate"};
    for (size_t n = 2; *words != NULL; words++)
        all[n++] = *words;
    program_start(&p, all);
    program_wait(&p, 20);
    assert_string_equal(p.err, "");
    assert_int_equal(p.code, 0);
    char *text = strdup(p.out);
    program_done(&p, 1);
    return text;
}
#define GENERATE(...) text_of((const char *const[]){__VA_ARGS__, NULL})

static void a_trained_model_writes_its_language(void **state)
{
    (void)state;
    const char *run = in_folder("words");
    TRAIN_WELL("gpt2", "-n", "2", "--batch", "8", "--steps", "250", "--lr", "1e-2", "--save-every", "125", "--run", run);
    char *text = GENERATE("--checkpoint", run, "--prompt", "the lord said ", "--tokens", "60", "--temperature", "0");
    assert_int_equal(strlen(text), 14 + 60 + 1);
    assert_int_equal(strncmp(text, "the lord said ", 14), 0);
    assert_int_equal(text[74], '\n');
    static const char *const words[] = {"the", "lord", "said", "unto", "people", "of", "land", "day", "house", "king", "came", "and"};
    text[74] = '\0';
    int known = 0, all = 0;
    for (char *save, *word = strtok_r(text + 14, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save), all++)
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            known += strcmp(word, words[i]) == 0;
    if (known < all * 2 / 3)
        fail_msg("%d of %d words are of the language: %s", known, all, text);
    free(text);
}

static void a_step_folder_and_a_run_give_the_same(void **state)
{
    (void)state;
    char *newest = GENERATE("--checkpoint", in_folder("words"), "--prompt", "king", "--tokens", "30", "--seed", "4");
    char *step = GENERATE("--checkpoint", in_folder("words/step-250"), "--prompt", "king", "--tokens", "30", "--seed", "4");
    char *slash = GENERATE("--checkpoint", in_folder("words/step-250/"), "--prompt", "king", "--tokens", "30", "--seed", "4");
    char *earlier = GENERATE("--checkpoint", in_folder("words/step-125"), "--prompt", "king", "--tokens", "30", "--seed", "4");
    assert_string_equal(newest, step); /* and a seed decides everything */
    assert_string_equal(newest, slash);
    assert_string_not_equal(newest, earlier);
    free(newest);
    free(step);
    free(slash);
    free(earlier);
}

static void the_likeliest_is_one_and_draws_differ(void **state)
{
    (void)state;
    const char *run = in_folder("words");
    char *a = GENERATE("--checkpoint", run, "--prompt", "a", "--tokens", "40", "--temperature", "0", "--seed", "1");
    char *b = GENERATE("--checkpoint", run, "--prompt", "a", "--tokens", "40", "--temperature", "0", "--seed", "2");
    char *c = GENERATE("--checkpoint", run, "--prompt", "a", "--tokens", "40", "--top-k", "1", "--seed", "3");
    assert_string_equal(a, b);
    assert_string_equal(a, c);
    char *d = GENERATE("--checkpoint", run, "--prompt", "a", "--tokens", "40", "--temperature", "1.5", "--top-k", "0", "--seed", "1");
    char *e = GENERATE("--checkpoint", run, "--prompt", "a", "--tokens", "40", "--temperature", "1.5", "--top-k", "0", "--seed", "2");
    assert_string_not_equal(d, e);
    free(a);
    free(b);
    free(c);
    free(d);
    free(e);
}

static void models_of_token_ids_take_and_write_ids(void **state)
{
    (void)state;
    uint16_t tokens[3000];
    for (int i = 0; i < 3000; i++)
        tokens[i] = (uint16_t)(250 + i % 5); /* 250 251 252 253 254 250 ... */
    write_file(in_folder("ids.bin"), tokens, sizeof tokens);
    static const char *const models[] = {"gpt2", "mlp"};
    for (int i = 0; i < 2; i++) {
        const char *run = in_folder("ids-%s", models[i]);
        TRAIN_WELL(models[i], "-n", "2", "--data", in_folder("ids.bin"), "--vocab", i == 0 ? "300" : "256", "--seq", "8", "--steps", "80", "--lr", "1e-2",
                   "--batch", "4", "--run", run);
        char *text = GENERATE("--checkpoint", run, "--prompt", "250, 251 252", "--tokens", "6", "--temperature", "0");
        assert_string_equal(text, "250, 251 252,253,254,250,251,252,253\n");
        free(text);
    }
}

static void what_cannot_be_used_is_named(void **state)
{
    (void)state;
    char expected[320];
    program p;
    RUN(&p, "TANDEM", "generate", "--prompt", "x");
    assert_ended(&p, 2, "--checkpoint is missing");
    RUN(&p, "TANDEM", "generate", "--checkpoint", in_folder("words"));
    assert_ended(&p, 2, "--prompt is missing");
    RUN(&p, "TANDEM", "generate", "--checkpoint", in_folder("words"), "--prompt", "");
    assert_ended(&p, 2, "--prompt needs a value that is not empty");
    RUN(&p, "TANDEM", "generate", "--checkpoint", in_folder("words"), "--prompt", "x", "--tokens", "0");
    assert_ended(&p, 2, "--tokens 0: a whole number from 1");
    RUN(&p, "TANDEM", "generate", "--checkpoint", in_folder("words"), "--prompt", "x", "--temperature", "-1");
    assert_ended(&p, 2, "--temperature -1: a number from 0");
    RUN(&p, "TANDEM", "generate", "--checkpoint", in_folder("ids-gpt2"), "--prompt", "250,the");
    assert_ended(&p, 2, "--prompt: \"the\": this model's tokens are numbers below 300, such as 464,3290");
    RUN(&p, "TANDEM", "generate", "--checkpoint", in_folder("ids-gpt2"), "--prompt", "300");
    assert_ended(&p, 2, "\"300\": this model's tokens are numbers below 300");
    snprintf(expected, sizeof expected, "%s: No such file or directory", in_folder("none"));
    RUN(&p, "TANDEM", "generate", "--checkpoint", in_folder("none"), "--prompt", "x");
    assert_ended(&p, 3, expected);
    snprintf(expected, sizeof expected, "%s: there is no checkpoint; it is neither a folder step-N nor a run that saved one", in_folder("."));
    RUN(&p, "TANDEM", "generate", "--checkpoint", in_folder("."), "--prompt", "x");
    assert_ended(&p, 3, expected);
    snprintf(expected, sizeof expected, "%s: Not a directory", in_folder("text.txt"));
    RUN(&p, "TANDEM", "generate", "--checkpoint", in_folder("text.txt"), "--prompt", "x");
    assert_ended(&p, 3, expected);
    snprintf(expected, sizeof expected, "%s has 100 bytes", in_folder("words/step-125/model.safetensors"));
    assert_int_equal(truncate(in_folder("words/step-125/model.safetensors"), 100), 0);
    RUN(&p, "TANDEM", "generate", "--checkpoint", in_folder("words/step-125"), "--prompt", "x");
    assert_int_equal(count_of(p.err, "\n"), 1);
    assert_ended(&p, 3, expected);
}

int main(int argc, char **argv)
{
    program_paths(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trained_model_writes_its_language),
        cmocka_unit_test(a_step_folder_and_a_run_give_the_same),
        cmocka_unit_test(the_likeliest_is_one_and_draws_differ),
        cmocka_unit_test(models_of_token_ids_take_and_write_ids),
        cmocka_unit_test(what_cannot_be_used_is_named),
    };
    return cmocka_run_group_tests(tests, training_begin, training_end) != 0;
}
