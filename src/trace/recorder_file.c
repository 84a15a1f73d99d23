/* recorder_file.c - BASE/JOB/rank-R-PID-K.ring.
 *
 * BASE is TANDEM_RECORDER_DIR, else $XDG_RUNTIME_DIR/tandem, else /tmp/tandem-UID. /tmp belongs to everybody: a folder there is
 * used only if it is ours and closed to others. Files of ranks that died stay until their job's folder has not changed for a day;
 * then whoever makes the folder of a new job removes them, unless their process (its id and when it began) is still there.
 */
#include "trace/recorder_file.h"

#include "core/config.h"
#include "trace/recorder_layout.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define KEEP_S (24 * 3600)

uint64_t tdmi_process_birth(int pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    const size_t got = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[got] = '\0';
    unsigned long long birth = 0;
    const char *end = strrchr(text, ')'); /* the name may hold anything */
    /* behind it: state is field 3, the start time field 22 */
    if (end == NULL || sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &birth) != 1)
        return 0;
    return birth;
}

void tdmi_boot_id(char *text, size_t nbytes)
{
    text[0] = '\0';
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file == NULL)
        return;
    if (fgets(text, (int)nbytes, file) != NULL)
        text[strcspn(text, "\n")] = '\0';
    fclose(file);
}

static tdm_status find_base(tdmi_recorder_file *file)
{
    const char *chosen = tdmi_config_text(TDMI_CONFIG_RECORDER_DIR), *runtime = getenv("XDG_RUNTIME_DIR");
    int used;
    if (chosen[0] != '\0')
        used = snprintf(file->base, sizeof file->base, "%s", chosen);
    else if (runtime != NULL && runtime[0] == '/')
        used = snprintf(file->base, sizeof file->base, "%s/tandem", runtime);
    else
        used = snprintf(file->base, sizeof file->base, "/tmp/tandem-%u", (unsigned)geteuid());
    file->base_is_ours = chosen[0] == '\0';
    return (size_t)used < sizeof file->base ? TDM_OK : tdmi_fail(TDM_ERR_INVALID, "the folder's name is too long: %.60s...", file->base);
}

static tdm_status make_folder(const char *path, bool must_be_ours, bool *made)
{
    struct stat facts;
    *made = mkdir(path, 0700) == 0;
    if (!*made && errno != EEXIST)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot make the folder %s", path);
    if (must_be_ours && (lstat(path, &facts) != 0 || !S_ISDIR(facts.st_mode) || facts.st_uid != geteuid() || (facts.st_mode & 022) != 0))
        return tdmi_fail(TDM_ERR_SYSTEM, "%s is no folder of this user that others cannot write to", path);
    return TDM_OK;
}

/* The owner of a ring lives; of other files nobody does. */
static bool is_in_use(int folder_fd, const char *name)
{
    uint8_t head[TDMI_REC_AT_RANK];
    const int fd = openat(folder_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    const bool ring = read(fd, head, sizeof head) == (ssize_t)sizeof head && memcmp(head, TDMI_REC_MAGIC, 8) == 0;
    close(fd);
    const uint64_t birth = ring ? tdmi_process_birth((int)tdmi_rec_get32(head + TDMI_REC_AT_PID)) : 0;
    return birth != 0 && birth == tdmi_rec_get64(head + TDMI_REC_AT_BIRTH);
}

static bool is_old(int folder_fd, const char *name, mode_t kind)
{
    struct stat facts;
    return fstatat(folder_fd, name, &facts, AT_SYMLINK_NOFOLLOW) == 0 && (facts.st_mode & S_IFMT) == kind && time(NULL) - facts.st_mtime > KEEP_S;
}

static void sweep_job(int base_fd, const char *job)
{
    const int fd = openat(base_fd, job, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (folder == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (strncmp(entry->d_name, "rank-", 5) == 0 && is_old(fd, entry->d_name, S_IFREG) && !is_in_use(fd, entry->d_name))
            unlinkat(fd, entry->d_name, 0);
    closedir(folder);
    unlinkat(base_fd, job, AT_REMOVEDIR); /* if it is empty now */
}

/* Folders that changed a short time ago are not looked into: there may be thousands. */
static void sweep(const char *base)
{
    DIR *folder = opendir(base);
    if (folder == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] != '.' && is_old(dirfd(folder), entry->d_name, S_IFDIR))
            sweep_job(dirfd(folder), entry->d_name);
    closedir(folder);
}

/* A job's name as a file's name. */
static void folder_name(const char *job, char *name, size_t nbytes)
{
    size_t used = 0;
    for (; *job != '\0' && used + 1 < nbytes; job++) {
        const char c = *job;
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || (c == '.' && used > 0);
        name[used++] = plain ? c : '_';
    }
    name[used] = '\0';
}

tdm_status tdmi_recorder_file_make(const char *job, int rank, size_t nbytes, tdmi_recorder_file *out, int *fd_out)
{
    static atomic_uint made_files;
    char name[64];
    bool made_base, made_folder;
    tdm_status status = find_base(out);
    if (status != TDM_OK)
        return status;
    folder_name(job, name, sizeof name);
    snprintf(out->folder, sizeof out->folder, "%s/%s", out->base, name);
    snprintf(out->path, sizeof out->path, "%s/rank-%d-%d-%u.ring", out->folder, rank, (int)getpid(), atomic_fetch_add(&made_files, 1));
    int fd = -1;
    for (int tries = 0; fd < 0 && tries < 20; tries++) { /* a rank that ends may remove a folder just made */
        status = make_folder(out->base, out->base_is_ours, &made_base);
        if (status != TDM_OK)
            return status;
        status = make_folder(out->folder, true, &made_folder);
        if (status == TDM_OK) {
            if (made_folder)
                sweep(out->base);
            (void)mkdir(out->folder, 0700); /* an empty one looks swept */
            fd = open(out->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
            status = fd >= 0 ? TDM_OK : tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot make %s", out->path);
        }
        if (fd < 0 && errno != ENOENT)
            return status;
    }
    if (fd < 0)
        return status;
    const int error = posix_fallocate(fd, 0, (off_t)nbytes);
    if (error != 0) {
        close(fd);
        tdmi_recorder_file_remove(out);
        return tdmi_fail_errno(TDM_ERR_SYSTEM, error, "%s needs %zu bytes", out->path, nbytes);
    }
    *fd_out = fd;
    return TDM_OK;
}

void tdmi_recorder_file_remove(const tdmi_recorder_file *file)
{
    unlink(file->path);
    if (rmdir(file->folder) == 0 && file->base_is_ours)
        rmdir(file->base);
}
