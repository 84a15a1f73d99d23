/* folder.c - listing, cleaning and retiring the folders of a run. */
#include "checkpoint/folder.h"

#include "checkpoint/checkpoint.h"
#include "core/log.h"
#include "core/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

tdm_status tdmi_checkpoint_folder(const char *run, uint64_t step, char out[TDMI_PATH_MAX])
{
    return tdmi_disk_path(out, "%s/step-%llu", run, (unsigned long long)step);
}

tdm_status tdmi_folder_temporary(const char *run, uint64_t step, const char *purpose, char out[TDMI_PATH_MAX])
{
    return tdmi_disk_path(out, "%s/.step-%llu.tmp-%s", run, (unsigned long long)step, purpose);
}

bool tdmi_folder_step_of(const char *name, uint64_t *step)
{
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9')
        return false;
    char *end, again[32];
    errno = 0;
    unsigned long long value = strtoull(name + 5, &end, 10);
    snprintf(again, sizeof again, "step-%llu", value);
    if (errno != 0 || strcmp(again, name) != 0) /* one name for each step: no leading zeros */
        return false;
    *step = value;
    return true;
}

static bool is_temporary(const char *name)
{
    const char *tmp = strstr(name, ".tmp-");
    return strncmp(name, ".step-", 6) == 0 && tmp != NULL;
}

static int newest_first(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

tdm_status tdmi_folder_steps(const char *run, uint64_t **steps, size_t *count)
{
    DIR *dir = opendir(run);
    if (dir == NULL)
        return tdmi_fail_errno(TDM_ERR_BAD_FILE, errno, "cannot open run directory %s", run);
    uint64_t *list = NULL, step;
    size_t n = 0, capacity = 0;
    tdm_status st = TDM_OK;
    for (struct dirent *entry; st == TDM_OK && (entry = readdir(dir)) != NULL;) {
        if (!tdmi_folder_step_of(entry->d_name, &step))
            continue;
        if (n == capacity) {
            capacity = capacity != 0 ? 2 * capacity : 16;
            uint64_t *more = tdmi_realloc(list, capacity * sizeof *more, "steps of a run");
            if (more == NULL) {
                st = TDM_ERR_NO_MEMORY;
                break;
            }
            list = more;
        }
        list[n++] = step;
    }
    closedir(dir);
    if (st != TDM_OK) {
        tdmi_free(list);
        return st;
    }
    if (n > 0)
        qsort(list, n, sizeof *list, newest_first);
    *steps = list;
    *count = n;
    return TDM_OK;
}

bool tdmi_folder_remove(const char *path)
{
    DIR *dir = opendir(path);
    if (dir == NULL)
        return errno == ENOENT;
    int err = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            unlinkat(dirfd(dir), entry->d_name, 0) != 0 && errno != ENOENT)
            err = errno;
    closedir(dir);
    if (rmdir(path) == 0)
        return true;
    if (err != 0)
        errno = err;
    return false;
}

void tdmi_folder_clean(const char *run)
{
    DIR *dir = opendir(run);
    if (dir == NULL)
        return; /* whoever needs RUN says so */
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[TDMI_PATH_MAX];
        if (!is_temporary(entry->d_name) || tdmi_disk_path(path, "%s/%s", run, entry->d_name) != TDM_OK)
            continue;
        if (tdmi_folder_remove(path))
            log_info(TDM_LOG_CHECKPOINT, "removed %s, which a job left unfinished", path);
        else
            log_warn(TDM_LOG_CHECKPOINT, "cannot remove %s, which a job left unfinished: %s", path, strerror(errno));
    }
    closedir(dir);
}

void tdmi_folder_retire(const char *run, uint64_t step)
{
    char path[TDMI_PATH_MAX], old[TDMI_PATH_MAX];
    if (tdmi_checkpoint_folder(run, step, path) != TDM_OK || tdmi_folder_temporary(run, step, "old", old) != TDM_OK)
        return;
    if (rename(path, old) != 0 || !tdmi_folder_remove(old))
        log_warn(TDM_LOG_CHECKPOINT, "cannot remove the old checkpoint %s: %s", path, strerror(errno));
}
