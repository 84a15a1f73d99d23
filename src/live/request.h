/* request.h - what is asked of a rank: the text of a configuration for libkineto. Pure. */
#ifndef TDMI_LIVE_REQUEST_H
#define TDMI_LIVE_REQUEST_H

#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>

#define TDMI_REQUEST_MAX 4096 /* bytes of a text, with its NUL */
#define TDMI_REQUEST_ENDING ".pt.trace.json"

typedef struct tdmi_request {
    const char *path;    /* ends in .pt.trace.json; the rank puts _PID before that */
    int iterations;      /* > 0: so many steps of the optimizer, from the next one on whose number is a multiple of `multiple`. There is a step of
                          * warm-up before: without it a rank that stands at a multiple begins at once, in the middle of a step */
    int multiple;
    int64_t start_ms;    /* since 1970, with iterations == 0; 0: as soon as it can */
    int duration_ms;     /* with iterations == 0, and for a rank whose optimizer has made no step yet */
    bool shapes, stacks;
} tdmi_request;

/* libkineto checks nothing: a line it cannot read ends its reading, and what stood before is carried out.
 * Errors  TDM_ERR_INVALID the path cannot be said in a configuration (names the character) */
tdm_status tdmi_request_write(const tdmi_request *request, char out[TDMI_REQUEST_MAX]);
/* The file that process `pid` will leave. */
void tdmi_request_file(const tdmi_request *request, int pid, char *out, size_t nbytes);
/* The multiple for ranks that take their requests up within `spread_s` of each other and whose steps take `step_s`: each rounds up
 * from its own step, so that few spreads may fall on a multiple. */
int tdmi_request_multiple(double step_s, double spread_s);

#endif
