/* cmd_generate.c - `tandem generate`: a text goes on as a checkpoint thinks it should. */
#include "command.h"
#include "train_library.h"

#include <stdio.h>

static const cli_option options[] = {
    /* name, letter, argument, type, field, default, min, max, choices, variables, help */
    {"checkpoint", 0, "DIR", CLI_TEXT, offsetof(tdm_generate_options, checkpoint), NULL, 0, 0, NULL, NULL,
     "a folder step-N, or the folder of a run: its newest"},
    {"prompt", 0, "TEXT", CLI_TEXT, offsetof(tdm_generate_options, prompt), NULL, 0, 0, NULL, NULL,
     "what comes first; for a model of gpt2's tokens their ids, as 464,3290"},
    {"tokens", 0, "N", CLI_INT, offsetof(tdm_generate_options, tokens), "200", 1, 1000000000, NULL, NULL, "how many to write"},
    {"temperature", 0, "T", CLI_NUMBER, offsetof(tdm_generate_options, temperature), "0.8", 0, 100, NULL, NULL,
     "0: always the likeliest"},
    {"top-k", 0, "K", CLI_INT, offsetof(tdm_generate_options, top_k), "40", 0, 1000000000, NULL, NULL,
     "draws among the K likeliest; 0: among all"},
    {"seed", 0, "N", CLI_U64, offsetof(tdm_generate_options, seed), "0", 0, 18446744073709551615.0, NULL, NULL, "of the draws"},
};

static void write_text(const char *text, size_t nbytes, void *arg)
{
    (void)arg;
    fwrite(text, 1, nbytes, stdout);
    fflush(stdout);
}

static int run(int argc, char **argv)
{
    cli_train_library library;
    tdm_generate_options values = {0};
    int exit_code;
    if (!cli_parse(&cli_generate, &argc, argv, &values, &exit_code))
        return exit_code;
    if (values.checkpoint == NULL || values.prompt == NULL || argc > 1) {
        fprintf(stderr, "tandem generate: %s; usage: tandem generate --checkpoint DIR --prompt TEXT [OPTIONS]\n",
                argc > 1                    ? "there are only options"
                : values.checkpoint == NULL ? "--checkpoint is missing"
                                            : "--prompt is missing");
        return CLI_USAGE;
    }
    if (!cli_train_library_load(&library))
        return CLI_FAILED;
    tdm_status st = library.generate(&values, write_text, NULL);
    if (st != TDM_OK)
        return cli_fail("generate", st);
    fputc('\n', stdout);
    return CLI_DONE;
}

const cli_command cli_generate = {
    .name = "generate",
    .arguments = "",
    .summary = "writes text with a trained model",
    .details = NULL,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
