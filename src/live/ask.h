/* ask.h - one request to some processes: handed out at their polls, until their files are there. */
#ifndef TDMI_LIVE_ASK_H
#define TDMI_LIVE_ASK_H

#include "live/live.h"
#include "live/request.h"

#define TDMI_SEATS_MAX 1024

typedef struct tdmi_seat {
    int rank;
    pid_t pid;
    char file[256];             /* that it is to write */
    char text[TDMI_REQUEST_MAX];
    char missing[256];          /* why there is no file; "": there is */
} tdmi_seat;

/* When these ask: every period, `first` after the longest pause, and all others within the spread behind it. */
typedef struct tdmi_turn {
    size_t first;
    int64_t period_ns, spread_ns;
} tdmi_turn;
tdmi_turn tdmi_turn_of(const tdm_live *live, const tdmi_seat *seats, size_t count);

/* tdmi_ask - what is asked of each seat: the same, each into a file of its own: `name` with the rank where it has %d.
 *   request   without its path
 *   patience_s  from the first that takes the request up, for all files
 * When it returns TDM_OK every seat has its file, or its `missing` says why not.
 * Errors  those of tdmi_live_goes_on, and of tdmi_request_write */
tdm_status tdmi_ask(tdm_live *live, tdmi_seat *seats, size_t count, tdmi_request request, const char *name, double patience_s);

#endif
