/* json_text.h - writing JSON without a library. */
#ifndef TDMI_TRACE_JSON_TEXT_H
#define TDMI_TRACE_JSON_TEXT_H

#include <stdio.h>

/* In quotes. Any bytes: what is no UTF-8 becomes U+FFFD. */
void tdmi_json_put_string(FILE *file, const char *text);
/* Every byte that is no part of UTF-8 becomes '?'. */
void tdmi_utf8_clean(char *text);

#endif
