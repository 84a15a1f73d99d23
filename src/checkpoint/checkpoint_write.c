/* checkpoint_write.c - begin, commit, or leave no trace. */
#include "checkpoint/checkpoint.h"

#include "checkpoint/folder.h"
#include "checkpoint/state.h"
#include "core/log.h"
#include "core/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct tdmi_checkpoint_writer {
    char run[TDMI_PATH_MAX], folder[TDMI_PATH_MAX]; /* folder: its temporary name */
    uint64_t step;
    bool owner; /* rank 0, and nothing is committed yet: the folder goes when we end */
    tdmi_safetensors_writer *model, *optimizer;
};

static tdm_status path_in(const char *folder, int file, char out[TDMI_PATH_MAX])
{
    return tdmi_disk_path(out, "%s/%s", folder, tdmi_checkpoint_files[file]);
}

static tdm_status open_file(tdmi_checkpoint_writer *w, int file, const tdmi_layout *layout, tdmi_safetensors_writer **out)
{
    char path[TDMI_PATH_MAX];
    tdm_status st = path_in(w->folder, file, path);
    if (st != TDM_OK)
        return st;
    return w->owner ? tdmi_safetensors_create(path, layout, out) : tdmi_safetensors_join(path, layout, out);
}

static tdm_status open_writer(const char *run, uint64_t step, bool begin, const tdmi_layout *model, const tdmi_layout *optimizer,
                              tdmi_checkpoint_writer **out)
{
    if (step > INT64_MAX)
        return tdmi_fail(TDM_ERR_INVALID, "step %llu is too large to be saved", (unsigned long long)step);
    tdmi_checkpoint_writer *w = tdmi_calloc(1, sizeof *w, "checkpoint writer");
    if (w == NULL)
        return TDM_ERR_NO_MEMORY;
    w->step = step;
    tdm_status st = tdmi_disk_path(w->run, "%s", run);
    if (st == TDM_OK)
        st = tdmi_folder_temporary(run, step, "new", w->folder);
    if (st == TDM_OK && begin) {
        tdmi_folder_clean(run);
        w->owner = mkdir(w->folder, 0777) == 0;
        if (!w->owner)
            st = tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot make %s", w->folder);
    }
    if (st == TDM_OK)
        st = open_file(w, TDMI_FILE_MODEL, model, &w->model);
    if (st == TDM_OK)
        st = open_file(w, TDMI_FILE_OPTIMIZER, optimizer, &w->optimizer);
    if (st != TDM_OK) {
        tdmi_checkpoint_end(w);
        return tdmi_fail_while(st, "saving step %llu into %s%s", (unsigned long long)step, run,
                               begin ? "; checkpoints of before are untouched"
                                     : "; is it the same directory on all ranks?");
    }
    *out = w;
    return TDM_OK;
}

tdm_status tdmi_checkpoint_begin(const char *run, uint64_t step, const tdmi_layout *model, const tdmi_layout *optimizer,
                                 tdmi_checkpoint_writer **out)
{
    return open_writer(run, step, true, model, optimizer, out);
}

tdm_status tdmi_checkpoint_join(const char *run, uint64_t step, const tdmi_layout *model, const tdmi_layout *optimizer,
                                tdmi_checkpoint_writer **out)
{
    return open_writer(run, step, false, model, optimizer, out);
}

tdmi_safetensors_writer *tdmi_checkpoint_model_writer(tdmi_checkpoint_writer *w)
{
    return w->model;
}

tdmi_safetensors_writer *tdmi_checkpoint_optimizer_writer(tdmi_checkpoint_writer *w)
{
    return w->optimizer;
}

tdm_status tdmi_checkpoint_sync(tdmi_checkpoint_writer *w)
{
    tdm_status st = tdmi_safetensors_sync(w->model);
    return st == TDM_OK ? tdmi_safetensors_sync(w->optimizer) : st;
}

