/* error.h - writing the text that goes with a status code. */
#ifndef TDMI_CORE_ERROR_H
#define TDMI_CORE_ERROR_H

#include <tandem/status.h>

#define TDMI_ERROR_TEXT_MAX 1024

/* Writes this thread's error text and returns `status`, so that a caller can `return tdmi_fail(...)`. */
tdm_status tdmi_fail(tdm_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same with ": <text of errno value err>" behind it; NO_MEMORY and NO_SPACE are recognised from `err`
 * (ENOMEM, ENOSPC, EDQUOT, EADDRINUSE), every other err gives `status`. */
tdm_status tdmi_fail_errno(tdm_status status, int err, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Puts "while ..." behind the text that is there; returns `status` unchanged. */
tdm_status tdmi_fail_while(tdm_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Makes `text` this thread's error text: how a text met by one thread moves to the thread that waits. */
void tdmi_error_set_text(const char *text);

#endif
