/* doctor_lint.c - one script, read by libtandem_doctor. */
#include "doctor_lint.h"

#include "command.h"
#include "doctor_library.h"

#include <stdio.h>

int cli_doctor_lint(const cli_lint_options *options, int words, bool json)
{
    cli_doctor_library library;
    tdm_lint_report *report;
    if (words > 0) {
        fprintf(stderr, "tandem doctor: --lint takes one script and nothing beside it\n");
        return CLI_USAGE;
    }
    if (!cli_doctor_library_load(&library))
        return CLI_FAILED;
    tdm_status status = library.lint(options->script, options->launch, options->env_file, &report);
    if (status != TDM_OK)
        return cli_fail("doctor", status);
    printf("%s%s", json ? library.lint_json(report) : library.lint_text(report), json ? "\n" : "");
    const int errors = library.lint_errors(report);
    library.lint_free(report);
    return errors > 0 ? CLI_FAILED : CLI_DONE;
}