/* config.json and state.json beside the tensors, everything on the disk. */
static tdm_status finish_folder(tdmi_checkpoint_writer *w, const tdmi_checkpoint_state *state)
{
    char path[TDMI_PATH_MAX];
    tdm_status st = path_in(w->folder, TDMI_FILE_CONFIG, path);
    if (st == TDM_OK)
        st = tdmi_disk_write_file(path, state->config, strlen(state->config));
    tdmi_file_mark marks[TDMI_FILE_COUNT];
    for (int file = 0; st == TDM_OK && file < TDMI_FILE_COUNT; file++) {
        st = path_in(w->folder, file, path);
        if (st == TDM_OK)
            st = tdmi_disk_hash(path, &marks[file].nbytes, &marks[file].hash);
    }
    if (st != TDM_OK)
        return st;
    char *text = NULL;
    st = tdmi_state_encode(state, marks, &text);
    if (st == TDM_OK)
        st = tdmi_disk_path(path, "%s/state.json", w->folder);
    if (st == TDM_OK)
        st = tdmi_disk_write_file(path, text, strlen(text));
    tdmi_free(text);
    if (st == TDM_OK)
        st = tdmi_disk_sync_directory(w->folder);
    return st;
}

/* Gives the folder its name in one step; an older one of that name is swapped out. */
static tdm_status publish(tdmi_checkpoint_writer *w)
{
    char name[TDMI_PATH_MAX];
    tdm_status st = tdmi_checkpoint_folder(w->run, w->step, name);
    if (st != TDM_OK)
        return st;
    bool swapped = false;
    int failed = renameat2(AT_FDCWD, w->folder, AT_FDCWD, name, RENAME_NOREPLACE);
    if (failed != 0 && errno == EEXIST) {
        failed = renameat2(AT_FDCWD, w->folder, AT_FDCWD, name, RENAME_EXCHANGE);
        swapped = failed == 0;
    } else if (failed != 0 && errno == EINVAL) {
        failed = rename(w->folder, name); /* a file system without these flags */
    }
    if (failed != 0)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot rename %s to %s", w->folder, name);
    w->owner = false;
    if (swapped && !tdmi_folder_remove(w->folder))
        log_warn(TDM_LOG_CHECKPOINT, "cannot remove %s, which %s has replaced: %s", w->folder, name, strerror(errno));
    return tdmi_disk_sync_directory(w->run);
}

/* Removes what is older than the `keep` newest of the steps up to the one just saved. */
static void retire_old(const tdmi_checkpoint_writer *w, int keep)
{
    uint64_t *steps;
    size_t count;
    if (keep <= 0)
        return;
    if (tdmi_folder_steps(w->run, &steps, &count) != TDM_OK) {
        log_warn(TDM_LOG_CHECKPOINT, "old checkpoints stay: %s", tdm_error_text());
        return;
    }
    int kept = 0;
    for (size_t i = 0; i < count; i++)
        if (steps[i] <= w->step && kept++ >= keep)
            tdmi_folder_retire(w->run, steps[i]);
    tdmi_free(steps);
}

tdm_status tdmi_checkpoint_commit(tdmi_checkpoint_writer *w, const tdmi_checkpoint_state *state, int keep)
{
    if (!w->owner)
        return tdmi_fail(TDM_ERR_INVALID, "step %llu can be committed once, by the rank that began it",
                         (unsigned long long)w->step);
    if (state->step != w->step)
        return tdmi_fail(TDM_ERR_INVALID, "the state is of step %llu, the checkpoint was begun for step %llu",
                         (unsigned long long)state->step, (unsigned long long)w->step);
    tdm_status st = finish_folder(w, state);
    if (st == TDM_OK)
        st = publish(w);
    if (st != TDM_OK)
        return tdmi_fail_while(st, "saving step %llu into %s; checkpoints of before are untouched", (unsigned long long)w->step,
                               w->run);
    retire_old(w, keep);
    return TDM_OK;
}

void tdmi_checkpoint_end(tdmi_checkpoint_writer *w)
{
    if (w == NULL)
        return;
    tdmi_safetensors_end(w->model);
    tdmi_safetensors_end(w->optimizer);
    if (w->owner && !tdmi_folder_remove(w->folder))
        log_warn(TDM_LOG_CHECKPOINT, "cannot remove the unfinished %s: %s", w->folder, strerror(errno));
    tdmi_free(w);
}

void tdmi_checkpoint_clean(const char *run)
{
    tdmi_folder_clean(run);
}
