/* names.c - what HTA takes a name for. Its patterns are anchored at the beginning, and a dot is no line feed. */
#include "hta/rank.h"

#include <string.h>

static const char step[] = "ProfilerStep";

static bool begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

/* ".*word" of a regular expression: `word` in the first line. */
static bool in_first_line(const char *text, const char *word)
{
    const char *at = strstr(text, word);
    return at != NULL && memchr(text, '\n', (size_t)(at - text)) == NULL;
}

static bool one_of(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static tdmi_hta_type type_of(const char *name)
{
    if (begins(name, "nccl") && in_first_line(name + 4, "Kernel"))
        return TDMI_HTA_COMMUNICATION;
    if (begins(name, "Memcpy") || begins(name, "Memset") || begins(name, "dma"))
        return TDMI_HTA_MEMORY;
    return in_first_line(name, "Memcpy") || in_first_line(name, "Sync") ? TDMI_HTA_OTHER : TDMI_HTA_COMPUTATION;
}

/* The digits of "ProfilerStep # 12"; NULL: it is named otherwise. */
static const char *digits_of(const char *name)
{
    static const char space[] = " \t\n\r\f\v";
    const char *at = name + sizeof step - 1;
    at += strspn(at, space);
    if (*at++ != '#')
        return NULL;
    at += strspn(at, space);
    return *at >= '0' && *at <= '9' ? at : NULL;
}

int64_t tdmi_hta_step_number(const char *name)
{
    int64_t number = 0;
    for (const char *at = digits_of(name); at != NULL && *at >= '0' && *at <= '9'; at++)
        if (number < INT64_MAX / 10 - 1)
            number = number * 10 + (*at - '0');
    return number;
}

unsigned tdmi_hta_name_flags(const char *name)
{
    static const char *const enqueues[] = {
        "cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync", "hipLaunchKernel",
        "hipExtModuleLaunchKernel", "hipMemsetAsync", "hipMemcpyAsync", "hipMemcpyWithStream",
        "runFunction - job_prep_and_submit_for_execution",
    };
    static const char *const launches[] = {
        "cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync",
        "runFunction - job_prep_and_submit_for_execution",
    };
    unsigned flags = type_of(name);
    if (one_of(name, enqueues, sizeof enqueues / sizeof *enqueues))
        flags |= TDMI_HTA_NAME_ENQUEUES;
    if (one_of(name, launches, sizeof launches / sizeof *launches))
        flags |= TDMI_HTA_NAME_LAUNCHES;
    if (strstr(name, step) != NULL)
        flags |= TDMI_HTA_NAME_STEP;
    if (begins(name, step) && digits_of(name) != NULL)
        flags |= TDMI_HTA_NAME_STEP_NUMBER;
    if (strcmp(name, "Event Sync") == 0 || strcmp(name, "Context Sync") == 0)
        flags |= TDMI_HTA_NAME_SYNC;
    if (begins(name, "ncclKernel"))
        flags |= TDMI_HTA_NAME_NCCL_KERNEL;
    return flags;
}
