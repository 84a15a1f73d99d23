/* tuning.h - what was measured about collectives on a kind of host, as text: which algorithm is fastest, and what links cost.
 *
 *     tandem-tuning 1
 *     host <16 hex digits>                                   whose: tdmi_host_fingerprint
 *     best <setting> <op> <min> <max> <algorithm>            setting: RANKSxNODES/TRANSPORT/MEMORY, min <= bytes < max, max may be -
 *     links <transport> <alpha_ns> <beta_ns> <gamma_ns>      a message, a byte, a byte summed
 *     end <16 hex digits>                                    hash of all lines before
 *
 * The choice follows rank 0's text, which all ranks of a group get when it is made (group/tuning.c). */
#ifndef TDMI_COLL_TUNING_H
#define TDMI_COLL_TUNING_H

#include "coll/choice.h"

#define TDMI_TUNING_TEXT_MAX ((size_t)64 << 10)
#define TDMI_TUNING_LINES_MAX 1024
#define TDMI_SETTING_MAX 32

typedef struct tdmi_best {
    char setting[TDMI_SETTING_MAX];
    tdmi_choice choice;
} tdmi_best;

typedef struct tdmi_tuning {
    uint64_t host;
    tdmi_best *best;
    size_t best_count;
    tdmi_costs costs[4];
    size_t costs_count;
} tdmi_tuning;

/* What a group is to the table: its setting's text. memory: "tandem" (every rank reaches the others' buffers) or "any". */
void tdmi_tuning_setting(int ranks, int nodes, const char *transport, const char *memory, char out[TDMI_SETTING_MAX]);

/* Any bytes are safe. TDM_ERR_INVALID with a text that names the line and what is wrong. *out is to be freed. */
tdm_status tdmi_tuning_read(const char *text, size_t nbytes, tdmi_tuning *out);
/* The text, NUL at its end, of at most TDMI_TUNING_TEXT_MAX; new block, freed with tdmi_free. */
tdm_status tdmi_tuning_write(const tdmi_tuning *tuning, char **out, size_t *nbytes);
void tdmi_tuning_free(tdmi_tuning *tuning);

/* Adds a line; the first that fits counts. */
tdm_status tdmi_tuning_add(tdmi_tuning *tuning, const char *setting, const tdmi_choice *choice);
/* Removes what is known of an operation in a setting. */
void tdmi_tuning_forget(tdmi_tuning *tuning, const char *setting, tdmi_coll coll);
void tdmi_tuning_set_costs(tdmi_tuning *tuning, const tdmi_costs *costs);
const tdmi_costs *tdmi_tuning_costs(const tdmi_tuning *tuning, const char *transport);

#endif
