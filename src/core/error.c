/* error.c - status names and the per-thread error text. */
#include "core/error.h"

#include "core/printable.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char text[TDMI_ERROR_TEXT_MAX];

const char *tdm_status_name(tdm_status status)
{
    switch (status) {
#define NAME(name, number, text_)                                                                                      \
    case TDM_##name:                                                                                                   \
        return "TDM_" #name;
        TDM_STATUS_MAP(NAME)
#undef NAME
    }
    return "TDM_ERR_UNKNOWN";
}

const char *tdm_status_text(tdm_status status)
{
    switch (status) {
#define TEXT(name, number, text_)                                                                                      \
    case TDM_##name:                                                                                                   \
        return text_;
        TDM_STATUS_MAP(TEXT)
#undef TEXT
    }
    return "unknown status";
}

const char *tdm_error_text(void)
{
    return text;
}

void tdmi_error_set_text(const char *from)
{
    if (from != text)
        snprintf(text, sizeof text, "%s", from);
}

tdm_status tdmi_fail(tdm_status status, const char *format, ...)
{
    char fresh[TDMI_ERROR_TEXT_MAX]; /* the arguments may point into the old text */
    va_list args;
    va_start(args, format);
    vsnprintf(fresh, sizeof fresh, format, args);
    va_end(args);
    tdmi_printable(fresh, true);
    memcpy(text, fresh, sizeof text);
    return status;
}

tdm_status tdmi_fail_errno(tdm_status status, int err, const char *format, ...)
{
    char fresh[TDMI_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(fresh, sizeof fresh, format, args);
    va_end(args);
    size_t used = strlen(fresh);
    snprintf(fresh + used, sizeof fresh - used, ": %s", strerror(err));
    tdmi_printable(fresh, true);
    memcpy(text, fresh, sizeof text);
    switch (err) {
    case ENOMEM:
        return TDM_ERR_NO_MEMORY;
    case ENOSPC:
    case EDQUOT:
        return TDM_ERR_NO_SPACE;
    case EADDRINUSE:
        return TDM_ERR_ADDRESS_IN_USE;
    default:
        return status;
    }
}

tdm_status tdmi_fail_while(tdm_status status, const char *format, ...)
{
    char more[TDMI_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(more, sizeof more, format, args);
    va_end(args);
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "; while %s", more);
    tdmi_printable(text + used, true);
    return status;
}
