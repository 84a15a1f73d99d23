/* doctor_library.c - the functions of libtandem_doctor that the command calls. */
#include "doctor_library.h"

#include "library.h"

bool cli_doctor_library_load(cli_doctor_library *out)
{
    const cli_function functions[] = {
        {"tdm_doctor", &out->doctor},
        {"tdm_doctor_diff", &out->diff},
        {"tdm_doctor_text", &out->text},
        {"tdm_doctor_json", &out->json},
        {"tdm_doctor_free", &out->free},
        {"tdm_hta", &out->hta},
        {"tdm_hta_text", &out->hta_text},
        {"tdm_hta_json", &out->hta_json},
        {"tdm_hta_free", &out->hta_free},
        {"tdm_live_options_init", &out->live_options_init},
        {"tdm_live_begin", &out->live_begin},
        {"tdm_live_collect", &out->live_collect},
        {"tdm_live_end", &out->live_end},
        {"tdm_lint", &out->lint},
        {"tdm_lint_text", &out->lint_text},
        {"tdm_lint_json", &out->lint_json},
        {"tdm_lint_errors", &out->lint_errors},
        {"tdm_lint_free", &out->lint_free},
    };
    return cli_library_load("tandem_doctor", functions, sizeof functions / sizeof *functions);
}
