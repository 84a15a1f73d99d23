/* program.c - finding the program before anything is started, so that a wrong name is one error line and not one a rank. */
#include "launch/program.h"

#include "core/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* 0, or why it cannot be executed. */
static int executable(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return errno;
    if (S_ISDIR(info.st_mode))
        return EISDIR;
    return access(path, X_OK) == 0 ? 0 : errno;
}

static tdm_status look_up(const char *name, char path[4096])
{
    int error = ENOENT;
    if (strchr(name, '/') != NULL) {
        snprintf(path, 4096, "%s", name);
        error = executable(path);
        if (error != 0)
            return tdmi_fail(TDM_ERR_INVALID, "cannot run %s: %s", name, strerror(error));
        return TDM_OK;
    }
    const char *at = getenv("PATH");
    if (at == NULL)
        at = "/usr/local/bin:/usr/bin:/bin";
    for (;; at++) {
        size_t length = strcspn(at, ":");
        snprintf(path, 4096, "%.*s/%s", length > 0 ? (int)length : 1, length > 0 ? at : ".", name);
        int why = executable(path);
        if (why == 0)
            return TDM_OK;
        if (why == EACCES)
            error = why;
        at += length;
        if (*at == '\0')
            break;
    }
    return tdmi_fail(TDM_ERR_INVALID, "cannot run %s: %s", name, error == EACCES ? strerror(error) : "no such program in PATH");
}

tdm_status tdmi_program_find(const char *const *command, tdmi_program *out)
{
    if (command == NULL || command[0] == NULL || command[0][0] == '\0')
        return tdmi_fail(TDM_ERR_INVALID, "no program to run");
    size_t count = 0, length = strlen(command[0]);
    while (command[count] != NULL)
        count++;
    bool is_python = length > 3 && strcmp(command[0] + length - 3, ".py") == 0;
    if (is_python && access(command[0], R_OK) != 0)
        return tdmi_fail(TDM_ERR_INVALID, "cannot run %s: %s", command[0], strerror(errno));
    tdm_status status = look_up(is_python ? "python3" : command[0], out->path);
    if (status != TDM_OK)
        return status;
    out->argv = tdmi_calloc(count + 3, sizeof *out->argv, "command line");
    if (out->argv == NULL)
        return TDM_ERR_NO_MEMORY;
    size_t used = 0;
    if (is_python) {
        out->argv[used++] = "python3";
        out->argv[used++] = "-u";
    }
    memcpy(out->argv + used, command, count * sizeof *command);
    return TDM_OK;
}

void tdmi_program_free(tdmi_program *program)
{
    tdmi_free(program->argv);
    program->argv = NULL;
}
