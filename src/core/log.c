/* log.c - levels from TANDEM_LOG, one write() a line so that ranks' lines never mix. */
#include "core/log.h"

#include "core/config.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const area_names[] = {
#define NAME(NAME_, name) name,
    TDMI_AREA_MAP(NAME)
#undef NAME
};
static const char *const level_names[] = {"error", "warn", "info", "debug", "trace"};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static tdmi_level levels[TDM_LOG_AREA_COUNT]; /* written once under `once` */
static void (*sink_function)(tdmi_area, tdmi_level, const char *, void *);
static void *sink_arg;

static int level_of(const char *name, size_t length)
{
    for (int i = 0; i <= TDMI_LEVEL_TRACE; i++)
        if (strlen(level_names[i]) == length && strncmp(level_names[i], name, length) == 0)
            return i;
    return -1;
}

static void read_levels(void)
{
    for (int i = 0; i < TDM_LOG_AREA_COUNT; i++)
        levels[i] = TDMI_LEVEL_WARN;
    const char *at = tdmi_config_text(TDMI_CONFIG_LOG);
    while (*at != '\0') {
        size_t length = strcspn(at, ",");
        const char *equals = memchr(at, '=', length);
        const char *name = equals != NULL ? equals + 1 : at;
        int level = level_of(name, length - (size_t)(name - at)), used = 0;
        for (int i = 0; level >= 0 && i < TDM_LOG_AREA_COUNT; i++) {
            size_t area_length = equals != NULL ? (size_t)(equals - at) : 0;
            if (equals == NULL || (strlen(area_names[i]) == area_length && strncmp(area_names[i], at, area_length) == 0)) {
                levels[i] = (tdmi_level)level;
                used = 1;
            }
        }
        if (!used)
            fprintf(stderr, "tandem: TANDEM_LOG: \"%.*s\" is no LEVEL or AREA=LEVEL and has no effect\n", (int)length, at);
        at += length;
        if (*at == ',')
            at++;
    }
}

int tdmi_log_enabled(tdmi_area area, tdmi_level level)
{
    pthread_once(&once, read_levels);
    return level <= levels[area];
}

void tdmi_log_set_sink(void (*sink)(tdmi_area, tdmi_level, const char *, void *), void *arg)
{
    sink_function = sink;
    sink_arg = arg;
}

void tdmi_log(tdmi_area area, tdmi_level level, const char *format, ...)
{
    if (!tdmi_log_enabled(area, level))
        return;
    char line[2048], host[64] = "?";
    gethostname(host, sizeof host - 1);
    struct timespec now;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    const char *rank = getenv("RANK"); /* for people only: in a process of several ranks there is none */
    int used = snprintf(line, sizeof line, "[%s %s %d] %02d:%02d:%02d.%03ld %s %s ", rank != NULL ? rank : "-", host,
                        (int)getpid(), local.tm_hour, local.tm_min, local.tm_sec, now.tv_nsec / 1000000, area_names[area],
                        level_names[level]);
    va_list args;
    va_start(args, format);
    int more = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, args);
    va_end(args);
    size_t length = (size_t)used + (size_t)(more < 0 ? 0 : more);
    if (length > sizeof line - 2)
        length = sizeof line - 2;
    line[length] = '\0';
    if (sink_function != NULL) {
        sink_function(area, level, line, sink_arg);
        return;
    }
    line[length++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, length);
    (void)written; /* a closed stderr is no reason to stop */
}
