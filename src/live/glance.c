/* glance.c - begin, end and optimizer's steps of a trace that libkineto has just written: its keys in their order, nothing else. */
#include "live/glance.h"

#include "core/memory.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define STEP_NAME "\"Optimizer.step#"
#define NAMES_MAX 16 /* optimizers */
#define NS_PER_US 1000

typedef struct optimizer {
    const char *name;
    size_t length;
    int steps;
    int64_t first_ns, last_ns; /* ends */
} optimizer;

/* The decimal behind `key` in [at, end), in thousandths. */
static int64_t number_after(const char *at, const char *end, const char *key)
{
    const char *found = memmem(at, (size_t)(end - at), key, strlen(key));
    if (found == NULL)
        return -1;
    at = found + strlen(key);
    while (at < end && (*at == ' ' || *at == ':'))
        at++;
    int64_t value = 0;
    int decimals = -1;
    for (; at < end && (isdigit((unsigned char)*at) || (*at == '.' && decimals < 0)) && value < INT64_MAX / 100; at++) {
        if (*at == '.')
            decimals = 0;
        else if (decimals < 3) {
            value = value * 10 + (*at - '0');
            decimals += decimals >= 0;
        }
    }
    for (decimals = decimals < 0 ? 0 : decimals; decimals < 3 && value < INT64_MAX / 10; decimals++)
        value *= 10;
    return value;
}

static void note_step(optimizer *of, int *count, const char *name, size_t length, int64_t end_ns)
{
    int i = 0;
    while (i < *count && (of[i].length != length || memcmp(of[i].name, name, length) != 0))
        i++;
    if (i == NAMES_MAX)
        return;
    if (i == *count)
        of[(*count)++] = (optimizer){.name = name, .length = length, .first_ns = end_ns};
    of[i].steps++;
    of[i].last_ns = end_ns;
}

static void look(const char *text, size_t nbytes, tdmi_glance *out)
{
    optimizer of[NAMES_MAX];
    int count = 0;
    const char *const end = text + nbytes;
    const int64_t base = number_after(text, end, "\"baseTimeNanoseconds\"");
    const int64_t base_ns = base > 0 ? base / NS_PER_US : 0;
    for (const char *at = text; (at = memmem(at, (size_t)(end - at), "\"ph\": \"X\"", 9)) != NULL; at += 9) {
        const char *next = memmem(at + 9, (size_t)(end - at - 9), "\"ph\":", 5);
        const char *const stop = next != NULL ? next : end;
        const int64_t begin_ns = number_after(at, stop, "\"ts\""), duration_ns = number_after(at, stop, "\"dur\"");
        const bool is_operator = memmem(at, (size_t)(stop - at), "\"cpu_op\"", 8) != NULL;
        if (begin_ns < 0 || duration_ns < 0 || begin_ns > INT64_MAX / 2 - duration_ns)
            continue;
        const char *name = memmem(at, (size_t)(stop - at), STEP_NAME, strlen(STEP_NAME));
        if (name != NULL) {
            const char *close = memchr(name + 1, '"', (size_t)(stop - name - 1));
            note_step(of, &count, name, (size_t)((close != NULL ? close : stop) - name), base_ns + begin_ns + duration_ns);
        }
        if (!is_operator && name == NULL)
            continue; /* spans of the recording itself are no work */
        out->operators += is_operator;
        if (out->begin_ns == 0 || base_ns + begin_ns < out->begin_ns)
            out->begin_ns = base_ns + begin_ns;
        if (base_ns + begin_ns + duration_ns > out->end_ns)
            out->end_ns = base_ns + begin_ns + duration_ns;
    }
    for (int i = 0; i < count; i++)
        if (of[i].steps > out->steps) {
            out->steps = of[i].steps;
            out->step_s = of[i].steps > 1 ? (double)(of[i].last_ns - of[i].first_ns) / 1e9 / (of[i].steps - 1) : 0;
        }
}

tdm_status tdmi_glance_at(const char *path, tdmi_glance *out)
{
    *out = (tdmi_glance){0};
    struct stat info;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0) {
        const int error = fd < 0 ? errno : EINVAL;
        if (fd >= 0)
            close(fd);
        return tdmi_fail_errno(TDM_ERR_BAD_FILE, error, "cannot read the trace %s", path);
    }
    out->nbytes = (size_t)info.st_size;
    void *text = mmap(NULL, out->nbytes, PROT_READ, MAP_PRIVATE, fd, 0);
    const int error = errno;
    close(fd);
    if (text == MAP_FAILED)
        return tdmi_fail_errno(TDM_ERR_BAD_FILE, error, "cannot read the trace %s", path);
    look(text, out->nbytes, out);
    munmap(text, out->nbytes);
    return TDM_OK;
}
