/* folder.c - making, giving away and removing private folders; a lock on each says that its owner lives, in any namespace of processes. */
#include "live/folder.h"

#include "live/daemon.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "tandem-doctor-"
#define TRACES "traces"
#define OWN ".left-by-tandem-doctor" /* made under the lock: what has none is somebody else's, whatever its name */

/* The files in it, and it; no folder in it is entered: the job's user may write there, and could lead root elsewhere. */
static void remove_flat(const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;)
        unlinkat(fd, entry->d_name, 0);
    if (dir != NULL)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
    rmdir(path);
}

static void remove_both(const char *path)
{
    char traces[512];
    snprintf(traces, sizeof traces, "%s/" TRACES, path);
    remove_flat(traces);
    remove_flat(path);
}

/* Those that Tandem made for this user and nobody holds. */
static void remove_left(const char *base)
{
    DIR *dir = opendir(base);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        char path[512];
        struct stat info;
        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", base, entry->d_name);
        const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (fstat(fd, &info) == 0 && info.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0 && faccessat(fd, OWN, F_OK, 0) == 0)
            remove_both(path);
        close(fd);
    }
    if (dir != NULL)
        closedir(dir);
}

static bool mark(int folder)
{
    const int fd = openat(folder, OWN, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd >= 0 && close(fd) == 0;
}

tdm_status tdmi_folder_make(tdmi_folder *out)
{
    *out = (tdmi_folder){.lock = -1};
    const char *base = getenv("TMPDIR");
    if (base == NULL || *base != '/' || strlen(base) + strlen("/" PREFIX "XXXXXX") > TDMI_SOCKET_FOLDER_MAX)
        base = "/tmp";
    remove_left(base);
    snprintf(out->path, sizeof out->path, "%s/" PREFIX "XXXXXX", base);
    if (mkdtemp(out->path) == NULL) {
        const int error = errno;
        out->path[0] = '\0';
        return tdmi_fail_errno(TDM_ERR_SYSTEM, error, "cannot make a folder in %s; set TMPDIR to one that can be written", base);
    }
    out->lock = open(out->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(out->traces, sizeof out->traces, "%s/" TRACES, out->path);
    if (out->lock < 0 || flock(out->lock, LOCK_EX | LOCK_NB) != 0 || !mark(out->lock) || mkdir(out->traces, 0700) != 0) {
        const int error = errno;
        tdmi_folder_remove(out);
        return tdmi_fail_errno(TDM_ERR_SYSTEM, error, "cannot make a folder in %s", base);
    }
    return TDM_OK;
}

tdm_status tdmi_folder_give(const tdmi_folder *folder, uid_t user)
{
    if (chown(folder->traces, user, (gid_t)-1) != 0 || chmod(folder->path, 0711) != 0)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot give %s to user number %lld, whose job is to write there", folder->traces,
                               (long long)user);
    return TDM_OK;
}

void tdmi_folder_trace(const tdmi_folder *folder, const char *name, char *out, size_t nbytes)
{
    snprintf(out, nbytes, "%s/%s", folder->traces, name);
}

void tdmi_folder_remove(tdmi_folder *folder)
{
    if (folder->path[0] != '\0')
        remove_both(folder->path);
    if (folder->lock >= 0)
        close(folder->lock);
    *folder = (tdmi_folder){.lock = -1};
}
