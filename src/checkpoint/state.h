/* state.h - state.json as text and back: the state of a run, and what the other files of its folder must be. */
#ifndef TDMI_CHECKPOINT_STATE_H
#define TDMI_CHECKPOINT_STATE_H

#include "checkpoint/checkpoint.h"

enum { TDMI_FILE_MODEL, TDMI_FILE_OPTIMIZER, TDMI_FILE_CONFIG, TDMI_FILE_COUNT };
extern const char *const tdmi_checkpoint_files[TDMI_FILE_COUNT];

typedef struct {
    uint64_t nbytes, hash; /* XXH64 */
} tdmi_file_mark;

/* out: returns new; its last member is a hash of all that stands before it. state->config is not part of it. */
tdm_status tdmi_state_encode(const tdmi_checkpoint_state *state, const tdmi_file_mark marks[TDMI_FILE_COUNT], char **out);

typedef struct tdmi_state tdmi_state;
/* Errors  TDM_ERR_BAD_FILE `path` and what is wrong */
tdm_status tdmi_state_decode(const char *path, const char *text, size_t nbytes, tdmi_state **out);
void tdmi_state_free(tdmi_state *state); /* NULL is fine */
const tdmi_checkpoint_state *tdmi_state_get(const tdmi_state *state); /* lent; config is NULL */
const tdmi_file_mark *tdmi_state_marks(const tdmi_state *state);      /* [TDMI_FILE_COUNT] */

#endif
