/* tuning.h - which algorithms were measured to be the fastest on this machine. `tandem tune --collectives` writes the table, every
 * group follows that of its rank 0. The file is TANDEM_TUNE_FILE, else $XDG_CACHE_HOME/tandem/collectives-<host>, else the same
 * under ~/.cache. docs/algorithms.md */
#ifndef TANDEM_TUNING_H
#define TANDEM_TUNING_H

#include <tandem/group.h>

#ifdef __cplusplus
extern "C" {
#endif

/* tdm_tuning_file - the path of the table, which need not exist.
 * Errors  TDM_ERR_INVALID there is no place for one, or the path is longer than `capacity`.   Thread  any.   Since 0.1 */
TDM_API TDM_MUST_CHECK tdm_status tdm_tuning_file(char *out, size_t capacity);

/* One choice: `algorithm` for calls of `op` (as tandem bench names it) with min <= bytes < max; SIZE_MAX: no end. */
typedef struct tdm_tuning_line {
    const char *op, *algorithm;
    size_t min, max;
} tdm_tuning_line;

/* tdm_tuning_save - puts lines [count] into the table for groups like this one, in place of what it has for their operations.
 *   group   of as many ranks on as many nodes over the same transport as those the lines are for; only one rank calls this
 *   memory  "tandem": buffers that every rank of the node reaches, "any": others
 * Errors  TDM_ERR_INVALID a line | TDM_ERR_SYSTEM the file.   Thread  owner of group.   Since 0.1 */
TDM_API TDM_MUST_CHECK tdm_status tdm_tuning_save(tdm_group *group, const char *memory, const tdm_tuning_line *lines, size_t count);

#ifdef __cplusplus
}
#endif
#endif
