/* test_option.c - command lines against a table of options of every type. */
#include "option.h"

#include "command.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct values {
    bool flag;
    int count;
    uint64_t seed;
    double rate;
    size_t nbytes;
    const char *text, *choice;
} values;

#define FIELD(name) offsetof(values, name)
static const cli_option table[] = {
    {"flag", 'f', NULL, CLI_FLAG, FIELD(flag), NULL, 0, 0, NULL, NULL, "a flag"},
    {"count", 'n', "N", CLI_INT, FIELD(count), "3", 1, 100, NULL, NULL, "a count"},
    {"seed", 0, "N", CLI_U64, FIELD(seed), NULL, 0, 9e18, NULL, NULL, "a seed"},
    {"rate", 0, "X", CLI_NUMBER, FIELD(rate), "0.5", 0, INFINITY, NULL, "TANDEM_TIMEOUT", "a rate"},
    {"size", 'b', "SIZE", CLI_SIZE, FIELD(nbytes), "4K", 1, 1e9, NULL, NULL, "a size"},
    {"text", 0, "TEXT", CLI_TEXT, FIELD(text), NULL, 0, 0, NULL, NULL, "a text"},
    {"choice", 'c', "NAME", CLI_CHOICE, FIELD(choice), "shm", 0, 0, "auto|shm|tcp", NULL, "a choice"},
};
static cli_command command = {.name = "test", .arguments = "FILE", .options = table, .option_count = sizeof table / sizeof *table};

/* Runs the parser on words; what it says on stderr goes to `said`. */
static bool parse(values *v, int *argc, const char **argv, char said[1024], int *code)
{
    FILE *file = tmpfile();
    int saved = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    bool ok = cli_parse(&command, argc, (char **)(uintptr_t)argv, v, code);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    said[fread(said, 1, 1023, file)] = '\0';
    fclose(file);
    return ok;
}

#define PARSE(v, ...)                                                                                                  \
    const char *argv[] = {"test", __VA_ARGS__, NULL};                                                                  \
    int argc = (int)(sizeof argv / sizeof *argv) - 1, code = -1;                                                       \
    char said[1024];                                                                                                   \
    bool ok = parse(v, &argc, argv, said, &code)

static void defaults_are_filled_in_and_the_rest_stays(void **state)
{
    (void)state;
    values v = {.seed = 99};
    PARSE(&v, "file");
    assert_true(ok);
    assert_int_equal(v.count, 3);
    assert_int_equal(v.seed, 99);
    assert_true(v.rate == 0.5);
    assert_int_equal(v.nbytes, 4096);
    assert_string_equal(v.choice, "shm");
    assert_null(v.text);
    assert_false(v.flag);
    assert_int_equal(argc, 2);
    assert_string_equal(argv[1], "file");
    assert_string_equal(said, "");
}

static void all_ways_to_write_an_option_are_understood(void **state)
{
    (void)state;
    values v = {0};
    PARSE(&v, "-n", "7", "one", "--size=25M", "-ctcp", "--rate", "1e-3", "-f", "--seed", "18000000", "two", "--text", "-x", "--", "--flag");
    assert_true(ok);
    assert_int_equal(v.count, 7);
    assert_int_equal(v.nbytes, 25u << 20);
    assert_string_equal(v.choice, "tcp");
    assert_true(v.rate == 1e-3);
    assert_true(v.flag);
    assert_int_equal(v.seed, 18000000);
    assert_string_equal(v.text, "-x");
    assert_int_equal(argc, 4);
    assert_string_equal(argv[1], "one");
    assert_string_equal(argv[2], "two");
    assert_string_equal(argv[3], "--flag");
    assert_null(argv[4]);
}

static void options_of_another_program_are_left_alone(void **state)
{
    (void)state;
    values v = {0};
    command.ends_at_argument = true;
    PARSE(&v, "-n", "2", "prog", "-n", "9", "--", "--flag");
    command.ends_at_argument = false;
    assert_true(ok);
    assert_int_equal(v.count, 2);
    assert_false(v.flag);
    assert_int_equal(argc, 6);
    assert_string_equal(argv[4], "--");
}

static void an_option_wins_over_its_variable(void **state)
{
    (void)state;
    values v = {0};
    setenv("TANDEM_TIMEOUT", "7", 1);
    PARSE(&v, "--rate", "2.5");
    assert_true(ok);
    assert_string_equal(getenv("TANDEM_TIMEOUT"), "2.5");
    unsetenv("TANDEM_TIMEOUT");
}

static void wrong_words_are_one_line_that_says_what_is_allowed(void **state)
{
    (void)state;
    static const struct {
        const char *words[2], *expected;
    } cases[] = {
        {{"--cuont", "3"}, "unknown option --cuont; did you mean --count?"},
        {{"--zzzzzz=4", "x"}, "unknown option --zzzzzz; `tandem test --help` lists them"},
        {{"-z", "x"}, "unknown option -z;"},
        {{"-n", "-3"}, "-n -3: a whole number from 1 to 100 is needed"},
        {{"--count=101", "x"}, "--count 101: a whole number from 1 to 100 is needed"},
        {{"--count=99999999999999999999", "x"}, "--count 99999999999999999999: a whole number from 1 to 100"},
        {{"--count=4.5", "x"}, "--count 4.5: a whole number"},
        {{"--count=", "x"}, "--count : a whole number"},
        {{"--seed", "-1"}, "--seed -1: a whole number from 0"},
        {{"--rate", "nan"}, "--rate nan: a number from 0 on is needed"},
        {{"--rate", "-0.1"}, "--rate -0.1: a number from 0 on is needed"},
        {{"--size", "4Q"}, "--size: \"4Q\" is not a size"},
        {{"--size", "0"}, "--size 0: a size in bytes from 1 to 1000000000 is needed"},
        {{"--text", ""}, "--text needs a value that is not empty (TEXT)"},
        {{"--choice", "sh"}, "--choice sh: one of auto|shm|tcp is needed"},
        {{"--choice=auto|shm", "x"}, "one of auto|shm|tcp is needed"},
        {{"--flag=1", "x"}, "--flag takes no value"},
        {{"x", "--count"}, "--count needs a value (N)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        values v = {0};
        PARSE(&v, cases[i].words[0], cases[i].words[1]);
        assert_false(ok);
        assert_int_equal(code, CLI_USAGE);
        assert_non_null(strstr(said, cases[i].expected));
        assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
    }
}

static void the_nearest_name_is_near(void **state)
{
    (void)state;
    static const char *const names[] = {"run", "bench", "train", "generate"};
    assert_string_equal(cli_nearest("rum", names, 4), "run");
    assert_string_equal(cli_nearest("trian", names, 4), "train");
    assert_string_equal(cli_nearest("gennerate", names, 4), "generate");
    assert_null(cli_nearest("frobnicate", names, 4));
    assert_null(cli_nearest("xy", names, 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_filled_in_and_the_rest_stays),
        cmocka_unit_test(all_ways_to_write_an_option_are_understood),
        cmocka_unit_test(options_of_another_program_are_left_alone),
        cmocka_unit_test(an_option_wins_over_its_variable),
        cmocka_unit_test(wrong_words_are_one_line_that_says_what_is_allowed),
        cmocka_unit_test(the_nearest_name_is_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
