/* who.c - /proc/PID/stat and /proc/PID/environ. The latter is what a process was started with: what it sets later is not seen. */
#include "live/who.h"

#include "core/memory.h"
#include "launch/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENVIRONMENT_MAX ((size_t)4 << 20)

/* The whole environment, NUL behind each entry and one more at the end; freed with tdmi_free. */
static tdm_status read_environment(int fd, char **out, size_t *nbytes_out)
{
    size_t capacity = (size_t)1 << 14, used = 0;
    char *text = tdmi_malloc(capacity, "environment of a process");
    while (text != NULL) {
        const ssize_t got = read(fd, text + used, capacity - 1 - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break; /* the process may end while it is read */
        used += (size_t)got;
        if (used < capacity - 1)
            continue;
        if (capacity >= ENVIRONMENT_MAX)
            break;
        char *more = tdmi_realloc(text, capacity * 2, "environment of a process");
        if (more == NULL) {
            tdmi_free(text);
            return TDM_ERR_NO_MEMORY;
        }
        text = more;
        capacity *= 2;
    }
    if (text == NULL)
        return TDM_ERR_NO_MEMORY;
    text[used] = '\0';
    *out = text;
    *nbytes_out = used;
    return TDM_OK;
}

/* Where the entry has this name: its value, else NULL. */
static const char *value_of(const char *entry, const char *name)
{
    const size_t length = strlen(name);
    return strncmp(entry, name, length) == 0 && entry[length] == '=' ? entry + length + 1 : NULL;
}

static int number_of(const char *text)
{
    char *end;
    const long number = strtol(text, &end, 10);
    return end != text && *end == '\0' && number >= 0 && number <= INT_MAX ? (int)number : -1;
}

static void note(tdmi_who *who, const char *entry, char *address, size_t nbytes, const char **port)
{
    const char *value;
    if ((value = value_of(entry, "RANK")) != NULL)
        who->rank = number_of(value);
    else if ((value = value_of(entry, "WORLD_SIZE")) != NULL)
        who->size = number_of(value);
    else if ((value = value_of(entry, "LOCAL_WORLD_SIZE")) != NULL)
        who->local_size = number_of(value);
    else if ((value = value_of(entry, "MASTER_ADDR")) != NULL)
        snprintf(address, nbytes, "%s", value);
    else if ((value = value_of(entry, "MASTER_PORT")) != NULL)
        *port = value;
    else if ((value = value_of(entry, "TANDEM_JOB_ID")) != NULL)
        snprintf(who->job, sizeof who->job, "%s", value);
    else if ((value = value_of(entry, "TORCHELASTIC_RUN_ID")) != NULL && who->job[0] == '\0')
        snprintf(who->job, sizeof who->job, "%s", value);
    else if (value_of(entry, "KINETO_USE_DAEMON") != NULL)
        who->listens = true;
    else if ((value = value_of(entry, "KINETO_IPC_SOCKET_DIR")) != NULL)
        snprintf(who->socket_folder, sizeof who->socket_folder, "%s", value);
}

static tdm_status refuse(pid_t pid, uid_t owner)
{
    const struct passwd *user = getpwuid(owner);
    char name[64];
    if (user != NULL)
        snprintf(name, sizeof name, "%s", user->pw_name);
    else
        snprintf(name, sizeof name, "number %lld", (long long)owner);
    return tdmi_fail(TDM_ERR_INVALID, "process %d belongs to user %s, whose processes cannot be looked into from here: run this as that user, or as root",
                     (int)pid, name);
}

tdm_status tdmi_who_read(pid_t pid, tdmi_who *out)
{
    *out = (tdmi_who){.pid = pid, .rank = -1, .size = -1, .local_size = -1};
    tdmi_process process;
    if (pid <= 0 || !tdmi_process_read(pid, &process))
        return tdmi_fail(TDM_ERR_INVALID, "there is no process %d", (int)pid);
    out->state = process.state;
    struct stat info;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    if (stat(path, &info) == 0)
        out->owner = info.st_uid;
    if (fd < 0)
        return errno == EACCES || errno == EPERM ? refuse(pid, out->owner) : tdmi_fail(TDM_ERR_INVALID, "process %d has just ended", (int)pid);
    char *text, address[128] = "";
    const char *port = "";
    size_t nbytes;
    const tdm_status status = read_environment(fd, &text, &nbytes);
    close(fd);
    if (status != TDM_OK)
        return status;
    for (const char *entry = text; entry < text + nbytes; entry += strlen(entry) + 1)
        note(out, entry, address, sizeof address, &port);
    snprintf(out->master, sizeof out->master, "%s:%s", address, port);
    tdmi_free(text);
    return TDM_OK;
}

char tdmi_who_state(pid_t pid)
{
    tdmi_process process;
    return tdmi_process_read(pid, &process) ? process.state : 'X';
}

bool tdmi_who_lives(pid_t pid)
{
    const char state = tdmi_who_state(pid);
    return state != 'X' && state != 'Z';
}

bool tdmi_who_shares(pid_t pid, const char *name_space)
{
    char path[64], own[64], theirs[64];
    snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)pid, name_space);
    const ssize_t length = readlink(path, theirs, sizeof theirs - 1);
    snprintf(path, sizeof path, "/proc/self/ns/%s", name_space);
    const ssize_t own_length = readlink(path, own, sizeof own - 1);
    return length < 0 || own_length < 0 || (length == own_length && memcmp(own, theirs, (size_t)length) == 0);
}
