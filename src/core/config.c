/* config.c - reading TANDEM_* variables, numbers and sizes. */
#include "core/config.h"

#include "core/log.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

static const struct {
    const char *name, *value, *help;
} table[TDMI_CONFIG_COUNT] = {
#define ROW(NAME, value, help) {"TANDEM_" #NAME, value, help},
    TDMI_CONFIG_MAP(ROW)
#undef ROW
};

const char *tdmi_config_text(tdmi_config_key key)
{
    const char *value = getenv(table[key].name);
    return value != NULL && *value != '\0' ? value : table[key].value;
}

tdm_status tdmi_config_number(tdmi_config_key key, double min, double max, double *out)
{
    const char *value = tdmi_config_text(key);
    char *end;
    errno = 0;
    double number = strtod(value, &end);
    if (end == value || *end != '\0' || errno != 0 || !(number >= min && number <= max))
        return tdmi_fail(TDM_ERR_INVALID, "%s=%s is not a number from %g to %g; unset it or give one", table[key].name,
                         value, min, max);
    *out = number;
    return TDM_OK;
}

void tdmi_config_warn_unknown(void)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&done))
        return;
    for (char **entry = environ; *entry != NULL; entry++) {
        if (strncmp(*entry, "TANDEM_", 7) != 0)
            continue;
        size_t length = strcspn(*entry, "=");
        int known = 0;
        for (int i = 0; i < TDMI_CONFIG_COUNT && !known; i++)
            known = strlen(table[i].name) == length && strncmp(table[i].name, *entry, length) == 0;
        if (!known)
            log_warn(TDM_LOG_CORE, "unknown variable %.*s has no effect; `tandem --help` lists the ones that exist",
                     (int)length, *entry);
    }
}

tdm_status tdm_parse_size(const char *text, const char *what, size_t *out)
{
    char *end;
    errno = 0;
    double number = strtod(text, &end);
    if (end == text || errno != 0 || !isfinite(number) || number < 0)
        return tdmi_fail(TDM_ERR_INVALID, "%s: \"%s\" is not a size; write 8, 4K, 25M or 1G", what, text);
    static const char suffixes[] = "KMGT";
    double scale = 1;
    if (*end != '\0') {
        const char *suffix = strchr(suffixes, *end >= 'a' ? *end - 'a' + 'A' : *end);
        if (suffix == NULL || end[1] != '\0')
            return tdmi_fail(TDM_ERR_INVALID, "%s: \"%s\" is not a size; write 8, 4K, 25M or 1G", what, text);
        for (const char *s = suffixes; s <= suffix; s++)
            scale *= 1024;
    } else if (number != floor(number)) {
        return tdmi_fail(TDM_ERR_INVALID, "%s: \"%s\" is not a whole number of bytes", what, text);
    }
    if (number * scale > 9e18)
        return tdmi_fail(TDM_ERR_INVALID, "%s: \"%s\" is larger than any machine's memory", what, text);
    *out = (size_t)(number * scale);
    return TDM_OK;
}

bool tdm_config_variable(int index, const char **name, const char **value, const char **help)
{
    if (index < 0 || index >= TDMI_CONFIG_COUNT)
        return false;
    *name = table[index].name;
    *value = table[index].value;
    *help = table[index].help;
    return true;
}
