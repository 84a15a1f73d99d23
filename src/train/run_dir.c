/* run_dir.c - the folder of a run: new, or one to go on in. */
#include "checkpoint/checkpoint.h"
#include "train/trainer.h"

#include "core/clock.h"
#include "core/memory.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* mkdir -p. */
static tdm_status make_folders(const char *path)
{
    char part[1024];
    size_t length = strlen(path);
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "making the run's folder %s", part);
    }
    return TDM_OK;
}

static bool is_empty(const char *folder)
{
    DIR *dir = opendir(folder);
    bool empty = dir != NULL;
    for (struct dirent *entry; empty && (entry = readdir(dir)) != NULL;)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    if (dir != NULL)
        closedir(dir);
    return empty;
}

/* Rank 0: what is there, and what it means. */
static tdm_status open_as_leader(tdmi_trainer *t, char *found, size_t nbytes)
{
    struct stat info;
    bool exists = stat(t->run_dir, &info) == 0;
    if (!exists && errno != ENOENT && errno != ENOTDIR)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "--run %s", t->run_dir);
    found[0] = '\0';
    if (exists && !S_ISDIR(info.st_mode))
        return tdmi_fail(TDM_ERR_EXISTS, "--run %s: a file of this name is in the way", t->run_dir);
    if (!t->settings.options.resume) {
        if (exists && !is_empty(t->run_dir))
            return tdmi_fail(TDM_ERR_EXISTS, "--run %s: it exists already; add --resume to go on in it, or give another folder",
                             t->run_dir);
        t->made_run_dir = !exists;
        return make_folders(t->run_dir);
    }
    if (!exists)
        return tdmi_fail(TDM_ERR_BAD_FILE, "--resume: there is no run in %s; leave --resume out to begin one", t->run_dir);
    uint64_t step = 0;
    bool has_one = false;
    tdm_status st = tdmi_checkpoint_find(t->run_dir, &step, &has_one);
    if (st == TDM_OK && has_one)
        snprintf(found, nbytes, "%s/step-%llu", t->run_dir, (unsigned long long)step);
    else if (st == TDM_OK && !t->settings.options.quiet)
        fprintf(stderr, "%s has no checkpoint yet: the run begins anew\n", t->run_dir);
    return st;
}

/* Checkpoints are written by all ranks into one folder: every rank must see what rank 0 puts there. */
static tdm_status check_shared(tdmi_trainer *t)
{
    char path[1100];
    uint64_t word = (uint64_t)tdmi_now_ns(), seen = 0;
    snprintf(path, sizeof path, "%s/.shared", t->run_dir);
    tdm_status st = TDM_OK;
    if (t->rank == 0) {
        FILE *file = fopen(path, "w");
        if (file == NULL || fwrite(&word, sizeof word, 1, file) != 1)
            st = tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "writing into the run's folder %s", t->run_dir);
        if (file != NULL)
            fclose(file);
    }
    st = tdmi_trainer_agree(t, st);
    if (st == TDM_OK)
        st = tdm_broadcast(t->group, &word, 1, TDM_I64, 0, NULL);
    if (st == TDM_OK) {
        FILE *file = fopen(path, "r");
        if (file == NULL || fread(&seen, sizeof seen, 1, file) != 1 || seen != word)
            st = tdmi_fail(TDM_ERR_INVALID,
                           "--run %s: rank %d does not see what rank 0 wrote there; the folder must lie on a file system that "
                           "all nodes share",
                           t->run_dir, t->rank);
        if (file != NULL)
            fclose(file);
        st = tdmi_trainer_agree(t, st);
    }
    if (t->rank == 0)
        (void)unlink(path);
    return st;
}

tdm_status tdmi_trainer_open_run(tdmi_trainer *t, char **resume_from)
{
    char found[1100] = "";
    *resume_from = NULL;
    tdm_status st = tdmi_trainer_agree(t, t->rank == 0 ? open_as_leader(t, found, sizeof found) : TDM_OK);
    if (st == TDM_OK)
        st = tdm_broadcast(t->group, found, sizeof found, TDM_U8, 0, NULL);
    if (st == TDM_OK && t->size > 1)
        st = check_shared(t);
    if (st != TDM_OK || found[0] == '\0')
        return st;
    *resume_from = tdmi_strdup(found, "run folder");
    return tdmi_trainer_agree(t, *resume_from == NULL ? TDM_ERR_NO_MEMORY : TDM_OK);
}
