/* json_text.h - writing JSON without a library. */
#ifndef TDMI_TRACE_JSON_TEXT_H
#define TDMI_TRACE_JSON_TEXT_H

#include <stdio.h>

/* In quotes. Any bytes: what is no UTF-8 becomes U+FFFD. */
void tdmi_json_put_string(FILE *file, const char *text);

#endif
