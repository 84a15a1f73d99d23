/* fuzz_syntax.c - any bytes as what the parser's process prints: refused, or a sound tree that every rule can be asked about. */
#include "core/memory.h"
#include "lint/report.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tdmi_lint lint = {.path = "fuzzed.py"};
    if (tdmi_syntax_read((const char *)data, size, &lint.syntax) != TDM_OK)
        return 0;
    for (size_t i = 0; i < lint.syntax.count; i++) {
        const tdmi_node *node = &lint.syntax.node[i];
        if (node->size > lint.syntax.count - i || (node->parent == NULL) != (i == 0) || (i > 0 && !tdmi_contains(node->parent, node)))
            abort();
    }
    if (tdmi_script_read(&lint.syntax, &lint.script) == TDM_OK) {
        tdm_lint_report *report = tdmi_calloc(1, sizeof *report, "lint report");
        tdmi_lint_ask(&lint);
        if (report == NULL || tdmi_lint_report(&lint, report) != TDM_OK || strstr(report->json, "\"findings\":") == NULL)
            abort();
        tdm_lint_free(report);
    }
    tdmi_lint_free(&lint);
    return 0;
}
