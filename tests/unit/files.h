/* files.h - small files for tests, in a directory of the test's own that goes when the test ends. */
#ifndef TEST_DATA_FILES_H
#define TEST_DATA_FILES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char files_dir[64];

static inline int files_begin(void **state)
{
    (void)state;
    snprintf(files_dir, sizeof files_dir, "/tmp/tandem-test-XXXXXX");
    return mkdtemp(files_dir) == NULL;
}

static inline int files_end(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", files_dir);
    return system(command);
}

/* The path of `name` in that directory; static, four at a time. */
static inline const char *files_path(const char *name)
{
    static char paths[4][128];
    static int turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", files_dir, name);
    return path;
}

static inline const char *files_write(const char *name, const void *data, size_t nbytes)
{
    const char *path = files_path(name);
    FILE *file = fopen(path, "wb");
    if (file == NULL || (nbytes > 0 && fwrite(data, nbytes, 1, file) != 1) || fclose(file) != 0)
        abort();
    return path;
}

#endif
