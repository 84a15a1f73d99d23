/* library.c - opens libucp. UCX stays loaded for good: it has threads and hooks of its own.
 *
 * As it loads, UCX takes over the signals of crashes and starts to print on stdout. The first is undone; what it has to say
 * goes to Tandem's log (level debug: an error reaches the caller as one of ours), unless UCX_LOG_LEVEL asks for more or the
 * program used UCX before. */
#include "transport/ucx/library.h"

#include "core/log.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucs/debug/log_def.h>

#define FILE_NAME "libucp.so.0"

static tdmi_ucx_library library;
static tdm_status opened = TDM_ERR_UNSUPPORTED;
static char why[256];

static ucs_log_func_rc_t take_line(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                                   const ucs_log_component_config_t *component, const char *format, va_list args)
{
    (void)file, (void)line, (void)function, (void)component;
    if (level > UCS_LOG_LEVEL_WARN)
        return UCS_LOG_FUNC_RC_STOP;
    char text[512];
    vsnprintf(text, sizeof text, format, args);
    log_debug(TDM_LOG_TRANSPORT, "UCX: %s", text);
    return UCS_LOG_FUNC_RC_STOP;
}

static void *load(void)
{
    static const int crashes[] = {SIGILL, SIGSEGV, SIGBUS, SIGFPE};
    struct sigaction kept[sizeof crashes / sizeof *crashes];
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        sigaction(crashes[i], NULL, &kept[i]);
    void *handle = dlopen(FILE_NAME, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        sigaction(crashes[i], &kept[i], NULL);
    return handle;
}

static void open_once(void)
{
    const bool was_there = dlopen(FILE_NAME, RTLD_LAZY | RTLD_NOLOAD) != NULL;
    void *handle = load();
    if (handle == NULL) {
        snprintf(why, sizeof why, "transport ucx needs UCX, which this machine lacks: %s", dlerror());
        return;
    }
#define FIND(name)                                                                                                     \
    *(void **)&library.name = dlsym(handle, #name);                                                                    \
    if (library.name == NULL) {                                                                                        \
        snprintf(why, sizeof why, "transport ucx: %s has no function %s; it is too old", FILE_NAME, #name);            \
        return;                                                                                                        \
    }
    TDMI_UCX_FUNCTIONS(FIND)
#undef FIND
    __typeof__(&ucs_log_push_handler) push;
    *(void **)&push = dlsym(handle, "ucs_log_push_handler");
    if (push != NULL && !was_there && getenv("UCX_LOG_LEVEL") == NULL)
        push(take_line);
    opened = TDM_OK;
}

tdm_status tdmi_ucx_library_open(const tdmi_ucx_library **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_once);
    *out = &library;
    return opened == TDM_OK ? TDM_OK : tdmi_fail(opened, "%s", why);
}
