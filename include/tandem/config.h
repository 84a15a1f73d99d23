/* config.h - the TANDEM_* variables as a list, and sizes as people write them: for programs with options of their own. */
#ifndef TANDEM_CONFIG_H
#define TANDEM_CONFIG_H

#include <tandem/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* tdm_config_variable - name, default and meaning of the index-th TANDEM_* variable; false behind the last one. Static
 * storage, any thread. */
TDM_API bool tdm_config_variable(int index, const char **name, const char **value, const char **help);

/* tdm_parse_size - "25M" -> 26214400: a whole number, or a number with K, M, G or T (powers of 1024). `what` names the value in
 * the error text. Errors  TDM_ERR_INVALID */
TDM_API TDM_MUST_CHECK tdm_status tdm_parse_size(const char *text, const char *what, size_t *out);

#ifdef __cplusplus
}
#endif
#endif
