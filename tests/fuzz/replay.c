/* replay.c - a main() for fuzz targets without a fuzzer: runs every file of a corpus folder, whole and cut at each of its first
 * and last bytes, so that `meson test` replays what fuzzing once found.  usage: fuzz_X CORPUS-FOLDER */
#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CUTS 64

/* A fresh block of exactly `size` bytes, so that sanitizers see a read behind it. */
static void run(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);
    if (copy == NULL)
        exit(1);
    for (size_t i = 0; i < size; i++)
        copy[i] = data[i];
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static int replay(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return -1;
    static uint8_t data[4u << 20];
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    run(data, size);
    for (size_t cut = 0; cut < size && cut < CUTS; cut++) {
        run(data, cut);
        run(data, size - 1 - cut);
    }
    return 0;
}

int main(int argc, char **argv)
{
    DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
    if (dir == NULL) {
        fprintf(stderr, "usage: %s CORPUS-FOLDER\n", argv[0]);
        return 2;
    }
    int files = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
        if (replay(path) != 0) {
            fprintf(stderr, "cannot read %s\n", path);
            return 1;
        }
        files++;
    }
    closedir(dir);
    printf("%d files replayed\n", files);
    return files > 0 ? 0 : 1;
}
