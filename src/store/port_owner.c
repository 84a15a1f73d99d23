/* port_owner.c - finds a listening socket's inode in /proc/net, then the process that has it among its descriptors. */
#include "store/port_owner.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool find_inode(const char *path, int port, unsigned long *inode)
{
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return false;
    char line[512];
    bool found = false;
    while (!found && fgets(line, sizeof line, file) != NULL) {
        unsigned local_port, state;
        found = sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*s %x %*s %*s %*s %*s %*s %lu", &local_port, &state, inode) == 3 &&
                (int)local_port == port && state == 0x0a; /* LISTEN */
    }
    fclose(file);
    return found;
}

static bool has_descriptor(long pid, const char *link)
{
    char path[320], target[64];
    snprintf(path, sizeof path, "/proc/%ld/fd", pid);
    DIR *dir = opendir(path);
    if (dir == NULL)
        return false;
    bool found = false;
    for (struct dirent *entry; !found && (entry = readdir(dir)) != NULL;) {
        snprintf(path, sizeof path, "/proc/%ld/fd/%s", pid, entry->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        found = length > 0 && (size_t)length == strlen(link) && strncmp(target, link, (size_t)length) == 0;
    }
    closedir(dir);
    return found;
}

void tdmi_port_owner(int port, char *text, size_t nbytes)
{
    text[0] = '\0';
    unsigned long inode;
    if (!find_inode("/proc/net/tcp", port, &inode) && !find_inode("/proc/net/tcp6", port, &inode))
        return;
    char link[64];
    snprintf(link, sizeof link, "socket:[%lu]", inode);
    DIR *proc = opendir("/proc");
    if (proc == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(proc)) != NULL;) {
        long pid = strtol(entry->d_name, NULL, 10);
        if (pid <= 0 || !has_descriptor(pid, link))
            continue;
        char path[64], name[32] = "?";
        snprintf(path, sizeof path, "/proc/%ld/comm", pid);
        FILE *file = fopen(path, "r");
        if (file != NULL) {
            if (fgets(name, sizeof name, file) != NULL)
                name[strcspn(name, "\n")] = '\0';
            fclose(file);
        }
        snprintf(text, nbytes, " by pid %ld (%s)", pid, name);
        break;
    }
    closedir(proc);
}
