/* test_command.c - the tables of all commands, and statuses as exit codes. */
#include "command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void every_option_is_complete_and_named_once(void **state)
{
    (void)state;
    for (size_t c = 0; c < cli_command_count; c++) {
        const cli_command *command = cli_commands[c];
        assert_non_null(command->summary);
        for (size_t i = 0; i < command->option_count; i++) {
            const cli_option *a = &command->options[i];
            assert_true(a->name != NULL || a->letter != 0);
            assert_true(a->help != NULL && *a->help != '\0');
            assert_true((a->argument == NULL) == (a->type == CLI_FLAG));
            assert_true((a->choices != NULL) == (a->type == CLI_CHOICE));
            if (a->type != CLI_FLAG && a->type != CLI_TEXT && a->type != CLI_CHOICE)
                assert_true(a->min < a->max);
            for (size_t k = 0; k < i; k++) {
                const cli_option *b = &command->options[k];
                assert_false(a->letter != 0 && a->letter == b->letter);
                assert_false(a->name != NULL && b->name != NULL && strcmp(a->name, b->name) == 0);
            }
        }
    }
}

static void every_default_passes_its_own_check(void **state)
{
    (void)state;
    static double values[4096]; /* any command's values fit */
    for (size_t c = 0; c < cli_command_count; c++) {
        char *argv[] = {(char *)(uintptr_t)"x", NULL};
        int argc = 1, code;
        assert_true(cli_parse(cli_commands[c], &argc, argv, values, &code));
    }
}

static void statuses_become_the_exit_codes_of_the_contract(void **state)
{
    (void)state;
    assert_int_equal(cli_exit_code(TDM_OK), 0);
    assert_int_equal(cli_exit_code(TDM_ERR_MISMATCH), 1);
    assert_int_equal(cli_exit_code(TDM_ERR_ADDRESS_IN_USE), 1);
    assert_int_equal(cli_exit_code(TDM_ERR_INVALID), 2);
    assert_int_equal(cli_exit_code(TDM_ERR_EXISTS), 2);
    assert_int_equal(cli_exit_code(TDM_ERR_BAD_FILE), 3);
    assert_int_equal(cli_exit_code(TDM_ERR_TIMEOUT), 4);
    assert_int_equal(cli_exit_code(TDM_ERR_PEER_LOST), 4);
    assert_int_equal(cli_exit_code(TDM_ERR_NO_MEMORY), 5);
    assert_int_equal(cli_exit_code(TDM_ERR_NO_SPACE), 5);
    assert_int_equal(cli_exit_code(TDM_ERR_INTERRUPTED), 130);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_is_complete_and_named_once),
        cmocka_unit_test(every_default_passes_its_own_check),
        cmocka_unit_test(statuses_become_the_exit_codes_of_the_contract),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
