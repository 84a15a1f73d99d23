/* runs.h - which pages of an address range are used and which are free, in runs of neighbours.
 *
 * Two-level segregated fit: free runs hang in bins by size, a power of two split in 16, and bitmaps say which bins hold any, so taking
 * and giving back cost a few steps however many runs there are. Pages are of a kind; runs of different kinds are never one run.
 * Source  Masmano et al., TLSF: a new dynamic memory allocator for real-time systems, ECRTS 2004, doi:10.1109/EMRTS.2004.1311009
 * Thread  the caller has a lock. */
#ifndef TANDEM_TORCH_RUNS_H
#define TANDEM_TORCH_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RUNS_PRIVATE, RUNS_SHARED, RUNS_KINDS };
#define RUNS_NONE UINT32_MAX

typedef enum { RUN_INSIDE, RUN_FREE, RUN_USED } run_state;

typedef struct run {      /* of the run's first page; the last one repeats pages and state */
    uint32_t pages;
    uint32_t next, prev;  /* in the bin; RUNS_NONE: the end */
    uint32_t dirty;       /* of a free run: at most so many of its pages hold memory */
    uint8_t kind, state;
} run;

#define RUNS_SPLIT 16
typedef struct runs {
    run *table;           /* [pages]; address space, touched where runs begin and end */
    uint32_t pages;
    uint32_t bins[RUNS_KINDS][32][RUNS_SPLIT];
    uint32_t powers[RUNS_KINDS];     /* bit p: some of bins[p] hold runs */
    uint16_t parts[RUNS_KINDS][32];  /* bit i: bins[p][i] does */
    uint64_t free_pages[RUNS_KINDS], dirty_pages[RUNS_KINDS];
} runs;

/* One free run of `pages` private pages. False: no address space. */
bool runs_open(runs *r, uint32_t pages);
void runs_close(runs *r);
/* The first page of `pages` free ones of that kind, from a multiple of `align` on: the rest of their run stays free. RUNS_NONE: there
 * are none. */
uint32_t runs_take(runs *r, int kind, uint32_t pages, uint32_t align);
/* A free run of that kind as it is, with `pages` pages or up to an eighth more. */
uint32_t runs_take_whole(runs *r, int kind, uint32_t pages);
/* Makes a used run free, of that kind; merge: one run with its free neighbours. Gives the first page of what it is part of. dirty:
 * pages of it that hold memory. */
uint32_t runs_give(runs *r, uint32_t first, int kind, uint32_t dirty, bool merge);
/* Some free run of that kind, or RUNS_NONE. */
uint32_t runs_any(const runs *r, int kind);
/* The free run at `first` holds no memory any more. */
void runs_clean(runs *r, uint32_t first);
/* Takes the free run at `first`. */
void runs_take_this(runs *r, uint32_t first);

#endif
