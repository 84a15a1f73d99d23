/* checkpoint_read.c - opening a checkpoint's folder, and finding the newest whole one of a run. */
#include "checkpoint/checkpoint.h"

#include "checkpoint/folder.h"
#include "checkpoint/state.h"
#include "core/log.h"
#include "core/memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { STATE_MAX = 256 << 20, CONFIG_MAX = 1 << 20 }; /* bytes; more cannot be right */

struct tdmi_checkpoint {
    tdmi_state *state;
    tdmi_checkpoint_state is;
    char *config;
    tdmi_safetensors *model, *optimizer;
};

/* Whether the file is the one that state.json speaks of. */
static tdm_status check_file(const char *path, const tdmi_file_mark *mark, bool verify)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return tdmi_fail_errno(TDM_ERR_BAD_FILE, errno, "cannot read %s", path);
    if ((uint64_t)info.st_size != mark->nbytes)
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s has %llu bytes, its checkpoint was saved with %llu; it was cut off or belongs to "
                         "another one", path, (unsigned long long)info.st_size, (unsigned long long)mark->nbytes);
    if (!verify)
        return TDM_OK;
    uint64_t nbytes, hash;
    tdm_status st = tdmi_disk_hash(path, &nbytes, &hash);
    if (st == TDM_OK && hash != mark->hash)
        st = tdmi_fail(TDM_ERR_BAD_FILE, "%s does not hold what was saved (hash %016llx, expected %016llx); it is damaged or "
                       "belongs to another checkpoint", path, (unsigned long long)hash, (unsigned long long)mark->hash);
    return st;
}

/* A folder that is called step-N must be of step N; any other name is the user's. */
static tdm_status check_name(const char *folder, uint64_t step)
{
    char name[TDMI_PATH_MAX];
    uint64_t named;
    tdm_status st = tdmi_disk_path(name, "%s", folder);
    if (st != TDM_OK)
        return st;
    for (size_t n = strlen(name); n > 1 && name[n - 1] == '/'; n--)
        name[n - 1] = '\0';
    const char *slash = strrchr(name, '/');
    if (tdmi_folder_step_of(slash != NULL ? slash + 1 : name, &named) && named != step)
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s holds a checkpoint of step %llu", folder, (unsigned long long)step);
    return TDM_OK;
}

static tdm_status load_state(tdmi_checkpoint *c, const char *folder)
{
    char path[TDMI_PATH_MAX], *text;
    size_t nbytes;
    tdm_status st = tdmi_disk_path(path, "%s/state.json", folder);
    if (st == TDM_OK)
        st = tdmi_disk_read_file(path, STATE_MAX, &text, &nbytes);
    if (st != TDM_OK)
        return st;
    st = tdmi_state_decode(path, text, nbytes, &c->state);
    tdmi_free(text);
    if (st != TDM_OK)
        return st;
    c->is = *tdmi_state_get(c->state);
    return check_name(folder, c->is.step);
}

static tdm_status load(tdmi_checkpoint *c, const char *folder, bool verify)
{
    tdm_status st = load_state(c, folder);
    char paths[TDMI_FILE_COUNT][TDMI_PATH_MAX];
    for (int file = 0; st == TDM_OK && file < TDMI_FILE_COUNT; file++) {
        st = tdmi_disk_path(paths[file], "%s/%s", folder, tdmi_checkpoint_files[file]);
        if (st == TDM_OK)
            st = check_file(paths[file], &tdmi_state_marks(c->state)[file], verify);
    }
    size_t nbytes;
    if (st == TDM_OK)
        st = tdmi_disk_read_file(paths[TDMI_FILE_CONFIG], CONFIG_MAX, &c->config, &nbytes);
    if (st == TDM_OK)
        st = tdmi_safetensors_open(paths[TDMI_FILE_MODEL], &c->model);
    if (st == TDM_OK)
        st = tdmi_safetensors_open(paths[TDMI_FILE_OPTIMIZER], &c->optimizer);
    c->is.config = c->config;
    return st;
}

tdm_status tdmi_checkpoint_open(const char *folder, bool verify, tdmi_checkpoint **out)
{
    tdmi_checkpoint *c = tdmi_calloc(1, sizeof *c, "checkpoint");
    if (c == NULL)
        return TDM_ERR_NO_MEMORY;
    tdm_status st = load(c, folder, verify);
    if (st != TDM_OK) {
        tdmi_checkpoint_close(c);
        return st;
    }
    *out = c;
    return TDM_OK;
}

void tdmi_checkpoint_close(tdmi_checkpoint *c)
{
    if (c == NULL)
        return;
    tdmi_safetensors_close(c->model);
    tdmi_safetensors_close(c->optimizer);
    tdmi_state_free(c->state);
    tdmi_free(c->config);
    tdmi_free(c);
}

const tdmi_checkpoint_state *tdmi_checkpoint_state_of(const tdmi_checkpoint *c)
{
    return &c->is;
}

const char *tdmi_checkpoint_note_of(const tdmi_checkpoint *c, const char *name)
{
    for (size_t i = 0; i < c->is.note_count; i++)
        if (strcmp(c->is.notes[i].name, name) == 0)
            return c->is.notes[i].value;
    return NULL;
}

const tdmi_safetensors *tdmi_checkpoint_model(const tdmi_checkpoint *c)
{
    return c->model;
}

const tdmi_safetensors *tdmi_checkpoint_optimizer(const tdmi_checkpoint *c)
{
    return c->optimizer;
}

tdm_status tdmi_checkpoint_find(const char *run, uint64_t *step, bool *found)
{
    uint64_t *steps;
    size_t count;
    tdm_status st = tdmi_folder_steps(run, &steps, &count);
    if (st != TDM_OK)
        return st;
    char newest[TDMI_ERROR_TEXT_MAX] = "";
    int damaged = 0;
    *found = false;
    for (size_t i = 0; i < count && !*found; i++) {
        char folder[TDMI_PATH_MAX];
        tdmi_checkpoint *c = NULL;
        st = tdmi_checkpoint_folder(run, steps[i], folder);
        if (st == TDM_OK)
            st = tdmi_checkpoint_open(folder, true, &c);
        tdmi_checkpoint_close(c);
        if (st == TDM_OK) {
            *step = steps[i];
            *found = true;
        } else if (st != TDM_ERR_BAD_FILE) {
            break; /* no memory, say: not the checkpoint's fault */
        } else {
            if (damaged++ == 0)
                snprintf(newest, sizeof newest, "%s", tdm_error_text());
        }
    }
    tdmi_free(steps);
    if (*found && damaged > 0)
        log_warn(TDM_LOG_CHECKPOINT, "step %llu is gone on from: %d newer checkpoint%s not whole: %s", (unsigned long long)*step,
                 damaged, damaged == 1 ? " is" : "s are", newest);
    if (st == TDM_ERR_BAD_FILE)
        return tdmi_fail(st, "no checkpoint in %s is whole; the newest: %s", run, newest);
    return st;
}
