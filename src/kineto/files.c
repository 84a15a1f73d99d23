/* files.c - folders, links, and ranks in names. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "kineto/files.h"

#include "core/memory.h"
#include "kineto/reader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES_MAX = 1 << 16 };

static void add_note(tdmi_files *files, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_note(tdmi_files *files, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    tdmi_note_add(&files->note, &files->note_count, format, arguments);
    va_end(arguments);
}

static uint64_t text_in(const char *path, uint64_t nbytes)
{
    enum { INFLATES_TO = 20 }; /* times as much: 13 to 30 in traces */
    unsigned char head[64];
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const ssize_t got = fd < 0 ? 0 : read(fd, head, sizeof head);
    if (fd >= 0)
        close(fd);
    if (got >= 2 && head[0] == 0x1f && head[1] == 0x8b)
        return nbytes * INFLATES_TO;
    ssize_t at = got >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (at < got && strchr(" \t\r\n", head[at]) != NULL)
        at++;
    return at < got && head[at] != '{' && head[at] != '[' ? 0 : nbytes;
}

static tdm_status add(tdmi_files *files, const char *path, const struct stat *about, bool named)
{
    for (size_t i = 0; i < files->count; i++)
        if (files->file[i].device == about->st_dev && files->file[i].inode == about->st_ino) {
            add_note(files, "%s is %s under another name, and read once", path, files->file[i].path);
            return TDM_OK;
        }
    if (TDMI_READER_ROOM(files->file, files->count, files->capacity) != TDM_OK)
        return TDM_ERR_NO_MEMORY;
    char *copy = tdmi_strdup(path, "trace files");
    if (copy == NULL)
        return TDM_ERR_NO_MEMORY;
    files->file[files->count++] = (tdmi_file){
        .path = copy, .named = named, .text_bytes = text_in(path, (uint64_t)about->st_size), .device = about->st_dev, .inode = about->st_ino};
    return TDM_OK;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static tdm_status add_from_folder(tdmi_files *files, const char *folder, const char *name)
{
    char path[4096];
    struct stat about;
    if (name[0] == '.' || (size_t)snprintf(path, sizeof path, "%s%s%s", folder, ends_with(folder, "/") ? "" : "/", name) >= sizeof path)
        return TDM_OK;
    if (stat(path, &about) != 0) {
        add_note(files, "%s is left out: %s", path, strerror(errno));
        return TDM_OK;
    }
    if (S_ISDIR(about.st_mode)) {
        if (files->inside == NULL)
            files->inside = tdmi_strdup(path, "trace files");
        return files->inside != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
    }
    if (!S_ISREG(about.st_mode) || ends_with(name, ".tmp")) {
        add_note(files, "%s is left out: it is %s", path, S_ISREG(about.st_mode) ? "still being written, by its name" : "no plain file");
        return TDM_OK;
    }
    return add(files, path, &about, false);
}

static tdm_status list_folder(tdmi_files *files, const char *folder)
{
    struct dirent **entry;
    const int count = scandir(folder, &entry, NULL, versionsort);
    if (count < 0) {
        files->missing++;
        add_note(files, "%s cannot be listed: %s", folder, strerror(errno));
        return errno == ENOMEM ? TDM_ERR_NO_MEMORY : TDM_OK;
    }
    tdm_status status = TDM_OK;
    for (int i = 0; i < count; i++) {
        if (status == TDM_OK && files->count < FILES_MAX)
            status = add_from_folder(files, folder, entry[i]->d_name);
        free(entry[i]);
    }
    free(entry);
    if (files->count == FILES_MAX)
        add_note(files, "%s holds more files than the %d that are looked at", folder, FILES_MAX);
    return status;
}

tdm_status tdmi_files_list(const char *const *path, size_t count, tdmi_files *out)
{
    tdmi_files files = {0};
    tdm_status status = TDM_OK;
    for (size_t i = 0; i < count && status == TDM_OK; i++) {
        struct stat about;
        if (stat(path[i], &about) != 0) {
            files.missing++;
            add_note(&files, "%s cannot be read: %s", path[i], strerror(errno));
        } else if (S_ISDIR(about.st_mode)) {
            status = list_folder(&files, path[i]);
        } else if (S_ISREG(about.st_mode)) {
            status = add(&files, path[i], &about, true);
        } else {
            files.missing++;
            add_note(&files, "%s is no plain file; a trace is one", path[i]);
        }
    }
    if (status != TDM_OK) {
        tdmi_files_drop(&files);
        return status;
    }
    *out = files;
    return TDM_OK;
}

void tdmi_files_drop(tdmi_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        tdmi_free(files->file[i].path);
    tdmi_free(files->file);
    tdmi_notes_free(files->note, files->note_count);
    tdmi_free(files->inside);
    *files = (tdmi_files){0};
}

int tdmi_files_rank_of_name(const char *path)
{
    static const char *const words[] = {"rank", "worker"};
    const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    for (size_t w = 0; w < sizeof words / sizeof *words; w++)
        for (const char *at = strcasestr(name, words[w]); at != NULL; at = strcasestr(at + 1, words[w])) {
            const char *digits = at + strlen(words[w]);
            digits += strspn(digits, "-_=.");
            const size_t n = strspn(digits, "0123456789");
            if (n > 0 && n < 8)
                return atoi(digits);
        }
    return -1;
}
