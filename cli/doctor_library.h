/* doctor_library.h - libtandem_doctor. */
#ifndef TANDEM_CLI_DOCTOR_LIBRARY_H
#define TANDEM_CLI_DOCTOR_LIBRARY_H

#include <tandem/doctor.h>

typedef struct cli_doctor_library {
    tdm_status (*doctor)(const char *const *paths, int count, const tdm_doctor_options *options, tdm_doctor_report **out);
    tdm_status (*diff)(const char *a, const char *b, const tdm_doctor_options *options, tdm_doctor_report **out);
    const char *(*text)(const tdm_doctor_report *report);
    const char *(*json)(const tdm_doctor_report *report);
    void (*free)(tdm_doctor_report *report);
    tdm_status (*hta)(const char *const *paths, int count, size_t memory_bytes, tdm_hta_report **out);
    const char *(*hta_text)(const tdm_hta_report *report);
    const char *(*hta_json)(const tdm_hta_report *report);
    void (*hta_free)(tdm_hta_report *report);
    void (*live_options_init)(tdm_live_options *options);
    tdm_status (*live_begin)(const tdm_live_options *options, tdm_live **out);
    tdm_status (*live_collect)(tdm_live *live, const char *const **paths_out, int *count_out);
    void (*live_end)(tdm_live *live, int *exit_code);
    tdm_status (*lint)(const char *script, const char *launch, const char *env_file, tdm_lint_report **out);
    const char *(*lint_text)(const tdm_lint_report *report);
    const char *(*lint_json)(const tdm_lint_report *report);
    int (*lint_errors)(const tdm_lint_report *report);
    void (*lint_free)(tdm_lint_report *report);
} cli_doctor_library;

/* False, with a line on stderr, where the library is missing or of another version. */
bool cli_doctor_library_load(cli_doctor_library *out);

#endif
